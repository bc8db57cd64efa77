/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "print.h"
#include "privilege.h"

#define OBJECT "libautobuf-run.so"
#define SCRIPTS_MOST 5 /* a script that a script runs ...: the kernel follows no more */
#define HEADERS_MOST 256
#define LINKER_BYTES 256
#define NAMES_BYTES_MOST (64U << 20)
#define NOTE_BYTES_MOST 4096U
#define NT_GO_BUILD_ID 4U
#define OWN_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

enum { EXIT_OWN = 125, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 }; /* as env(1) and timeout(1) */

struct image {
    int fd;
    ElfW(Phdr) headers[HEADERS_MOST];
    size_t count;
};

static bool read_at(int fd, uint64_t offset, void *data, size_t bytes)
{
    return offset <= INT64_MAX && pread(fd, data, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool is_program(const char *path)
{
    struct stat file;

    return stat(path, &file) == 0 && S_ISREG(file.st_mode) && access(path, X_OK) == 0;
}

bool program_find(const char *name, char *path, size_t cap)
{
    const char *folders = getenv("PATH");

    if (strchr(name, '/'))
        return (size_t)snprintf(path, cap, "%s", name) < cap && is_program(path);
    if (!folders)
        folders = "/bin:/usr/bin";
    for (;;) {
        size_t length = strcspn(folders, ":");
        const char *folder = length ? folders : ".";

        if ((size_t)snprintf(path, cap, "%.*s/%s", length ? (int)length : 1, folder, name) < cap && is_program(path))
            return true;
        if (!folders[length])
            return false;
        folders += length + 1;
    }
}

static bool has_privilege(int fd)
{
    struct stat file;

    if (fstat(fd, &file) < 0)
        return false;
    if ((file.st_mode & S_ISUID && file.st_uid != getuid()) ||
        ((file.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && file.st_gid != getgid()))
        return true;
    return getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

static const ElfW(Phdr) *header_of(const struct image *image, uint32_t type)
{
    for (size_t i = 0; i < image->count; i++)
        if (image->headers[i].p_type == type)
            return &image->headers[i];
    return NULL;
}

/*
 * Whether a run-time linker other than glibc's is to load it. Its names: ld-linux*, on some machines ld64.so.1 or .2,
 * or ld.so.1.
 */
static bool is_other_library(const struct image *image, const ElfW(Phdr) *linker)
{
    static const char *const names[] = {"ld64.so.1", "ld64.so.2", "ld.so.1"};
    char path[LINKER_BYTES] = "";
    size_t bytes = linker->p_filesz < sizeof path - 1 ? (size_t)linker->p_filesz : sizeof path - 1;
    const char *name;

    if (!read_at(image->fd, linker->p_offset, path, bytes))
        return false;
    name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return false;
    return strncmp(name, "ld-linux", strlen("ld-linux")) != 0;
}

/* Go leaves a note of the program's build. */
static bool is_go(const struct image *image)
{
    char notes[NOTE_BYTES_MOST];

    for (size_t i = 0; i < image->count; i++) {
        size_t bytes = image->headers[i].p_filesz < sizeof notes ? (size_t)image->headers[i].p_filesz : sizeof notes;
        uint64_t at = 0;
        ElfW(Nhdr) note;

        if (image->headers[i].p_type != PT_NOTE || !read_at(image->fd, image->headers[i].p_offset, notes, bytes))
            continue;
        while (at + sizeof note + 4 <= bytes) {
            memcpy(&note, notes + at, sizeof note);
            if (note.n_namesz == 4 && note.n_type == NT_GO_BUILD_ID && memcmp(notes + at + sizeof note, "Go\0", 4) == 0)
                return true;
            at += sizeof note + (((uint64_t)note.n_namesz + 3) & ~3ULL) + (((uint64_t)note.n_descsz + 3) & ~3ULL);
        }
    }
    return false;
}

/* Where in the file an address is; false: nowhere. */
static bool offset_of(const struct image *image, uint64_t address, uint64_t *offset)
{
    for (size_t i = 0; i < image->count; i++) {
        const ElfW(Phdr) *part = &image->headers[i];

        if (part->p_type == PT_LOAD && address >= part->p_vaddr && address - part->p_vaddr < part->p_filesz) {
            *offset = part->p_offset + (address - part->p_vaddr);
            return true;
        }
    }
    return false;
}

/* The names of the symbols that it takes and gives, in fresh memory; NULL: it has none. */
static char *names_of(const struct image *image, size_t *bytes)
{
    const ElfW(Phdr) *dynamic = header_of(image, PT_DYNAMIC);
    uint64_t address = 0, offset;
    ElfW(Dyn) entry;
    char *names;

    *bytes = 0;
    for (uint64_t at = 0; dynamic && at + sizeof entry <= dynamic->p_filesz; at += sizeof entry) {
        if (!read_at(image->fd, dynamic->p_offset + at, &entry, sizeof entry) || entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_STRTAB)
            address = entry.d_un.d_ptr;
        if (entry.d_tag == DT_STRSZ && entry.d_un.d_val <= NAMES_BYTES_MOST)
            *bytes = entry.d_un.d_val;
    }
    if (!*bytes || !offset_of(image, address, &offset))
        return NULL;
    names = malloc(*bytes);
    if (names && read_at(image->fd, offset, names, *bytes))
        return names;
    free(names);
    return NULL;
}

/* The sanitizers that keep books of a program's memory want to be loaded first. */
static bool is_sanitized(const struct image *image)
{
    static const char *const marks[] = {"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init"};
    size_t bytes;
    char *names = names_of(image, &bytes);
    bool found = false;

    for (size_t i = 0; names && i < sizeof marks / sizeof *marks; i++)
        found |= memmem(names, bytes, marks[i], strlen(marks[i]) + 1) != NULL;
    free(names);
    return found;
}

/* The machine that this program is built for, as ELF calls it; EM_NONE: it cannot be told. */
static ElfW(Half) own_machine(void)
{
    ElfW(Ehdr) own = {.e_machine = EM_NONE};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)read_at(fd, 0, &own, sizeof own);
        close(fd);
    }
    return own.e_machine;
}

/* Without a run-time linker nothing loads the object. Go makes its system calls by itself. */
static const char *unreached_image(int fd)
{
    struct image image = {.fd = fd};
    ElfW(Ehdr) header;
    const ElfW(Phdr) *linker;
    ElfW(Half) machine = own_machine();

    if (!read_at(fd, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    if (header.e_ident[EI_CLASS] != OWN_CLASS || (machine != EM_NONE && header.e_machine != machine))
        return "built for another machine";
    image.count = header.e_phnum < HEADERS_MOST ? header.e_phnum : HEADERS_MOST;
    if (header.e_phentsize != sizeof *image.headers ||
        !read_at(fd, header.e_phoff, image.headers, image.count * sizeof *image.headers))
        return NULL;
    linker = header_of(&image, PT_INTERP);
    if (is_go(&image))
        return "a Go program";
    if (!linker)
        return "static";
    if (is_other_library(&image, linker))
        return "uses another C library";
    return is_sanitized(&image) ? "has a sanitizer" : NULL;
}

/* Whether a file is a script, and the program that runs it. */
static bool script_of(int fd, char *path, size_t cap)
{
    char line[256];
    ssize_t bytes = pread(fd, line, sizeof line - 1, 0);
    size_t blank, length;

    if (bytes < 3 || memcmp(line, "#!", 2) != 0)
        return false;
    line[bytes] = '\0';
    blank = 2 + strspn(line + 2, " \t");
    length = strcspn(line + blank, " \t\n");
    return length && (size_t)snprintf(path, cap, "%.*s", (int)length, line + blank) < cap;
}

const char *program_unreached(const char *path)
{
    char script[256];

    for (int i = 0; i < SCRIPTS_MOST; i++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        const char *why = NULL;
        bool is_script;

        if (fd < 0)
            return NULL;
        is_script = script_of(fd, script, sizeof script);
        if (!is_script) /* with privilege, the linker loads nothing for others */
            why = has_privilege(fd) ? "set-user-ID, or with capabilities" : unreached_image(fd);
        close(fd);
        if (!is_script)
            return why;
        path = script;
    }
    return NULL;
}

/* Whether system calls of this process, and so of what it runs, are filtered. */
static bool is_filtered(void)
{
    FILE *file = fopen("/proc/self/status", "re"); /* prctl(2) would tell, too, but a filter may kill for it */
    char *line = NULL;
    size_t room = 0;
    int mode = 0;

    while (file && getline(&line, &room, file) >= 0 && sscanf(line, "Seccomp: %d", &mode) != 1)
        ;
    free(line);
    if (file)
        fclose(file);
    return mode != 0;
}

/* A variable of the environment: text that may be as long as it likes. false: no memory. */
static __attribute__((format(printf, 2, 3))) bool put(const char *name, const char *format, ...)
{
    char *text;
    va_list args;
    bool done;

    va_start(args, format);
    done = vasprintf(&text, format, args) >= 0;
    va_end(args);
    if (!done)
        return false;
    done = setenv(name, text, 1) == 0;
    free(text);
    return done;
}

/* The object beside this command: of the build folder that it runs in, of the same tree, or where it was installed. */
static bool find_object(char *path, size_t cap)
{
    static const char *const beside[] = {"../preload", "../" RUN_LIBDIR "/autobuf"};
    char folder[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);

    folder[length > 0 ? length : 0] = '\0';
    *(strrchr(folder, '/') ? strrchr(folder, '/') : folder) = '\0';
    for (size_t i = 0; folder[0] && i < sizeof beside / sizeof *beside; i++)
        if ((size_t)snprintf(path, cap, "%s/%s/" OBJECT, folder, beside[i]) < cap && access(path, R_OK) == 0)
            return true;
    return (size_t)snprintf(path, cap, RUN_DIR "/" OBJECT) < cap && access(path, R_OK) == 0;
}

/* What the object is to do, as preload/settings.h says. */
static bool put_settings(const struct arguments *want)
{
    char most[32] = "";

    if (want->most_bytes)
        snprintf(most, sizeof most, ",max=%llu", (unsigned long long)want->most_bytes);
    return put("AUTOBUF_RUN", "intent=%s%s%s%s%s",
               intent_name(want->intent), most,
               want->keep_sizes ? ",keep-sizes" : "", want->probe ? ",probe" : "", want->report ? ",report" : "");
}

/* The program may change its folder before the file is opened. */
static bool put_log(const char *file)
{
    const char *given = getenv("AUTOBUF"); /* also where this command is privileged: the program is not */
    char folder[PATH_MAX];

    if (!file || (given && strcmp(given, "off") == 0))
        return true;
    if (file[0] == '/')
        return put("AUTOBUF", "log=%s", file);
    return getcwd(folder, sizeof folder) && put("AUTOBUF", "log=%s/%s", folder, file);
}

/* In front of what is there. */
static bool put_object(const char *object)
{
    const char *old = getenv("LD_PRELOAD"), *options = getenv("ASAN_OPTIONS");

    if (old && strstr(old, object))
        return true;
    /* A child that has a sanitizer would end because the sanitizer is not the first object. */
    return put("ASAN_OPTIONS", "%s%sverify_asan_link_order=0", options ? options : "",
               options && *options ? ":" : "") &&
           put("LD_PRELOAD", "%s%s%s", object, old && *old ? ":" : "", old ? old : "");
}

/*
 * What inetd starts has a connection as all three: a line would be among its data. That standard error is a socket
 * alone says nothing: systemd's journal is one. A filter of system calls may kill for calls that would tell more.
 */
static bool is_connection(void)
{
    struct stat in, error;

    return fstat(STDIN_FILENO, &in) == 0 && fstat(STDERR_FILENO, &error) == 0 && S_ISSOCK(error.st_mode) &&
           in.st_dev == error.st_dev && in.st_ino == error.st_ino;
}

/* false: said why. */
static bool prepare(const struct arguments *want, const char *program)
{
    char object[PATH_MAX];
    /* this process might be killed for a call that the program does not make */
    const char *why = is_filtered() ? "its system calls are filtered" : program_unreached(program);

    if (why) {
        if (!is_connection())
            fprintf(stderr, "autobuf run: %s cannot be reached: %s; autobufd(8) reaches it from outside, and so does "
                            "autobuf watch --tune PID\n", program, why);
        return true;
    }
    if (!find_object(object, sizeof object)) {
        fprintf(stderr, "autobuf run: %s is missing\n", object);
        return false;
    }
    if (strpbrk(object, " :")) {
        fprintf(stderr, "autobuf run: %s: the linker preloads no file with a space or a colon in its name\n", object);
        return false;
    }
    if (put_settings(want) && put_log(want->log) && put_object(object))
        return true;
    fprintf(stderr, "autobuf run: %s\n", strerror(errno));
    return false;
}

int run_program(const struct arguments *want)
{
    char program[PATH_MAX];
    const char *name = want->operands[0];
    int error = getauxval(AT_SECURE) ? drop_privileges() : 0; /* what the file may is not the program's */

    if (error < 0) {
        fprintf(stderr, "autobuf run: %s\n", strerror(-error));
        return EXIT_OWN;
    }
    if (program_find(name, program, sizeof program) && !prepare(want, program))
        return EXIT_OWN;
    execvp(name, want->operands);
    error = errno;
    fprintf(stderr, "autobuf run: %s: %s\n", name, strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPTS_MOST 5 /* a script that a script runs ...: the kernel follows no more */
#define HEADERS_MOST 256
#define LINKER_BYTES 256
#define NAMES_BYTES_MOST (64U << 20)
#define NOTE_BYTES_MOST 4096U
#define NT_GO_BUILD_ID 4U

#define OWN_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

/* One file that is open, and its program headers. */
struct image {
    int fd;
    ElfW(Phdr) headers[HEADERS_MOST];
    size_t count;
};

/* Reads just so many bytes. */
static bool read_at(int fd, uint64_t offset, void *data, size_t bytes)
{
    return offset <= INT64_MAX && pread(fd, data, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* ------------------------------------------------------------------------------------- finding */

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

/* ------------------------------------------------------------------------------------- looking */

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

bool program_is_filtered(void)
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

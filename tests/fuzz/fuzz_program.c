/* SPDX-License-Identifier: MIT */
/*
 * A file that `autobuf run` reads. First byte: 1: it is made one of this machine; 2: a script
 * is run by it; 4: one by itself. The rest is the file. What it is said to be, it is; no
 * descriptor stays.
 */
#include "fuzz.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arguments.h"

#define PATH_BYTES 32

static int file_of(const void *data, size_t len, char path[PATH_BYTES])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len);
    snprintf(path, PATH_BYTES, "/proc/self/fd/%d", fd);
    return fd;
}

/* The lowest descriptor that is free. */
static int free_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    close(fd);
    return fd;
}

static bool has(const uint8_t *data, size_t len, const char *text, size_t bytes)
{
    return memmem(data, len, text, bytes);
}

static bool names_sanitizer(const uint8_t *data, size_t len)
{
    return has(data, len, "__asan_init", 12) || has(data, len, "__tsan_init", 12) ||
           has(data, len, "__msan_init", 12) || has(data, len, "__hwasan_init", 14);
}

static bool is(const char *why, const char *words)
{
    return why && strcmp(why, words) == 0;
}

static void check_why(const uint8_t *data, size_t len, const char *why)
{
    CHECK(!why || is(why, "static") || is(why, "a Go program") || is(why, "has a sanitizer") ||
          is(why, "built for another machine") || is(why, "uses another C library"));
    CHECK(!why || (len >= sizeof(ElfW(Ehdr)) && memcmp(data, ELFMAG, SELFMAG) == 0));
    CHECK(!is(why, "a Go program") || has(data, len, "Go\0", 4));
    CHECK(!is(why, "has a sanitizer") || names_sanitizer(data, len));
    CHECK(!is(why, "uses another C library") || len >= sizeof(ElfW(Ehdr)) + sizeof(ElfW(Phdr)));
}

/* Of what kind this process's own file is. */
static void make_own(uint8_t *data, size_t len)
{
    static ElfW(Ehdr) own;

    if (!own.e_machine) {
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

        CHECK(fd >= 0 && read(fd, &own, sizeof own) == (ssize_t)sizeof own);
        close(fd);
    }
    if (len < sizeof own)
        return;
    memcpy(data, own.e_ident, EI_NIDENT);
    memcpy(data + offsetof(ElfW(Ehdr), e_machine), &own.e_machine, sizeof own.e_machine);
    memcpy(data + offsetof(ElfW(Ehdr), e_phentsize), &own.e_phentsize, sizeof own.e_phentsize);
}

/* By way of a script. */
static void check_script(const char *path, bool itself, const char *why)
{
    char text[4 * PATH_BYTES], script[PATH_BYTES];
    int fd = file_of("", 0, script);

    snprintf(text, sizeof text, "#! \t%s -x\n", itself ? script : path);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(program_unreached(script) == (itself ? NULL : why));
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    unsigned how = (unsigned)take(&in, 1);
    int fd, before = free_descriptor();
    char path[PATH_BYTES];
    uint8_t *file;
    const char *why;

    if (in.len >= 2 && memcmp(in.data, "#!", 2) == 0 && memchr(in.data, '/', in.len))
        return 0; /* any file of this host, also a device that acts once it is opened */
    file = exact_copy(in.data, in.len);
    if (how & 1)
        make_own(file, in.len);
    fd = file_of(file, in.len, path);
    why = program_unreached(path);
    check_why(file, in.len, why);
    CHECK(program_unreached(path) == why);
    if (how & 2)
        check_script(path, how & 4, why);
    close(fd);
    CHECK(free_descriptor() == before);
    free(file);
    return 0;
}

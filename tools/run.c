/* SPDX-License-Identifier: MIT */
#include "commands.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "print.h"
#include "program.h"

#define OBJECT "libautobuf-run.so"

enum { EXIT_OWN = 125, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 }; /* as env(1) and timeout(1) */

/* A variable of the environment: text that may be as long as it likes. false: no memory. */
static bool put(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool put(const char *name, const char *format, ...)
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
    const char *why = program_is_filtered() ? "its system calls are filtered" : program_unreached(program);

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
    int error;

    if (program_find(name, program, sizeof program) && !prepare(want, program))
        return EXIT_OWN;
    execvp(name, want->operands);
    error = errno;
    fprintf(stderr, "autobuf run: %s: %s\n", name, strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

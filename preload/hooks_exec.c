/* SPDX-License-Identifier: MIT */
/*
 * Another program takes this one's place. It has its connections, but nothing of what is known here. A child of vfork()
 * shares the parent's memory, and posix_spawn() calls none of these: the parent goes on with its connections then.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "next.h"
#include "report.h"

/* Says it once if the program that follows does not get this object: another LD_PRELOAD has taken its place. */
static void tell_lost(const char *program, char *const envp[])
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    struct stay stay;

    if (program && strchr(program, '/') && access(program, X_OK) < 0) /* as where each folder of PATH is tried */
        return;
    for (; envp && *envp; envp++) {
        if (strncmp(*envp, "LD_PRELOAD=", strlen("LD_PRELOAD=")) != 0)
            continue;
        if (strstr(*envp, "libautobuf-run.so") || !self_enter(&stay))
            return;
        if (!atomic_flag_test_and_set(&told))
            run_report_lost(program);
        self_leave(&stay);
        return;
    }
}

#define EXEC(name, parameters, arguments, program, envp)                                                               \
    int name parameters                                                                                                \
    {                                                                                                                  \
        bool begun;                                                                                                    \
                                                                                                                       \
        if (!NEXT(name))                                                                                               \
            return run_not_here();                                                                                     \
        tell_lost(program, envp);                                                                                      \
        begun = run_exec();                                                                                            \
        NEXT(name) arguments;                                                                                          \
        run_exec_failed(begun);                                                                                        \
        return -1;                                                                                                     \
    }

EXEC(execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp), path, envp)
EXEC(execv, (const char *path, char *const argv[]), (path, argv), path, environ)
EXEC(execvp, (const char *file, char *const argv[]), (file, argv), file, environ)
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp), file, envp)
EXEC(fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp), NULL, envp)
EXEC(execveat, (int folder, const char *path, char *const argv[], char *const envp[], int flags),
     (folder, path, argv, envp, flags), path, envp)

/* How many arguments there are, with the NULL at their end. The first may be that, though it is declared nonnull. */
static __attribute__((noinline)) size_t count_of(const char *first, va_list list)
{
    size_t count = 1;

    for (const char *one = first; one; one = va_arg(list, const char *))
        count++;
    return count;
}

/* The list becomes an array on the stack, as in the C library: allocated memory would stay after vfork(). */
#define EXEC_LIST(name, array, environment)                                                                            \
    __attribute__((visibility("default"))) int name(const char *path, const char *first, ...)                          \
    {                                                                                                                  \
        bool begun;                                                                                                    \
        va_list list;                                                                                                  \
        size_t count;                                                                                                  \
        char **argv, *const *envp;                                                                                     \
                                                                                                                       \
        va_start(list, first);                                                                                         \
        count = count_of(first, list);                                                                                 \
        va_end(list);                                                                                                  \
        argv = __builtin_alloca(count * sizeof *argv);                                                                 \
        argv[0] = (char *)(uintptr_t)first;                                                                            \
        va_start(list, first);                                                                                         \
        for (size_t i = 1; i < count; i++)                                                                             \
            argv[i] = va_arg(list, char *);                                                                            \
        envp = environment;                                                                                            \
        va_end(list);                                                                                                  \
        tell_lost(path, envp);                                                                                         \
        begun = run_exec();                                                                                            \
        NEXT(array)(path, argv, envp);                                                                                 \
        run_exec_failed(begun);                                                                                        \
        return -1;                                                                                                     \
    }

EXEC_LIST(execl, execve, environ)
EXEC_LIST(execlp, execvpe, environ)
EXEC_LIST(execle, execve, va_arg(list, char *const *))

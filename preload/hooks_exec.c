/* SPDX-License-Identifier: MIT */
/*
 * Another program takes this one's place. It has its connections, but nothing of what is known here. A child of vfork()
 * shares the parent's memory, and posix_spawn() calls none of these: the parent goes on with its connections then.
 */
#include <stdarg.h>
#include <unistd.h>

#include "calls.h"
#include "next.h"

#define EXEC(name, parameters, arguments)                                                                              \
    int name parameters                                                                                                \
    {                                                                                                                  \
        bool begun;                                                                                                    \
                                                                                                                       \
        if (!NEXT(name))                                                                                               \
            return run_not_here();                                                                                     \
        begun = run_exec();                                                                                            \
        NEXT(name) arguments;                                                                                          \
        run_exec_failed(begun);                                                                                        \
        return -1;                                                                                                     \
    }

EXEC(execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
EXEC(execv, (const char *path, char *const argv[]), (path, argv))
EXEC(execvp, (const char *file, char *const argv[]), (file, argv))
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
EXEC(fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))
EXEC(execveat, (int folder, const char *path, char *const argv[], char *const envp[], int flags),
     (folder, path, argv, envp, flags))

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
        bool begun = run_exec();                                                                                       \
        va_list list;                                                                                                  \
        size_t count;                                                                                                  \
        char **argv;                                                                                                   \
                                                                                                                       \
        va_start(list, first);                                                                                         \
        count = count_of(first, list);                                                                                 \
        va_end(list);                                                                                                  \
        argv = __builtin_alloca(count * sizeof *argv);                                                                 \
        argv[0] = (char *)(uintptr_t)first;                                                                            \
        va_start(list, first);                                                                                         \
        for (size_t i = 1; i < count; i++)                                                                             \
            argv[i] = va_arg(list, char *);                                                                            \
        NEXT(array)(path, argv environment);                                                                           \
        va_end(list);                                                                                                  \
        run_exec_failed(begun);                                                                                        \
        return -1;                                                                                                     \
    }

#define NONE
#define AT_THE_END , va_arg(list, char *const *)

EXEC_LIST(execl, execv, NONE)
EXEC_LIST(execlp, execvp, NONE)
EXEC_LIST(execle, execve, AT_THE_END)

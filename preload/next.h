/* SPDX-License-Identifier: MIT */
/*
 * The functions that are interposed, all but execl() and its kind: what the program would call without this object, in
 * the C library or in another preloaded object.
 */
#ifndef RUN_NEXT_H
#define RUN_NEXT_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct mmsghdr;

/* What a program of 32 bits calls that is compiled with _TIME_BITS=64. */
#if __TIMESIZE == 32
#define RUN_FUNCTIONS_TIME64(X)                                                                                        \
    X(int, __fcntl_time64, (int, int, ...))                                                                            \
    X(int, __setsockopt64, (int, int, int, const void *, socklen_t))                                                   \
    X(int, __getsockopt64, (int, int, int, void *, socklen_t *))                                                       \
    X(ssize_t, __recvmsg64, (int, struct msghdr *, int))                                                               \
    X(int, __recvmmsg64, (int, struct mmsghdr *, unsigned, int, void *))                                               \
    X(ssize_t, __sendmsg64, (int, const struct msghdr *, int))                                                         \
    X(int, __sendmmsg64, (int, struct mmsghdr *, unsigned, int))                                                       \
    X(int, __ppoll64, (struct pollfd *, nfds_t, const void *, const sigset_t *))                                       \
    X(int, __ppoll64_chk, (struct pollfd *, nfds_t, const void *, const sigset_t *, size_t))                           \
    X(int, __select64, (int, fd_set *, fd_set *, fd_set *, void *))                                                    \
    X(int, __pselect64, (int, fd_set *, fd_set *, fd_set *, const void *, const sigset_t *))                           \
    X(int, __epoll_pwait2_time64, (int, struct epoll_event *, int, const void *, const sigset_t *))                    \
    X(int, __prctl_time64, (int, ...))
#else
#define RUN_FUNCTIONS_TIME64(X)
#endif

#define RUN_FUNCTIONS(X)                                                                                               \
    X(int, socket, (int, int, int))                                                                                    \
    X(int, connect, (int, __CONST_SOCKADDR_ARG, socklen_t))                                                            \
    X(int, accept, (int, __SOCKADDR_ARG, socklen_t *))                                                                 \
    X(int, accept4, (int, __SOCKADDR_ARG, socklen_t *, int))                                                           \
    X(int, setsockopt, (int, int, int, const void *, socklen_t))                                                       \
    X(int, getsockopt, (int, int, int, void *, socklen_t *))                                                           \
    X(int, shutdown, (int, int))                                                                                       \
    X(int, close, (int))                                                                                               \
    X(int, close_range, (unsigned, unsigned, int))                                                                     \
    X(void, closefrom, (int))                                                                                          \
    X(int, dup, (int))                                                                                                 \
    X(int, dup2, (int, int))                                                                                           \
    X(int, dup3, (int, int, int))                                                                                      \
    X(int, fcntl, (int, int, ...))                                                                                     \
    X(int, fcntl64, (int, int, ...))                                                                                   \
    X(ssize_t, read, (int, void *, size_t))                                                                            \
    X(ssize_t, readv, (int, const struct iovec *, int))                                                                \
    X(ssize_t, recv, (int, void *, size_t, int))                                                                       \
    X(ssize_t, recvfrom, (int, void *, size_t, int, __SOCKADDR_ARG, socklen_t *))                                      \
    X(ssize_t, recvmsg, (int, struct msghdr *, int))                                                                   \
    X(int, recvmmsg, (int, struct mmsghdr *, unsigned, int, struct timespec *))                                        \
    X(ssize_t, __read_chk, (int, void *, size_t, size_t))                                                              \
    X(ssize_t, __recv_chk, (int, void *, size_t, size_t, int))                                                         \
    X(ssize_t, __recvfrom_chk, (int, void *, size_t, size_t, int, __SOCKADDR_ARG, socklen_t *))                        \
    X(ssize_t, write, (int, const void *, size_t))                                                                     \
    X(ssize_t, writev, (int, const struct iovec *, int))                                                               \
    X(ssize_t, send, (int, const void *, size_t, int))                                                                 \
    X(ssize_t, sendto, (int, const void *, size_t, int, __CONST_SOCKADDR_ARG, socklen_t))                              \
    X(ssize_t, sendmsg, (int, const struct msghdr *, int))                                                             \
    X(int, sendmmsg, (int, struct mmsghdr *, unsigned, int))                                                           \
    X(ssize_t, sendfile, (int, int, off_t *, size_t))                                                                  \
    X(ssize_t, sendfile64, (int, int, off64_t *, size_t))                                                              \
    X(ssize_t, splice, (int, off64_t *, int, off64_t *, size_t, unsigned))                                             \
    X(int, poll, (struct pollfd *, nfds_t, int))                                                                       \
    X(int, ppoll, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *))                                \
    X(int, __poll_chk, (struct pollfd *, nfds_t, int, size_t))                                                         \
    X(int, __ppoll_chk, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t))                  \
    X(int, select, (int, fd_set *, fd_set *, fd_set *, struct timeval *))                                              \
    X(int, pselect, (int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *))                    \
    X(int, epoll_wait, (int, struct epoll_event *, int, int))                                                          \
    X(int, epoll_pwait, (int, struct epoll_event *, int, int, const sigset_t *))                                       \
    X(int, epoll_pwait2, (int, struct epoll_event *, int, const struct timespec *, const sigset_t *))                  \
    X(int, prctl, (int, ...))                                                                                          \
    X(long, syscall, (long, ...))                                                                                      \
    X(int, execve, (const char *, char *const *, char *const *))                                                       \
    X(int, execv, (const char *, char *const *))                                                                       \
    X(int, execvp, (const char *, char *const *))                                                                      \
    X(int, execvpe, (const char *, char *const *, char *const *))                                                      \
    X(int, fexecve, (int, char *const *, char *const *))                                                               \
    X(int, execveat, (int, const char *, char *const *, char *const *, int))                                           \
    X(void, _exit, (int))                                                                                              \
    X(void, _Exit, (int))                                                                                              \
    RUN_FUNCTIONS_TIME64(X)

/* Here, because the C library declares some only in newer releases, or under another name. */
#define RUN_EXPORT(type, name, parameters) __attribute__((visibility("default"))) type name parameters;
RUN_FUNCTIONS(RUN_EXPORT)

struct run_next {
#define RUN_MEMBER(type, name, parameters) type(*name) parameters;
    RUN_FUNCTIONS(RUN_MEMBER)
};

extern struct run_next run_next __attribute__((visibility("hidden")));

/* Whether this process uses glibc. If not, this object does nothing. */
bool run_is_glibc(void);

/* Finds all functions, and returns where they are. One that the C library does not have is NULL. */
const struct run_next *run_next_find(void);

/* The function of this name. It may be called before this object's constructor was: other objects have theirs. */
#define NEXT(name) (__builtin_expect(run_next.name != NULL, 1) ? run_next.name : run_next_find()->name)

/* An option of SOL_SOCKET that is an int, or a negative errno. Changes errno. */
int run_option(int fd, int option);

/* The result of a function that this C library lacks. A program that looks it up finds this object's. */
static inline int run_not_here(void)
{
    errno = ENOSYS;
    return -1;
}

#endif

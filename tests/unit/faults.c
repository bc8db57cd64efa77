/* SPDX-License-Identifier: MIT */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>

static struct {
    bool on;
    bool failing;
    enum call call;
    unsigned at;
    bool forever;
    int error;
    unsigned counts[CALLS];
    int held;
    unsigned asks;
} faults;

const char *fault_name(enum call call)
{
    static const char *const names[CALLS] = {
        "calloc",      "realloc",     "socket", "setsockopt", "getsockopt", "bind",    "connect",
        "getsockname", "getpeername", "send",   "sendmmsg",   "recvmmsg",   "recvmsg", "ppoll",
        "open",        "read",        "getrandom", "getaddrinfo"};

    return names[call];
}

void faults_count(void)
{
    faults = (__typeof__(faults)){.on = true};
}

void faults_begin(enum call call, unsigned at, bool forever, int error)
{
    faults = (__typeof__(faults)){true, true, call, at, forever, error, {0}, 0, 0};
}

unsigned faults_end(enum call call)
{
    faults.on = false;
    return faults.counts[call];
}

unsigned faults_asks(void)
{
    return faults.asks;
}

int faults_held(void)
{
    return faults.held;
}

static bool fails(enum call call)
{
    unsigned count;

    if (!faults.on)
        return false;
    count = ++faults.counts[call];
    if (!faults.failing || call != faults.call ||
        (faults.forever ? count < faults.at : count != faults.at))
        return false;
    errno = faults.error;
    return true;
}

/* What is handed out has to come back. */
static void *held_block(void *block)
{
    faults.held += faults.on && block;
    return block;
}

static int held_fd(int fd)
{
    faults.held += faults.on && fd >= 0;
    return fd;
}

/* The names that the linker gives: the interposed call and the one behind it. */
#define WRAP(type, name, call, parameters, arguments)                                              \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return fails(call) ? (type)-1 : __real_##name arguments;                                   \
    }

WRAP(int, setsockopt, CALL_SETSOCKOPT, (int fd, int level, int name, const void *v, socklen_t len),
     (fd, level, name, v, len))
WRAP(int, getsockopt, CALL_GETSOCKOPT, (int fd, int level, int name, void *v, socklen_t *len),
     (fd, level, name, v, len))
WRAP(int, bind, CALL_BIND, (int fd, const struct sockaddr *a, socklen_t len), (fd, a, len))
WRAP(int, connect, CALL_CONNECT, (int fd, const struct sockaddr *a, socklen_t len), (fd, a, len))
WRAP(int, getsockname, CALL_GETSOCKNAME, (int fd, struct sockaddr *a, socklen_t *len), (fd, a, len))
WRAP(int, getpeername, CALL_GETPEERNAME, (int fd, struct sockaddr *a, socklen_t *len), (fd, a, len))
WRAP(ssize_t, send, CALL_SEND, (int fd, const void *buf, size_t len, int flags),
     (fd, buf, len, flags))
WRAP(int, sendmmsg, CALL_SENDMMSG, (int fd, struct mmsghdr *m, unsigned n, int flags),
     (fd, m, n, flags))
WRAP(int, recvmmsg, CALL_RECVMMSG,
     (int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t), (fd, m, n, flags, t))
WRAP(ssize_t, recvmsg, CALL_RECVMSG, (int fd, struct msghdr *m, int flags), (fd, m, flags))
WRAP(int, ppoll, CALL_PPOLL,
     (struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *s), (p, n, t, s))
WRAP(ssize_t, read, CALL_READ, (int fd, void *buf, size_t len), (fd, buf, len))

ssize_t __real_getrandom(void *, size_t, unsigned);
ssize_t __wrap_getrandom(void *, size_t, unsigned);

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags)
{
    if (faults.on && !(flags & GRND_NONBLOCK))
        abort(); /* it would wait, for seconds, on a host that was just started */
    return fails(CALL_GETRANDOM) ? -1 : __real_getrandom(buf, len, flags);
}

int __real_getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);
int __wrap_getaddrinfo(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **list)
{
    return fails(CALL_GETADDRINFO) ? EAI_MEMORY : __real_getaddrinfo(node, service, hints, list);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    return fails(CALL_CALLOC) ? NULL : held_block(__real_calloc(count, size));
}

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);

void *__wrap_realloc(void *block, size_t size)
{
    if (fails(CALL_REALLOC))
        return NULL;
    return block ? __real_realloc(block, size) : held_block(__real_realloc(block, size));
}

void __real_free(void *block);
void __wrap_free(void *block);

void __wrap_free(void *block)
{
    faults.held -= faults.on && block;
    __real_free(block);
}

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);

int __wrap_socket(int family, int type, int protocol)
{
    faults.asks += faults.on && family == AF_NETLINK && protocol == NETLINK_ROUTE;
    return fails(CALL_SOCKET) ? -1 : held_fd(__real_socket(family, type, protocol));
}

/* With 64-bit file offsets open() goes by another name. The library opens for reading alone. */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    return fails(CALL_OPEN) ? -1 : held_fd(__real_open(path, flags));
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
    return fails(CALL_OPEN) ? -1 : held_fd(__real_open64(path, flags));
}

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
    faults.held -= faults.on;
    return __real_close(fd);
}

/* SPDX-License-Identifier: MIT */
/*
 * Preloaded: each TCP connection's send buffer is set to $ZOO_SNDBUF bytes. For the best that a fixed size could give a
 * program that does not set any.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int forced(int fd)
{
    const char *text = getenv("ZOO_SNDBUF");
    int size = text ? atoi(text) : 0;

    if (fd >= 0 && size > 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    return fd;
}

/* The function of this name that would be called without us, in *next. */
static void find(void *next, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(next, &found, sizeof found);
}

int socket(int domain, int type, int protocol)
{
    int (*next)(int, int, int);

    find(&next, "socket");
    return forced(next(domain, type, protocol));
}

int accept(int fd, struct sockaddr *address, socklen_t *length)
{
    int (*next)(int, struct sockaddr *, socklen_t *);

    find(&next, "accept");
    return forced(next(fd, address, length));
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    int (*next)(int, struct sockaddr *, socklen_t *, int);

    find(&next, "accept4");
    return forced(next(fd, address, length, flags));
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "tlsline.h"

int open_address(const char *host, const char *port, int flags,
                 int (*use)(int fd, const struct addrinfo *a))
{
    struct addrinfo hints = {.ai_flags = flags, .ai_socktype = SOCK_STREAM}, *list;
    int fd = -1, error = AUTOBUF_E_RESOLVE;

    if (getaddrinfo(host, port, &hints, &list) != 0)
        return error;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || use(fd, a) < 0) {
            error = -errno;
            if (fd >= 0)
                close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd < 0 ? error : fd;
}

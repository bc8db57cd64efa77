/* SPDX-License-Identifier: MIT */
#ifndef TLSLINE_H
#define TLSLINE_H

#include <netdb.h>

/* A TCP socket of the first address of host (NULL: any) that use() takes: 0, or -1 with errno. */
int open_address(const char *host, const char *port, int flags,
                 int (*use)(int fd, const struct addrinfo *a));

/* Both return 0, or an error for autobuf_strerror(). address NULL: any. */
int serve(const char *address, const char *port);
int measure(const char *host, const char *port);

#endif

/* SPDX-License-Identifier: MIT */
/* Names of hosts, and why they have no address. */
#ifndef RESOLVE_H
#define RESOLVE_H

#include <netdb.h>

/*
 * getaddrinfo(3) for a stream socket. Returns 0, and in *list what freeaddrinfo() takes; a negative errno; or an error
 * for resolve_strerror().
 */
int resolve(const char *host, const char *port, int family, int flags, struct addrinfo **list);

/* An error of any call for this host, in words; family: AF_UNSPEC, or what the user has asked for. */
const char *resolve_strerror(int error, const char *host, int family);

#endif

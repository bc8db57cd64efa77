/* SPDX-License-Identifier: MIT */
/* Names of hosts, and why they have no address; where packets leave from, if the user has said so. */
#ifndef RESOLVE_H
#define RESOLVE_H

#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

/*
 * getaddrinfo(3) for a stream socket. Returns 0, and in *list what freeaddrinfo() takes; a negative errno; or an error
 * for resolve_strerror().
 */
int resolve(const char *host, const char *port, int family, int flags, struct addrinfo **list);

/* An error of any call for this host, in words; family: AF_UNSPEC, or what the user has asked for. */
const char *resolve_strerror(int error, const char *host, int family);

struct source {
    struct sockaddr_storage address; /* its port is 0 */
    socklen_t len;                   /* 0: any address */
    char device[IF_NAMESIZE];        /* "": any device */
};

/* Parses an IPv4 or IPv6 address. Returns its length; 0: it is none. */
socklen_t source_address(const char *text, struct sockaddr_storage *address);

/* An IPv4 or IPv6 address, or the name of a device of this host. -ENODEV: neither. */
int source_parse(const char *text, struct source *source);

/*
 * The address from which the kernel would send to the peer now, through source->device if that is named. Sends nothing.
 * Errors of socket(2), setsockopt(2), connect(2).
 */
int source_towards(const struct sockaddr *peer, socklen_t peer_len, struct source *source);

/* Binds a new socket to it. Errors of setsockopt(2), bind(2). */
int source_bind(int fd, const struct source *source);

#endif

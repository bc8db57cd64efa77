/* SPDX-License-Identifier: MIT */
/* Where a site's server is, as an administrator writes it. */
#ifndef SITE_PLACE_H
#define SITE_PLACE_H

#include <stdbool.h>

#include <sys/socket.h>

#define SITE_DATABASE_MOST 65535U

struct site_place {
    struct sockaddr_storage address; /* of IPv4, IPv6 or a unix socket */
    socklen_t address_bytes;         /* 0: there is none */
    unsigned database;               /* of the server, from 0 on */
};

/* Reads "redis://192.0.2.1:6379/0", "redis://[2001:db8::1]" or "unix:/run/redis/redis.sock"; names are none. */
bool site_place_parse(const char *text, struct site_place *place);

#endif

/* SPDX-License-Identifier: MIT */
#ifndef SERVE_H
#define SERVE_H

#include <stdint.h>

struct serving {
    const char *address; /* to listen on; NULL: all */
    const char *port;
    uint64_t rate_bit_per_s; /* that all clients together are sent */
    unsigned clients;        /* at once; as many as there are descriptors for */
    unsigned per_address;    /* of these */
    unsigned transfer_seconds; /* of each transfer, at most; 0: none is allowed */
};

/*
 * Answers measurements until a signal ends it: on the sockets that systemd(1) hands over, or on
 * its own. Only returns on failure: errors of socket(2), bind(2), listen(2), epoll_create1(2);
 * resolve()'s.
 */
int serve_clients(const struct serving *s);

#endif

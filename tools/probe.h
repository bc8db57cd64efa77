/* SPDX-License-Identifier: MIT */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/autobuf.h>

#include "source.h"

#define READINGS 1024

struct probing {
    const char *host;
    int family;        /* AF_UNSPEC: either */
    uint32_t budget_bytes;
    uint64_t timeout_ns;
    struct source source;   /* to send from; all zero: the kernel chooses */
    bool keep_source;       /* the address that the kernel chose first */
    bool progress;     /* a line on stderr while it goes on */
    uint64_t readings[READINGS];
    size_t reading_count;
    struct sockaddr_storage peer; /* that was measured */
    socklen_t peer_len;           /* 0: none was */
};

/*
 * Resolves host and measures the path to it. 0 with *path filled, also when only the round-trip
 * time was found; errors of autobuf_probe_open(), autobuf_probe_step() and resolve()'s.
 */
int probe_host(struct probing *p, struct autobuf_path *path);

#endif

/* SPDX-License-Identifier: MIT */
/* Measurements of a path: by ICMP echoes, or over TCP with autobuf serve. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "arguments.h"
#include "resolve.h"

#define READINGS 1024

struct measurement {
    struct source source; /* to send from; all zero: the kernel chooses */
    bool progress;        /* a line on stderr while it goes on */
    struct sockaddr_storage peer; /* that was measured */
    socklen_t peer_len;           /* 0: none was */
    struct autobuf_socket socket; /* of the connection to a server; size 0: there was none */
    bool greeted;                 /* it answered HELLO */
    uint64_t readings[READINGS];  /* of echoes */
    size_t reading_count;
};

/*
 * Each measures the path to the host that is asked for. 0 with *path filled, also when only the round-trip time was
 * found; resolve()'s errors;
 *
 *   measure_echoes()  errors of autobuf_probe_open(), _step() and _result()
 *   measure_server()  errors of socket(2), connect(2), autobuf_inband_step() and _result()
 */
int measure_echoes(const struct arguments *want, struct measurement *m, struct autobuf_path *path);
int measure_server(const struct arguments *want, struct measurement *m, struct autobuf_path *path);

/* connect(2) of a socket that does not block, with a deadline. 0; -ETIMEDOUT; errors of connect(2). */
int connect_until(int fd, const struct sockaddr *peer, socklen_t peer_len, uint64_t until_ns);

#endif

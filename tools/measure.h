/* SPDX-License-Identifier: MIT */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "source.h"

#define MEASURE_PORT "7411" /* what serve listens on, too */

/* 1 to 65535, in digits. */
bool is_port(const char *text);

/* What is wrong with a target, in words; NULL: nothing. */
const char *measure_target_wrong(const char *target);

struct measuring {
    const char *target; /* HOST, HOST:PORT or [ADDRESS]:PORT */
    int family;         /* AF_UNSPEC: either */
    const struct source *source; /* to connect from; NULL: the kernel chooses */
    uint64_t timeout_ns; /* for connecting, and for the exchange; 0: 5 s, most 30 s */
    bool progress;       /* a line on stderr while it goes on */
    struct sockaddr_storage peer; /* that was measured */
    socklen_t peer_len;           /* 0: none was */
};

/*
 * Connects to a server and measures over the connection. 0; errors of socket(2), connect(2),
 * autobuf_inband_step() and _result(); resolve()'s; -EINVAL: target.
 */
int measure_target(struct measuring *m, struct autobuf_path *path);

/* connect(2) of a socket that does not block, with a deadline. 0; -ETIMEDOUT; errors of connect(2). */
int connect_until(int fd, const struct sockaddr *peer, socklen_t peer_len, uint64_t until_ns);

#endif

/* SPDX-License-Identifier: MIT */
/* A TCP socket's state, with what the kernel tells of its connection. */
#ifndef AB_LIMITS_H
#define AB_LIMITS_H

#include "../base/base.h"
#include "tcpinfo.h"

/* As autobuf_limits_socket(), and *info too. */
int ab_socket_read(int fd, struct autobuf_socket *state, struct ab_tcpinfo *info);

/* Looks once more at what a process may set, which changes with its privilege; the rest stays. 0, -errno. */
int ab_limits_retry(struct autobuf_limits *limits);

/* Looks once more at what TCP and all forced send buffers hold, if this process may force one. */
void ab_limits_forced(struct autobuf_limits *limits);

#endif

/* SPDX-License-Identifier: MIT */
/* A TCP socket's state, with what the kernel tells of its connection. */
#ifndef AB_SOCKET_H
#define AB_SOCKET_H

#include "../base/base.h"
#include "tcpinfo.h"

/* As autobuf_socket_state(), and *info too. */
int ab_socket_read(int fd, struct autobuf_socket *state, struct ab_tcpinfo *info);

/* What tells this socket from all others of the host, whatever its descriptor. 0, -EBADF, -ENOTSOCK. */
int ab_socket_cookie(int fd, uint64_t *cookie);

#endif

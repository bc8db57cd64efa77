/* SPDX-License-Identifier: MIT */
/* A TCP socket's state, with what the kernel tells of its connection. */
#ifndef AB_SOCKET_H
#define AB_SOCKET_H

#include "../base/base.h"
#include "tcpinfo.h"

/* As autobuf_socket_state(), and *info too. */
int ab_socket_read(int fd, struct autobuf_socket *state, struct ab_tcpinfo *info);

#endif

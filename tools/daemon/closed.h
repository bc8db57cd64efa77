/* SPDX-License-Identifier: MIT */
/* What the kernel says of a TCP connection when it has ended: sock_diag(7), group SKNLGRP_INET_TCP_DESTROY. */
#ifndef CLOSED_H
#define CLOSED_H

#include <stdint.h>

#include "learn.h"

#define CLOSED_MOST 512U /* connections that one call of closed_take() reads of */

typedef void closed_fn(void *user, uint64_t cookie, const struct learn_final *final);

/* A descriptor; errors of socket(2) and bind(2): it may not be heard here. */
int closed_open(void);

/*
 * Hands over what has come of connections that ended since the last call. Never waits. What there was no room for is
 * lost. Returns how many that were.
 */
unsigned closed_take(int fd, closed_fn *take, void *user);

/* The same of a socket that is open. 0; errors of getsockopt(2). */
int closed_read(int fd, struct learn_final *final);

#endif

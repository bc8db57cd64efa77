/* SPDX-License-Identifier: MIT */
/* This host's limits. Some change while a process runs. */
#ifndef AB_LIMITS_H
#define AB_LIMITS_H

#include "../base/base.h"

/* autobuf_limits_host() without the memory of TCP and of forced buffers (0), which takes a millisecond. */
int ab_limits_read(struct autobuf_limits *limits);

/*
 * Reads again what the process may set, which depends on its privilege; the rest stays. Returns 0 or a negative
 * errno.
 */
int ab_limits_refresh(struct autobuf_limits *limits);

/* Reads the memory of TCP and of forced buffers again, if this process may force one. */
void ab_limits_forced(struct autobuf_limits *limits);

#endif

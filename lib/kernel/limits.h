/* SPDX-License-Identifier: MIT */
/* This host's limits, some of which change while a process runs, and the forced buffers. */
#ifndef AB_LIMITS_H
#define AB_LIMITS_H

#include "../base/base.h"
#include "tcp_diag.h"

/* autobuf_limits_host() without the memory of TCP and of forced buffers (0), which takes a millisecond. */
int ab_limits_read(struct autobuf_limits *limits);

/*
 * Reads again what the process may set, which depends on its privilege; the rest stays. Returns 0 or a negative
 * errno.
 */
int ab_limits_refresh(struct autobuf_limits *limits);

/* Reads the memory of TCP and of forced buffers again, if this process may force one. */
void ab_limits_forced(struct autobuf_limits *limits);

/*
 * Forced buffers (SO_SNDBUFFORCE, SO_RCVBUFFORCE): those above both autotuning's limit and [rw]mem_max. The library
 * bounds what all of them may hold together. sock_diag(7) lists the connections of this network namespace, but not
 * sockets that are not connected yet, so those of this process are added.
 */

/* The sum of sk_sndbuf and sk_rcvbuf above the bound of their side. */
struct ab_forced {
    uint64_t snd_above_bytes, rcv_above_bytes;
    uint64_t bytes;
};

/* What one socket adds to that. */
static inline uint64_t ab_forced_of(uint64_t snd_bytes, uint64_t rcv_bytes, uint64_t snd_above_bytes,
                                    uint64_t rcv_above_bytes)
{
    return (snd_bytes > snd_above_bytes ? snd_bytes : 0) + (rcv_bytes > rcv_above_bytes ? rcv_bytes : 0);
}

/* An ab_tcp_diag_fn() for lists with INET_DIAG_SKMEMINFO: adds to the struct at user. */
void ab_forced_add(void *user, const struct ab_tcp_diag *told);

/*
 * Returns the sum of all buffers above the bound of their side; UINT64_MAX: unknown, also if there are too many
 * connections to list. Takes about 2 microseconds for each connection, and some milliseconds
 * at most.
 */
uint64_t ab_forced_bytes(uint64_t snd_above_bytes, uint64_t rcv_above_bytes);

/*
 * For a process with a list of all sockets: it keeps the sum at *bytes, and nothing here counts from then on. NULL: no
 * more.
 */
void ab_forced_keep(const uint64_t *bytes);

/* Whether the process keeps that sum; then *bytes becomes what it is now. */
bool ab_forced_kept(uint64_t *bytes);

#endif

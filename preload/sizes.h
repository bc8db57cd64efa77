/* SPDX-License-Identifier: MIT */
/* What a size that a program sets makes of sk_sndbuf or sk_rcvbuf, and what autotuning would. Pure. */
#ifndef RUN_SIZES_H
#define RUN_SIZES_H

#include <stdbool.h>

#include <autobuf/plan.h>

/*
 * sk_sndbuf or sk_rcvbuf after a program has requested value with SO_SNDBUF or SO_RCVBUF.
 * side: AUTOBUF_LOCK_SND or AUTOBUF_LOCK_RCV. Source: sock_setsockopt() of the kernel.
 */
uint64_t run_size_stored(const struct autobuf_limits *limits, uint32_t side, int value);

/* How large autotuning makes that side's buffer. */
uint64_t run_size_reach(const struct autobuf_limits *limits, uint32_t side);

/* Whether such a buffer limits no transfer at this minimum RTT. AUTOBUF_NS_UNSET: false. */
bool run_size_is_enough(uint64_t sk_bytes, uint64_t rtt_min_ns);

#endif

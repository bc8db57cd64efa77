/* SPDX-License-Identifier: MIT */
/* What a size that a program sets does to a buffer, and what autotuning would make of it. Pure. */
#ifndef RUN_SIZES_H
#define RUN_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/plan.h>

/*
 * The size that the kernel keeps, and that getsockopt() shows, once a program has handed value to SO_SNDBUF or
 * SO_RCVBUF. side: AUTOBUF_LOCK_SND or AUTOBUF_LOCK_RCV. Source: sock_setsockopt() of the kernel.
 */
uint64_t run_size_stored(const struct autobuf_limits *limits, uint32_t side, int value);

/* Whether autotuning makes that side's buffer larger than such a size. */
bool run_size_is_small(const struct autobuf_limits *limits, uint32_t side, uint64_t stored);

/* What that side's buffer, which no program has set, would be without this object, which may have made it larger. */
uint64_t run_size_alone(const struct autobuf_limits *limits, uint32_t side, uint64_t now_bytes);

/* Whether a buffer that the kernel keeps so large limits no transfer over a path this short. AUTOBUF_NS_UNSET: false. */
bool run_size_is_enough(uint64_t stored, uint64_t rtt_min_ns);

#endif

/* SPDX-License-Identifier: MIT */
#include "sizes.h"

/* The kernel keeps no less: SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF, the same on all machines of 64 bits. */
#define SND_LEAST_BYTES 4608U
#define RCV_LEAST_BYTES 2304U

/* On a path so short that half of a buffer, a window, allows this rate nothing is to be gained. */
#define ENOUGH_BIT_PER_S 20000000000ULL
#define NEAR_NS_MOST 10000000U

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t run_size_stored(const struct autobuf_limits *limits, uint32_t side, int value)
{
    bool sends = side == AUTOBUF_LOCK_SND;
    uint64_t stored = 2 * least((uint32_t)value, sends ? limits->snd_settable_bytes : limits->rcv_settable_bytes);
    uint64_t floor = sends ? SND_LEAST_BYTES : RCV_LEAST_BYTES;

    return stored > floor ? stored : floor;
}

/* How large autotuning makes a buffer. */
static uint64_t reach(const struct autobuf_limits *limits, uint32_t side)
{
    if (side == AUTOBUF_LOCK_SND)
        return limits->tcp_wmem_max_bytes;
    return limits->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING ? limits->tcp_rmem_max_bytes : limits->tcp_rmem_default_bytes;
}

bool run_size_is_small(const struct autobuf_limits *limits, uint32_t side, uint64_t stored)
{
    return stored < reach(limits, side);
}

uint64_t run_size_alone(const struct autobuf_limits *limits, uint32_t side, uint64_t now_bytes)
{
    return least(now_bytes, reach(limits, side));
}

bool run_size_is_enough(uint64_t stored, uint64_t rtt_min_ns)
{
    return rtt_min_ns && rtt_min_ns <= NEAR_NS_MOST && 8 * (stored / 2) > ENOUGH_BIT_PER_S / 1000000U * rtt_min_ns / 1000U;
}

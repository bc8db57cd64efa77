/* SPDX-License-Identifier: MIT */
#include "sizes.h"

/* SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF of the kernel, the same on all machines of 64 bits. */
#define SOCK_MIN_SNDBUF 4608U
#define SOCK_MIN_RCVBUF 2304U

/* A path is near if its RTT is at most NEAR_NS_MOST, and half of the buffer, a window, allows this rate. */
#define ENOUGH_BIT_PER_S 20000000000ULL
#define NEAR_NS_MOST 10000000U

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t run_size_stored(const struct autobuf_limits *limits, uint32_t side, int value)
{
    bool sends = side == AUTOBUF_LOCK_SND;
    uint64_t sk_bytes = 2 * smaller((uint32_t)value, sends ? limits->snd_settable_bytes : limits->rcv_settable_bytes);
    uint64_t floor = sends ? SOCK_MIN_SNDBUF : SOCK_MIN_RCVBUF;

    return sk_bytes > floor ? sk_bytes : floor;
}

uint64_t run_size_reach(const struct autobuf_limits *limits, uint32_t side)
{
    if (side == AUTOBUF_LOCK_SND)
        return limits->tcp_wmem_max_bytes;
    return limits->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING ? limits->tcp_rmem_max_bytes : limits->tcp_rmem_default_bytes;
}

bool run_size_is_enough(uint64_t sk_bytes, uint64_t rtt_min_ns)
{
    return rtt_min_ns && rtt_min_ns <= NEAR_NS_MOST &&
           8 * (sk_bytes / 2) > ENOUGH_BIT_PER_S / 1000000U * rtt_min_ns / 1000U;
}

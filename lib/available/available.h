/* SPDX-License-Identifier: MIT */
/*
 * What other traffic leaves free, from what an open connection sends anyway. Pure: samples with their times in, a range
 * out.
 *
 * Between two samples the peer got D bytes in a time T, and the queue's delay changed by q. A packet that leaves a
 * first-in first-out queue finds there what came before it. So of the C T bytes that a link of capacity C can carry in
 * T, all but D are at most other traffic that came in a time T - q, and what is free is at least (D - C q) / (T - q).
 * With s = D / (T - q), the rate of sending, and d = D / T, that is C + s - s C / d. While the queue never was empty
 * the link carried exactly C T bytes, and this is what is free, not only at least that. The errors of D and q do not
 * add up: they count once for the whole time.
 *
 * A queue never was empty while the RTT was above its minimum. A longer path, too, has a higher RTT, at once; a queue
 * grows over round trips. So only a stretch in which it does is taken for one.
 */
#ifndef AB_AVAILABLE_H
#define AB_AVAILABLE_H

#include "../base/base.h"

#define AB_ROUNDS 202U /* 10 s of rounds of 50 ms, and their ends */

struct ab_available_sample {
    uint64_t now_ns;
    uint64_t delivered_bytes; /* IP bytes that the peer has, since the connection began */
    uint64_t rtt_ns;          /* present; 0: unknown */
    uint64_t rtt_deviation_ns;
    uint32_t resent_packets;  /* since then */
    bool program_limits;      /* the program has nothing more to send */
};

struct ab_round {
    uint64_t end_ns, delivered_bytes;
    uint32_t rtt_us;   /* at its end */
    uint32_t least_us; /* of its samples */
    uint32_t deviation_us;
    bool begins;         /* of a stretch: what was before its end is unknown */
    bool lost;           /* something was sent again */
    bool program_limits;
};

/* All zero at first. */
struct ab_available {
    struct ab_round rounds[AB_ROUNDS]; /* a ring */
    uint64_t count;                    /* since the beginning */
    struct ab_round open;              /* the round that has not ended, if there is one before it */
    uint32_t resent_packets;           /* at the newest sample */
    uint64_t now_ns;                   /* of the newest sample */
};

static inline uint32_t ab_us_of(uint64_t ns)
{
    return (uint32_t)ab_min(ns / AB_NS_PER_US, UINT32_MAX / 2);
}

void ab_available_sample(struct ab_available *available, const struct ab_available_sample *sample);

/* The path's capacity lies between them, as far as they are known; 0: unknown. */
void ab_available_estimate(const struct ab_available *available, uint64_t capacity_low_bit_per_s,
                           uint64_t capacity_high_bit_per_s, struct autobuf_available *estimate);

#endif

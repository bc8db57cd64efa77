/* SPDX-License-Identifier: MIT */
/*
 * The pace of a sender that is to keep the path's queue short. Pure: round-trip times and rates in, a pace
 * out.
 *
 * What stands in the queue raises the RTT above its minimum. While it stands, the largest rate of
 * delivery of the last round trips is the path's; the pace goes below it until the queue is gone, then to just below
 * that rate, and from there slowly up; faster and faster, once it is beyond it and still no queue stands.
 */
#ifndef AB_PACE_H
#define AB_PACE_H

#include "../base/base.h"

#define AB_PACE_SAMPLES 8U /* of the past: four round trips of them */

struct ab_pace_sample {
    uint64_t now_ns;
    uint64_t rtt_ns;
    uint64_t rtt_min_ns;       /* as TCP has seen it, ever */
    uint64_t acked_byte_per_s; /* over the last round trip */
    uint32_t mss_bytes;
    bool app_limited;          /* the program has nothing more to send: no reason to go faster */
};

struct ab_pace {
    uint64_t byte_per_s;       /* 0: none yet */
    uint64_t drain_byte_per_s; /* the rate at which a queue was seen to drain: the path's */
    unsigned held_ticks;
    unsigned clear_ticks;      /* without a queue, since the last one */
    uint64_t floor_ns[2];      /* minimum RTT of the running and of the last span of time */
    uint64_t floor_begin_ns;
    bool rebased;              /* the path has become longer than TCP's minimum RTT says */
    bool cut;                  /* since the RTT became high, */
    unsigned high_rtt_samples; /* so many samples ago, */
    uint64_t uncut_byte_per_s; /* from this */
    uint64_t rtts_ns[AB_PACE_SAMPLES];
    uint64_t acked_byte_per_s[AB_PACE_SAMPLES];
    unsigned samples;
};

/* Forgets what was seen, because the clock has jumped. The pace stays. */
void ab_pace_forget(struct ab_pace *pace);

/*
 * Takes in a sample; there are two in a round trip. Returns true if byte_per_s has changed; *why then says the
 * reason.
 */
bool ab_pace_sample(struct ab_pace *pace, const struct ab_pace_sample *sample, const char **why);

#endif

/* SPDX-License-Identifier: MIT */
/* Impairments of the simulated paths, and the errors of the estimates. */
#ifndef IMPAIRMENTS_H
#define IMPAIRMENTS_H

#include "sim_probe.h"

struct impairment {
    const char *name;
    double loss, cross;
    uint32_t cross_size;
    uint64_t jitter_ns, batch_ns, send_ns;
    double queue_products;
    uint64_t forward_ns, wake_ns, stall_ns;
    bool clean; /* no estimate is doubtful */
    uint64_t between_ns; /* between stalls; 0: 100 ms */
};

extern const struct impairment impairments[];
extern const size_t impairments_count;

/* A path with a rate, an RTT and an impairment; the caller sets seed. */
struct sim_path impaired_path(const struct impairment *impairment, double mbit, double rtt_ms);

/* Of many runs; a run without a result does not count. */
struct tally {
    unsigned runs;
    unsigned held;    /* the interval holds the truth, or is a lower bound below it */
    unsigned wide;    /* more than 1.3 from end to end */
    unsigned wrong;   /* off by more than 20%, and neither a bound nor unsure */
    unsigned flagged; /* a bound, or unsure */
};

void tally_add(struct tally *tally, const struct sim_result *result, double truth_bit_per_s);

#endif

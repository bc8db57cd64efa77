/* SPDX-License-Identifier: MIT */
/*
 * Whether the chosen rate may be wrong, and how wide its interval then is. Pure. docs/ESTIMATOR.md explains it.
 */
#ifndef AB_DOUBT_H
#define AB_DOUBT_H

#include "estimate.h"

/* What else the packets show. */
struct ab_evidence {
    const uint64_t *gaps; /* readings of single gaps, ascending */
    size_t count;
    uint64_t slope_bit_per_s; /* 0: unknown */
    bool piled;               /* many gaps are much shorter than the mean */
};

/* Sets rate->unsure, and widens the interval as the evidence asks. */
void ab_doubt(struct ab_rate *rate, const struct ab_evidence *evidence);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Whether a rate that was chosen may be wrong, and how wide its interval then is. Pure. docs/ESTIMATOR.md explains it.
 */
#ifndef AB_DOUBT_H
#define AB_DOUBT_H

#include "estimate.h"

/* What the packets say beside the rate that was chosen. */
struct ab_evidence {
    const uint64_t *gaps; /* readings of single gaps, ascending */
    size_t count;
    uint64_t slope_bit_per_s; /* 0: unknown */
    bool piled;               /* many gaps are much shorter than the mean */
};

/* Sets rate->unsure, and widens the interval by what the evidence says. */
void ab_doubt(struct ab_rate *rate, const struct ab_evidence *evidence);

#endif

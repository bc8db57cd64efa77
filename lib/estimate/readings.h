/* SPDX-License-Identifier: MIT */
/*
 * Readings of the rate from packets, one for each stretch of a train. Pure. estimate.c makes candidates of them, and
 * chooses.
 */
#ifndef AB_READINGS_H
#define AB_READINGS_H

#include "estimate.h"

/* All adjacent gaps together. */
struct ab_gaps {
    size_t count;
    size_t shorter;      /* how many are shorter than a third of the mean */
    uint64_t span_ns;    /* their sum */
    uint64_t bytes;      /* IP bytes that arrived in them */
    uint64_t longest_ns; /* the longest run of adjacent replies */
};

struct ab_gaps ab_gaps_of(const struct ab_packet *packets, size_t count);

/* Readings of single gaps, unsorted, without gaps beside merged packets. */
size_t ab_readings_of_gaps(const struct ab_packet *packets, size_t count, uint64_t *rates);

/* The end (exclusive) of the run of adjacent replies that begins at i. */
size_t ab_run_end(const struct ab_packet *packets, size_t count, size_t i);

/* The rate from a's arrival to b's. bytes: of the packets after a, b included. */
uint64_t ab_rate_between(const struct ab_packet *a, const struct ab_packet *b, uint64_t bytes);

/* IP bytes of packets[begin..end). */
uint64_t ab_bytes_of(const struct ab_packet *packets, size_t begin, size_t end);

/*
 * The rate from the least squares of arrival time on bytes: one slope for all trains, each with its own origin. 0:
 * no train is long enough.
 */
uint64_t ab_slope_of(const struct ab_packet *packets, size_t count);

#endif

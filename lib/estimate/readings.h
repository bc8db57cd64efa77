/* SPDX-License-Identifier: MIT */
/*
 * Packets in, readings of the rate out: what each stretch of a train says by itself. Pure.
 * estimate.h makes candidates of them, and chooses.
 */
#ifndef AB_READINGS_H
#define AB_READINGS_H

#include "estimate.h"

/* All adjacent gaps together. */
struct ab_gaps {
    size_t count;
    size_t shorter;      /* than a third of the mean */
    uint64_t span_ns;    /* their sum */
    uint64_t bytes;      /* that arrived in them */
    uint64_t longest_ns; /* longest run */
};

struct ab_gaps ab_gaps_of(const struct ab_packet *packets, size_t count);

/* Readings of single gaps, unsorted, but for those beside packets that arrived as one. */
size_t ab_readings_of_gaps(const struct ab_packet *packets, size_t count, uint64_t *rates);

/* The end (exclusive) of the run of adjacent replies that begins at i. */
size_t ab_run_end(const struct ab_packet *packets, size_t count, size_t i);

/* bytes: of the packets after a, b included. */
uint64_t ab_rate_between(const struct ab_packet *a, const struct ab_packet *b, uint64_t bytes);

/* IP bytes of packets[begin..end). */
uint64_t ab_bytes_of(const struct ab_packet *packets, size_t begin, size_t end);

/*
 * Least squares of arrival time on bytes: one slope for all trains, each with its own origin. 0: there is no
 * train that is long enough.
 */
uint64_t ab_slope_of(const struct ab_packet *packets, size_t count);

#endif

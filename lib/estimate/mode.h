/* SPDX-License-Identifier: MIT */
#ifndef AB_MODE_H
#define AB_MODE_H

#include <stddef.h>
#include <stdint.h>

/* Sorts ascending, in place, without allocating. */
void ab_sort(uint64_t *values, size_t count);

/*
 * The half-sample mode (Bickel 2002; Robertson and Cryer 1974) of ascending values. Takes the narrowest run that
 * holds half of the values, then the narrowest half of that run, and so on until two values are left; the mode is
 * their mean. It is robust as long as fewer than half of the values are outliers, on either side. count above 0.
 */
uint64_t ab_mode(const uint64_t *sorted, size_t count);

/* How many of ascending values lie within part/1000 of center. */
size_t ab_count_near(const uint64_t *sorted, size_t count, uint64_t center, uint64_t part);

/* The value below which percent of the ascending values lie; count above 0. */
uint64_t ab_percentile(const uint64_t *sorted, size_t count, unsigned percent);

#endif

/* SPDX-License-Identifier: MIT */
/* The clocks. Not for the pure rooms: they are told the time. */
#ifndef AB_CLOCK_H
#define AB_CLOCK_H

#include <stdint.h>

/*
 * CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns (it may wrap; used in sums only). The tightest of a
 * few readings, so that being interrupted between the two clocks does not count.
 */
uint64_t ab_clock_offset_ns(void);

#endif

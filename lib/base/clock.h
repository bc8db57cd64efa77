/* SPDX-License-Identifier: MIT */
/* The clocks. The pure rooms do not use them: their callers tell them the time. */
#ifndef AB_CLOCK_H
#define AB_CLOCK_H

#include <stdint.h>

/*
 * CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns. The difference may wrap; use it in sums only. It reads both clocks a
 * few times and takes the reading that took the least time, because the process may be interrupted between the two
 * clocks.
 */
uint64_t ab_clock_offset_ns(void);

#endif

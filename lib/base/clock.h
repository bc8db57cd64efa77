/* SPDX-License-Identifier: MIT */
/* The clocks. In pure rooms the caller passes the time. */
#ifndef AB_CLOCK_H
#define AB_CLOCK_H

#include <stdint.h>

/*
 * CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns. The difference may wrap; use it in sums only. Of a few readings of both
 * clocks the fastest counts, because the process may be interrupted between them.
 */
uint64_t ab_clock_offset_ns(void);

#endif

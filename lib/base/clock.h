/* SPDX-License-Identifier: MIT */
/* The clocks, and what waits. In pure rooms the caller passes the time. */
#ifndef AB_CLOCK_H
#define AB_CLOCK_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/*
 * CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns. The difference may wrap; use it in sums only. Of a few readings of both
 * clocks the fastest counts, because the process may be interrupted between them.
 */
uint64_t ab_clock_offset_ns(void);

/* The time until until_ns, for ppoll(2). */
struct timespec ab_time_until(uint64_t until_ns);

/* Waits for one of fds, at most until until_ns (AUTOBUF_NS_UNSET: for ever). Returns 0 or a negative errno. */
int ab_wait_any(struct pollfd *fds, size_t count, uint64_t until_ns);

/* The same for the events of one fd. */
int ab_wait(int fd, int events, uint64_t until_ns);

/* Does one step. Returns its result; if that is 0, *events and *until_ns are what to wait for. */
typedef int ab_step_fn(void *handle, uint64_t now_ns, int *events, uint64_t *until_ns);

/* Steps, and waits for fd in between, until a result is not 0. Returns that, or a negative errno of ppoll(2). */
int ab_run(int fd, ab_step_fn *step, void *handle);

#endif

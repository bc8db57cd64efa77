/* SPDX-License-Identifier: MIT */
#ifndef AB_WAIT_H
#define AB_WAIT_H

#include <stdint.h>

/* Waits for poll(2) events, at most until then (AUTOBUF_NS_UNSET: for ever). 0, -errno. */
int ab_wait(int fd, int events, uint64_t until_ns);

/* A step of something that is done in steps: its result, and, where that is 0, what the next one waits for. */
typedef int ab_step_fn(void *handle, uint64_t now_ns, int *events, uint64_t *until_ns);

/* The blocking form: steps, and waits for fd between, until a result is not 0. That result, or -errno of ppoll. */
int ab_run(int fd, ab_step_fn *step, void *handle);

#endif

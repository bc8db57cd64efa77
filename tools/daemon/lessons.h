/* SPDX-License-Identifier: MIT */
/* The connections that are managed, as far as they teach something of their paths: learn.h says what. */
#ifndef LESSONS_H
#define LESSONS_H

#include <stdint.h>

#include "keep.h"
#include "rules.h"

struct lessons;
struct lesson; /* of one connection */

/* What is learned goes to *keep, which must live as long. 0; -ENOMEM. */
int lessons_open(struct lessons **lessons, struct keep *keep);

/*
 * A connection is managed from now on, of which this descriptor is borrowed. autotuning_bytes: the receive window that
 * autotuning gives by itself, 0: it is off. NULL: nothing is kept, there is no memory, or its packets may go another
 * way than others' to that host (SO_BINDTODEVICE, SO_MARK).
 */
struct lesson *lessons_begin(struct lessons *lessons, uint64_t cookie, const struct endpoint *remote,
                             uint64_t autotuning_bytes, int copy);

/* Its descriptor is borrowed, and this was seen. NULL is allowed. */
void lessons_sample(struct lesson *lesson, int copy, const struct autobuf_live_state *state, uint64_t now_ns);

/*
 * It is not managed any more, and the lesson belongs to *lessons again: what it teaches is learned as soon as the
 * kernel tells of its end, which is after the last FIN, or if it does not tell in time. NULL is allowed.
 */
void lessons_end(struct lessons *lessons, struct lesson *lesson, uint64_t now_ns);

/* Takes in what the kernel has told. To be called now and then; no more than 512 connections at once. */
void lessons_step(struct lessons *lessons, uint64_t now_ns);

/* Learns from what has ended. Every lesson must have ended. NULL is allowed. */
void lessons_close(struct lessons *lessons);

#endif

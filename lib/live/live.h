/* SPDX-License-Identifier: MIT */
#ifndef AB_LIVE_H
#define AB_LIVE_H

#include "../base/base.h"

/*
 * Manages an open TCP connection, of which a flow has checked options and owner. Of the options it heeds intent, log,
 * flags and most_bytes. 0; -ENOTCONN, -ENOMEM, and errors of autobuf_socket_state().
 */
struct ab_live;

int ab_live_open(struct ab_live **live, int fd, const struct autobuf_options *options,
                 const struct autobuf_limits *limits);

/*
 * The pace that live has set is put back if the descriptor is still the connection's. ours: not that of a parent
 * process.
 */
void ab_live_close(struct ab_live *live, bool ours);

/* The connection has this descriptor from now on. */
void ab_live_move(struct ab_live *live, int fd);

uint64_t ab_live_deadline_ns(const struct ab_live *live);

/* As autobuf_flow_step(). */
int ab_live_step(struct ab_live *live, uint64_t now_ns);

void ab_live_state(const struct ab_live *live, struct autobuf_live_state *state);

/* What other traffic leaves free, of a path of which so much is known. */
void ab_live_available(const struct ab_live *live, const struct autobuf_path *path,
                       struct autobuf_available *available);

/*
 * Applies a plan to the connection, and manages what it sets: a forced buffer is trimmed if the excess stands
 * in a queue; the plan's pace becomes the most that is set. Returns what autobuf_apply() returns, -ESTALE, or 0 if
 * so much may not be forced now.
 */
int ab_live_apply(struct ab_live *live, const struct autobuf_plan *plan, const char *why);

/*
 * The send buffer was forced before live was opened, and may then have had before_bytes: what is too much is trimmed.
 */
void ab_live_forced(struct ab_live *live, uint64_t before_bytes);

/* Payload that moved in the last round trip, in the direction that moved more; 0: not known yet. */
uint64_t ab_live_round_bytes(const struct ab_live *live);

/* The side whose buffer has limited the connection for some round trips: AUTOBUF_LOCK_*; 0: neither. */
uint32_t ab_live_short_side(const struct ab_live *live);

/* The sides whose buffers the newest change has set, or given back to autotuning: AUTOBUF_LOCK_*; 0: a pace alone. */
uint32_t ab_live_set_sides(const struct ab_live *live);

#endif

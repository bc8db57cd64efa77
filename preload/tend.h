/* SPDX-License-Identifier: MIT */
/* Looks after connections: those that move much get a flow, which is stepped when it is due. */
#ifndef RUN_TEND_H
#define RUN_TEND_H

#include <autobuf/flow.h>

#include "places.h"

/* No connection is due before this time; AUTOBUF_NS_UNSET: none ever is. */
extern _Atomic uint64_t tend_soonest_ns __attribute__((visibility("hidden")));

/* Makes the place that of another descriptor, or of none: ends what is known and done for the one before. */
void tend_renew(int fd, struct place *place, enum place_kind kind);

/* A forked child counts by itself, and has a flow of its own; what was asked of the socket holds. */
void tend_adopt(int fd, struct place *place);

/* Ends what is done for all connections; the caller is inside. */
void tend_end(void);

/* Ends all flows; others are opened once more data move. The caller is inside. */
void tend_pause(void);

/* In a forked child: forgets what the parent does. */
void tend_forked(void);

/* What may be set for this connection: the intent without the sides that the program has set for good. */
struct autobuf_options tend_options(const struct place *place);

/* Whether the program's own sizes leave nothing to do. */
bool tend_is_all_set(const struct place *place);

/* A flow that there is ends; another one is opened once more data move. The caller holds the lock. */
void tend_anew(struct place *place);

/* A connection is there, or on its way: the program's sizes that were not applied are where its peer is near. */
void tend_came(int fd, struct place *place);

/* A connection has reached its mark; looks after it if that is due. */
void tend_reached(int fd, struct place *place);

/* The program is about to end a direction of this connection, which may be over soon: notes what the report needs. */
void tend_ending(int fd, struct place *place);

/* The program is about to wait: looks after the connections that are due. */
void tend_waiting(void);

#endif

/* SPDX-License-Identifier: MIT */
/* Connections that move much are managed: each gets a flow, which is stepped when it is due. */
#ifndef RUN_MANAGE_H
#define RUN_MANAGE_H

#include "places.h"
#include "self.h"

/* No connection is due before this time; AUTOBUF_NS_UNSET: none ever is. */
extern _Atomic uint64_t manage_next_ns __attribute__((visibility("hidden")));

/* Enters this object and locks the place. Returns false if the thread is to do nothing. */
bool manage_lock(struct place *place, struct stay *stay);
void manage_unlock(struct place *place, const struct stay *stay);

/* The descriptor is of another file now: ends what was done for the one before, and forgets it. */
void manage_renew(int fd, struct place *place, enum place_kind kind);

/* A forked child counts from 0 and opens its own flow; the sizes that the program set stay known. */
void manage_adopt(int fd, struct place *place);

/* Ends all flows for good; the caller is inside. */
void manage_end(void);

/* Ends all flows; each is opened again once its connection moves more. The caller is inside. */
void manage_pause(void);

/* In a forked child: forgets the parent's flows. */
void manage_forked(void);

/* The settings and this host's limits, with the intent for the sides that are not left to the program. */
struct autobuf_options manage_options(const struct place *place);

/* Whether both sides are left to the program. */
bool manage_leaves_all(const struct place *place);

/* Ends the flow; another one is opened once the connection moves more. The caller holds the lock. */
void manage_restart(struct place *place);

/*
 * Whether a size of the program, as sk_sndbuf or sk_rcvbuf, harms no transfer: the peer is on this host, or the RTT is
 * small enough for such a window. The caller is inside. May change errno.
 */
bool manage_is_enough(int fd, uint64_t sk_bytes);

/* connect() or accept() has begun a connection: applies withheld sizes if the peer is near. */
void manage_connecting(int fd, struct place *place);

/* The connection has moved as much as its mark: samples it if it is due. */
void manage_reached(int fd, struct place *place);

/* The program is about to end a direction of this connection: keeps for the report what TCP may soon forget. */
void manage_ending(int fd, struct place *place);

/* The program is about to wait: samples the connections that are due. */
void manage_due(void);

#endif

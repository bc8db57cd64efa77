/* SPDX-License-Identifier: MIT */
/* Connections to peers so near that they are left as they are. */
#ifndef RUN_NEAR_H
#define RUN_NEAR_H

#include "places.h"

/* Each may change errno, and is called by a thread that is inside. */

/* Whether a connection needs no larger window than autotuning's. Not one that is to have no queue, or that somebody locked. */
bool near_needs_nothing(int fd, const struct place *place);

/* Whether a size of the program, as the kernel keeps it, harms no transfer: its peer is on this host, or as near for such a window. */
bool near_takes_size(int fd, uint64_t stored_bytes);

/* Applies the sizes of the program that were not, where that is so now; the caller holds the lock. */
void near_settle(int fd, struct place *place);

#endif

/* SPDX-License-Identifier: MIT */
/* What this program has learned, handed to autobufd(8). */
#ifndef AB_HAND_H
#define AB_HAND_H

#include <autobuf/paths.h>

/*
 * Hands an entry to the daemon of this host, unless AUTOBUF_PATHS names another store. Never waits. Returns 0: it is in
 * the daemon's hands; -ENOENT: AUTOBUF_PATHS is set, or there is no daemon; -EINVAL: the entry is not valid; errors of
 * socket(2), connect(2) and send(2): nobody takes it, or not from this user.
 */
int ab_paths_hand(const struct autobuf_paths_entry *entry);

/* Acts as if the daemon's socket were there; NULL: where it is. For tests. */
void ab_paths_hand_to(const char *file);

#endif

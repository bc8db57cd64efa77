/* SPDX-License-Identifier: MIT */
/* Puts sockets back as they were before the daemon changed them. */
#ifndef UNDO_H
#define UNDO_H

#include <stdbool.h>

#include "act.h"
#include "state.h"

/*
 * Puts back every socket that *state knows and that is still there, and says which; *state then keeps those with which
 * that failed. With dry_run it only says so. Returns how many failed; -ECANCELED: AUTOBUF=off, so nothing would be put
 * back; errors of autobuf_limits_host(), ab_tcp_diag_open(), sweep() and state_retain().
 */
int undo(struct state *state, bool dry_run);

#endif

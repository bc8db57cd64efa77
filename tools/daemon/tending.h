/* SPDX-License-Identifier: MIT */
/* The connections that are managed: each is a flow, begun by its rule, sampled when that is due, divided, ended. */
#ifndef TENDING_H
#define TENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keep.h"
#include "owners.h"
#include "report.h"
#include "config.h"
#include "state.h"
#include "table.h"

struct tending;

/*
 * Nothing is managed yet. How sockets were is kept in *state, what becomes of each is told in *table, and what is
 * done is counted in *counts; what connections teach goes to *keep; they must live as long. 0; -ENOMEM.
 */
int tending_open(struct tending **tending, struct state *state, struct table *table, struct report_counts *counts,
                 struct keep *keep);

/* From now on these rules hold. *config must live until tending_end(). 0; errors of autobuf_limits_host(). */
int tending_rules(struct tending *tending, const struct config *config, bool dry_run, uint64_t now_ns);

/*
 * What each user has forced: call begins() before a sweep, sees() for each socket of it, ends() after one that told of all. That says
 * once of a user, and counts, that the user has the share of one user, of this or of managed connections.
 */
void tending_sweep_begins(struct tending *tending);
void tending_sees(struct tending *tending, const struct seen *seen);
void tending_sweep_ends(struct tending *tending);

/* Manages a socket whose owner is known, if there is a rule for it. Its state in the table says what came of it. */
void tending_begin(struct tending *tending, const struct seen *seen, const struct owner *owner);

/* Does what is due. */
void tending_step(struct tending *tending, uint64_t now_ns);

/* When to call tending_step() next; UINT64_MAX: nothing is managed. */
uint64_t tending_deadline_ns(const struct tending *tending);

/* How many connections are managed, and each of them, from 0 on: a report_flow_fn of a struct tending. */
size_t tending_count(const struct tending *tending);
void tending_flow(const void *tending, size_t at, struct report_flow *flow);

/* Ends the care of all, not the connections: what was set for its time only, a pace or a share, is put back. */
void tending_end(struct tending *tending);

/* The same, and frees it. NULL is allowed. */
void tending_close(struct tending *tending);

#endif

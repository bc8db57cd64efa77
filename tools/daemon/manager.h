/* SPDX-License-Identifier: MIT */
/* The connections that are managed: each is a flow, begun by its rule, sampled when that is due, divided, ended. */
#ifndef MANAGER_H
#define MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keep.h"
#include "owners.h"
#include "report.h"
#include "config.h"
#include "state.h"
#include "table.h"

struct manager;

/*
 * Nothing is managed yet. How sockets were is kept in *state, what becomes of each is told in *table, and what is
 * done is counted in *counts; what connections teach goes to *keep; they must live as long. 0; -ENOMEM.
 */
int manager_open(struct manager **manager, struct state *state, struct table *table, struct report_counts *counts,
                 struct keep *keep);

/* From now on these rules hold. *config must live until manager_end(). 0; errors of autobuf_limits_host(). */
int manager_rules(struct manager *manager, const struct config *config, bool dry_run, uint64_t now_ns);

/* This host's limits, as they were read last. */
const struct autobuf_limits *manager_limits(const struct manager *manager);

/*
 * What each user has forced: call begins() before a sweep, sees() for each socket of it, ends() after one that told of
 * all. That says once of a user, and counts, that the user has the share of one user, of this or of managed
 * connections.
 */
void manager_sweep_begins(struct manager *manager);
void manager_sees(struct manager *manager, const struct seen *seen);
void manager_sweep_ends(struct manager *manager);

/* Manages a socket whose owner is known, if there is a rule for it. Its state in the table says what came of it. */
void manager_begin(struct manager *manager, const struct seen *seen, const struct owner *owner);

/* Does what is due. */
void manager_step(struct manager *manager, uint64_t now_ns);

/* When to call manager_step() next; UINT64_MAX: nothing is managed. */
uint64_t manager_deadline_ns(const struct manager *manager);

/* How many connections are managed, and each of them, from 0 on: a report_flow_fn of a struct manager. */
size_t manager_count(const struct manager *manager);
void manager_flow(const void *manager, size_t at, struct report_flow *flow);

/* Ends the care of all, not the connections: what was set for its time only, a pace or a share, is put back. */
void manager_end(struct manager *manager);

/* The same, and frees it. NULL is allowed. */
void manager_close(struct manager *manager);

#endif

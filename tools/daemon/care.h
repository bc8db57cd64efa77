/* SPDX-License-Identifier: MIT */
/*
 * The TCP connections of this host, managed: sweep() sees them all, owners.c finds whose they are, and each one
 * that carries bulk data becomes a flow.
 */
#ifndef CARE_H
#define CARE_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "withhold.h"
#include "keep.h"
#include "manager.h"

struct care;

/*
 * Opens it. Nothing is done yet. What is changed is kept in *state, what connections teach in *keep, and *withhold
 * (NULL: none) has the same rules; all must live as long. 0; -ENOMEM; errors of ab_tcp_diag_open().
 */
int care_open(struct care **care, struct state *state, struct keep *keep, struct withhold *withhold);

/* Ends the care of every connection, until rules are given again. */
void care_forget(struct care *care);

/*
 * From now on these rules hold; each socket is judged anew. *config must live until care_forget() or care_close(). 0;
 * errors of autobuf_limits_host().
 */
int care_rules(struct care *care, const struct config *config, bool dry_run);

/* Does what is due. Returns 0, or why nothing can be seen any more: errors of sweep(). */
int care_step(struct care *care, uint64_t now_ns);

/* When to call care_step() next. */
uint64_t care_deadline_ns(const struct care *care);

/* What was done so far, and the connections that are managed now. */
const struct report_counts *care_counts(const struct care *care);
const struct manager *care_manager(const struct care *care);

/* Ends the care, not the connections: what was set for its time only, a pace, is put back. */
void care_close(struct care *care);

#endif

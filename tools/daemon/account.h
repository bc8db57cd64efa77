/* SPDX-License-Identifier: MIT */
/* What is said of a socket while it is acted on: kept, and told once it is sure that it holds. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdbool.h>

#include "act.h"
#include "report.h"
#include "rules.h"

struct account {
    struct report_counts *counts;
    const struct owner *owner; /* whose socket it is */
    const struct rule *rule;
    int copy;
    bool dry_run;
    unsigned kinds, failed; /* of what is kept: a bit for each enum report_kind; how much was refused */
    char text[REPORT_TEXT_BYTES]; /* not told yet: lines; what was cut ends in "..." */
};

/*
 * From here on it is about this socket, as long as that is borrowed, and the log waits. What was kept of another one is
 * lost.
 */
void account_about(struct account *account, int copy, const struct owner *owner, const struct rule *rule, bool dry_run);

/* Keep something of it, as a part of the line or as a line of its own. The first argument is a struct account. */
void account_part(void *account, const struct autobuf_event *event);
void account_line(void *account, const struct autobuf_event *event);

/*
 * Tells and counts what is kept, which stays: something was set, or in a dry run would be. Whoever reads it may count
 * on what state_keep() has written.
 */
void account_tell(struct account *account);

/* Something could not be done: an errno of the kernel or an AUTOBUF_E_*. */
void account_failed(struct account *account, int error);

#endif

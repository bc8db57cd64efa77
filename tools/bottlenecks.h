/* SPDX-License-Identifier: MIT */
/* Finds what limits a transfer on this path, and the line that changes it. Pure. */
#ifndef BOTTLENECKS_H
#define BOTTLENECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "findings.h"
#include "host.h"

#define BOTTLENECKS_MOST 24

enum way { WAY_SYSCTL, WAY_AUTOBUFD, WAY_RUN, WAY_LINK, WAYS };

enum help {
    HELP_UNSAID, /* it is no window that these ways could enlarge */
    HELP_NO,
    HELP_ROOT, /* only with CAP_NET_ADMIN, which whoever asks has not */
    HELP_PART, /* not as far as the path needs */
    HELP_ALL,
};

struct bottleneck {
    double lost;    /* share of the path's rate that is lost, 0 to 1, an estimate; 0: it depends */
    char what[240]; /* without a line feed */
    char line[200]; /* the command that changes it */
    enum help ways[WAYS]; /* of a window: what else enlarges it */
};

/*
 * Whether a line of autobuf_plan_sysctl() can be set here: net.ipv4.tcp_mem must leave half of this host's memory to
 * others, and a container does not have it.
 */
bool bottlenecks_settable(const char *line, const struct findings *found, const struct host_facts *host);

/*
 * Says for each way how far it enlarges the send or the receive window, beyond window_bytes. run and link: with the
 * permission of whoever the plan of *f is for. autobufd has CAP_NET_ADMIN.
 */
void ways_find(const struct findings *f, bool sends, uint64_t window_bytes, enum help ways[WAYS]);

/* "helps: sysctl, autobufd; as root: run, link" */
void ways_text(const enum help ways[WAYS], char *text, size_t cap);

/* An object with a member for each way, or null. */
void ways_json(FILE *out, const enum help ways[WAYS]);

/* Writes the bottlenecks, largest loss first, and returns how many there are. */
size_t bottlenecks_find(const struct findings *found, const struct host_facts *host,
                      struct bottleneck out[BOTTLENECKS_MOST]);

#endif

/* SPDX-License-Identifier: MIT */
/* Finds what limits a transfer on this path, and the line that changes it. Pure. */
#ifndef BOTTLENECKS_H
#define BOTTLENECKS_H

#include <stdbool.h>
#include <stddef.h>

#include "findings.h"
#include "host.h"
#include "ways.h"

#define BOTTLENECKS_MOST 24

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

/* Writes the bottlenecks, largest loss first, and returns how many there are. */
size_t bottlenecks_find(const struct findings *found, const struct host_facts *host,
                      struct bottleneck out[BOTTLENECKS_MOST]);

#endif

/* SPDX-License-Identifier: MIT */
/* What the command prints. */
#ifndef SHOW_H
#define SHOW_H

#include <stdio.h>

#include <autobuf/autobuf.h>

#include "findings.h"

struct transfer_result;

/* One object on one line, keys as the manual page has them. transfers: NULL: none was asked for. */
void show_json(FILE *out, const struct findings *f, const struct host_facts *host, const struct bottleneck *bottlenecks,
               size_t count, const struct transfer_result *transfers);

/* Rate, RTT, BDP and cost in human units. */
void show_path(FILE *out, const struct autobuf_path *path);

/* Prints a histogram of the readings with the chosen rate marked. Sorts the rates. */
void show_histogram(FILE *out, uint64_t *rates, size_t count, uint64_t chosen);

/* Prints the two lines of the plan, and the lines that an administrator must change. */
void show_plan(FILE *out, const struct findings *f, const struct host_facts *host);

/* Prints this host's kernel and limits. */
void show_host(FILE *out, const struct autobuf_limits *limits, const struct host_facts *host);

/* Prints what one connection can do: programs as they are, and programs with libautobuf. */
void show_outlook(FILE *out, const struct findings *f, const struct host_facts *host);

/* Prints the bottlenecks with the line that changes each. */
void show_bottlenecks(FILE *out, const struct bottleneck *bottlenecks, size_t count);

/* Prints a file for /etc/sysctl.d. */
void show_sysctls(FILE *out, const struct findings *f);

#endif

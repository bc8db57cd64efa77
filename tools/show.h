/* SPDX-License-Identifier: MIT */
/* What the command prints. */
#ifndef SHOW_H
#define SHOW_H

#include <stdio.h>

#include <autobuf/autobuf.h>

struct findings {
    struct autobuf_path path;
    struct autobuf_limits limits;
    struct autobuf_plan plan;
};

/* One object on one line, keys as the manual page has them. */
void show_json(FILE *out, const struct findings *f);

/* Rate, round-trip time, product and cost in human units. */
void show_path(FILE *out, const struct autobuf_path *path);

/* Prints a histogram of the readings with the chosen rate marked. Sorts the rates. */
void show_histogram(FILE *out, uint64_t *rates, size_t count, uint64_t chosen);

/* Prints the two lines of the plan, and the lines that an administrator must change. */
void show_plan(FILE *out, const struct findings *f);

struct obstacle;

/* Prints the two lines of the plan, and the bottlenecks with the line that changes each. */
void show_explained(FILE *out, const struct findings *f, const struct obstacle *obstacles,
                    size_t count);

/* This host's limits. */
void show_limits(FILE *out, const struct autobuf_limits *limits);

#endif

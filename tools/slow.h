/* SPDX-License-Identifier: MIT */
/* Why an open connection is not faster, from samples of a second or two: in words, in figures, as JSON. Pure. */
#ifndef SLOW_H
#define SLOW_H

#include <stddef.h>
#include <stdio.h>

#include "connections.h"
#include "findings.h"

/* Zeros before the first sample. */
struct slow {
    const struct connection *of;
    uint64_t since_ns, now_ns;           /* of its first and its newest sample */
    uint64_t sent_bytes, received_bytes; /* at the first one */
    uint32_t retransmits;
    uint64_t spent_ns[AUTOBUF_BOTTLENECK_STALLED + 1]; /* with each of AUTOBUF_BOTTLENECK_* */
    uint64_t queue_ns;                                 /* with an RTT well above its minimum */
    uint64_t program_ns[PROCESS_DISK + 1];             /* while nothing but the program was, and did this */
    struct findings f; /* of a new connection like it: whoever samples fills it in at the end */
};

/*
 * Takes in what the newest sample of a connection showed, which may be another one than before, and what its process
 * did meanwhile.
 */
void slow_sample(struct slow *s, const struct connection *c, enum activity activity, uint64_t now_ns);

/* What it was for most of the time: AUTOBUF_BOTTLENECK_*. */
uint32_t slow_bottleneck(const struct slow *s);

/* Whether it moved more than a connection begins with, or had to. */
bool slow_is_bulk(const struct slow *s);

/* For qsort(): what moves bulk first, then what moved more. */
int slow_by_bytes(const void *a, const void *b);

/* Why it is not faster, and what would change that. */
struct bottleneck slow_cause(const struct slow *s);

/* How long so many bytes take: from all that is free, or that the path has, to what the connection reaches now. */
struct duration slow_duration(const struct slow *s, uint64_t bytes);

/* autobuf_streams() of connections like it. */
int slow_streams(const struct slow *s);

/* One line; below the busiest one its figures, with so many bytes that are to be transferred (0: unknown). */
void slow_show(FILE *out, const struct slow *s);
void slow_show_figures(FILE *out, const struct slow *s, uint64_t bytes);

/* One object. */
void slow_json(FILE *out, const struct slow *s, uint64_t bytes);

#endif

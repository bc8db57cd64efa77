/* SPDX-License-Identifier: MIT */
/* What the command has found out, and what follows from it for whom. Pure. */
#ifndef FINDINGS_H
#define FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "arguments.h"

struct findings {
    struct autobuf_path path;
    struct autobuf_path share; /* of one connection, if several use the path; a rate that is unsure is unknown here */
    struct autobuf_limits limits;
    struct autobuf_socket socket; /* a new one */
    struct autobuf_plan plan;     /* for the user who runs the command, or whom it was told */
    struct autobuf_plan user;     /* for an ordinary user */
    struct autobuf_plan root;     /* for one with CAP_NET_ADMIN */
    uint64_t expected_bytes;      /* of the transfer; 0: unknown */
};

/*
 * Makes the share and the plans, from path, limits and socket, for the intent, expected_bytes, streams and as_user that
 * are wanted. Errors of autobuf_plan_make().
 */
int findings_plan(struct findings *f, const struct arguments *want);

/* Why the path's rate could not be told, as autobuf_unsure_name() says it: then there is no plan. NULL: it could. */
const char *findings_unsure(const struct findings *f);

/* The payload rate that a window allows at the minimum RTT, in bit/s; 0: unknown. */
uint64_t findings_window_rate(const struct findings *f, uint64_t window_bytes);

/* The same, but never more than what is known of the path in that direction. */
uint64_t findings_rate(const struct findings *f, bool sends, uint64_t window_bytes);

/* Whether the path may have more in that direction than is known of it, and the window would allow it. */
bool findings_or_more(const struct findings *f, bool sends, uint64_t window_bytes);

/* The window that the transfer needs in one direction: the path's, or the whole transfer. 0: unknown. */
uint64_t findings_wanted(const struct findings *f, bool sends);

/* The next power of two, or one and a half of one, in bytes. */
uint64_t findings_sensible(uint64_t bytes);

#define TCP_WINDOW_BYTES (1ULL << 30) /* the largest (RFC 7323); a sysctl is an int, too */

/* The largest buffer that is advised on a host: what TCP can use, and its memory allows. */
uint64_t findings_size_most(const struct autobuf_limits *limits);

/* Whether anything is known of what the path holds. */
bool findings_known(const struct findings *f);

/* Whether autotuning can fill the path with sizes that may be advised here. */
bool findings_fillable(const struct findings *f);

#define SYSCTLS_MOST 4

struct sysctl_line {
    char name[32];
    char value[64];
};

/*
 * Finds the settings with which autotuning alone fills the path, for all programs of the host: sizes are powers of
 * two, or halfway between two. None lowers a value. Returns how many there are; 0: the host needs none, or can have no
 * larger ones, or the path or its present limits are unknown.
 */
size_t findings_sysctls(const struct findings *f, struct sysctl_line out[SYSCTLS_MOST]);

#endif

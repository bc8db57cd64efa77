/* SPDX-License-Identifier: MIT */
/* What the command has found out, what follows from it for whom, and what limits a transfer on this path. Pure. */
#ifndef FINDINGS_H
#define FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <autobuf/autobuf.h>

#include "arguments.h"
#include "host.h"

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

/* -------------------------------------------------------------- what the command prints of them */

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

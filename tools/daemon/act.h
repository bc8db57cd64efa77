/* SPDX-License-Identifier: MIT */
/* What is done with one socket of another process while its descriptor is borrowed, and what is said of it. */
#ifndef ACT_H
#define ACT_H

#include "report.h"
#include "state.h"

#define ACT_CONTROL 256U /* beside AUTOBUF_EVENT_*: the congestion control was set, or could not be */

/* What is said of a socket: kept, and told once it is sure that it holds. */
struct account {
    struct report_counts *counts;
    const struct owner *owner; /* whose socket it is */
    const struct rule *rule;
    int copy;
    unsigned kinds, failed; /* of what is kept: a bit for each enum report_kind; how much was refused */
    char text[REPORT_TEXT_BYTES]; /* not told yet: lines; what was cut ends in "..." */
};

/*
 * From here on it is about this socket, as long as that is borrowed, and the log waits. What was kept of another one is
 * lost.
 */
void account_about(struct account *account, int copy, const struct owner *owner, const struct rule *rule);

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

/* What all forced buffers may hold, with what TCP holds anyway. */
uint64_t act_forced_most(const struct autobuf_limits *limits);

/* What a connection's buffers hold of that: those that are larger than anybody gets them without force. */
uint64_t act_forced_bytes(const struct autobuf_limits *limits, uint64_t snd_buf_bytes, uint64_t rcv_buf_bytes);

/* Whether autotuning's window already allows any rate on a path so short, so that there is nothing to look for. */
bool act_is_near(int copy, const struct autobuf_limits *limits, uint32_t intent);

/*
 * The largest request for a side of a socket that this host allows, and by force as much as the library's own plans
 * force, beside so much that is forced, too. A listener's buffer is not forced: each of its connections would have it,
 * and nobody counts them.
 */
uint64_t act_most_bytes(const struct autobuf_limits *limits, const struct autobuf_socket *now, bool snd,
                        uint64_t beside_bytes);

/* What a plan asks for, as far as that. */
void act_bound_requests(const struct autobuf_limits *limits, const struct autobuf_socket *now,
                        struct autobuf_plan *plan);

/*
 * Sets on the account's socket what its rule says for all modes, and the sizes of mode fixed. 1: it set something; 0:
 * there was nothing to set; -errno: no size and no pace was set. In a dry run it only says so.
 */
int act_fixed(struct account *account, const struct autobuf_limits *limits);

/* What of the account's socket its rule can change, as it is now. 0; errors of autobuf_settings_read(). */
int act_read(const struct account *account, struct noted *noted);

/*
 * Bounds the sizes that a file says of a socket: by what it has now, what this host lets everybody
 * set, how far autotuning goes, and what a rule could force.
 */
void act_bound(const struct autobuf_limits *limits, const struct autobuf_settings *now, struct autobuf_settings *was);

/* Puts that back. 0; errors of autobuf_settings_restore(); -ENOENT: there is no such congestion control any more. */
int act_restore(int copy, const struct noted *noted);

/*
 * SO_MAX_PACING_RATE of a socket, UINT64_MAX: none, as the kernel takes 0; 0: unknown. Sets it: 1; 0: AUTOBUF=off;
 * errors of autobuf_apply().
 */
uint64_t act_pace(int copy);
int act_set_pace(int copy, uint64_t byte_per_s);

/*
 * Opens the window to which a killed daemon held a peer: with a lock that was not there when it was kept, and a clamp
 * that holds less than the buffer. Returns 0, or errors of autobuf_settings_restore().
 */
int act_open_window(int copy, const struct autobuf_settings *kept);

/*
 * Puts back every socket that *state knows and that is still there, and says which; *state then keeps those with which
 * that failed. With dry_run it only says so. Returns how many failed; -ECANCELED: AUTOBUF=off, so nothing would be put
 * back; errors of autobuf_limits_host(), ab_tcp_diag_open(), sweep() and state_retain(). undo.c.
 */
int undo(struct state *state, bool dry_run);

#endif

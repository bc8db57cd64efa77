/* SPDX-License-Identifier: MIT */
#ifndef AB_LIVE_H
#define AB_LIVE_H

#include "../apply/window.h"
#include "../available/inline.h"
#include "judge.h"

struct ab_live {
    struct ab_judge judge;
    struct ab_available available;
    struct ab_inline *in_line; /* NULL: it never searches */
    uint64_t search_mss_bytes;
    uint64_t delivered_bytes; /* IP bytes that the peer has got since live was opened */
    struct ab_log log;
    int fd;
    uint64_t cookie;
    bool observes;
    uint32_t changes;
    uint64_t pace_byte_per_s; /* the most that the program itself allows; UINT64_MAX: no limit */
    uint64_t path_bit_per_s;  /* the most that the path takes, if it is known; UINT64_MAX: unknown */
    uint64_t set_bit_per_s;   /* the pace that we set; 0: none */
    uint64_t notsent_bytes;   /* how much may wait unsent, if that bound is ours; 0: it is not */
    uint64_t notsent_most_bytes; /* the program's own bound; UINT64_MAX: none */
    struct ab_window window;
    uint64_t window_bytes;    /* that it is held to; 0: none, or no more */
    uint64_t asked_ns;        /* when it was last asked what may be forced */
    uint32_t locks;           /* that the kernel does not show, before Linux 5.15: AUTOBUF_LOCK_* */
    uint32_t sides;           /* whose buffers the newest change has set or given back: AUTOBUF_LOCK_* */
};

/*
 * Manages an open TCP connection, of which a flow has checked options and owner. Of the options it heeds intent, log,
 * flags and most_bytes. 0; -ENOTCONN, -ENOMEM, and errors of autobuf_socket_state().
 */
int ab_live_open(struct ab_live **live, int fd, const struct autobuf_options *options,
                 const struct autobuf_limits *limits);

/*
 * The pace and the window clamp that live has set are put back if the descriptor is still the connection's. ours: not
 * that of a parent process.
 */
void ab_live_close(struct ab_live *live, bool ours);

/* As autobuf_flow_deadline_ns(). */
uint64_t ab_live_next_ns(const struct ab_live *live);

/* As autobuf_flow_step(). */
int ab_live_step(struct ab_live *live, uint64_t now_ns);

/*
 * After a step that took a sample: begins to search what is free, on a path of which so much is known, if the options
 * ask for it, it is due, and the pace is nobody's. Returns 1 if it has begun, 0, or an error of autobuf_apply().
 */
int ab_live_search(struct ab_live *live, uint64_t now_ns, const struct autobuf_path *path);

void ab_live_state(const struct ab_live *live, struct autobuf_live_state *state);

/* What other traffic leaves free, of a path of which so much is known. */
void ab_live_available(const struct ab_live *live, const struct autobuf_path *path,
                       struct autobuf_available *available);

/*
 * Applies a plan to the connection, and manages what it sets: a forced buffer is trimmed if the excess stands
 * in a queue; the plan's pace becomes the most that is set. Returns what autobuf_apply() returns, -ESTALE, or 0 if
 * so much may not be forced now.
 */
int ab_live_apply(struct ab_live *live, const struct autobuf_plan *plan, const char *why);

#endif

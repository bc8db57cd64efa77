/* SPDX-License-Identifier: MIT */
/*
 * One handle for the life of a connection.
 *
 *   decide.c   what is asked for, what may be measured, what is planned: of the handle and of the blocking form
 *   flow.c     the handle: before the connection, beside its transfer, and its end
 *   tune.c     the blocking form
 *   bwdelay.c  the classic calls
 */
#ifndef AB_FLOW_H
#define AB_FLOW_H

#include <sys/socket.h>
#include <sys/types.h>

#include <autobuf/flow.h>

#include "../base/base.h"

/* Windows that a path is known to need, payload; 0: unknown. */
struct ab_windows {
    uint64_t snd_bytes;
    uint64_t rcv_bytes;
    uint64_t rtt_ns; /* AUTOBUF_NS_UNSET: unknown */
};

/* What a flow knows and has decided. */
struct ab_decision {
    struct autobuf_options options;
    struct ab_log log;
    struct sockaddr_storage peer;
    socklen_t peer_len; /* 0: nobody to measure the path to */
    struct autobuf_limits limits;
    struct autobuf_socket socket;
    struct autobuf_path path;
    struct ab_windows windows; /* instead of a path, */
    bool by_windows;           /* if this is set */
    struct autobuf_plan plan;
    int measured; /* as in struct autobuf_applied */
};

/*
 * Takes in what the caller asks for, and how its socket is; peer may be NULL. 0; -EINVAL: an option or the
 * address; errors of autobuf_socket_state().
 */
int ab_decide_begin(struct ab_decision *d, int fd, const struct sockaddr *peer, socklen_t peer_len,
                    const struct autobuf_options *options);

/* Takes in who a connection's peer is, if it was not known before. */
void ab_decide_peer_of(struct ab_decision *d, int fd);

/* Takes in this host's limits, and the caller's bound. */
void ab_decide_within(struct ab_decision *d, const struct autobuf_limits *limits);

/* So short a transfer that nothing can be gained, not even by looking at this host's limits. */
bool ab_decide_is_short(const struct ab_decision *d);

/* 1: a measurement could pay, and this is what to measure with; 0: it could not, or may not be made. */
int ab_decide_worth(const struct ab_decision *d, struct autobuf_probe_options *probe);

/* How a measurement ended: 0 or an error. */
void ab_decide_measured(struct ab_decision *d, int result);

/* Plans for the socket as it is now, from what is known of the path: of nothing, from limits alone. */
int ab_decide_plan(struct ab_decision *d, int fd);

/*
 * Says why in the plan for a path that nothing is known of, of which a connection has shown that one side's buffer
 * limits it (AUTOBUF_LOCK_*), or none does (0).
 */
void ab_decide_short(struct ab_decision *d, int fd, uint32_t side);

/* Tells what is wanted of it. -EINVAL: a size. */
int ab_decide_report(const struct ab_decision *d, struct autobuf_applied *applied);

/*
 * autobuf_flow_open() within limits that are known, and with windows instead of a path (NULL: without). Both are
 * copied.
 */
int ab_flow_open(struct autobuf_flow **flow, int fd, const struct sockaddr *peer, socklen_t peer_len,
                 const struct autobuf_options *options, const struct autobuf_limits *limits,
                 const struct ab_windows *windows);

#endif

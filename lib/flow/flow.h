/* SPDX-License-Identifier: MIT */
/*
 * One handle for the life of a connection.
 *
 *   remember.c what the path store knows, and what a flow adds to it
 *   decide.c   options, what to measure, what to plan: for the handle and for the blocking form
 *   flow.c     the handle: before the connection, during its transfer, and its end
 *   tune.c     the blocking form
 *   bwdelay.c  the classic calls
 */
#ifndef AB_FLOW_H
#define AB_FLOW_H

#include <sys/types.h>

#include <autobuf/flow.h>

#include "../base/base.h"

/* Windows that a path needs, payload; 0: unknown. */
struct ab_windows {
    uint64_t snd_bytes;
    uint64_t rcv_bytes;
    uint64_t rtt_ns; /* AUTOBUF_NS_UNSET: unknown */
    uint32_t flags;  /* ab_plan_flags() */
};

/* What a flow knows and has decided. */
struct ab_decision {
    struct autobuf_options options;
    struct ab_log log;
    struct sockaddr_storage peer;
    socklen_t peer_len; /* 0: no peer to measure a path to */
    struct autobuf_limits limits;
    bool has_limits; /* the caller gave them */
    struct autobuf_socket socket;
    struct autobuf_path path;
    struct ab_windows windows; /* instead of path, if by_windows */
    bool by_windows;
    bool recalled;             /* the path store was asked */
    char device[AUTOBUF_INTERFACE_BYTES]; /* by which a path is measured; "": by the route */
    bool policy_routed;        /* a mark or another source address: others may be routed differently */
    struct autobuf_plan plan;
    int measured; /* as in struct autobuf_applied */
    struct autobuf_path found; /* what was measured; the caller may give another path later */
};

/*
 * Reads the options and the state of the socket; peer may be NULL. Returns 0; -EINVAL: an option
 * or the address is not valid; or an error of autobuf_socket_state().
 */
int ab_decide_begin(struct ab_decision *d, int fd, const struct sockaddr *peer, socklen_t peer_len,
                    const struct autobuf_options *options);

/* Asks the socket for its peer, if the peer was not known before. */
void ab_decide_peer_of(struct ab_decision *d, int fd);

/* Reads the host's limits unless the caller gave them, and sets its bound. As autobuf_limits_host(). */
int ab_decide_within(struct ab_decision *d);

/* Whether the path was told, recalled or measured. */
bool ab_decide_knows_path(const struct ab_decision *d);

/* Whether the transfer is too short to gain anything, even from reading this host's limits. */
bool ab_decide_is_short(const struct ab_decision *d);

/* Returns 1 and the probe's options if a measurement could gain more than it costs; 0 if not, or if it is forbidden. */
int ab_decide_worth(const struct ab_decision *d, struct autobuf_probe_options *probe);

/*
 * Takes an unknown path from the path store, in the direction of the intent, once the peer is known. Asks only once.
 */
void ab_decide_recall(struct ab_decision *d, int fd);

/* Records the interface of a measurement from this socket, and whether policy routing may apply. */
void ab_decide_record_route(struct ab_decision *d, int fd);

/*
 * Keeps what was measured by ICMP for other connections: reports it to this host's daemon, or if that is rejected, puts
 * it into the user's own path store. Not with policy routing: others may be routed differently.
 */
void ab_decide_keep(const struct ab_decision *d);

/*
 * An echo shows the slower direction's rate for both. If the intent names one direction, and the host's store has a
 * higher rate of the other one, removes that from *entry: the daemon then keeps its own.
 */
void ab_decide_leave_faster_direction(const struct ab_decision *d, struct autobuf_paths_entry *entry);

/* Notes the result of a measurement: 0, and path is what was measured, or an error. */
void ab_decide_measured(struct ab_decision *d, int result);

/* Returns what autobuf_socket_state() returns. */
int ab_decide_read_socket(struct ab_decision *d, int fd);

/* Plans for the socket as it is now, from the path or, if it is unknown, from limits alone. */
int ab_decide_plan(struct ab_decision *d, int fd);

/*
 * If a plan failed with result because a privilege of the limits is gone, plans without it. Returns whether there is
 * such a plan to apply.
 */
bool ab_decide_without_privilege(struct ab_decision *d, int fd, int result);

/*
 * Completes the plan's reasons on an unknown path. side: the one whose buffer is the connection's bottleneck
 * (AUTOBUF_LOCK_*); 0: neither.
 */
void ab_decide_bottleneck(struct ab_decision *d, int fd, uint32_t side);

/* Whether the sizes of these structs are valid: 0 or -EINVAL. */
int ab_decide_reports(const struct autobuf_applied *applied);

/* Copies the decision into applied. -EINVAL: a struct's size is not valid. */
int ab_decide_report(const struct ab_decision *d, struct autobuf_applied *applied);

/* autobuf_flow_open() with windows instead of a path (NULL: none), which are copied. */
int ab_flow_open(struct autobuf_flow **flow, int fd, const struct sockaddr *peer, socklen_t peer_len,
                 const struct autobuf_options *options, const struct ab_windows *windows);

#endif

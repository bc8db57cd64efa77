/* SPDX-License-Identifier: MIT */
/*
 * One handle for the life of a connection.
 *
 *   remember.c what the path store knows, and what a flow adds to it
 *   decide.c   what is asked for, what may be measured, what is planned: for the handle and for the blocking form
 *   flow.c     the handle: before the connection, during its transfer, and its end
 *   tune.c     the blocking form
 *   bwdelay.c  the classic calls
 */
#ifndef AB_FLOW_H
#define AB_FLOW_H

#include <sys/socket.h>
#include <sys/types.h>

#include <autobuf/flow.h>
#include <autobuf/paths.h>

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
    socklen_t peer_len; /* 0: there is no peer to which a path could be measured */
    struct autobuf_limits limits;
    bool limits_known; /* the caller has handed them in */
    struct autobuf_socket socket;
    struct autobuf_path path;
    struct ab_windows windows; /* used instead of path */
    bool by_windows;           /* if this is true */
    bool recalled;             /* the path store was asked */
    char device[AUTOBUF_INTERFACE_BYTES]; /* by which a path is measured; "": by that of the route */
    bool aside;                /* marked, or bound to another address: others may go another way */
    struct autobuf_plan plan;
    int measured; /* as in struct autobuf_applied */
    struct autobuf_path found; /* what was measured: the caller may tell another path afterwards */
};

/*
 * Takes in what the caller asks for, and the state of its socket; peer may be NULL. Returns 0; -EINVAL: an option
 * or the address is not valid; or an error of autobuf_socket_state().
 */
int ab_decide_begin(struct ab_decision *d, int fd, const struct sockaddr *peer, socklen_t peer_len,
                    const struct autobuf_options *options);

/* Asks the socket for its peer, if the peer was not known before. */
void ab_decide_peer_of(struct ab_decision *d, int fd);

/*
 * Takes in this host's limits, and the caller's bound. NULL: those that the caller has handed in; if it has not, reads
 * them. Returns 0, or an error of autobuf_limits_host().
 */
int ab_decide_within(struct ab_decision *d, const struct autobuf_limits *limits);

/* Whether the path was told, recalled or measured. */
bool ab_decide_knows_path(const struct ab_decision *d);

/* Whether the transfer is so short that nothing can be gained, not even by reading this host's limits. */
bool ab_decide_is_short(const struct ab_decision *d);

/*
 * Returns 1 and the probe's options if a measurement could gain more than it costs; 0 if not, or if none is
 * allowed.
 */
int ab_decide_worth(const struct ab_decision *d, struct autobuf_probe_options *probe);

/*
 * Takes what the path store knows of the path in the direction of the intent, once the peer is known, if nobody has told of it.
 * Asks only once.
 */
void ab_decide_recall(struct ab_decision *d, int fd);

/* A path is about to be measured from this socket: by which way that goes. */
void ab_decide_note_way(struct ab_decision *d, int fd);

/*
 * Keeps what was measured by ICMP for other connections: hands it to this host's daemon, or if nobody takes it there, puts
 * it into the user's own path store. Not what a mark may have sent another way than others go.
 */
void ab_decide_keep(const struct ab_decision *d);

/*
 * An echo tells the slower direction for both. If the intent names one direction, and the host's store knows that the other is
 * faster than that, takes the other one out of *entry: the daemon then keeps what it knows of it.
 */
void ab_decide_leave_other(const struct ab_decision *d, struct autobuf_paths_entry *entry);

/* Notes how a measurement ended: 0, and path is what was measured, or an error. */
void ab_decide_measured(struct ab_decision *d, int result);

/* Reads the socket's state anew. Returns what autobuf_socket_state() returns. */
int ab_decide_look(struct ab_decision *d, int fd);

/*
 * Plans for the socket as it is now, from what is known of the path. If nothing is known, plans from limits alone.
 */
int ab_decide_plan(struct ab_decision *d, int fd);

/*
 * After a plan was applied with this result: if it takes a privilege that was there when the limits were read, and is gone,
 * plans without it. Returns whether there is such a plan to apply.
 */
bool ab_decide_again(struct ab_decision *d, int fd, int result);

/*
 * Completes the plan's reasons if nothing is known of the path. side: the side whose buffer limits the connection,
 * as the connection itself has shown (AUTOBUF_LOCK_*); 0: neither does.
 */
void ab_decide_short(struct ab_decision *d, int fd, uint32_t side);

/* Whether the sizes of these structs are valid: 0 or -EINVAL. */
int ab_decide_reports(const struct autobuf_applied *applied);

/* Copies into applied what its caller wants of the decision. -EINVAL: a struct's size is not valid. */
int ab_decide_report(const struct ab_decision *d, struct autobuf_applied *applied);

/*
 * As autobuf_flow_open(), with limits that are already known (NULL: not), and with windows instead of a path (NULL:
 * none). Both are copied.
 */
int ab_flow_open(struct autobuf_flow **flow, int fd, const struct sockaddr *peer, socklen_t peer_len,
                 const struct autobuf_options *options, const struct autobuf_limits *limits,
                 const struct ab_windows *windows);

#endif

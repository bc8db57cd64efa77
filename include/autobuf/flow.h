/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/flow.h>: one handle for the life of a connection; and a plan carried out, in one call.
 */
#ifndef AUTOBUF_FLOW_H
#define AUTOBUF_FLOW_H

#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/live.h>
#include <autobuf/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The flow sends nothing of its own: it never measures. */
#define AUTOBUF_FLOW_SILENT 1U

struct autobuf_options {
    uint32_t size;
    uint32_t intent;         /* AUTOBUF_INTENT_*; default throughput */
    uint64_t expected_bytes; /* how much will be transferred; 0: unknown */
    uint64_t timeout_ns;     /* for measuring; 0: 2 s, which is also the most, and 0.3 s where nothing
                                at all answers */
    autobuf_log_fn *log;     /* told what was measured, decided and set; NULL: none */
    void *log_user;
    uint32_t budget_bytes;   /* for measuring; 0: 1,000,000, which is also the most */
    uint32_t mark;           /* the socket's own SO_MARK is used where this is 0 */
    uint32_t streams;        /* connections that share the transfer and the path, 1 to 65,535; 0: 1.
                                Each is then to hold its part of the product */
    uint32_t flags;          /* AUTOBUF_FLOW_* */
    const struct autobuf_path *path; /* the path to the peer, if it is known: nothing is measured then.
                                        It is copied. NULL: unknown */
    uint64_t most_bytes;     /* no buffer is set larger, as setsockopt() takes it; 0: what the host allows */
};

#define AUTOBUF_OPTIONS_INIT { sizeof(struct autobuf_options), 0, 0, 0, NULL, NULL, 0, 0, 0, 0, NULL, 0 }
AUTOBUF_API void autobuf_options_init(struct autobuf_options *options, uint32_t size);

/* What was found and done. A NULL pointer: of no interest. */
struct autobuf_applied {
    uint32_t size;
    int32_t measured;              /* 1: measured; 0: not, or not yet: no result could have paid;
                                      negative: measuring failed, with this error */
    struct autobuf_path *path;     /* each with its own size set */
    struct autobuf_limits *limits;
    struct autobuf_plan *plan;     /* the newest */
    struct autobuf_live_state *live; /* a flow's, once it is connected; else it is left as it is */
    uint32_t changes;              /* a flow's: how often something was set so far */
    uint32_t reserved;
};

#define AUTOBUF_APPLIED_INIT { sizeof(struct autobuf_applied), 0, NULL, NULL, NULL, NULL, 0, 0 }
AUTOBUF_API void autobuf_applied_init(struct autobuf_applied *applied, uint32_t size);

/*
 * One handle for the life of a TCP connection. Open it for a socket, call step() from the loop that moves the
 * data, close it. Nothing blocks, and no transfer waits for a measurement.
 *
 *   1. open() does at once what this host's limits alone decide: a buffer that was set smaller than autotuning
 *      would make it is given back to autotuning. If the path is known, it plans and sets.
 *   2. Once the connection is there, step() looks after it as autobuf_live_step() does.
 *   3. If the connection comes near the largest window that autotuning gives, and this host would allow a
 *      larger one, step() measures the path by ICMP, beside the transfer, and sets what the path needs. With
 *      AUTOBUF_INTENT_LOW_DELAY it measures at once, for the pace. AUTOBUF_FLOW_SILENT: it never measures.
 *
 * Most transfers end before step 3, and most hosts allow no larger window: then nothing is ever sent.
 *
 *     struct autobuf_flow *flow;
 *     autobuf_flow_open(&flow, fd, addr, addr_len, NULL);
 *     connect(fd, addr, addr_len);
 *     while (there_is_data()) {
 *         poll(..., until(autobuf_flow_deadline_ns(flow)));
 *         write(fd, ...);
 *         autobuf_flow_step(flow, autobuf_now_ns());
 *     }
 *     autobuf_flow_close(flow);
 */
struct autobuf_flow;

/*
 * Begins with a TCP socket: before connect(), before listen(), or connected. peer: where it will connect to, if
 * that is known; NULL: not known, or the socket is connected. options may be NULL. A listener's flow gives its
 * buffers back, which its later connections inherit; each accepted connection may have a flow of its own.
 *
 * 0; on failure the socket is as it was: -EINVAL (an option, the address), -ENOMEM, -EOPNOTSUPP: not a TCP socket,
 * -EBADF, -ENOTSOCK, errors of autobuf_limits_host() and autobuf_apply(). AUTOBUF=off: 0, and nothing will be done.
 */
AUTOBUF_API int autobuf_flow_open(struct autobuf_flow **flow, int fd, const struct sockaddr *peer,
                                  socklen_t peer_len, const struct autobuf_options *options);

/* When to call step(). AUTOBUF_NS_UNSET: there is nothing to do, or never will be. */
AUTOBUF_API uint64_t autobuf_flow_deadline_ns(const struct autobuf_flow *flow);

/*
 * Does what is due at now_ns (autobuf_now_ns()). Returns at once, without a system call, before deadline_ns().
 *
 * 1: something was set; 0: nothing; -ENOTCONN: the connection is over; -EBADF, -ENOTSOCK, -ESTALE: the descriptor
 * was closed, or is another socket's by now; after these four the flow can only be closed. AUTOBUF_E_FORKED: the
 * flow is the parent process's. Other errors of autobuf_apply(): the socket is as before, and the flow goes on.
 */
AUTOBUF_API int autobuf_flow_step(struct autobuf_flow *flow, uint64_t now_ns);

/*
 * The path to the peer is known now, from wherever: another flow's state, autobuf_inband(), a file. Plans and sets;
 * nothing is measured any more. 1: something was set; 0: nothing; -EINVAL, AUTOBUF_E_FORKED, and errors of
 * autobuf_apply(): the socket is as before.
 */
AUTOBUF_API int autobuf_flow_tell(struct autobuf_flow *flow, const struct autobuf_path *path);

/* What is known and was done so far. -EINVAL: a size, or NULL. */
AUTOBUF_API int autobuf_flow_state(const struct autobuf_flow *flow, struct autobuf_applied *applied);

/* Closes the handle, not the connection: buffers stay as they are, a pace is put back. NULL is allowed. */
AUTOBUF_API void autobuf_flow_close(struct autobuf_flow *flow);

/*
 * The blocking form, in one call: measures the path to peer if that can pay, plans, applies. Call it on a TCP
 * socket before connect(), or with peer NULL before listen() (nothing is measured then) or once connected (the
 * path to its peer is). The echoes leave from the socket's own source address, device and mark. options and
 * applied may be NULL. A measurement takes one round trip as a rule; one that fails is not a failure: the plan
 * then says "unknown", and a buffer is at most given back to autotuning. A transfer of up to 1 MB is left alone
 * at once, as long as applied->limits is NULL and no buffer of the socket was set.
 *
 * 1: something was set; 0: left alone; on failure the socket is as it was: errors of
 * autobuf_socket_state() and autobuf_apply(), -EINVAL.
 */
AUTOBUF_API int autobuf_tune(int fd, const struct sockaddr *peer, socklen_t peer_len,
                             const struct autobuf_options *options,
                             struct autobuf_applied *applied);

/*
 * Carries a plan out on a TCP socket, and reads back what the kernel made of it. Where it makes a send buffer
 * larger, TCP_NOTSENT_LOWAT becomes 512 KB, if it was more: the buffer is there for what is in flight. 1: something was set;
 * 0: the plan left everything alone, or AUTOBUF=off. On failure the socket is as it was: -EBADF,
 * -ENOTSOCK, -EOPNOTSUPP, -EINVAL (size; a receive buffer for a connection without a window clamp),
 * -EPERM (a forced size without CAP_NET_ADMIN), AUTOBUF_E_CLAMPED (the kernel gave less than the plan
 * asked for: the limits are not those that it was made for), other errnos of setsockopt(2).
 */
AUTOBUF_API int autobuf_apply(int fd, const struct autobuf_plan *plan);

#define AUTOBUF_UNLOCK_LATE 4U

/*
 * Gives sides (AUTOBUF_LOCK_* bits) of a TCP socket, whose buffers were set, back to autotuning: best
 * before connect() or listen(), or on a listener for its later connections. The receive side of a
 * connection is reopened as far as its window scale allows.
 *
 * Returns the sides that were locked and no longer are, 0 if none was. AUTOBUF_UNLOCK_LATE in it: the
 * receive side is autotuned again, but the window scale, fixed in the SYN out of the small buffer,
 * keeps its window below what autotuning would reach. -EOPNOTSUPP: not a TCP socket; -ENOPROTOOPT:
 * before Linux 5.15; -EBADF, -ENOTSOCK, -EINVAL (sides). AUTOBUF=off: 0.
 */
AUTOBUF_API int autobuf_unlock(int fd, uint32_t sides);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/flow.h>: a plan carried out, and the whole circle in one call.
 */
#ifndef AUTOBUF_FLOW_H
#define AUTOBUF_FLOW_H

#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

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

struct autobuf_options {
    uint32_t size;
    uint32_t intent;         /* AUTOBUF_INTENT_*; default throughput */
    uint64_t expected_bytes; /* how much will be transferred; 0: unknown */
    uint64_t timeout_ns;     /* for measuring; 0: 2 s, which is also the most, and 0.3 s where nothing
                                at all answers */
    autobuf_log_fn *log;     /* told what was measured and decided; NULL: none */
    void *log_user;
    uint32_t budget_bytes;   /* for measuring; 0: 1,000,000, which is also the most */
    uint32_t mark;           /* the socket's own SO_MARK is used where this is 0 */
    uint32_t streams;        /* connections that share the transfer and the path, 1 to 65,535; 0: 1.
                                Each is then to hold its part of the product */
    uint32_t reserved;
};

#define AUTOBUF_OPTIONS_INIT { sizeof(struct autobuf_options), 0, 0, 0, NULL, NULL, 0, 0, 0, 0 }

/* What autobuf_tune() found and did. A NULL pointer: of no interest. */
struct autobuf_applied {
    uint32_t size;
    int32_t measured;              /* 1: measured; 0: measuring could not have paid; negative: it
                                      failed, with this error */
    struct autobuf_path *path;     /* each with its own size set */
    struct autobuf_limits *limits;
    struct autobuf_plan *plan;
};

#define AUTOBUF_APPLIED_INIT { sizeof(struct autobuf_applied), 0, NULL, NULL, NULL }

/*
 * The whole circle in one call: measure the path to peer if that can pay, plan, apply. Call it on a
 * TCP socket before connect(), or with peer NULL before listen() (nothing is measured then) or once
 * connected (the path to its peer is). The probes leave from the socket's own source address, device
 * and mark. options and applied may be NULL. A measurement takes one round trip as a rule; one that
 * fails is not a failure: the plan then says "unknown" and the socket is left alone. A transfer of up
 * to 1 MB is left alone at once, as long as applied->limits is NULL and no buffer of the socket was set.
 *
 * 1: something was set; 0: left alone; on failure the socket is as it was: errors of
 * autobuf_socket_state() and autobuf_apply(), -EINVAL.
 */
AUTOBUF_API int autobuf_tune(int fd, const struct sockaddr *peer, socklen_t peer_len,
                             const struct autobuf_options *options,
                             struct autobuf_applied *applied);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/tune.h>: tuning a socket in one call; applying a plan; what a socket has set.
 */
#ifndef AUTOBUF_TUNE_H
#define AUTOBUF_TUNE_H

#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

struct autobuf_available;  /* <autobuf/available.h> */
struct autobuf_live_state; /* <autobuf/live.h> */

/*
 * Flags of struct autobuf_options. They hold for autobuf_tune(), too: SILENT does not measure, NO_STORE neither asks
 * nor keeps, OBSERVE measures and plans, and sets nothing.
 */
#define AUTOBUF_FLOW_SILENT 1U   /* the flow never measures, and so sends nothing of its own */
#define AUTOBUF_FLOW_NO_STORE 2U /* the flow neither asks the path store nor adds to it */
#define AUTOBUF_FLOW_OBSERVE 4U  /* the flow decides and observes, and sets nothing; with AUTOBUF=off, too */
/*
 * The flow searches what is free beyond what the program sends, with the program's own data, now and then for 2 s and 8
 * RTT: it holds some of them back, and then sends them faster. They are late by at most 2% of the time since the
 * connection began. For throughput only, and where step() is called when it is due, also while the program waits.
 */
#define AUTOBUF_FLOW_AVAILABLE 8U

struct autobuf_options {
    uint32_t size;
    uint32_t intent;         /* AUTOBUF_INTENT_*; default throughput */
    uint64_t expected_bytes; /* how much will be transferred; 0: unknown. If it is known, tell it: a
                                short transfer is then not made to wait */
    uint64_t timeout_ns;     /* most time for measuring, at most 2 s; 0: 2 s, but 0.3 s if nothing
                                answers */
    autobuf_log_fn *log;     /* is told what was measured, decided and set; NULL: none */
    void *log_user;
    uint32_t budget_bytes;   /* most to send for measuring, 1,000 to 1,000,000; 0: 1,000,000 */
    uint32_t mark;           /* SO_MARK of the echoes; 0: the socket's own */
    uint32_t streams;        /* connections that share the transfer and the path, 1 to 65,535; 0: 1.
                                Each is to hold its part of the BDP */
    uint32_t flags;          /* AUTOBUF_FLOW_* */
    const struct autobuf_path *path; /* the path to the peer, which is then not measured. The call copies
                                        it. NULL: unknown */
    uint64_t most_bytes;     /* largest buffer to set, as setsockopt() takes it; 0: what the host allows */
    const struct autobuf_limits *limits; /* of this host, which are then not read: for many connections, and where
                                        /proc cannot be seen. The call copies them. NULL: they are read */
};

#define AUTOBUF_OPTIONS_INIT AUTOBUF_INIT(autobuf_options)

/* What was found and done. Each pointer may be NULL: then that is not wanted. */
struct autobuf_applied {
    uint32_t size;
    int32_t measured;              /* 1: the path was measured; 0: not, or not yet; negative:
                                      measuring failed with this error */
    struct autobuf_path *path;     /* the caller sets the size of each of these structs */
    struct autobuf_limits *limits; /* tcp_used_bytes and forced_bytes only where something is to be forced */
    struct autobuf_plan *plan;     /* the newest plan */
    struct autobuf_live_state *live; /* only a flow fills it; before it is connected nothing is known */
    uint32_t changes;              /* only of a flow: how often it has set something */
    uint32_t reserved;
    struct autobuf_available *available; /* as live */
};

#define AUTOBUF_APPLIED_INIT AUTOBUF_INIT(autobuf_applied)

/*
 * The blocking form of a flow, in one call: it reads the limits, measures the path to peer if that can pay, plans
 * and applies the plan. Call it on a TCP socket
 *   - before connect(), with the address that it will connect to;
 *   - before listen(), with peer NULL: nothing is measured;
 *   - once it is connected, with peer NULL: the path to its peer is measured.
 * The echoes leave from the socket's own source address, device and mark. options and applied may be NULL.
 *
 * A measurement usually takes one round trip, and is kept in the path store; a path that the store knows is not
 * measured. An entry that knows one direction is not used for an intent that names the other, unless it was set by
 * hand.
 * If a measurement fails, the call goes on: the plan then says "unknown", and a buffer is at most given back to
 * autotuning. A transfer of up to 1 MB is left alone at once, unless applied->limits is not NULL or the program has set
 * a buffer of the socket.
 *
 * For AUTOBUF_INTENT_LOW_DELAY it replaces a rate limit (SO_MAX_PACING_RATE) that was set before; autobuf_flow_*()
 * stays below it.
 *
 * Returns 1: it set something; 0: it left the socket alone. On failure the socket is as it was: -EINVAL (an option,
 * the address, a struct's size), -ENOMEM, and the errors of autobuf_limits_host(), autobuf_socket_state() and
 * autobuf_apply().
 */
AUTOBUF_API int autobuf_tune(int fd, const struct sockaddr *peer, socklen_t peer_len,
                             const struct autobuf_options *options,
                             struct autobuf_applied *applied);

/*
 * Sets on a TCP socket what a plan requests, and reads back what the kernel granted. If it makes a send buffer
 * larger, it also lowers TCP_NOTSENT_LOWAT to 512 KB, or to what the buffer held before if that is more (not for low
 * delay), unless it or net.ipv4.tcp_notsent_lowat is lower already: the larger buffer is for data in flight, and a peer
 * that does not read must not fill it with unsent data.
 *
 * Returns 1: it set something; 0: the plan requests nothing, or AUTOBUF=off. On failure the socket is as it was:
 * -EBADF, -ENOTSOCK, -EOPNOTSUPP (not a TCP socket); -EINVAL: plan->size, NULL, or for a connected socket a receive
 * buffer without a window clamp, or a smaller one than it has; -EPERM: a forced size without CAP_NET_ADMIN;
 * AUTOBUF_E_CLAMPED: the kernel granted less than the plan requests, so the plan was made for other limits; other
 * errnos of setsockopt(2).
 */
AUTOBUF_API int autobuf_apply(int fd, const struct autobuf_plan *plan);

#define AUTOBUF_UNLOCK_LATE 4U /* see autobuf_unlock() */

/*
 * Gives sides of a TCP socket (AUTOBUF_LOCK_* bits) whose buffers were set back to autotuning. Call it before
 * connect() or listen(); a listening socket hands this on to the connections that it accepts later. On a connected
 * socket the receive window opens again as far as the window scale allows; its buffer is first made four times as
 * large, within net.core.rmem_max and net.ipv4.tcp_rmem, because autotuning alone does not begin while data flow
 * through a small one. autobuf_apply() does the same for a plan that gives the receive side back.
 *
 * Returns the sides that were locked and are not any more; 0: none was. AUTOBUF_UNLOCK_LATE in the result: the
 * receive side is autotuned again, but the window scale, which the small buffer fixed in the SYN, keeps its window
 * below what autotuning would reach. -EOPNOTSUPP: not a TCP socket; -ENOPROTOOPT: the kernel is older than Linux
 * 5.15; -EBADF, -ENOTSOCK, -EINVAL (sides). With AUTOBUF=off it does nothing and returns 0.
 */
AUTOBUF_API int autobuf_unlock(int fd, uint32_t sides);

/* What this library can set on a TCP socket. */
struct autobuf_settings {
    uint32_t size;
    uint32_t locks;             /* AUTOBUF_LOCK_* */
    uint64_t snd_buf_bytes;     /* stored */
    uint64_t rcv_buf_bytes;     /* stored */
    uint64_t pacing_byte_per_s; /* SO_MAX_PACING_RATE; UINT64_MAX: no limit */
    uint32_t rcv_clamp_bytes;   /* TCP_WINDOW_CLAMP; 0: none */
    uint32_t notsent_bytes;     /* TCP_NOTSENT_LOWAT; 0: what net.ipv4.tcp_notsent_lowat says */
};

#define AUTOBUF_SETTINGS_INIT AUTOBUF_INIT(autobuf_settings)

/* Reads them. Returns 0; -EINVAL: settings->size, or NULL; errors of autobuf_socket_state(). */
AUTOBUF_API int autobuf_settings_read(int fd, struct autobuf_settings *settings);

/*
 * Puts them back. A size is put back on a side that was locked then, and on a send side that is locked now. On all
 * others it belongs to autotuning. A window clamp is not lowered if autotuning had the receive side. TCP_NOTSENT_LOWAT
 * and the pace are put back in any case. Read them on a connected socket if it is connected when you put them back.
 *
 * Returns 0, with AUTOBUF=off too, which leaves the socket alone. -EINVAL: *settings was never read, or NULL;
 * -ENOPROTOOPT: a side would have to be unlocked, and the kernel is older than Linux 5.15; errors of
 * autobuf_socket_state() and setsockopt(2), after which sizes, locks and the clamp may be put back in part.
 */
AUTOBUF_API int autobuf_settings_restore(int fd, const struct autobuf_settings *settings);

#ifdef __cplusplus
}
#endif

#endif

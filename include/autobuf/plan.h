/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/plan.h>: the limits of this host, the state of a socket, and what to set. snd and rcv are the socket's
 * sides: <autobuf/autobuf.h> says how directions are named.
 */
#ifndef AUTOBUF_PLAN_H
#define AUTOBUF_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <autobuf/path.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AUTOBUF_LIMITS_RCV_AUTOTUNING 1U /* net.ipv4.tcp_moderate_rcvbuf is on */
#define AUTOBUF_LIMITS_WINDOW_SCALING 2U /* net.ipv4.tcp_window_scaling is on */
#define AUTOBUF_LIMITS_FORCE 4U          /* this process may use SO_SNDBUFFORCE and SO_RCVBUFFORCE */
#define AUTOBUF_LIMITS_NO_UNLOCK 8U      /* a buffer once set cannot be given back to autotuning: there is no
                                            SO_BUF_LOCK before Linux 5.15 */
#define AUTOBUF_LIMITS_ASSUMED 16U       /* tcp_wmem or tcp_rmem cannot be read: both are the kernel's defaults */

/*
 * The limits of this host, in the network namespace of the calling thread. "stored" is the size that the kernel
 * keeps for a buffer and that getsockopt() shows: twice what setsockopt() is handed.
 */
struct autobuf_limits {
    uint32_t size;
    uint32_t flags;                  /* AUTOBUF_LIMITS_* */
    uint64_t snd_settable_bytes;     /* largest value that SO_SNDBUF takes: net.core.wmem_max */
    uint64_t rcv_settable_bytes;     /* largest value that SO_RCVBUF takes: net.core.rmem_max */
    uint64_t tcp_wmem_min_bytes;     /* net.ipv4.tcp_wmem, stored */
    uint64_t tcp_wmem_default_bytes; /* the size of a new socket */
    uint64_t tcp_wmem_max_bytes;     /* autotuning goes this far */
    uint64_t tcp_rmem_min_bytes;     /* net.ipv4.tcp_rmem, stored */
    uint64_t tcp_rmem_default_bytes; /* the size of a new socket */
    uint64_t tcp_rmem_max_bytes;     /* autotuning goes this far */
    uint64_t tcp_mem_bytes;          /* memory of all TCP sockets at which the kernel's pressure
                                        begins: net.ipv4.tcp_mem. That is not visible outside the
                                        first network namespace; there it is 1/16 of MemAvailable,
                                        the kernel's own choice. 0: unknown, nothing is forced */
    uint64_t page_bytes;             /* the unit of net.ipv4.tcp_mem; 0: 4096 */
    uint64_t tcp_used_bytes;         /* memory that all TCP sockets of this host hold now */
    uint64_t forced_bytes;           /* stored: the sum of all buffers of this namespace that are
                                        larger than autotuning makes them and than anybody may set
                                        without force; UINT64_MAX: unknown. This and the field
                                        before are 0 if the process may force nothing */
    uint64_t request_most_bytes;     /* set by the caller: a plan requests no larger buffer, as
                                        setsockopt() takes it; 0: no such bound */
};

#define AUTOBUF_LIMITS_INIT AUTOBUF_INIT(autobuf_limits)

/*
 * Reads the limits from /proc, and checks the settable sizes on a socket that it opens and closes. If /proc is not
 * mounted, the kernel's defaults stand in for what it would say. If the process may force sizes, the call also
 * lists the TCP connections of the namespace, which takes a millisecond (the kernel's table had 262,144 entries),
 * and about 2 microseconds for each. Returns 0; -EINVAL: limits->size is too small to hold anything, or NULL; or
 * an errno of socket(2).
 */
AUTOBUF_API int autobuf_limits_host(struct autobuf_limits *limits);

#define AUTOBUF_STAGE_NEW 0U       /* before connect() and listen() */
#define AUTOBUF_STAGE_LISTENING 1U
#define AUTOBUF_STAGE_CONNECTED 2U /* connected, accepted, or connect() has sent the SYN */

#define AUTOBUF_LOCK_SND 1U /* SO_SNDBUF was set: autotuning of the send side is off */
#define AUTOBUF_LOCK_RCV 2U /* SO_RCVBUF was set: autotuning of the receive side is off */

/* The state of one TCP socket. */
struct autobuf_socket {
    uint32_t size;
    uint32_t stage;          /* AUTOBUF_STAGE_* */
    uint32_t locks;          /* AUTOBUF_LOCK_* bits; before Linux 5.15 a guess from
                                sizes, which misses some on a connection */
    uint32_t mss_bytes;      /* maximum segment size; 0: not known yet */
    uint64_t snd_buf_bytes;  /* stored */
    uint64_t rcv_buf_bytes;  /* stored */
    uint64_t snd_window_max_bytes; /* largest window that the peer's window scale allows, which is fixed
                                      in the SYN (RFC 7323); 0: not fixed yet, or unknown */
    uint64_t rcv_window_max_bytes; /* the same for this end's window scale */
    uint64_t rtt_min_ns;     /* the least that TCP has seen; AUTOBUF_NS_UNSET: unknown */
    uint32_t flags;          /* AUTOBUF_SOCKET_* */
    uint32_t reserved;
};

/*
 * The connection came about without window scaling: at most 65,535 bytes are in flight in each direction. A firewall
 * has removed the option, or net.ipv4.tcp_window_scaling is 0 at one end.
 */
#define AUTOBUF_SOCKET_UNSCALED 1U

#define AUTOBUF_SOCKET_INIT AUTOBUF_INIT(autobuf_socket)

/*
 * Fills *socket with the state of fd. Returns 0; -EBADF, -ENOTSOCK; -EOPNOTSUPP: fd is not a TCP socket; -EINVAL:
 * socket->size is too small to hold anything, or NULL.
 */
AUTOBUF_API int autobuf_socket_state(int fd, struct autobuf_socket *socket);

/* -------------------------------------------------------------------------------------- plan */

#define AUTOBUF_INTENT_THROUGHPUT 0U /* the highest rate */
#define AUTOBUF_INTENT_LOW_DELAY 1U  /* no queue: paced just below the path's rate, windows just above its product */
#define AUTOBUF_INTENT_SCAVENGER 2U  /* what others leave: a flow sets the rate; a plan is that for throughput */
/* Add one of these to any intent if only one direction carries bulk data. The other side of the socket is then
   left alone, and nothing is measured for it. */
#define AUTOBUF_INTENT_SENDS 16U
#define AUTOBUF_INTENT_RECEIVES 32U

#define AUTOBUF_REASON_UNKNOWN 0U /* "unknown": too little is known of the path; the side is left alone */
#define AUTOBUF_REASON_KERNEL 1U  /* "kernel": autotuning reaches what the path needs; left alone */
#define AUTOBUF_REASON_SET 2U     /* "set": a buffer is set that holds what the path needs; or, for low
                                     delay, a pacing rate is set */
#define AUTOBUF_REASON_CAPPED 3U  /* "capped": a sysctl limits the window, or if none is named, the caller's own
                                     bound, or TCP (1 GB); the request, if there is one, is the best allowed */
#define AUTOBUF_REASON_LARGER 4U  /* "larger": the program has set a buffer that is large enough; left alone */
#define AUTOBUF_REASON_LATE 5U    /* "late": the window scale is fixed and limits the window; the request,
                                     if there is one, is the best that the scale allows */
#define AUTOBUF_REASON_OFF 6U     /* "off": AUTOBUF=off is in the environment */

/*
 * The send request is larger than net.core.wmem_max and takes SO_SNDBUFFORCE. One forced buffer is at most 1/8 of
 * tcp_mem_bytes. All forced buffers, and all else that TCP holds, are together at most 1/2 of it. Before TCP itself
 * has seen the path's round-trip time, a forced buffer is at most 32 MB (stored).
 */
#define AUTOBUF_PLAN_SND_FORCE 1U
/*
 * The receive request is larger than net.core.rmem_max and takes SO_RCVBUFFORCE. The same bounds hold. It is planned
 * for connected sockets only: before that the sysctls alone decide the window scale, and so the largest window.
 */
#define AUTOBUF_PLAN_RCV_FORCE 32U
#define AUTOBUF_PLAN_SND_UNLOCK 2U /* give the send side back to autotuning (SO_BUF_LOCK) */
#define AUTOBUF_PLAN_RCV_UNLOCK 4U /* the same for the receive side */
#define AUTOBUF_PLAN_SND_AT_LEAST 8U /* snd_wanted_bytes is a lower bound */
#define AUTOBUF_PLAN_RCV_AT_LEAST 16U /* rcv_wanted_bytes is a lower bound */
#define AUTOBUF_PLAN_SND_ECHOED 64U /* AUTOBUF_PATH_TX_ECHOED: a lower bound, and on most paths the product itself */

/* What limits a window. These are bits: more than one sysctl may limit it. */
#define AUTOBUF_SYSCTL_NONE 0U
#define AUTOBUF_SYSCTL_WMEM_MAX 1U /* net.core.wmem_max */
#define AUTOBUF_SYSCTL_TCP_RMEM 2U /* net.ipv4.tcp_rmem, third value */
#define AUTOBUF_SYSCTL_WINDOW_SCALING 4U  /* net.ipv4.tcp_window_scaling */
#define AUTOBUF_SYSCTL_TCP_MEM 8U         /* net.ipv4.tcp_mem: one socket may hold 1/8 of it */
#define AUTOBUF_SYSCTL_MODERATE_RCVBUF 16U /* net.ipv4.tcp_moderate_rcvbuf */

/*
 * What to set on a socket, and what that is expected to give. Windows are in bytes of TCP payload. Requests are
 * what setsockopt() is to be handed.
 */
struct autobuf_plan {
    uint32_t size;
    uint32_t intent;                /* AUTOBUF_INTENT_* */
    uint32_t flags;                 /* AUTOBUF_PLAN_* */
    uint32_t snd_reason;            /* AUTOBUF_REASON_* */
    uint32_t rcv_reason;
    uint32_t snd_sysctl;            /* AUTOBUF_SYSCTL_* bits: what limits the window */
    uint32_t rcv_sysctl;
    uint32_t reserved;
    uint64_t rtt_ns;                /* of the path that the plan is for; AUTOBUF_NS_UNSET: unknown */
    uint64_t snd_wanted_bytes;      /* the window that the path needs; 0: unknown */
    uint64_t snd_request_bytes;     /* for SO_SNDBUF or SO_SNDBUFFORCE; 0: leave alone */
    uint64_t snd_window_bytes;      /* the window expected with this plan; 0: unknown */
    uint64_t snd_kernel_bytes;      /* the window expected without it; 0: unknown */
    uint64_t snd_needed_bytes;      /* stored size that holds what is wanted; 0: unknown */
    uint64_t snd_pacing_bit_per_s;  /* payload rate for SO_MAX_PACING_RATE; 0: leave alone;
                                       UINT64_MAX: no limit */
    uint64_t rcv_wanted_bytes;      /* these five as for the send side */
    uint64_t rcv_request_bytes;
    uint64_t rcv_window_bytes;
    uint64_t rcv_kernel_bytes;
    uint64_t rcv_needed_bytes;
    uint64_t rcv_clamp_bytes;       /* for TCP_WINDOW_CLAMP; 0: none */
    uint64_t snd_block_bytes;       /* snd_window_bytes is what a program gets that waits for its socket with
                                       poll(2) or the like; this is the least of one whose write(2) or
                                       sendfile(2) blocks */
    uint64_t snd_retry_bytes;       /* of one that tries again every few milliseconds; 0 in both: unknown */
};

#define AUTOBUF_PLAN_INIT AUTOBUF_INIT(autobuf_plan)

/*
 * Decides what to set on a socket, from the path, the limits and the socket's state. It opens no socket, reads no
 * clock and sets nothing. intent: AUTOBUF_INTENT_*. expected_bytes: how much will be transferred; 0: unknown.
 *
 * It requests a buffer for a side only if autotuning cannot reach the product and setsockopt() can give more than
 * autotuning. If the program has set a smaller buffer than autotuning would make, and that is too small for the path or
 * the path is not known, the plan gives that side back to autotuning, unless it requests a larger one. The receive side
 * is best set before connect(), or on a listening socket for the connections that it accepts later; on a connected
 * socket it can grow only as far as the window scale allows.
 *
 * With AUTOBUF_INTENT_LOW_DELAY the plan paces the sender at 99% of the path's payload rate, if that is known and
 * not only a lower bound, and limits both windows to just above the product, each if it is more than a lower bound.
 * An echo gives lower bounds only, so nothing is paced or limited after it: a flow, which sees the queue, still paces.
 *
 * Returns 0; -EINVAL: a struct size, the intent, or NULL.
 */
AUTOBUF_API int autobuf_plan_make(const struct autobuf_path *path,
                                  const struct autobuf_limits *limits,
                                  const struct autobuf_socket *socket, uint32_t intent,
                                  uint64_t expected_bytes, struct autobuf_plan *plan);

/*
 * Says whether it pays to measure the path for a transfer of expected_bytes (0: unknown) on this host.
 *
 * Returns 1: it can pay; 0: measuring would cost more time than it could save, or no plausible result could change
 * the plan. Plausible is a rate of up to 10 Gbit/s, at the socket's round-trip time if that is known. If autotuning
 * makes the receive window 16 MB or more, that side is no reason to measure, because few senders fill more. If it
 * makes the send window so large, only a long transfer is a reason, because few paths hold more. -EINVAL: a struct
 * size, the intent, or NULL.
 *
 * If bdp_low_bytes and bdp_high_bytes are not NULL, they receive the range of products that matters, for struct
 * autobuf_probe_options.
 */
AUTOBUF_API int autobuf_plan_worth(const struct autobuf_limits *limits,
                                   const struct autobuf_socket *socket, uint32_t intent,
                                   uint64_t expected_bytes, uint64_t *bdp_low_bytes,
                                   uint64_t *bdp_high_bytes);

/* The name of an AUTOBUF_REASON_* value, such as "kernel"; "?" for any other value. */
AUTOBUF_API const char *autobuf_reason_name(uint32_t reason);

/*
 * Writes two lines of plain English to buf, one for each side, each with a line feed. It cuts them so that they and
 * the final zero fit into cap bytes. Returns the length of the whole text, as snprintf(3) does; -EINVAL:
 * plan->size, or NULL.
 */
AUTOBUF_API int autobuf_plan_explain(const struct autobuf_plan *plan, char *buf, size_t cap);

/*
 * Writes a line that an administrator would have to set, as sysctl(8) takes it: "net.core.wmem_max=16777216". index
 * counts such lines from 0; a sysctl that has enough, or is only assumed, is not named. limits supplies what is set
 * now, and those values of a triple that do not change. Returns the length of the line, as snprintf(3) does; 0: there
 * is no line of this index;
 * -EINVAL: a struct size, or NULL.
 */
AUTOBUF_API int autobuf_plan_sysctl(const struct autobuf_plan *plan,
                                    const struct autobuf_limits *limits, unsigned index, char *buf,
                                    size_t cap);

#ifdef __cplusplus
}
#endif

#endif

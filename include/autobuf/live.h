/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/live.h>: looks after an open connection while it carries data. snd and rcv are the socket's sides;
 * <autobuf/autobuf.h> says how directions are named.
 */
#ifndef AUTOBUF_LIVE_H
#define AUTOBUF_LIVE_H

#include <stdint.h>

#include <autobuf/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Looks after an open TCP connection. About once a round trip (for a few looks sooner, while bursts of the program
 * may be what makes that long; more seldom on a short path, while no buffer seems to limit) it finds what limits
 * the connection. If that is a buffer, it enlarges that buffer: to at most twice its size, to at most twice the
 * product that was observed, and within the limits of this host, as autobuf_apply() is. It sends nothing of its
 * own. It does not make a receive buffer smaller.
 *
 * It makes a send buffer smaller in one case only. A step may have forced it (AUTOBUF_PLAN_SND_FORCE) to nearly
 * twice what the path holds; the excess then stands in the path's queue, and the round-trip time is at least 30%
 * above its least while the connection sends all that it may. A later step() then reduces the buffer to what holds
 * 1.35 products, but not below its size before the forced step. This happens at most once for each forced step.
 *
 * A program that sleeps until a third of its send buffer is free sends in bursts, and a burst makes the round-trip time
 * as long as a full path does. To tell one from the other, step() paces what is sent for some round trips
 * (SO_MAX_PACING_RATE), if a larger buffer may be set: bursts then go, and a queue stays. That pace is above what the
 * buffer can bring and above the rate that was seen, and rises with both. It is taken back if nothing comes of it, or
 * if it is what limits. A pace that the program has set is left alone. Source: Aggarwal, Savage and Anderson 2000
 * (pacing).
 *
 * AUTOBUF_INTENT_LOW_DELAY also moderates the sender's pace: below the rate of delivery while a queue stands (the
 * round-trip time is well above its least), and up again once the queue is gone. The pace never exceeds a pacing
 * rate that the socket had at open(). Sources: Fisk and Feng 2001 (right-sizing), Ubik and Cimbal 2003
 * (moderation).
 *
 * Call step() from the loop that moves the data, whenever deadline_ns() has passed. fd stays the caller's. The
 * handle knows the socket by its cookie: it does not touch a descriptor that was closed and reused.
 */
struct autobuf_live;

#define AUTOBUF_LIMITER_UNKNOWN 0U    /* "unknown": too little was seen yet */
#define AUTOBUF_LIMITER_IDLE 1U       /* "idle": nothing moves */
#define AUTOBUF_LIMITER_SENDER 2U     /* "sender": the program here has nothing more to send */
#define AUTOBUF_LIMITER_PATH 3U       /* "path": only congestion control limits it, or a queue stands though bursts are paced */
#define AUTOBUF_LIMITER_SND_BUFFER 4U /* "send-buffer": of this socket */
#define AUTOBUF_LIMITER_PEER 5U       /* "peer": its window, or how much it sends */
#define AUTOBUF_LIMITER_RCV_BUFFER 6U /* "receive-buffer": of this socket */
#define AUTOBUF_LIMITER_RECEIVER 7U   /* "receiver": the program here leaves data unread */

/* The name of an AUTOBUF_LIMITER_* value, as above; "?" for any other value. */
AUTOBUF_API const char *autobuf_limiter_name(uint32_t limiter);

#define AUTOBUF_LIVE_LOOK_ONLY 1U /* step() observes and sets nothing */

struct autobuf_live_options {
    uint32_t size;
    uint32_t intent;       /* AUTOBUF_INTENT_*; default throughput */
    autobuf_log_fn *log;   /* is told each change: old, new, reason; NULL: none */
    void *log_user;
    uint32_t flags;        /* AUTOBUF_LIVE_* */
    uint32_t reserved;
    uint64_t most_bytes;   /* largest buffer to set, as setsockopt() takes it; 0: what the host
                              allows */
};

#define AUTOBUF_LIVE_OPTIONS_INIT AUTOBUF_INIT(autobuf_live_options)

/*
 * Opens a handle for the connected TCP socket fd. options may be NULL. Returns 0; -EOPNOTSUPP: fd is not a TCP
 * socket; -ENOTCONN: it is not connected; -EBADF, -ENOTSOCK; -EINVAL: a struct size, the intent, the flags, or
 * NULL; -ENOMEM.
 */
AUTOBUF_API int autobuf_live_open(struct autobuf_live **live, int fd,
                                  const struct autobuf_live_options *options);

/*
 * Says that the same connection has another descriptor from now on. This is for callers that hold the descriptor
 * only during a step: a duplicate from another process (pidfd_getfd(2)) keeps the connection open as long as it is
 * held. Returns 0; -ESTALE: fd is another socket; -EBADF, -ENOTSOCK, -EINVAL (NULL); AUTOBUF_E_FORKED.
 */
AUTOBUF_API int autobuf_live_move(struct autobuf_live *live, int fd);

/* The time at which to call step() next. */
AUTOBUF_API uint64_t autobuf_live_deadline_ns(const struct autobuf_live *live);

/*
 * Before deadline_ns() it returns 0 at once. Otherwise it looks at the connection, and acts if a buffer limits it.
 *
 * Returns 1: it changed something; 0: it did not; -ENOTCONN: the connection has ended; -EBADF, -ENOTSOCK, -ESTALE:
 * the descriptor was closed, or belongs to another socket now. After these four the handle can only be closed.
 * AUTOBUF_E_FORKED; errors of autobuf_apply().
 */
AUTOBUF_API int autobuf_live_step(struct autobuf_live *live, uint64_t now_ns);

/* What the newest look saw. Rates count payload. */
struct autobuf_live_state {
    uint32_t size;
    uint32_t limiter;            /* AUTOBUF_LIMITER_* */
    uint32_t changes;            /* how often something was changed so far */
    uint32_t retransmits;        /* packets sent again since the connection began */
    uint64_t rtt_ns;             /* present; AUTOBUF_NS_UNSET: unknown */
    uint64_t rtt_min_ns;         /* least so far; AUTOBUF_NS_UNSET: unknown */
    uint64_t sent_bit_per_s;     /* acknowledged in about the last round trip, or since the look before */
    uint64_t received_bit_per_s; /* the same for what arrived */
    uint64_t snd_buf_bytes;      /* as getsockopt() shows it */
    uint64_t rcv_buf_bytes;      /* as getsockopt() shows it */
    uint64_t in_flight_bytes;    /* sent, not acknowledged */
    uint64_t cwnd_bytes;         /* congestion window */
    uint64_t peer_window_bytes;  /* the receive window that the peer offers */
    uint64_t notsent_bytes;      /* in the send buffer, not sent yet */
    uint64_t pacing_bit_per_s;   /* the pace that this handle set; 0: none */
    uint64_t sent_bytes;         /* acknowledged since the connection began */
    uint64_t received_bytes;     /* since the connection began */
    uint32_t packet_bytes;       /* the largest IP packet that the path takes; 0: unknown */
    uint32_t resent_permille;    /* of the payload bytes sent so far, those sent again */
};

#define AUTOBUF_LIVE_STATE_INIT AUTOBUF_INIT(autobuf_live_state)

/* Fills *state. Returns 0; -EINVAL: state->size is too small to hold anything, or a pointer is NULL. */
AUTOBUF_API int autobuf_live_state(const struct autobuf_live *live,
                                   struct autobuf_live_state *state);

/*
 * Closes the handle, not the connection. Buffers keep their sizes, also a forced one. The pacing rate is put back
 * to what it was at open(), because a pace that nobody moderates does harm. NULL is allowed.
 */
AUTOBUF_API void autobuf_live_close(struct autobuf_live *live);

#ifdef __cplusplus
}
#endif

#endif

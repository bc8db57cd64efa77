/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/live.h>: an open connection, looked after while it carries data. snd and rcv are the socket's sides:
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
 * The same circle for an open connection: look at it about once a round trip, find what limits it, and
 * if that is a buffer, enlarge that one: at most to twice of what it was, to twice the product that was
 * seen, and to what the limits allow. No more is set than autobuf_apply() would; a receive buffer is
 * never made smaller.
 *
 * A send buffer is made smaller in one case. If this handle has forced it (AUTOBUF_PLAN_SND_FORCE), the step may
 * have been to nearly twice of what the path holds, and the rest then stands in the path's queue: the
 * round-trip time is at least 30% above its least while the connection sends all that it may. A later step()
 * then takes the rest back: the buffer becomes what holds 1.35 products, but not less than before that forced
 * step. It does so at most once for each forced step.
 *
 * With AUTOBUF_INTENT_LOW_DELAY the sender's pace is moderated too: below the rate of delivery while a queue
 * stands (the round-trip time is well above its least), up again when it is gone, and never above a pacing rate
 * that the socket had at open(). Sends nothing of its own.
 * Sources: Fisk and Feng 2001 (right-sizing), Ubik and Cimbal 2003 (moderation).
 *
 * Stepped: call step() when deadline_ns() has come, from whatever loop moves the data. fd stays the
 * caller's; it is remembered by its socket cookie, so a descriptor that was closed and reused is not
 * touched.
 */
struct autobuf_live;

#define AUTOBUF_LIMITER_UNKNOWN 0U    /* "unknown" */
#define AUTOBUF_LIMITER_IDLE 1U       /* "idle": nothing moves */
#define AUTOBUF_LIMITER_SENDER 2U     /* "sender": the program here has nothing more to send */
#define AUTOBUF_LIMITER_PATH 3U       /* "path": congestion control; nothing stands in its way */
#define AUTOBUF_LIMITER_SND_BUFFER 4U /* "send-buffer" */
#define AUTOBUF_LIMITER_PEER 5U       /* "peer": its window, or what it sends */
#define AUTOBUF_LIMITER_RCV_BUFFER 6U /* "receive-buffer" */

/* "path", "send-buffer", ... for an AUTOBUF_LIMITER_*; "?" for any other value. */
AUTOBUF_API const char *autobuf_limiter_name(uint32_t limiter);

#define AUTOBUF_LIVE_LOOK_ONLY 1U /* step() sets nothing */

struct autobuf_live_options {
    uint32_t size;
    uint32_t intent;       /* AUTOBUF_INTENT_* */
    autobuf_log_fn *log;   /* told each change: old, new, why; NULL: none */
    void *log_user;
    uint32_t flags;        /* AUTOBUF_LIVE_* */
    uint32_t reserved;
    uint64_t most_bytes;   /* no buffer is set larger, as setsockopt() takes it; 0: what the host
                              allows */
};

#define AUTOBUF_LIVE_OPTIONS_INIT { sizeof(struct autobuf_live_options), 0, NULL, NULL, 0, 0, 0 }
/* As AUTOBUF_LIVE_OPTIONS_INIT; size: sizeof(struct autobuf_live_options). */
AUTOBUF_API void autobuf_live_options_init(struct autobuf_live_options *options, uint32_t size);

/*
 * Begins with an open TCP connection. options may be NULL. -EOPNOTSUPP: not a TCP socket; -ENOTCONN:
 * before connect(), or a listener; -EBADF, -ENOTSOCK, -EINVAL (size, intent, flags), -ENOMEM.
 */
AUTOBUF_API int autobuf_live_open(struct autobuf_live **live, int fd,
                                  const struct autobuf_live_options *options);

/*
 * The same connection is at another descriptor from now on. For who holds one but for the time of a
 * step: a duplicate of another process's (pidfd_getfd(2)) keeps the connection open for as long as it
 * is held. -ESTALE: it is another socket; -EBADF, -ENOTSOCK.
 */
AUTOBUF_API int autobuf_live_move(struct autobuf_live *live, int fd);

/* When to call step(). */
AUTOBUF_API uint64_t autobuf_live_deadline_ns(const struct autobuf_live *live);

/*
 * Looks and acts, if it is time. 1: something was changed; 0: nothing; -ENOTCONN: the connection is
 * over; -EBADF, -ENOTSOCK, -ESTALE: the descriptor was closed, or is another socket's by now;
 * AUTOBUF_E_FORKED; errors of autobuf_apply(). After -ENOTCONN, -EBADF, -ENOTSOCK and -ESTALE it can only be
 * closed.
 */
AUTOBUF_API int autobuf_live_step(struct autobuf_live *live, uint64_t now_ns);

/* What was seen at the newest look. Rates are of payload. */
struct autobuf_live_state {
    uint32_t size;
    uint32_t limiter;            /* AUTOBUF_LIMITER_* */
    uint32_t changes;            /* made so far */
    uint32_t retransmits;        /* packets, since the connection began */
    uint64_t rtt_ns;             /* AUTOBUF_NS_UNSET: unknown */
    uint64_t rtt_min_ns;
    uint64_t sent_bit_per_s;     /* acknowledged, over the last round trip or so */
    uint64_t received_bit_per_s;
    uint64_t snd_buf_bytes;      /* stored */
    uint64_t rcv_buf_bytes;
    uint64_t in_flight_bytes;
    uint64_t cwnd_bytes;
    uint64_t peer_window_bytes;
    uint64_t notsent_bytes;
    uint64_t pacing_bit_per_s;   /* as set by this handle; 0: none */
    uint64_t sent_bytes;         /* acknowledged, since the connection began */
    uint64_t received_bytes;
};

#define AUTOBUF_LIVE_STATE_INIT                                                                    \
    {                                                                                              \
        sizeof(struct autobuf_live_state), 0, 0, 0, AUTOBUF_NS_UNSET, AUTOBUF_NS_UNSET, 0, 0, 0,   \
            0, 0, 0, 0, 0, 0, 0, 0                                                                 \
    }
/* As AUTOBUF_LIVE_STATE_INIT; size: sizeof(struct autobuf_live_state). */
AUTOBUF_API void autobuf_live_state_init(struct autobuf_live_state *state, uint32_t size);

/* -EINVAL: a size. */
AUTOBUF_API int autobuf_live_state(const struct autobuf_live *live,
                                   struct autobuf_live_state *state);

/*
 * Closes the handle, not the connection. Buffers stay as they are: one that was forced, and not taken back
 * until now, stays as large. A pace, which only helps as long as it is moderated, is put back to what it was.
 * NULL is allowed.
 */
AUTOBUF_API void autobuf_live_close(struct autobuf_live *live);

#ifdef __cplusplus
}
#endif

#endif

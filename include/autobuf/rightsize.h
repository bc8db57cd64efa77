/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/rightsize.h>: Dynamic Right-Sizing of any credit window.
 */
#ifndef AUTOBUF_RIGHTSIZE_H
#define AUTOBUF_RIGHTSIZE_H

#include <stdint.h>

#include <autobuf/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Dynamic Right-Sizing of any credit window: an SSH channel, an HTTP/2 or QUIC stream, a queue of
 * requests. Whoever grants the credit tells what it consumed, and when, and is told how large a window
 * to keep open. Pure: no socket, no clock; any monotonic clock in nanoseconds will do.
 *
 * A sender sends at most a window in a round trip, so what came in one is the least that its window must
 * have been; granting at least twice as much lets it grow as fast as slow start does, and keeps it
 * limited by the path, not by the credit. d bytes in a time t were n round trips, ceil(t / rtt) <= n <
 * floor(t / rtt) + 2, and the sender's window w was d / n_max <= w <= d / n_min. Source: Fisk and Feng,
 * "Dynamic Right-Sizing: TCP Flow-Control Adaptation", 2001, equations (1) to (3).
 *
 * The window is at most 4 x (best rate) x (least round-trip time), so that a queue of its own making
 * does not feed it, and what was added without raising the rate is taken back, down to twice that
 * product. A slow reader, idle times and gaps do not make it grow. It never falls below where it began.
 */
struct autobuf_rightsize;

struct autobuf_rightsize_options {
    uint32_t size;
    uint32_t reserved;
    uint64_t window_bytes; /* at the beginning, and at least; 0: 65,536, or the cap if that is less */
    uint64_t cap_bytes;    /* at most; 0: 67,108,864 */
    autobuf_log_fn *log;   /* told each change: old, new, why; NULL: none */
    void *log_user;
};

#define AUTOBUF_RIGHTSIZE_OPTIONS_INIT                                                             \
    {                                                                                              \
        sizeof(struct autobuf_rightsize_options), 0, 0, 0, NULL, NULL                              \
    }
/* As AUTOBUF_RIGHTSIZE_OPTIONS_INIT; size: sizeof(struct autobuf_rightsize_options). */
AUTOBUF_API void autobuf_rightsize_options_init(struct autobuf_rightsize_options *options,
                                                uint32_t size);

/* -ENOMEM; -EINVAL: cap_bytes is below window_bytes, or a size. options may be NULL. */
AUTOBUF_API int autobuf_rightsize_open(struct autobuf_rightsize **rightsize,
                                       const struct autobuf_rightsize_options *options);

/* NULL is allowed. */
AUTOBUF_API void autobuf_rightsize_close(struct autobuf_rightsize *rightsize);

/*
 * The application consumed bytes more (0: only the time passes). Returns the window to keep open from
 * now on: credit to grant is that, less what is granted and not yet consumed. It may be less than that,
 * as credit cannot be recalled: then grant nothing.
 */
AUTOBUF_API uint64_t autobuf_rightsize_consumed(struct autobuf_rightsize *rightsize,
                                                uint64_t now_ns, uint64_t bytes);

/* The round-trip time as it is now (of the transport, or from request to reply). AUTOBUF_NS_UNSET and 0 are
   ignored. */
AUTOBUF_API void autobuf_rightsize_rtt(struct autobuf_rightsize *rightsize, uint64_t rtt_ns);

/*
 * Where no round-trip time can be told, it is estimated from these two: bytes of credit were granted,
 * bytes were received (not necessarily consumed yet). From the grant to the first byte that needed it is
 * a round trip, or more, if the sender had nothing to send; so the least of several counts.
 */
AUTOBUF_API void autobuf_rightsize_granted(struct autobuf_rightsize *rightsize, uint64_t now_ns,
                                           uint64_t bytes);
AUTOBUF_API void autobuf_rightsize_received(struct autobuf_rightsize *rightsize, uint64_t now_ns,
                                            uint64_t bytes);

/* What was under way is no measure: a rekey, a suspended process, a paused stream. */
AUTOBUF_API void autobuf_rightsize_gap(struct autobuf_rightsize *rightsize, uint64_t now_ns);

/* What is known, for a log or a display. */
struct autobuf_rightsize_state {
    uint32_t size;
    uint32_t measured;           /* round trips that were measured */
    uint64_t window_bytes;       /* to keep open */
    uint64_t rtt_ns;             /* now; AUTOBUF_NS_UNSET: unknown */
    uint64_t rtt_min_ns;
    uint64_t rate_byte_per_s;    /* of the newest measurement; 0: none yet */
    uint64_t best_byte_per_s;
    uint64_t sender_low_bytes;   /* the sender's window, by (1), was between these */
    uint64_t sender_high_bytes;
};

#define AUTOBUF_RIGHTSIZE_STATE_INIT                                                               \
    {                                                                                              \
        sizeof(struct autobuf_rightsize_state), 0, 0, AUTOBUF_NS_UNSET, AUTOBUF_NS_UNSET, 0, 0, 0, \
            0                                                                                      \
    }
/* As AUTOBUF_RIGHTSIZE_STATE_INIT; size: sizeof(struct autobuf_rightsize_state). */
AUTOBUF_API void autobuf_rightsize_state_init(struct autobuf_rightsize_state *state, uint32_t size);

/* -EINVAL: a size. */
AUTOBUF_API int autobuf_rightsize_state(const struct autobuf_rightsize *rightsize,
                                        struct autobuf_rightsize_state *state);

#ifdef __cplusplus
}
#endif

#endif

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
 * Dynamic Right-Sizing of any credit window: an SSH channel, an HTTP/2 or QUIC stream, a queue of requests. The end
 * that grants the credit reports what its application consumed, and when. It is told how large a window to keep
 * open. The unit has no socket and reads no clock. It takes nanoseconds of any monotonic clock.
 *
 * A sender sends at most one window per round trip. So its window is at least as large as what arrived in one round
 * trip. The unit keeps at least twice that open: the window then grows as fast as in slow start, and the path
 * limits the sender, not the credit. If d bytes arrive in a time t, that was n round trips, ceil(t / rtt) <= n <
 * floor(t / rtt) + 2, and the sender's window w was d / n_max <= w <= d / n_min. Source: Fisk and Feng, "Dynamic
 * Right-Sizing: TCP Flow-Control Adaptation", 2001, equations (1) to (3).
 *
 * The window is at most 4 x (best rate) x (least round-trip time): otherwise a queue that the window causes would
 * lengthen the round trip and enlarge the window again. Growth that did not raise the rate is taken back, down to
 * twice that product. A slow reader, idle time and gaps do not make the window grow. It does not fall below its
 * first size.
 */
struct autobuf_rightsize;

struct autobuf_rightsize_options {
    uint32_t size;
    uint32_t reserved;
    uint64_t window_bytes; /* first and smallest window; 0: 65,536, or cap_bytes if that is less */
    uint64_t cap_bytes;    /* largest window; 0: 67,108,864 */
    autobuf_log_fn *log;   /* is told each change: old, new, reason; NULL: none */
    void *log_user;
};

#define AUTOBUF_RIGHTSIZE_OPTIONS_INIT AUTOBUF_INIT(autobuf_rightsize_options)

/*
 * Opens a handle for one window. options may be NULL. Returns 0; -ENOMEM; -EINVAL: cap_bytes is below window_bytes,
 * a struct size is wrong, or rightsize is NULL.
 */
AUTOBUF_API int autobuf_rightsize_open(struct autobuf_rightsize **rightsize,
                                       const struct autobuf_rightsize_options *options);

/* Closes the handle. NULL is allowed. */
AUTOBUF_API void autobuf_rightsize_close(struct autobuf_rightsize *rightsize);

/*
 * Reports that the application consumed so many more bytes; 0: none, only time has passed. Returns the window to
 * keep open from now on, in bytes. Grant this much minus the credit that is still outstanding. If more is
 * outstanding already, grant nothing: credit cannot be recalled.
 */
AUTOBUF_API uint64_t autobuf_rightsize_consumed(struct autobuf_rightsize *rightsize, uint64_t now_ns, uint64_t bytes);

/*
 * Reports the present round-trip time: the transport's, or the time from a request to its reply. AUTOBUF_NS_UNSET
 * and 0 are ignored.
 */
AUTOBUF_API void autobuf_rightsize_rtt(struct autobuf_rightsize *rightsize, uint64_t rtt_ns);

/*
 * If no round-trip time is known, the unit estimates it from these two calls. granted(): so many bytes of credit
 * were granted. received(): so many bytes arrived, whether consumed or not. The time from a grant to the first byte
 * that needed it is one round trip, or more if the sender had nothing to send; so the least of several counts.
 */
AUTOBUF_API void autobuf_rightsize_granted(struct autobuf_rightsize *rightsize, uint64_t now_ns, uint64_t bytes);
AUTOBUF_API void autobuf_rightsize_received(struct autobuf_rightsize *rightsize, uint64_t now_ns, uint64_t bytes);

/* Reports a gap, such as a rekey, a suspended process or a paused stream. What was being measured is dropped. */
AUTOBUF_API void autobuf_rightsize_gap(struct autobuf_rightsize *rightsize, uint64_t now_ns);

/* What is known, for a log or a display. Rates are in bytes per second. */
struct autobuf_rightsize_state {
    uint32_t size;
    uint32_t measured;           /* how many round trips were measured */
    uint64_t window_bytes;       /* the window to keep open */
    uint64_t rtt_ns;             /* present; AUTOBUF_NS_UNSET: unknown */
    uint64_t rtt_min_ns;         /* least so far; AUTOBUF_NS_UNSET: unknown */
    uint64_t rate_byte_per_s;    /* newest; 0: none yet */
    uint64_t best_byte_per_s;    /* best so far */
    uint64_t sender_low_bytes;   /* the sender's window was at least this, by equation (1) */
    uint64_t sender_high_bytes;  /* and at most this */
};

#define AUTOBUF_RIGHTSIZE_STATE_INIT AUTOBUF_INIT(autobuf_rightsize_state)

/* Fills *state. Returns 0; -EINVAL: state->size is too small to hold anything, or a pointer is NULL. */
AUTOBUF_API int autobuf_rightsize_state(const struct autobuf_rightsize *rightsize,
                                        struct autobuf_rightsize_state *state);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/available.h>: what other traffic leaves free on a path.
 */
#ifndef AUTOBUF_AVAILABLE_H
#define AUTOBUF_AVAILABLE_H

#include <stdint.h>

#include <autobuf/path.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AUTOBUF_KIND_NONE 0U      /* nothing is known */
#define AUTOBUF_KIND_AVAILABLE 1U /* "available": the path's capacity minus what other traffic takes */
/*
 * "share": what a new flow would get. Packets were lost while the queue stood, so other TCP connections had to give
 * way, or the queue serves each flow by itself.
 */
#define AUTOBUF_KIND_SHARE 2U

/* Flags of struct autobuf_available. */
#define AUTOBUF_AVAILABLE_TX_AT_LEAST 1U /* tx_low is known, tx_high is not */
#define AUTOBUF_AVAILABLE_TX_AT_MOST 2U  /* tx_high is known, tx_low is not */
#define AUTOBUF_AVAILABLE_RX_AT_LEAST 4U /* the same of rx */
#define AUTOBUF_AVAILABLE_RX_AT_MOST 8U
#define AUTOBUF_AVAILABLE_ECHOED 16U /* by echoes: low is free both ways, high holds for the one with less */

/* Why a bound of tx is not known; if both are, why one of rx is not that was measured, too. */
#define AUTOBUF_CAUSE_NONE 0U       /* both are */
#define AUTOBUF_CAUSE_SHORT 1U      /* "too-short": fewer than three round trips of data in the last 10 s */
#define AUTOBUF_CAUSE_RTT 2U        /* "rtt-unknown": TCP has no round-trip time yet */
#define AUTOBUF_CAUSE_COALESCING 3U /* "coalescing": the RTT varies too much to show a queue */
#define AUTOBUF_CAUSE_PROGRAM 4U    /* "program": the program sends less than the path would take */
#define AUTOBUF_CAUSE_NO_QUEUE 5U   /* "no-queue": the RTT did not rise, so more may be free */
#define AUTOBUF_CAUSE_CAPACITY 6U   /* "capacity-unknown": and so are the rates at which to try */

/*
 * What was free on the path for about over_ns, until age_ns ago: between low and high. tx is what this end sends, rx
 * what it receives. Rates count IP bytes, headers included. It changes within seconds, so it is never stored.
 */
struct autobuf_available {
    uint32_t size;
    uint32_t kind;              /* AUTOBUF_KIND_* */
    uint32_t flags;             /* AUTOBUF_AVAILABLE_* */
    uint32_t cause;             /* AUTOBUF_CAUSE_* */
    uint64_t tx_low_bit_per_s;  /* 0: unknown */
    uint64_t tx_high_bit_per_s; /* 0: unknown */
    uint64_t rx_low_bit_per_s;  /* 0: unknown, as rx_high is, of a connection that only sees its own data */
    uint64_t rx_high_bit_per_s;
    uint64_t over_ns;           /* 0: nothing is known */
    uint64_t age_ns;
};

#define AUTOBUF_AVAILABLE_INIT AUTOBUF_INIT(autobuf_available)

/*
 * The name of an AUTOBUF_CAUSE_* value, as above; NULL for AUTOBUF_CAUSE_NONE; "unknown" for what a later version says.
 */
AUTOBUF_API const char *autobuf_cause_name(uint32_t cause);

/*
 * How many connections, sending at once, take what is free. One brings at most window_bytes (of payload, such as
 * snd_kernel_bytes of a plan; 0: unknown) in each path->rtt_min_ns, and at most most_bit_per_s of payload
 * (autobuf_loss_rate(); 0: unknown). Returns 1 to 65,535. 1: more do not pay, because one takes nine tenths of it, or
 * because what is free is a share, of which more would only be taken from others. 0: unknown, also where more may be
 * free than one connection could show. -EINVAL: NULL, or a struct's size.
 */
AUTOBUF_API int autobuf_streams(const struct autobuf_available *available, const struct autobuf_path *path,
                                uint64_t window_bytes, uint64_t most_bit_per_s);

#ifdef __cplusplus
}
#endif

#endif

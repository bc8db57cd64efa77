/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/live.h>: how a flow manages an open connection, and what it sees of it. snd and rcv are the socket's sides;
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
 * Once its socket is connected, a flow (<autobuf/flow.h>) takes samples of the connection: about four in a round trip
 * while a buffer may be the bottleneck, one otherwise, and fewer on a short path where no buffer is. If a buffer is the
 * bottleneck, the flow enlarges it: to at most twice its size at once, and within the limits of this host, as
 * autobuf_apply() is. It sends nothing of its own. It does not make a receive buffer smaller.
 *
 * It makes a send buffer smaller in one case only. A step may have forced it (AUTOBUF_PLAN_SND_FORCE) to more than the
 * path holds; the excess then stands in the path's queue, and the RTT is at least 30% above its minimum while the
 * connection sends all that it may. A later step() then reduces the buffer to what holds 1.35 BDP, but not below its
 * size before the forced step. This happens once for each forced step, and again if what is left doubles the RTT, as
 * where the path has become slower; then not below the size before the first step.
 *
 * A program that sleeps until a third of its send buffer is free sends in bursts, and a burst raises the RTT as a full
 * path does. To tell one from the other, step() paces what is sent for some round trips (SO_MAX_PACING_RATE), if a
 * larger buffer may be set: bursts then go, and a queue stays. That pace is above what the buffer can bring and above
 * the rate that was seen, and rises with both. It is removed if the buffer is not enlarged, or if the pace is the
 * bottleneck. A pace that the program has set is left alone. Source: Aggarwal, Savage and Anderson 2000 (pacing).
 *
 * AUTOBUF_INTENT_LOW_DELAY also moderates the sender's pace: below the delivery rate while a queue stands (the RTT is
 * well above its minimum), and up again once the queue is gone. The pace never exceeds a pacing rate that the socket
 * had when it was connected. Sources: Fisk and Feng 2001 (right-sizing), Ubik and Cimbal 2003 (moderation).
 *
 * For a connection that is open already, open a flow with AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE: it manages the
 * connection, and does nothing else. With AUTOBUF_FLOW_OBSERVE it sets nothing.
 */

#define AUTOBUF_BOTTLENECK_UNKNOWN 0U    /* "unknown": too little was seen yet */
#define AUTOBUF_BOTTLENECK_IDLE 1U       /* "idle": nothing moves, and nothing waits to be acknowledged */
#define AUTOBUF_BOTTLENECK_SENDER 2U     /* "sender": the program here has nothing more to send */
/* "path": only congestion control limits it, or a queue stands though bursts are paced */
#define AUTOBUF_BOTTLENECK_PATH 3U
#define AUTOBUF_BOTTLENECK_SND_BUFFER 4U /* "send-buffer": of this socket */
#define AUTOBUF_BOTTLENECK_PEER 5U       /* "peer": its window, or how much it sends */
#define AUTOBUF_BOTTLENECK_RCV_BUFFER 6U /* "receive-buffer": of this socket */
#define AUTOBUF_BOTTLENECK_RECEIVER 7U   /* "receiver": the program here leaves data unread */
#define AUTOBUF_BOTTLENECK_STALLED 8U /* "stalled": what is sent is lost, and sent again, and nothing is acknowledged */

/* The name of an AUTOBUF_BOTTLENECK_* value, as above; "?" for any other value. */
AUTOBUF_API const char *autobuf_bottleneck_name(uint32_t bottleneck);

/* What the newest sample showed. Rates count payload. */
struct autobuf_live_state {
    uint32_t size;
    uint32_t bottleneck;         /* AUTOBUF_BOTTLENECK_* */
    uint32_t changes;            /* how often something was changed so far */
    uint32_t retransmits;        /* packets sent again since the connection began */
    uint64_t rtt_ns;             /* present; AUTOBUF_NS_UNSET: unknown */
    uint64_t rtt_min_ns;         /* minimum so far; AUTOBUF_NS_UNSET: unknown */
    uint64_t sent_bit_per_s;     /* acknowledged in about the last round trip, or since the sample before */
    uint64_t received_bit_per_s; /* the same for what arrived */
    uint64_t snd_buf_bytes;      /* as getsockopt() shows it */
    uint64_t rcv_buf_bytes;      /* as getsockopt() shows it */
    uint64_t in_flight_bytes;    /* sent, not acknowledged */
    uint64_t cwnd_bytes;         /* congestion window */
    uint64_t peer_window_bytes;  /* the receive window that the peer offers */
    uint64_t notsent_bytes;      /* in the send buffer, not sent yet */
    uint64_t pacing_bit_per_s;   /* the pace that the flow set; 0: none */
    uint64_t sent_bytes;         /* acknowledged since the connection began */
    uint64_t received_bytes;     /* since the connection began */
    uint32_t packet_bytes;       /* the largest IP packet that the path takes; 0: unknown */
    uint32_t resent_permille;    /* of the payload bytes sent so far, those sent again */
};

#define AUTOBUF_LIVE_STATE_INIT AUTOBUF_INIT(autobuf_live_state)

#ifdef __cplusplus
}
#endif

#endif

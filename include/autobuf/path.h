/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/path.h>: what is known of a path. tx and rx: <autobuf/autobuf.h> says how directions are named.
 */
#ifndef AUTOBUF_PATH_H
#define AUTOBUF_PATH_H

#include <stdint.h>

#include <autobuf/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AUTOBUF_METHOD_NONE 0U  /* nothing is known */
#define AUTOBUF_METHOD_ICMP 1U  /* trains of ICMP echoes */
#define AUTOBUF_METHOD_GIVEN 2U /* the caller knew it: autobuf_path_given() */
#define AUTOBUF_METHOD_INBAND 3U /* trains over a TCP connection, one direction at a time */
#define AUTOBUF_METHOD_IMPORTED 4U /* what TCP reached, as another program measured it: `autobuf paths import` */
#define AUTOBUF_METHOD_PASSIVE 5U /* what TCP reached, as autobufd(8) saw it */

#define AUTOBUF_PATH_TX_AT_LEAST 1U /* tx_rate is a lower bound */
#define AUTOBUF_PATH_RX_AT_LEAST 2U /* the same for rx_rate */
#define AUTOBUF_PATH_NEIGHBOURS 4U  /* of a path store: what hosts of the same network have in common */
/*
 * tx_rate is a lower bound (TX_AT_LEAST is set, too) only because echoes measured it: it is the slower direction's
 * rate, and nobody knows which one that is.
 */
#define AUTOBUF_PATH_TX_ECHOED 8U
#define AUTOBUF_PATH_RX_ECHOED 16U /* the same for rx_rate */
/* Of echoes: full packets were lost, smaller ones, of packet_bytes, answered, and no ICMP error came. */
#define AUTOBUF_PATH_BLACK_HOLE 32U

/* Why a rate may be more than a fifth off. No plan is made from such a rate; a stream's in batches is a lower bound. */
#define AUTOBUF_UNSURE_NOT 0U
#define AUTOBUF_UNSURE_JITTER 1U  /* neither gaps nor longer stretches of the trains agree */
#define AUTOBUF_UNSURE_BATCHES 2U /* packets came in small groups: other traffic between them, or a host that batches */
#define AUTOBUF_UNSURE_PAUSES 3U  /* between stretches that agree nothing came: a busy host */

/*
 * What is known of a path. tx is from here to the peer, rx from the peer to here. A rate is the capacity of the
 * narrowest link, not the part that cross traffic leaves free. It counts IP bytes, headers included. An echo sees
 * only the slower direction; ICMP therefore reports that rate for both, as a lower bound.
 *
 * The bandwidth-delay product is the rate times the round-trip time of one full-size segment and its
 * acknowledgement, in IP bytes: rate x rtt_min + one full packet - one small packet.
 */
struct autobuf_path {
    uint32_t size;
    uint32_t method;                 /* AUTOBUF_METHOD_* */
    uint32_t flags;                  /* AUTOBUF_PATH_* */
    uint32_t samples;                /* replies, or in band arrivals, that the result is computed from */
    uint64_t rtt_min_ns;             /* of small packets; AUTOBUF_NS_UNSET: unknown */
    uint64_t rtt_median_ns;
    uint64_t tx_rate_bit_per_s;      /* 0: unknown */
    uint64_t tx_rate_low_bit_per_s;  /* low and high: 80% of the readings lie between them; if the rate is unsure,
                                        also what other ways to find it said */
    uint64_t tx_rate_high_bit_per_s;
    uint64_t rx_rate_bit_per_s;
    uint64_t rx_rate_low_bit_per_s;
    uint64_t rx_rate_high_bit_per_s;
    uint64_t tx_bdp_bytes;           /* 0: unknown, or unsure; a stream in batches has one */
    uint64_t rx_bdp_bytes;
    uint64_t cost_bytes;             /* what this end sent to measure, IP headers included */
    uint64_t elapsed_ns;             /* how long the measurement took */
    uint64_t measured_ns;            /* when it ended; AUTOBUF_NS_UNSET: never measured */
    uint32_t packet_bytes;           /* the largest IP packet that the path takes; 0: unknown */
    uint32_t loss_permille;          /* echoes: of the trains' packets; in band TCP hides it, and it is 0 */
    uint32_t tx_unsure;              /* AUTOBUF_UNSURE_*: why the rate may be wrong; the interval then is wider */
    uint32_t rx_unsure;
};

#define AUTOBUF_PATH_INIT AUTOBUF_INIT(autobuf_path)

/*
 * Fills *path for a path that the caller knows. rate_bit_per_s is the IP-level rate, above 0. rtt_ns is the
 * round-trip time of a full-size segment and its acknowledgement, above 0 and at most 1000 s. Both directions get
 * this rate, and both products are rate x time. Returns 0, or -EINVAL: a value is out of range, or path->size is.
 */
AUTOBUF_API int autobuf_path_given(struct autobuf_path *path, uint64_t rate_bit_per_s, uint64_t rtt_ns);

/*
 * "icmp", "given", "inband", "imported" or "passive"; NULL for AUTOBUF_METHOD_NONE; "unknown" for what a later version
 * says.
 */
AUTOBUF_API const char *autobuf_method_name(uint32_t method);

/* "jitter", "batches" or "pauses"; NULL for AUTOBUF_UNSURE_NOT; "unknown" for what a later version says. */
AUTOBUF_API const char *autobuf_unsure_name(uint32_t unsure);

/*
 * Converts IP bytes to the TCP payload that they carry, in packets of packet_bytes (0: 1500) of which 52 bytes are
 * the headers of IPv4 and TCP with the timestamp option.
 */
AUTOBUF_API uint64_t autobuf_payload_bytes(uint64_t ip_bytes, uint32_t packet_bytes);

/*
 * The payload rate in bit/s to which random loss limits one TCP connection that sends. loss_ppm: of its data packets,
 * in millionths; rtt_ns: the mean round-trip time. congestion_control: "reno" (Mathis, Semke, Mahdavi, Ott 1997: a
 * window of sqrt(3 / 2p) packets), "cubic" (the larger of that and the window of RFC 9438, section 5), or "bbr", which
 * random loss hardly slows up to 15% (Cardwell et al. 2016, figure 8). Returns UINT64_MAX: no limit; 0: unknown, as for
 * any other congestion control, NULL, or a round-trip time of 0 or AUTOBUF_NS_UNSET.
 */
AUTOBUF_API uint64_t autobuf_loss_rate(const char *congestion_control, uint32_t loss_ppm, uint64_t rtt_ns,
                                       uint32_t packet_bytes);

#ifdef __cplusplus
}
#endif

#endif

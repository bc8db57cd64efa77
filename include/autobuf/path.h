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

#define AUTOBUF_METHOD_NONE 0U
#define AUTOBUF_METHOD_ICMP 1U  /* trains of ICMP echoes */
#define AUTOBUF_METHOD_GIVEN 2U /* told by the caller, not measured */
#define AUTOBUF_METHOD_INBAND 3U /* trains over a TCP connection, each direction by itself */

#define AUTOBUF_PATH_TX_AT_LEAST 1U /* tx_rate is a lower bound: the trains could not be resolved */
#define AUTOBUF_PATH_RX_AT_LEAST 2U

/*
 * What is known of a path. tx is from here to the peer. Rates are capacity of the narrowest link,
 * not what cross traffic leaves of it, and count IP bytes, headers included. An echo sees only the
 * smaller of the two directions and reports that value for both.
 *
 * The product is rate x (round-trip time of one full-size segment and its acknowledgement), in IP
 * bytes as the rate: rate x rtt_min + one full packet - one small one.
 */
struct autobuf_path {
    uint32_t size;
    uint32_t method;                 /* AUTOBUF_METHOD_* */
    uint32_t flags;                  /* AUTOBUF_PATH_* */
    uint32_t samples;                /* replies that the result stands on */
    uint64_t rtt_min_ns;             /* of small packets; AUTOBUF_NS_UNSET: unknown */
    uint64_t rtt_median_ns;
    uint64_t tx_rate_bit_per_s;      /* 0: unknown */
    uint64_t tx_rate_low_bit_per_s;  /* where 80% of the trains' readings lie */
    uint64_t tx_rate_high_bit_per_s;
    uint64_t rx_rate_bit_per_s;
    uint64_t rx_rate_low_bit_per_s;
    uint64_t rx_rate_high_bit_per_s;
    uint64_t tx_bdp_bytes;           /* 0: unknown */
    uint64_t rx_bdp_bytes;
    uint64_t cost_bytes;             /* sent to find out, IP headers included */
    uint64_t elapsed_ns;             /* time it took */
    uint64_t measured_ns;            /* when; AUTOBUF_NS_UNSET: never */
    uint32_t packet_bytes;           /* full-size IP packet of this path; 0: unknown */
    uint32_t reserved;
};

#define AUTOBUF_PATH_INIT                                                                          \
    {                                                                                              \
        sizeof(struct autobuf_path), 0, 0, 0, AUTOBUF_NS_UNSET, AUTOBUF_NS_UNSET, 0, 0, 0, 0, 0,   \
            0, 0, 0, 0, 0, AUTOBUF_NS_UNSET, 0, 0                                                  \
    }
/* As AUTOBUF_PATH_INIT; size: sizeof(struct autobuf_path). */
AUTOBUF_API void autobuf_path_init(struct autobuf_path *path, uint32_t size);

/*
 * A path of which the caller knows rate (bit/s, IP level, of the direction that is to be filled)
 * and round-trip time (ns, of a full-size segment): fills both directions and the products, which
 * are rate x time. -EINVAL: rate 0, or a time of 0 or above 1000 s.
 */
AUTOBUF_API int autobuf_path_given(struct autobuf_path *path, uint64_t rate_bit_per_s,
                                   uint64_t rtt_ns);

/*
 * TCP payload bytes of a product of IP bytes, for segments in packets of packet_bytes (0: 1500)
 * with the timestamp option (52 bytes of IPv4 and TCP header).
 */
AUTOBUF_API uint64_t autobuf_payload_bytes(uint64_t ip_bytes, uint32_t packet_bytes);

#ifdef __cplusplus
}
#endif

#endif

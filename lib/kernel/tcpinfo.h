/* SPDX-License-Identifier: MIT */
/*
 * Parses TCP_INFO. struct tcp_info grows with each kernel, and the program may be built with another kernel's header.
 * So fields are read by offset, as far as the kernel filled them.
 */
#ifndef AB_TCPINFO_H
#define AB_TCPINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AB_TCPINFO_BYTES 232U /* up to the last field that is read */

/* As in <netinet/tcp.h>, which cannot be included beside <linux/tcp.h>. */
enum {
    AB_TCP_ESTABLISHED = 1,
    AB_TCP_SYN_SENT = 2,
    AB_TCP_FIN_WAIT1 = 4,
    AB_TCP_FIN_WAIT2 = 5,
    AB_TCP_TIME_WAIT = 6,
    AB_TCP_CLOSE = 7,
    AB_TCP_CLOSE_WAIT = 8,
    AB_TCP_LAST_ACK = 9,
    AB_TCP_LISTEN = 10,
    AB_TCP_CLOSING = 11,
};

struct ab_tcpinfo {
    uint8_t state;             /* AB_TCP_* */
    uint8_t retransmits;       /* of the oldest segment, by its timer, without an answer */
    bool stamped;              /* segments carry the timestamp option */
    bool scaled;               /* both ends agreed to scale windows */
    uint8_t snd_scale;         /* the peer's */
    uint8_t rcv_scale;
    bool app_limited;          /* at the newest measurement of the delivery rate */
    uint32_t mss_bytes;        /* of what is sent */
    uint32_t rcv_mss_bytes;    /* of received segments */
    uint32_t packet_bytes;     /* the largest IP packet that the path takes; 0: unknown */
    uint32_t unacked_packets;
    uint32_t cwnd_packets;
    uint32_t sacked_packets;   /* that the peer has, beyond one that it has not */
    uint32_t lost_packets;
    uint32_t retrans_packets;  /* since the beginning */
    uint64_t rtt_ns;           /* smoothed; 0: none yet */
    uint64_t rtt_deviation_ns; /* tcpi_rttvar */
    uint64_t rtt_min_ns;       /* 0: unknown */
    uint64_t rcv_rtt_ns;       /* the receiver's own estimate; 0: none */
    uint32_t delivered_packets;    /* of data, since the beginning; 0: none, or before Linux 4.18 */
    uint32_t received_packets;     /* the same of received segments */
    uint32_t out_of_order_packets; /* of received segments */
    uint64_t acked_bytes;      /* since the beginning */
    uint64_t received_bytes;
    uint64_t sent_bytes;       /* since the beginning, with retransmissions; 0: none, or before Linux 4.19 */
    uint64_t resent_bytes;
    uint64_t notsent_bytes;
    uint64_t delivery_byte_per_s;
    uint64_t pacing_byte_per_s; /* UINT64_MAX: none */
    uint64_t max_pacing_byte_per_s; /* SO_MAX_PACING_RATE; UINT64_MAX: none */
    uint64_t busy_ns;
    uint64_t rwnd_limited_ns;
    uint64_t sndbuf_limited_ns;
    bool tells_peer_window;     /* since Linux 5.4 */
    uint64_t peer_window_bytes; /* 0: closed, or unknown */
};

/* false: len bytes are fewer than every kernel since 2.6 returns. Missing fields are 0. */
bool ab_tcpinfo_parse(const uint8_t *bytes, size_t len, struct ab_tcpinfo *info);

static inline uint64_t ab_tcpinfo_flight_bytes(const struct ab_tcpinfo *info)
{
    return (uint64_t)info->unacked_packets * info->mss_bytes;
}

#endif

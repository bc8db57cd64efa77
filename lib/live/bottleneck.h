/* SPDX-License-Identifier: MIT */
/*
 * What bounds an open connection now. Pure.
 *
 * The send buffer limits if it is as large as autotuning makes it, and full, and neither the congestion window, nor
 * the peer's window, nor a queue holds the data back. (The kernel counts this time too, as tcpi_sndbuf_limited. That
 * counter alone says too little: it stands still for seconds while a writer that waits with poll() keeps the buffer two
 * thirds full. But where it runs, data that wait after a refill do not speak against the buffer.)
 * The receive buffer limits if the program set it, or if autotuning has reached its limit, and as much as its
 * window arrives in a round trip. But not if data wait in it: the program reads them too slowly, and in a larger one
 * only more would wait.
 */
#ifndef AB_BOTTLENECK_H
#define AB_BOTTLENECK_H

#include "../base/base.h"
#include "../kernel/tcpinfo.h"

/* One sample of a connection. */
struct ab_sample {
    uint64_t now_ns;
    struct ab_tcpinfo info;
    struct autobuf_socket socket;
    uint64_t queued_bytes; /* memory of the data in the send buffer (SO_MEMINFO) */
    uint64_t unread_bytes; /* memory of the data that came and were not read */
};

/* A sample, and what is known besides. */
struct ab_bottleneck_sample {
    const struct ab_sample *sample, *before;
    const struct autobuf_limits *limits;
    uint64_t acked_byte_per_s; /* over the last round trip */
    uint64_t received_byte_per_s;
    uint64_t pace_byte_per_s;   /* the pace that spreads what a writer leaves in bursts; 0: none */
};

/* AUTOBUF_BOTTLENECK_* */
uint32_t ab_bottleneck(const struct ab_bottleneck_sample *seen);

/* Whether the send buffer is full, and as large as autotuning makes it, and next to nothing in it waits to be sent. */
bool ab_bottleneck_sent_all(const struct ab_bottleneck_sample *seen);

/* Whether the pace that spreads a writer's bursts is the socket's, and not one of somebody else. */
bool ab_bottleneck_is_paced(const struct ab_sample *sample, uint64_t pace_byte_per_s);

/* How much of the receive window arrives in a minimum RTT and is read, if autotuning does not enlarge it; else 0. */
unsigned ab_bottleneck_arrives_percent(const struct ab_bottleneck_sample *seen);

/* The round-trip time of data that comes in. */
uint64_t ab_rcv_rtt_ns(const struct ab_tcpinfo *info);

/* By how much a counter grew per second. A counter that ran backwards belongs to another connection: 0. */
static inline uint64_t ab_per_second(uint64_t now, uint64_t before, uint64_t span_ns)
{
    return now > before && span_ns ? ab_mul_div(now - before, AB_NS_PER_S, span_ns) : 0;
}

/* What a rate brings in a time. */
static inline uint64_t ab_in_time(uint64_t byte_per_s, uint64_t ns)
{
    return ab_mul_div(byte_per_s, ns, AB_NS_PER_S);
}

static inline bool ab_at_least(uint64_t value, unsigned percent, uint64_t whole)
{
    return value >= ab_mul_div(whole, percent, 100);
}

#endif

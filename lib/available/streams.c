/* SPDX-License-Identifier: MIT */
/* How many connections take what is free. Pure. */
#include <errno.h>

#include "../base/base.h"

#define STREAMS_MOST 65535U /* as of struct autobuf_options */
#define WORTH_PERCENT 90U   /* of what is free is all of it: a stream more brings less than a tenth; test_streams.c */

/* Payload in bit/s that one connection brings; UINT64_MAX: nothing limits it. */
static uint64_t one_bit_per_s(const struct autobuf_path *path, uint64_t window_bytes, uint64_t most_bit_per_s)
{
    uint64_t rate = UINT64_MAX;

    if (window_bytes)
        rate = ab_mul_div(ab_mul_div(window_bytes, 8, 1), AB_NS_PER_S, path->rtt_min_ns);
    return most_bit_per_s ? ab_min(rate, most_bit_per_s) : rate;
}

int autobuf_streams(const struct autobuf_available *available, const struct autobuf_path *path, uint64_t window_bytes,
                    uint64_t most_bit_per_s)
{
    struct autobuf_available a;
    struct autobuf_path p;
    uint64_t free_bit_per_s, packet_bytes, one, streams;

    if (!ab_struct_in(&a, sizeof a, available) || !ab_struct_in(&p, sizeof p, path))
        return -EINVAL;
    if (a.kind == AUTOBUF_KIND_SHARE)
        return 1;
    free_bit_per_s = a.tx_high_bit_per_s ? a.tx_high_bit_per_s : a.tx_low_bit_per_s;
    if (!free_bit_per_s || !p.rtt_min_ns || p.rtt_min_ns == AUTOBUF_NS_UNSET || (!window_bytes && !most_bit_per_s))
        return 0;
    packet_bytes = ab_max(p.packet_bytes ? p.packet_bytes : AB_IP_PACKET_BYTES, AB_TCP_HEADER_BYTES + 1);
    free_bit_per_s = ab_mul_div(free_bit_per_s, packet_bytes - AB_TCP_HEADER_BYTES, packet_bytes);
    one = ab_max(one_bit_per_s(&p, window_bytes, most_bit_per_s), 1);
    streams = ab_min((ab_max(ab_percent(free_bit_per_s, WORTH_PERCENT), 1) - 1) / one + 1, STREAMS_MOST);
    return streams == 1 && !a.tx_high_bit_per_s ? 0 : (int)streams;
}

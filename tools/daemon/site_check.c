/* SPDX-License-Identifier: MIT */
#include "site_check.h"

#include "learn.h"

#define SLACK_BYTES 65536.0 /* packets that a path of hardly any product holds */

static bool is_within(uint64_t value, uint64_t least, uint64_t most)
{
    return value >= least && value <= most;
}

/* What a path holds may be twice the product: the round-trip time of a measurement is not the least one all the time. */
static bool may_be(const struct autobuf_paths_entry *e, uint64_t rate, uint64_t low, uint64_t high, uint64_t bdp_bytes)
{
    uint64_t rtt_ns = e->rtt_median_ns == AUTOBUF_NS_UNSET ? e->rtt_min_ns : e->rtt_median_ns;

    if (!rate)
        return !low && !high && !bdp_bytes;
    return is_within(rate, SITE_RATE_LEAST, SITE_RATE_MOST) && low <= rate && high <= SITE_RATE_MOST && (!high || high >= rate) &&
           bdp_bytes <= SITE_BDP_MOST && (double)bdp_bytes <= (double)rate / 8e9 * (double)rtt_ns * 2 + SLACK_BYTES;
}

static bool is_a_path(const struct autobuf_paths_entry *e)
{
    if (!is_within(e->rtt_min_ns, SITE_RTT_LEAST_NS, SITE_RTT_MOST_NS))
        return false;
    if (e->rtt_median_ns != AUTOBUF_NS_UNSET && !is_within(e->rtt_median_ns, e->rtt_min_ns, SITE_RTT_MOST_NS))
        return false;
    return (e->tx_rate_bit_per_s || e->rx_rate_bit_per_s) &&
           may_be(e, e->tx_rate_bit_per_s, e->tx_rate_low_bit_per_s, e->tx_rate_high_bit_per_s, e->tx_bdp_bytes) &&
           may_be(e, e->rx_rate_bit_per_s, e->rx_rate_low_bit_per_s, e->rx_rate_high_bit_per_s, e->rx_bdp_bytes);
}

bool site_check(struct autobuf_paths_entry *e, uint64_t now_s)
{
    bool learned = e->method == AUTOBUF_METHOD_ICMP || e->method == AUTOBUF_METHOD_INBAND || e->method == AUTOBUF_METHOD_PASSIVE;

    if (!learned || !learn_is_host(&e->remote) || e->local.version || e->device[0] || !is_a_path(e) ||
        e->learned_s > now_s + SITE_AHEAD_S || autobuf_paths_check(e) < 0)
        return false;
    if (e->learned_s > now_s)
        e->learned_s = now_s;
    if (e->expires_s > e->learned_s + SITE_HOLDS_S)
        e->expires_s = e->learned_s + SITE_HOLDS_S;
    return e->expires_s > now_s;
}

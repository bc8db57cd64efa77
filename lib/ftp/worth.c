/* SPDX-License-Identifier: MIT */
#include "ftp.h"

#include "../plan/plan.h"

#define COMMON_MAX_BIT_PER_S 1000000000U /* faster paths are rare */
#define RTT_MOST_NS (2 * AB_NS_PER_S) /* no measurement waits for so long, and one that ends so ends the connection */

/* The intent of the host whose buffer would be set. */
static uint32_t intent_of_setter(const struct ab_worth *w)
{
    return w->peer_sets ? w->direction ^ (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES) : w->direction;
}

/* The limits of that host. */
static struct autobuf_limits limits_of(const struct ab_worth *w)
{
    struct autobuf_limits limits = *w->limits;

    if (!w->peer_sets)
        return limits;
    limits.flags &= ~AUTOBUF_LIMITS_FORCE;
    if (w->peer_max_bytes && w->direction == AUTOBUF_INTENT_SENDS)
        limits.rcv_settable_bytes = w->peer_max_bytes;
    else if (w->peer_max_bytes)
        limits.snd_settable_bytes = w->peer_max_bytes;
    return limits;
}

static bool is_common(uint64_t window_bytes, uint64_t rtt_ns)
{
    return rtt_ns == AUTOBUF_NS_UNSET || ab_mul_div(window_bytes, 8 * AB_NS_PER_S, rtt_ns) <= COMMON_MAX_BIT_PER_S;
}

bool ab_worth_measuring(const struct ab_worth *w, uint64_t *bdp_low_bytes, uint64_t *bdp_high_bytes)
{
    struct autobuf_limits limits = limits_of(w);
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    uint64_t low, high, share = ab_mul_div(w->expected_bytes, AB_MEASURING_ROUND_TRIPS, w->round_trips);

    if ((w->direction == AUTOBUF_INTENT_SENDS && !w->peer_sets) ||
        (w->rtt_ns != AUTOBUF_NS_UNSET && w->rtt_ns > RTT_MOST_NS))
        return false;
    socket.rtt_min_ns = w->rtt_ns;
    if (autobuf_plan_worth(&limits, &socket, intent_of_setter(w), w->expected_bytes ? ab_max(share, 1) : 0, &low,
                           &high) != 1)
        return false;
    if (bdp_low_bytes)
        *bdp_low_bytes = low;
    if (bdp_high_bytes)
        *bdp_high_bytes = high;
    return is_common(low, w->rtt_ns);
}

uint64_t ab_worth_request(const struct autobuf_limits *limits, uint32_t direction, uint64_t window_bytes)
{
    struct autobuf_limits unprivileged = *limits;
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    struct autobuf_plan plan;

    unprivileged.flags &= ~AUTOBUF_LIMITS_FORCE;
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, direction, &plan);
    ab_plan_windows(window_bytes, window_bytes, &unprivileged, &socket, 0, &plan);
    return direction == AUTOBUF_INTENT_SENDS ? plan.snd_request_bytes : plan.rcv_request_bytes;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "plan.h"

bool ab_path_in(struct autobuf_path *ours, const struct autobuf_path *theirs)
{
    if (!ab_struct_in(ours, sizeof *ours, theirs))
        return false;
    ours->rtt_min_ns = ab_ns_or_unset(ours->rtt_min_ns);
    ours->rtt_median_ns = ab_ns_or_unset(ours->rtt_median_ns);
    ours->measured_ns = ab_ns_or_unset(ours->measured_ns);
    return true;
}

uint64_t autobuf_payload_bytes(uint64_t ip_bytes, uint32_t packet_bytes)
{
    if (packet_bytes <= AB_TCP_HEADER_BYTES)
        packet_bytes = AB_IP_PACKET_BYTES;
    return ab_mul_div(ip_bytes, packet_bytes - AB_TCP_HEADER_BYTES, packet_bytes);
}

int autobuf_path_given(struct autobuf_path *path, uint64_t rate_bit_per_s, uint64_t rtt_ns)
{
    struct autobuf_path given = {.size = sizeof given, .measured_ns = AUTOBUF_NS_UNSET};

    if (!rate_bit_per_s || !rtt_ns || rtt_ns > 1000 * AB_NS_PER_S)
        return -EINVAL;
    given.method = AUTOBUF_METHOD_GIVEN;
    given.rtt_min_ns = given.rtt_median_ns = rtt_ns;
    given.tx_rate_bit_per_s = given.tx_rate_low_bit_per_s = given.tx_rate_high_bit_per_s =
        rate_bit_per_s;
    given.rx_rate_bit_per_s = given.rx_rate_low_bit_per_s = given.rx_rate_high_bit_per_s =
        rate_bit_per_s;
    given.tx_bdp_bytes = given.rx_bdp_bytes =
        ab_mul_div(rate_bit_per_s, rtt_ns, 8 * AB_NS_PER_S);
    given.packet_bytes = AB_IP_PACKET_BYTES;
    return ab_struct_out(path, &given, sizeof given) ? 0 : -EINVAL;
}

const char *autobuf_method_name(uint32_t method)
{
    static const char *const names[] = {
        [AUTOBUF_METHOD_ICMP] = "icmp",
        [AUTOBUF_METHOD_GIVEN] = "given",
        [AUTOBUF_METHOD_INBAND] = "inband",
        [AUTOBUF_METHOD_IMPORTED] = "imported",
        [AUTOBUF_METHOD_PASSIVE] = "passive",
    };

    return method < sizeof names / sizeof *names ? names[method] : "unknown";
}

const char *autobuf_unsure_name(uint32_t unsure)
{
    switch (unsure) {
    case AUTOBUF_UNSURE_NOT:
        return NULL;
    case AUTOBUF_UNSURE_JITTER:
        return "jitter";
    case AUTOBUF_UNSURE_BATCHES:
        return "batches";
    case AUTOBUF_UNSURE_PAUSES:
        return "pauses";
    default:
        return "unknown";
    }
}

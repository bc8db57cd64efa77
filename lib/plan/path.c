/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "plan.h"

#define BBR_LOSS_PPM 150000

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

/* Newton's method, from above: the C library's is in one of its own, which not every program is linked with. */
static double root(double square)
{
    double found = square > 1 ? square : 1;

    while (found * found > square * 1.000001)
        found = (found + square / found) / 2;
    return found;
}

/* RFC 9438 with C = 0.4 and beta = 0.7: the fourth root of C (3 + beta) / 4 (1 - beta) x (RTT / p)^3. */
static double cubic_packets(double loss, double rtt_s)
{
    double time = rtt_s / loss;

    return root(root(0.4 * 3.7 / 1.2 * time * time * time));
}

uint64_t autobuf_loss_rate(const char *congestion_control, uint32_t loss_ppm, uint64_t rtt_ns, uint32_t packet_bytes)
{
    double loss = loss_ppm / 1e6, rtt_s = (double)rtt_ns / 1e9, packets, cubic, rate;

    if (!congestion_control || !rtt_ns || rtt_ns == AUTOBUF_NS_UNSET || loss_ppm > 1000000)
        return 0;
    if (strcmp(congestion_control, "bbr") == 0)
        return loss_ppm <= BBR_LOSS_PPM ? UINT64_MAX : 0;
    if (strcmp(congestion_control, "cubic") != 0 && strcmp(congestion_control, "reno") != 0)
        return 0;
    if (!loss_ppm)
        return UINT64_MAX;
    packets = root(1.5 / loss);
    cubic = congestion_control[0] == 'c' ? cubic_packets(loss, rtt_s) : 0;
    packets = cubic > packets ? cubic : packets;
    rate = packets * 8 * (double)autobuf_payload_bytes(packet_bytes ? packet_bytes : AB_IP_PACKET_BYTES, packet_bytes) /
           rtt_s;
    return rate < 1e18 ? (uint64_t)rate : UINT64_MAX;
}

int autobuf_path_given(struct autobuf_path *path, uint64_t rate_bit_per_s, uint64_t rtt_ns)
{
    struct autobuf_path given = {.size = sizeof given, .measured_ns = AUTOBUF_NS_UNSET};

    if (!rate_bit_per_s || !rtt_ns || rtt_ns > 1000 * AB_NS_PER_S)
        return -EINVAL;
    given.method = AUTOBUF_METHOD_GIVEN;
    given.rtt_min_ns = given.rtt_median_ns = rtt_ns;
    given.tx_rate_bit_per_s = given.tx_rate_low_bit_per_s = given.tx_rate_high_bit_per_s = rate_bit_per_s;
    given.rx_rate_bit_per_s = given.rx_rate_low_bit_per_s = given.rx_rate_high_bit_per_s = rate_bit_per_s;
    given.tx_bdp_bytes = given.rx_bdp_bytes = ab_mul_div(rate_bit_per_s, rtt_ns, 8 * AB_NS_PER_S);
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

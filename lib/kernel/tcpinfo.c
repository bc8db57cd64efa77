/* SPDX-License-Identifier: MIT */
#include "tcpinfo.h"

#include <string.h>

#include "../base/base.h"

#define MIN_BYTES 104U /* up to tcpi_total_retrans */
#define OPTION_TIMESTAMPS 1U
#define OPTION_WSCALE 4U

static uint32_t take32(const uint8_t *bytes, size_t len, size_t at)
{
    uint32_t value = 0;

    if (at + sizeof value <= len)
        memcpy(&value, bytes + at, sizeof value);
    return value;
}

static uint64_t take64(const uint8_t *bytes, size_t len, size_t at)
{
    uint64_t value = 0;

    if (at + sizeof value <= len)
        memcpy(&value, bytes + at, sizeof value);
    return value;
}

/* Bit fields begin with the lowest bits, on a big-endian machine with the highest. */
static uint8_t take_bits(uint8_t byte, unsigned first, unsigned count)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    first = 8 - first - count;
#endif
    return (uint8_t)((unsigned)byte >> first & ((1U << count) - 1));
}

static uint64_t from_us(uint64_t us)
{
    return ab_mul_div(us, AB_NS_PER_US, 1);
}

bool ab_tcpinfo_parse(const uint8_t *bytes, size_t len, struct ab_tcpinfo *info)
{
    uint32_t rtt_min_us = take32(bytes, len, 148);

    *info = (struct ab_tcpinfo){0};
    if (len < MIN_BYTES)
        return false;
    info->state = bytes[0];
    info->retransmits = bytes[2];
    info->stamped = bytes[5] & OPTION_TIMESTAMPS;
    info->scaled = bytes[5] & OPTION_WSCALE;
    info->snd_scale = info->scaled ? take_bits(bytes[6], 0, 4) : 0;
    info->rcv_scale = info->scaled ? take_bits(bytes[6], 4, 4) : 0;
    info->app_limited = take_bits(bytes[7], 0, 1);
    info->mss_bytes = take32(bytes, len, 16);
    info->rcv_mss_bytes = take32(bytes, len, 20);
    info->unacked_packets = take32(bytes, len, 24);
    info->sacked_packets = take32(bytes, len, 28);
    info->lost_packets = take32(bytes, len, 32);
    info->packet_bytes = take32(bytes, len, 60);
    info->rtt_ns = from_us(take32(bytes, len, 68));
    info->rtt_deviation_ns = from_us(take32(bytes, len, 72));
    info->cwnd_packets = take32(bytes, len, 80);
    info->rcv_rtt_ns = from_us(take32(bytes, len, 92));
    info->retrans_packets = take32(bytes, len, 100);
    info->pacing_byte_per_s = take64(bytes, len, 104);
    info->max_pacing_byte_per_s = take64(bytes, len, 112);
    info->acked_bytes = take64(bytes, len, 120);
    info->received_bytes = take64(bytes, len, 128);
    info->notsent_bytes = take32(bytes, len, 144);
    info->rtt_min_ns = rtt_min_us == UINT32_MAX ? 0 : from_us(rtt_min_us);
    info->received_packets = take32(bytes, len, 152);
    info->delivery_byte_per_s = take64(bytes, len, 160);
    info->busy_ns = from_us(take64(bytes, len, 168));
    info->rwnd_limited_ns = from_us(take64(bytes, len, 176));
    info->sndbuf_limited_ns = from_us(take64(bytes, len, 184));
    info->delivered_packets = take32(bytes, len, 192);
    info->sent_bytes = take64(bytes, len, 200);
    info->resent_bytes = take64(bytes, len, 208);
    info->out_of_order_packets = take32(bytes, len, 224);
    info->tells_peer_window = len >= AB_TCPINFO_BYTES;
    info->peer_window_bytes = take32(bytes, len, 228);
    return true;
}

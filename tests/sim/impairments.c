/* SPDX-License-Identifier: MIT */
#include "impairments.h"

#include <math.h>

#define SEND_NS 1500

const struct impairment impairments[] = {
    {"clean", 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, true, 0},
    {"send 8us", 0, 0, 0, 0, 0, 8000, 2, 0, 0, 0, true, 0},
    {"queue 0.5", 0, 0, 0, 0, 0, 0, 0.5, 0, 0, 0, true, 0},
    {"loss 2%", .02, 0, 0, 0, 0, 0, 2, 0, 0, 0, true, 0},
    {"loss 20%", .2, 0, 0, 0, 0, 0, 2, 0, 0, 0, false, 0},
    {"cross 50%", 0, .5, 1500, 0, 0, 0, 2, 0, 0, 0, false, 0},
    {"cross 500B", 0, .5, 500, 0, 0, 0, 2, 0, 0, 0, false, 0},
    {"jitter 100us", 0, 0, 0, 100000, 0, 0, 2, 0, 0, 0, false, 0},
    {"jitter 500us", 0, 0, 0, 500000, 0, 0, 2, 0, 0, 0, false, 0},
    {"jitter 2ms", 0, 0, 0, 2000000, 0, 0, 2, 0, 0, 0, false, 0},
    {"batch 25us", 0, 0, 0, 0, 25000, 0, 2, 0, 0, 0, false, 0},
    {"batch 60us", 0, 0, 0, 0, 60000, 0, 2, 0, 0, 0, false, 0},
    {"batch 125us", 0, 0, 0, 0, 125000, 0, 2, 0, 0, 0, false, 0},
    {"batch 250us", 0, 0, 0, 0, 250000, 0, 2, 0, 0, 0, false, 0},
    {"forward 5us", 0, 0, 0, 0, 0, 0, 2, 5000, 20000, 0, false, 0},
    {"forward 10us", 0, 0, 0, 0, 0, 0, 2, 10000, 50000, 0, false, 0},
    {"wakes 200us", 0, 0, 0, 0, 0, 0, 2, 8000, 200000, 0, false, 0},
    {"stalls 1ms", 0, 0, 0, 0, 0, 0, 2, 0, 0, 1000000, false, 0},
    {"stalls 5ms", 0, 0, 0, 0, 0, 0, 2, 0, 0, 5000000, false, 0},
    {"busy", 0, 0, 0, 0, 0, 0, 2, 0, 0, 4000000, false, 4000000},
    {"stalls 20ms", 0, 0, 0, 0, 0, 0, 2, 0, 0, 20000000, false, 0},
};

const size_t impairments_count = sizeof impairments / sizeof *impairments;

struct sim_path impaired_path(const struct impairment *m, double mbit, double rtt_ms)
{
    struct sim_path path = {
        .there = {.rate_bit_per_s = (uint64_t)(mbit * 1e6),
                  .delay_ns = (uint64_t)(rtt_ms * 5e5),
                  .queue_bytes = (uint64_t)(m->queue_products * mbit * rtt_ms * 125) + 3000,
                  .loss = m->loss, .cross = m->cross, .cross_size_bytes = m->cross_size,
                  .jitter_ns = m->jitter_ns},
        .send_ns = m->send_ns ? m->send_ns : SEND_NS,
        .stall_ns = m->stall_ns,
        .between_ns = m->between_ns,
    };

    path.back = path.there;
    path.back.batch_ns = m->batch_ns;
    path.back.forward_ns = m->forward_ns;
    path.back.wake_ns = m->wake_ns;
    return path;
}

void tally_add(struct tally *tally, const struct sim_result *r, double truth)
{
    double low = (double)r->path.tx_rate_low_bit_per_s, high = (double)r->path.tx_rate_high_bit_per_s;
    double error = (double)r->path.tx_rate_bit_per_s / truth - 1;
    bool bound = !(r->path.flags & AUTOBUF_PATH_TX_ECHOED), flagged = bound || r->path.tx_unsure;

    if (r->error)
        return;
    tally->runs++;
    tally->held += 0.99 * low <= truth && (1.01 * high >= truth || bound);
    tally->wide += high > 1.3 * low;
    tally->wrong += !flagged && fabs(error) > 0.2;
    tally->flagged += flagged;
}

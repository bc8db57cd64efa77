/* SPDX-License-Identifier: MIT */
/*
 * A measurement over two links of any parameters within the emulator's limits, in virtual time.
 */
#include "fuzz.h"

#include "sim_probe.h"

#define NS_PER_S 1000000000ULL
#define SLOWEST_BIT_PER_S 131072U

/* Not too slow: cross traffic is made for as long as the last packet of ours takes. */
static uint64_t take_rate(struct input *in)
{
    uint64_t rate_bit_per_s = take_number(in) % 100000000001;

    return rate_bit_per_s ? rate_bit_per_s | SLOWEST_BIT_PER_S : 0;
}

static struct emu_params take_link(struct input *in)
{
    struct emu_params p = {0};
    unsigned has = (unsigned)take(in, 2);

    p.rate_bit_per_s = take_rate(in);
    p.delay_ns = take_number(in) % (3 * NS_PER_S);
    if (has & 1)
        p.queue_bytes = take_number(in) % 1000000000;
    if (has & 2)
        p.jitter_ns = take_number(in) % NS_PER_S;
    if (has & 4)
        p.loss = (double)take(in, 1) / 255;
    if (has & 8)
        p.reorder = (double)take(in, 1) / 255;
    if (has & 16)
        p.reorder_by_ns = take_number(in) % NS_PER_S;
    if (has & 32)
        p.burst_bytes = take_number(in) % 1000000000;
    if (has & 64)
        p.peak_bit_per_s = take_rate(in);
    if (has & 128 && p.rate_bit_per_s < 100000000) { /* or it takes too long */
        p.cross = (double)take(in, 1) / 255;
        p.cross_size_bytes = 500 + (uint32_t)take(in, 2);
        p.cross_constant = has >> 8 & 1;
    }
    return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct input in = {data, len};
    unsigned how = (unsigned)take(&in, 1);
    struct sim_path path = {.seed = take(&in, 1), .ipv6 = how & 1, .duplicate = how & 2};
    const struct autobuf_path *p;
    struct sim_result r;
    uint64_t batch_ns, more_ns = 0;

    batch_ns = how & 4 ? take_number(&in) % NS_PER_S : 0;
    path.send_ns = how & 8 ? take_number(&in) % (NS_PER_S / 10) : 1500;
    path.mtu_bytes = how & 16 ? 64 + (uint32_t)take(&in, 2) % 1500 : 0;
    options.budget_bytes = how & 32 ? 1000 + (uint32_t)take(&in, 3) % 999001 : 0;
    options.packet_bytes = how & 64 ? 128 + (uint32_t)take(&in, 2) % 1373 : 0;
    options.flags = path.seed & 128 ? AUTOBUF_PROBE_AVAILABLE : 0;
    path.there = take_link(&in);
    path.back = how & 128 ? take_link(&in) : path.there;
    path.back.batch_ns = batch_ns;
    r = sim_probe(&path, &options);
    p = &r.path;
    CHECK(r.error == 0 || r.error == AUTOBUF_E_NOREPLY || r.error == AUTOBUF_E_FEW);
    CHECK(p->cost_bytes <= (options.budget_bytes ? options.budget_bytes : 1000000));
    if (options.flags && r.error != AUTOBUF_E_NOREPLY)
        more_ns = 2 * NS_PER_S + 8 * (p->rtt_min_ns < NS_PER_S ? p->rtt_min_ns : NS_PER_S);
    CHECK(r.last_sent_ns < 2 * NS_PER_S + more_ns);
    CHECK(r.end_ns <= 2 * NS_PER_S + more_ns + path.send_ns);
    if (!options.flags)
        CHECK(r.last_sent_ns < NS_PER_S + (r.rtt_then_ns == UINT64_MAX ? 0 : 2 * r.rtt_then_ns) + path.send_ns);
    if (r.error != AUTOBUF_E_NOREPLY) /* nothing is faster than the way itself */
        CHECK(p->rtt_min_ns >= path.there.delay_ns + path.back.delay_ns);
    CHECK(p->tx_rate_low_bit_per_s <= p->tx_rate_bit_per_s);
    CHECK(p->tx_rate_bit_per_s <= p->tx_rate_high_bit_per_s);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The estimator over packets of any times, sizes and trains. The input is a window, then records of
 * one byte that says what follows: one packet, or copies of the last one, each later by a step, so
 * that a few bytes make a long train.
 */
#include "fuzz.h"

#include "estimate/estimate.h"

#define MOST 2000U

static size_t take_packets(struct input *in, struct ab_packet *packets)
{
    struct ab_packet p = {1000000000, 1010000000, 1500, 1, false, false};
    size_t count = 0;

    while (in->len > 0 && count < MOST) {
        unsigned how = (unsigned)take(in, 1);
        unsigned copies = how % 4 ? (unsigned)take(in, 1) : 1;
        uint64_t sent_step_ns = 0, received_step_ns = 0;

        if (how % 4 == 0) {
            p.sent_ns = take_number(in);
            p.received_ns = take_number(in);
            p.bytes = (uint32_t)take_number(in);
            p.train = (uint32_t)take_number(in);
        } else if (how % 4 == 1) { /* forwards or backwards */
            sent_step_ns = (uint64_t)(int64_t)(int16_t)take(in, 2);
            received_step_ns = (uint64_t)((int64_t)(int32_t)take(in, 4));
        } else {
            sent_step_ns = take_number(in);
            received_step_ns = take_number(in);
        }
        if (how & 16)
            p.train++;
        p.merged = how & 8;
        for (unsigned i = 0; i < copies && count < MOST; i++) {
            packets[count] = p;
            if (how & 32 && i % 4 == (how >> 6))
                packets[count].received_ns = AUTOBUF_NS_UNSET;
            if (how & 8) /* jitter */
                packets[count].received_ns += i * 7919 % 1000 * 100;
            count++;
            p.sent_ns += sent_step_ns;
            p.received_ns += received_step_ns;
        }
    }
    return count;
}

static void check_path(const struct ab_packet *packets, size_t count, uint64_t *scratch)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int result = ab_estimate_path(packets, count, scratch, &path);

    CHECK(result == 0 || result == AUTOBUF_E_NOREPLY || result == AUTOBUF_E_FEW);
    CHECK(path.samples <= count);
    CHECK((result == AUTOBUF_E_NOREPLY) == (path.rtt_min_ns == AUTOBUF_NS_UNSET));
    CHECK(path.rtt_min_ns <= path.rtt_median_ns);
    CHECK((result == 0) == (path.tx_rate_bit_per_s != 0));
    CHECK(path.tx_rate_low_bit_per_s <= path.tx_rate_bit_per_s);
    CHECK(path.tx_rate_bit_per_s <= path.tx_rate_high_bit_per_s);
    CHECK(path.rx_rate_bit_per_s == path.tx_rate_bit_per_s);
}

static void check_stream(const struct ab_packet *packets, size_t count, uint64_t number,
                         uint64_t *scratch)
{
    size_t newest = count ? (size_t)(number % count) : 0, first = newest / 2;
    struct ab_rate rate;

    ab_estimate_stream(packets, count, newest, &first, number % AB_PLAUSIBLE_BIT_PER_S,
                       number & 1, scratch, &rate);
    CHECK(rate.low_bit_per_s <= rate.rate_bit_per_s && rate.rate_bit_per_s <= rate.high_bit_per_s);
    CHECK(first == newest / 2 || first == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct ab_packet made[MOST];
    struct input in = {data, len};
    uint64_t window_ns = take_number(&in), min_ns, median_ns, *scratch;
    size_t count = take_packets(&in, made), found;
    struct ab_packet *packets = exact_copy(made, count * sizeof *made);
    struct ab_rate rate;

    scratch = malloc(count ? count * sizeof *scratch : 1);
    CHECK(scratch);
    found = ab_estimate_rtt(packets, count, scratch, &min_ns, &median_ns);
    CHECK(found <= count && min_ns <= median_ns);
    ab_estimate_rate(packets, count, scratch, &rate);
    CHECK(rate.low_bit_per_s <= rate.rate_bit_per_s && rate.rate_bit_per_s <= rate.high_bit_per_s);
    CHECK(ab_estimate_readings(packets, count, window_ns, scratch) <= count);
    CHECK(ab_estimate_readings(packets, count, 0, scratch) <= count);
    check_path(packets, count, scratch);
    check_stream(packets, count, window_ns, scratch);
    free(scratch);
    free(packets);
    return 0;
}

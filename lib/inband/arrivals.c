/* SPDX-License-Identifier: MIT */
/* The trains that arrive, and their rate. Pure. */
#include "exchange.h"

#include <errno.h>
#include <stdlib.h>

/* "unit" is a case of test_arrivals.c that fails with half or twice the value. */
#define SAME_STAMP_NS 300U  /* no full packet takes so short a time; unit: test_same_stamp */
#define STALL_GAPS 4U       /* a stall is so many times as long; unit: test_readings */
#define STALL_PERCENT 85U   /* as the longest of these gaps; unit: test_a_gap_that_a_quarter_have_is_no_stall */
#define ARRIVAL_MIN_BYTES 536U /* smaller segments share an entry (the default MSS, RFC 9293) */

static int allocate_arrivals(struct autobuf_inband *ib)
{
    struct ab_arrivals *a = &ib->arrivals;
    uint64_t min_bytes = ab_max(ib->facts.segment_bytes, ARRIVAL_MIN_BYTES);
    size_t capacity = (size_t)(2 * ab_inband_budget_bytes(ib) / min_bytes + 64);

    if (a->packets)
        return 0;
    a->packets = calloc(capacity, sizeof *a->packets + sizeof *a->scratch);
    if (!a->packets)
        return -ENOMEM;
    a->scratch = (uint64_t *)(a->packets + capacity);
    a->capacity = capacity;
    a->count = 0;
    return 0;
}

int ab_inband_expect_train(struct autobuf_inband *ib, const struct ab_line *line, uint64_t offset)
{
    struct ab_arrivals *a = &ib->arrivals;
    uint64_t segment_bytes = ib->facts.segment_bytes, len = line->numbers[0];
    int error = allocate_arrivals(ib);

    if (error < 0)
        return error;
    a->trains++;
    a->train_begin = a->count;
    a->train_bytes = 0;
    a->pace_bit_per_s = ab_min(line->values[AB_KEY_PACE], AB_PLAUSIBLE_BIT_PER_S);
    a->paced = line->values[AB_KEY_PACED];
    a->offset_bytes = offset;
    a->count_end = (offset + len) / segment_bytes * segment_bytes;
    a->discards = false;
    ib->in.payload_left = len;
    return 0;
}

void ab_inband_discard(struct autobuf_inband *ib, uint64_t len)
{
    ib->arrivals.discards = true;
    ib->in.payload_left = len;
}

/* Whether two parts belong to one packet. Conversion to the monotonic clock changes their stamps a little. */
static bool is_same_stamp(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) < SAME_STAMP_NS;
}

void ab_inband_arrived(struct autobuf_inband *ib, uint64_t stamp_ns, uint64_t len)
{
    struct ab_arrivals *a = &ib->arrivals;
    uint64_t before = ab_inband_wire_bytes(ib, a->train_bytes);
    struct ab_packet *p;

    if (a->discards)
        return;
    a->offset_bytes += len;
    a->train_bytes += len;
    if (a->offset_bytes > a->count_end && a->count > a->train_begin)
        return;
    p = a->count > a->train_begin ? &a->packets[a->count - 1] : NULL;
    if (!p || (!is_same_stamp(p->received_ns, stamp_ns) && a->count < a->capacity)) {
        if (a->count == a->capacity)
            return;
        p = &a->packets[a->count++];
        *p = (struct ab_packet){.train = a->trains};
    }
    p->received_ns = stamp_ns;
    p->bytes += (uint32_t)(ab_inband_wire_bytes(ib, a->train_bytes) - before);
    p->merged = p->bytes > ib->facts.packet_bytes + ib->facts.packet_bytes / 2;
}

static uint64_t gap_before(const struct ab_packet *p)
{
    return p->received_ns > p[-1].received_ns ? p->received_ns - p[-1].received_ns : 0;
}

/*
 * The shortest gap that is a stall: a full window, or a retransmission. Neither serialisation nor pacing, with several
 * bursts in a round trip, makes such a gap.
 */
static uint64_t shortest_stall_ns(const struct autobuf_inband *ib)
{
    const struct ab_arrivals *a = &ib->arrivals;
    uint64_t rtt_ns = ab_inband_rtt_ns(ib);
    size_t gaps = 0;

    for (size_t i = a->train_begin + 1; i < a->count; i++)
        a->scratch[gaps++] = gap_before(&a->packets[i]);
    if (gaps == 0)
        return 0;
    ab_sort(a->scratch, gaps);
    return ab_max(STALL_GAPS * ab_percentile(a->scratch, gaps, STALL_PERCENT),
                  rtt_ns == AUTOBUF_NS_UNSET ? 0 : rtt_ns / 2);
}

/* Begins another train after each stall. r: bytes and time of the newest train without stalls. */
static void split_at_stalls(struct autobuf_inband *ib, struct ab_reading *r)
{
    struct ab_arrivals *a = &ib->arrivals;
    uint64_t stall_ns = shortest_stall_ns(ib), wire_bytes = 0;

    r->span_ns = 0;
    for (size_t i = a->train_begin + 1; i < a->count; i++) {
        uint64_t gap_ns = gap_before(&a->packets[i]);

        if (gap_ns < stall_ns) {
            r->span_ns = ab_min(r->span_ns + gap_ns, AB_INBAND_TIMEOUT_MAX_NS);
            wire_bytes += a->packets[i].bytes;
        } else {
            a->trains++;
        }
        a->packets[i].train = a->trains;
    }
    /* The facts may have changed during the train. */
    r->bytes = ab_min(wire_bytes * ib->facts.segment_bytes / ib->facts.packet_bytes, a->train_bytes);
}

/* No rate, or a lower bound below the known rate. */
static bool is_less(const struct ab_rate *rate, const struct ab_reading *known)
{
    return rate->rate_bit_per_s == 0 || (rate->at_least && rate->rate_bit_per_s < known->rate_bit_per_s);
}

void ab_inband_estimate(struct autobuf_inband *ib)
{
    struct ab_arrivals *a = &ib->arrivals;
    struct ab_reading *r = &ib->rx.reading;
    struct ab_rate rate;

    split_at_stalls(ib, r);
    ab_estimate_stream(a->packets, a->count, a->train_begin, &a->unpaced_begin,
                       ab_inband_wire_bytes(ib, a->pace_bit_per_s), a->paced, a->scratch, &rate);
    r->sure = rate.sure;
    if (!is_less(&rate, r)) {
        r->rate_bit_per_s = rate.rate_bit_per_s;
        r->low_bit_per_s = rate.low_bit_per_s;
        r->high_bit_per_s = rate.high_bit_per_s;
        r->unsure = rate.unsure;
        r->at_least = rate.at_least;
    }
    ib->samples = (uint32_t)a->count;
    ab_log(&ib->log, "in band: train of %llu bytes in %llu us, %zu arrivals: %s%.1f Mbit/s: %s%s",
           (unsigned long long)a->train_bytes, (unsigned long long)(r->span_ns / AB_NS_PER_US), a->count,
           r->at_least ? "at least " : "", (double)r->rate_bit_per_s / 1e6,
           ab_kind_why(rate.kind), r->sure ? "" : ", not sure");
}

void ab_reading_write(const struct ab_reading *r, struct ab_line *line)
{
    line->values[AB_KEY_BYTES] = r->bytes;
    line->values[AB_KEY_NSEC] = r->span_ns;
    line->values[AB_KEY_RATE] = r->rate_bit_per_s;
    line->values[AB_KEY_LOW] = r->low_bit_per_s;
    line->values[AB_KEY_HIGH] = r->high_bit_per_s;
    line->values[AB_KEY_SURE] = r->sure;
    line->values[AB_KEY_ATLEAST] = r->at_least;
    line->values[AB_KEY_UNSURE] = r->unsure;
}

bool ab_reading_parse(const struct ab_line *line, struct ab_reading *r)
{
    const uint64_t *v = line->values;

    *r = (struct ab_reading){.bytes = v[AB_KEY_BYTES], .span_ns = v[AB_KEY_NSEC]};
    if (v[AB_KEY_RATE] == 0 || v[AB_KEY_RATE] > AB_PLAUSIBLE_BIT_PER_S ||
        v[AB_KEY_LOW] > v[AB_KEY_RATE] || v[AB_KEY_HIGH] < v[AB_KEY_RATE])
        return false;
    r->rate_bit_per_s = v[AB_KEY_RATE];
    r->low_bit_per_s = v[AB_KEY_LOW];
    r->high_bit_per_s = ab_min(v[AB_KEY_HIGH], AB_PLAUSIBLE_BIT_PER_S);
    r->sure = v[AB_KEY_SURE];
    r->at_least = v[AB_KEY_ATLEAST];
    r->unsure = (uint32_t)ab_min(v[AB_KEY_UNSURE], UINT32_MAX);
    return true;
}

bool ab_reading_possible(const struct ab_reading *r, uint64_t train_bytes, uint64_t elapsed_ns)
{
    uint64_t min_bit_per_s = ab_mul_div(train_bytes, 8 * AB_NS_PER_S, ab_max(elapsed_ns, 1));

    return train_bytes > 0 && r->bytes <= train_bytes && r->span_ns <= elapsed_ns &&
           r->rate_bit_per_s >= min_bit_per_s / 10 * 9;
}

uint64_t ab_inband_max_bdp(const struct autobuf_inband *ib, bool tx)
{
    const struct ab_reading *r = &ib->rx.reading;

    if (tx)
        return ib->tx.spent_bytes ? ab_inband_bdp(ib, AB_PLAUSIBLE_BIT_PER_S) : 0;
    return r->at_least ? ab_inband_bdp(ib, AB_PLAUSIBLE_BIT_PER_S)
                       : 2 * ab_inband_bdp(ib, r->unsure ? r->rate_bit_per_s : r->high_bit_per_s);
}

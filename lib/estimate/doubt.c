/* SPDX-License-Identifier: MIT */
/* Whether the chosen rate may be wrong, and how wide its interval then is. */
#include "estimate.h"

/* The experiment that set each constant: see estimate.c. "explore" is build/tests/sim/explore. */
#define OTHERS_PERCENT 120U /* of the rate: another candidate may differ so much; explore: jitter of 2 ms, wakes */
#define FASTER_PERCENT 115U /* of the rate: a gap is faster; explore: cross traffic of 500 B */
#define BATCH_PERCENT 300U  /* of the rate: a gap lies within a batch; explore: batches */
#define FASTER_SHARE 5U     /* percent of gaps that are faster; explore: cross traffic of 500 B */
#define HIGH_PERCENTILE 95U /* of gaps; explore: cross traffic of 500 B */
#define JITTER_PERCENT 125U /* widens the interval; explore: jitter of 2 ms */
#define FEW_GAPS 6U         /* among fewer, one gap may decide; unit: few_gaps_or_little_agreement (test_doubt.c) */
#define BATCH_END_PERCENT 105U /* a window may end within a batch; explore: batches of 250 us */

static uint64_t part(uint64_t rate_bit_per_s, unsigned percent)
{
    return ab_mul_div(rate_bit_per_s, 100, percent);
}

static size_t faster_than(const struct ab_evidence *e, uint64_t rate_bit_per_s)
{
    size_t at = e->count;

    while (at > 0 && e->gaps[at - 1] > rate_bit_per_s)
        at--;
    return e->count - at;
}

/* Some gaps are faster than the windows, and hardly any so fast that it lies within a batch. */
static bool has_groups(uint64_t rate_bit_per_s, const struct ab_evidence *e)
{
    size_t most = faster_than(e, ab_percent(rate_bit_per_s, BATCH_PERCENT));
    size_t all = faster_than(e, ab_percent(rate_bit_per_s, FASTER_PERCENT));

    return 100 * (all - most) >= FASTER_SHARE * e->count && 100 * most < FASTER_SHARE * e->count;
}

static uint8_t why_unsure(const struct ab_rate *rate, const struct ab_evidence *e)
{
    switch (rate->kind) {
    case AB_KIND_SLOPE:
    case AB_KIND_POOLED:
        return AUTOBUF_UNSURE_JITTER;
    case AB_KIND_CLUSTER:
        return AUTOBUF_UNSURE_BATCHES;
    case AB_KIND_WINDOWS:
        if (rate->rate_bit_per_s > ab_percent(rate->pooled_bit_per_s, OTHERS_PERCENT))
            return AUTOBUF_UNSURE_PAUSES;
        if (rate->pooled_bit_per_s > ab_percent(rate->rate_bit_per_s, OTHERS_PERCENT)) /* one gap is in all windows */
            return AUTOBUF_UNSURE_JITTER;
        if (e->slope_bit_per_s > ab_percent(rate->rate_bit_per_s, OTHERS_PERCENT))
            return AUTOBUF_UNSURE_JITTER;
        if (!rate->sure || e->count < FEW_GAPS)
            return AUTOBUF_UNSURE_JITTER;
        return has_groups(rate->rate_bit_per_s, e) ? AUTOBUF_UNSURE_BATCHES : AUTOBUF_UNSURE_NOT;
    default: /* bounds, even gaps */
        return AUTOBUF_UNSURE_NOT;
    }
}

static void widen(struct ab_rate *rate, uint64_t low_bit_per_s, uint64_t high_bit_per_s)
{
    rate->low_bit_per_s = ab_min(rate->low_bit_per_s, low_bit_per_s);
    rate->high_bit_per_s = ab_max(rate->high_bit_per_s, high_bit_per_s);
}

void ab_doubt(struct ab_rate *rate, const struct ab_evidence *e)
{
    uint64_t chosen = rate->rate_bit_per_s;

    rate->unsure = why_unsure(rate, e);
    if (rate->unsure)
        widen(rate, rate->pooled_bit_per_s, rate->pooled_bit_per_s);
    if (rate->unsure && e->count) {
        uint64_t high = ab_percentile(e->gaps, e->count, HIGH_PERCENTILE);

        /* A host that was late makes any rate too low. */
        widen(rate, chosen,
              rate->unsure == AUTOBUF_UNSURE_JITTER ? high : ab_min(high, ab_percent(chosen, BATCH_PERCENT)));
    }
    if (rate->unsure == AUTOBUF_UNSURE_JITTER)
        widen(rate, part(chosen, JITTER_PERCENT), ab_percent(chosen, JITTER_PERCENT));
    if (e->piled) {
        rate->low_bit_per_s = part(rate->low_bit_per_s, BATCH_END_PERCENT);
        rate->high_bit_per_s = ab_percent(rate->high_bit_per_s, BATCH_END_PERCENT);
    }
}

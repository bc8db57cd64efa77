/* SPDX-License-Identifier: MIT */
#include "doubt.h"

#include "mode.h"

/* The experiment that set each constant: see estimate.c. "explore" is build/tests/sim/explore. */
#define OTHERS_PERCENT 120U /* of the rate: what another way to find it may say; explore: jitter of 2 ms, wakes */
#define FASTER_PERCENT 115U /* gaps that are faster than the rate; explore: cross traffic of 500 B */
#define MOST_PERCENT 300U   /* but these lie in batches, and say nothing; explore: batches */
#define FASTER_SHARE 5U     /* percent of gaps; explore: cross traffic of 500 B */
#define HIGH_PERCENTILE 95U /* of gaps; explore: cross traffic of 500 B */
#define JITTER_PERCENT 125U /* explore: jitter of 2 ms */
#define FEW_GAPS 6U /* in so few one that jitter has torn may decide; netem, jitter of 1 ms at 1 Gbit/s, in band */
#define BATCH_END_PERCENT 105U /* a window ends somewhere in a batch; explore: batches of 250 us */

static uint64_t times(uint64_t rate_bit_per_s, unsigned percent)
{
    return ab_mul_div(rate_bit_per_s, percent, 100);
}

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

/* Some gaps are faster than windows, but not so much that they lie in a batch. */
static bool has_groups(uint64_t rate_bit_per_s, const struct ab_evidence *e)
{
    size_t most = faster_than(e, times(rate_bit_per_s, MOST_PERCENT));
    size_t all = faster_than(e, times(rate_bit_per_s, FASTER_PERCENT));

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
        if (rate->rate_bit_per_s > times(rate->pooled_bit_per_s, OTHERS_PERCENT))
            return AUTOBUF_UNSURE_PAUSES;
        if (rate->pooled_bit_per_s > times(rate->rate_bit_per_s, OTHERS_PERCENT)) /* one gap lies in all windows */
            return AUTOBUF_UNSURE_JITTER;
        if (e->slope_bit_per_s > times(rate->rate_bit_per_s, OTHERS_PERCENT))
            return AUTOBUF_UNSURE_JITTER;
        if (!rate->sure || e->count < FEW_GAPS)
            return AUTOBUF_UNSURE_JITTER;
        return has_groups(rate->rate_bit_per_s, e) ? AUTOBUF_UNSURE_BATCHES : AUTOBUF_UNSURE_NOT;
    default: /* bounds, and gaps that are even */
        return AUTOBUF_UNSURE_NOT;
    }
}

static void reach(struct ab_rate *rate, uint64_t low_bit_per_s, uint64_t high_bit_per_s)
{
    rate->low_bit_per_s = ab_min(rate->low_bit_per_s, low_bit_per_s);
    rate->high_bit_per_s = ab_max(rate->high_bit_per_s, high_bit_per_s);
}

void ab_doubt(struct ab_rate *rate, const struct ab_evidence *e)
{
    uint64_t chosen = rate->rate_bit_per_s;

    rate->unsure = why_unsure(rate, e);
    if (rate->unsure)
        reach(rate, rate->pooled_bit_per_s, rate->pooled_bit_per_s);
    if (rate->unsure && e->count)
        reach(rate, chosen, ab_min(ab_percentile(e->gaps, e->count, HIGH_PERCENTILE), times(chosen, MOST_PERCENT)));
    if (rate->unsure == AUTOBUF_UNSURE_JITTER)
        reach(rate, part(chosen, JITTER_PERCENT), times(chosen, JITTER_PERCENT));
    if (e->piled) {
        rate->low_bit_per_s = part(rate->low_bit_per_s, BATCH_END_PERCENT);
        rate->high_bit_per_s = times(rate->high_bit_per_s, BATCH_END_PERCENT);
    }
}

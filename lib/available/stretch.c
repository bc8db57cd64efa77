/* SPDX-License-Identifier: MIT */
#include "stretch.h"

/* Each constant names the case of tests/unit/available/test_stretch.c, or of tests/sim/test_available_sim.c. */
#define STRETCHES 4U        /* stretches_hold_the_truth */
#define GROUPS 24U          /* of chunks: each is a round; stretches_hold_the_truth */
#define NARROW_PERCENT 125U /* the_search_ends */
#define LESS_PERCENT 75U    /* of the pace: the sender did not keep to it; a_sender_that_is_slower_than_its_pace */
#define VARIES_PERCENT 5U   /* of other traffic, from one stretch to the next; stretches_hold_the_truth */
#define BELIEVED_PERCENT 125U /* of the capacity, or of what arrived; times_that_make_it_fast_show_nothing */
#define CROSSED_PERCENT 110U /* a queue for each flow; bounds_that_exclude_each_other_are_a_share */
#define BYTES_MOST 4000000U /* of all stretches of a direction */
#define PARTS_OF_S 2U       /* of the capacity: the same */
#define SPAN_NS (10 * AB_NS_PER_S)

/* -------------------------------------------------------------------------------- one stretch */

static bool is_plausible(const struct ab_chunk *chunks, size_t count)
{
    const struct ab_chunk *first = chunks, *last = chunks + count - 1;

    for (size_t i = 1; i < count; i++)
        if (chunks[i].sent_ns < chunks[i - 1].sent_ns || chunks[i].arrived_ns < chunks[i - 1].arrived_ns)
            return false;
    return last->sent_ns - first->sent_ns <= SPAN_NS && last->arrived_ns - first->arrived_ns <= SPAN_NS &&
           last->sent_ns - first->sent_ns >= AB_NS_PER_MS && last->arrived_ns - first->arrived_ns >= AB_NS_PER_MS;
}

/* The time of a chunk in the path, beside that of the first one. */
static int64_t change_ns(const struct ab_chunk *chunks, size_t i)
{
    return (int64_t)(chunks[i].arrived_ns - chunks[0].arrived_ns) - (int64_t)(chunks[i].sent_ns - chunks[0].sent_ns);
}

/* chunks[from..to) as one round. base_ns: the least change. */
static struct ab_round round_from(const struct ab_chunk *chunks, size_t from, size_t to, int64_t base_ns)
{
    struct ab_round round = {.end_ns = chunks[to - 1].arrived_ns - chunks[0].arrived_ns, .least_us = UINT32_MAX};
    uint64_t sum_ns = 0, mean_ns, deviation_ns = 0;

    for (size_t i = from; i < to; i++) {
        uint64_t ns = (uint64_t)(change_ns(chunks, i) - base_ns);

        sum_ns += ns;
        round.least_us = (uint32_t)ab_min(round.least_us, ns / AB_NS_PER_US);
    }
    mean_ns = sum_ns / (to - from);
    for (size_t i = from; i < to; i++) {
        uint64_t ns = (uint64_t)(change_ns(chunks, i) - base_ns);

        deviation_ns += ns > mean_ns ? ns - mean_ns : mean_ns - ns;
    }
    round.rtt_us = (uint32_t)(mean_ns / AB_NS_PER_US);
    round.deviation_us = (uint32_t)(deviation_ns / (to - from) / AB_NS_PER_US);
    return round;
}

/* What arrived within the same microsecond as the end of the round before belongs to it. */
static void rounds_of(struct ab_available *a, const struct ab_chunk *chunks, size_t count, bool program_limits)
{
    size_t least = count / GROUPS + (count < GROUPS);
    uint64_t bytes = 0;
    int64_t base_ns = 0;

    for (size_t i = 1; i < count; i++)
        base_ns = change_ns(chunks, i) < base_ns ? change_ns(chunks, i) : base_ns;
    for (size_t from = 0, to = 1; to <= count && a->count < AB_ROUNDS; to++) {
        struct ab_round *round = &a->rounds[a->count];

        bytes += chunks[to - 1].bytes;
        if (to - from < least || (to < count && chunks[to].arrived_ns - chunks[to - 1].arrived_ns < AB_NS_PER_US))
            continue;
        *round = round_from(chunks, from, to, base_ns);
        round->delivered_bytes = bytes;
        round->begins = a->count == 0;
        round->program_limits = program_limits;
        a->now_ns = round->end_ns;
        a->count++;
        from = to;
    }
}

/* How many chunks were sent by until_ns after the first one. */
static size_t count_until(const struct ab_chunk *chunks, size_t count, uint64_t until_ns)
{
    while (count && chunks[count - 1].sent_ns - chunks[0].sent_ns > until_ns)
        count--;
    return count;
}

void ab_stretch_estimate(struct ab_available *a, const struct ab_chunk *chunks, size_t count, uint64_t until_ns,
                         const struct ab_stretch *stretch, struct autobuf_available *estimate)
{
    const struct autobuf_available nothing = {.size = sizeof *estimate, .cause = AUTOBUF_CAUSE_SHORT};
    uint64_t bytes = 0, sent_bit_per_s, most_bit_per_s;

    *estimate = nothing;
    count = count_until(chunks, count, until_ns);
    if (count < 2 || !is_plausible(chunks, count))
        return;
    for (size_t i = 1; i < count; i++)
        bytes += chunks[i].bytes;
    sent_bit_per_s = ab_mul_div(bytes, 8 * AB_NS_PER_S, chunks[count - 1].sent_ns - chunks[0].sent_ns);
    a->count = 0;
    rounds_of(a, chunks, count, sent_bit_per_s < ab_percent(stretch->pace_bit_per_s, LESS_PERCENT));
    if (!a->count)
        return;
    ab_available_estimate(a, stretch->capacity_low_bit_per_s, stretch->capacity_high_bit_per_s, estimate);
    most_bit_per_s = ab_mul_div(bytes, 8 * AB_NS_PER_S, chunks[count - 1].arrived_ns - chunks[0].arrived_ns);
    most_bit_per_s = ab_max(most_bit_per_s, ab_max(stretch->capacity_low_bit_per_s, stretch->capacity_high_bit_per_s));
    most_bit_per_s = ab_percent(most_bit_per_s, BELIEVED_PERCENT);
    if (estimate->tx_low_bit_per_s > most_bit_per_s || estimate->tx_high_bit_per_s > most_bit_per_s)
        *estimate = nothing;
}

/* -------------------------------------------------------------------------------- the search */

uint64_t ab_search_bytes(uint64_t capacity_bit_per_s)
{
    return ab_min(BYTES_MOST, capacity_bit_per_s / 8 / PARTS_OF_S) / STRETCHES;
}

bool ab_search_next(const struct ab_search *s, struct ab_stretch *next)
{
    uint64_t top = s->high_bit_per_s, from = ab_max(s->low_bit_per_s, s->tried_bit_per_s);

    *next = (struct ab_stretch){0, s->capacity_low_bit_per_s, s->capacity_high_bit_per_s};
    if (!s->capacity_low_bit_per_s || s->stretches == STRETCHES || (s->share && s->low_bit_per_s))
        return false;
    if (!top)
        top = s->capacity_high_bit_per_s ? s->capacity_high_bit_per_s : ab_max(2 * from, s->capacity_low_bit_per_s);
    if (s->lossy_bit_per_s)
        top = ab_min(top, s->lossy_bit_per_s);
    if (ab_percent(s->low_bit_per_s, NARROW_PERCENT) >= top)
        return false;
    from = from < top ? from : s->low_bit_per_s;
    next->pace_bit_per_s = ab_max(s->stretches ? from / 2 + top / 2 : s->capacity_low_bit_per_s / 2, 1);
    return true;
}

void ab_search_take(struct ab_search *s, uint64_t pace_bit_per_s, bool lost, const struct autobuf_available *e)
{
    uint64_t low = ab_percent(e->tx_low_bit_per_s, 100 - VARIES_PERCENT);
    uint64_t high = ab_percent(e->tx_high_bit_per_s, 100 + VARIES_PERCENT);

    s->stretches++;
    s->cause = e->cause;
    s->over_ns += e->over_ns;
    if (lost && !high) /* it was too much, but nothing shows by how much */
        low = 0;
    if (lost)
        s->lossy_bit_per_s = s->lossy_bit_per_s ? ab_min(s->lossy_bit_per_s, pace_bit_per_s) : pace_bit_per_s;
    else if (e->cause == AUTOBUF_CAUSE_NO_QUEUE)
        s->tried_bit_per_s = ab_max(s->tried_bit_per_s, pace_bit_per_s);
    if (high && s->low_bit_per_s > ab_percent(high, CROSSED_PERCENT)) { /* it was free, so this is no FIFO queue */
        s->share = true;
        s->high_bit_per_s = high = 0;
    }
    s->low_bit_per_s = ab_max(s->low_bit_per_s, low);
    if (high && (!s->high_bit_per_s || high < s->high_bit_per_s))
        s->high_bit_per_s = high;
    if (!s->high_bit_per_s || s->low_bit_per_s <= s->high_bit_per_s)
        return;
    low = s->high_bit_per_s; /* other traffic has changed meanwhile: between the two */
    s->high_bit_per_s = s->low_bit_per_s;
    s->low_bit_per_s = low;
}

static uint32_t flags_of(const struct ab_search *s)
{
    if (!s->high_bit_per_s == !s->low_bit_per_s)
        return 0;
    return s->low_bit_per_s ? AUTOBUF_AVAILABLE_TX_AT_LEAST : AUTOBUF_AVAILABLE_TX_AT_MOST;
}

/* Why a bound is not known, after all stretches. */
static uint32_t cause_of(const struct ab_search *s)
{
    if (s->low_bit_per_s && s->high_bit_per_s)
        return AUTOBUF_CAUSE_NONE;
    if (!s->capacity_low_bit_per_s)
        return AUTOBUF_CAUSE_CAPACITY;
    return s->cause ? s->cause : AUTOBUF_CAUSE_SHORT;
}

void ab_search_result(const struct ab_search *tx, const struct ab_search *back, struct autobuf_available *found)
{
    const struct ab_search none = {0}, *rx = back ? back : &none;
    bool known = tx->low_bit_per_s || tx->high_bit_per_s || rx->low_bit_per_s || rx->high_bit_per_s;

    *found = (struct autobuf_available){
        .size = sizeof *found,
        .kind = !known ? AUTOBUF_KIND_NONE : tx->share || rx->share ? AUTOBUF_KIND_SHARE : AUTOBUF_KIND_AVAILABLE,
        .flags = flags_of(tx) | flags_of(rx) * AUTOBUF_AVAILABLE_RX_AT_LEAST,
        .cause = cause_of(tx) || !back ? cause_of(tx) : cause_of(back),
        .tx_low_bit_per_s = tx->low_bit_per_s, .tx_high_bit_per_s = tx->high_bit_per_s,
        .rx_low_bit_per_s = rx->low_bit_per_s, .rx_high_bit_per_s = rx->high_bit_per_s,
        .over_ns = known ? ab_max(tx->over_ns, rx->over_ns) : 0,
    };
}

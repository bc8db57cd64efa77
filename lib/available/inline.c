/* SPDX-License-Identifier: MIT */
#include "inline.h"

/* Each constant names the case of tests/unit/available/test_inline.c, or of tests/sim/test_available_sim.c. */
#define SPAN_NS (100 * AB_NS_PER_MS)  /* of a stretch, or */
#define SPAN_RTTS 2U                  /* so many, or */
#define SPAN_PACKETS 64U              /* the time of so many, as the program writes; a_stretch_takes_two_rtts */
#define SPAN_MOST_NS (500 * AB_NS_PER_MS) /* by packets: else the program is too slow; who_is_searched */
#define SAMPLE_NS (10 * AB_NS_PER_MS) /* a_stretch_takes_two_rtts */
#define REST_NS (10 * AB_NS_PER_S)    /* it_rests */
#define AGE_PARTS 50U                 /* the program's data are late by one of them at most; it_rests */
#define DOUBLINGS 4U                  /* of the rest, after searches that found nothing; it_rests */
#define FASTER 2U                     /* times the program's rate, at most; what_is_free_is_found */
#define HELD_PART 2U                  /* of its rate meanwhile; what_is_free_is_found */
#define MORE_PERCENT 110U             /* of its rate, or there is no stretch; a_program_that_stops */
#define LONGER_PERCENT 25U            /* the RTT, or */
#define LONGER_PART 8U               /* that of a stretch on a short path: it ends; a_queue_ends_it */
#define SEARCH_NS (2 * AB_NS_PER_S)   /* and */
#define SEARCH_RTTS 8U                /* the whole search; it_ends */
#define KEPT_NS (60 * AB_NS_PER_S)    /* what_was_found_grows_old */

static uint64_t span_ns(const struct ab_inline *in, uint64_t rtt_ns)
{
    uint64_t packets_ns = ab_mul_div(SPAN_PACKETS * AB_IP_PACKET_BYTES, 8 * AB_NS_PER_S, ab_max(in->rate_bit_per_s, 1));

    return ab_max(ab_max(SPAN_NS, in->rate_bit_per_s ? packets_ns : 0), ab_mul_div(SPAN_RTTS, rtt_ns, 1));
}

static uint64_t rest_ns(const struct ab_inline *in, uint64_t rtt_ns)
{
    return ab_max(REST_NS, ab_mul_div(AGE_PARTS, span_ns(in, rtt_ns), 1)) << in->failed;
}

static bool go(struct ab_inline *in, enum ab_inline_state state, uint64_t pace_bit_per_s, uint64_t now_ns)
{
    bool changed = pace_bit_per_s != in->pace_bit_per_s;

    in->state = state;
    in->pace_bit_per_s = pace_bit_per_s;
    in->since_ns = now_ns;
    return changed;
}

/* What has to wait, so that a stretch lasts. */
static uint64_t needed_bytes(const struct ab_inline *in)
{
    return ab_mul_div((in->stretch_bit_per_s - in->rate_bit_per_s) / 8, span_ns(in, in->rtt_ns), AB_NS_PER_S);
}

static bool hold(struct ab_inline *in, uint64_t stretch_bit_per_s, const struct ab_inline_sample *sample)
{
    in->stretch_bit_per_s = stretch_bit_per_s;
    in->rtt_ns = sample->rtt_ns;
    return go(in, AB_INLINE_HOLDS, in->rate_bit_per_s / HELD_PART, sample->now_ns);
}

bool ab_inline_is_due(struct ab_inline *in, const struct ab_inline_sample *sample)
{
    if (!in->rested_ns || sample->now_ns < in->rested_ns)
        in->rested_ns = sample->now_ns;
    return in->state == AB_INLINE_RESTS && sample->now_ns - in->rested_ns >= rest_ns(in, sample->rtt_ns);
}

bool ab_inline_begin(struct ab_inline *in, const struct ab_inline_sample *sample,
                     const struct autobuf_available *passive, uint64_t capacity_low_bit_per_s,
                     uint64_t capacity_high_bit_per_s)
{
    uint64_t rate = passive->tx_low_bit_per_s, most = FASTER * ab_min(rate, UINT64_MAX / FASTER), span;

    if (capacity_high_bit_per_s)
        most = ab_min(most, capacity_high_bit_per_s);
    in->rate_bit_per_s = rate; /* the lower it is, the longer a stretch takes, and the later it may begin */
    span = span_ns(in, sample->rtt_ns);
    most = ab_min(most, rate + ab_mul_div(sample->waiting_bytes + sample->room_bytes, 8 * AB_NS_PER_S, span));
    if (passive->cause != AUTOBUF_CAUSE_PROGRAM || !rate || span_ns(in, 0) > SPAN_MOST_NS ||
        most < ab_percent(rate, MORE_PERCENT) || !ab_inline_is_due(in, sample))
        return false;
    in->search = (struct ab_search){.capacity_low_bit_per_s = ab_max(capacity_low_bit_per_s, rate),
                                    .capacity_high_bit_per_s = capacity_high_bit_per_s,
                                    .low_bit_per_s = rate, .tried_bit_per_s = rate};
    in->deviation_us = ab_us_of(sample->rtt_deviation_ns);
    in->begin_ns = in->sample_ns = sample->now_ns;
    return hold(in, most, sample);
}

static bool end_search(struct ab_inline *in, uint64_t now_ns)
{
    in->rested_ns = now_ns;
    if (in->search.low_bit_per_s > in->rate_bit_per_s || in->search.high_bit_per_s) {
        in->failed = 0;
        ab_search_result(&in->search, NULL, &in->found);
        in->found.over_ns = now_ns - in->begin_ns;
        in->found_ns = now_ns;
    } else {
        in->failed = (unsigned)ab_min(in->failed + 1, DOUBLINGS);
    }
    return go(in, AB_INLINE_RESTS, 0, now_ns);
}

void ab_inline_stop(struct ab_inline *in, uint64_t now_ns)
{
    (void)end_search(in, now_ns);
}

/* An acknowledgement tells of data that were sent an RTT ago. That their RTT rises is no jitter. */
static void note_round(struct ab_inline *in, const struct ab_inline_sample *sample)
{
    struct ab_available *a = &in->rounds;
    uint32_t rtt_us = ab_us_of(sample->rtt_ns);
    uint64_t delivered_bytes = sample->delivered_bytes;

    if (a->count == AB_ROUNDS)
        return;
    if (a->count) /* what is sacked is counted by packets */
        delivered_bytes = ab_max(delivered_bytes, a->rounds[a->count - 1].delivered_bytes);
    a->rounds[a->count] = (struct ab_round){
        .end_ns = sample->now_ns, .delivered_bytes = delivered_bytes, .rtt_us = rtt_us, .least_us = rtt_us,
        .deviation_us = (uint32_t)ab_min(ab_us_of(sample->rtt_deviation_ns), in->deviation_us),
        .begins = a->count == 0};
    a->count++;
    a->now_ns = sample->now_ns;
}

/* The rate at which the stretch came through: the window may have held it below its pace. */
static uint64_t came_bit_per_s(const struct ab_available *a)
{
    const struct ab_round *first = a->rounds, *last = a->rounds + ab_max(a->count, 1) - 1;
    uint64_t bytes = last->delivered_bytes - ab_min(first->delivered_bytes, last->delivered_bytes);

    return a->count > 1 ? ab_mul_div(bytes, 8 * AB_NS_PER_S, last->end_ns - first->end_ns) : 0;
}

static bool conclude(struct ab_inline *in, const struct ab_inline_sample *sample, bool lost)
{
    struct ab_search *s = &in->search;
    uint64_t came = ab_min(in->stretch_bit_per_s, came_bit_per_s(&in->rounds));
    struct autobuf_available shows;
    struct ab_stretch next;

    ab_available_estimate(&in->rounds, ab_max(s->capacity_low_bit_per_s, came), s->capacity_high_bit_per_s, &shows);
    ab_search_take(s, lost ? in->stretch_bit_per_s : came, lost, &shows);
    if (sample->now_ns - in->begin_ns >= SEARCH_NS + ab_mul_div(SEARCH_RTTS, sample->rtt_ns, 1) ||
        !ab_search_next(s, &next) || next.pace_bit_per_s <= in->rate_bit_per_s ||
        next.pace_bit_per_s > FASTER * in->rate_bit_per_s)
        return end_search(in, sample->now_ns);
    return hold(in, next.pace_bit_per_s, sample);
}

static bool is_longer(const struct ab_inline *in, const struct ab_inline_sample *sample)
{
    uint64_t most_ns = ab_max(ab_percent(sample->rtt_min_ns, LONGER_PERCENT), span_ns(in, 0) / LONGER_PART);

    return sample->rtt_ns > sample->rtt_min_ns + most_ns;
}

/*
 * Data are held back until enough wait, for as long as the program should take to write them. If it wrote less, or its
 * buffer had no room, the stretch is slower, and lasts as long. Returns whether the pace has changed.
 */
static bool step_hold(struct ab_inline *in, const struct ab_inline_sample *sample)
{
    uint64_t needed = needed_bytes(in), held_bit_per_s = ab_max(in->rate_bit_per_s - in->pace_bit_per_s, 1), more;

    if (sample->waiting_bytes < needed &&
        sample->now_ns - in->since_ns < ab_mul_div(needed, 8 * AB_NS_PER_S, held_bit_per_s))
        return false;
    more = ab_mul_div(ab_min(sample->waiting_bytes, needed), 8 * AB_NS_PER_S, span_ns(in, in->rtt_ns));
    in->stretch_bit_per_s = in->rate_bit_per_s + more;
    if (in->stretch_bit_per_s < ab_percent(in->rate_bit_per_s, MORE_PERCENT))
        return end_search(in, sample->now_ns);
    in->rounds.count = 0;
    in->rtt_ns = sample->rtt_ns;
    in->sends_ns = sample->now_ns;
    return go(in, AB_INLINE_SENDS, in->stretch_bit_per_s, sample->now_ns);
}

bool ab_inline_sample(struct ab_inline *in, const struct ab_inline_sample *sample)
{
    bool lost = sample->resent_packets != in->resent_packets;
    uint64_t since_ns = sample->now_ns - in->since_ns;

    in->resent_packets = sample->resent_packets;
    if (in->state == AB_INLINE_RESTS)
        return false;
    if (sample->now_ns < in->sample_ns || !sample->rtt_ns) { /* the clock has jumped: it shows nothing */
        in->search = (struct ab_search){0};
        return end_search(in, sample->now_ns);
    }
    in->sample_ns = sample->now_ns;
    if (in->state == AB_INLINE_HOLDS)
        return step_hold(in, sample);
    if (sample->now_ns - in->sends_ns >= in->rtt_ns)
        note_round(in, sample);
    if (lost || (in->state == AB_INLINE_LISTENS && since_ns >= sample->rtt_ns))
        return conclude(in, sample, lost);
    if (in->state == AB_INLINE_SENDS &&
        (!sample->waiting_bytes || since_ns >= span_ns(in, in->rtt_ns) || is_longer(in, sample)))
        return go(in, AB_INLINE_LISTENS, 0, sample->now_ns);
    return false;
}

uint64_t ab_inline_next_ns(const struct ab_inline *in)
{
    return in->sample_ns + SAMPLE_NS;
}

void ab_inline_result(const struct ab_inline *in, uint64_t now_ns, struct autobuf_available *available)
{
    if (!in->found_ns || now_ns < in->found_ns || now_ns - in->found_ns > KEPT_NS || available->tx_high_bit_per_s ||
        available->cause != AUTOBUF_CAUSE_PROGRAM || available->tx_low_bit_per_s > in->found.tx_low_bit_per_s)
        return;
    *available = in->found;
    available->age_ns = now_ns - in->found_ns;
}

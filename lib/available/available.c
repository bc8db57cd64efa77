/* SPDX-License-Identifier: MIT */
#include "available.h"

/* Each constant names the case of tests/unit/available/test_available.c, or of tests/sim/test_available_sim.c. */
#define ROUND_NS (50 * AB_NS_PER_MS) /* the least, so that what hosts merge counts little; rounds_are_of_50_ms */
#define RING_NS (10 * AB_NS_PER_S)   /* what_is_older_than_10_s_is_forgotten */
#define LEAST_ROUNDS 3U              /* two_rounds_are_too_short */
#define LATE_ROUNDS 4U               /* a queue may have come and gone between samples; rare_samples_show_no_queue */
#define QUEUE_US 1000U               /* above the minimum RTT, or */
#define QUEUE_DEVIATIONS 4U          /* so many mean deviations; jitter_is_no_queue */
#define QUEUE_PACKETS 2U             /* or the time of so many packets; a_longer_path_does_not_make_it_lie */
#define STEP_PERCENT 67U             /* of the rise, at most, in a third of its time; a_longer_path_is_no_queue */
#define STARTS_PERCENT 75U           /* of the rate, in its first round: slow start's bursts; slow_start_is_no_queue */
/* Of the rounds so many have the minimum RTT of all of them: no queue; a_longer_path_does_not_make_it_lie. */
#define FLOOR_PART 4U
#define SLACK_PERCENT 2U             /* headers, merged ACKs, a queue between samples; the_range_holds_the_truth */
#define LOADED 10U                   /* C / d, at most, if C is unknown: for the error of a q; the_error_of_a_queue */

/* -------------------------------------------------------------------------------- samples */

static const struct ab_round *round_at(const struct ab_available *a, uint64_t i)
{
    return &a->rounds[i % AB_ROUNDS];
}

static void keep(struct ab_available *a, const struct ab_round *round)
{
    a->rounds[a->count++ % AB_ROUNDS] = *round; /* which may be a->open */
    a->open = (struct ab_round){.least_us = UINT32_MAX};
}

static void begin_stretch(struct ab_available *a, const struct ab_available_sample *sample)
{
    uint32_t rtt_us = ab_us_of(sample->rtt_ns);

    keep(a, &(struct ab_round){.end_ns = sample->now_ns, .delivered_bytes = sample->delivered_bytes,
                              .rtt_us = rtt_us, .least_us = rtt_us, .begins = true});
}

static void end_round(struct ab_available *a, const struct ab_available_sample *sample)
{
    const struct ab_round *before = round_at(a, a->count - 1);

    if (sample->delivered_bytes == before->delivered_bytes) { /* idle, or stalled */
        if (before->begins)
            a->count--;
        begin_stretch(a, sample);
        return;
    }
    a->open.end_ns = sample->now_ns;
    a->open.delivered_bytes = sample->delivered_bytes;
    a->open.rtt_us = ab_us_of(sample->rtt_ns);
    a->open.deviation_us = ab_us_of(sample->rtt_deviation_ns);
    keep(a, &a->open);
}

void ab_available_sample(struct ab_available *a, const struct ab_available_sample *sample)
{
    const struct ab_round *before = a->count ? round_at(a, a->count - 1) : NULL;
    bool lost = sample->resent_packets != a->resent_packets;
    /* The clock has jumped, or it is another connection. */
    bool anew = a->count && (sample->now_ns <= a->now_ns || sample->now_ns - a->now_ns > RING_NS ||
                             sample->delivered_bytes < before->delivered_bytes);

    a->now_ns = sample->now_ns;
    a->resent_packets = sample->resent_packets;
    if (anew)
        a->count = 0;
    if (!sample->rtt_ns)
        return;
    if (!a->count) {
        begin_stretch(a, sample);
        return;
    }
    a->open.least_us = (uint32_t)ab_min(a->open.least_us, ab_us_of(sample->rtt_ns));
    a->open.lost |= lost;
    a->open.program_limits |= sample->program_limits;
    if (sample->now_ns - before->end_ns >= ab_max(sample->rtt_ns, ROUND_NS))
        end_round(a, sample);
}

/* -------------------------------------------------------------------------------- what they show */

/* Rounds from the end of one to the end of another. */
struct stretch {
    const struct ab_available *of;
    uint64_t first, last;
};

/* What is known of the link, in bytes and microseconds. */
struct link {
    uint64_t least_byte_per_s, most_byte_per_s; /* its capacity */
    uint32_t minimum_us;
    uint32_t margin_us; /* of a queue above the minimum */
};

static uint64_t us_between(const struct stretch *s, uint64_t first, uint64_t last)
{
    return (round_at(s->of, last)->end_ns - round_at(s->of, first)->end_ns) / AB_NS_PER_US;
}

static uint64_t us_of_stretch(const struct stretch *s)
{
    return us_between(s, s->first, s->last);
}

static uint64_t bytes_of(const struct stretch *s)
{
    return round_at(s->of, s->last)->delivered_bytes - round_at(s->of, s->first)->delivered_bytes;
}

/* The newest stretch of three rounds and more; false: there is none. */
static bool newest(const struct ab_available *a, struct stretch *s)
{
    uint64_t kept = a->count - ab_min(a->count, AB_ROUNDS);

    *s = (struct stretch){a, a->count, a->count};
    for (uint64_t i = a->count; i-- > kept && a->now_ns - round_at(a, i)->end_ns <= RING_NS;) {
        if (s->last == a->count)
            s->last = i;
        s->first = i;
        if (!round_at(a, i)->begins)
            continue;
        if (s->last - s->first >= LEAST_ROUNDS)
            return true;
        s->last = a->count;
    }
    return s->last < a->count && s->last - s->first >= LEAST_ROUNDS;
}

static struct link link_of(const struct stretch *s, uint64_t least_byte_per_s, uint64_t most_byte_per_s)
{
    uint64_t deviation_us = 0, seen_byte_per_s, packets_us;
    struct link link = {least_byte_per_s, most_byte_per_s, round_at(s->of, s->first)->least_us, 0};

    for (uint64_t i = s->first + 1; i <= s->last; i++) {
        link.minimum_us = (uint32_t)ab_min(link.minimum_us, round_at(s->of, i)->least_us);
        deviation_us += round_at(s->of, i)->deviation_us;
    }
    deviation_us /= s->last - s->first;
    seen_byte_per_s = ab_mul_div(bytes_of(s), 1000000, us_of_stretch(s));
    if (!least_byte_per_s)
        link.least_byte_per_s = seen_byte_per_s;
    if (!most_byte_per_s)
        link.most_byte_per_s = ab_mul_div(seen_byte_per_s, LOADED, 1);
    packets_us = ab_mul_div(QUEUE_PACKETS * AB_IP_PACKET_BYTES, 1000000, ab_max(link.least_byte_per_s, 1));
    packets_us = ab_max(packets_us, ab_max(QUEUE_US, QUEUE_DEVIATIONS * deviation_us));
    link.margin_us = (uint32_t)ab_min(packets_us, UINT32_MAX / 2);
    return link;
}

/* What is free, in bit/s, if the queue's delay grew by error_us more than the RTT. high: as much as it may be. */
static uint64_t bound(const struct stretch *s, const struct link *link, bool high)
{
    int64_t queue_us = (int64_t)round_at(s->of, s->last)->rtt_us - round_at(s->of, s->first)->rtt_us;
    int64_t grown_us = queue_us + (high ? -1 : 1) * (int64_t)(link->margin_us / 2);
    uint64_t bytes = bytes_of(s), span_us = us_of_stretch(s);
    uint64_t capacity = (grown_us > 0) == high ? link->least_byte_per_s : link->most_byte_per_s;
    uint64_t change;

    if (!span_us || (int64_t)span_us <= queue_us)
        return 0;
    if (!high && grown_us < 0) /* the path may have become shorter: then no queue of that capacity has drained */
        capacity = ab_min(capacity, ab_mul_div(bytes, 1000000, span_us));
    change = ab_mul_div(capacity, (uint64_t)(grown_us < 0 ? -grown_us : grown_us), 1000000);
    bytes = grown_us < 0 ? bytes + change : bytes - ab_min(bytes, change);
    bytes = ab_percent(bytes, high ? 100 + SLACK_PERCENT : 100 - SLACK_PERCENT);
    return ab_mul_div(bytes, 8000000, (uint64_t)((int64_t)span_us - queue_us));
}

/* The median of the six slopes between four points of equal distances, over the whole of it (Theil and Sen). */
static int64_t median_rise(const int64_t at[4])
{
    int64_t rises[6], count = 0;

    for (int from = 0; from < 4; from++) {
        for (int to = from + 1; to < 4; to++) {
            int64_t rise = (at[to] - at[from]) * 3 / (to - from), i = count++;

            for (; i > 0 && rises[i - 1] > rise; i--)
                rises[i] = rises[i - 1];
            rises[i] = rise;
        }
    }
    return (rises[2] + rises[3]) / 2;
}

/* Whether the RTT rises over three rounds or more, by what is a queue, and not in one step. */
static bool rises(const struct stretch *s, const struct link *link)
{
    for (uint64_t step = 1; 3 * step <= s->last - s->first; step *= 2) {
        for (uint64_t i = s->first; i + 3 * step <= s->last; i += step) {
            int64_t at[4], most = 0, rise;

            for (uint64_t k = 0; k < 4; k++)
                at[k] = round_at(s->of, i + k * step)->rtt_us;
            for (int k = 1; k < 4; k++)
                most = at[k] - at[k - 1] > most ? at[k] - at[k - 1] : most;
            rise = at[3] - at[0];
            if (median_rise(at) >= link->margin_us && most * 100 <= rise * STEP_PERCENT)
                return true;
        }
    }
    return false;
}

/* Whether the RTT comes back to a minimum of its own again and again, as that of a path that has become longer. */
static bool has_floor(const struct stretch *s, const struct link *link)
{
    uint64_t least_us = UINT64_MAX, at_it = 0;

    for (uint64_t i = s->first + 1; i <= s->last; i++)
        least_us = ab_min(least_us, round_at(s->of, i)->least_us);
    for (uint64_t i = s->first + 1; i <= s->last; i++)
        at_it += round_at(s->of, i)->least_us <= least_us + link->margin_us / 2;
    return FLOOR_PART * at_it > s->last - s->first;
}

/* What the program leaves to the path makes no queue: then ACKs wait on the way back. */
static bool is_program_limited(const struct stretch *s)
{
    uint64_t limited = 0;

    for (uint64_t i = s->first + 1; i <= s->last; i++)
        limited += round_at(s->of, i)->program_limits;
    return 2 * limited > s->last - s->first;
}

/* Whether the queue never was empty in a round, as far as its samples show. */
static bool is_queued(const struct stretch *s, const struct link *link, uint64_t i)
{
    const struct ab_round *round = round_at(s->of, i);
    uint64_t usual_us = ab_max(round->rtt_us, ROUND_NS / AB_NS_PER_US);

    return round->least_us >= link->minimum_us + link->margin_us && us_between(s, i - 1, i) <= LATE_ROUNDS * usual_us;
}

/* Slow start's bursts raise the RTT while the link still is idle between them: the part begins after they do so. */
static void skip_start(struct stretch *part)
{
    uint64_t bytes = ab_percent(bytes_of(part), STARTS_PERCENT), us = us_of_stretch(part);

    while (part->first < part->last) {
        const struct stretch one = {part->of, part->first, part->first + 1};

        if (ab_mul_div(bytes_of(&one), us, us_of_stretch(&one)) >= bytes)
            break;
        part->first++;
    }
}

/* The longest part of a stretch in which the queue never was empty; false: less than half of it. */
static bool queued_part(const struct stretch *s, const struct link *link, struct stretch *part)
{
    uint64_t first = s->first;

    *part = (struct stretch){s->of, s->first, s->first};
    for (uint64_t i = s->first + 1; i <= s->last; i++) {
        if (!is_queued(s, link, i))
            first = i;
        else if (us_between(s, first, i) > us_of_stretch(part))
            *part = (struct stretch){s->of, first, i};
    }
    skip_start(part);
    return part->last - part->first >= LEAST_ROUNDS && 2 * us_of_stretch(part) >= us_of_stretch(s) &&
           !is_program_limited(part) && !has_floor(part, link) && rises(part, link);
}

static uint32_t why_no_high(const struct stretch *s, const struct link *link)
{
    if (is_program_limited(s))
        return AUTOBUF_CAUSE_PROGRAM;
    if (link->margin_us > ab_max(link->minimum_us, 10 * QUEUE_US))
        return AUTOBUF_CAUSE_COALESCING;
    return AUTOBUF_CAUSE_NO_QUEUE;
}

static bool has_loss(const struct stretch *s)
{
    bool lost = false;

    for (uint64_t i = s->first + 1; i <= s->last; i++)
        lost |= round_at(s->of, i)->lost;
    return lost;
}

/* A policer lets a burst pass, and then drops what is too much without a queue; a_policer. */
static uint64_t least_since_loss(const struct stretch *s, const struct link *link)
{
    struct stretch after = *s;
    uint64_t low = bound(s, link, false);

    while (after.first < after.last && !round_at(s->of, after.first)->lost)
        after.first++;
    return after.last - after.first >= LEAST_ROUNDS ? ab_min(low, bound(&after, link, false)) : low;
}

void ab_available_estimate(const struct ab_available *a, uint64_t capacity_low_bit_per_s,
                           uint64_t capacity_high_bit_per_s, struct autobuf_available *estimate)
{
    struct stretch whole, part;
    struct link link;
    bool queued, both;

    *estimate = (struct autobuf_available){.size = sizeof *estimate, .cause = AUTOBUF_CAUSE_SHORT};
    if (!newest(a, &whole)) {
        if (!a->count)
            estimate->cause = AUTOBUF_CAUSE_RTT;
        return;
    }
    link = link_of(&whole, capacity_low_bit_per_s / 8, capacity_high_bit_per_s / 8);
    queued = queued_part(&whole, &link, &part);
    if (queued) {
        estimate->tx_high_bit_per_s = bound(&part, &link, true);
        whole = part;
    }
    estimate->tx_low_bit_per_s = queued ? bound(&whole, &link, false) : least_since_loss(&whole, &link);
    both = estimate->tx_low_bit_per_s && estimate->tx_high_bit_per_s;
    estimate->cause = both ? AUTOBUF_CAUSE_NONE : queued ? AUTOBUF_CAUSE_SHORT : why_no_high(&whole, &link);
    if (!estimate->tx_low_bit_per_s && !estimate->tx_high_bit_per_s)
        return;
    estimate->kind = queued && has_loss(&whole) ? AUTOBUF_KIND_SHARE : AUTOBUF_KIND_AVAILABLE;
    if (!both && estimate->tx_low_bit_per_s)
        estimate->flags = AUTOBUF_AVAILABLE_TX_AT_LEAST;
    else if (!both && estimate->tx_high_bit_per_s)
        estimate->flags = AUTOBUF_AVAILABLE_TX_AT_MOST;
    estimate->over_ns = us_of_stretch(&whole) * AB_NS_PER_US;
    estimate->age_ns = a->now_ns - round_at(a, whole.last)->end_ns;
}

const char *autobuf_cause_name(uint32_t cause)
{
    static const char *const names[] = {NULL, "too-short", "rtt-unknown", "coalescing", "program", "no-queue",
                                        "capacity-unknown"};

    return cause < sizeof names / sizeof *names ? names[cause] : "unknown";
}

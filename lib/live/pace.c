/* SPDX-License-Identifier: MIT */
#include "judge.h"

/*
 * Each constant names the case of tests/unit/live/test_pace.c that holds it; tests/sim/test_live_sim.c shows what they
 * do together.
 */
#define STANDING_PERCENT 10U           /* of the minimum RTT is a queue worth emptying; how_long_a_queue_has_to_be */
#define STANDING_NS (2 * AB_NS_PER_MS) /* but no less than that; how_long_a_queue_has_to_be */
#define STANDING_PACKETS 4U            /* on a slow path even a few packets take long; how_long_a_queue_has_to_be */
#define STANDING_SAMPLES 2U            /* samples; what_comes_and_goes_is_no_queue */
#define BURST_PERCENT 50U /* before there is a pace; nothing_is_done_without_a_queue, a_queue_that_shrinks_is_one */
#define RATE_SAMPLES 6U                /* three round trips; the_path_s_rate_is_the_largest_of_three_round_trips */
#define FLOOR_NS (10 * AB_NS_PER_S)    /* the_least_is_remembered_for_two_spans */
#define FLOOR_MOST_PERCENT 125U        /* of TCP's minimum; a_least_that_tcp_never_saw_counts_a_quarter_more_at_most */
#define VAIN_PERCENT 70U               /* a_longer_path_is_no_queue, a_queue_that_shrinks_is_one */
/* of the path's rate, once the queue is gone; a_queue_is_emptied_and_the_pace_is_the_path_s */
#define DRAIN_PERCENT 99U
#define UP_PERMILLE 3U                 /* a tick; it_rises_ever_faster_while_no_queue_stands */
#define CAREFUL_TICKS 8U               /* after so many without a queue more and more; the same case */
#define UP_MOST_PERMILLE 125U          /* the same case */
#define AHEAD_PERCENT 125U             /* of the rate of delivery; the same case */
#define HOLD_TICKS 2U                  /* a_queue_is_emptied_and_the_pace_is_the_path_s */
#define LEAST_BYTE_PER_S 16000U        /* the_least_pace_is_16_kb_a_second */

void ab_pace_forget(struct ab_pace *pace)
{
    pace->floor_ns[0] = pace->floor_ns[1] = 0;
    pace->samples = 0;
    pace->high_rtt_samples = 0;
    pace->cut = false;
}

/* The minimum RTT of the last seconds. Jitter that is in every sample is no queue. */
static uint64_t floor_of(const struct ab_pace *pace, const struct ab_pace_sample *sample)
{
    uint64_t floor = pace->floor_ns[1] ? ab_min(pace->floor_ns[0], pace->floor_ns[1])
                                       : pace->floor_ns[0];

    if (!pace->rebased)
        floor = ab_min(floor, ab_percent(sample->rtt_min_ns, FLOOR_MOST_PERCENT));
    return ab_min(floor, UINT64_MAX / 8); /* room for the arithmetic */
}

static void note_rtt(struct ab_pace *pace, const struct ab_pace_sample *sample)
{
    if (!pace->floor_ns[0] || sample->now_ns - pace->floor_begin_ns > FLOOR_NS) {
        pace->floor_ns[1] = pace->floor_ns[0];
        pace->floor_ns[0] = sample->rtt_ns;
        pace->floor_begin_ns = sample->now_ns;
    }
    pace->floor_ns[0] = ab_min(pace->floor_ns[0], sample->rtt_ns);
    pace->rtts_ns[pace->samples % AB_PACE_SAMPLES] = sample->rtt_ns;
    pace->acked_byte_per_s[pace->samples++ % AB_PACE_SAMPLES] = sample->acked_byte_per_s;
}

/*
 * How far the RTT has been above its minimum for some samples; 0: hardly. A shorter rise is jitter,
 * or a burst.
 */
static uint64_t standing_ns(const struct ab_pace *pace, const struct ab_pace_sample *sample)
{
    /* The bursts of slow start also make a queue, but a queue that drains by itself. */
    unsigned percent = pace->byte_per_s ? STANDING_PERCENT : BURST_PERCENT;
    uint64_t packets_ns = ab_mul_div((uint64_t)STANDING_PACKETS * sample->mss_bytes, AB_NS_PER_S,
                                     ab_max(sample->acked_byte_per_s, 1));
    uint64_t floor = floor_of(pace, sample), rtt_ns = UINT64_MAX;
    uint64_t least = ab_max(ab_max(ab_percent(floor, percent), STANDING_NS), packets_ns);

    if (pace->samples < STANDING_SAMPLES)
        return 0;
    for (unsigned back = 1; back <= STANDING_SAMPLES; back++)
        rtt_ns = ab_min(rtt_ns, pace->rtts_ns[(pace->samples - back) % AB_PACE_SAMPLES]);
    return rtt_ns > floor + least ? rtt_ns - floor : 0;
}

/*
 * A queue that this sender causes changes: it grows until a cut has its effect, and then shrinks. A queue that
 * stays the same for several round trips after a cut is a longer path, or somebody else's queue.
 */
static bool cut_fails(struct ab_pace *pace, const struct ab_pace_sample *sample)
{
    uint64_t floor = floor_of(pace, sample), least = UINT64_MAX, most = 0;

    pace->high_rtt_samples++;
    if (sample->rtt_ns <= floor + ab_percent(floor, STANDING_PERCENT) + STANDING_NS) {
        pace->high_rtt_samples = 0;
        pace->cut = false;
    }
    if (!pace->cut || pace->high_rtt_samples < AB_PACE_SAMPLES || pace->samples < AB_PACE_SAMPLES)
        return false;
    for (unsigned i = 0; i < AB_PACE_SAMPLES; i++) {
        least = ab_min(least, pace->rtts_ns[i]);
        most = ab_max(most, pace->rtts_ns[i]);
    }
    return least > floor && least - floor >= ab_percent(most - floor, VAIN_PERCENT);
}

static uint64_t as_before(struct ab_pace *pace, const struct ab_pace_sample *sample)
{
    pace->rebased = true;
    pace->floor_ns[0] = pace->floor_ns[1] = sample->rtt_ns;
    pace->cut = false;
    pace->high_rtt_samples = 0;
    pace->held_ticks = HOLD_TICKS;
    return ab_max(pace->uncut_byte_per_s, pace->byte_per_s);
}

/*
 * The largest delivery rate of the last samples. A path that stood still for a while has shown a smaller one, and
 * so has a pace that was below the path's rate.
 */
static uint64_t path_rate(const struct ab_pace *pace)
{
    uint64_t most = 0;

    for (unsigned back = 1; back <= ab_min(pace->samples, RATE_SAMPLES); back++)
        most = ab_max(most, pace->acked_byte_per_s[(pace->samples - back) % AB_PACE_SAMPLES]);
    return most;
}

/*
 * The new pace is the path's rate x (1 - queue / 2 minima). The queue is then gone in about two round trips.
 */
static uint64_t slower(struct ab_pace *pace, const struct ab_pace_sample *sample, uint64_t standing)
{
    uint64_t twice = 2 * floor_of(pace, sample), rate = path_rate(pace);

    if (!pace->cut) {
        pace->cut = true;
        pace->high_rtt_samples = 0;
        pace->uncut_byte_per_s = pace->byte_per_s;
    }
    /* In slow start the rate of delivery is not yet that of the path, so the pace may rise quickly. */
    pace->clear_ticks = pace->byte_per_s ? 0 : CAREFUL_TICKS;
    pace->drain_byte_per_s = rate;
    pace->held_ticks = HOLD_TICKS;
    return ab_mul_div(rate, twice - ab_min(standing, twice * 3 / 4), twice);
}

static uint64_t faster(struct ab_pace *pace, const struct ab_pace_sample *sample)
{
    uint64_t now = pace->byte_per_s, up = UP_PERMILLE;
    uint64_t drain = ab_percent(pace->drain_byte_per_s, DRAIN_PERCENT);

    pace->clear_ticks++;
    if (now < drain)
        return drain;
    if (pace->clear_ticks > CAREFUL_TICKS)
        up <<= ab_min((pace->clear_ticks - CAREFUL_TICKS) / 2, 10);
    up = now + ab_mul_div(now, ab_min(up, UP_MOST_PERMILLE), 1000);
    /* The rate of delivery must follow the pace. If it does not, a queue grows that does not show yet. */
    return ab_min(up, ab_max(now, ab_percent(sample->acked_byte_per_s, AHEAD_PERCENT)));
}

bool ab_pace_sample(struct ab_pace *pace, const struct ab_pace_sample *sample, const char **why)
{
    uint64_t standing, before = pace->byte_per_s, next;
    bool in_vain;

    if (!sample->rtt_ns || !sample->rtt_min_ns)
        return false; /* TCP has none yet */
    note_rtt(pace, sample);
    standing = standing_ns(pace, sample);
    in_vain = cut_fails(pace, sample);
    if (pace->held_ticks > 0) {
        pace->held_ticks--;
        return false;
    }
    if (in_vain) {
        next = as_before(pace, sample);
        *why = "the path has become longer: as before";
    } else if (standing) {
        next = slower(pace, sample, standing);
        *why = "a queue stands: slower than it drains";
    } else if (before && !sample->app_limited) {
        next = faster(pace, sample);
        *why = "no queue: a little faster";
    } else {
        return false;
    }
    pace->byte_per_s = ab_max(next, LEAST_BYTE_PER_S);
    return pace->byte_per_s != before;
}

/* SPDX-License-Identifier: MIT */
#include "judge.h"

/* Each constant names the case of tests/unit/live/test_scavenger.c that holds it. */
#define TARGET_PERCENT 10U                  /* of the base delay; the_target_is_a_tenth_of_the_base_delay */
#define TARGET_NS (2 * AB_NS_PER_MS)        /* but no less; the same case */
#define TARGET_PACKETS 4U                   /* on a slow path a few packets take long; the same case */
#define TARGET_SHORT_NS (5 * AB_NS_PER_MS)  /* but no more than that, or a quarter of the base delay; the same case */
#define TARGET_MOST_NS (60 * AB_NS_PER_MS)  /* LEDBAT++'s; the same case */
#define BASE_NS (20 * AB_NS_PER_S)          /* a_longer_path_is_known_within_40_s */
#define PAUSE_EVERY_NS (10 * AB_NS_PER_S)   /* it_pauses_each_10_s */
#define PAUSE_ROUNDS 100U                   /* but on a long path less often; it_pauses_each_10_s */
#define PAUSE_SAMPLES 4U                    /* two round trips (LEDBAT++); it_pauses_each_10_s */
#define PROMISED_SAMPLES 2U                 /* more for a receiver; a_receiver_pauses_longer_and_less */
#define PAUSED_PART 4U                      /* of its rate is left; the same case */
#define RESUMED_SAMPLES 2U                  /* what was lost before it is sent again now; it_pauses_each_10_s */
#define CUT_SAMPLES 5U                      /* what_is_its_own_queue_is_emptied */
#define DRAINED_HOLD 3U                     /* of these, once it is empty; the same case */
#define HALVED_SAMPLES 2U                   /* at most once in a round trip for loss (RFC 6817); loss_halves_it */
#define DRAINED_PERCENT 98U                 /* what_is_its_own_queue_is_emptied */
#define DRAIN_NS (20 * AB_NS_PER_MS)        /* samples are 10 ms apart; what_is_its_own_queue_is_emptied */
#define FLOOR_PACKETS 2U                    /* in a round trip (LEDBAT++); the_floor */
#define FLOOR_PART 32U                      /* of the path, where that is less; the_floor */
#define DOUBLES_SAMPLES 8U                  /* it_rises_ever_faster_while_no_queue_stands */
#define DOUBLINGS 20U
#define ROUND_NS (20 * AB_NS_PER_MS)        /* two samples take that long on a short path */
#define FIRST_PACKETS 10U                   /* of a round trip (RFC 6928); slow_start_ends_with_a_queue */
#define SINGLE_BYTE_PER_S 150000U           /* bbr_min_tso_rate; single_packets_are_acknowledged_late */
#define AHEAD_PERCENT 150U                  /* of what comes through; the_rate_is_not_far_ahead */
#define DELAYED_PACKETS 2U                  /* one acknowledgement is sent for two (RFC 1122); the_window */

void ab_scavenger_forget(struct ab_scavenger *s)
{
    s->base_ns[0] = s->base_ns[1] = 0;
    s->rtt_ns[0] = s->rtt_ns[1] = s->srtt_ns = 0;
    s->samples = s->hold = s->clear = 0;
    s->cut_ns = s->saved_byte_per_s = 0;
    s->pause_ns = 0;
}

/*
 * The RTT that has moved the smoothed one from the last sample's to this one's. At a low rate the smoothed one follows
 * over many round trips. One acknowledgement is sent for two packets (RFC 1122).
 */
static uint64_t newest_rtt(const struct ab_scavenger *s, const struct ab_pace_sample *sample)
{
    uint64_t moved_bytes = sample->moved_bytes - ab_min(sample->moved_bytes, s->moved_bytes);
    uint64_t acks = moved_bytes / (2 * (uint64_t)ab_max(sample->mss_bytes, 1)), kept = 1024, before;

    if (!s->srtt_ns)
        return sample->rtt_ns;
    if (!moved_bytes)
        return s->rtt_ns[0];
    for (acks = ab_min(ab_max(acks, 1), 40); acks > 0; acks--)
        kept = kept * 7 / 8;
    before = ab_mul_div(s->srtt_ns, kept, 1024);
    if (sample->rtt_ns <= before)
        return sample->rtt_min_ns;
    return ab_max(ab_mul_div(sample->rtt_ns - before, 1024, 1024 - kept), sample->rtt_min_ns);
}

static void scavenger_note(struct ab_scavenger *s, const struct ab_pace_sample *sample)
{
    uint64_t rtt_ns = ab_min(newest_rtt(s, sample), UINT64_MAX / 16); /* room for the arithmetic */
    /* A receiver's RTT is counted in milliseconds, and what lies behind the smoothed one is as uncertain as eight. */
    uint64_t base_ns = sample->receives ? ab_min(sample->rtt_ns, UINT64_MAX / 16) : rtt_ns;

    /* The ACK of a packet that goes alone comes with the next one, when the pace lets that go. */
    if (sample->singles && s->byte_per_s && s->byte_per_s < SINGLE_BYTE_PER_S)
        rtt_ns -= ab_min(rtt_ns - ab_min(rtt_ns, sample->rtt_min_ns),
                         ab_mul_div(sample->mss_bytes, AB_NS_PER_S, s->byte_per_s));
    s->rtt_ns[1] = s->rtt_ns[0] ? s->rtt_ns[0] : rtt_ns;
    s->rtt_ns[0] = rtt_ns;
    if (!s->base_ns[0] || sample->now_ns - s->base_begin_ns > BASE_NS) {
        s->base_ns[1] = s->base_ns[0];
        s->base_ns[0] = base_ns;
        s->base_begin_ns = sample->now_ns;
    }
    s->base_ns[0] = ab_min(s->base_ns[0], base_ns);
    s->srtt_ns = sample->rtt_ns;
    s->moved_bytes = sample->moved_bytes;
    s->most_byte_per_s = ab_max(s->most_byte_per_s, sample->acked_byte_per_s);
    s->rates[s->samples++ % AB_SCAVENGER_RATES] = sample->acked_byte_per_s;
}

static uint64_t base_of(const struct ab_scavenger *s)
{
    return s->base_ns[1] ? ab_min(s->base_ns[0], s->base_ns[1]) : s->base_ns[0];
}

static uint64_t queue_of(const struct ab_scavenger *s, uint64_t rtt_ns)
{
    return rtt_ns - ab_min(rtt_ns, base_of(s));
}

/*
 * A rise of one sample alone is jitter, or a burst; but slow start must not wait for the next one, unless it is the
 * peer's: a window that opens makes bursts.
 */
static uint64_t delay_of(const struct ab_scavenger *s, bool receives)
{
    return queue_of(s, s->pause_ns || receives ? ab_min(s->rtt_ns[0], s->rtt_ns[1]) : s->rtt_ns[0]);
}

static uint64_t target_of(const struct ab_scavenger *s, const struct ab_pace_sample *sample)
{
    uint64_t base = base_of(s), least = ab_max(base * TARGET_PERCENT / 100, TARGET_NS);
    uint64_t packets_ns = ab_mul_div((uint64_t)TARGET_PACKETS * sample->mss_bytes, AB_NS_PER_S,
                                     ab_max(s->most_byte_per_s, 1));

    least = ab_max(least, ab_min(packets_ns, ab_max(base / 4, TARGET_SHORT_NS)));
    return ab_min(least, TARGET_MOST_NS);
}

static uint64_t round_of(const struct ab_scavenger *s)
{
    return ab_max(s->rtt_ns[0], ROUND_NS);
}

static uint64_t packets_per_round(const struct ab_scavenger *s, const struct ab_pace_sample *sample, uint64_t packets)
{
    return ab_mul_div(packets * sample->mss_bytes, AB_NS_PER_S, round_of(s));
}

static uint64_t scavenger_floor_of(const struct ab_scavenger *s, const struct ab_pace_sample *sample)
{
    uint64_t least = ab_min(packets_per_round(s, sample, FLOOR_PACKETS), s->most_byte_per_s / FLOOR_PART);

    return ab_max(least, (uint64_t)FLOOR_PACKETS * sample->mss_bytes);
}

/* The largest rate of the last samples: the path's, if a queue has stood. */
static uint64_t scavenger_path_rate(const struct ab_scavenger *s)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < ab_min(s->samples, AB_SCAVENGER_RATES); i++)
        most = ab_max(most, s->rates[i]);
    return most;
}

static uint64_t drained(const struct ab_scavenger *s)
{
    return s->saved_byte_per_s * DRAINED_PERCENT / 100;
}

/* Keeps the rate to go on with, and sends next to nothing, or receives little. */
static uint64_t begin_pause(struct ab_scavenger *s, const struct ab_pace_sample *sample)
{
    s->saved_byte_per_s = ab_min(scavenger_path_rate(s), s->byte_per_s);
    s->pauses = true;
    s->hold = PAUSE_SAMPLES + (sample->receives ? PROMISED_SAMPLES : 0);
    s->pause_ns = sample->now_ns + ab_max(PAUSE_EVERY_NS, ab_mul_div(round_of(s), PAUSE_ROUNDS, 1));
    return sample->receives ? s->saved_byte_per_s / PAUSED_PART : 0;
}

/* Half of the rate. Up to half of what it was before it had to yield, it may soon rise again. */
static uint64_t halved(struct ab_scavenger *s)
{
    s->again_byte_per_s = ab_max(s->again_byte_per_s, s->byte_per_s / 2);
    return s->byte_per_s / 2;
}

/* The queue that stands, and what is on its way into it. */
static uint64_t queue_ahead(const struct ab_scavenger *s, uint64_t delay_ns, uint64_t rate)
{
    return delay_ns + ab_mul_div(round_of(s), s->byte_per_s - rate, ab_max(rate, 1));
}

/*
 * Its own queue is emptied in about a round trip, and the rate is then just below the path's. A queue that stands all
 * the same is somebody else's.
 */
static uint64_t scavenger_slower(struct ab_scavenger *s, const struct ab_pace_sample *sample, uint64_t delay_ns,
                                 const char **why)
{
    uint64_t drain_ns = ab_max(base_of(s), DRAIN_NS), before_ns = s->cut_ns,
             rate = ab_min(scavenger_path_rate(s), s->byte_per_s);
    uint64_t own_ns = queue_ahead(s, delay_ns, rate), target_ns = target_of(s, sample);
    bool stays = s->pauses || (before_ns && delay_ns >= before_ns / 2);

    *why = "a queue stands: slower than it drains";
    s->clear = 0;
    s->pauses = false;
    s->saved_byte_per_s = 0;
    if (!s->pause_ns) /* slow start has gone too far */
        return begin_pause(s, sample);
    if (stays || delay_ns > 2 * target_ns + (own_ns - delay_ns)) {
        *why = "others use the path: yields";
        s->cut_ns = delay_ns;
        return stays ? halved(s) : halved(s) / 4;
    }
    s->hold = CUT_SAMPLES;
    s->saved_byte_per_s = rate;
    s->cut_ns = own_ns;
    if (sample->receives)
        return drained(s);
    return ab_mul_div(rate, drain_ns - ab_min(s->cut_ns, drain_ns * 3 / 4), drain_ns);
}

/* The window that twice the target fills is such a rate, too: on a short path that is more. */
static uint64_t ahead_of(const struct ab_scavenger *s, const struct ab_pace_sample *sample)
{
    uint64_t base = ab_max(base_of(s), 1), ahead = ab_percent(sample->acked_byte_per_s, AHEAD_PERCENT);

    if (!sample->receives)
        return ahead;
    return ab_max(ahead, ab_mul_div(sample->acked_byte_per_s, base + 2 * target_of(s, sample), base));
}

/* Slow start adds an eighth with each sample, as LEDBAT++'s gain does where the base delay is 30 ms. */
static uint64_t scavenger_faster(struct ab_scavenger *s, const struct ab_pace_sample *sample)
{
    unsigned doublings = (unsigned)ab_min(s->clear / DOUBLES_SAMPLES, DOUBLINGS);
    uint64_t parts = (uint64_t)(DOUBLES_SAMPLES + s->clear % DOUBLES_SAMPLES) << doublings;
    uint64_t up = packets_per_round(s, sample, parts) / (2 * DOUBLES_SAMPLES);
    uint64_t most = ab_max(ahead_of(s, sample), 8 * scavenger_floor_of(s, sample));

    s->clear++;
    if (!s->pause_ns || s->byte_per_s < s->again_byte_per_s)
        up = ab_max(up, s->byte_per_s / 8);
    else
        s->again_byte_per_s = 0;
    return ab_max(s->byte_per_s, ab_min(s->byte_per_s + up, most));
}

static uint64_t without_queue(struct ab_scavenger *s, const struct ab_pace_sample *sample, const char **why)
{
    uint64_t saved = s->pauses ? drained(s) : 0;
    bool may_grow;

    *why = "no queue: a little faster";
    s->cut_ns = s->saved_byte_per_s = 0;
    s->pauses = false;
    if (saved) {
        s->hold = RESUMED_SAMPLES;
        return ab_max(s->byte_per_s, saved);
    }
    /* A program that has little to send shows the path by itself, and its rate is not the path's. */
    if (s->pause_ns && sample->now_ns >= s->pause_ns && !sample->app_limited && sample->acked_byte_per_s) {
        *why = "a pause shows the path's delay";
        return begin_pause(s, sample);
    }
    /* By a rate that is too high a queue grows. By a window it does not, and the shares of two would never change. */
    may_grow = !sample->receives && 2 * queue_of(s, s->rtt_ns[0]) > target_of(s, sample);
    if (sample->app_limited || may_grow)
        return s->byte_per_s;
    return scavenger_faster(s, sample);
}

static uint64_t after_loss(struct ab_scavenger *s, const struct ab_pace_sample *sample)
{
    s->clear = 0;
    s->hold = HALVED_SAMPLES;
    s->saved_byte_per_s = 0;
    return s->pause_ns ? halved(s) : begin_pause(s, sample);
}

bool ab_scavenger_sample(struct ab_scavenger *s, const struct ab_pace_sample *sample, const char **why)
{
    uint64_t before = s->byte_per_s, next, delay_ns;
    bool lost;

    if (!sample->rtt_ns || !sample->rtt_min_ns || !sample->mss_bytes)
        return false; /* TCP has none yet */
    scavenger_note(s, sample);
    if (s->hold > 0) {
        if (--s->hold != DRAINED_HOLD || s->pauses || !s->saved_byte_per_s)
            return false;
        s->byte_per_s = ab_max(drained(s), scavenger_floor_of(s, sample));
        *why = "the queue is gone: just below the path's rate";
        return true;
    }
    lost = sample->lost > s->lost && !s->saved_byte_per_s; /* else the rate was reduced for it already */
    s->lost = sample->lost;
    delay_ns = delay_of(s, sample->receives);
    if (!before) {
        next = ab_max(2 * sample->acked_byte_per_s, packets_per_round(s, sample, FIRST_PACKETS));
        *why = "takes what is free";
    } else if (lost) {
        next = after_loss(s, sample);
        *why = "packets are lost: yields";
    } else if (delay_ns > target_of(s, sample)) {
        next = scavenger_slower(s, sample, delay_ns, why);
    } else {
        next = without_queue(s, sample, why);
    }
    s->byte_per_s = ab_max(next, scavenger_floor_of(s, sample));
    return s->byte_per_s != before;
}

uint64_t ab_scavenger_window(const struct ab_scavenger *s, uint32_t mss_bytes)
{
    uint64_t bytes = ab_min(ab_in_time(s->byte_per_s, base_of(s)), UINT32_MAX); /* more than any window */

    return s->pause_ns ? bytes + (uint64_t)DELAYED_PACKETS * mss_bytes : 0;
}

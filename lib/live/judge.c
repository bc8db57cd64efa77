/* SPDX-License-Identifier: MIT */
#include "judge.h"

#include <string.h>

#include "../plan/plan.h"

/*
 * Each constant names the experiment that set it: `tests/mutate sweep NAME` gives rate and RTT over simulated paths
 * with half the value, the value and twice the value; others are a case of tests/unit/live/test_judge.c. tests/mutate
 * shows that a test fails when one is halved or doubled. docs/ESTIMATOR.md says more.
 */
#define QUEUE_PERCENT 5U      /* of the minimum RTT is a queue; sweep: 1.00, 1.00, 0.76 of the rate at 100 x 216 */
#define QUEUE_NS AB_NS_PER_MS /* but not up to this; a_queue_is_a_veto */
#define QUEUE_DEVIATIONS 2U   /* nor up to so many mean deviations; a_queue_is_a_veto */
#define EXCESS_PERCENT 30U    /* is one however the RTT varies; a_queue_is_a_veto, what_was_forced_and_only_queues_.. */
#define AGAIN_PERCENT 100U    /* the same, once some was taken back; unit: a_path_that_becomes_slower */
#define PER_ROUND 4U /* samples in a round trip while a buffer may be the bottleneck; when_the_next_sample_is_due */
#define LATE_MOST (2 * PER_ROUND)  /* that one counts for: by then its queue shows; rare_samples_count_for_more */
#define HIGH_SCORE (PER_ROUND + 1) /* at a high RTT, less others; samples_of_a_kind_before_bursts_are_spread */
#define SCORE 2U              /* of a full buffer, less others; a_send_buffer_limits_for_some_looks */
#define EFFECT_ROUNDS 2U      /* round trips until a pace shows; a_trial_is_waited_for_as_long_as_it_takes */
#define DOUBLINGS 5U          /* of the round trips between failed trials; a_failed_trial_ends */
#define AHEAD_PERCENT 50U     /* of a receive window arrives in a minimum RTT; the_receive_side */
/* of what is in flight was so a round trip ago; sweep: 1.55, 1.08, 1.00 x the RTT at 300 x 100 */
#define BEFORE_PERCENT 75U
#define STEP_PERCENT 140U     /* of its size, at most, at once; sweep: 1.00, 1.08, 1.55 x the RTT at 300 x 100 */
#define WORTH_PERCENT 110U    /* what is not a tenth larger is not worth a call; sweep: 1.73, 1.73, 1.00 at 400 x 100 */
#define SEEN_PERCENT 125U     /* of the rate that is seen; the_pace_is_never_the_bottleneck */
#define SENT_PACKETS 16U      /* fewer may all have met a queue; a_scavenger_s_peer_is_held_by_the_window */
#define SENT_PART 8U          /* of what is received: no more is no bulk; a_scavenger_that_receives_paces_nothing */
#define TAKE_BACK_PERCENT 135U /* of the BDP; sweep: 1.29, 1.35, 1.85 x the RTT at 1000 x 100 */
#define SOONEST_NS (10 * AB_NS_PER_MS) /* when_the_next_sample_is_due */
#define FAR_NS (10 * AB_NS_PER_S)      /* what a pace does shows no sooner; strange_clocks */
#define CALM_NS (50 * AB_NS_PER_MS)    /* a_calm_path_is_sampled_less */

void ab_judge_begin(struct ab_judge *judge, uint32_t intent, const struct autobuf_limits *limits)
{
    memset(judge, 0, sizeof *judge);
    judge->intent = intent;
    judge->limits = *limits;
}

/* Whether the intent sets the rate. */
static bool moderates(const struct ab_judge *judge)
{
    return judge->intent & AB_INTENT_MODERATES;
}

/* -------------------------------------------------------------------------------- when to sample */

/* Whether it is soon known if bursts make the RTT high: in the samples before a first trial, and in it. */
static bool bursts_are_open(const struct ab_judge *judge)
{
    if (judge->failed_trials || judge->set.before_bytes)
        return false;
    return judge->set.state == AB_JUDGE_PACING_TRIAL ||
           (!judge->set.pace_byte_per_s && judge->high_rtt_score > 0 && judge->high_rtt_score < HIGH_SCORE);
}

/* The present RTT may be a burst's. Until that is known, the minimum is used, to know it sooner. */
static uint64_t round_ns(const struct ab_judge *judge)
{
    return bursts_are_open(judge) ? ab_min(judge->rtt_ns, judge->rtt_min_ns) : judge->rtt_ns;
}

/*
 * Whether no buffer has been the bottleneck for a while. Samples take a processor that is nearly used up from the
 * program itself: on 1000 Mbit/s x 1 ms with one processor up to a tenth of the rate, if they come every 10 ms.
 */
static bool is_calm(const struct ab_judge *judge)
{
    return judge->bottleneck != AUTOBUF_BOTTLENECK_UNKNOWN && !bursts_are_open(judge) &&
           judge->set.state != AB_JUDGE_PACING_TRIAL && judge->last.now_ns - judge->limited_ns >= 4 * CALM_NS;
}

/*
 * A program that pauses may do so every 50 or 100 ms. Its samples come at unequal intervals, or each might meet a
 * pause.
 */
static uint64_t calm_ns(const struct ab_judge *judge)
{
    const uint64_t scatter = 0x9E3779B97F4A7C15U; /* 2^64 by the golden ratio: Knuth's multiplicative hashing */
    bool pauses = judge->bottleneck == AUTOBUF_BOTTLENECK_SENDER || judge->bottleneck == AUTOBUF_BOTTLENECK_IDLE;

    return pauses ? CALM_NS / 2 + (judge->last.now_ns * scatter >> 32) % CALM_NS : CALM_NS;
}

uint64_t ab_judge_next_ns(const struct ab_judge *judge)
{
    uint64_t wait_ns = round_ns(judge);

    if (!judge->sampled)
        return 0;
    if (moderates(judge))
        wait_ns /= 2;
    else if (judge->is_open || (bursts_are_open(judge) && judge->set.state != AB_JUDGE_PACING_TRIAL))
        wait_ns /= PER_ROUND;
    else if (is_calm(judge))
        wait_ns = ab_max(wait_ns, calm_ns(judge));
    return judge->last.now_ns + ab_min(ab_max(wait_ns, SOONEST_NS), moderates(judge) ? FAR_NS : AB_NS_PER_S);
}

bool ab_judge_due(const struct ab_judge *judge, uint64_t now_ns)
{
    return now_ns >= ab_judge_next_ns(judge) || now_ns < judge->last.now_ns;
}

/* -------------------------------------------------------------------------------- what a sample shows */

/* How much longer than the minimum an RTT is. */
static uint64_t queue_ns(const struct ab_judge *judge, uint64_t rtt_ns)
{
    return rtt_ns - ab_min(rtt_ns, judge->rtt_min_ns);
}

/*
 * Whether an RTT is that of a standing queue, which shows that the path is full. A larger window would add nothing
 * but loss.
 */
static bool is_queue(const struct ab_judge *judge, uint64_t rtt_ns, unsigned percent)
{
    uint64_t jitter = ab_mul_div(QUEUE_DEVIATIONS, judge->last.info.rtt_deviation_ns, 1);
    uint64_t least = ab_max(ab_percent(judge->rtt_min_ns, percent), QUEUE_NS);

    return queue_ns(judge, rtt_ns) > ab_min(ab_max(least, jitter), ab_percent(judge->rtt_min_ns, EXCESS_PERCENT));
}

/* By the RTT of the newest packets, and by the mean of the last round trip. */
static bool queue_stands(const struct ab_judge *judge)
{
    return is_queue(judge, ab_max(judge->last.info.rtt_ns, judge->in_flight_ns), QUEUE_PERCENT);
}

/*
 * Whether half of what is in flight comes through in a minimum RTT, or the path is full, or nothing comes through
 * yet.
 */
static bool comes_through(const struct ab_judge *judge)
{
    return judge->in_flight_ns < 2 * judge->rtt_min_ns;
}

/*
 * Whether the RTT is high, of a buffer that was full: bursts, or a queue. Twice as high as a queue's, or it is a path
 * that is just full; of seldom samples the mean of a round trip is not known. The end of a burst may also fill the
 * congestion window.
 */
static bool is_high_rtt(const struct ab_judge *judge)
{
    uint64_t rtt_ns = ab_max(judge->last.info.rtt_ns, judge->in_flight_ns);
    unsigned percent = judge->late < PER_ROUND ? 2 * QUEUE_PERCENT : QUEUE_PERCENT;

    return is_queue(judge, rtt_ns, percent) && comes_through(judge) &&
           (judge->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER ||
            (judge->bottleneck == AUTOBUF_BOTTLENECK_PATH && judge->sent_all));
}

/* Whether some window, and not the program, limits what is sent. */
static bool sends_all_it_may(const struct ab_judge *judge)
{
    return judge->acked_byte_per_s > judge->received_byte_per_s &&
           (judge->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER ||
            judge->bottleneck == AUTOBUF_BOTTLENECK_PATH || judge->bottleneck == AUTOBUF_BOTTLENECK_PEER);
}

/* Whether a side is the program's own, because the intent names only the other one. */
static bool is_left_alone(const struct ab_judge *judge, uint32_t other)
{
    return (judge->intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)) == other;
}

/* -------------------------------------------------------------------------------- what to set */

/*
 * Plans for a path that holds one byte more than the present window. The plan at most doubles it. false: none is
 * worth it.
 */
static bool larger(const struct ab_judge *judge, const struct ab_sample *sample, bool sends, struct autobuf_plan *plan)
{
    uint64_t stored = sends ? sample->socket.snd_buf_bytes : sample->socket.rcv_buf_bytes;
    uint64_t more = (sends ? AB_SND_WINDOW(stored) : AB_RCV_WINDOW(stored)) + 1,
             step = ab_mul_div(stored, STEP_PERCENT, 200);

    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, AUTOBUF_INTENT_THROUGHPUT, plan);
    plan->flags = AUTOBUF_PLAN_SND_AT_LEAST | AUTOBUF_PLAN_RCV_AT_LEAST;
    ab_plan_windows(sends ? more : 0, sends ? 0 : more, &judge->limits, &sample->socket, 0, plan);
    plan->rtt_ns = judge->rtt_min_ns;
    if (judge->late < LATE_MOST && judge->set.state != AB_JUDGE_PACING_TRIAL &&
        ab_at_least(plan->snd_request_bytes, WORTH_PERCENT, step)) /* or what is left would not be worth one */
        plan->snd_request_bytes = step;
    if (plan->snd_request_bytes <= judge->limits.snd_settable_bytes)
        plan->flags &= ~AUTOBUF_PLAN_SND_FORCE;
    return plan->flags & (AUTOBUF_PLAN_SND_UNLOCK | AUTOBUF_PLAN_RCV_UNLOCK) ||
           ab_at_least(2 * (sends ? plan->snd_request_bytes : plan->rcv_request_bytes), WORTH_PERCENT, stored);
}

static bool can_be_larger(const struct ab_judge *judge, const struct ab_sample *sample)
{
    struct autobuf_plan plan;

    return larger(judge, sample, true, &plan);
}

/*
 * Whether nearly as much was in flight a round trip ago. While a window still grows, its RTT tells of what it was
 * before.
 */
static bool is_steady(const struct ab_judge *judge)
{
    return judge->late == LATE_MOST || ab_at_least(judge->flight_before_bytes, BEFORE_PERCENT,
                                                   ab_tcpinfo_flight_bytes(&judge->last.info));
}

/*
 * Whether a buffer is the bottleneck, or may be within a round trip: while no queue stands, a congestion window
 * doubles, and autotuning enlarges what is full.
 */
static bool may_limit_soon(const struct ab_judge *judge, const struct ab_sample *sample)
{
    uint64_t grown_bytes = sample->socket.locks & AUTOBUF_LOCK_SND ? 0 : judge->limits.tcp_wmem_max_bytes / 2;
    bool doubles = judge->bottleneck == AUTOBUF_BOTTLENECK_PATH && judge->rtt_ns >= PER_ROUND * SOONEST_NS &&
                   sample->socket.snd_buf_bytes >= grown_bytes &&
                   3 * ab_tcpinfo_flight_bytes(&sample->info) >= sample->socket.snd_buf_bytes;
    struct autobuf_plan plan;

    if (judge->arrives_percent >= AHEAD_PERCENT / 2)
        return larger(judge, sample, false, &plan);
    return (doubles || judge->bottleneck == AUTOBUF_BOTTLENECK_UNKNOWN ||
            judge->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER) &&
           (!is_steady(judge) || !is_queue(judge, sample->info.rtt_ns, QUEUE_PERCENT)) && can_be_larger(judge, sample);
}

/*
 * Whether a program that is late fills the buffer in each round trip, and leaves it half empty meanwhile. Samples a
 * round trip apart could meet just that half. One that pauses leaves less than a third.
 */
static bool fills_at_times(const struct ab_judge *judge, const struct ab_sample *sample)
{
    return judge->bottleneck == AUTOBUF_BOTTLENECK_SENDER && sample->now_ns - judge->limited_ns <= judge->rtt_ns &&
           3 * sample->queued_bytes >= sample->socket.snd_buf_bytes && can_be_larger(judge, sample);
}

static void plan_nothing(const struct ab_judge *judge, struct autobuf_plan *plan)
{
    ab_plan_nothing(AUTOBUF_REASON_SET, judge->intent, plan);
    plan->rtt_ns = judge->rtt_min_ns;
}

/*
 * Paces by a tenth more than a buffer of this size, always full, brings in the minimum RTT, or by a quarter more than
 * the rate that was seen, if that is more: sendfile() may store more than the buffer holds. Returns false if the pace
 * is so already.
 */
static bool set_pace(struct ab_judge *judge, uint64_t stored, struct autobuf_plan *plan)
{
    uint64_t full = ab_percent(ab_per_second(stored, 0, judge->rtt_min_ns), WORTH_PERCENT);
    uint64_t pace = ab_max(full, ab_percent(judge->acked_byte_per_s, SEEN_PERCENT));
    uint64_t before = judge->set.pace_byte_per_s;

    if (before && pace <= before + before / 20)
        return false;
    judge->set.pace_byte_per_s = pace;
    plan->snd_pacing_bit_per_s = ab_mul_div(pace, 8, 1);
    return true;
}

static bool is_paced(const struct ab_judge *judge, const struct ab_sample *sample)
{
    return ab_bottleneck_is_paced(sample, judge->set.pace_byte_per_s);
}

/* Paced data shows a queue two minimum RTTs after the pace was set, and one later it is not an older burst's. */
static bool trial_shows(const struct ab_judge *judge, unsigned rounds)
{
    return judge->set.state != AB_JUDGE_PACING_TRIAL ||
           judge->last.now_ns - judge->trial_ns >= rounds * judge->rtt_min_ns;
}

/*
 * Removes the pace if the trial has failed, or somebody does not want to be paced. Also if the buffer is as large as
 * can be, and limits all the same: what waits for the pace would be in flight without it.
 */
static bool remove_pace(struct ab_judge *judge, const struct ab_sample *sample, struct autobuf_plan *plan)
{
    bool limits = judge->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER && !queue_stands(judge);
    bool ours = is_paced(judge, sample), is_trial = judge->set.state == AB_JUDGE_PACING_TRIAL;
    bool fails = !ours || (is_trial && !limits && trial_shows(judge, 3 * EFFECT_ROUNDS));

    if (!judge->set.pace_byte_per_s || (!fails && (!limits || can_be_larger(judge, sample))))
        return false;
    if (fails)
        judge->failed_trials = (unsigned)ab_min(judge->failed_trials + 1, DOUBLINGS);
    judge->set.pace_byte_per_s = 0;
    judge->set.state = fails ? AB_JUDGE_OBSERVE : AB_JUDGE_SETTLED;
    judge->high_rtt_score = 0;
    plan_nothing(judge, plan);
    plan->snd_pacing_bit_per_s = UINT64_MAX;
    return ours;
}

static bool may_be_paced(const struct ab_judge *judge, const struct ab_sample *sample)
{
    return !judge->set.pace_byte_per_s && !judge->set.before_bytes && !moderates(judge) &&
           sample->info.max_pacing_byte_per_s == UINT64_MAX && can_be_larger(judge, sample);
}

/*
 * In samples: six round trips where what was tried brought nothing, and before a trial twice as many after each other
 * failure.
 */
static unsigned rest(unsigned failed)
{
    return 6 * PER_ROUND << (failed - 1);
}

/*
 * Two thirds of a buffer that limits are always in flight, so at an RTT of 1.5 times the minimum 40% of it come
 * through in the minimum RTT. What waits for the pace is not in flight, so a trial costs some of the rate: it is
 * short.
 */
static bool begin_trial(struct ab_judge *judge, const struct ab_sample *sample, struct autobuf_plan *plan)
{
    unsigned needed = judge->failed_trials ? rest(judge->failed_trials) : HIGH_SCORE;

    plan_nothing(judge, plan);
    if (judge->high_rtt_score < needed || !may_be_paced(judge, sample) ||
        !set_pace(judge, sample->socket.snd_buf_bytes, plan))
        return false;
    judge->set.state = AB_JUDGE_PACING_TRIAL;
    judge->trial_ns = sample->now_ns;
    judge->high_rtt_score = 0;
    judge->snd_limited_score = SCORE - 1; /* the buffer was full at those samples, and all of it in flight */
    return true;
}

static bool enlarge(struct ab_judge *judge, const struct ab_sample *sample, bool sends, struct autobuf_plan *plan)
{
    if (!larger(judge, sample, sends, plan))
        return false;
    if (!sends)
        return true;
    judge->snd_limited_score = SCORE - 1; /* once more what is in flight has to be steady */
    if (is_paced(judge, sample))
        set_pace(judge, 2 * plan->snd_request_bytes, plan);
    judge->set.state = AB_JUDGE_ENLARGED;
    if (plan->flags & AUTOBUF_PLAN_SND_FORCE)
        ab_judge_forced(judge, sample->socket.snd_buf_bytes);
    return true;
}

/*
 * A forced step may have made the buffer nearly twice as large as the BDP, and congestion control fills it sooner or
 * later. It is then reduced to 1.35 BDP, but not below its size before that step; if that, too, doubles the RTT, not
 * below its size before the first step. The rate of a round trip is the path's only if the queue stood at its beginning
 * too: slow start has not filled it before.
 */
static bool take_back(struct ab_judge *judge, const struct ab_sample *sample, struct autobuf_plan *plan)
{
    uint64_t bdp = ab_in_time(judge->acked_byte_per_s, judge->rtt_min_ns), now = sample->socket.snd_buf_bytes, bytes;
    uint64_t target = ab_percent(bdp, TAKE_BACK_PERCENT), flight = ab_max(ab_tcpinfo_flight_bytes(&sample->info), 1);
    bool again = !judge->set.before_bytes, forces; /* bursts of what is left then raise the RTT by less than half */

    if (!judge->set.least_bytes || !sends_all_it_may(judge) ||
        !ab_at_least(queue_ns(judge, sample->info.rtt_ns), again ? AGAIN_PERCENT : EXCESS_PERCENT, judge->rtt_min_ns)) {
        judge->excess_since_ns = 0;
        return false;
    }
    if (!judge->excess_since_ns)
        judge->excess_since_ns = sample->now_ns;
    if (sample->now_ns - judge->excess_since_ns < judge->rtt_min_ns)
        return false;
    /* This writer may fill the buffer more than one that waits with poll(): scale by what is in flight now. */
    bytes = ab_min(ab_mul_div(now, target, flight), AB_SND_STORED(ab_min(target, now)));
    bytes = ab_max(bytes, again ? judge->set.least_bytes : judge->set.before_bytes);
    bytes = ab_max(bytes, judge->limits.tcp_wmem_min_bytes);
    if (!ab_at_least(now, WORTH_PERCENT, bytes))
        return false;
    forces = bytes / 2 > judge->limits.snd_settable_bytes;
    judge->set.before_bytes = 0;
    if (forces && !(judge->limits.flags & AUTOBUF_LIMITS_FORCE))
        return false;
    judge->excess_since_ns = 0;
    judge->set.state = AB_JUDGE_SETTLED;
    judge->snd_limited_score = 0;
    plan_nothing(judge, plan);
    plan->snd_request_bytes = bytes / 2;
    plan->flags = forces ? AUTOBUF_PLAN_SND_FORCE : 0;
    return true;
}

/*
 * The window, to take what others leave. Without timestamps a receiver knows only the shortest time in which a window
 * was filled, and before Linux 5.15 none that is open is closed. A window that has just been made smaller is filled in
 * less than an RTT, by what is on its way, and the kernel takes that for the RTT: so it counts no less than the minimum
 * of what was sent, but for the millisecond that timestamps have.
 */
static bool hold_window(struct ab_judge *judge, const struct ab_sample *sample, struct autobuf_plan *plan,
                        const char **why)
{
    const struct ab_tcpinfo *info = &sample->info;
    bool sends = info->delivered_packets >= SENT_PACKETS;
    uint64_t rtt_ns = ab_max(info->rcv_rtt_ns, sends ? info->rtt_min_ns - ab_min(info->rtt_min_ns, AB_NS_PER_MS) : 0);
    struct ab_pace_sample seen = {
        .now_ns = sample->now_ns,
        .rtt_ns = rtt_ns,
        .rtt_min_ns = ab_min(judge->rtt_min_ns, rtt_ns),
        .moved_bytes = info->received_bytes,
        .acked_byte_per_s = judge->received_byte_per_s,
        .mss_bytes = info->rcv_mss_bytes,
        .app_limited = judge->bottleneck == AUTOBUF_BOTTLENECK_RECEIVER,
        .receives = true,
    };

    if (is_left_alone(judge, AUTOBUF_INTENT_SENDS) || !info->stamped ||
        judge->limits.flags & AUTOBUF_LIMITS_NO_UNLOCK)
        return false;
    *why = "";
    ab_scavenger_sample(&judge->receiver, &seen, why);
    plan_nothing(judge, plan);
    plan->rcv_clamp_bytes = ab_scavenger_window(&judge->receiver, info->rcv_mss_bytes);
    return plan->rcv_clamp_bytes > 0;
}

/* What little a receiver sends, such as the requests for more, is not paced. */
static bool end_pace(struct ab_judge *judge, struct autobuf_plan *plan, const char **why)
{
    if (!judge->scavenger.byte_per_s || judge->acked_byte_per_s > judge->received_byte_per_s / SENT_PART)
        return false;
    ab_scavenger_forget(&judge->scavenger);
    judge->scavenger.byte_per_s = 0;
    *why = "it receives";
    plan_nothing(judge, plan);
    plan->snd_pacing_bit_per_s = UINT64_MAX;
    return true;
}

/* The pace, for low delay, or to take what others leave. */
static bool moderate(struct ab_judge *judge, const struct ab_sample *sample, struct autobuf_plan *plan,
                     const char **why)
{
    bool scavenges = judge->intent & AUTOBUF_INTENT_SCAVENGER;
    struct ab_pace_sample seen = {
        .now_ns = sample->now_ns,
        .rtt_ns = sample->info.rtt_ns,
        .rtt_min_ns = judge->rtt_min_ns,
        .moved_bytes = sample->info.acked_bytes,
        .acked_byte_per_s = judge->acked_byte_per_s,
        .lost = sample->info.retrans_packets,
        .mss_bytes = sample->info.mss_bytes,
        .singles = judge->singles,
        .app_limited = judge->bottleneck == AUTOBUF_BOTTLENECK_SENDER,
    };

    if (judge->acked_byte_per_s < judge->received_byte_per_s)
        return scavenges && (end_pace(judge, plan, why) || hold_window(judge, sample, plan, why));
    if (is_left_alone(judge, AUTOBUF_INTENT_RECEIVES))
        return false;
    if ((!scavenges && judge->acked_byte_per_s == judge->received_byte_per_s) ||
        !(scavenges ? ab_scavenger_sample(&judge->scavenger, &seen, why) : ab_pace_sample(&judge->pace, &seen, why)))
        return false;
    plan_nothing(judge, plan);
    plan->snd_pacing_bit_per_s = ab_mul_div(scavenges ? judge->scavenger.byte_per_s : judge->pace.byte_per_s, 8, 1);
    return true;
}

/* -------------------------------------------------------------------------------- from sample to plan */

/*
 * A sample that says otherwise takes one from a score, and does not set it to 0: a single one may be noise. One that
 * comes late, as in the midst of a long call, counts as often as one would have been taken, if the buffer was full
 * all that time.
 */
static void count(const struct ab_judge *judge, unsigned *score, bool holds)
{
    unsigned late = *score > 0 && comes_through(judge) ? judge->late : 1;

    *score = holds ? *score + late : *score - (*score > 0);
}

static void count_all(struct ab_judge *judge, const struct ab_sample *sample)
{
    bool queue = queue_stands(judge), high_rtt = is_high_rtt(judge), pauses = fills_at_times(judge, sample);

    judge->is_open = pauses || may_limit_soon(judge, sample);
    if (pauses || !is_steady(judge))
        return;
    if (!queue || trial_shows(judge, EFFECT_ROUNDS + 1))
        count(judge, &judge->snd_limited_score, !queue && judge->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER);
    if (high_rtt && !may_be_paced(judge, sample))
        judge->high_rtt_score = 0;
    else
        count(judge, &judge->high_rtt_score, high_rtt);
}

/* The action of this sample, if there is any. */
static bool adjust(struct ab_judge *judge, const struct ab_sample *sample, struct autobuf_plan *plan, const char **why)
{
    unsigned needed = judge->set.state == AB_JUDGE_SETTLED ? rest(1) : SCORE;

    if (sample->now_ns < judge->hold_ns)
        return false;
    if (remove_pace(judge, sample, plan)) {
        *why = "the trial is over";
        return true;
    }
    count_all(judge, sample);
    plan_nothing(judge, plan);
    /* The buffer has become larger, the path shorter, or the rate higher than the pace was made for. */
    if (is_paced(judge, sample) && set_pace(judge, sample->socket.snd_buf_bytes, plan)) {
        *why = "the pace must not limit";
        return true;
    }
    if (take_back(judge, sample, plan)) {
        *why = "what was added stands in the queue";
        return true;
    }
    if (judge->arrives_percent >= AHEAD_PERCENT) {
        *why = "the receive buffer has no room ahead";
        /* Where the intent sets the rate, it is left alone: nothing here could pace what the peer sends. */
        return !is_left_alone(judge, AUTOBUF_INTENT_SENDS) && !moderates(judge) && enlarge(judge, sample, false, plan);
    }
    if (is_left_alone(judge, AUTOBUF_INTENT_RECEIVES) || !is_steady(judge))
        return false;
    if (is_high_rtt(judge)) {
        *why = "bursts, or a queue";
        return begin_trial(judge, sample, plan);
    }
    *why = "the send buffer is what limits";
    return judge->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER && !queue_stands(judge) &&
           judge->snd_limited_score >= needed && enlarge(judge, sample, true, plan);
}

/* The newest count that is at least a round trip old, or the oldest one kept. */
static const struct ab_count *round_trip_ago(const struct ab_judge *judge, uint64_t now_ns)
{
    const struct ab_count *count = NULL;

    for (uint64_t back = 1; back <= ab_min(judge->counted, AB_SAMPLES); back++) {
        count = &judge->counts[(judge->counted - back) % AB_SAMPLES];
        if (now_ns - count->now_ns >= judge->rtt_ns)
            break;
    }
    return count;
}

static uint64_t between(uint64_t from, uint64_t to, uint64_t part_ns, uint64_t whole_ns)
{
    return from + ab_mul_div(to - ab_min(from, to), part_ns, whole_ns);
}

/*
 * What was counted just a round trip ago, interpolated from that count to the next. A program that waits for room sends
 * a burst whenever it is sampled, and one and a half round trips hold one too many or too few. Who is paced sends none.
 */
static struct ab_count at_round_trip(const struct ab_judge *judge, const struct ab_count *ago, uint64_t now_ns)
{
    const struct ab_count *next = &judge->counts[(ago - judge->counts + 1) % AB_SAMPLES];
    uint64_t age_ns = now_ns - ago->now_ns, part_ns = age_ns - judge->rtt_ns, whole_ns = next->now_ns - ago->now_ns;
    bool is_newest = ago == &judge->counts[(judge->counted - 1) % AB_SAMPLES];
    struct ab_count then = *ago;

    if (moderates(judge) || is_newest || age_ns <= judge->rtt_ns)
        return then;
    then.now_ns += part_ns;
    then.acked_bytes = between(ago->acked_bytes, next->acked_bytes, part_ns, whole_ns);
    then.received_bytes = between(ago->received_bytes, next->received_bytes, part_ns, whole_ns);
    then.sndbuf_limited_ns = between(ago->sndbuf_limited_ns, next->sndbuf_limited_ns, part_ns, whole_ns);
    return then;
}

/*
 * The smoothed one is of the data that it sent last. Of a receiver that may be its request, so the minimum is used; a
 * scavenger's samples are two in a round trip with its queue.
 */
static uint64_t rtt_ns(const struct ab_judge *judge, const struct ab_sample *sample)
{
    const struct ab_tcpinfo *info = &sample->info, *last = &judge->last.info;
    uint64_t received_bytes = info->received_bytes - ab_min(info->received_bytes, last->received_bytes);
    uint64_t acked_bytes = info->acked_bytes - ab_min(info->acked_bytes, last->acked_bytes);
    uint64_t least_ns = ab_rcv_rtt_ns(info);

    if (received_bytes > acked_bytes && judge->intent & AUTOBUF_INTENT_SCAVENGER && info->rcv_rtt_ns)
        return info->rcv_rtt_ns;
    if (received_bytes > acked_bytes && least_ns)
        return info->rtt_ns ? ab_min(info->rtt_ns, least_ns) : least_ns;
    return info->rtt_ns;
}

/* What was in flight after that count, in the mean of the samples. */
static uint64_t mean_flight(const struct ab_judge *judge, const struct ab_count *ago, const struct ab_sample *sample)
{
    uint64_t sum = ab_tcpinfo_flight_bytes(&sample->info), samples = 1;

    for (uint64_t i = judge->counted - 1; &judge->counts[i % AB_SAMPLES] != ago; i--, samples++)
        sum += judge->counts[i % AB_SAMPLES].flight_bytes;
    return sum / samples;
}

/*
 * The kernel forgets its minimum after 300 s (tcp_min_rtt_wlen). A queue that a larger buffer makes must not pass for a
 * longer path then.
 */
static uint64_t rtt_min_ns(const struct ab_judge *judge, const struct ab_tcpinfo *info)
{
    uint64_t least_ns = info->rtt_min_ns ? info->rtt_min_ns : info->rtt_ns ? info->rtt_ns : info->rcv_rtt_ns;

    return judge->set.state == AB_JUDGE_OBSERVE || !judge->rtt_min_ns ? least_ns : ab_min(least_ns, judge->rtt_min_ns);
}

/* Compares with the samples before. */
static void take(struct ab_judge *judge, const struct ab_sample *sample)
{
    uint64_t since_ns = sample->now_ns - judge->last.now_ns, span_ns;
    const struct ab_count *ago;
    struct ab_bottleneck_sample now;
    struct ab_count then;

    judge->rtt_ns = rtt_ns(judge, sample);
    ago = round_trip_ago(judge, sample->now_ns);
    then = at_round_trip(judge, ago, sample->now_ns);
    span_ns = sample->now_ns - then.now_ns;
    judge->acked_byte_per_s = ab_per_second(sample->info.acked_bytes, then.acked_bytes, span_ns);
    judge->received_byte_per_s = ab_per_second(sample->info.received_bytes, then.received_bytes, span_ns);
    judge->flight_before_bytes = ago->flight_bytes;
    judge->in_flight_ns = judge->rtt_ns;
    if (sample->now_ns - ago->now_ns <= 2 * judge->rtt_ns)
        judge->in_flight_ns =
            ab_mul_div(mean_flight(judge, ago, sample), AB_NS_PER_S, ab_max(judge->acked_byte_per_s, 1));
    judge->rtt_min_ns = rtt_min_ns(judge, &sample->info);
    now = (struct ab_bottleneck_sample){
        .sample = sample,
        .limits = &judge->limits,
        .acked_byte_per_s = judge->acked_byte_per_s,
        .received_byte_per_s = judge->received_byte_per_s,
        .span_ns = span_ns,
        .dry_ns = sample->info.sndbuf_limited_ns - ab_min(then.sndbuf_limited_ns, sample->info.sndbuf_limited_ns),
        .pace_byte_per_s = judge->set.pace_byte_per_s,
    };
    judge->bottleneck = ab_bottleneck(&now);
    judge->sent_all = ab_bottleneck_sent_all(&now);
    if (judge->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER || judge->bottleneck == AUTOBUF_BOTTLENECK_RCV_BUFFER)
        judge->limited_ns = sample->now_ns;
    judge->late = (unsigned)ab_max(ab_min(since_ns / ab_max(round_ns(judge) / PER_ROUND, 1), LATE_MOST), 1);
    judge->arrives_percent = ab_bottleneck_arrives_percent(&now);
    judge->last = *sample;
}

/* The first sample, or the clock ran backwards and earlier times mean nothing. */
static void take_first(struct ab_judge *judge, const struct ab_sample *sample)
{
    bool held = judge->receiver.pause_ns; /* by its window */

    judge->counted = 0;
    judge->hold_ns = 0;
    judge->rtt_ns = sample->info.rtt_ns;
    judge->snd_limited_score = judge->high_rtt_score = 0;
    judge->excess_since_ns = 0;
    judge->is_open = false;
    judge->last = *sample;
    judge->sampled = true;
    ab_pace_forget(&judge->pace);
    ab_scavenger_forget(&judge->scavenger);
    ab_scavenger_forget(&judge->receiver);
    judge->receiver.pause_ns = held; /* it stays so, and a pause is due */
}

bool ab_judge_sample(struct ab_judge *judge, const struct ab_sample *sample, struct autobuf_plan *plan,
                   const char **why)
{
    bool first = !judge->sampled || sample->now_ns <= judge->last.now_ns;

    if (first)
        take_first(judge, sample);
    else
        take(judge, sample);
    judge->counts[judge->counted++ % AB_SAMPLES] = (struct ab_count){
        sample->now_ns, sample->info.acked_bytes, sample->info.received_bytes, ab_tcpinfo_flight_bytes(&sample->info),
        sample->info.sndbuf_limited_ns};
    if (first || !judge->rtt_min_ns)
        return false;
    if (moderates(judge) && moderate(judge, sample, plan, why))
        return true;
    if (!adjust(judge, sample, plan, why))
        return false;
    if (!plan->snd_request_bytes)
        judge->hold_ns = sample->now_ns + EFFECT_ROUNDS * round_ns(judge);
    return true;
}

/* -------------------------------------------------------------------------------- what it says, and is told */

uint32_t ab_judge_bottleneck(const struct ab_judge *judge)
{
    bool is_full = trial_shows(judge, EFFECT_ROUNDS + 1) && is_paced(judge, &judge->last) && queue_stands(judge);

    return judge->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER && is_full ? AUTOBUF_BOTTLENECK_PATH : judge->bottleneck;
}

void ab_judge_forced(struct ab_judge *judge, uint64_t before_bytes)
{
    judge->set.state = AB_JUDGE_ENLARGED;
    judge->set.before_bytes = before_bytes;
    if (!judge->set.least_bytes)
        judge->set.least_bytes = before_bytes;
    judge->excess_since_ns = 0;
}

uint64_t ab_judge_round_bytes(const struct ab_judge *judge)
{
    uint64_t sent = ab_in_time(judge->acked_byte_per_s, judge->rtt_min_ns);

    return ab_max(sent, ab_in_time(judge->received_byte_per_s, ab_rcv_rtt_ns(&judge->last.info)));
}

uint32_t ab_judge_short_side(const struct ab_judge *judge)
{
    if (judge->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER && judge->snd_limited_score >= SCORE)
        return AUTOBUF_LOCK_SND;
    return judge->bottleneck == AUTOBUF_BOTTLENECK_RCV_BUFFER ? AUTOBUF_LOCK_RCV : 0;
}

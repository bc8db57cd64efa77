/* SPDX-License-Identifier: MIT */
#include "judge.h"

#include <string.h>

#include "../plan/plan.h"

/*
 * Each constant names the experiment that set it: `tests/mutate sweep NAME` gives rate and RTT over simulated paths with half
 * the value, the value and twice the value; others are a case of tests/unit/live/test_judge.c. tests/mutate shows that a test
 * fails when one is halved or doubled. docs/ESTIMATOR.md says more.
 */
#define QUEUE_PERCENT 5U      /* of the minimum RTT is a queue; sweep: 1.00, 1.00, 0.76 of the rate at 100 x 216 */
#define QUEUE_NS AB_NS_PER_MS /* but not up to this; a_queue_is_a_veto */
#define QUEUE_DEVIATIONS 2U   /* nor up to so many mean deviations; a_queue_is_a_veto */
#define QUEUE_MOST_PERCENT 50U /* beyond this it is, however the RTT varies; a_queue_is_a_veto */
#define EXCESS_PERCENT 30U    /* of the minimum RTT, queued by a forced step; sweep: 1.36, 1.36, 1.56 x the RTT at 1000 x 100 */
#define SCORE 3U              /* samples of a kind, less others; three_looks_of_a_kind_before_bursts_are_spread */
#define TRIAL_SAMPLES 4U      /* after which a pacing trial has failed; a_trial_in_vain_ends */
#define DOUBLINGS 5U          /* of the score, after failed trials; a_trial_in_vain_ends */
#define THROUGH_PERCENT 40U   /* of sk_sndbuf is acknowledged in a minimum RTT: it was full all the time; rare_looks_count_for_more */
#define EFFECT_ROUNDS 2U      /* round trips until a change shows; a_change_is_waited_for */
#define WORTH_PERCENT 110U    /* what is not a tenth larger is not worth a call; sweep: 1.73, 1.73, 1.00 at 400 x 100 */
#define TAKE_BACK_PERCENT 135U /* of the BDP; sweep: 1.43, 1.35, 1.85 x the RTT at 1000 x 100 */
#define DRY_PERCENT 5U        /* of the time since the last sample; a_buffer_that_runs_dry */
#define SOONEST_NS (10 * AB_NS_PER_MS) /* when_to_look_again */
#define CALM_NS (50 * AB_NS_PER_MS)    /* a_calm_path_is_looked_at_less */

void ab_judge_begin(struct ab_judge *judge, uint32_t intent, const struct autobuf_limits *limits)
{
    memset(judge, 0, sizeof *judge);
    judge->intent = intent;
    judge->limits = *limits;
}

static bool is_low_delay(const struct ab_judge *judge)
{
    return judge->intent & AUTOBUF_INTENT_LOW_DELAY;
}

/* -------------------------------------------------------------------------------- when to sample */

/* Whether it is soon known if bursts make the RTT high: in the samples before a first trial, and in it. */
static bool bursts_are_open(const struct ab_judge *judge)
{
    if (judge->failed_trials || judge->set.before_bytes)
        return false;
    return judge->set.state == AB_JUDGE_PACING_TRIAL ||
           (!judge->set.pace_byte_per_s && judge->high_rtt_score > 0 && judge->high_rtt_score < SCORE);
}

/* The present RTT may be a burst's. Until that is known, the minimum is used, to know it sooner. */
static uint64_t round_ns(const struct ab_judge *judge)
{
    return bursts_are_open(judge) ? ab_min(judge->rtt_ns, judge->rtt_min_ns) : judge->rtt_ns;
}

/*
 * Whether no buffer has been the bottleneck for a while. Samples take a processor that is nearly used up from the program itself:
 * on 1000 Mbit/s x 1 ms with one processor up to a tenth of the rate, if they come every 10 ms.
 */
static bool is_calm(const struct ab_judge *judge)
{
    return judge->limiter != AUTOBUF_LIMITER_UNKNOWN && !bursts_are_open(judge) && judge->set.state != AB_JUDGE_PACING_TRIAL &&
           judge->last.now_ns - judge->limited_ns >= 4 * CALM_NS;
}

/* A program that pauses may do so every 50 or 100 ms. Its samples come at unequal intervals, or each might meet a pause. */
static uint64_t calm_ns(const struct ab_judge *judge)
{
    const uint64_t scatter = 0x9E3779B97F4A7C15U; /* 2^64 by the golden ratio: Knuth's multiplicative hashing */
    bool pauses = judge->limiter == AUTOBUF_LIMITER_SENDER || judge->limiter == AUTOBUF_LIMITER_IDLE;

    return pauses ? CALM_NS / 2 + (judge->last.now_ns * scatter >> 32) % CALM_NS : CALM_NS;
}

uint64_t ab_judge_next_ns(const struct ab_judge *judge)
{
    uint64_t wait_ns = round_ns(judge);

    if (!judge->looked)
        return 0;
    if (is_low_delay(judge))
        wait_ns /= 2;
    else if (is_calm(judge))
        wait_ns = ab_max(wait_ns, calm_ns(judge));
    return judge->last.now_ns + ab_min(ab_max(wait_ns, SOONEST_NS), AB_NS_PER_S);
}

bool ab_judge_due(const struct ab_judge *judge, uint64_t now_ns)
{
    return now_ns >= ab_judge_next_ns(judge) || now_ns < judge->last.now_ns;
}

/* -------------------------------------------------------------------------------- what a sample shows */

/* How much longer than the minimum the RTT is. */
static uint64_t queue_ns(const struct ab_judge *judge, const struct ab_look *look)
{
    return look->info.rtt_ns - ab_min(look->info.rtt_ns, judge->rtt_min_ns);
}

/* A queue stands, so the path is full: a larger window would add nothing but loss. */
static bool queue_stands(const struct ab_judge *judge, const struct ab_look *look)
{
    uint64_t jitter = ab_mul_div(QUEUE_DEVIATIONS, look->info.rtt_deviation_ns, 1);
    uint64_t least = ab_max(ab_mul_div(judge->rtt_min_ns, QUEUE_PERCENT, 100), QUEUE_NS);

    return queue_ns(judge, look) > ab_min(ab_max(least, jitter), ab_mul_div(judge->rtt_min_ns, QUEUE_MOST_PERCENT, 100));
}

/* Whether the RTT is high, of a buffer that was full: bursts, or a queue. The end of a burst may also fill the congestion window. */
static bool is_high_rtt(const struct ab_judge *judge)
{
    return queue_stands(judge, &judge->last) &&
           (judge->limiter == AUTOBUF_LIMITER_SND_BUFFER || (judge->limiter == AUTOBUF_LIMITER_PATH && judge->sent_all));
}

/* Whether some window, and not the program, limits what is sent. */
static bool sends_all_it_may(const struct ab_judge *judge)
{
    return judge->acked_byte_per_s > judge->received_byte_per_s &&
           (judge->limiter == AUTOBUF_LIMITER_SND_BUFFER ||
            judge->limiter == AUTOBUF_LIMITER_PATH || judge->limiter == AUTOBUF_LIMITER_PEER);
}

/* Whether the buffer was full in all of the last round trip, and not only at the sample. */
static bool came_through(const struct ab_judge *judge, uint64_t byte_per_s)
{
    return ab_at_least(ab_in_time(byte_per_s, judge->rtt_min_ns), THROUGH_PERCENT, judge->last.socket.snd_buf_bytes);
}

/* Whether a side is the program's own, because the intent names only the other one. */
static bool is_left_alone(const struct ab_judge *judge, uint32_t other)
{
    return (judge->intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)) == other;
}

/* -------------------------------------------------------------------------------- what to set */

/* Plans for a path that holds one byte more than the present window. The plan at most doubles it. false: none is worth it. */
static bool larger(const struct ab_judge *judge, const struct ab_look *look, bool sends, struct autobuf_plan *plan)
{
    uint64_t stored = sends ? look->socket.snd_buf_bytes : look->socket.rcv_buf_bytes;
    uint64_t more = (sends ? AB_SND_WINDOW(stored) : AB_RCV_WINDOW(stored)) + 1;

    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, AUTOBUF_INTENT_THROUGHPUT, plan);
    plan->flags = AUTOBUF_PLAN_SND_AT_LEAST | AUTOBUF_PLAN_RCV_AT_LEAST;
    ab_plan_windows(sends ? more : 0, sends ? 0 : more, &judge->limits, &look->socket, 0, plan);
    plan->rtt_ns = judge->rtt_min_ns;
    return plan->flags & (AUTOBUF_PLAN_SND_UNLOCK | AUTOBUF_PLAN_RCV_UNLOCK) ||
           ab_at_least(2 * (sends ? plan->snd_request_bytes : plan->rcv_request_bytes), WORTH_PERCENT, stored);
}

static bool can_be_larger(const struct ab_judge *judge, const struct ab_look *look)
{
    struct autobuf_plan plan;

    return larger(judge, look, true, &plan);
}

static void plan_nothing(const struct ab_judge *judge, struct autobuf_plan *plan)
{
    ab_plan_nothing(AUTOBUF_REASON_SET, judge->intent, plan);
    plan->rtt_ns = judge->rtt_min_ns;
}

/*
 * Paces by what a buffer of this size, always full, brings in the minimum RTT, or by the rate that was seen if that is more
 * (sendfile() may store more than the buffer holds), and a tenth above either. Returns false if the pace is so already.
 */
static bool set_pace(struct ab_judge *judge, uint64_t stored, struct autobuf_plan *plan)
{
    uint64_t rate = ab_max(ab_per_second(stored, 0, judge->rtt_min_ns), judge->acked_byte_per_s);
    uint64_t pace = ab_mul_div(rate, WORTH_PERCENT, 100), before = judge->set.pace_byte_per_s;

    if (before && pace <= before + before / 20)
        return false;
    judge->set.pace_byte_per_s = pace;
    plan->snd_pacing_bit_per_s = ab_mul_div(pace, 8, 1);
    return true;
}

static bool is_paced(const struct ab_judge *judge, const struct ab_look *look)
{
    return ab_limiter_is_spread(look, judge->set.pace_byte_per_s);
}

/* The buffer has become larger, the path shorter, or the rate higher than the pace was made for. */
static bool raise_pace(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan)
{
    plan_nothing(judge, plan);
    return is_paced(judge, look) && set_pace(judge, look->socket.snd_buf_bytes, plan);
}

/*
 * Removes the pace if the trial has failed, or somebody does not want to be paced. Also if the buffer is as large as can be,
 * and limits all the same: what waits for the pace would be in flight without it.
 */
static bool remove_pace(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan)
{
    bool ours = is_paced(judge, look), failed;

    if (!judge->set.pace_byte_per_s)
        return false;
    failed = judge->set.state == AB_JUDGE_PACING_TRIAL && judge->trial_samples >= TRIAL_SAMPLES;
    if (ours && !failed && (judge->limiter != AUTOBUF_LIMITER_SND_BUFFER || queue_stands(judge, look) || can_be_larger(judge, look)))
        return false;
    if (failed || !ours)
        judge->failed_trials = (unsigned)ab_min(judge->failed_trials + 1, DOUBLINGS);
    judge->set.pace_byte_per_s = 0;
    judge->set.state = failed || !ours ? AB_JUDGE_OBSERVE : AB_JUDGE_SETTLED;
    judge->high_rtt_score = 0;
    plan_nothing(judge, plan);
    plan->snd_pacing_bit_per_s = UINT64_MAX;
    return ours;
}

static bool may_be_paced(const struct ab_judge *judge, const struct ab_look *look)
{
    return !judge->set.pace_byte_per_s && !judge->set.before_bytes && !is_low_delay(judge) &&
           look->info.max_pacing_byte_per_s == UINT64_MAX && can_be_larger(judge, look);
}

/*
 * Two thirds of a buffer that limits are always in flight, so at an RTT of 1.5 times the minimum 40% of it come through in the
 * minimum RTT. What waits for the pace is not in flight, so a trial costs some of the rate: it is short.
 */
static bool begin_trial(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan)
{
    plan_nothing(judge, plan);
    if (judge->high_rtt_score < SCORE << judge->failed_trials || !may_be_paced(judge, look) ||
        !came_through(judge, judge->acked_byte_per_s) || !set_pace(judge, look->socket.snd_buf_bytes, plan))
        return false;
    judge->set.state = AB_JUDGE_PACING_TRIAL;
    judge->trial_samples = 0;
    judge->snd_limited_score = SCORE - 1; /* the buffer was full at those samples, and all of it in flight */
    return true;
}

static bool enlarge(struct ab_judge *judge, const struct ab_look *look, bool sends, struct autobuf_plan *plan)
{
    if ((sends ? judge->snd_limited_score : judge->rcv_limited_score) < SCORE || !larger(judge, look, sends, plan))
        return false;
    if (!sends)
        return true;
    if (is_paced(judge, look))
        set_pace(judge, 2 * plan->snd_request_bytes, plan);
    judge->set.state = AB_JUDGE_ENLARGED;
    if (plan->flags & AUTOBUF_PLAN_SND_FORCE)
        ab_judge_forced(judge, look->socket.snd_buf_bytes);
    return true;
}

/*
 * A forced step may have made the buffer nearly twice as large as the BDP, and congestion control fills it sooner or later. It is
 * then reduced to 1.35 BDP, but not below its size before that step. The rate of a round trip is the path's only if
 * the queue stood at its beginning too: slow start has not filled it before.
 */
static bool take_back(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan)
{
    uint64_t bdp = ab_in_time(judge->acked_byte_per_s, judge->rtt_min_ns), now = look->socket.snd_buf_bytes, bytes;
    uint64_t target = ab_mul_div(bdp, TAKE_BACK_PERCENT, 100), flight = ab_max(ab_tcpinfo_flight_bytes(&look->info), 1);
    bool stood = judge->set.excess_stands;

    if (!judge->set.before_bytes)
        return false;
    judge->set.excess_stands = sends_all_it_may(judge) && ab_at_least(queue_ns(judge, look), EXCESS_PERCENT, judge->rtt_min_ns);
    if (!stood || !judge->set.excess_stands)
        return false;
    /* This writer may fill the buffer more than one that waits with poll(): scale by what is in flight now. */
    bytes = ab_min(ab_mul_div(now, target, flight), AB_SND_STORED(ab_min(target, now)));
    bytes = ab_max(ab_max(bytes, judge->set.before_bytes), judge->limits.page_bytes); /* no kernel keeps less than 4096 */
    if (!ab_at_least(now, WORTH_PERCENT, bytes))
        return false;
    judge->set.before_bytes = 0;
    judge->set.state = AB_JUDGE_SETTLED;
    plan_nothing(judge, plan);
    plan->snd_request_bytes = bytes / 2;
    plan->flags = AUTOBUF_PLAN_SND_FORCE;
    return true;
}

/* The pace, for low delay. */
static bool moderate(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan,
                     const char **why)
{
    struct ab_pace_look seen = {
        .now_ns = look->now_ns,
        .rtt_ns = look->info.rtt_ns,
        .rtt_min_ns = judge->rtt_min_ns,
        .acked_byte_per_s = judge->acked_byte_per_s,
        .mss_bytes = look->info.mss_bytes,
        .app_limited = judge->limiter == AUTOBUF_LIMITER_SENDER,
    };

    if (judge->acked_byte_per_s <= judge->received_byte_per_s ||
        !ab_pace_look(&judge->pace, &seen, why))
        return false;
    plan_nothing(judge, plan);
    plan->snd_pacing_bit_per_s = ab_mul_div(judge->pace.byte_per_s, 8, 1);
    return true;
}

/* -------------------------------------------------------------------------------- from sample to plan */

/* A sample that says otherwise takes one from a score, and does not set it to 0: a single one may be noise. */
static void count(unsigned *score, bool holds, unsigned weight)
{
    *score = holds ? *score + weight : *score - (*score > 0);
}

static void count_all(struct ab_judge *judge, const struct ab_look *look)
{
    bool queue = queue_stands(judge, look), high_rtt = is_high_rtt(judge);
    bool old_burst = queue && judge->set.pace_byte_per_s && !judge->trial_samples; /* may be seen at a trial's first sample */

    if (!old_burst)
        count(&judge->snd_limited_score, judge->limiter == AUTOBUF_LIMITER_SND_BUFFER && !queue, judge->weight);
    count(&judge->rcv_limited_score, judge->limiter == AUTOBUF_LIMITER_RCV_BUFFER, judge->weight);
    if (high_rtt && !may_be_paced(judge, look))
        judge->high_rtt_score = 0;
    else
        count(&judge->high_rtt_score, high_rtt, judge->weight);
    judge->trial_samples += judge->weight;
}

/* The action of this sample, if there is any. */
static bool adjust(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan,
                   const char **why)
{
    if (remove_pace(judge, look, plan)) {
        *why = "the trial is over";
        return true;
    }
    count_all(judge, look);
    if (raise_pace(judge, look, plan)) {
        *why = "the pace must not limit";
        return true;
    }
    if (take_back(judge, look, plan)) {
        *why = "what was added stands in the queue";
        return true;
    }
    if (judge->limiter == AUTOBUF_LIMITER_RCV_BUFFER) {
        *why = "the receive buffer is what limits";
        /* For low delay the receive buffer is left alone: nothing here could pace what the peer sends. */
        return !is_left_alone(judge, AUTOBUF_INTENT_SENDS) && !is_low_delay(judge) && enlarge(judge, look, false, plan);
    }
    if (is_left_alone(judge, AUTOBUF_INTENT_RECEIVES))
        return false;
    if (is_high_rtt(judge)) {
        *why = "bursts, or a queue";
        return begin_trial(judge, look, plan);
    }
    *why = "the send buffer is what limits";
    return judge->limiter == AUTOBUF_LIMITER_SND_BUFFER && enlarge(judge, look, true, plan);
}

/* The newest count that is at least a round trip old, or the oldest one kept. */
static const struct ab_count *round_trip_ago(const struct ab_judge *judge, uint64_t now_ns)
{
    const struct ab_count *count = NULL;

    for (uint64_t back = 1; back <= ab_min(judge->counted, AB_LOOKS); back++) {
        count = &judge->counts[(judge->counted - back) % AB_LOOKS];
        if (now_ns - count->now_ns >= judge->rtt_ns)
            break;
    }
    return count;
}

/*
 * A sample is one of a moment. After two round trips or more, what came through since the last one says as much as a second one.
 * Of a receive buffer it is what came in all that time that counts, anyway.
 */
static unsigned weight(const struct ab_judge *judge, uint64_t span_ns)
{
    bool all_along = judge->limiter == AUTOBUF_LIMITER_RCV_BUFFER || came_through(judge, judge->acked_byte_per_s);

    return all_along && span_ns / 2 >= judge->rtt_ns ? 2 : 1;
}

static bool ran_dry(const struct ab_judge *judge, const struct ab_look *look)
{
    uint64_t now_ns = look->info.sndbuf_limited_ns, before_ns = judge->last.info.sndbuf_limited_ns;

    return now_ns > before_ns && ab_at_least(now_ns - before_ns, DRY_PERCENT, look->now_ns - judge->last.now_ns);
}

/* The smoothed one is of the data that it sent last. Of a receiver that may be its request, so the minimum is used. */
static uint64_t rtt_ns(const struct ab_judge *judge, const struct ab_look *look)
{
    const struct ab_tcpinfo *info = &look->info, *last = &judge->last.info;
    uint64_t received_bytes = info->received_bytes - ab_min(info->received_bytes, last->received_bytes);
    uint64_t acked_bytes = info->acked_bytes - ab_min(info->acked_bytes, last->acked_bytes);
    uint64_t least_ns = ab_rcv_rtt_ns(info);

    return received_bytes > acked_bytes && least_ns ? ab_min(info->rtt_ns, least_ns) : info->rtt_ns;
}

/* Compares with the samples before. */
static void take(struct ab_judge *judge, const struct ab_look *look)
{
    uint64_t since_ns = look->now_ns - judge->last.now_ns, span_ns;
    const struct ab_count *ago;
    struct ab_limiter_look now;
    bool dry = ran_dry(judge, look);

    judge->rtt_ns = rtt_ns(judge, look);
    ago = round_trip_ago(judge, look->now_ns);
    span_ns = look->now_ns - ago->now_ns;
    judge->acked_byte_per_s = ab_per_second(look->info.acked_bytes, ago->acked_bytes, span_ns);
    judge->received_byte_per_s = ab_per_second(look->info.received_bytes, ago->received_bytes, span_ns);
    judge->rtt_min_ns = look->info.rtt_min_ns ? look->info.rtt_min_ns : look->info.rtt_ns;
    judge->last = *look;
    now = (struct ab_limiter_look){look, &judge->limits, judge->acked_byte_per_s, judge->received_byte_per_s,
                                   judge->set.pace_byte_per_s, dry};
    judge->limiter = ab_limiter(&now);
    judge->sent_all = ab_limiter_sent_all(&now);
    if (judge->limiter == AUTOBUF_LIMITER_SND_BUFFER || judge->limiter == AUTOBUF_LIMITER_RCV_BUFFER)
        judge->limited_ns = look->now_ns;
    judge->weight = weight(judge, since_ns);
}

/* The first sample, or the clock ran backwards and earlier times mean nothing. */
static void take_first(struct ab_judge *judge, const struct ab_look *look)
{
    judge->counted = 0;
    judge->hold_ns = 0;
    judge->rtt_ns = look->info.rtt_ns;
    judge->snd_limited_score = judge->rcv_limited_score = judge->high_rtt_score = 0;
    judge->last = *look;
    judge->looked = true;
    ab_pace_forget(&judge->pace);
}

bool ab_judge_look(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan,
                   const char **why)
{
    bool first = !judge->looked || look->now_ns <= judge->last.now_ns;

    if (first)
        take_first(judge, look);
    else
        take(judge, look);
    judge->counts[judge->counted++ % AB_LOOKS] = (struct ab_count){look->now_ns, look->info.acked_bytes, look->info.received_bytes};
    if (first || !judge->rtt_min_ns)
        return false;
    if (is_low_delay(judge) && moderate(judge, look, plan, why))
        return true;
    if (look->now_ns < judge->hold_ns || !adjust(judge, look, plan, why))
        return false;
    judge->hold_ns = look->now_ns + EFFECT_ROUNDS * round_ns(judge);
    return true;
}

/* -------------------------------------------------------------------------------- what it says, and is told */

uint32_t ab_judge_limiter(const struct ab_judge *judge)
{
    /* Before a trial's second sample the queue may be an older burst's. */
    bool shows = judge->set.state != AB_JUDGE_PACING_TRIAL || judge->trial_samples > judge->weight;
    bool is_full = shows && is_paced(judge, &judge->last) && queue_stands(judge, &judge->last);

    return judge->limiter == AUTOBUF_LIMITER_SND_BUFFER && is_full ? AUTOBUF_LIMITER_PATH : judge->limiter;
}

struct ab_trial ab_judge_trial(const struct ab_judge *judge)
{
    return judge->set;
}

void ab_judge_not_done(struct ab_judge *judge, const struct ab_trial *before)
{
    judge->set = *before;
}

void ab_judge_forced(struct ab_judge *judge, uint64_t before_bytes)
{
    judge->set.state = AB_JUDGE_ENLARGED;
    judge->set.before_bytes = before_bytes;
    judge->set.excess_stands = false;
}

void ab_judge_paced(struct ab_judge *judge, uint64_t byte_per_s)
{
    judge->pace.byte_per_s = byte_per_s;
}

uint64_t ab_judge_round_bytes(const struct ab_judge *judge)
{
    uint64_t sent = ab_in_time(judge->acked_byte_per_s, judge->rtt_min_ns);

    return ab_max(sent, ab_in_time(judge->received_byte_per_s, ab_rcv_rtt_ns(&judge->last.info)));
}

uint32_t ab_judge_short_side(const struct ab_judge *judge)
{
    if (judge->limiter == AUTOBUF_LIMITER_SND_BUFFER && judge->snd_limited_score >= SCORE)
        return AUTOBUF_LOCK_SND;
    if (judge->limiter == AUTOBUF_LIMITER_RCV_BUFFER && judge->rcv_limited_score >= SCORE)
        return AUTOBUF_LOCK_RCV;
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "judge.h"

#include <string.h>

#include "../plan/plan.h"

/*
 * The experiment that set each constant: "sweep" is `tests/mutate sweep NAME`, which gives the gain of rate over
 * simulated paths with half the value, the value, and twice the value. "unit" is a case of tests/unit/live/test_judge.c.
 * All others are benchmarks of docs/BENCHMARKS.md. docs/ESTIMATOR.md says more. tests/mutate shows that a test
 * fails when a constant is halved and when it is doubled.
 */

/* The veto. */
#define QUEUE_PERCENT 5U       /* of the least round-trip time; sweep: 1.00, 1.00, 0.76 at 100 x 216 */
#define QUEUE_NS AB_NS_PER_MS  /* a rise up to this is no queue; unit: a_queue_is_a_veto */
#define QUEUE_DEVIATIONS 2U    /* nor so many mean deviations; tests/bench/run transfer-live; unit: the same */
#define QUEUE_MOST_PERCENT 50U /* a rise beyond this is a queue, whatever the deviation; unit: the same */

/* The spread. */
#define LONG_LOOKS 3U          /* looks at bursts, or a queue, less others; unit: three_looks_of_a_kind_.. */
#define BURST_PERCENT 40U      /* of the buffer comes through in the least round-trip time; unit: a_path_that_is_full_is_not_spread */
#define SPREAD_PERCENT 105U    /* of what the buffer can bring: headers are paced, too; unit: bursts_are_spread */
#define SPREAD_RATE_PERCENT 125U /* of the rate that is seen; unit: the_spread_never_limits */
#define SPREAD_WORTH_PERCENT 95U /* a pace that is no more than this of what it should be is set again; unit: the_spread_follows_.. */
#define SPREAD_LOOKS 4U        /* without a larger buffer end a trial; unit: a_trial_in_vain_ends */
#define SPREADS_MOST 5U        /* times that the looks before the next trial are doubled; unit: a_trial_in_vain_ends */

/* The action. */
#define SHORT_LOOKS 3U         /* looks with the buffer as limit, less others; tests/bench/run transfer-live */
#define EFFECT_ROUNDS 2U       /* round trips, as round_ns() has them, until a change shows; tests/bench/run live (1000 x 100) */
#define WORTH_PERCENT 110U     /* a buffer less than a tenth larger is not worth a call; sweep: 1.73, 1.73, 1.00 */
/* A forced buffer may be larger than the path needs. The excess stands in a queue, and is taken back. */
#define TRIM_QUEUE_PERCENT 30U /* tests/bench/run live (1000 x 100, CAP_NET_ADMIN: 1.73 x the RTT without it) */
#define SND_LEAST_BYTES 4096U  /* no kernel keeps less: SOCK_MIN_SNDBUF is 2 x (2048 + an sk_buff); replay: found_trim_of_three_bytes */
#define TRIM_TO_PERCENT 135U   /* of the product; sweep: 1.43, 1.35, 1.85 x the RTT at 1000 x 100 */

/* A look is one of a moment. After some round trips, what came through since the last one says more; unit: rare_looks_count_for_more. */
#define RARE_LOOKS 2U          /* the most that one counts for: one alone never decides */
#define RARE_PERCENT 60U       /* of the buffer's window came through in each least round-trip time: it limited all the time */

#define DRY_PERCENT 5U         /* of the time since the last look; unit: a_buffer_that_runs_dry */

/* When to look; unit: when_to_look_again. A look costs 2 us (tests/bench/run live). */
#define SHORTEST_NS (10 * AB_NS_PER_MS)
#define CALM_NS (50 * AB_NS_PER_MS) /* at the least, while no buffer seems to limit; unit: a_calm_path_is_looked_at_less, pauses_at_.. */
#define CALM_AFTER_NS (200 * AB_NS_PER_MS) /* the last look at which one did; unit: pauses_at_equal_intervals_hide_nothing */
#define LONGEST_NS AB_NS_PER_S
#define LOW_DELAY_LOOKS 2U     /* in a round trip */

void ab_judge_begin(struct ab_judge *judge, uint32_t intent, const struct autobuf_limits *limits)
{
    memset(judge, 0, sizeof *judge);
    judge->intent = intent;
    judge->limits = *limits;
}

/* Whether it is soon known if bursts make the round-trip time long: in the looks before a trial, and in it. */
static bool bursts_are_open(const struct ab_judge *judge)
{
    if (judge->spreads_in_vain || judge->grown_from_bytes)
        return false;
    return judge->spread_byte_per_s ? !judge->spread_paid : judge->long_looks > 0 && judge->long_looks < LONG_LOOKS;
}

/* The present round-trip time may be a burst's. Until that is known, the least one is used, to know it sooner. */
static uint64_t round_ns(const struct ab_judge *judge)
{
    return bursts_are_open(judge) ? ab_min(judge->rtt_ns, judge->rtt_min_ns) : judge->rtt_ns;
}

/* Whether nothing asks for a look soon. Looks take a processor that is nearly used up from the program itself. */
static bool is_calm(const struct ab_judge *judge)
{
    return judge->limiter != AUTOBUF_LIMITER_UNKNOWN && !judge->short_looks && !judge->rcv_short_looks &&
           judge->last.now_ns - judge->short_ns >= CALM_AFTER_NS && !bursts_are_open(judge) && (!judge->spread_byte_per_s || judge->spread_paid);
}

/* A program that pauses may do so every 50 or 100 ms. It is looked at at unequal intervals, or each look might meet a pause. */
static uint64_t calm_ns(const struct ab_judge *judge)
{
    const uint64_t scatter = 0x9E3779B97F4A7C15U; /* 2^64 by the golden ratio: Knuth's multiplicative hashing */
    bool pauses = judge->limiter == AUTOBUF_LIMITER_SENDER || judge->limiter == AUTOBUF_LIMITER_IDLE;

    return pauses ? CALM_NS / 2 + (judge->last.now_ns * scatter >> 32) % CALM_NS : CALM_NS;
}

/* Until the next look. */
static uint64_t wait_ns(const struct ab_judge *judge)
{
    if (judge->intent & AUTOBUF_INTENT_LOW_DELAY)
        return round_ns(judge) / LOW_DELAY_LOOKS;
    return is_calm(judge) ? ab_max(round_ns(judge), calm_ns(judge)) : round_ns(judge);
}

uint64_t ab_judge_next_ns(const struct ab_judge *judge)
{
    return judge->looked ? judge->last.now_ns + ab_min(ab_max(wait_ns(judge), SHORTEST_NS), LONGEST_NS) : 0;
}

bool ab_judge_due(const struct ab_judge *judge, uint64_t now_ns)
{
    return now_ns >= ab_judge_next_ns(judge) || now_ns < judge->last.now_ns;
}

/*
 * The veto: a queue stands, so the path is full. A larger window would add nothing but loss.
 */

/* How much longer than its least the round-trip time is. */
static uint64_t queue_ns(const struct ab_judge *judge, const struct ab_tcpinfo *info)
{
    return info->rtt_ns - ab_min(info->rtt_ns, judge->rtt_min_ns);
}

static bool queue_stands(const struct ab_judge *judge, const struct ab_tcpinfo *info)
{
    uint64_t jitter = ab_mul_div(QUEUE_DEVIATIONS, info->rtt_deviation_ns, 1);
    uint64_t least = ab_max(ab_mul_div(judge->rtt_min_ns, QUEUE_PERCENT, 100), QUEUE_NS);

    return queue_ns(judge, info) > ab_min(ab_max(least, jitter),
                                          ab_mul_div(judge->rtt_min_ns, QUEUE_MOST_PERCENT, 100));
}

/*
 * The action: what to set. A queue shows a round trip after the data that fills it. So a send buffer is made
 * larger only after it has limited for some looks without a veto.
 */

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

/*
 * A trial: paces a connection by what its buffer, always full, can bring in the least round-trip time. A writer that sleeps
 * until a third of its buffer is free leaves bursts, and the round-trip time of a burst is as long as that of a path that is
 * full. Paced, bursts are gone, and a queue stays. As sendfile() may store more than the buffer holds, the pace is always
 * above the rate that was seen. What waits for the pace is not on its way, so the trial costs some of the rate: it is short.
 */
static bool spread(struct ab_judge *judge, uint64_t stored, uint64_t byte_per_s, struct autobuf_plan *plan)
{
    uint64_t most = ab_mul_div(ab_per_second(stored, 0, judge->rtt_min_ns), SPREAD_PERCENT, 100);
    uint64_t pace = ab_max(most, ab_mul_div(byte_per_s, SPREAD_RATE_PERCENT, 100));

    if (ab_at_least(judge->spread_byte_per_s, SPREAD_WORTH_PERCENT, pace))
        return false;
    judge->spread_byte_per_s = pace;
    plan->rtt_ns = judge->rtt_min_ns;
    plan->snd_pacing_bit_per_s = ab_mul_div(pace, 8, 1);
    return true;
}

/* The buffer has become larger, the path shorter, or the rate higher than the pace was made for. */
static bool spread_again(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan)
{
    ab_plan_nothing(AUTOBUF_REASON_SET, judge->intent, plan);
    return ab_limiter_is_spread(look, judge->spread_byte_per_s) &&
           spread(judge, look->socket.snd_buf_bytes, judge->acked_byte_per_s, plan);
}

/*
 * Ends the trial if it was in vain: the buffer has not become larger for some looks. Also if the buffer is as large as can
 * be, and limits all the same: what waits for the pace would be on its way without it.
 */
static bool spread_ends(struct ab_judge *judge, const struct ab_look *look, bool veto, struct autobuf_plan *plan)
{
    bool ours = ab_limiter_is_spread(look, judge->spread_byte_per_s);
    bool limits = judge->limiter == AUTOBUF_LIMITER_SND_BUFFER && !veto;
    bool in_vain = !judge->spread_paid && judge->spread_looks >= SPREAD_LOOKS;

    judge->spread_looks += judge->counts_for;
    if (!judge->spread_byte_per_s || (ours && !in_vain && (!limits || can_be_larger(judge, look))))
        return false;
    if ((in_vain || !ours) && judge->spreads_in_vain < SPREADS_MOST) /* or somebody does not want to be paced */
        judge->spreads_in_vain++;
    judge->spread_byte_per_s = 0;
    judge->long_looks = 0;
    ab_plan_nothing(AUTOBUF_REASON_SET, judge->intent, plan);
    plan->snd_pacing_bit_per_s = UINT64_MAX;
    return ours;
}

/*
 * Whether to spread what is sent, because it may be bursts that make the round-trip time long. Two thirds of the buffer
 * are always on their way then, so at a round-trip time of 1.5 times the least, 40% of it come through in the least.
 */
static bool begin_trial(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan)
{
    uint64_t stored = look->socket.snd_buf_bytes, rate;

    if (judge->spread_byte_per_s || judge->grown_from_bytes || judge->intent & AUTOBUF_INTENT_LOW_DELAY ||
        look->info.max_pacing_byte_per_s != UINT64_MAX || !can_be_larger(judge, look)) {
        if (!judge->spread_byte_per_s)
            judge->long_looks = 0;
        return false;
    }
    if (judge->long_looks == 0) {
        judge->long_since_ns = look->now_ns;
        judge->long_since_acked_bytes = look->info.acked_bytes;
    }
    judge->long_looks += judge->counts_for;
    if (judge->long_looks < LONG_LOOKS << judge->spreads_in_vain)
        return false;
    rate = ab_per_second(look->info.acked_bytes, judge->long_since_acked_bytes, look->now_ns - judge->long_since_ns);
    ab_plan_nothing(AUTOBUF_REASON_SET, judge->intent, plan);
    if (!ab_at_least(ab_in_time(rate, judge->rtt_min_ns), BURST_PERCENT, stored) || !spread(judge, stored, rate, plan))
        return false;
    judge->spread_looks = 0;
    judge->spread_paid = false;
    judge->short_looks = SHORT_LOOKS - 1; /* the buffer was full at those looks, and all of it on its way */
    return true;
}

static bool enlarge(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan)
{
    bool sends = judge->limiter == AUTOBUF_LIMITER_SND_BUFFER;

    if (!larger(judge, look, sends, plan))
        return false;
    if (sends && ab_limiter_is_spread(look, judge->spread_byte_per_s)) {
        spread(judge, 2 * plan->snd_request_bytes, judge->acked_byte_per_s, plan);
        judge->spread_paid = true;
    }
    if (plan->flags & AUTOBUF_PLAN_SND_FORCE)
        ab_judge_forced(judge, look->socket.snd_buf_bytes);
    return true;
}

/* Whether some window, and not the program, limits what is sent. */
static bool sends_all_it_may(const struct ab_judge *judge)
{
    return judge->acked_byte_per_s > judge->received_byte_per_s &&
           (judge->limiter == AUTOBUF_LIMITER_SND_BUFFER ||
            judge->limiter == AUTOBUF_LIMITER_PATH || judge->limiter == AUTOBUF_LIMITER_PEER);
}

/*
 * The last step may have made the buffer nearly twice as large as the path's product, and congestion control fills
 * it sooner or later. The buffer is then reduced to 1.35 products, but not below its size before that step. The rate
 * of a round trip is the path's only if the queue stood at its beginning too: slow start has not filled it before.
 */
static bool trim(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan)
{
    uint64_t product = ab_in_time(judge->acked_byte_per_s, judge->rtt_min_ns);
    uint64_t target = ab_mul_div(product, TRIM_TO_PERCENT, 100), now = look->socket.snd_buf_bytes;
    uint64_t flight = ab_max(ab_tcpinfo_flight_bytes(&look->info), 1), bytes;
    bool stood = judge->excess_stands;

    judge->excess_stands = sends_all_it_may(judge) &&
                           ab_at_least(queue_ns(judge, &look->info), TRIM_QUEUE_PERCENT, judge->rtt_min_ns);
    if (!stood || !judge->excess_stands)
        return false;
    /* This writer may fill the buffer more than one that waits with poll(): scale by what is in flight now. */
    bytes = ab_min(ab_mul_div(now, target, flight), AB_SND_STORED(ab_min(target, now)));
    bytes = ab_max(ab_max(bytes, judge->grown_from_bytes), SND_LEAST_BYTES);
    if (!ab_at_least(now, WORTH_PERCENT, bytes))
        return false;
    judge->grown_from_bytes = 0;
    ab_plan_nothing(AUTOBUF_REASON_SET, judge->intent, plan);
    plan->rtt_ns = judge->rtt_min_ns;
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
    ab_plan_nothing(AUTOBUF_REASON_SET, judge->intent, plan);
    plan->rtt_ns = judge->rtt_min_ns;
    plan->snd_pacing_bit_per_s = ab_mul_div(judge->pace.byte_per_s, 8, 1);
    return true;
}

/* Whether it is bursts, or a queue. The end of a burst may also fill the congestion window, which then holds nothing back. */
static bool may_be_a_burst(const struct ab_judge *judge, bool veto)
{
    return veto && (judge->limiter == AUTOBUF_LIMITER_SND_BUFFER ||
                    (judge->limiter == AUTOBUF_LIMITER_PATH && judge->sent_all));
}

/* Whether a side is the program's own, because the intent names only the other one. */
static bool is_left_alone(const struct ab_judge *judge, uint32_t other)
{
    return (judge->intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)) == other;
}

/* The buffer action of this look, if there is any. */
static bool adjust(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan,
                   const char **why)
{
    bool veto = queue_stands(judge, &look->info);
    bool old_burst = veto && judge->spread_byte_per_s && !judge->spread_looks; /* may be seen at a trial's first look */

    if (judge->short_looks && !old_burst && (veto || judge->limiter != AUTOBUF_LIMITER_SND_BUFFER))
        judge->short_looks--; /* not set to 0: a single such look may be noise */
    if (judge->rcv_short_looks && judge->limiter != AUTOBUF_LIMITER_RCV_BUFFER)
        judge->rcv_short_looks--;
    if (judge->long_looks && !may_be_a_burst(judge, veto))
        judge->long_looks--;
    if (spread_ends(judge, look, veto, plan)) {
        *why = "the trial is over";
        return true;
    }
    if (spread_again(judge, look, plan)) {
        *why = "the pace must not limit";
        return true;
    }
    if (judge->grown_from_bytes && trim(judge, look, plan)) {
        *why = "what was added stands in the queue";
        return true;
    }
    if (may_be_a_burst(judge, veto)) {
        *why = "bursts, or a queue";
        return !is_left_alone(judge, AUTOBUF_INTENT_RECEIVES) && begin_trial(judge, look, plan);
    }
    switch (judge->limiter) {
    case AUTOBUF_LIMITER_SND_BUFFER:
        if (is_left_alone(judge, AUTOBUF_INTENT_RECEIVES))
            return false;
        *why = "the send buffer is what limits";
        judge->short_looks += judge->counts_for;
        return judge->short_looks >= SHORT_LOOKS && enlarge(judge, look, plan);
    case AUTOBUF_LIMITER_RCV_BUFFER:
        if (is_left_alone(judge, AUTOBUF_INTENT_SENDS))
            return false;
        *why = "the receive buffer is what limits";
        /* For low delay the receive buffer is left alone: nothing here could pace what the peer sends. */
        judge->rcv_short_looks += judge->counts_for;
        return !(judge->intent & AUTOBUF_INTENT_LOW_DELAY) && judge->rcv_short_looks >= SHORT_LOOKS &&
               enlarge(judge, look, plan);
    default:
        return false;
    }
}

/* The newest count that is at least a round trip old, or the oldest one kept. */
static const struct ab_count *round_trip_ago(const struct ab_judge *judge, uint64_t now_ns,
                                             uint64_t rtt_ns)
{
    unsigned have = (unsigned)ab_min(judge->counted, AB_LOOKS);
    const struct ab_count *count = NULL;

    for (unsigned back = 1; back <= have; back++) {
        count = &judge->counts[(judge->counted - back) % AB_LOOKS];
        if (now_ns - count->now_ns >= rtt_ns)
            break;
    }
    return count;
}

/* How many looks this one counts for, a round trip or more after the last. */
static unsigned counts_for(const struct ab_judge *judge, const struct ab_look *look, uint64_t span_ns)
{
    uint64_t came = ab_in_time(judge->acked_byte_per_s, judge->rtt_min_ns);
    uint64_t rounds = span_ns / ab_max(judge->rtt_ns, 1);

    if (judge->limiter != AUTOBUF_LIMITER_RCV_BUFFER && /* which is found by what came in all that time */
        !ab_at_least(came, RARE_PERCENT, AB_SND_WINDOW(look->socket.snd_buf_bytes)))
        return 1;
    return (unsigned)ab_max(ab_min(rounds, RARE_LOOKS), 1);
}

static bool ran_dry(const struct ab_judge *judge, const struct ab_look *look)
{
    uint64_t now_ns = look->info.sndbuf_limited_ns, before_ns = judge->last.info.sndbuf_limited_ns;

    return now_ns > before_ns && ab_at_least(now_ns - before_ns, DRY_PERCENT, look->now_ns - judge->last.now_ns);
}

/* The smoothed one is of the data that it sent last. Of a receiver that may be its request, so the least one is used. */
static uint64_t rtt_ns(const struct ab_judge *judge, const struct ab_look *look)
{
    const struct ab_tcpinfo *info = &look->info, *last = &judge->last.info;
    uint64_t received_bytes = info->received_bytes - ab_min(info->received_bytes, last->received_bytes);
    uint64_t acked_bytes = info->acked_bytes - ab_min(info->acked_bytes, last->acked_bytes);
    uint64_t least_ns = ab_rcv_rtt_ns(info);

    return received_bytes > acked_bytes && least_ns ? ab_min(info->rtt_ns, least_ns) : info->rtt_ns;
}

static void take(struct ab_judge *judge, const struct ab_look *look)
{
    const struct ab_count *ago;
    struct ab_limiter_look now;
    uint64_t span_ns;

    judge->rtt_ns = rtt_ns(judge, look);
    ago = round_trip_ago(judge, look->now_ns, judge->rtt_ns);
    span_ns = look->now_ns - ago->now_ns;
    judge->acked_byte_per_s = ab_per_second(look->info.acked_bytes, ago->acked_bytes, span_ns);
    judge->received_byte_per_s = ab_per_second(look->info.received_bytes, ago->received_bytes, span_ns);
    judge->rtt_min_ns = look->info.rtt_min_ns ? look->info.rtt_min_ns : look->info.rtt_ns;
    now = (struct ab_limiter_look){look, &judge->limits, judge->acked_byte_per_s, judge->received_byte_per_s,
                                   judge->spread_byte_per_s, ran_dry(judge, look)};
    judge->limiter = ab_limiter(&now);
    if (judge->limiter == AUTOBUF_LIMITER_SND_BUFFER || judge->limiter == AUTOBUF_LIMITER_RCV_BUFFER)
        judge->short_ns = look->now_ns;
    judge->sent_all = ab_limiter_sent_all(&now);
    judge->counts_for = counts_for(judge, look, look->now_ns - judge->last.now_ns);
}

uint32_t ab_judge_limiter(const struct ab_judge *judge)
{
    bool shows = judge->spread_paid || judge->spread_looks > judge->counts_for; /* else the queue may be an older burst's */
    bool is_full = shows && ab_limiter_is_spread(&judge->last, judge->spread_byte_per_s) && queue_stands(judge, &judge->last.info);

    return judge->limiter == AUTOBUF_LIMITER_SND_BUFFER && is_full ? AUTOBUF_LIMITER_PATH : judge->limiter;
}

struct ab_trial ab_judge_trial(const struct ab_judge *judge)
{
    return (struct ab_trial){judge->spread_byte_per_s, judge->grown_from_bytes, judge->spread_paid, judge->excess_stands};
}

void ab_judge_not_done(struct ab_judge *judge, const struct ab_trial *before)
{
    judge->spread_byte_per_s = before->spread_byte_per_s;
    judge->grown_from_bytes = before->grown_from_bytes;
    judge->spread_paid = before->spread_paid;
    judge->excess_stands = before->excess_stands;
}

bool ab_judge_look(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan,
                   const char **why)
{
    bool first = !judge->looked || look->now_ns <= judge->last.now_ns, act = false;

    if (first) { /* the first look, or the clock ran backwards and earlier times mean nothing */
        judge->counted = 0;
        judge->hold_ns = 0;
        judge->rtt_ns = look->info.rtt_ns;
        judge->short_looks = 0;
        judge->rcv_short_looks = 0;
        judge->long_looks = 0;
        ab_pace_forget(&judge->pace);
    } else {
        take(judge, look);
    }
    judge->counts[judge->counted++ % AB_LOOKS] =
        (struct ab_count){look->now_ns, look->info.acked_bytes, look->info.received_bytes};
    if (judge->counted == 2 * AB_LOOKS) /* so that it never comes to 0 again */
        judge->counted = AB_LOOKS;
    judge->last = *look;
    judge->looked = true;
    if (first || !judge->rtt_min_ns)
        return false;
    if (judge->intent & AUTOBUF_INTENT_LOW_DELAY && moderate(judge, look, plan, why))
        return true;
    if (look->now_ns < judge->hold_ns)
        return false;
    act = adjust(judge, look, plan, why);
    if (act)
        judge->hold_ns = look->now_ns + EFFECT_ROUNDS * round_ns(judge);
    return act;
}

void ab_judge_forced(struct ab_judge *judge, uint64_t before_bytes)
{
    judge->grown_from_bytes = before_bytes;
    judge->excess_stands = false;
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
    if (judge->limiter == AUTOBUF_LIMITER_SND_BUFFER && judge->short_looks >= SHORT_LOOKS)
        return AUTOBUF_LOCK_SND;
    if (judge->limiter == AUTOBUF_LIMITER_RCV_BUFFER && judge->rcv_short_looks >= SHORT_LOOKS)
        return AUTOBUF_LOCK_RCV;
    return 0;
}

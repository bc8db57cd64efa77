/* SPDX-License-Identifier: MIT */
#include "schedule.h"

#include <errno.h>
#include <stdio.h>

/*
 * The experiment that set each constant: "sweep" is `tests/mutate sweep NAME`, which gives the mean errors over
 * simulated paths with half the value, the value, and twice the value. "unit" is a case of
 * tests/unit/icmp/test_schedule.c, where those paths show no difference, or where cost and time matter. tests/mutate
 * shows that a test fails when a constant is halved and when it is doubled.
 */

/* Small echoes. */
#define PING_COUNT 5U                      /* sweep: p95 30, 35, 29% with jitter; unit: small_echoes_come_first */
#define PING_SPACING_NS (2 * AB_NS_PER_MS) /* unit: small_echoes_come_first */
#define PING_AGAIN_NS (200 * AB_NS_PER_MS) /* unit: what_is_not_answered_ends_it */
#define BUNCH 2U                           /* unit: what_held_up_the_first_echoes_is_not_the_path */
#define MOST_PINGS_NS ((PING_COUNT - 2) * PING_SPACING_NS) /* all of them, or all but one; unit: the same */
#define AGAIN_MOST 3U                      /* as BUNCH; 9 of 100 probes of a path that lost 10% of the echoes lost the first */
#define SMALL_PAYLOAD_BYTES 44U            /* 64 bytes of IPv4, 84 of IPv6; sweep: half is no reply */

/* Time. */
#define SILENCE_NS (1 * AB_NS_PER_S)       /* unit: what_is_not_answered_ends_it */
#define TIMEOUT_NS (2 * AB_NS_PER_S)       /* unit: it_ends_in_time; so is what follows */
#define END_NS AB_NS_PER_S                 /* the measurement ends after this time and */
#define END_ROUND_TRIPS 2U
#define REPLIES_NS (100 * AB_NS_PER_MS)    /* a round trip after the last packet, wait this or half of it more */
#define PINGS_NS (5 * AB_NS_PER_MS)        /* after the first answer, wait this or a quarter of a round trip */
#define TRAIN_REPLIES_NS (10 * AB_NS_PER_MS) /* after an answer to a train, the same, plus */
#define LATE_GAPS 3U                       /* so many times its gap; unit: a_lost_packet_is_waited_for */

/* Cost. */
#define PACKET_BYTES_MIN 128U
#define TUNNEL_BYTES 1280U                 /* IPv6's minimum; tunnels leave as much */
#define LEAST_BYTES 576U                   /* every host takes such a packet (RFC 1122) */
#define CHEAP_COST_BYTES 64000U            /* enough up to CHEAP_RATE; sweep: 55, 3.1, 1.0% with jitter of 2 ms */
#define CHEAP_RATE_BIT_PER_S 200000000U    /* unit: trains_for_a_rate */
#define CERTAIN_BIT_PER_S 140000000U       /* jitter makes no 100 Mbit/s path seem faster; sweep: 1.4, 3.1, 8.4% */

/* Trains. */
#define FIRST_TRAIN 10U           /* sweep: p95 9.1, 0, 0% with a loss of 20%; 0.6, 1.1, 10% in batches */
#define ROUGH_BIT_PER_S 10000000U /* assumed if the first train gave no rate; unit: a_first_train_of_no_rate */
#define TRAIN_NS (2500 * AB_NS_PER_US)     /* sweep: 0, 6, 9% cross traffic of 500 B; tests/bench/run accuracy */
#define SLOW_TRAIN_NS (200 * AB_NS_PER_MS) /* longest train of the second phase; unit: trains_for_a_rate */
#define LONGEST_TRAIN 256U        /* sweep: 0, 6, 6% cross traffic of 500 B; unit: trains_for_a_rate */
#define SHORTEST_TRAIN 4U         /* sweep: 7.2, 6.0, 7.2% cross traffic of 500 B; unit: as REACH_PERCENT */
#define REACH_PERCENT 80U         /* if so much of a train came through, no queue cut it; unit: the same */
#define LAST_TRAINS 3U            /* in the last phase, and in the second if a queue cuts them; unit: the same */
#define MANY_TRAINS 8U            /* in the phase after that, if a queue cuts them; unit: torn_trains */
#define SPACING_PERCENT 150U      /* of a train's duration, from one train to the next; unit: trains_do_not_meet */

/* How wrong a short train may be if its readings disagree; unit: a_doubtful_train_answers_what_it_can. */
#define STRETCHED 20U /* so many times too slow, */
#define BUNCHED 4U    /* or so many times too fast */

static uint32_t ip_header_bytes(const struct ab_schedule *schedule)
{
    return schedule->echo.ipv6 ? 40 : 20;
}

size_t ab_schedule_capacity(const struct autobuf_probe_options *options)
{
    uint32_t budget = options->budget_bytes ? options->budget_bytes : AB_BUDGET_BYTES;
    uint32_t bytes = options->packet_bytes ? options->packet_bytes : LEAST_BYTES;

    budget = (uint32_t)ab_min(budget, AB_BUDGET_BYTES); /* init refuses a larger one */
    bytes = (uint32_t)ab_max(ab_min(bytes, LEAST_BYTES), PACKET_BYTES_MIN);
    return budget / bytes + 2 * PING_COUNT + FIRST_TRAIN;
}

int ab_schedule_init(struct ab_schedule *schedule, const struct ab_echo *echo,
                 const struct autobuf_probe_options *options, struct ab_packet *packets,
                 uint64_t *scratch, size_t capacity, uint64_t now_ns)
{
    uint32_t budget = options->budget_bytes ? options->budget_bytes : AB_BUDGET_BYTES;
    uint32_t bytes = options->packet_bytes ? options->packet_bytes : AB_IP_PACKET_BYTES;
    uint64_t timeout = options->timeout_ns ? options->timeout_ns : TIMEOUT_NS;
    uint64_t silence = options->silence_ns ? options->silence_ns : SILENCE_NS;

    if (budget < AB_BUDGET_BYTES_MIN || budget > AB_BUDGET_BYTES || bytes < PACKET_BYTES_MIN ||
        bytes > AB_IP_PACKET_BYTES)
        return -EINVAL;
    *schedule = (struct ab_schedule){
        .echo = *echo,
        .log = {options->log, options->log_user},
        .packets = packets,
        .scratch = scratch,
        .capacity = capacity,
        .full_bytes = bytes,
        .budget_bytes = budget,
        .burst_max = UINT32_MAX,
        .bdp_low_bytes = options->bdp_low_bytes,
        .bdp_high_bytes = options->bdp_high_bytes,
        .silence_ns = ab_min(silence, SILENCE_NS),
        .start_ns = now_ns,
        .end_ns = now_ns + ab_min(timeout, TIMEOUT_NS),
        .next_ns = now_ns,
        .last_ns = now_ns,
        .pings_left = PING_COUNT,
    };
    schedule->small_bytes = SMALL_PAYLOAD_BYTES + ip_header_bytes(schedule);
    schedule->close_ns = ab_min(schedule->end_ns, now_ns + schedule->silence_ns);
    return 0;
}

/* Logs which candidate for the rate was chosen, and why. */
static void core_log_rate(const struct ab_schedule *schedule)
{
    char agree[32] = "";
    struct ab_rate rate;

    ab_estimate_rate(schedule->packets, schedule->count, schedule->scratch, &rate);
    if (rate.agreement_percent)
        snprintf(agree, sizeof agree, " (%u%% of the readings)", rate.agreement_percent);
    if (rate.rate_bit_per_s)
        ab_log(&schedule->log, "%s%.1f Mbit/s: %s%s", rate.at_least ? "at least " : "",
               (double)rate.rate_bit_per_s / 1e6, ab_kind_why(rate.kind), agree);
    else
        ab_log(&schedule->log, "no rate: %s", ab_kind_why(rate.kind));
}

static void core_finish(struct ab_schedule *schedule, uint64_t now_ns)
{
    schedule->phase = AB_DONE;
    schedule->finished_ns = now_ns;
    ab_log(&schedule->log, "%u replies to %zu packets in %u trains, %llu bytes sent", schedule->received,
           schedule->count, schedule->trains, (unsigned long long)schedule->cost_bytes);
    core_log_rate(schedule);
}

static uint64_t core_rtt_ns(const struct ab_schedule *schedule)
{
    uint64_t min_ns, median_ns;

    ab_estimate_rtt(schedule->packets, schedule->count, schedule->scratch, &min_ns, &median_ns);
    return min_ns;
}

/*
 * How many packets of trains this phase has whose replies are missing, and in *replies how many have come; *reach: the
 * farthest packet of a train that was answered.
 */
static size_t core_phase_missing(const struct ab_schedule *schedule, size_t *replies, uint32_t *reach)
{
    size_t missing = 0;
    uint32_t position = 0;

    *replies = *reach = 0;
    for (size_t i = schedule->phase_begin; i < schedule->count; i++) {
        if (!schedule->packets[i].train)
            continue;
        if (i > schedule->phase_begin && schedule->packets[i].train == schedule->packets[i - 1].train)
            position++;
        else
            position = 0;
        if (schedule->packets[i].received_ns == AUTOBUF_NS_UNSET) {
            missing++;
            continue;
        }
        ++*replies;
        *reach = (uint32_t)ab_max(*reach, position + 1);
    }
    return missing;
}

/*
 * Begins a phase of up to wanted trains of size packets each, as far as the budget, the queue and the room allow.
 */
static bool core_begin(struct ab_schedule *schedule, enum ab_phase phase, uint64_t now_ns, uint64_t size,
                       uint32_t wanted, uint64_t budget_bytes, uint64_t train_ns)
{
    uint64_t left = ab_min(budget_bytes, schedule->budget_bytes);
    uint64_t affordable = left > schedule->cost_bytes ? (left - schedule->cost_bytes) / schedule->full_bytes : 0;

    affordable = ab_min(affordable, schedule->capacity - schedule->count);
    size = ab_min(ab_min(size, affordable), schedule->burst_max);
    if (size < SHORTEST_TRAIN)
        return false;
    schedule->phase = phase;
    schedule->phase_begin = schedule->count;
    schedule->train_size = schedule->train_left = (uint32_t)size;
    schedule->trains_left = (uint32_t)ab_min(affordable / size, wanted) - 1;
    schedule->trains++;
    schedule->spacing_ns = schedule->trains_left ? ab_mul_div(train_ns, SPACING_PERCENT, 100) : 0;
    schedule->next_ns = now_ns;
    schedule->close_ns = AUTOBUF_NS_UNSET;
    return true;
}

static bool core_begin_first(struct ab_schedule *schedule, uint64_t now_ns)
{
    return core_begin(schedule, AB_FIRST, now_ns, FIRST_TRAIN, 1, schedule->budget_bytes, 0);
}

/* How long a train of so many packets lasts at a rate. */
static uint64_t core_train_ns(const struct ab_schedule *schedule, uint64_t packets, uint64_t rate)
{
    return ab_mul_div(packets * schedule->full_bytes, 8 * AB_NS_PER_S, rate);
}

static bool core_begin_second(struct ab_schedule *schedule, uint64_t now_ns, uint64_t rate)
{
    uint64_t slow = SLOW_TRAIN_NS / ab_max(core_train_ns(schedule, 1, rate), 1);
    uint64_t size = ab_min(LONGEST_TRAIN, ab_max(slow, FIRST_TRAIN));
    uint32_t wanted = schedule->cut ? LAST_TRAINS : 1;

    return core_begin(schedule, AB_SECOND, now_ns, size, wanted, CHEAP_COST_BYTES,
                      core_train_ns(schedule, ab_min(schedule->burst_max, size), rate));
}

/*
 * If jitter or batches left no gap of a train intact, only the length of the train shows the rate: send longer
 * ones.
 */
static bool core_begin_torn(struct ab_schedule *schedule, enum ab_phase phase, uint64_t now_ns,
                            uint64_t one_ns)
{
    uint64_t left = (schedule->budget_bytes - ab_min(schedule->cost_bytes, schedule->budget_bytes)) /
                    schedule->full_bytes;
    uint64_t size = phase == AB_LAST ? left / 2 : left;

    return core_begin(schedule, phase, now_ns, size, phase == AB_LAST ? 1 : MANY_TRAINS,
                      schedule->budget_bytes, ab_min(size, schedule->burst_max) * one_ns);
}

static bool core_begin_last(struct ab_schedule *schedule, uint64_t now_ns, const struct ab_rate *rate)
{
    uint64_t size, one_ns;
    struct ab_rate second;

    /* Jitter may change the gaps of the second train, but not the time that the whole train takes. */
    ab_estimate_rate(schedule->packets + schedule->phase_begin, schedule->count - schedule->phase_begin,
                     schedule->scratch, &second);
    if (second.pooled_bit_per_s < CERTAIN_BIT_PER_S)
        return false;
    /* The length of a torn train shows the rate, but a queue may have made trains short. */
    if (rate->torn ? schedule->train_size < FIRST_TRAIN
                   : !rate->at_least && rate->rate_bit_per_s < CHEAP_RATE_BIT_PER_S)
        return false;
    one_ns = ab_max(core_train_ns(schedule, 1, rate->rate_bit_per_s), 1);
    if (rate->torn)
        return core_begin_torn(schedule, AB_LAST, now_ns, one_ns);
    size = ab_min(TRAIN_NS / one_ns + 1, LONGEST_TRAIN);
    return core_begin(schedule, AB_LAST, now_ns, size, LAST_TRAINS, schedule->budget_bytes,
                      ab_min(size, schedule->burst_max) * one_ns);
}

/* Small echoes came back, but nothing of a train: its packets were too large for the path. */
static bool core_begin_smaller(struct ab_schedule *schedule, uint64_t now_ns)
{
    if (schedule->full_bytes > TUNNEL_BYTES)
        schedule->full_bytes = TUNNEL_BYTES;
    else if (schedule->full_bytes > LEAST_BYTES)
        schedule->full_bytes = LEAST_BYTES;
    else
        return false;
    ab_log(&schedule->log, "no reply to full-size packets: trying %u bytes", schedule->full_bytes);
    return core_begin_first(schedule, now_ns);
}

/* Begins the next phase of trains. Returns false if there is none. */
static bool core_begin_next(struct ab_schedule *schedule, uint64_t now_ns)
{
    struct ab_rate rate;
    uint32_t reach;
    size_t replies;

    core_phase_missing(schedule, &replies, &reach);
    if (replies == 0)
        return core_begin_smaller(schedule, now_ns);
    if (100 * reach < REACH_PERCENT * schedule->train_size) {
        schedule->burst_max = (uint32_t)ab_max(reach, SHORTEST_TRAIN);
        schedule->cut = true;
    }
    ab_estimate_rate(schedule->packets, schedule->count, schedule->scratch, &rate);
    if (schedule->phase == AB_FIRST)
        return core_begin_second(schedule, now_ns,
                                 rate.rate_bit_per_s ? rate.rate_bit_per_s : ROUGH_BIT_PER_S);
    if (!rate.rate_bit_per_s)
        return false;
    if (schedule->phase == AB_SECOND)
        return core_begin_last(schedule, now_ns, &rate);
    if (schedule->phase == AB_LAST && rate.torn)
        return core_begin_torn(schedule, AB_REST, now_ns,
                               ab_max(core_train_ns(schedule, 1, rate.rate_bit_per_s), 1));
    return false;
}

/* At this round-trip time the product is too small to be of interest, at any rate up to 10 Gbit/s. */
static bool core_near_enough(const struct ab_schedule *schedule, uint64_t rtt_ns)
{
    return schedule->bdp_low_bytes &&
           ab_estimate_bdp(AB_PLAUSIBLE_BIT_PER_S, rtt_ns, schedule->full_bytes, schedule->small_bytes) <=
               schedule->bdp_low_bytes;
}

/* Whether more trains could not change what the caller does with the result. */
static bool core_knows_enough(const struct ab_schedule *schedule, uint64_t rtt_ns)
{
    struct ab_rate rate;
    uint64_t least, most;

    if (!schedule->bdp_low_bytes)
        return false;
    if (core_near_enough(schedule, rtt_ns))
        return true;
    ab_estimate_rate(schedule->packets, schedule->count, schedule->scratch, &rate);
    if (!rate.rate_bit_per_s || (rate.sure && !rate.unsure))
        return rate.sure;
    least = rate.at_least ? rate.rate_bit_per_s : rate.rate_bit_per_s / BUNCHED;
    most = rate.at_least ? AB_PLAUSIBLE_BIT_PER_S : ab_mul_div(rate.rate_bit_per_s, STRETCHED, 1);
    return ab_estimate_bdp(most, rtt_ns, schedule->full_bytes, schedule->small_bytes) <=
               schedule->bdp_low_bytes ||
           ab_estimate_bdp(least, rtt_ns, schedule->full_bytes, schedule->small_bytes) >=
               schedule->bdp_high_bytes;
}

/*
 * Whether small echoes that were sent over at least span_ns came back much closer together. Then something held them up
 * that may not hold up what follows, and their times say nothing of the path. An echo that is sent once an answer has
 * come would show the path's time by itself.
 */
static bool core_held_up(const struct ab_schedule *schedule, uint64_t span_ns)
{
    const struct ab_packet *first = NULL, *last = NULL, *p;

    for (size_t i = 0; i < ab_min(schedule->count, PING_COUNT); i++) {
        p = &schedule->packets[i];
        if (p->received_ns == AUTOBUF_NS_UNSET)
            continue;
        first = first ? first : p;
        last = p;
    }
    return schedule->pings_left == 0 && first && last->sent_ns < first->received_ns &&
           last->sent_ns - first->sent_ns >= span_ns &&
           last->received_ns < first->received_ns + (last->sent_ns - first->sent_ns) / BUNCH;
}

/* What the small echo that asked again says is the path's time, if it is less; the others then only waited. */
static void core_answered_again(struct ab_schedule *schedule, uint64_t stamp_ns)
{
    const struct ab_packet *again = &schedule->packets[schedule->again];
    uint64_t rtt_ns = again->received_ns - again->sent_ns;

    if (rtt_ns == core_rtt_ns(schedule)) {
        for (size_t i = 0; i < schedule->again; i++)
            schedule->packets[i].held |= !schedule->packets[i].train;
        ab_log(&schedule->log, "the first echoes were held up: round-trip time %.3f ms", (double)rtt_ns / 1e6);
    }
    if (schedule->waits_again)
        schedule->close_ns = stamp_ns;
}

/* How many packets this phase has still to send. */
static uint64_t core_left(const struct ab_schedule *schedule)
{
    if (schedule->phase == AB_PINGS)
        return schedule->pings_left;
    return schedule->train_left + (uint64_t)schedule->trains_left * schedule->train_size;
}

/* Not in the middle of a train, whose gaps it would change, nor at the cost of one. */
static bool core_may_ask(const struct ab_schedule *schedule)
{
    bool between = schedule->phase == AB_PINGS || schedule->train_left == 0 ||
                   schedule->train_left == schedule->train_size;
    uint64_t left = core_left(schedule);
    uint64_t left_bytes = left * (schedule->phase == AB_PINGS ? schedule->small_bytes : schedule->full_bytes);

    return between && schedule->count + left < schedule->capacity &&
           schedule->cost_bytes + left_bytes + schedule->small_bytes <= schedule->budget_bytes;
}

/*
 * Before the measurement ends: waits for the answer to the small echo that asked again, and sends another one if that
 * or its answer was lost. It takes no longer than those that were held up.
 */
static bool core_waits_again(struct ab_schedule *schedule, uint64_t now_ns, uint64_t rtt_ns)
{
    const struct ab_packet *again = &schedule->packets[schedule->again];
    uint64_t wait_ns = rtt_ns + PINGS_NS, last_ns = again->sent_ns + wait_ns;

    if (!schedule->again || again->received_ns != AUTOBUF_NS_UNSET || now_ns >= schedule->end_ns ||
        core_near_enough(schedule, rtt_ns))
        return false;
    if (now_ns >= last_ns) {
        if (schedule->asked >= AGAIN_MOST || !core_may_ask(schedule))
            return false;
        schedule->ask_again = true;
        last_ns = now_ns + wait_ns;
    }
    schedule->close_ns = last_ns;
    schedule->waits_again = true;
    return true;
}

/* The replies of a phase have come, or will not come. Begins what follows, or ends the measurement. */
static void core_decide(struct ab_schedule *schedule, uint64_t now_ns)
{
    uint64_t rtt_ns = core_rtt_ns(schedule);
    bool begun = false;

    if (schedule->phase == AB_PINGS && !schedule->again && !schedule->ask_again && schedule->received < PING_COUNT)
        schedule->ask_again = core_held_up(schedule, PING_SPACING_NS); /* the others are lost: two have to do */
    /* Send nothing that cannot be answered before the end. */
    if (rtt_ns != AUTOBUF_NS_UNSET && now_ns < schedule->end_ns && rtt_ns < schedule->end_ns - now_ns &&
        !core_knows_enough(schedule, rtt_ns))
        begun = schedule->phase == AB_PINGS ? core_begin_first(schedule, now_ns)
                                        : core_begin_next(schedule, now_ns);
    if (!begun && !core_waits_again(schedule, now_ns, rtt_ns))
        core_finish(schedule, now_ns);
}

static void core_advance(struct ab_schedule *schedule, uint64_t now_ns)
{
    if (schedule->phase == AB_DONE)
        return;
    if (now_ns >= schedule->end_ns ||
        (!schedule->received && now_ns >= schedule->start_ns + schedule->silence_ns))
        core_finish(schedule, now_ns); /* even in the middle of a train, if the caller was late */
    else if (now_ns >= schedule->close_ns)
        core_decide(schedule, now_ns);
}

/* All of this phase has been sent: wait in proportion to the round-trip time. */
static void core_sent_all(struct ab_schedule *schedule, uint64_t now_ns)
{
    uint64_t rtt_ns = core_rtt_ns(schedule);

    schedule->next_ns = AUTOBUF_NS_UNSET;
    schedule->close_ns = rtt_ns == AUTOBUF_NS_UNSET
                         ? schedule->start_ns + schedule->silence_ns
                         : now_ns + rtt_ns + ab_max(rtt_ns / 2, REPLIES_NS);
}

static int core_emit(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap, uint32_t train)
{
    uint32_t bytes = train ? schedule->full_bytes : schedule->small_bytes;
    size_t len = bytes - ip_header_bytes(schedule);

    if (len > cap)
        return -ENOSPC;
    ab_echo_build(&schedule->echo, (uint16_t)schedule->count, buf, len);
    schedule->packets[schedule->count++] = (struct ab_packet){
        .sent_ns = now_ns, .received_ns = AUTOBUF_NS_UNSET, .bytes = bytes, .train = train};
    schedule->cost_bytes += bytes;
    return (int)len;
}

/* Whether the first train is sent without waiting for answers to the small echoes. */
static bool core_hurries(const struct ab_schedule *schedule)
{
    uint64_t rtt_ns = core_rtt_ns(schedule);

    return schedule->bdp_low_bytes &&
           (rtt_ns == AUTOBUF_NS_UNSET || !core_near_enough(schedule, rtt_ns));
}

static int core_next_ping(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    int len = core_emit(schedule, now_ns, buf, cap, 0);

    if (len < 0)
        return len;
    if (schedule->pings_left > 0)
        schedule->pings_left--;
    if (schedule->pings_left > 0)
        schedule->next_ns = now_ns + PING_SPACING_NS;
    else if (core_hurries(schedule) && core_begin_first(schedule, now_ns))
        return len;
    else if (schedule->received || schedule->cost_bytes + schedule->small_bytes > schedule->budget_bytes)
        schedule->next_ns = AUTOBUF_NS_UNSET;
    else
        schedule->next_ns = now_ns + PING_AGAIN_NS;
    return len;
}

static int core_ask_again(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    int len = core_emit(schedule, now_ns, buf, cap, 0);

    if (len < 0)
        return len;
    schedule->again = schedule->count - 1;
    schedule->asked++;
    schedule->ask_again = false;
    return len;
}

int ab_schedule_next(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    int len;

    core_advance(schedule, now_ns);
    if (schedule->phase == AB_DONE)
        return -ETIME;
    if (schedule->ask_again && now_ns >= schedule->last_ns && core_may_ask(schedule)) /* a clock may run backwards */
        return core_ask_again(schedule, now_ns, buf, cap);
    if (now_ns < schedule->next_ns || schedule->count == schedule->capacity)
        return 0;
    if (schedule->phase == AB_PINGS)
        return core_next_ping(schedule, now_ns, buf, cap);
    len = core_emit(schedule, now_ns, buf, cap, schedule->trains);
    if (len < 0 || --schedule->train_left > 0)
        return len;
    if (schedule->trains_left > 0) {
        schedule->trains_left--;
        schedule->trains++;
        schedule->train_left = schedule->train_size;
        schedule->next_ns = now_ns + schedule->spacing_ns;
    } else {
        core_sent_all(schedule, now_ns);
    }
    return len;
}

uint64_t ab_schedule_deadline_ns(const struct ab_schedule *schedule)
{
    if (schedule->phase == AB_DONE)
        return 0;
    if (schedule->ask_again && core_may_ask(schedule))
        return ab_min(schedule->end_ns, schedule->last_ns); /* the answer that made it ask */
    return ab_min(schedule->end_ns, ab_min(schedule->next_ns, schedule->close_ns));
}

/* A small echo was answered: sets when the measurement ends, and how long to wait for the other answers. */
static void core_ping_answered(struct ab_schedule *schedule, size_t index, uint64_t stamp_ns)
{
    uint64_t rtt_ns = core_rtt_ns(schedule);
    size_t outstanding = 0;

    schedule->end_ns = ab_min(schedule->end_ns, schedule->start_ns + END_NS + END_ROUND_TRIPS * rtt_ns);
    if (!schedule->again && !schedule->ask_again)
        schedule->ask_again = core_held_up(schedule, MOST_PINGS_NS);
    else if (schedule->again == index && index)
        core_answered_again(schedule, stamp_ns);
    else
        outstanding = schedule->again != 0;
    if (schedule->phase != AB_PINGS) {
        if (schedule->received == 1 && schedule->next_ns == AUTOBUF_NS_UNSET)
            schedule->close_ns = stamp_ns + ab_max(rtt_ns / 2, REPLIES_NS);
        return;
    }
    if (schedule->pings_left == 0)
        schedule->next_ns = AUTOBUF_NS_UNSET;
    if (schedule->received == 1)
        schedule->close_ns = stamp_ns + (PING_COUNT - 1) * PING_SPACING_NS +
                         ab_max(rtt_ns / 4, PINGS_NS);
    if (schedule->received + outstanding >= schedule->count && schedule->pings_left == 0)
        schedule->close_ns = stamp_ns;
}

/* A packet of a train was answered: the rest comes within a few gaps, unless it was lost. */
static void core_train_answered(struct ab_schedule *schedule, uint64_t stamp_ns)
{
    uint64_t begin_ns = schedule->packets[schedule->phase_begin].sent_ns;
    uint64_t gap_ns = schedule->last_ns > begin_ns && stamp_ns > schedule->last_ns
                          ? stamp_ns - schedule->last_ns
                          : 0;
    uint64_t wait_ns = ab_max(core_rtt_ns(schedule) / 4, TRAIN_REPLIES_NS);
    uint32_t reach;
    size_t replies;

    if (schedule->next_ns != AUTOBUF_NS_UNSET)
        return; /* more packets are to be sent, and sending them sets the time */
    if (core_phase_missing(schedule, &replies, &reach) == 0)
        schedule->close_ns = stamp_ns;
    else
        schedule->close_ns = ab_max(stamp_ns + wait_ns + LATE_GAPS * gap_ns + schedule->spacing_ns,
                                gap_ns ? 0 : schedule->close_ns); /* a first answer has no gap */
}

bool ab_schedule_reply(struct ab_schedule *schedule, uint64_t stamp_ns, const uint8_t *buf, size_t len)
{
    struct ab_packet *packet;
    uint16_t sequence;

    if (schedule->phase == AB_DONE || !ab_echo_parse(&schedule->echo, buf, len, &sequence))
        return false;
    if (sequence >= schedule->count)
        return false; /* never sent */
    packet = &schedule->packets[sequence];
    if (packet->received_ns != AUTOBUF_NS_UNSET || len != packet->bytes - ip_header_bytes(schedule))
        return false; /* a duplicate, or cut short */
    packet->received_ns = ab_min(ab_max(stamp_ns, packet->sent_ns), AUTOBUF_NS_UNSET - 1);
    schedule->received++;
    if (!packet->train)
        core_ping_answered(schedule, sequence, packet->received_ns);
    else if (sequence >= schedule->phase_begin && schedule->phase != AB_PINGS)
        core_train_answered(schedule, packet->received_ns);
    schedule->last_ns = packet->received_ns;
    return true;
}

bool ab_schedule_quoted(const struct ab_schedule *schedule, const uint8_t *quoted, size_t len)
{
    uint16_t sequence;

    return ab_echo_quotes(&schedule->echo, quoted, len, &sequence) && sequence < schedule->count;
}

void ab_schedule_sent(struct ab_schedule *schedule, size_t index, uint64_t sent_ns)
{
    if (index < schedule->count && schedule->packets[index].received_ns == AUTOBUF_NS_UNSET)
        schedule->packets[index].sent_ns = sent_ns;
}

void ab_schedule_unsend(struct ab_schedule *schedule, size_t index)
{
    while (schedule->count > index)
        schedule->cost_bytes -= schedule->packets[--schedule->count].bytes;
}

void ab_schedule_mtu(struct ab_schedule *schedule, uint32_t packet_bytes)
{
    packet_bytes = (uint32_t)ab_max(packet_bytes, PACKET_BYTES_MIN);
    if (packet_bytes >= schedule->full_bytes)
        return;
    ab_log(&schedule->log, "the path takes packets of at most %u bytes", packet_bytes);
    schedule->full_bytes = packet_bytes;
    schedule->shrunk |= schedule->count > 0;
    if (schedule->phase != AB_PINGS && schedule->phase != AB_DONE)
        core_begin_first(schedule, schedule->last_ns);
}

/*
 * Once packets have become smaller, the rate may be too low, and somebody may have forged the error to cause that.
 * So it becomes a lower bound: no pace is derived from it, and no buffer is made smaller because of it.
 */
int ab_schedule_result(const struct ab_schedule *schedule, struct autobuf_path *path)
{
    int result;

    *path = (struct autobuf_path)AUTOBUF_PATH_INIT;
    path->method = AUTOBUF_METHOD_ICMP;
    path->cost_bytes = schedule->cost_bytes;
    path->measured_ns = schedule->last_ns;
    path->elapsed_ns =
        (schedule->phase == AB_DONE ? schedule->finished_ns : schedule->last_ns) - schedule->start_ns;
    result = ab_estimate_path(schedule->packets, schedule->count, schedule->scratch, path);
    if (schedule->shrunk && path->tx_rate_bit_per_s)
        path->flags |= AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST;
    return result;
}

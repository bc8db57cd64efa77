/* SPDX-License-Identifier: MIT */
#include "schedule.h"

#include <errno.h>
#include <stdio.h>

/*
 * The experiment that set each constant: "sweep" is `tests/mutate sweep NAME`, which gives the mean errors over
 * simulated paths with half the value, the value, and twice the value. "unit" is a case of
 * tests/unit/icmp/test_schedule.c, where those paths show no difference, or where cost and time matter.
 */

/* Small echoes. */
#define PING_COUNT 5U                      /* sweep: p95 30, 35, 29% with jitter; unit: small_echoes_come_first */
#define PING_SPACING_NS (2 * AB_NS_PER_MS) /* unit: small_echoes_come_first */
#define PING_AGAIN_NS (200 * AB_NS_PER_MS) /* unit: silence_ends_the_run */
#define BUNCHED_PART 2U                    /* unit: bunched_echoes_are_followed_by_an_extra_one */
#define MOST_PINGS_NS ((PING_COUNT - 2) * PING_SPACING_NS) /* of all, or all but one; unit: as BUNCHED_PART */
#define EXTRA_ECHOES_MAX 3U                /* unit: as BUNCHED_PART; a path that loses 10% needs more than one */
#define SMALL_PAYLOAD_BYTES 44U            /* 64 bytes of IPv4, 84 of IPv6; sweep: half is no reply */

/* Time. */
#define SILENCE_NS (1 * AB_NS_PER_S)       /* unit: silence_ends_the_run */
#define TIMEOUT_NS (2 * AB_NS_PER_S)       /* unit: a_run_ends_before_its_deadline */
#define END_NS AB_NS_PER_S                 /* it ends after this time; unit: as TIMEOUT_NS */
#define END_ROUND_TRIPS 2U                 /* and this; unit: as TIMEOUT_NS */
#define REPLIES_NS (100 * AB_NS_PER_MS)    /* or RTT / 2 more; unit: a_train_beside_the_echoes_is_waited_for */
#define PINGS_NS (5 * AB_NS_PER_MS)        /* or RTT / 4 after the first answer; unit: small_echoes_come_first */
#define TRAIN_REPLIES_NS (10 * AB_NS_PER_MS) /* or RTT / 4 after an answer to a train, */
#define LATE_GAPS 3U                       /* and so many gaps; unit of both: a_lost_packet_is_waited_for */

/* Cost. */
#define PACKET_BYTES_MIN 128U              /* unit: packets_are_no_smaller_than_128_bytes */
#define IPV6_MIN_BYTES 1280U               /* RFC 8200; tunnels leave as much */
#define IPV4_MIN_BYTES 576U                /* every host takes such a packet (RFC 1122) */
#define CHEAP_COST_BYTES 64000U            /* enough up to CHEAP_RATE; sweep: 55, 3.1, 1.0% with jitter of 2 ms */
#define CHEAP_RATE_BIT_PER_S 200000000U    /* unit: trains_for_a_rate */
#define CERTAIN_BIT_PER_S 140000000U       /* jitter on 100 Mbit/s shows less; sweep: 1.4, 3.1, 8.4% */

/* Trains. */
#define FIRST_TRAIN 10U           /* sweep: p95 9.1, 0, 0% with a loss of 20%; 0.6, 1.1, 10% in batches */
#define ROUGH_BIT_PER_S 10000000U /* if the first train gave no rate; unit: a_first_train_without_a_rate */
#define TRAIN_NS (2500 * AB_NS_PER_US)     /* sweep: 0, 6, 9% cross traffic of 500 B; tests/bench/run accuracy */
#define SLOW_TRAIN_NS (200 * AB_NS_PER_MS) /* longest train of the second phase; unit: trains_for_a_rate */
#define LONGEST_TRAIN 256U        /* sweep: 0, 6, 6% cross traffic of 500 B; unit: trains_for_a_rate */
#define SHORTEST_TRAIN 4U         /* sweep: 7.2, 6.0, 7.2% cross traffic of 500 B; unit: a_short_queue_cuts_trains */
#define REACH_PERCENT 80U         /* if so much of a train came through, no queue cut it; unit: as SHORTEST_TRAIN */
#define LAST_TRAINS 3U            /* in the last phase, or the second behind a short queue; unit: as SHORTEST_TRAIN */
#define AGAIN_TRAIN 42U           /* shortest train of a further attempt; build/tests/sim/explore: busy */
#define AGAIN_TRAINS 2U           /* of each attempt; the same */
#define AGAIN_MOST 3U             /* attempts; the same */
#define AGAIN_NS (4 * AB_NS_PER_MS) /* from train to train, at least: other programs run so long; the same */
#define SPACING_PERCENT 150U      /* of a train's duration; unit: trains_are_spaced_by_their_duration */

/* So many times too slow a short train may be; unit: a_doubtful_train_ends_the_run_far_below_the_range. */
#define TOO_SLOW_TIMES 20U

static uint32_t ip_header_bytes(const struct ab_schedule *schedule)
{
    return schedule->echo.ipv6 ? 40 : 20;
}

size_t ab_schedule_capacity(const struct autobuf_probe_options *options)
{
    uint32_t budget = options->budget_bytes ? options->budget_bytes : AB_BUDGET_BYTES;
    uint32_t bytes = options->packet_bytes ? options->packet_bytes : IPV4_MIN_BYTES;

    budget = (uint32_t)ab_min(budget, AB_BUDGET_BYTES); /* ab_schedule_init() refuses a larger one */
    bytes = (uint32_t)ab_max(ab_min(bytes, IPV4_MIN_BYTES), PACKET_BYTES_MIN);
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

    if ((options->flags & ~AUTOBUF_PROBE_AVAILABLE) || budget < AB_BUDGET_BYTES_MIN || budget > AB_BUDGET_BYTES ||
        bytes < PACKET_BYTES_MIN || bytes > AB_IP_PACKET_BYTES)
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

size_t ab_schedule_measured(const struct ab_schedule *schedule)
{
    return schedule->measured ? schedule->measured : schedule->count;
}

/* Logs which candidate for the rate was chosen, and why. */
static void log_rate(const struct ab_schedule *schedule)
{
    char agree[32] = "";
    struct ab_rate rate;

    ab_estimate_rate(schedule->packets, ab_schedule_measured(schedule), schedule->scratch, &rate);
    if (rate.agreement_percent)
        snprintf(agree, sizeof agree, " (%u%% of the readings)", rate.agreement_percent);
    if (rate.rate_bit_per_s)
        ab_log(&schedule->log, "%s%.1f Mbit/s: %s%s", rate.at_least ? "at least " : "",
               (double)rate.rate_bit_per_s / 1e6, ab_kind_why(rate.kind), agree);
    else
        ab_log(&schedule->log, "no rate: %s", ab_kind_why(rate.kind));
}

static void finish_run(struct ab_schedule *schedule, uint64_t now_ns)
{
    schedule->phase = AB_DONE;
    schedule->finished_ns = now_ns;
    ab_log(&schedule->log, "%u replies to %zu packets in %u trains, %llu bytes sent", schedule->received,
           schedule->count, schedule->trains, (unsigned long long)schedule->cost_bytes);
    log_rate(schedule);
}

/* Of the small echoes, or where none of these was answered, of all: a bound from above. */
static uint64_t min_rtt_ns(const struct ab_schedule *schedule)
{
    uint64_t min_ns, median_ns;

    if (ab_estimate_rtt(schedule->packets, schedule->count, schedule->scratch, &min_ns, &median_ns))
        return min_ns;
    for (size_t i = 0; i < schedule->count; i++)
        if (schedule->packets[i].received_ns != AUTOBUF_NS_UNSET)
            min_ns = ab_min(min_ns, schedule->packets[i].received_ns - schedule->packets[i].sent_ns);
    return min_ns;
}

/* Of the packets in this phase's trains: returns how many have no reply, *replies have one; *reach: the farthest. */
static size_t count_missing(const struct ab_schedule *schedule, size_t *replies, uint32_t *reach)
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

/* Begins a phase of at most wanted trains of size packets each, as budget, queue and capacity allow. */
static bool begin_phase(struct ab_schedule *schedule, enum ab_phase phase, uint64_t now_ns, uint64_t size,
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
    schedule->spacing_ns = schedule->trains_left ? ab_percent(train_ns, SPACING_PERCENT) : 0;
    schedule->next_ns = now_ns;
    schedule->close_ns = AUTOBUF_NS_UNSET;
    return true;
}

static bool begin_first(struct ab_schedule *schedule, uint64_t now_ns)
{
    return begin_phase(schedule, AB_FIRST, now_ns, FIRST_TRAIN, 1, schedule->budget_bytes, 0);
}

static uint64_t train_duration_ns(const struct ab_schedule *schedule, uint64_t packets, uint64_t rate)
{
    return ab_mul_div(packets * schedule->full_bytes, 8 * AB_NS_PER_S, rate);
}

static bool begin_second(struct ab_schedule *schedule, uint64_t now_ns, uint64_t rate)
{
    uint64_t slow = SLOW_TRAIN_NS / ab_max(train_duration_ns(schedule, 1, rate), 1);
    uint64_t size = ab_min(LONGEST_TRAIN, ab_max(slow, FIRST_TRAIN));
    uint32_t wanted = schedule->short_queue ? LAST_TRAINS : 1;

    return begin_phase(schedule, AB_SECOND, now_ns, size, wanted, CHEAP_COST_BYTES,
                       train_duration_ns(schedule, ab_min(schedule->burst_max, size), rate));
}

static bool begin_last(struct ab_schedule *schedule, uint64_t now_ns, const struct ab_rate *rate)
{
    uint64_t size, one_ns;
    struct ab_rate second;

    /* Jitter changes the gaps of the second train, but hardly its duration. */
    ab_estimate_rate(schedule->packets + schedule->phase_begin, schedule->count - schedule->phase_begin,
                     schedule->scratch, &second);
    if (second.pooled_bit_per_s < CERTAIN_BIT_PER_S)
        return false;
    if (!rate->at_least && rate->rate_bit_per_s < CHEAP_RATE_BIT_PER_S)
        return false;
    one_ns = ab_max(train_duration_ns(schedule, 1, rate->rate_bit_per_s), 1);
    size = ab_min(TRAIN_NS / one_ns + 1, LONGEST_TRAIN);
    return begin_phase(schedule, AB_LAST, now_ns, size, LAST_TRAINS, schedule->budget_bytes,
                       ab_min(size, schedule->burst_max) * one_ns);
}

/*
 * Other trains may miss what made these unsure: a host that was late for some milliseconds. They are as long as the
 * second one at least, for the rate may be far too low.
 */
static bool begin_again(struct ab_schedule *schedule, uint64_t now_ns, uint64_t rate)
{
    uint64_t one_ns = ab_max(train_duration_ns(schedule, 1, rate), 1);
    uint64_t size = ab_max(ab_min(AGAIN_TRAIN, SLOW_TRAIN_NS / one_ns), FIRST_TRAIN);

    return schedule->agains++ < AGAIN_MOST && schedule->burst_max >= FIRST_TRAIN &&
           begin_phase(schedule, AB_AGAIN, now_ns, size, AGAIN_TRAINS, schedule->budget_bytes,
                       ab_max(ab_min(schedule->burst_max, size) * one_ns, AGAIN_NS));
}

/* Small echoes came back, but no packet of a train: they may be too large for the path. */
static bool begin_with_smaller_packets(struct ab_schedule *schedule, uint64_t now_ns)
{
    if (schedule->full_bytes > IPV6_MIN_BYTES)
        schedule->full_bytes = IPV6_MIN_BYTES;
    else if (schedule->full_bytes > IPV4_MIN_BYTES)
        schedule->full_bytes = IPV4_MIN_BYTES;
    else
        return false;
    ab_log(&schedule->log, "no reply to full-size packets: trying %u bytes", schedule->full_bytes);
    schedule->black_hole = true;
    return begin_first(schedule, now_ns);
}

/* Begins the next phase of trains. Returns false if there is none. */
static bool begin_next_phase(struct ab_schedule *schedule, uint64_t now_ns)
{
    struct ab_rate rate;
    uint32_t reach;
    size_t replies;

    count_missing(schedule, &replies, &reach);
    if (replies == 0)
        return schedule->phase != AB_AGAIN && begin_with_smaller_packets(schedule, now_ns);
    if (100 * reach < REACH_PERCENT * schedule->train_size) {
        schedule->burst_max = (uint32_t)ab_max(reach, SHORTEST_TRAIN);
        schedule->short_queue = true;
    }
    ab_estimate_rate(schedule->packets, schedule->count, schedule->scratch, &rate);
    if (schedule->phase == AB_FIRST)
        return begin_second(schedule, now_ns, rate.rate_bit_per_s ? rate.rate_bit_per_s : ROUGH_BIT_PER_S);
    if (!rate.rate_bit_per_s)
        return false;
    if (schedule->phase == AB_SECOND && begin_last(schedule, now_ns, &rate))
        return true;
    return rate.unsure && begin_again(schedule, now_ns, rate.rate_bit_per_s);
}

/* Even at AB_PLAUSIBLE_BIT_PER_S the BDP would be below the range that matters. */
static bool bdp_is_below_range(const struct ab_schedule *schedule, uint64_t rtt_ns)
{
    return schedule->bdp_low_bytes &&
           ab_estimate_bdp(AB_PLAUSIBLE_BIT_PER_S, rtt_ns, schedule->full_bytes, schedule->small_bytes) <=
               schedule->bdp_low_bytes;
}

/*
 * Whether the rate is sure, or the BDP is certainly outside the range that matters. Below it nothing is to be done;
 * above it there would be a plan, which takes a rate that is sure, or a lower bound.
 */
static bool result_is_decided(const struct ab_schedule *schedule, uint64_t rtt_ns)
{
    struct ab_rate rate;
    uint64_t high_bit_per_s;

    if (!schedule->bdp_low_bytes)
        return false;
    if (bdp_is_below_range(schedule, rtt_ns))
        return true;
    ab_estimate_rate(schedule->packets, schedule->count, schedule->scratch, &rate);
    if (!rate.rate_bit_per_s || (rate.sure && !rate.unsure))
        return rate.sure;
    high_bit_per_s = rate.at_least ? AB_PLAUSIBLE_BIT_PER_S : ab_mul_div(rate.rate_bit_per_s, TOO_SLOW_TIMES, 1);
    return ab_estimate_bdp(high_bit_per_s, rtt_ns, schedule->full_bytes, schedule->small_bytes) <=
               schedule->bdp_low_bytes ||
           (rate.at_least && ab_estimate_bdp(rate.rate_bit_per_s, rtt_ns, schedule->full_bytes,
                                             schedule->small_bytes) >= schedule->bdp_high_bytes);
}

/*
 * Whether small echoes that were sent over at least span_ns came back much closer together. Then address resolution or
 * a waking radio delayed them. An echo that is sent after the first answer shows the RTT of the path.
 */
static bool echoes_are_bunched(const struct ab_schedule *schedule, uint64_t span_ns)
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
           last->received_ns < first->received_ns + (last->sent_ns - first->sent_ns) / BUNCHED_PART;
}

/* If the extra echo's RTT is the smallest, the earlier echoes were delayed, and do not count. */
static void extra_echo_answered(struct ab_schedule *schedule, uint64_t stamp_ns)
{
    const struct ab_packet *extra = &schedule->packets[schedule->extra];
    uint64_t rtt_ns = extra->received_ns - extra->sent_ns;

    if (rtt_ns == min_rtt_ns(schedule)) {
        for (size_t i = 0; i < schedule->extra; i++)
            schedule->packets[i].delayed |= !schedule->packets[i].train;
        ab_log(&schedule->log, "the first echoes were delayed: RTT %.3f ms", (double)rtt_ns / 1e6);
    }
    if (schedule->only_extra_missing && schedule->phase != AB_STRETCHES)
        schedule->close_ns = stamp_ns;
}

/* How many packets this phase has still to send. */
static uint64_t packets_left(const struct ab_schedule *schedule)
{
    if (schedule->phase == AB_PINGS)
        return schedule->pings_left;
    return schedule->train_left + (uint64_t)schedule->trains_left * schedule->train_size;
}

/* Neither within a train, whose gaps it would change, nor with the budget of one. */
static bool extra_echo_allowed(const struct ab_schedule *schedule)
{
    bool between = schedule->phase == AB_PINGS || schedule->train_left == 0 ||
                   schedule->train_left == schedule->train_size;
    uint64_t left = packets_left(schedule);
    uint64_t left_bytes = left * (schedule->phase == AB_PINGS ? schedule->small_bytes : schedule->full_bytes);

    return between && schedule->phase != AB_STRETCHES && schedule->count + left < schedule->capacity &&
           schedule->cost_bytes + left_bytes + schedule->small_bytes <= schedule->budget_bytes;
}

/*
 * Whether to wait, before the measurement ends, for the answer to the extra echo. If that echo or its answer is lost,
 * sends another one.
 */
static bool waits_for_extra_echo(struct ab_schedule *schedule, uint64_t now_ns, uint64_t rtt_ns)
{
    const struct ab_packet *extra = &schedule->packets[schedule->extra];
    uint64_t wait_ns = rtt_ns + PINGS_NS, last_ns = extra->sent_ns + wait_ns;

    if (!schedule->extra || extra->received_ns != AUTOBUF_NS_UNSET || now_ns >= schedule->end_ns ||
        bdp_is_below_range(schedule, rtt_ns))
        return false;
    if (now_ns >= last_ns) {
        if (schedule->extras_sent >= EXTRA_ECHOES_MAX || !extra_echo_allowed(schedule))
            return false;
        schedule->extra_due = true;
        last_ns = now_ns + wait_ns;
    }
    schedule->close_ns = last_ns;
    schedule->only_extra_missing = true;
    return true;
}

/* All replies of a phase have come, or their time is over. Begins the next phase, or ends the measurement. */
static void end_phase(struct ab_schedule *schedule, uint64_t now_ns)
{
    uint64_t rtt_ns = min_rtt_ns(schedule);
    bool begun = false, stretches = schedule->phase == AB_STRETCHES;

    if (schedule->phase == AB_PINGS && !schedule->extra && !schedule->extra_due && schedule->received < PING_COUNT)
        schedule->extra_due = echoes_are_bunched(schedule, PING_SPACING_NS); /* if others are lost: of two */
    /* Send no train that cannot be answered before the deadline. */
    if (!stretches && rtt_ns != AUTOBUF_NS_UNSET && now_ns < schedule->end_ns && rtt_ns < schedule->end_ns - now_ns &&
        !result_is_decided(schedule, rtt_ns))
        begun = schedule->phase == AB_PINGS ? begin_first(schedule, now_ns)
                                        : begin_next_phase(schedule, now_ns);
    if (!begun && (stretches || !waits_for_extra_echo(schedule, now_ns, rtt_ns)) &&
        !ab_stretches_go_on(schedule, now_ns, rtt_ns))
        finish_run(schedule, now_ns);
}

static void advance(struct ab_schedule *schedule, uint64_t now_ns)
{
    bool silent = !schedule->received && now_ns >= schedule->start_ns + schedule->silence_ns;

    if (schedule->phase == AB_DONE)
        return;
    if (now_ns >= schedule->end_ns || silent) { /* also within a train, if the caller was late */
        if (schedule->phase == AB_STRETCHES || now_ns >= schedule->start_ns + TIMEOUT_NS ||
            !ab_stretches_go_on(schedule, now_ns, min_rtt_ns(schedule)))
            finish_run(schedule, now_ns);
    } else if (now_ns >= schedule->close_ns) {
        end_phase(schedule, now_ns);
    }
}

/* All packets of this phase were sent: wait in proportion to the RTT. */
static void phase_sent(struct ab_schedule *schedule, uint64_t now_ns)
{
    uint64_t rtt_ns = min_rtt_ns(schedule);

    schedule->next_ns = AUTOBUF_NS_UNSET;
    schedule->close_ns = rtt_ns == AUTOBUF_NS_UNSET
                         ? schedule->start_ns + schedule->silence_ns
                         : now_ns + rtt_ns + ab_max(rtt_ns / 2, REPLIES_NS);
}

static int emit(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap, uint32_t train)
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

/* Whether to send the first train before the small echoes are answered. */
static bool skips_waiting_for_echoes(const struct ab_schedule *schedule)
{
    uint64_t rtt_ns = min_rtt_ns(schedule);

    return schedule->bdp_low_bytes && (rtt_ns == AUTOBUF_NS_UNSET || !bdp_is_below_range(schedule, rtt_ns));
}

static int next_ping(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    int len = emit(schedule, now_ns, buf, cap, 0);

    if (len < 0)
        return len;
    if (schedule->pings_left > 0)
        schedule->pings_left--;
    if (schedule->pings_left > 0)
        schedule->next_ns = now_ns + PING_SPACING_NS;
    else if (skips_waiting_for_echoes(schedule) && begin_first(schedule, now_ns))
        return len;
    else if (schedule->received || schedule->cost_bytes + schedule->small_bytes > schedule->budget_bytes)
        schedule->next_ns = AUTOBUF_NS_UNSET;
    else
        schedule->next_ns = now_ns + PING_AGAIN_NS;
    return len;
}

static int next_extra_echo(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    int len = emit(schedule, now_ns, buf, cap, 0);

    if (len < 0)
        return len;
    schedule->extra = schedule->count - 1;
    schedule->extras_sent++;
    schedule->extra_due = false;
    return len;
}

/* The time of a run begins with its first packet: the caller may have been late. */
static void begin_time(struct ab_schedule *schedule, uint64_t now_ns)
{
    uint64_t late_ns = now_ns - ab_min(schedule->start_ns, now_ns);

    schedule->start_ns += late_ns;
    schedule->end_ns += late_ns;
    schedule->close_ns += late_ns;
    schedule->next_ns = schedule->last_ns = schedule->start_ns;
}

static int next_of_stretch(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    int len = emit(schedule, now_ns, buf, cap, schedule->trains);

    if (len < 0)
        return len;
    schedule->next_ns = ab_stretches_sent(schedule->stretches, schedule->full_bytes, schedule->next_ns, now_ns);
    if (schedule->next_ns == AUTOBUF_NS_UNSET)
        phase_sent(schedule, now_ns);
    return len;
}

int ab_schedule_next(struct ab_schedule *schedule, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    int len;

    if (!schedule->count)
        begin_time(schedule, now_ns);
    advance(schedule, now_ns);
    if (schedule->phase == AB_DONE)
        return -ETIME;
    if (schedule->extra_due && now_ns >= schedule->last_ns && extra_echo_allowed(schedule))
        return next_extra_echo(schedule, now_ns, buf, cap);
    if (now_ns < schedule->next_ns || schedule->count == schedule->capacity)
        return 0;
    if (schedule->phase == AB_PINGS)
        return next_ping(schedule, now_ns, buf, cap);
    if (schedule->phase == AB_STRETCHES)
        return next_of_stretch(schedule, now_ns, buf, cap);
    len = emit(schedule, now_ns, buf, cap, schedule->trains);
    if (len < 0 || --schedule->train_left > 0)
        return len;
    if (schedule->trains_left > 0) {
        schedule->trains_left--;
        schedule->trains++;
        schedule->train_left = schedule->train_size;
        schedule->next_ns = now_ns + schedule->spacing_ns;
    } else {
        phase_sent(schedule, now_ns);
    }
    return len;
}

uint64_t ab_schedule_deadline_ns(const struct ab_schedule *schedule)
{
    if (schedule->phase == AB_DONE)
        return 0;
    if (schedule->extra_due && extra_echo_allowed(schedule))
        return ab_min(schedule->end_ns, schedule->last_ns); /* last_ns: the answer that showed the bunching */
    return ab_min(schedule->end_ns, ab_min(schedule->next_ns, schedule->close_ns));
}

/* A small echo was answered: sets when the measurement ends, and how long to wait for the other answers. */
static void ping_answered(struct ab_schedule *schedule, size_t index, uint64_t stamp_ns)
{
    uint64_t rtt_ns = min_rtt_ns(schedule);
    size_t outstanding = 0;

    if (schedule->phase != AB_STRETCHES) /* they have deadlines of their own */
        schedule->end_ns = ab_min(schedule->end_ns, schedule->start_ns + END_NS + END_ROUND_TRIPS * rtt_ns);
    if (!schedule->extra && !schedule->extra_due)
        schedule->extra_due = echoes_are_bunched(schedule, MOST_PINGS_NS);
    else if (schedule->extra == index && index)
        extra_echo_answered(schedule, stamp_ns);
    else
        outstanding = schedule->extra != 0;
    if (schedule->phase != AB_PINGS) {
        if (schedule->received == 1 && schedule->next_ns == AUTOBUF_NS_UNSET)
            schedule->close_ns = stamp_ns + ab_max(rtt_ns / 2, REPLIES_NS);
        return;
    }
    if (schedule->pings_left == 0)
        schedule->next_ns = AUTOBUF_NS_UNSET;
    if (schedule->received == 1)
        schedule->close_ns = stamp_ns + (PING_COUNT - 1) * PING_SPACING_NS + ab_max(rtt_ns / 4, PINGS_NS);
    if (schedule->received + outstanding >= schedule->count && schedule->pings_left == 0)
        schedule->close_ns = stamp_ns;
}

static bool has_rtt(const struct ab_schedule *schedule)
{
    uint64_t min_ns, median_ns;

    return ab_estimate_rtt(schedule->packets, schedule->count, schedule->scratch, &min_ns, &median_ns) > 0;
}

/* A packet of a train was answered: the others arrive within a few gaps unless they are lost. */
static void train_answered(struct ab_schedule *schedule, uint64_t stamp_ns)
{
    uint64_t begin_ns = schedule->packets[schedule->phase_begin].sent_ns;
    uint64_t gap_ns = schedule->last_ns > begin_ns && stamp_ns > schedule->last_ns ? stamp_ns - schedule->last_ns : 0;
    uint64_t wait_ns = ab_max(min_rtt_ns(schedule) / 4, TRAIN_REPLIES_NS);
    uint32_t reach;
    size_t replies;

    if (!schedule->extra && !has_rtt(schedule)) /* each small echo was lost */
        schedule->extra_due = true;
    if (schedule->next_ns != AUTOBUF_NS_UNSET)
        return; /* phase_sent() will set close_ns */
    if (count_missing(schedule, &replies, &reach) == 0)
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
        ping_answered(schedule, sequence, packet->received_ns);
    else if (sequence >= schedule->phase_begin && schedule->phase != AB_PINGS)
        train_answered(schedule, packet->received_ns);
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
    if (index < schedule->count && schedule->packets[index].received_ns >= sent_ns)
        schedule->packets[index].sent_ns = sent_ns;
}

void ab_schedule_stamped(struct ab_schedule *schedule, size_t index, uint64_t stamp_ns)
{
    if (index < schedule->count && schedule->packets[index].train)
        ab_schedule_sent(schedule, index, stamp_ns);
}

void ab_schedule_unsend(struct ab_schedule *schedule, size_t index)
{
    while (schedule->count > index)
        schedule->cost_bytes -= schedule->packets[--schedule->count].bytes;
    if (schedule->extra >= schedule->count)
        schedule->extra = 0;
}

void ab_schedule_mtu(struct ab_schedule *schedule, uint32_t packet_bytes)
{
    packet_bytes = (uint32_t)ab_max(packet_bytes, PACKET_BYTES_MIN);
    if (packet_bytes >= schedule->full_bytes)
        return;
    ab_log(&schedule->log, "the path takes packets of at most %u bytes", packet_bytes);
    schedule->full_bytes = packet_bytes;
    if (schedule->phase == AB_STRETCHES) { /* it ends: what was sent before has another size */
        schedule->end_ns = schedule->last_ns;
        return;
    }
    schedule->shrunk |= schedule->count > 0;
    if (schedule->phase != AB_PINGS && schedule->phase != AB_DONE)
        begin_first(schedule, schedule->last_ns);
}

/*
 * Smaller packets may show too low a rate, and the ICMP error may be forged. So the rate is a lower bound not only
 * because an echo sees the slower direction.
 */
int ab_schedule_result(const struct ab_schedule *schedule, struct autobuf_path *path)
{
    int result;

    *path = (struct autobuf_path)AUTOBUF_PATH_INIT;
    path->method = AUTOBUF_METHOD_ICMP;
    path->cost_bytes = schedule->cost_bytes;
    path->measured_ns = schedule->last_ns;
    path->elapsed_ns = (schedule->phase == AB_DONE ? schedule->finished_ns : schedule->last_ns) - schedule->start_ns;
    result = ab_estimate_path(schedule->packets, ab_schedule_measured(schedule), schedule->scratch, path);
    if (schedule->shrunk)
        path->flags &= ~AB_PATH_ECHOED;
    if (schedule->black_hole && path->tx_rate_bit_per_s)
        path->flags |= AUTOBUF_PATH_BLACK_HOLE;
    return result;
}

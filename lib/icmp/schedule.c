/* SPDX-License-Identifier: MIT */
#include "schedule.h"

#include <errno.h>
#include <stdio.h>

/*
 * What set each constant: "sweep" is `tests/mutate sweep NAME`, mean errors over simulated paths with half the
 * value, the value, twice that; "unit" a case of tests/unit/test_schedule.c, where these paths show nothing or
 * what matters is cost and time. tests/mutate shows that a test holds each of them from both sides.
 */

/* Small echoes. */
#define PING_COUNT 5U                      /* sweep: p95 30, 35, 29% with jitter; unit: small_echoes_come_first */
#define PING_SPACING_NS (2 * AB_NS_PER_MS) /* unit: small_echoes_come_first */
#define PING_AGAIN_NS (200 * AB_NS_PER_MS) /* unit: what_is_not_answered_ends_it */
#define SMALL_PAYLOAD_BYTES 44U            /* 64 bytes of IPv4, 84 of IPv6; sweep: half is no reply */

/* Time. */
#define SILENCE_NS (1 * AB_NS_PER_S)       /* unit: what_is_not_answered_ends_it */
#define TIMEOUT_NS (2 * AB_NS_PER_S)       /* unit: it_ends_in_time; so is what follows */
#define END_NS AB_NS_PER_S                 /* it is over after that and */
#define END_ROUND_TRIPS 2U
#define REPLIES_NS (100 * AB_NS_PER_MS)    /* after the last packet, beside 1.5 round trips: what is late */
#define PINGS_NS (5 * AB_NS_PER_MS)        /* after the first answer, beside a quarter of a round trip */
#define TRAIN_REPLIES_NS (10 * AB_NS_PER_MS) /* after an answer to a train, beside a quarter and */
#define LATE_GAPS 3U                       /* that many times its gap; unit: a_lost_packet_is_waited_for */

/* Cost. */
#define PACKET_BYTES_MIN 128U
#define TUNNEL_BYTES 1280U                 /* IPv6's minimum, and what tunnels leave */
#define LEAST_BYTES 576U                   /* that every host takes (RFC 1122) */
#define CHEAP_BYTES 64000U                 /* enough up to CHEAP_RATE; sweep: 55, 3.1, 1.0% with jitter of 2 ms */
#define CHEAP_RATE_BIT_PER_S 200000000U    /* unit: trains_for_a_rate */
#define CERTAIN_BIT_PER_S 140000000U       /* jitter at 100 Mbit/s makes no more of it; sweep: 1.4, 3.1, 8.4% */

/* Trains. */
#define FIRST_TRAIN 10U           /* sweep: p95 9.1, 0, 0% with a loss of 20%; 0.6, 1.1, 10% in batches */
#define ROUGH_BIT_PER_S 10000000U /* assumed where the first gave nothing; unit: a_first_train_of_no_rate */
#define TRAIN_NS (2500 * AB_NS_PER_US)     /* sweep: 0, 6, 9% cross traffic of 500 B; tests/bench/run accuracy */
#define SLOW_TRAIN_NS (200 * AB_NS_PER_MS) /* of the second phase at most; unit: trains_for_a_rate */
#define LONGEST_TRAIN 256U        /* sweep: 0, 6, 6% cross traffic of 500 B; unit: trains_for_a_rate */
#define SHORTEST_TRAIN 4U         /* sweep: 7.2, 6.0, 7.2% cross traffic of 500 B; unit: as REACH_PERCENT */
#define REACH_PERCENT 80U         /* of a train came through: no queue cut it; unit: the same */
#define LAST_TRAINS 3U            /* of the last phase, and of the second where a queue cuts them; unit: the same */
#define MANY_TRAINS 8U            /* of the rest, where a queue cuts them; unit: torn_trains */
#define SPACING_PERCENT 150U      /* of a train's own time, from one to the next; unit: trains_do_not_meet */

/* Whether more would tell nothing; unit: a_doubtful_train_answers_what_it_can. */
#define STRETCHED 20U /* a short train may read so much too slow, where its readings disagree, */
#define BUNCHED 4U    /* or so much too fast */

static uint32_t ip_header_bytes(const struct ab_schedule *core)
{
    return core->echo.ipv6 ? 40 : 20;
}

size_t ab_schedule_capacity(const struct autobuf_probe_options *options)
{
    uint32_t budget = options->budget_bytes ? options->budget_bytes : AB_BUDGET_BYTES;
    uint32_t bytes = options->packet_bytes ? options->packet_bytes : LEAST_BYTES;

    budget = (uint32_t)ab_min(budget, AB_BUDGET_BYTES); /* what is beyond is refused by init */
    bytes = (uint32_t)ab_max(ab_min(bytes, LEAST_BYTES), PACKET_BYTES_MIN);
    return budget / bytes + 2 * PING_COUNT + FIRST_TRAIN;
}

int ab_schedule_init(struct ab_schedule *core, const struct ab_echo *echo,
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
    *core = (struct ab_schedule){
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
    core->small_bytes = SMALL_PAYLOAD_BYTES + ip_header_bytes(core);
    core->close_ns = ab_min(core->end_ns, now_ns + core->silence_ns);
    return 0;
}

/* Which candidate for the rate won, and why. */
static void core_log_rate(const struct ab_schedule *core)
{
    char agree[32] = "";
    struct ab_rate rate;

    ab_estimate_rate(core->packets, core->count, core->scratch, &rate);
    if (rate.agreement_percent)
        snprintf(agree, sizeof agree, " (%u%% of the readings)", rate.agreement_percent);
    if (rate.rate_bit_per_s)
        ab_log(&core->log, "%s%.1f Mbit/s: %s%s", rate.at_least ? "at least " : "",
               (double)rate.rate_bit_per_s / 1e6, ab_kind_why(rate.kind), agree);
    else
        ab_log(&core->log, "no rate: %s", ab_kind_why(rate.kind));
}

static void core_finish(struct ab_schedule *core, uint64_t now_ns)
{
    core->phase = AB_DONE;
    core->finished_ns = now_ns;
    ab_log(&core->log, "%u replies to %zu packets in %u trains, %llu bytes sent", core->received,
           core->count, core->trains, (unsigned long long)core->cost_bytes);
    core_log_rate(core);
}

static uint64_t core_rtt_ns(const struct ab_schedule *core)
{
    uint64_t min_ns, median_ns;

    ab_estimate_rtt(core->packets, core->count, core->scratch, &min_ns, &median_ns);
    return min_ns;
}

/* Replies to this phase, and how far into a train they reach at best. */
static size_t core_phase_replies(const struct ab_schedule *core, uint32_t *reach)
{
    size_t replies = 0;
    uint32_t position = 0;

    *reach = 0;
    for (size_t i = core->phase_begin; i < core->count; i++) {
        if (i > core->phase_begin && core->packets[i].train == core->packets[i - 1].train)
            position++;
        else
            position = 0;
        if (core->packets[i].received_ns == AUTOBUF_NS_UNSET)
            continue;
        replies++;
        *reach = (uint32_t)ab_max(*reach, position + 1);
    }
    return replies;
}

/* Up to wanted trains of size packets each, as the budget, the queue and the room allow. */
static bool core_begin(struct ab_schedule *core, enum ab_phase phase, uint64_t now_ns, uint64_t size,
                       uint32_t wanted, uint64_t budget_bytes, uint64_t train_ns)
{
    uint64_t left = ab_min(budget_bytes, core->budget_bytes);
    uint64_t affordable = left > core->cost_bytes ? (left - core->cost_bytes) / core->full_bytes : 0;

    affordable = ab_min(affordable, core->capacity - core->count);
    size = ab_min(ab_min(size, affordable), core->burst_max);
    if (size < SHORTEST_TRAIN)
        return false;
    core->phase = phase;
    core->phase_begin = core->count;
    core->train_size = core->train_left = (uint32_t)size;
    core->trains_left = (uint32_t)ab_min(affordable / size, wanted) - 1;
    core->trains++;
    core->spacing_ns = core->trains_left ? ab_mul_div(train_ns, SPACING_PERCENT, 100) : 0;
    core->next_ns = now_ns;
    core->close_ns = AUTOBUF_NS_UNSET;
    return true;
}

static bool core_begin_first(struct ab_schedule *core, uint64_t now_ns)
{
    return core_begin(core, AB_FIRST, now_ns, FIRST_TRAIN, 1, core->budget_bytes, 0);
}

/* How long a train of that many packets lasts at a rate. */
static uint64_t core_train_ns(const struct ab_schedule *core, uint64_t packets, uint64_t rate)
{
    return ab_mul_div(packets * core->full_bytes, 8 * AB_NS_PER_S, rate);
}

static bool core_begin_second(struct ab_schedule *core, uint64_t now_ns, uint64_t rate)
{
    uint64_t slow = SLOW_TRAIN_NS / ab_max(core_train_ns(core, 1, rate), 1);
    uint64_t size = ab_min(LONGEST_TRAIN, ab_max(slow, FIRST_TRAIN));
    uint32_t wanted = core->cut ? LAST_TRAINS : 1;

    return core_begin(core, AB_SECOND, now_ns, size, wanted, CHEAP_BYTES,
                      core_train_ns(core, ab_min(core->burst_max, size), rate));
}

/* Trains in which jitter or batches left no gap intact tell by their length alone. */
static bool core_begin_torn(struct ab_schedule *core, enum ab_phase phase, uint64_t now_ns,
                            uint64_t one_ns)
{
    uint64_t left = (core->budget_bytes - ab_min(core->cost_bytes, core->budget_bytes)) /
                    core->full_bytes;
    uint64_t size = phase == AB_LAST ? left / 2 : left;

    return core_begin(core, phase, now_ns, size, phase == AB_LAST ? 1 : MANY_TRAINS,
                      core->budget_bytes, ab_min(size, core->burst_max) * one_ns);
}

static bool core_begin_last(struct ab_schedule *core, uint64_t now_ns, const struct ab_rate *rate)
{
    uint64_t size, one_ns;
    struct ab_rate second;

    /* What jitter may do to the long train, it cannot do to its length. */
    ab_estimate_rate(core->packets + core->phase_begin, core->count - core->phase_begin,
                     core->scratch, &second);
    if (second.pooled_bit_per_s < CERTAIN_BIT_PER_S)
        return false;
    /* Torn trains tell by their length, which a queue may have cut. */
    if (rate->torn ? core->train_size < FIRST_TRAIN
                   : !rate->at_least && rate->rate_bit_per_s < CHEAP_RATE_BIT_PER_S)
        return false;
    one_ns = ab_max(core_train_ns(core, 1, rate->rate_bit_per_s), 1);
    if (rate->torn)
        return core_begin_torn(core, AB_LAST, now_ns, one_ns);
    size = ab_min(TRAIN_NS / one_ns + 1, LONGEST_TRAIN);
    return core_begin(core, AB_LAST, now_ns, size, LAST_TRAINS, core->budget_bytes,
                      ab_min(size, core->burst_max) * one_ns);
}

/* Nothing of a train came back although small echoes do: it was too large for the path. */
static bool core_begin_smaller(struct ab_schedule *core, uint64_t now_ns)
{
    if (core->full_bytes > TUNNEL_BYTES)
        core->full_bytes = TUNNEL_BYTES;
    else if (core->full_bytes > LEAST_BYTES)
        core->full_bytes = LEAST_BYTES;
    else
        return false;
    ab_log(&core->log, "no answer to full-size packets: trying %u bytes", core->full_bytes);
    return core_begin_first(core, now_ns);
}

/* What follows a phase of trains: false, if nothing. */
static bool core_begin_next(struct ab_schedule *core, uint64_t now_ns)
{
    uint32_t reach;
    struct ab_rate rate;

    if (core_phase_replies(core, &reach) == 0)
        return core_begin_smaller(core, now_ns);
    if (100 * reach < REACH_PERCENT * core->train_size) {
        core->burst_max = (uint32_t)ab_max(reach, SHORTEST_TRAIN);
        core->cut = true;
    }
    ab_estimate_rate(core->packets, core->count, core->scratch, &rate);
    if (core->phase == AB_FIRST)
        return core_begin_second(core, now_ns,
                                 rate.rate_bit_per_s ? rate.rate_bit_per_s : ROUGH_BIT_PER_S);
    if (!rate.rate_bit_per_s)
        return false;
    if (core->phase == AB_SECOND)
        return core_begin_last(core, now_ns, &rate);
    if (core->phase == AB_LAST && rate.torn)
        return core_begin_torn(core, AB_REST, now_ns,
                               ab_max(core_train_ns(core, 1, rate.rate_bit_per_s), 1));
    return false;
}

/* No rate up to 10 Gbit/s makes the product at this round-trip time one of interest. */
static bool core_near_enough(const struct ab_schedule *core, uint64_t rtt_ns)
{
    return core->bdp_low_bytes &&
           ab_estimate_bdp(AB_PLAUSIBLE_BIT_PER_S, rtt_ns, core->full_bytes, core->small_bytes) <=
               core->bdp_low_bytes;
}

/* Whether more would tell nothing that is of interest. */
static bool core_knows_enough(const struct ab_schedule *core, uint64_t rtt_ns)
{
    struct ab_rate rate;
    uint64_t least, most;

    if (!core->bdp_low_bytes)
        return false;
    if (core_near_enough(core, rtt_ns))
        return true;
    ab_estimate_rate(core->packets, core->count, core->scratch, &rate);
    if (!rate.rate_bit_per_s || rate.sure)
        return rate.sure;
    least = rate.at_least ? rate.rate_bit_per_s : rate.rate_bit_per_s / BUNCHED;
    most = rate.at_least ? AB_PLAUSIBLE_BIT_PER_S : ab_mul_div(rate.rate_bit_per_s, STRETCHED, 1);
    return ab_estimate_bdp(most, rtt_ns, core->full_bytes, core->small_bytes) <=
               core->bdp_low_bytes ||
           ab_estimate_bdp(least, rtt_ns, core->full_bytes, core->small_bytes) >=
               core->bdp_high_bytes;
}

/* The replies of a phase are in, or will not come. */
static void core_decide(struct ab_schedule *core, uint64_t now_ns)
{
    uint64_t rtt_ns = core_rtt_ns(core);
    bool begun = false;

    /* What cannot be answered before the end is not sent. */
    if (rtt_ns != AUTOBUF_NS_UNSET && now_ns < core->end_ns && rtt_ns < core->end_ns - now_ns &&
        !core_knows_enough(core, rtt_ns))
        begun = core->phase == AB_PINGS ? core_begin_first(core, now_ns)
                                        : core_begin_next(core, now_ns);
    if (!begun)
        core_finish(core, now_ns);
}

static void core_advance(struct ab_schedule *core, uint64_t now_ns)
{
    if (core->phase == AB_DONE)
        return;
    if (now_ns >= core->end_ns ||
        (!core->received && now_ns >= core->start_ns + core->silence_ns))
        core_finish(core, now_ns); /* in the midst of a train too, if the caller was late */
    else if (now_ns >= core->close_ns)
        core_decide(core, now_ns);
}

/* All of this phase has been sent: wait in proportion to the round-trip time. */
static void core_sent_all(struct ab_schedule *core, uint64_t now_ns)
{
    uint64_t rtt_ns = core_rtt_ns(core);

    core->next_ns = AUTOBUF_NS_UNSET;
    core->close_ns = rtt_ns == AUTOBUF_NS_UNSET
                         ? core->start_ns + core->silence_ns
                         : now_ns + rtt_ns + ab_max(rtt_ns / 2, REPLIES_NS);
}

static int core_emit(struct ab_schedule *core, uint64_t now_ns, uint8_t *buf, size_t cap, uint32_t train)
{
    uint32_t bytes = train ? core->full_bytes : core->small_bytes;
    size_t len = bytes - ip_header_bytes(core);

    if (len > cap)
        return -ENOSPC;
    ab_echo_build(&core->echo, (uint16_t)core->count, buf, len);
    core->packets[core->count++] = (struct ab_packet){
        .sent_ns = now_ns, .received_ns = AUTOBUF_NS_UNSET, .bytes = bytes, .train = train};
    core->cost_bytes += bytes;
    return (int)len;
}

/* Whether the first train need not wait for the small echoes' answers. */
static bool core_hurries(const struct ab_schedule *core)
{
    uint64_t rtt_ns = core_rtt_ns(core);

    return core->bdp_low_bytes &&
           (rtt_ns == AUTOBUF_NS_UNSET || !core_near_enough(core, rtt_ns));
}

static int core_next_ping(struct ab_schedule *core, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    int len = core_emit(core, now_ns, buf, cap, 0);

    if (len < 0)
        return len;
    if (core->pings_left > 0)
        core->pings_left--;
    if (core->pings_left > 0)
        core->next_ns = now_ns + PING_SPACING_NS;
    else if (core_hurries(core) && core_begin_first(core, now_ns))
        return len;
    else if (core->received || core->cost_bytes + core->small_bytes > core->budget_bytes)
        core->next_ns = AUTOBUF_NS_UNSET;
    else
        core->next_ns = now_ns + PING_AGAIN_NS;
    return len;
}

int ab_schedule_next(struct ab_schedule *core, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    int len;

    core_advance(core, now_ns);
    if (core->phase == AB_DONE)
        return -ETIME;
    if (now_ns < core->next_ns || core->count == core->capacity)
        return 0;
    if (core->phase == AB_PINGS)
        return core_next_ping(core, now_ns, buf, cap);
    len = core_emit(core, now_ns, buf, cap, core->trains);
    if (len < 0 || --core->train_left > 0)
        return len;
    if (core->trains_left > 0) {
        core->trains_left--;
        core->trains++;
        core->train_left = core->train_size;
        core->next_ns = now_ns + core->spacing_ns;
    } else {
        core_sent_all(core, now_ns);
    }
    return len;
}

uint64_t ab_schedule_deadline_ns(const struct ab_schedule *core)
{
    if (core->phase == AB_DONE)
        return 0;
    return ab_min(core->end_ns, ab_min(core->next_ns, core->close_ns));
}

/* A small echo was answered: the end, and how long the others are waited for. */
static void core_ping_answered(struct ab_schedule *core, uint64_t stamp_ns)
{
    uint64_t rtt_ns = core_rtt_ns(core);

    core->end_ns = ab_min(core->end_ns, core->start_ns + END_NS + END_ROUND_TRIPS * rtt_ns);
    if (core->phase != AB_PINGS) {
        if (core->received == 1 && core->next_ns == AUTOBUF_NS_UNSET)
            core->close_ns = stamp_ns + ab_max(rtt_ns / 2, REPLIES_NS);
        return;
    }
    if (core->pings_left == 0)
        core->next_ns = AUTOBUF_NS_UNSET;
    if (core->received == 1)
        core->close_ns = stamp_ns + (PING_COUNT - 1) * PING_SPACING_NS +
                         ab_max(rtt_ns / 4, PINGS_NS);
    if (core->received == core->count && core->pings_left == 0)
        core->close_ns = stamp_ns;
}

/* A packet of a train was: the rest is due within a few gaps, unless it was lost. */
static void core_train_answered(struct ab_schedule *core, uint64_t stamp_ns)
{
    uint64_t begin_ns = core->packets[core->phase_begin].sent_ns;
    uint64_t gap_ns = core->last_ns > begin_ns && stamp_ns > core->last_ns
                          ? stamp_ns - core->last_ns
                          : 0;
    uint64_t wait_ns = ab_max(core_rtt_ns(core) / 4, TRAIN_REPLIES_NS);
    uint32_t reach;

    if (core->next_ns != AUTOBUF_NS_UNSET)
        return; /* more are to be sent: their sending sets the time */
    if (core_phase_replies(core, &reach) == core->count - core->phase_begin)
        core->close_ns = stamp_ns;
    else
        core->close_ns = ab_max(stamp_ns + wait_ns + LATE_GAPS * gap_ns + core->spacing_ns,
                                gap_ns ? 0 : core->close_ns); /* of a first answer no gap is known */
}

bool ab_schedule_reply(struct ab_schedule *core, uint64_t stamp_ns, const uint8_t *buf, size_t len)
{
    struct ab_packet *packet;
    uint16_t sequence;

    if (core->phase == AB_DONE || !ab_echo_parse(&core->echo, buf, len, &sequence))
        return false;
    if (sequence >= core->count)
        return false; /* never sent */
    packet = &core->packets[sequence];
    if (packet->received_ns != AUTOBUF_NS_UNSET || len != packet->bytes - ip_header_bytes(core))
        return false; /* a duplicate, or cut short */
    packet->received_ns = ab_min(ab_max(stamp_ns, packet->sent_ns), AUTOBUF_NS_UNSET - 1);
    core->received++;
    if (!packet->train)
        core_ping_answered(core, packet->received_ns);
    else if (sequence >= core->phase_begin && core->phase != AB_PINGS)
        core_train_answered(core, packet->received_ns);
    core->last_ns = packet->received_ns;
    return true;
}

bool ab_schedule_quoted(const struct ab_schedule *core, const uint8_t *quoted, size_t len)
{
    uint16_t sequence;

    return ab_echo_quotes(&core->echo, quoted, len, &sequence) && sequence < core->count;
}

void ab_schedule_sent(struct ab_schedule *core, size_t index, uint64_t sent_ns)
{
    if (index < core->count && core->packets[index].received_ns == AUTOBUF_NS_UNSET)
        core->packets[index].sent_ns = sent_ns;
}

void ab_schedule_unsend(struct ab_schedule *core, size_t index)
{
    while (core->count > index)
        core->cost_bytes -= core->packets[--core->count].bytes;
}

void ab_schedule_mtu(struct ab_schedule *core, uint32_t packet_bytes)
{
    packet_bytes = (uint32_t)ab_max(packet_bytes, PACKET_BYTES_MIN);
    if (packet_bytes >= core->full_bytes)
        return;
    ab_log(&core->log, "the path takes packets of at most %u bytes", packet_bytes);
    core->full_bytes = packet_bytes;
    core->shrunk |= core->count > 0;
    if (core->phase != AB_PINGS && core->phase != AB_DONE)
        core_begin_first(core, core->last_ns);
}

/*
 * Smaller packets than the path was thought to take may tell too low a rate, and somebody may have wanted that:
 * it is a lower bound then, by which nothing is paced and no buffer made smaller.
 */
int ab_schedule_result(const struct ab_schedule *core, struct autobuf_path *path)
{
    int result;

    *path = (struct autobuf_path)AUTOBUF_PATH_INIT;
    path->method = AUTOBUF_METHOD_ICMP;
    path->cost_bytes = core->cost_bytes;
    path->measured_ns = core->last_ns;
    path->elapsed_ns =
        (core->phase == AB_DONE ? core->finished_ns : core->last_ns) - core->start_ns;
    result = ab_estimate_path(core->packets, core->count, core->scratch, path);
    if (core->shrunk && path->tx_rate_bit_per_s)
        path->flags |= AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST;
    return result;
}

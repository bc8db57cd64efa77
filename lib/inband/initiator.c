/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include <errno.h>

#define FIRST_SEGMENTS 10U /* initial congestion window (RFC 6928) */
/* "unit" is a case of test_initiator.c or test_framing_ftp.c that fails with half or twice the value. */
#define LONG_ENOUGH_NS (1500 * AB_NS_PER_US) /* a train: each is twice the last, so 1.5 to 3 ms; unit: test_paths */
#define CHEAP_BIT_PER_S 200000000U   /* unit: test_trains_of_a_slow_path */
#define SLOW_BIT_PER_S 120000000U    /* unit: test_trains_of_a_slow_path */
#define CHEAP_TRAINS_BYTES 60000U    /* IP bytes each way, enough up to CHEAP_BIT_PER_S; unit: as CHEAP_BIT_PER_S */
#define CHEAP_SEGMENTS 20U           /* or so many, or few gaps decide; unit: test_large_segments_of_a_slow_path */
#define MAX_ROUND_TRIPS 6U           /* unit: test_late */
#define ROUND_TRIPS_LEFT 2U          /* for a round and the RESULT; one more with AB_GO; unit: test_late */
#define EXTRA_NS (500 * AB_NS_PER_MS) /* unit: test_late */
#define ASKS_AGAIN 2U /* answers more before a proxy is told from a busy peer; unit: test_relayed */
#define FAR_PERCENT 125U /* of the range; unit: test_client_stops_when_the_bdp_is_outside_the_range */
#define BITS_NS (8 * AB_NS_PER_S)
#define REPLY_CODE_BYTES 4U /* of a reply's last line: its code and a blank */
#define DRAINED_MAX_BYTES 65536U /* beyond the announced length of a reply of several lines */

static int initiator_begin(struct autobuf_inband *ib)
{
    struct ab_line line = {.verb = AB_HELLO, .count = 1, .numbers = {AB_INBAND_VERSION}};

    ib->phase = AB_PHASE_HELLO;
    ib->out.sent_ns = ib->start_ns; /* a peer may answer before HELLO is sent */
    ib->limit_ns = ib->start_ns + ib->options.timeout_ns + AB_INBAND_GRACE_NS;
    line.values[AB_KEY_TRAIN] = line.values[AB_KEY_BUDGET] = ab_inband_budget_bytes(ib);
    return ab_inband_queue_line(ib, &line, NULL);
}

/*
 * Whether the path is slow, so that short trains are enough. If an earlier train was bunched, its rate may be too high;
 * then the rate of the whole newest train counts.
 */
static bool is_cheap(const struct autobuf_inband *ib, const struct ab_reading *r)
{
    uint64_t whole_bit_per_s = ab_mul_div(ab_inband_wire_bytes(ib, r->bytes), BITS_NS, ab_max(r->span_ns, 1));

    return r->rate_bit_per_s && (r->rate_bit_per_s <= CHEAP_BIT_PER_S || whole_bit_per_s <= SLOW_BIT_PER_S);
}

/* Payload of the next train in a direction, at most `most` bytes; 0: no further train. */
static uint64_t next_train(const struct autobuf_inband *ib, const struct ab_direction *d, uint64_t most)
{
    uint64_t segment_bytes = ib->facts.segment_bytes;
    uint64_t budget = ab_min(ab_inband_budget_bytes(ib), ib->initiator.peer_budget_bytes);
    uint64_t len = d->trains ? 2 * d->train_bytes : FIRST_SEGMENTS * segment_bytes;

    if (is_cheap(ib, &d->reading))
        budget = ab_min(budget, ab_max((uint64_t)CHEAP_TRAINS_BYTES * segment_bytes / ib->facts.packet_bytes,
                                       CHEAP_SEGMENTS * segment_bytes));
    if (d->spent_bytes >= budget)
        return 0;
    len = ab_min(ab_min(len, most), budget - d->spent_bytes) / segment_bytes * segment_bytes;
    return len < AB_INBAND_TRAIN_SEGMENTS * segment_bytes ? 0 : len;
}

static bool trains_suffice(const struct ab_direction *d)
{
    const struct ab_reading *r = &d->reading;

    return r->sure && !r->unsure && !r->at_least && r->span_ns >= LONG_ENOUGH_NS;
}

/*
 * Whether the BDP is certainly outside the range that matters: far outside after one train, which may have come in
 * batches, or just outside after two.
 */
static bool bdp_is_outside_range(const struct autobuf_inband *ib, const struct ab_direction *d)
{
    const struct ab_reading *r = &d->reading;
    uint64_t percent = d->trains < 2 ? FAR_PERCENT : 100;

    if (!r->sure || r->at_least || !ib->initiator.high_bytes)
        return false;
    return ab_inband_bdp(ib, r->low_bit_per_s) > ab_percent(ib->initiator.high_bytes, percent) ||
           ab_percent(ab_inband_bdp(ib, r->high_bit_per_s), percent) < ib->initiator.low_bytes;
}

static bool is_late(const struct autobuf_inband *ib)
{
    uint64_t elapsed_ns = ib->now_ns - ib->start_ns;
    unsigned left = ib->framing->reply_end ? ROUND_TRIPS_LEFT + 1 : ROUND_TRIPS_LEFT;

    return elapsed_ns >= ib->options.timeout_ns || elapsed_ns > (MAX_ROUND_TRIPS - left) * ib->exchange_ns + EXTRA_NS;
}

static uint64_t train_ns(const struct ab_reading *reading, uint64_t bytes)
{
    return reading->rate_bit_per_s ? ab_mul_div(bytes, BITS_NS, reading->rate_bit_per_s) : 0;
}

/* Whether a round with these trains, and what follows, ends before limit_ns: a timeout would cost the connection. */
static bool ends_in_time(const struct autobuf_inband *ib, uint64_t tx_bytes, uint64_t rx_bytes)
{
    unsigned trips = ib->framing->reply_end ? (tx_bytes ? 2U : 0) + (rx_bytes ? 1U : 0) : ROUND_TRIPS_LEFT;
    uint64_t ends_ns = ib->now_ns + trips * ib->exchange_ns + train_ns(&ib->tx.reading, tx_bytes) +
                       train_ns(&ib->rx.reading, rx_bytes);

    return ends_ns + EXTRA_NS < ib->limit_ns;
}

static size_t build_ask_for_train(const struct autobuf_inband *ib, struct ab_line *line)
{
    char text[AB_LINE_BYTES];

    *line = (struct ab_line){.verb = AB_TRAIN, .count = 1, .numbers = {ib->initiator.ask_bytes}};
    return ib->initiator.ask_bytes
               ? ib->encoder->build(line, ib->options.prefix, NULL, text, sizeof text)
               : 0;
}

static int ask_for_train(struct autobuf_inband *ib)
{
    struct ab_line line;

    if (build_ask_for_train(ib, &line) == 0)
        return 0;
    ib->initiator.awaits_train = true;
    ib->rx.train_bytes = ib->initiator.ask_bytes;
    ib->initiator.ask_bytes = 0;
    return ab_inband_queue_line(ib, &line, NULL);
}

/* While all answers were late, asks for a packet first: a peer that is busy is no proxy. */
static int begin_result(struct autobuf_inband *ib)
{
    struct ab_line line = {.verb = AB_RESULT};

    if (ab_inband_is_relayed(ib) && ib->initiator.asked_again < ASKS_AGAIN && ends_in_time(ib, 0, 1)) {
        ib->initiator.asked_again++;
        ib->initiator.ask_bytes = ib->facts.segment_bytes;
        ib->phase = AB_PHASE_ROUND;
        return ask_for_train(ib);
    }
    if (ib->framing->reply_end) {
        ab_inband_end(ib);
        return 0;
    }
    ib->phase = AB_PHASE_RESULT;
    ab_reading_write(&ib->rx.reading, &line);
    if (ib->exchange_ns != AUTOBUF_NS_UNSET)
        line.values[AB_KEY_RTT] = ab_min(ib->exchange_ns, ib->options.timeout_ns);
    return ab_inband_queue_line(ib, &line, NULL);
}

/*
 * Queues this end's train and the line that asks for the peer's: one write, one round trip. The peer's train begins
 * when this one has arrived. Both at once would be too fast for many hosts, and mix ACKs with the packets.
 */
static int send_payload(struct autobuf_inband *ib, struct ab_line *line)
{
    struct ab_line ask;
    int error = ab_inband_queue_train(ib, line, (size_t)ib->tx.train_bytes, build_ask_for_train(ib, &ask));

    return error < 0 ? error : ask_for_train(ib);
}

static int send_train(struct autobuf_inband *ib, uint64_t len)
{
    struct ab_line line = {.verb = AB_SINK, .count = 1, .numbers = {len}};

    ab_inband_add_pace(ib, &line);
    ib->initiator.awaits_sink = true;
    ib->initiator.awaits_go = ib->framing->reply_end;
    ib->tx.train_bytes = len;
    ib->tx.spent_bytes += len;
    ib->tx.trains++;
    return ib->initiator.awaits_go ? ab_inband_queue_line(ib, &line, NULL) : send_payload(ib, &line);
}

static int next_round(struct autobuf_inband *ib)
{
    struct ab_initiator *own = &ib->initiator;
    uint64_t most = ib->facts.train_bytes ? ib->facts.train_bytes : AUTOBUF_INBAND_BUDGET_BYTES;
    uint64_t tx;

    if (own->asked_again)
        return begin_result(ib);
    own->rx_done |= trains_suffice(&ib->rx) || bdp_is_outside_range(ib, &ib->rx);
    own->tx_done |= trains_suffice(&ib->tx) || bdp_is_outside_range(ib, &ib->tx);
    own->ask_bytes = own->rx_done ? 0 : next_train(ib, &ib->rx, own->peer_train_bytes);
    tx = own->tx_done ? 0 : next_train(ib, &ib->tx, ab_min(most, own->peer_train_bytes));
    if ((!own->ask_bytes && !tx) || is_late(ib) || !ends_in_time(ib, tx, own->ask_bytes))
        return begin_result(ib);
    ib->phase = AB_PHASE_ROUND;
    own->round_begin_ns = ib->now_ns;
    return tx ? send_train(ib, tx) : ask_for_train(ib);
}

static int end_of_round(struct autobuf_inband *ib)
{
    return ib->initiator.awaits_train || ib->initiator.awaits_sink ? 0 : next_round(ib);
}

/* Restarts a direction if it is wanted, but keeps the bytes that it has spent. */
static void want_direction(struct ab_direction *d, bool *done, bool wanted)
{
    if (wanted)
        *d = (struct ab_direction){.spent_bytes = d->spent_bytes};
    *done = !wanted;
}

static void want_directions(struct autobuf_inband *ib, uint32_t directions)
{
    directions &= AUTOBUF_INBAND_TX | AUTOBUF_INBAND_RX;
    want_direction(&ib->tx, &ib->initiator.tx_done, directions != AUTOBUF_INBAND_RX);
    want_direction(&ib->rx, &ib->initiator.rx_done, directions != AUTOBUF_INBAND_TX);
}

static bool can_continue(const struct autobuf_inband *ib)
{
    return ib->role == AUTOBUF_INBAND_INITIATOR && ib->outcome == 0 && autobuf_inband_finished(ib) == 1;
}

int ab_inband_begin(struct autobuf_inband *ib, uint64_t now_ns, uint32_t directions, uint64_t low_bytes,
                    uint64_t high_bytes)
{
    if (!can_continue(ib) || !ib->initiator.hello_only)
        return -EINVAL;
    ib->initiator.low_bytes = low_bytes;
    ib->initiator.high_bytes = high_bytes;
    ib->initiator.asked_again = 0;
    ib->now_ns = ib->start_ns = now_ns;
    ib->end_ns = AUTOBUF_NS_UNSET;
    ib->limit_ns = now_ns + ib->options.timeout_ns + AB_INBAND_GRACE_NS;
    want_directions(ib, directions);
    return next_round(ib);
}

/* Whatever was sent before a line that answers it: it has been to the peer and back. */
static uint64_t note_answer(struct autobuf_inband *ib)
{
    uint64_t took_ns = ab_max(ib->now_ns - ab_min(ib->out.sent_ns, ib->now_ns), 1);

    ib->shortest_ns = ab_min(ib->shortest_ns, took_ns);
    return took_ns;
}

static int handle_hello(struct autobuf_inband *ib, const struct ab_line *line)
{
    struct ab_initiator *own = &ib->initiator;

    if (line->verb != AB_HELLO || line->count < 1 || line->numbers[0] != AB_INBAND_VERSION) {
        ib->outcome = AUTOBUF_E_UNSUPPORTED;
        ab_inband_end(ib);
        return 0;
    }
    ib->greeted = true;
    own->peer_train_bytes = line->values[AB_KEY_TRAIN];
    own->peer_budget_bytes = line->values[AB_KEY_BUDGET];
    if (ib->framing->reply_end && !own->peer_budget_bytes) /* the peer's reply may leave it out */
        own->peer_budget_bytes = AUTOBUF_INBAND_BUDGET_BYTES;
    own->peer_max_bytes[0] = line->values[AB_KEY_MAXRCV];
    own->peer_max_bytes[1] = line->values[AB_KEY_MAXSND];
    ib->exchange_ns = note_answer(ib);
    if (own->hello_only) {
        ab_inband_end(ib);
        return 0;
    }
    want_directions(ib, ib->options.flags);
    return next_round(ib);
}

static int handle_train(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes)
{
    struct ab_line expected = *line;

    note_answer(ib);
    if (line->verb == AB_ERROR) {
        ib->initiator.awaits_train = false;
        ib->initiator.rx_done = true;
        return end_of_round(ib);
    }
    if (ib->framing->reply_end) /* the reply ends with its last line, not at the announced length */
        expected.numbers[0] = ab_min(expected.numbers[0], ib->rx.train_bytes);
    if (line->verb != AB_TRAIN || line->count != 1 || expected.numbers[0] == 0 ||
        expected.numbers[0] > ib->rx.train_bytes)
        return AUTOBUF_E_PROTOCOL;
    ib->rx.train_bytes = expected.numbers[0] + line_bytes;
    ib->rx.spent_bytes += ib->rx.train_bytes;
    ib->rx.trains++;
    ib->initiator.reply_matched = ib->initiator.drained_bytes = 0;
    return ab_inband_expect_train(ib, &expected, line_bytes);
}

/* Returns the bytes up to the end of the reply's last line, which begins with its code and a blank. */
static size_t to_end_of_reply(struct autobuf_inband *ib, const char *data, size_t len, bool *ended)
{
    size_t *matched = &ib->initiator.reply_matched;

    *ended = false;
    for (size_t i = 0; i < len; i++) {
        if (*matched < REPLY_CODE_BYTES)
            *matched = data[i] == ib->framing->reply_end[*matched] ? *matched + 1 : REPLY_CODE_BYTES + 1;
        if (data[i] != '\n')
            continue;
        *ended = *matched == REPLY_CODE_BYTES;
        *matched = 0;
        if (*ended)
            return i + 1;
    }
    return len;
}

/* A reply may end sooner or later than announced: reads it to its end, up to a limit. */
static int64_t part_of_reply(struct autobuf_inband *ib, const char *data, size_t len)
{
    uint64_t *left = &ib->in.payload_left;
    bool ended;
    size_t taken = to_end_of_reply(ib, data, (size_t)ab_min(len, *left), &ended);

    *left = ended ? 0 : *left - taken;
    if (!ended && *left == 0) {
        *left = AB_LINE_BYTES;
        ib->initiator.drained_bytes += AB_LINE_BYTES;
    }
    return ib->initiator.drained_bytes > DRAINED_MAX_BYTES ? AUTOBUF_E_PROTOCOL : (int64_t)taken;
}

static int64_t initiator_part(struct autobuf_inband *ib, const char *data, size_t len)
{
    return ib->framing->reply_end ? part_of_reply(ib, data, len) : ab_inband_plain_part(ib, data, len);
}

static int initiator_payload(struct autobuf_inband *ib)
{
    ib->initiator.awaits_train = false;
    if (!ib->initiator.asked_again) /* one packet has no gap */
        ab_inband_estimate(ib);
    return end_of_round(ib);
}

static void handle_reading(struct autobuf_inband *ib, const struct ab_line *line)
{
    struct ab_reading reading;

    if (!ab_reading_parse(line, &reading) ||
        !ab_reading_possible(&reading, ib->tx.train_bytes, ib->now_ns - ib->initiator.round_begin_ns)) {
        ab_log(&ib->log, "in band: the peer reports a rate that is not possible");
        ib->tx.reading = (struct ab_reading){0};
        return;
    }
    ib->tx.reading = reading;
}

/* For a responder that reports bytes and time, but no rate. */
static void complete_reading(const struct autobuf_inband *ib, struct ab_line *line)
{
    uint64_t *v = line->values, rate;

    if (!ib->framing->reply_end || v[AB_KEY_RATE] || !v[AB_KEY_NSEC] ||
        v[AB_KEY_BYTES] > ib->tx.train_bytes)
        return;
    rate = ab_mul_div(ab_inband_wire_bytes(ib, v[AB_KEY_BYTES]), BITS_NS, v[AB_KEY_NSEC]);
    v[AB_KEY_RATE] = v[AB_KEY_LOW] = v[AB_KEY_HIGH] = ab_min(rate, AB_PLAUSIBLE_BIT_PER_S);
    v[AB_KEY_SURE] = v[AB_KEY_NSEC] >= LONG_ENOUGH_NS;
    v[AB_KEY_ATLEAST] = v[AB_KEY_NSEC] < AB_WINDOW_NS || (ib->facts.flags & AUTOBUF_INBAND_PACED);
}

/* The responder is ready for the payload. */
static int handle_go(struct autobuf_inband *ib, const struct ab_line *line)
{
    int error;

    if (line->verb != AB_GO && line->verb != AB_ERROR)
        return AUTOBUF_E_PROTOCOL;
    ib->initiator.awaits_go = false;
    note_answer(ib);
    if (line->verb == AB_GO) {
        ib->initiator.round_begin_ns = ib->now_ns;
        return send_payload(ib, NULL);
    }
    ib->initiator.awaits_sink = false;
    ib->initiator.tx_done = true;
    error = ask_for_train(ib);
    return error < 0 ? error : end_of_round(ib);
}

static int handle_sink(struct autobuf_inband *ib, const struct ab_line *line)
{
    struct ab_line complete = *line;

    if (line->verb != AB_SINK && line->verb != AB_ERROR)
        return AUTOBUF_E_PROTOCOL;
    note_answer(ib);
    if (line->verb == AB_SINK) {
        complete_reading(ib, &complete);
        handle_reading(ib, &complete);
    } else {
        ib->initiator.tx_done = true;
    }
    ib->initiator.awaits_sink = false;
    return end_of_round(ib);
}

static int handle_round(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes)
{
    if (ib->initiator.awaits_go)
        return handle_go(ib, line);
    if (ib->initiator.awaits_sink)
        return handle_sink(ib, line);
    return ib->initiator.awaits_train ? handle_train(ib, line, line_bytes) : AUTOBUF_E_PROTOCOL;
}

static int handle_result(struct autobuf_inband *ib, const struct ab_line *line)
{
    if (line->verb != AB_RESULT && line->verb != AB_ERROR)
        return AUTOBUF_E_PROTOCOL;
    note_answer(ib);
    ab_inband_end(ib);
    return 0;
}

static int handle_set(struct autobuf_inband *ib, const struct ab_line *line)
{
    bool is_reply = line->verb == AB_ERROR || (line->verb == AB_NO_VERB && ib->framing->reply_end);

    if (!is_reply && (line->verb != AB_SET || line->count != 2))
        return AUTOBUF_E_PROTOCOL;
    ib->initiator.has_set_answer = line->verb == AB_SET;
    ib->initiator.set_answer[0] = line->numbers[0];
    ib->initiator.set_answer[1] = line->numbers[1];
    ab_inband_end(ib);
    return 0;
}

static int initiator_line(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes)
{
    if (line->verb == AB_MORE)
        return 0;
    switch (ib->phase) {
    case AB_PHASE_HELLO:
        return handle_hello(ib, line);
    case AB_PHASE_ROUND:
        return handle_round(ib, line, line_bytes);
    case AB_PHASE_RESULT:
        return handle_result(ib, line);
    default:
        return handle_set(ib, line);
    }
}

int ab_inband_set(struct autobuf_inband *ib, uint64_t now_ns, uint64_t rcv_bytes, uint64_t snd_bytes)
{
    struct ab_line line = {.verb = AB_SET, .count = 2, .numbers = {rcv_bytes, snd_bytes}};

    if (!can_continue(ib))
        return -EINVAL;
    ib->phase = AB_PHASE_SET;
    ib->now_ns = now_ns;
    ib->limit_ns = now_ns + ib->options.timeout_ns + AB_INBAND_GRACE_NS;
    ib->initiator.has_set_answer = false;
    return ab_inband_queue_line(ib, &line, NULL);
}

const struct ab_role ab_role_initiator = {initiator_begin, initiator_line, initiator_part, initiator_payload};

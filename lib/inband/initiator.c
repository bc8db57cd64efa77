/* SPDX-License-Identifier: MIT */
#include "role.h"

#include <errno.h>

#define FIRST_SEGMENTS 10U /* what any initial congestion window lets go at once (RFC 6928) */
#define LEAST_SEGMENTS 3U
#define LONG_ENOUGH_NS (1500 * AB_NS_PER_US) /* a train: with the step of two, 1.5 to 3 ms */
#define CHEAP_BIT_PER_S 200000000U
#define SLOW_BIT_PER_S 120000000U
#define CHEAP_BYTES 60000U  /* IP bytes of trains that are enough for paths up to CHEAP_BIT_PER_S */
#define ROUND_TRIPS_MOST 6U
#define ROUND_TRIPS_LEFT 2U /* that a round and the RESULT take; a SINK that waits takes one more */
#define EXTRA_NS (500 * AB_NS_PER_MS)
#define CLEAR_PERCENT 125U /* of a product of interest: not to be mistaken for it */
#define BITS_NS (8 * AB_NS_PER_S)

static int initiator_begin(struct autobuf_inband *ib)
{
    struct ab_line line = {.verb = AB_HELLO, .count = 1, .numbers = {AB_INBAND_VERSION}};

    ib->phase = AB_PHASE_HELLO;
    ib->round_ns = ib->start_ns; /* for a peer that answers before it is asked */
    ib->limit_ns = ib->start_ns + ib->options.timeout_ns + AB_INBAND_GRACE_NS;
    line.values[AB_KEY_TRAIN] = line.values[AB_KEY_BUDGET] = ab_inband_budget_bytes(ib);
    return ab_inband_say(ib, &line, NULL);
}

/*
 * Whether a few trains are enough for a path like this. Its rate says so; or that of the newest train as
 * a whole, where something bunched an earlier one.
 */
static bool is_cheap(const struct autobuf_inband *ib, const struct ab_reading *r)
{
    uint64_t whole_bit_per_s =
        ab_mul_div(ab_inband_wire_bytes(ib, r->bytes), BITS_NS, ab_max(r->span_ns, 1));

    return r->rate_bit_per_s &&
           (r->rate_bit_per_s <= CHEAP_BIT_PER_S || whole_bit_per_s <= SLOW_BIT_PER_S);
}

/* Payload of the next train in a direction, of which most bytes may be sent at once; 0: no more. */
static uint64_t next_train(struct autobuf_inband *ib, struct ab_direction *d, uint64_t most)
{
    uint64_t segment_bytes = ib->facts.segment_bytes;
    uint64_t budget = ab_min(ab_inband_budget_bytes(ib), ib->peer_budget_bytes);
    uint64_t len = d->trains ? 2 * d->train_bytes : FIRST_SEGMENTS * segment_bytes;

    if (is_cheap(ib, &d->reading))
        budget = ab_min(budget, (uint64_t)CHEAP_BYTES * segment_bytes / ib->facts.packet_bytes);
    if (d->done || d->spent_bytes >= budget)
        return 0;
    len = ab_min(ab_min(len, most), budget - d->spent_bytes) / segment_bytes * segment_bytes;
    return len < LEAST_SEGMENTS * segment_bytes ? 0 : len;
}

/* The trains of a direction are long enough, and agree. */
static bool is_enough(const struct ab_direction *d)
{
    return d->reading.sure && !d->reading.at_least && d->reading.span_ns >= LONG_ENOUGH_NS;
}

/*
 * What is known by now decides: a product beyond those of interest by far, or by two trains. One train may
 * have come in batches.
 */
static bool is_decided(const struct autobuf_inband *ib, const struct ab_direction *d)
{
    const struct ab_reading *r = &d->reading;
    uint64_t percent = d->trains < 2 ? CLEAR_PERCENT : 100;

    if (!r->sure || r->at_least || !ib->high_bytes)
        return false;
    return ab_inband_product(ib, r->low_bit_per_s) > ab_mul_div(ib->high_bytes, percent, 100) ||
           ab_mul_div(ab_inband_product(ib, r->high_bit_per_s), percent, 100) < ib->low_bytes;
}

static int begin_result(struct autobuf_inband *ib)
{
    struct ab_line line = {.verb = AB_RESULT};

    if (!ib->dress->has_result) {
        ab_inband_over(ib);
        return 0;
    }
    ib->phase = AB_PHASE_RESULT;
    ab_reading_tell(&ib->rx.reading, &line);
    if (ib->exchange_ns != AUTOBUF_NS_UNSET)
        line.values[AB_KEY_RTT] = ab_min(ib->exchange_ns, ib->options.timeout_ns);
    return ab_inband_say(ib, &line, NULL);
}

static bool is_late(const struct autobuf_inband *ib)
{
    uint64_t elapsed_ns = ib->now_ns - ib->start_ns;
    unsigned left = ib->dress->sink_waits ? ROUND_TRIPS_LEFT + 1 : ROUND_TRIPS_LEFT;

    return elapsed_ns >= ib->options.timeout_ns ||
           elapsed_ns > (ROUND_TRIPS_MOST - left) * ib->exchange_ns + EXTRA_NS;
}

static size_t build_ask_for_train(const struct autobuf_inband *ib, struct ab_line *line)
{
    char text[AB_LINE_BYTES];

    *line = (struct ab_line){.verb = AB_TRAIN, .count = 1, .numbers = {ib->ask_bytes}};
    return ib->ask_bytes
               ? ib->dress->build_ask(line, ib->options.prefix, NULL, text, sizeof text)
               : 0;
}

static int ask_for_train(struct autobuf_inband *ib)
{
    struct ab_line line;

    if (build_ask_for_train(ib, &line) == 0)
        return 0;
    ib->awaits_train = true;
    ib->rx.train_bytes = ib->ask_bytes;
    ib->ask_bytes = 0;
    return ab_inband_say(ib, &line, NULL);
}

/*
 * The train from here, and at its end the line that asks for the other: as one write, for one round trip,
 * but one train begins when the other is through. Both at once would be more than many a host can do,
 * and acknowledgements would come between.
 */
static int send_payload(struct autobuf_inband *ib, struct ab_line *line)
{
    struct ab_line ask;
    int error =
        ab_inband_say_train(ib, line, ib->tx.train_bytes, build_ask_for_train(ib, &ask));

    return error < 0 ? error : ask_for_train(ib);
}

static int send_train(struct autobuf_inband *ib, uint64_t len)
{
    struct ab_line line = {.verb = AB_SINK, .count = 1, .numbers = {len}};

    ab_inband_tell_pace(ib, &line);
    ib->awaits_sink = true;
    ib->awaits_go = ib->dress->sink_waits;
    ib->tx.train_bytes = len;
    ib->tx.spent_bytes += len;
    ib->tx.trains++;
    return ib->awaits_go ? ab_inband_say(ib, &line, NULL) : send_payload(ib, &line);
}

static int next_round(struct autobuf_inband *ib)
{
    uint64_t most = ib->facts.train_bytes ? ib->facts.train_bytes : AUTOBUF_INBAND_BUDGET_BYTES;
    uint64_t tx;

    ib->rx.done |= is_enough(&ib->rx) || is_decided(ib, &ib->rx);
    ib->tx.done |= is_enough(&ib->tx) || is_decided(ib, &ib->tx);
    ib->ask_bytes = next_train(ib, &ib->rx, ib->peer_train_bytes);
    tx = next_train(ib, &ib->tx, ab_min(most, ib->peer_train_bytes));
    if ((!ib->ask_bytes && !tx) || is_late(ib))
        return begin_result(ib);
    ib->phase = AB_PHASE_ROUND;
    ib->round_begin_ns = ib->now_ns;
    return tx ? send_train(ib, tx) : ask_for_train(ib);
}

static int end_of_round(struct autobuf_inband *ib)
{
    return ib->awaits_train || ib->awaits_sink ? 0 : next_round(ib);
}

/* Begins a direction anew, but for what it has spent; or leaves it as it is. */
static void want_direction(struct ab_direction *d, bool wanted)
{
    if (wanted)
        *d = (struct ab_direction){.spent_bytes = d->spent_bytes};
    d->done = !wanted;
}

static void want_directions(struct autobuf_inband *ib, uint32_t directions)
{
    directions &= AUTOBUF_INBAND_TX | AUTOBUF_INBAND_RX;
    want_direction(&ib->tx, directions != AUTOBUF_INBAND_RX);
    want_direction(&ib->rx, directions != AUTOBUF_INBAND_TX);
}

int autobuf_inband_begin(struct autobuf_inband *ib, uint64_t now_ns, uint32_t directions)
{
    if (ib->role != AUTOBUF_INBAND_INITIATOR || ib->outcome < 0 ||
        !(ib->options.flags & AUTOBUF_INBAND_GREET) || autobuf_inband_state(ib) != 1)
        return -EINVAL;
    ib->now_ns = ib->start_ns = now_ns;
    ib->end_ns = AUTOBUF_NS_UNSET;
    ib->limit_ns = now_ns + ib->options.timeout_ns + AB_INBAND_GRACE_NS;
    want_directions(ib, directions);
    return next_round(ib);
}

int autobuf_inband_peer(const struct autobuf_inband *ib, uint64_t *rcv_bytes, uint64_t *snd_bytes)
{
    if (ib->role == AUTOBUF_INBAND_INITIATOR ? ib->exchange_ns == AUTOBUF_NS_UNSET : !ib->greeted)
        return -ENODATA;
    *rcv_bytes = ib->peer_max_bytes[0];
    *snd_bytes = ib->peer_max_bytes[1];
    return 0;
}

static int hear_hello(struct autobuf_inband *ib, const struct ab_line *line)
{
    if (line->verb != AB_HELLO || line->count < 1 || line->numbers[0] != AB_INBAND_VERSION) {
        ib->outcome = AUTOBUF_E_UNSUPPORTED;
        ab_inband_over(ib);
        return 0;
    }
    ib->peer_train_bytes = line->values[AB_KEY_TRAIN];
    ib->peer_budget_bytes = line->values[AB_KEY_BUDGET];
    if (!ib->dress->has_result && !ib->peer_budget_bytes) /* the peer's reply need not tell it */
        ib->peer_budget_bytes = AUTOBUF_INBAND_BUDGET_BYTES;
    ib->peer_max_bytes[0] = line->values[AB_KEY_MAXRCV];
    ib->peer_max_bytes[1] = line->values[AB_KEY_MAXSND];
    ib->exchange_ns = ab_max(ib->now_ns - ab_min(ib->round_ns, ib->now_ns), 1);
    if (ib->options.flags & AUTOBUF_INBAND_GREET) {
        ab_inband_over(ib);
        return 0;
    }
    want_directions(ib, ib->options.flags);
    return next_round(ib);
}

static int hear_train(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes)
{
    struct ab_line expected = *line;

    if (line->verb == AB_ERROR) {
        ib->awaits_train = false;
        ib->rx.done = true;
        return end_of_round(ib);
    }
    if (ib->dress->train_end[0]) /* a reply ends with its last line, whatever it says */
        expected.numbers[0] = ab_min(expected.numbers[0], ib->rx.train_bytes);
    if (line->verb != AB_TRAIN || line->count != 1 || expected.numbers[0] == 0 ||
        expected.numbers[0] > ib->rx.train_bytes)
        return AUTOBUF_E_PROTOCOL;
    ib->rx.train_bytes = expected.numbers[0] + line_bytes;
    ib->rx.spent_bytes += ib->rx.train_bytes;
    ib->rx.trains++;
    return ab_inband_expect(ib, &expected, line_bytes);
}

static int initiator_payload(struct autobuf_inband *ib)
{
    ib->awaits_train = false;
    ab_inband_read(ib);
    return end_of_round(ib);
}

/*
 * Whether a reading of the train that was sent can be: no longer than that one, not under way for longer
 * than its answer took, nor slower than it must have been for the answer to be here. How much faster the
 * path could be nobody can tell; what a plan makes of it is bounded by this host's limits.
 */
static bool is_possible(const struct autobuf_inband *ib, const struct ab_reading *r)
{
    uint64_t elapsed_ns = ib->now_ns - ib->round_begin_ns;
    uint64_t least_bit_per_s = ab_mul_div(ib->tx.train_bytes, BITS_NS, ab_max(elapsed_ns, 1));

    return r->bytes <= ib->tx.train_bytes && r->span_ns <= elapsed_ns &&
           r->rate_bit_per_s >= least_bit_per_s / 10 * 9;
}

static void hear_reading(struct autobuf_inband *ib, const struct ab_line *line)
{
    struct ab_reading reading;

    if (!ab_reading_hear(line, &reading) || !is_possible(ib, &reading)) {
        ab_log(&ib->log, "in band: what the peer says of its trains cannot be");
        ib->tx.reading = (struct ab_reading){0};
        return;
    }
    ib->tx.reading = reading;
}

/* A responder that tells no rate, but what came in which time. */
static void complete_reading(const struct autobuf_inband *ib, struct ab_line *line)
{
    uint64_t *v = line->values, rate;

    if (ib->dress->has_result || v[AB_KEY_RATE] || !v[AB_KEY_NSEC] ||
        v[AB_KEY_BYTES] > ib->tx.train_bytes)
        return;
    rate = ab_mul_div(ab_inband_wire_bytes(ib, v[AB_KEY_BYTES]), BITS_NS, v[AB_KEY_NSEC]);
    v[AB_KEY_RATE] = v[AB_KEY_LOW] = v[AB_KEY_HIGH] = ab_min(rate, AB_PLAUSIBLE_BIT_PER_S);
    v[AB_KEY_SURE] = v[AB_KEY_NSEC] >= LONG_ENOUGH_NS;
    v[AB_KEY_ATLEAST] = v[AB_KEY_NSEC] < AB_WINDOW_NS || (ib->facts.flags & AUTOBUF_INBAND_PACED);
}

/* Payload, when the responder says that it waits for it. */
static int hear_go(struct autobuf_inband *ib, const struct ab_line *line)
{
    int error;

    if (line->verb != AB_GO && line->verb != AB_ERROR)
        return AUTOBUF_E_PROTOCOL;
    ib->awaits_go = false;
    if (line->verb == AB_GO) {
        ib->round_begin_ns = ib->now_ns;
        return send_payload(ib, NULL);
    }
    ib->awaits_sink = false;
    ib->tx.done = true;
    error = ask_for_train(ib);
    return error < 0 ? error : end_of_round(ib);
}

static int hear_sink(struct autobuf_inband *ib, const struct ab_line *line)
{
    struct ab_line complete = *line;

    if (line->verb != AB_SINK && line->verb != AB_ERROR)
        return AUTOBUF_E_PROTOCOL;
    if (line->verb == AB_SINK) {
        complete_reading(ib, &complete);
        hear_reading(ib, &complete);
    } else {
        ib->tx.done = true;
    }
    ib->awaits_sink = false;
    return end_of_round(ib);
}

static int hear_round(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes)
{
    if (ib->awaits_go)
        return hear_go(ib, line);
    if (ib->awaits_sink)
        return hear_sink(ib, line);
    return ib->awaits_train ? hear_train(ib, line, line_bytes) : AUTOBUF_E_PROTOCOL;
}

static int hear_result(struct autobuf_inband *ib, const struct ab_line *line)
{
    if (line->verb != AB_RESULT && line->verb != AB_ERROR)
        return AUTOBUF_E_PROTOCOL;
    ab_inband_over(ib);
    return 0;
}

static int hear_set(struct autobuf_inband *ib, const struct ab_line *line)
{
    bool is_reply = line->verb == AB_ERROR || (line->verb == AB_NO_VERB && !ib->dress->has_result);

    if (!is_reply && (line->verb != AB_SET || line->count != 2))
        return AUTOBUF_E_PROTOCOL;
    ib->took_known = line->verb == AB_SET;
    ib->took[0] = line->numbers[0];
    ib->took[1] = line->numbers[1];
    ab_inband_over(ib);
    return 0;
}

static int initiator_line(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes)
{
    if (line->verb == AB_MORE)
        return 0;
    switch (ib->phase) {
    case AB_PHASE_HELLO:
        return hear_hello(ib, line);
    case AB_PHASE_ROUND:
        return hear_round(ib, line, line_bytes);
    case AB_PHASE_RESULT:
        return hear_result(ib, line);
    default:
        return hear_set(ib, line);
    }
}

int autobuf_inband_set(struct autobuf_inband *ib, uint64_t now_ns, uint64_t rcv_bytes,
                       uint64_t snd_bytes)
{
    struct ab_line line = {.verb = AB_SET, .count = 2, .numbers = {rcv_bytes, snd_bytes}};

    if (ib->role != AUTOBUF_INBAND_INITIATOR || ib->outcome < 0 || autobuf_inband_state(ib) != 1)
        return -EINVAL;
    ib->phase = AB_PHASE_SET;
    ib->now_ns = now_ns;
    ib->limit_ns = now_ns + ib->options.timeout_ns + AB_INBAND_GRACE_NS;
    ib->took_known = false;
    return ab_inband_say(ib, &line, NULL);
}

int autobuf_inband_took(const struct autobuf_inband *ib, uint64_t *rcv_bytes, uint64_t *snd_bytes)
{
    if (!ib->took_known)
        return -ENODATA;
    *rcv_bytes = ib->took[0];
    *snd_bytes = ib->took[1];
    return 0;
}

const struct ab_role *ab_role_initiator(void)
{
    static const struct ab_role role = {initiator_begin, initiator_line, initiator_payload};

    return &role;
}

/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include <errno.h>

/* Bounds of one handle. */
#define ERRORS_MAX 8U
#define TRAINS_MAX 64U
#define REQUEST_MAX_BYTES (1ULL << 30)
#define LINES_MAX 512U /* 64 trains each way take 130 lines */

enum { UNKNOWN_COMMAND = 500, BAD_ARGUMENT = 501, BAD_SEQUENCE = 503, OVER_BUDGET = 452 };

/* Payload that the budget leaves. A smaller segment may shrink the budget below what is spent: 0. */
static uint64_t left_of_budget(const struct autobuf_inband *ib, const struct ab_direction *d)
{
    uint64_t budget_bytes = ab_inband_budget_bytes(ib);

    return budget_bytes - ab_min(budget_bytes, d->spent_bytes);
}

static int answer_error(struct autobuf_inband *ib, uint64_t code, const char *text)
{
    struct ab_line line = {.verb = AB_ERROR, .count = 1, .numbers = {code}};

    if (++ib->responder.errors > ERRORS_MAX)
        return AUTOBUF_E_PROTOCOL;
    return ab_inband_queue_line(ib, &line, text);
}

/* Without RESULT an exchange runs from the first HELLO on. */
static bool is_measuring(const struct autobuf_inband *ib)
{
    return ib->framing->reply_end ? ib->greeted : ib->phase == AB_PHASE_BUSY;
}

static int answer_hello(struct autobuf_inband *ib, const struct ab_line *asked)
{
    struct ab_line line = {.verb = AB_HELLO, .count = 1, .numbers = {AB_INBAND_VERSION}};

    if (ib->phase == AB_PHASE_BUSY)
        return answer_error(ib, BAD_SEQUENCE, "one HELLO is enough");
    if (asked->count < 1 || asked->numbers[0] < AB_INBAND_VERSION)
        return answer_error(ib, BAD_ARGUMENT, "HELLO takes a version");
    if (!ib->framing->reply_end)
        ib->phase = AB_PHASE_BUSY;
    ib->greeted = true;
    ib->start_ns = ib->now_ns;
    ib->end_ns = ib->exchange_ns = AUTOBUF_NS_UNSET;
    ib->rx.reading = ib->tx.reading = (struct ab_reading){0};
    ib->tx.train_bytes = 0;
    line.values[AB_KEY_TRAIN] = line.values[AB_KEY_BUDGET] = ab_inband_budget_bytes(ib);
    line.values[AB_KEY_MAXRCV] = ib->responder.rcv_max_bytes;
    line.values[AB_KEY_MAXSND] = ib->responder.snd_max_bytes;
    return ab_inband_queue_line(ib, &line, NULL);
}

/* The part of the train that can be sent back to back, in whole segments. */
static uint64_t clipped_train(const struct autobuf_inband *ib, uint64_t asked)
{
    uint64_t segment_bytes = ib->facts.segment_bytes;
    uint64_t most = ab_max(ib->facts.train_bytes, AB_INBAND_TRAIN_SEGMENTS * segment_bytes);

    return ib->facts.train_bytes && asked > most ? most / segment_bytes * segment_bytes : asked;
}

static int answer_train(struct autobuf_inband *ib, const struct ab_line *asked)
{
    struct ab_line line = {.verb = AB_TRAIN, .count = 1};
    uint64_t left = left_of_budget(ib, &ib->tx);
    uint64_t len;

    if (!is_measuring(ib))
        return answer_error(ib, BAD_SEQUENCE, ib->framing->no_hello);
    if (asked->count != 1 || asked->numbers[0] < ib->facts.segment_bytes ||
        asked->numbers[0] > AUTOBUF_INBAND_BUDGET_BYTES)
        return answer_error(ib, BAD_ARGUMENT, "TRAIN takes a number of bytes");
    len = clipped_train(ib, asked->numbers[0]);
    if (len > left)
        return answer_error(ib, OVER_BUDGET, "no more trains on this connection");
    ib->tx.train_bytes = ab_max(ib->tx.train_bytes, len); /* one packet, to be asked again, is not what is reported */
    ib->tx.spent_bytes += len;
    ab_inband_add_pace(ib, &line);
    return ab_inband_queue_train(ib, &line, (size_t)len, 0);
}

static int refuse_sink_now(struct autobuf_inband *ib)
{
    return is_measuring(ib) ? answer_error(ib, OVER_BUDGET, "no more trains on this connection")
                            : answer_error(ib, BAD_SEQUENCE, ib->framing->no_hello);
}

/* Without AB_GO the payload comes whatever the answer is: drop it, then answer. */
static int refuse_sink(struct autobuf_inband *ib, uint64_t len)
{
    if (ib->framing->reply_end)
        return refuse_sink_now(ib);
    ab_inband_discard(ib, len);
    return 0;
}

static int answer_sink(struct autobuf_inband *ib, const struct ab_line *asked, size_t line_bytes)
{
    uint64_t len = asked->numbers[0];
    uint64_t left = left_of_budget(ib, &ib->rx);
    bool valid = asked->count == 1 && len > 0 && len <= AUTOBUF_INBAND_BUDGET_BYTES;
    int error;

    if (!valid)
        return ib->framing->reply_end ? answer_error(ib, BAD_ARGUMENT, "SINK takes a number of bytes")
                                     : AUTOBUF_E_PROTOCOL;
    if (!is_measuring(ib) || len > left || ib->rx.trains == TRAINS_MAX)
        return refuse_sink(ib, len);
    ib->rx.spent_bytes += len;
    ib->rx.trains++;
    if (!ib->framing->reply_end)
        return ab_inband_expect_train(ib, asked, line_bytes);
    error = ab_inband_queue_line(ib, &(struct ab_line){.verb = AB_GO, .count = 1, .numbers = {len}}, NULL);
    return error < 0 ? error : ab_inband_expect_train(ib, asked, 0);
}

static int responder_payload(struct autobuf_inband *ib)
{
    struct ab_line line = {.verb = AB_SINK};

    if (ib->arrivals.discards)
        return refuse_sink_now(ib);
    ab_inband_estimate(ib);
    ab_reading_write(&ib->rx.reading, &line);
    return ab_inband_queue_line(ib, &line, NULL);
}

/* The time of HELLO and its answer as the peer reports it, at least TCP's minimum RTT. */
static void take_rtt(struct autobuf_inband *ib, uint64_t rtt_ns)
{
    uint64_t min_ns = ib->facts.rtt_min_ns == AUTOBUF_NS_UNSET ? 1 : ib->facts.rtt_min_ns;

    if (rtt_ns >= min_ns && rtt_ns < ib->options.timeout_ns)
        ib->exchange_ns = rtt_ns;
}

static int answer_result(struct autobuf_inband *ib, const struct ab_line *told)
{
    struct ab_line line = {.verb = AB_RESULT};
    int error;

    if (ib->phase != AB_PHASE_BUSY)
        return answer_error(ib, BAD_SEQUENCE, ib->framing->no_hello);
    if (!ab_reading_parse(told, &ib->tx.reading) ||
        !ab_reading_possible(&ib->tx.reading, ib->tx.train_bytes, ib->now_ns - ib->start_ns))
        ib->tx.reading = (struct ab_reading){0};
    take_rtt(ib, told->values[AB_KEY_RTT]);
    ab_reading_write(&ib->rx.reading, &line);
    if (ib->facts.rtt_min_ns != AUTOBUF_NS_UNSET)
        line.values[AB_KEY_RTT] = ib->facts.rtt_min_ns;
    error = ab_inband_queue_line(ib, &line, NULL);
    ab_inband_end(ib);
    return error;
}

static int answer_set(struct autobuf_inband *ib, const struct ab_line *asked)
{
    struct ab_line line = {.verb = AB_SET, .count = 2};

    if (!ib->greeted)
        return answer_error(ib, BAD_SEQUENCE, ib->framing->no_hello);
    if (asked->count != 2 || asked->numbers[0] > REQUEST_MAX_BYTES ||
        asked->numbers[1] > REQUEST_MAX_BYTES)
        return answer_error(ib, BAD_ARGUMENT, "SET takes two sizes");
    if (ib->responder.set) {
        line.numbers[0] = asked->numbers[0];
        line.numbers[1] = asked->numbers[1];
        ib->responder.set(ib->responder.set_user, &line.numbers[0], &line.numbers[1]);
    }
    return ab_inband_queue_line(ib, &line, NULL);
}

static int responder_line(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes)
{
    if (++ib->responder.lines > LINES_MAX)
        return AUTOBUF_E_PROTOCOL;
    switch (line->verb) {
    case AB_HELLO:
        return answer_hello(ib, line);
    case AB_TRAIN:
        return answer_train(ib, line);
    case AB_SINK:
        return answer_sink(ib, line, line_bytes);
    case AB_RESULT:
        return answer_result(ib, line);
    case AB_SET:
        return answer_set(ib, line);
    default:
        return answer_error(ib, UNKNOWN_COMMAND, ib->framing->unknown);
    }
}

const struct ab_role ab_role_responder = {NULL, responder_line, ab_inband_plain_part, responder_payload};

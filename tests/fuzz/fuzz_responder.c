/* SPDX-License-Identifier: MIT */
/*
 * The responder of an in-band exchange, on a pure handle. The input is its options and then a
 * script: lines with any numbers, whole or not, and any bytes arrive in pieces, trains with or
 * without all their payload; what it answers is sent in parts; time passes, or jumps anywhere; the
 * facts change. Each line has one answer, and a train no more bytes than the budget leaves.
 */
#include "exchange.h"

#define OUT_MOST (TRAIN_MOST + AB_LINE_BYTES + 4096)
#define SET_MOST (1ULL << 30)

struct run {
    struct exchange x; /* first: said() finds the rest by it */
    unsigned complaints;
    uint64_t took[2];     /* what the set function answers */
    unsigned sets;        /* how often it was called */
};

static struct run run;

static void run_set(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes)
{
    CHECK(!user || user == &run);
    CHECK(*rcv_bytes <= SET_MOST && *snd_bytes <= SET_MOST);
    *rcv_bytes = run.took[0];
    *snd_bytes = run.took[1];
    run.sets++;
}

static void check_reading(const struct ab_line *line)
{
    const uint64_t *v = line->values;

    CHECK(line->count == 0 && v[AB_KEY_NSEC] <= 30 * AB_NS_PER_S);
    CHECK(v[AB_KEY_LOW] <= v[AB_KEY_RATE] && v[AB_KEY_RATE] <= v[AB_KEY_HIGH]);
    CHECK(v[AB_KEY_SURE] <= 1 && v[AB_KEY_ATLEAST] <= 1);
}

static void check_set(const struct ab_line *line, const struct ab_line *asked)
{
    CHECK(asked->count == 2 && asked->numbers[0] <= SET_MOST && asked->numbers[1] <= SET_MOST);
    CHECK(line->count == 2 && (run.sets > 0) == run.x.sets);
    if (!run.x.sets)
        CHECK(line->numbers[0] == 0 && line->numbers[1] == 0);
    run.sets = 0;
}

static void run_said(struct exchange *x)
{
    const struct ab_line *line = &x->mouth.line, *asked = &x->ear.line;
    uint64_t code = line->numbers[0];

    CHECK(line->verb == AB_ERROR || line->verb == asked->verb);
    CHECK(line->verb == AB_ERROR || line->verb == AB_HELLO || x->ib->greeted);
    switch (line->verb) {
    case AB_HELLO:
        CHECK(line->count == 1 && code == 1 && asked->numbers[0] >= 1);
        CHECK(line->values[AB_KEY_BUDGET] == exchange_budget(x));
        break;
    case AB_TRAIN:
        CHECK(line->count == 1 && code > 2 && code <= asked->numbers[0]);
        CHECK(x->mouth.payload_bytes <= exchange_budget(x));
        break;
    case AB_SINK:
        CHECK(line->values[AB_KEY_BYTES] <= asked->numbers[0]);
        check_reading(line);
        break;
    case AB_RESULT:
        check_reading(line);
        break;
    case AB_SET:
        check_set(line, asked);
        break;
    default:
        CHECK(line->count == 1 && (code == 500 || code == 501 || code == 503 || code == 452));
        CHECK(++run.complaints <= 8);
        break;
    }
}

/* Each line has its answer, a train at its end; until all of that is sent, nothing is heard. */
static void run_check(void)
{
    const struct exchange *x = &run.x;
    bool payload = x->ear.payload_left > 0;

    if (x->state < 0)
        return;
    CHECK(x->mouth.lines + payload == x->ear.lines);
    CHECK((autobuf_inband_wanted(x->ib) == 0) == (x->pending > 0));
    CHECK(!payload || x->pending == 0);
    CHECK(x->state == 0 || (!payload && x->ear.text_bytes == 0));
    CHECK(x->state == 1 || payload || x->pending > 0 || x->ear.text_bytes > 0 ||
          autobuf_inband_deadline_ns(x->ib) != AUTOBUF_NS_UNSET);
    CHECK(x->ib->out.size <= OUT_MOST);
}

static void run_hear(const struct ab_line *line, struct input *in, unsigned how)
{
    char text[AB_LINE_BYTES];
    size_t len = exchange_line(&run.x, line, in, how % 4, text);

    exchange_feed(&run.x, how & 4 ? take_arrival(in) : (struct arrival){AB_LINE_BYTES, 0, false},
                  text, len);
}

static void run_hello(struct input *in, unsigned how)
{
    struct ab_line line = {.verb = AB_HELLO, .count = 1, .numbers = {1}};

    if (how & 16)
        line.numbers[0] = take_number(in);
    line.values[AB_KEY_TRAIN] = line.values[AB_KEY_BUDGET] = TRAIN_MOST;
    run_hear(&line, in, how);
}

static void run_train(struct input *in, unsigned how)
{
    struct ab_line line = {.verb = AB_TRAIN, .count = 1};

    line.numbers[0] = how & 16 ? take_number(in) : take(in, 2) * 10;
    run_hear(&line, in, how);
}

/* A train whose payload may be longer or shorter than announced. */
static void run_sink(struct input *in, unsigned how)
{
    struct ab_line line = {.verb = AB_SINK, .count = 1};
    struct arrival train = {run.x.facts.segment_bytes, take(in, 2) * 100, false};
    uint64_t len;

    line.numbers[0] = len = how & 16 ? take_number(in) : take(in, 2) * 10;
    if (how & 32) {
        line.values[AB_KEY_PACE] = take_number(in);
        line.values[AB_KEY_PACED] = take(in, 1);
    }
    if (how & 64)
        train = take_arrival(in);
    if (how & 128)
        len = take(in, 3);
    run_hear(&line, in, how);
    exchange_feed_payload(&run.x, train, len);
}

static void run_result(struct input *in, unsigned how)
{
    struct ab_line line = {.verb = AB_RESULT};

    line.values[AB_KEY_BYTES] = take(in, 3);
    line.values[AB_KEY_RATE] = how & 16 ? take_number(in) : 100000000;
    line.values[AB_KEY_LOW] = how & 32 ? take_number(in) : line.values[AB_KEY_RATE];
    line.values[AB_KEY_HIGH] = how & 64 ? take_number(in) : line.values[AB_KEY_RATE];
    line.values[AB_KEY_RTT] = take_number(in);
    run_hear(&line, in, how);
}

static void run_asks_for_sizes(struct input *in, unsigned how)
{
    struct ab_line line = {.verb = AB_SET, .count = how & 16 ? (unsigned)take(in, 1) % 3 : 2};

    line.numbers[0] = how & 32 ? take_number(in) : take(in, 3);
    line.numbers[1] = how & 64 ? take_number(in) : take(in, 3);
    run.took[0] = take_number(in);
    run.took[1] = take_number(in);
    run_hear(&line, in, how);
}

/* Any bytes, behind the prefix or not. */
static void run_raw(struct input *in, unsigned how)
{
    size_t len = (size_t)take(in, 1);
    struct arrival arrival = take_arrival(in);

    len = len < in->len ? len : in->len;
    if (how & 1) {
        exchange_feed(&run.x, arrival, run.x.prefix, strlen(run.x.prefix));
        exchange_feed(&run.x, arrival, " ", 1);
    }
    exchange_feed(&run.x, arrival, (const char *)in->data, len);
    in->data += len;
    in->len -= len;
}

static void run_time(struct input *in, unsigned how)
{
    uint64_t deadline_ns = autobuf_inband_deadline_ns(run.x.ib);

    if (how % 4 == 0)
        exchange_wait(&run.x, take_number(in)); /* anywhere, backwards too */
    else if (how % 4 == 1)
        run.x.now_ns = deadline_ns < LATEST_NS ? deadline_ns : run.x.now_ns;
    else
        exchange_wait(&run.x, take(in, 1) * 100000);
}

static void run_action(struct input *in)
{
    unsigned what = (unsigned)take(in, 1), how = (unsigned)take(in, 1);

    switch (what % 10) {
    case 0:
        run_time(in, how);
        break;
    case 1:
        exchange_send(&run.x, how & 1 ? SIZE_MAX : (size_t)take(in, 2));
        break;
    case 2:
        exchange_tell(&run.x, in);
        break;
    case 3:
        run_hello(in, how);
        break;
    case 4:
        run_train(in, how);
        break;
    case 5:
        run_sink(in, how);
        break;
    case 6:
        run_result(in, how);
        break;
    case 7:
        run_asks_for_sizes(in, how);
        break;
    case 8:
        run_raw(in, how);
        break;
    default:
        CHECK(ab_inband_set(run.x.ib, run.x.now_ns, 1, 1) == -EINVAL);
        if (how == 255)
            exchange_end(&run.x);
        break;
    }
    run_check();
    exchange_result(&run.x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};

    memset(&run, 0, sizeof run);
    run.x.said = run_said;
    if (!exchange_open(&run.x, AUTOBUF_INBAND_RESPONDER, &in,
                       len > 0 && data[0] & 128 ? run_set : NULL))
        return 0;
    CHECK(run.x.state == 1 && run.x.pending == 0);
    for (unsigned steps = 0; in.len > 0 && steps < 400; steps++)
        run_action(&in);
    exchange_to_the_end(&run.x);
    autobuf_inband_close(run.x.ib);
    return 0;
}

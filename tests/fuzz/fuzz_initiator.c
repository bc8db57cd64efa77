/* SPDX-License-Identifier: MIT */
/*
 * The initiator of an in-band exchange, on a pure handle. The input is its options and then a
 * script: time passes, or jumps anywhere; what it says is sent, in parts; the facts change; its
 * peer answers, honestly for whole rounds, or with other numbers, out of turn, or with any bytes;
 * the connection ends. When the script ends, so does the exchange, by its deadline.
 */
#include "exchange.h"

#define ASKED_MOST 8U

struct run {
    struct exchange x; /* first: said() finds the rest by it */
    struct ab_line asked[ASKED_MOST]; /* a ring: what is not answered yet */
    unsigned first, count;
    uint64_t rate_bit_per_s, rtt_ns; /* of an honest path */
    uint64_t train_bytes;            /* that an honest peer sends at once */
};

/* The first line that it decoder decides whether it goes on. */
static bool is_greeted(const struct run *r)
{
    const struct ab_line *first = &r->x.ear.first;

    return first->verb == AB_HELLO && first->count > 0 && first->numbers[0] == 1;
}

static void run_said(struct exchange *x)
{
    struct run *r = (struct run *)x;
    const struct ab_line *line = &x->mouth.line;
    uint64_t most = x->facts.train_bytes ? x->facts.train_bytes : TRAIN_MOST;

    CHECK((x->mouth.lines == 1) == (line->verb == AB_HELLO) && line->verb != AB_ERROR);
    CHECK(line->verb == AB_HELLO || is_greeted(r));
    if (line->verb == AB_TRAIN)
        CHECK(line->count == 1 && line->numbers[0] > 0 && line->numbers[0] <= TRAIN_MOST);
    if (line->verb == AB_SINK) {
        CHECK(line->count == 1 && line->numbers[0] > 2 && line->numbers[0] <= most);
        CHECK(line->numbers[0] <= x->ib->initiator.peer_train_bytes);
        CHECK(x->mouth.payload_bytes <= exchange_budget(x));
        CHECK(x->mouth.payload_bytes <= x->ib->initiator.peer_budget_bytes);
    }
    r->asked[(r->first + r->count) % ASKED_MOST] = *line;
    if (r->count < ASKED_MOST)
        r->count++;
    else
        r->first++;
}

static uint64_t ns_of(const struct run *r, uint64_t bytes)
{
    return bytes * 8 * AB_NS_PER_S / r->rate_bit_per_s;
}

/* The answer of an honest peer; payload follows a TRAIN's. */
static struct ab_line honest_answer(struct run *r)
{
    struct ab_line asked = r->asked[r->first % ASKED_MOST], line = {.verb = asked.verb};

    if (r->count == 0)
        return (struct ab_line){.verb = AB_RESULT};
    r->first++;
    r->count--;
    if (asked.verb == AB_HELLO) {
        line.count = 1;
        line.numbers[0] = 1;
        line.values[AB_KEY_TRAIN] = line.values[AB_KEY_BUDGET] = TRAIN_MOST;
    } else if (asked.verb == AB_TRAIN) {
        line.count = 1;
        line.numbers[0] = asked.numbers[0] < r->train_bytes ? asked.numbers[0] : r->train_bytes;
    } else if (asked.verb == AB_SET) {
        line.count = 2;
        memcpy(line.numbers, asked.numbers, sizeof line.numbers);
    } else {
        line.values[AB_KEY_BYTES] = asked.numbers[0];
        line.values[AB_KEY_NSEC] = ns_of(r, asked.numbers[0]);
        line.values[AB_KEY_RATE] = r->rate_bit_per_s;
        line.values[AB_KEY_LOW] = r->rate_bit_per_s - r->rate_bit_per_s / 50;
        line.values[AB_KEY_HIGH] = r->rate_bit_per_s + r->rate_bit_per_s / 50;
        line.values[AB_KEY_SURE] = asked.numbers[0] > 20000;
    }
    return line;
}

/* One line, and the payload that it announces, in segments at the path's rate. */
static void run_hear(struct run *r, const struct ab_line *line, struct input *in, unsigned how)
{
    struct arrival train = {r->x.facts.segment_bytes, ns_of(r, r->x.facts.segment_bytes), false};
    char text[AB_LINE_BYTES];
    size_t len = exchange_line(&r->x, line, in, how % 4, text);

    exchange_feed(&r->x, (struct arrival){how & 4 ? 5 : AB_LINE_BYTES, 0, how & 8}, text, len);
    if (how & 16)
        train = take_arrival(in);
    if (line->verb == AB_SINK)
        exchange_wait(&r->x, line->values[AB_KEY_NSEC] % AB_NS_PER_S);
    if (line->verb == AB_TRAIN)
        exchange_feed_payload(&r->x, train, line->numbers[0]);
}

/* Whole rounds, as they should be. */
static void run_honestly(struct run *r, struct input *in, unsigned rounds)
{
    struct input nothing = {NULL, 0};

    r->rate_bit_per_s = 100000 + take(in, 2) * 1000000;
    r->rtt_ns = take(in, 1) * AB_NS_PER_MS;
    r->train_bytes = 1448 + take(in, 1) * 1448;
    while (rounds-- > 0 && r->x.state == 0) {
        exchange_send(&r->x, SIZE_MAX);
        exchange_wait(&r->x, r->rtt_ns);
        for (unsigned answers = r->count; answers > 0; answers--) {
            struct ab_line line = honest_answer(r);

            run_hear(r, &line, &nothing, 0);
        }
    }
}

/* An answer with one thing changed, or a line that nobody asked for. */
static void run_answer(struct run *r, struct input *in)
{
    unsigned how = (unsigned)take(in, 1), what = (unsigned)take(in, 1);
    struct ab_line line = honest_answer(r);
    size_t key;

    if (what & 1) {
        key = (size_t)take(in, 1) % AB_KEYS;
        line.values[key] = take_number(in);
    }
    if (what & 2)
        line.numbers[what >> 2 & 1] = take_number(in);
    if (what & 8)
        line.count = (what >> 4) % 3;
    if (what & 64)
        line.verb = 1 + (enum ab_verb)(take(in, 1) % (AB_VERBS - 1));
    run_hear(r, &line, in, how);
}

static void run_raw(struct run *r, struct input *in)
{
    size_t len = (size_t)take(in, 1);
    struct arrival how = take_arrival(in);

    len = len < in->len ? len : in->len;
    exchange_feed(&r->x, how, (const char *)in->data, len);
    in->data += len;
    in->len -= len;
}

static void run_took(const struct run *r)
{
    CHECK(!r->x.ib->initiator.has_set_answer || r->x.mouth.line.verb == AB_SET);
}

static void run_set(struct run *r, struct input *in)
{
    uint64_t rcv_bytes = take_number(in), snd_bytes = take_number(in);
    bool allowed = r->x.state == 1 && exchange_result(&r->x) != AUTOBUF_E_UNSUPPORTED;
    int error = ab_inband_set(r->x.ib, r->x.now_ns, rcv_bytes, snd_bytes);

    CHECK(error == (allowed ? 0 : -EINVAL));
    if (error == 0)
        r->x.state = 0;
    exchange_follow(&r->x);
    CHECK(!allowed || (r->x.mouth.line.verb == AB_SET && r->x.pending > 0));
}

static void run_action(struct run *r, struct input *in)
{
    unsigned what = (unsigned)take(in, 1);
    uint64_t deadline_ns = autobuf_inband_deadline_ns(r->x.ib);
    struct arrival train;

    switch (what % 12) {
    case 0:
        exchange_wait(&r->x, take(in, 1) * 100000);
        break;
    case 1:
        r->x.now_ns = deadline_ns < LATEST_NS ? deadline_ns : r->x.now_ns;
        break;
    case 2: /* anywhere, backwards too */
        exchange_wait(&r->x, take_number(in));
        break;
    case 3:
        exchange_send(&r->x, what & 16 ? SIZE_MAX : (size_t)take(in, 2));
        break;
    case 4:
        exchange_tell(&r->x, in);
        break;
    case 5:
    case 6:
        run_answer(r, in);
        break;
    case 7:
        run_honestly(r, in, what / 12 + 1);
        break;
    case 8:
        train = take_arrival(in);
        exchange_feed_payload(&r->x, train, take(in, 3));
        break;
    case 9:
        run_set(r, in);
        break;
    case 10:
        run_raw(r, in);
        break;
    default:
        if (what == 251)
            exchange_end(&r->x);
        break;
    }
    exchange_result(&r->x);
    run_took(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct run r;
    struct input in = {data, len};

    memset(&r, 0, sizeof r);
    r.x.said = run_said;
    r.rate_bit_per_s = 100000000;
    r.train_bytes = TRAIN_MOST;
    if (!exchange_open(&r.x, AUTOBUF_INBAND_INITIATOR, &in, NULL))
        return 0;
    CHECK(r.x.mouth.lines == 1 && r.x.state == 0);
    for (unsigned steps = 0; in.len > 0 && steps < 400; steps++)
        run_action(&r, &in);
    exchange_to_the_end(&r.x);
    CHECK(r.x.ib->out.size <= 2 * TRAIN_MOST); /* rounds add up that nobody lets it send */
    autobuf_inband_close(r.x.ib);
    return 0;
}

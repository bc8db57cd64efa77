/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include <errno.h>

#include "inband/exchange.h"

#define SEGMENT 1448U
#define RTT_NS (20 * MS)
#define REFUSED "AUTOBUF ERROR 452 no\r\n" /* of the SINK, whose answer is due first */

static struct autobuf_inband *open_with(const struct autobuf_inband_options *options)
{
    struct autobuf_inband *ib;

    assert_int_equal(autobuf_inband_open_pure(&ib, AUTOBUF_INBAND_INITIATOR, 0, options), 0);
    assert_string_equal(said(ib, 0), "AUTOBUF HELLO 1 train=463360 budget=463360\r\n");
    return ib;
}

/* After HELLO and the first TRAIN and SINK. */
static struct autobuf_inband *in_round_with(const struct autobuf_inband_options *options)
{
    struct autobuf_inband *ib = open_with(options);

    assert_true(told(ib, RTT_NS, "AUTOBUF HELLO 1 train=480000 budget=480000\r\n") > 0);
    assert_int_equal(strlen(said(ib, RTT_NS)), 10 * SEGMENT);
    return ib;
}

/* ------------------------------------------------------------------------- an honest responder */

struct peer {
    uint64_t gap_ns;       /* between segments of its trains */
    uint64_t sink_bit_per_s; /* that it tells of ours */
    unsigned rounds;
    uint64_t asked_bytes, sunk_bytes; /* of all trains */
    uint64_t longest_bytes;
    uint64_t late_ns;             /* so much later than after an RTT it answers */
    unsigned late_answers;        /* the first so many: HELLO, each round, RESULT */
};

static uint64_t rtt_now(struct peer *p)
{
    if (p->late_answers == 0)
        return RTT_NS;
    p->late_answers--;
    return RTT_NS + p->late_ns;
}

/* Answers one round. Returns the time when its last byte arrived. */
static uint64_t answer(struct autobuf_inband *ib, struct peer *p, const char *text, uint64_t now_ns)
{
    const char *asked = strstr(text, "AUTOBUF TRAIN "), *sunk = strstr(text, "AUTOBUF SINK ");
    char line[200];

    p->rounds++;
    now_ns += rtt_now(p);
    if (sunk) {
        uint64_t len = number_in(sunk, "SINK "), span_ns = len * 8000000000 / p->sink_bit_per_s;

        assert_int_equal(strlen(strchr(sunk, '\n') + 1), len + (asked ? strlen(asked) : 0));
        p->sunk_bytes += len;
        snprintf(line, sizeof line,
                 "AUTOBUF SINK bytes=%llu nsec=%llu rate=%llu low=%llu high=%llu sure=1\r\n",
                 (unsigned long long)len, (unsigned long long)span_ns,
                 (unsigned long long)p->sink_bit_per_s, (unsigned long long)p->sink_bit_per_s,
                 (unsigned long long)p->sink_bit_per_s);
        now_ns += span_ns;
        assert_int_equal(told(ib, now_ns, line), strlen(line));
    }
    if (asked) {
        uint64_t len = number_in(asked, "TRAIN ");

        p->asked_bytes += len;
        p->longest_bytes = len > p->longest_bytes ? len : p->longest_bytes;
        snprintf(line, sizeof line, "AUTOBUF TRAIN %llu\r\n", (unsigned long long)len - 40);
        assert_int_equal(told(ib, now_ns, line), strlen(line));
        now_ns = train(ib, now_ns, (size_t)len - 40, p->gap_ns);
    }
    return now_ns;
}

static uint64_t whole_exchange(struct autobuf_inband *ib, struct peer *p)
{
    uint64_t now_ns = rtt_now(p);

    assert_true(told(ib, now_ns, "AUTOBUF HELLO 1 train=480000 budget=480000\r\n") > 0);
    for (;;) {
        const char *text = said(ib, now_ns);

        if (strstr(text, "AUTOBUF RESULT")) {
            now_ns += rtt_now(p);
            assert_true(told(ib, now_ns, "AUTOBUF RESULT\r\n") > 0);
            return now_ns;
        }
        assert_true(p->rounds < 20);
        now_ns = answer(ib, p, text, now_ns);
    }
}

/* How much it costs, how long it takes, what comes out. */
static const struct path_row {
    const char *name;
    uint64_t rx_bit_per_s, tx_bit_per_s;
    unsigned rounds_most;
    uint64_t payload_most;
} path_rows[] = {
    {"10 and 10", 10000000, 10000000, 1, 15000},
    {"100 and 100", 100000000, 100000000, 2, 44000},
    {"100 and 10", 100000000, 10000000, 2, 44000},
    {"10 and 100", 10000000, 100000000, 2, 44000},
    {"500 and 50", 500000000, 50000000, 4, 230000},
    {"1000 and 1000", 1000000000, 1000000000, 5, 480000},
    {"5000 and 5000", 5000000000, 5000000000, 6, 480000},
};

static void test_paths(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(path_rows); i++) {
        const struct path_row *row = &path_rows[i];
        struct peer p = {1500 * 8000000000 / row->rx_bit_per_s, row->tx_bit_per_s, 0, 0, 0, 0, 0, 0};
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = open_with(NULL);

        whole_exchange(ib, &p);
        CHECK_EQUAL(row->name, autobuf_inband_finished(ib), 1);
        CHECK_EQUAL(row->name, autobuf_inband_result(ib, &path), 0);
        CHECK(row->name, p.rounds <= row->rounds_most);
        CHECK(row->name, p.asked_bytes <= row->payload_most && p.sunk_bytes <= row->payload_most);
        CHECK(row->name, path.rx_rate_bit_per_s > row->rx_bit_per_s / 100 * 97);
        CHECK(row->name, path.rx_rate_bit_per_s < row->rx_bit_per_s / 100 * 103);
        CHECK_EQUAL(row->name, path.tx_rate_bit_per_s, row->tx_bit_per_s);
        CHECK_EQUAL(row->name, path.rtt_min_ns, RTT_NS);
        CHECK_EQUAL(row->name, path.flags & AUTOBUF_PATH_TX_AT_LEAST, 0);
        autobuf_inband_close(ib);
    }
}

/* Of a proxy all answers come much later than TCP's RTT; of a busy peer, some. */
static void test_relayed(void **state)
{
    static const struct {
        const char *name;
        uint64_t high_ns, late_ns;
        unsigned late_answers, rounds;
        int result;
    } rows[] = {
        {"no proxy", RTT_NS + 2 * MS, 0, 0, 2, 0},
        {"a peer that is busy at first", RTT_NS + 2 * MS, 180 * MS, 1, 2, 0},
        {"and with the trains", RTT_NS + 2 * MS, 180 * MS, 4, 4, 0},
        {"a proxy near here", 27 * 1000, 0, 0, 4, AUTOBUF_E_RELAYED},
        {"one far from the peer", RTT_NS + 2 * MS, 180 * MS, 9, 4, AUTOBUF_E_RELAYED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct peer p = {120000, 100000000, 0, 0, 0, 0, rows[i].late_ns, rows[i].late_answers};
        struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = open_with(NULL);

        facts.rtt_high_ns = rows[i].high_ns;
        assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
        whole_exchange(ib, &p);
        CHECK_EQUAL(rows[i].name, autobuf_inband_result(ib, &path), rows[i].result);
        CHECK_EQUAL(rows[i].name, p.rounds, rows[i].rounds);
        CHECK_EQUAL(rows[i].name, path.tx_rate_bit_per_s > 0, rows[i].result == 0);
        CHECK_EQUAL(rows[i].name, path.rx_bdp_bytes > 0, rows[i].result == 0);
        autobuf_inband_close(ib);
    }
}

/* A peer that has not answered HELLO gets no other line. */
static void test_a_peer_that_does_not_know_it(void **state)
{
    static const char *const answers[] = {
        "500 Unknown command.\r\n",
        "-ERR\n",
        "\r\n",
        "AUTOBUF\r\n",
        "AUTOBUF HELLO\r\n",
        "AUTOBUF HELLO 2 train=1 budget=1\r\n",
        "AUTOBUF HELLO 1 train=x\r\n",
        "AUTOBUF TRAIN 1\r\n",
        "AUTOBUF ERROR 500 what?\r\n",
        "autobuf hello 1\r\n",
        "\xff\xfb\x01\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = open_with(NULL);
        char text[200];

        snprintf(text, sizeof text, "%sNEXT\r\n", answers[i]);
        CHECK_EQUAL(answers[i], told(ib, RTT_NS, text), strlen(answers[i]));
        CHECK_EQUAL(answers[i], autobuf_inband_finished(ib), 1);
        CHECK_EQUAL(answers[i], strlen(said(ib, RTT_NS)), 0);
        CHECK_EQUAL(answers[i], autobuf_inband_result(ib, &path), AUTOBUF_E_UNSUPPORTED);
        CHECK_EQUAL(answers[i], ab_inband_set(ib, RTT_NS, 1, 1), -EINVAL);
        autobuf_inband_close(ib);
    }
}

/* Any answer out of turn ends the exchange. */
static void test_out_of_turn(void **state)
{
    static const char *const lines[] = {
        "AUTOBUF TRAIN 14000\r\n", /* SINK is due first */
        "AUTOBUF HELLO 1 train=480000 budget=480000\r\n",
        "AUTOBUF HELLO 2\r\n",
        "AUTOBUF RESULT\r\n",
        "AUTOBUF SET 1 1\r\n",
        REFUSED "AUTOBUF TRAIN\r\n",
        REFUSED "AUTOBUF TRAIN 0\r\n",
        REFUSED "AUTOBUF TRAIN 14481\r\n", /* more than was asked for */
        REFUSED "AUTOBUF TRAIN 9999999999999999999\r\n",
        REFUSED "AUTOBUF TRAIN 1 2 3\r\n",
        REFUSED "AUTOBUF SINK\r\n",
        "AUTOBUF PAINT\r\n",
        "500 what?\r\n",
        "\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct autobuf_inband *ib = in_round_with(NULL);

        CHECK_EQUAL(lines[i], told(ib, 2 * RTT_NS, lines[i]), AUTOBUF_E_PROTOCOL);
        CHECK_EQUAL(lines[i], autobuf_inband_finished(ib), AUTOBUF_E_PROTOCOL);
        CHECK_EQUAL(lines[i], strlen(said(ib, 2 * RTT_NS)), 0);
        autobuf_inband_close(ib);
    }
}

static void test_line_of_a_megabyte(void **state)
{
    struct autobuf_inband *ib = open_with(NULL);
    char text[1000];
    int64_t got = 0;

    (void)state;
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 1000 && got >= 0; i++)
        got = autobuf_inband_input(ib, MS, text, sizeof text);
    assert_int_equal(got, AUTOBUF_E_PROTOCOL);
    autobuf_inband_close(ib);
}

static void test_implausible_reports(void **state)
{
    static const struct {
        const char *line;
        uint64_t rate;
    } rows[] = {
        {"bytes=14000 nsec=1000000 rate=100000000 low=99000000 high=101000000", 100000000},
        {"bytes=14000 nsec=1000000 rate=100000000 low=99000000 high=101000000 atleast=1", 100000000},
        {"bytes=14000 nsec=0 rate=9999999999999999999 high=9999999999999999999", 0}, /* infinite */
        {"bytes=14000 nsec=1000000 rate=10000000001 low=1 high=10000000001", 0},
        {"bytes=14000 nsec=1000000 rate=0", 0},
        {"bytes=14000 nsec=1000000 rate=100 low=101 high=102", 0},
        {"bytes=14000 nsec=9999999999 rate=100 low=100 high=100", 0}, /* longer than it took */
        {"bytes=480000 nsec=1000000 rate=100 low=100 high=100", 0},   /* more than was sent */
        {"bytes=14000 nsec=1000000 rate=1000000 low=1 high=1000000", 0}, /* would take longer */
        {"", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = in_round_with(NULL);
        char line[200];

        snprintf(line, sizeof line, "AUTOBUF SINK%s%s\r\n", *rows[i].line ? " " : "", rows[i].line);
        CHECK_EQUAL(rows[i].line, told(ib, 2 * RTT_NS, line), strlen(line));
        told(ib, 2 * RTT_NS, "AUTOBUF ERROR 452 no\r\n"); /* no TRAIN */
        autobuf_inband_result(ib, &path);
        CHECK_EQUAL(rows[i].line, path.tx_rate_bit_per_s, rows[i].rate);
        CHECK_EQUAL(rows[i].line, path.rx_rate_bit_per_s, 0);
        autobuf_inband_close(ib);
    }
}

/* A peer that refuses both directions: the exchange ends in order, and only the RTT is known. */
static void test_refused(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *ib = in_round_with(NULL);

    (void)state;
    told(ib, 2 * RTT_NS, "AUTOBUF ERROR 452 no\r\n");
    told(ib, 2 * RTT_NS, "AUTOBUF ERROR 452 no\r\n");
    assert_string_equal(said(ib, 2 * RTT_NS), "AUTOBUF RESULT rtt=20000000\r\n");
    told(ib, 3 * RTT_NS, "AUTOBUF ERROR 503 what?\r\n");
    assert_int_equal(autobuf_inband_finished(ib), 1);
    assert_int_equal(autobuf_inband_result(ib, &path), AUTOBUF_E_FEW);
    assert_int_equal(path.rtt_min_ns, RTT_NS);
    autobuf_inband_close(ib);
}

/* A peer of small budgets is not asked for more. */
static void test_small_peer(void **state)
{
    static const char *const hellos[] = {"AUTOBUF HELLO 1 train=5000 budget=480000\r\n",
                                         "AUTOBUF HELLO 1 train=480000 budget=5000\r\n"};
    struct autobuf_inband *ib;

    (void)state;
    for (size_t i = 0; i < COUNT(hellos); i++) {
        ib = open_with(NULL);
        told(ib, RTT_NS, hellos[i]);
        assert_int_equal(number_in(said(ib, RTT_NS), "TRAIN "), 3 * SEGMENT);
        autobuf_inband_close(ib);
    }
    ib = open_with(NULL);
    told(ib, RTT_NS, "AUTOBUF HELLO 1 train=100 budget=100\r\n");
    assert_string_equal(said(ib, RTT_NS), "AUTOBUF RESULT rtt=20000000\r\n");
    autobuf_inband_close(ib);
    ib = open_with(NULL);
    told(ib, RTT_NS, "AUTOBUF HELLO 1 train=4000 budget=480000\r\n"); /* two segments are too few */
    assert_string_equal(said(ib, RTT_NS), "AUTOBUF RESULT rtt=20000000\r\n");
    autobuf_inband_close(ib);
}

/* Ends a round at now_ns: the peer reports bytes in us, and refuses a train. Returns what the handle sends next. */
static const char *after_a_round(struct autobuf_inband *ib, uint64_t now_ns, unsigned bytes, unsigned rate_mbit,
                                 unsigned span_us)
{
    char line[200];

    snprintf(line, sizeof line, "AUTOBUF SINK bytes=%u nsec=%u000 rate=%u000000 low=1 high=%u000000\r\n", bytes,
             span_us, rate_mbit, rate_mbit);
    assert_int_equal(told(ib, now_ns, line), strlen(line));
    if (autobuf_inband_finished(ib) == 0 && ib->initiator.awaits_train)
        told(ib, now_ns, "AUTOBUF ERROR 452 no\r\n");
    return said(ib, now_ns);
}

/* After trains of 10 and 20 segments: one of 40, or on a slow path what is left of 40 in all. */
static void test_trains_of_a_slow_path(void **state)
{
    static const struct {
        const char *name;
        unsigned rate_mbit, span_us; /* the train as a whole has 30000 bytes with headers */
        unsigned segments;
    } rows[] = {
        {"slow", 190, 500, 10},
        {"not slow", 210, 500, 40},
        {"bunched, slow as a whole", 500, 2180, 10}, /* 110 Mbit/s */
        {"bunched, not slow as a whole", 500, 1846, 40}, /* 130 Mbit/s */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = in_round_with(NULL);
        const char *text = after_a_round(ib, 2 * RTT_NS, 10 * SEGMENT, 500, 100);

        CHECK_EQUAL(rows[i].name, strlen(text), 20 * SEGMENT);
        text = after_a_round(ib, 3 * RTT_NS, 20 * SEGMENT, rows[i].rate_mbit, rows[i].span_us);
        CHECK_EQUAL(rows[i].name, strlen(text), rows[i].segments * SEGMENT);
        autobuf_inband_close(ib);
    }
}

/* Few gaps decide nothing: further trains follow, of 20 segments in all, also if the first one agrees with itself. */
static void test_large_segments_of_a_slow_path(void **state)
{
    static const char *const first[] = {"sure=0 unsure=1", "sure=1 unsure=1", "sure=1"};

    (void)state;
    for (size_t i = 0; i < COUNT(first); i++) {
        struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
        struct autobuf_inband *ib = open_with(NULL);
        bool suffices = !strstr(first[i], "unsure");
        const char *text;
        char line[200];

        facts.segment_bytes = 8948;
        facts.packet_bytes = 9000;
        assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
        told(ib, RTT_NS, "AUTOBUF HELLO 1 train=480000 budget=480000\r\n");
        assert_int_equal(strlen(said(ib, RTT_NS)), 10 * 8948);
        snprintf(line, sizeof line, "AUTOBUF SINK bytes=62595 nsec=10000000 rate=50000000 low=1 high=50000000 %s\r\n",
                 first[i]);
        told(ib, 2 * RTT_NS, line);
        told(ib, 2 * RTT_NS, "AUTOBUF ERROR 452 no\r\n");
        text = said(ib, 2 * RTT_NS);
        CHECK_EQUAL(first[i], strstr(text, "AUTOBUF RESULT") != NULL, suffices);
        CHECK(first[i], suffices || strlen(text) == 10 * 8948);
        autobuf_inband_close(ib);
    }
}

static void test_train_fits_the_window(void **state)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    struct autobuf_inband *ib = open_with(NULL);

    (void)state;
    facts.train_bytes = 4 * SEGMENT + 7;
    assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
    told(ib, RTT_NS, "AUTOBUF HELLO 1 train=480000 budget=480000\r\n");
    assert_int_equal(strlen(said(ib, RTT_NS)), 4 * SEGMENT);
    autobuf_inband_close(ib);
}

/* bbr: the path makes the gaps within bursts, the sender the others. */
static uint64_t paced_train(struct autobuf_inband *ib, uint64_t now_ns, size_t len,
                            uint64_t burst_gap_ns, uint64_t pace_gap_ns)
{
    static const char payload[65536] = " ";
    bool second = false;

    while (len > 0) {
        size_t part = autobuf_inband_wanted(ib);

        part = part < len ? part : len;
        assert_int_equal(autobuf_inband_input(ib, now_ns, payload, part), part);
        len -= part;
        now_ns += second ? pace_gap_ns : burst_gap_ns;
        second = !second;
    }
    return now_ns;
}

static void paced_result(uint64_t burst_gap_ns, struct autobuf_path *path)
{
    struct autobuf_inband *ib = in_round_with(NULL);
    const char *line = "AUTOBUF TRAIN 28000 pace=10000000 paced=1\r\n";

    told(ib, 2 * RTT_NS, REFUSED "AUTOBUF TRAIN 14440 pace=10000000 paced=1\r\n");
    paced_train(ib, 2 * RTT_NS, 14440, burst_gap_ns, 2400000 - burst_gap_ns);
    said(ib, 3 * RTT_NS);
    told(ib, 4 * RTT_NS, line);
    paced_train(ib, 4 * RTT_NS, 28000, burst_gap_ns, 2400000 - burst_gap_ns);
    *path = (struct autobuf_path)AUTOBUF_PATH_INIT;
    autobuf_inband_result(ib, path);
    autobuf_inband_close(ib);
}

static void test_paced_trains(void **state)
{
    struct autobuf_path path;

    (void)state;
    paced_result(120000, &path); /* 100 Mbit/s below a pace of 10 */
    assert_in_range(path.rx_rate_bit_per_s, 98000000, 102000000);
    assert_int_equal(path.flags & AUTOBUF_PATH_RX_AT_LEAST, 0);
    paced_result(1200000, &path); /* no bursts: what is seen is the pace */
    assert_in_range(path.rx_rate_bit_per_s, 9500000, 10500000);
    assert_int_equal(path.flags & AUTOBUF_PATH_RX_AT_LEAST, AUTOBUF_PATH_RX_AT_LEAST);
    paced_result(1500, &path); /* batches of this host: no path does that */
    assert_in_range(path.rx_rate_bit_per_s, 1, 20000000);
    assert_int_equal(path.flags & AUTOBUF_PATH_RX_AT_LEAST, AUTOBUF_PATH_RX_AT_LEAST);
}

/* Late in the exchange no further round begins, and it ends in order. */
static void test_late(void **state)
{
    struct autobuf_inband *ib = in_round_with(NULL);

    (void)state;
    told(ib, 700 * MS, "AUTOBUF SINK bytes=14000 nsec=100 rate=1000000000 low=1 high=1000000000\r\n");
    told(ib, 700 * MS, "AUTOBUF ERROR 452 no\r\n");
    assert_non_null(strstr(said(ib, 700 * MS), "AUTOBUF RESULT"));
    autobuf_inband_close(ib);
    ib = in_round_with(NULL); /* four round trips and 500 ms */
    assert_non_null(strstr(after_a_round(ib, 570 * MS, 10 * SEGMENT, 500, 100), "AUTOBUF SINK"));
    autobuf_inband_close(ib);
    ib = in_round_with(NULL);
    assert_non_null(strstr(after_a_round(ib, 590 * MS, 10 * SEGMENT, 500, 100), "AUTOBUF RESULT"));
    autobuf_inband_close(ib);
}

static void test_stalled(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *ib = in_round_with(NULL);
    const void *data;

    (void)state;
    assert_int_equal(autobuf_inband_deadline_ns(ib), 7000 * MS);
    assert_int_equal(autobuf_inband_output(ib, 6999 * MS, &data), 0);
    assert_int_equal(autobuf_inband_finished(ib), 0);
    autobuf_inband_output(ib, 7000 * MS, &data);
    assert_int_equal(autobuf_inband_finished(ib), -ETIMEDOUT);
    assert_int_equal(told(ib, 7001 * MS, "AUTOBUF TRAIN 14000\r\n"), -ETIMEDOUT);
    assert_int_equal(autobuf_inband_result(ib, &path), AUTOBUF_E_FEW);
    autobuf_inband_close(ib);
}

/* TCP's minimum RTT counts if it is less than the time of HELLO and its answer. */
static void test_rtt(void **state)
{
    static const struct {
        uint64_t tcp_ns, rtt_ns;
    } rows[] = {{AUTOBUF_NS_UNSET, RTT_NS}, {19 * MS, 19 * MS}, {21 * MS, RTT_NS}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = in_round_with(NULL);

        facts.rtt_min_ns = rows[i].tcp_ns;
        autobuf_inband_tell(ib, &facts);
        autobuf_inband_result(ib, &path);
        assert_int_equal(path.rtt_min_ns, rows[i].rtt_ns);
        autobuf_inband_close(ib);
    }
}

static void test_set(void **state)
{
    struct peer p = {120000, 100000000, 0, 0, 0, 0, 0, 0};
    struct autobuf_inband *ib = open_with(NULL);
    uint64_t now_ns;

    (void)state;
    assert_int_equal(ab_inband_set(ib, 0, 1, 1), -EINVAL); /* not yet */
    now_ns = whole_exchange(ib, &p);
    assert_false(ib->initiator.has_set_answer);
    assert_int_equal(ab_inband_set(ib, now_ns, 4000000, 0), 0);
    assert_int_equal(autobuf_inband_finished(ib), 0);
    assert_string_equal(said(ib, now_ns), "AUTOBUF SET 4000000 0\r\n");
    assert_true(told(ib, now_ns + RTT_NS, "AUTOBUF SET 212992 0\r\n") > 0);
    assert_int_equal(autobuf_inband_finished(ib), 1);
    assert_true(ib->initiator.has_set_answer);
    assert_int_equal(ib->initiator.set_answer[0], 212992);
    assert_int_equal(ib->initiator.set_answer[1], 0);
    assert_int_equal(ab_inband_set(ib, now_ns, 1, 1), 0);
    said(ib, now_ns);
    assert_true(told(ib, now_ns + RTT_NS, "AUTOBUF ERROR 501 no\r\n") > 0);
    assert_int_equal(autobuf_inband_finished(ib), 1);
    assert_false(ib->initiator.has_set_answer);
    autobuf_inband_close(ib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_relayed),
        cmocka_unit_test(test_a_peer_that_does_not_know_it),
        cmocka_unit_test(test_out_of_turn),
        cmocka_unit_test(test_line_of_a_megabyte),
        cmocka_unit_test(test_implausible_reports),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_small_peer),
        cmocka_unit_test(test_trains_of_a_slow_path),
        cmocka_unit_test(test_large_segments_of_a_slow_path),
        cmocka_unit_test(test_train_fits_the_window),
        cmocka_unit_test(test_paced_trains),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_stalled),
        cmocka_unit_test(test_rtt),
        cmocka_unit_test(test_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

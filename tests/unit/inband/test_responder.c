/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include <errno.h>

#include "inband/exchange.h" /* the memory of arrivals */

#define SEGMENT 1448U

static struct autobuf_inband *open_with(const struct autobuf_inband_options *options)
{
    struct autobuf_inband *ib;

    assert_int_equal(autobuf_inband_open_pure(&ib, AUTOBUF_INBAND_RESPONDER, 0, options), 0);
    return ib;
}

static struct autobuf_inband *greeted_with(const struct autobuf_inband_options *options)
{
    struct autobuf_inband *ib = open_with(options);

    assert_true(told(ib, MS, "AUTOBUF HELLO 1\r\n") > 0);
    assert_string_equal(said(ib, MS), "AUTOBUF HELLO 1 train=463360 budget=463360\r\n");
    return ib;
}

/* Lines that leave the connection as it is, and their answers. */
static const struct answer_row {
    const char *name;
    bool greeted;
    const char *line;
    const char *answer;
} answer_rows[] = {
    {"a later version", false, "AUTOBUF HELLO 2 colour=7\r\n", "AUTOBUF HELLO 1 "},
    {"a bare LF", false, "AUTOBUF HELLO 1\n", "AUTOBUF HELLO 1 "},
    {"HELLO without a version", false, "AUTOBUF HELLO\r\n", "AUTOBUF ERROR 501 "},
    {"version 0", false, "AUTOBUF HELLO 0\r\n", "AUTOBUF ERROR 501 "},
    {"TRAIN before HELLO", false, "AUTOBUF TRAIN 14480\r\n", "AUTOBUF ERROR 503 "},
    {"RESULT before HELLO", false, "AUTOBUF RESULT rate=1\r\n", "AUTOBUF ERROR 503 "},
    {"SET before HELLO", false, "AUTOBUF SET 1 1\r\n", "AUTOBUF ERROR 503 "},
    {"a second HELLO", true, "AUTOBUF HELLO 1\r\n", "AUTOBUF ERROR 503 "},
    {"another version in mid-exchange", true, "AUTOBUF HELLO 2\r\n", "AUTOBUF ERROR 503 "},
    {"TRAIN without a number", true, "AUTOBUF TRAIN\r\n", "AUTOBUF ERROR 501 "},
    {"TRAIN of nothing", true, "AUTOBUF TRAIN 0\r\n", "AUTOBUF ERROR 501 "},
    {"TRAIN of too much", true, "AUTOBUF TRAIN 480001\r\n", "AUTOBUF ERROR 501 "},
    {"TRAIN of far too much", true, "AUTOBUF TRAIN 9999999999999999999\r\n", "AUTOBUF ERROR 501 "},
    {"a number too long", true, "AUTOBUF TRAIN 99999999999999999999\r\n", "AUTOBUF ERROR 500 "},
    {"SET with one size", true, "AUTOBUF SET 1\r\n", "AUTOBUF ERROR 501 "},
    {"SET of too much", true, "AUTOBUF SET 1073741825 1\r\n", "AUTOBUF ERROR 501 "},
    {"SET of the most", true, "AUTOBUF SET 1073741824 1073741824\r\n", "AUTOBUF SET 0 0\r\n"},
    {"SET without anybody to do it", true, "AUTOBUF SET 100 200\r\n", "AUTOBUF SET 0 0\r\n"},
    {"an unknown verb", true, "AUTOBUF PAINT\r\n", "AUTOBUF ERROR 500 "},
    {"an ERROR", true, "AUTOBUF ERROR 500 you too\r\n", "AUTOBUF ERROR 500 "},
    {"RESULT", true, "AUTOBUF RESULT rate=1 low=1 high=1\r\n", "AUTOBUF RESULT\r\n"},
};

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(answer_rows); i++) {
        const struct answer_row *row = &answer_rows[i];
        struct autobuf_inband *ib = row->greeted ? greeted_with(NULL) : open_with(NULL);
        const char *answer;

        CHECK_EQUAL(row->name, told(ib, 2 * MS, row->line), strlen(row->line));
        answer = said(ib, 2 * MS);
        if (strncmp(answer, row->answer, strlen(row->answer)) != 0)
            fail_msg("%s: \"%s\"", row->name, answer);
        CHECK(row->name, autobuf_inband_finished(ib) >= 0);
        autobuf_inband_close(ib);
    }
}

/* Peers that do not follow the protocol. */
static const struct broken_row {
    const char *name;
    bool greeted;
    const char *text;
} broken_rows[] = {
    {"another protocol", false, "GET / HTTP/1.1\r\n"},
    {"its first byte is enough", false, "G"},
    {"binary", false, "\x16\x03\x01\x02"},
    {"a prefix that is none", false, "AUTOBUG"},
    {"garbage behind HELLO", true, "x"},
    {"an empty line", true, "\r\n"},
    {"SINK of nothing", true, "AUTOBUF SINK 0\r\n"},
    {"SINK of too much", true, "AUTOBUF SINK 480001\r\n"},
    {"SINK without a number", true, "AUTOBUF SINK\r\n"},
};

static void test_broken(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(broken_rows); i++) {
        const struct broken_row *row = &broken_rows[i];
        struct autobuf_inband *ib = row->greeted ? greeted_with(NULL) : open_with(NULL);

        CHECK_EQUAL(row->name, told(ib, 2 * MS, row->text), AUTOBUF_E_PROTOCOL);
        CHECK_EQUAL(row->name, autobuf_inband_finished(ib), AUTOBUF_E_PROTOCOL);
        CHECK_EQUAL(row->name, strlen(said(ib, 2 * MS)), 0);
        CHECK_EQUAL(row->name, autobuf_inband_wanted(ib), 0);
        autobuf_inband_close(ib);
    }
}

static void test_line_of_a_megabyte(void **state)
{
    struct autobuf_inband *ib = greeted_with(NULL);
    char text[1000] = "AUTOBUF TRAIN 1";
    int64_t got = 0;

    (void)state;
    memset(text + strlen(text), '0', sizeof text - strlen(text));
    for (int i = 0; i < 1000 && got >= 0; i++)
        got = autobuf_inband_input(ib, MS, text, sizeof text);
    assert_int_equal(got, AUTOBUF_E_PROTOCOL);
    autobuf_inband_close(ib);
}

static void test_too_many_errors(void **state)
{
    struct autobuf_inband *ib = greeted_with(NULL);
    unsigned answered = 0;

    (void)state;
    while (told(ib, MS, "AUTOBUF PAINT\r\n") > 0 && answered < 100)
        answered += strlen(said(ib, MS)) > 0;
    assert_int_equal(answered, 8);
    assert_int_equal(autobuf_inband_finished(ib), AUTOBUF_E_PROTOCOL);
    autobuf_inband_close(ib);
}

static void test_too_many_lines(void **state)
{
    struct autobuf_inband *ib = open_with(NULL);
    unsigned answered = 0;

    (void)state;
    while (told(ib, MS, answered % 2 ? "AUTOBUF RESULT\r\n" : "AUTOBUF HELLO 1\r\n") > 0 &&
           answered < 1000)
        answered += strlen(said(ib, MS)) > 0;
    assert_int_equal(answered, 512);
    assert_int_equal(autobuf_inband_finished(ib), AUTOBUF_E_PROTOCOL);
    autobuf_inband_close(ib);
}

/* Only a whole and valid HELLO counts. */
static void test_greeted(void **state)
{
    static const char *const lines[] = {"A", "UTOBUF HELLO\r\n", "AUTOBUF TRAIN 1448\r\n"};
    struct autobuf_inband *ib = open_with(NULL);

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        assert_int_equal(autobuf_inband_greeted(ib), 0);
        assert_true(told(ib, MS, lines[i]) > 0);
        said(ib, MS);
    }
    assert_int_equal(autobuf_inband_greeted(ib), 0);
    assert_true(told(ib, MS, "AUTOBUF HELLO 1\r\n") > 0);
    assert_int_equal(autobuf_inband_greeted(ib), 1);
    autobuf_inband_close(ib);
    /* What is an initiator's to ask. */
    ib = greeted_with(NULL);
    told(ib, MS, "AUTOBUF RESULT\r\n");
    said(ib, MS);
    assert_int_equal(autobuf_inband_finished(ib), 1);
    assert_int_equal(ab_inband_set(ib, MS, 1, 1), -EINVAL);
    assert_int_equal(ab_inband_begin(ib, MS, 0, 0, 0), -EINVAL);
    autobuf_inband_close(ib);
}

/* The budget bounds the memory, however small the segments are. */
static void test_memory_of_arrivals(void **state)
{
    static const struct {
        uint32_t budget_bytes, segment_bytes;
        size_t most;
    } rows[] = {{480000, 64, 1856}, {480000, 1448, 728}, {60000, 1448, 148}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
        struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
        struct autobuf_inband *ib;

        options.budget_bytes = rows[i].budget_bytes;
        facts.segment_bytes = rows[i].segment_bytes;
        ib = open_with(&options);
        assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
        told(ib, MS, "AUTOBUF HELLO 1\r\n");
        said(ib, MS);
        told(ib, MS, "AUTOBUF SINK 20000\r\n");
        assert_in_range(ib->arrivals.capacity, 1, rows[i].most);
        train(ib, MS, 20000, 1000); /* which has more segments than there is room for, or not */
        assert_int_equal(number_in(said(ib, MS), "bytes=") > 0, 1);
        autobuf_inband_close(ib);
    }
}

/* The whole answer fills its segments, and consists of short lines of text. */
static void test_train(void **state)
{
    struct autobuf_inband *ib = greeted_with(NULL);
    const char *text, *line;

    (void)state;
    assert_true(told(ib, MS, "AUTOBUF TRAIN 14480\r\n") > 0);
    assert_int_equal(autobuf_inband_wanted(ib), 0); /* it is deaf until that is sent */
    assert_int_equal(told(ib, MS, "AUTOBUF TRAIN 14480\r\n"), 0);
    text = said(ib, MS);
    assert_int_equal(strlen(text), 10 * SEGMENT);
    line = strchr(text, '\n') + 1;
    assert_int_equal(number_in(text, "TRAIN "), text + strlen(text) - line);
    while (*line) {
        const char *end = strchr(line, '\n');

        assert_non_null(end);
        assert_true(line[0] == ' ' && end[-1] == '\r' && end - line < 500);
        assert_int_equal(strspn(line + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789+/"), end - line - 2);
        line = end + 1;
    }
    assert_true(autobuf_inband_wanted(ib) > 0);
    autobuf_inband_close(ib);
}

static void test_train_fits_the_congestion_window(void **state)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    struct autobuf_inband *ib = greeted_with(NULL);

    (void)state;
    facts.train_bytes = 10 * SEGMENT;
    facts.pace_bit_per_s = 12345;
    facts.flags = AUTOBUF_INBAND_PACED;
    assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
    assert_true(told(ib, MS, "AUTOBUF TRAIN 28960\r\n") > 0);
    assert_int_equal(strlen(said(ib, MS)), 10 * SEGMENT);
    assert_true(told(ib, MS, "AUTOBUF TRAIN 28960\r\n") > 0);
    assert_int_equal(number_in(said(ib, MS), "pace="), 12345);
    facts.train_bytes = 1; /* a full window: a train needs two gaps */
    assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
    assert_true(told(ib, MS, "AUTOBUF TRAIN 28960\r\n") > 0);
    assert_int_equal(strlen(said(ib, MS)), 3 * SEGMENT);
    autobuf_inband_close(ib);
}

static void test_budget_of_trains(void **state)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_inband *ib;
    size_t sent = 0;

    (void)state;
    options.budget_bytes = 60000;
    ib = open_with(&options);
    assert_true(told(ib, MS, "AUTOBUF HELLO 1\r\n") > 0);
    assert_int_equal(number_in(said(ib, MS), "budget="), 60000 * SEGMENT / 1500);
    for (int i = 0; i < 4; i++) {
        assert_true(told(ib, MS, "AUTOBUF TRAIN 14480\r\n") > 0);
        sent += strlen(said(ib, MS));
    }
    assert_int_equal(sent, 40 * SEGMENT);
    assert_true(told(ib, MS, "AUTOBUF TRAIN 14480\r\n") > 0);
    assert_non_null(strstr(said(ib, MS), "ERROR 452 "));
    /* RESULT and another HELLO are no new budget. */
    told(ib, MS, "AUTOBUF RESULT\r\n");
    said(ib, MS);
    told(ib, MS, "AUTOBUF HELLO 1\r\n");
    said(ib, MS);
    told(ib, MS, "AUTOBUF TRAIN 14480\r\n");
    assert_non_null(strstr(said(ib, MS), "ERROR 452 "));
    autobuf_inband_close(ib);
}

static void test_sink(void **state)
{
    struct autobuf_inband *ib = greeted_with(NULL);
    uint64_t now_ns = 10 * MS;
    const char *answer;

    (void)state;
    /* 20 segments of 1500 bytes, 120 us apart: 100 Mbit/s. */
    assert_true(told(ib, now_ns, "AUTOBUF SINK 28940\r\n") > 0); /* with the line 20 segments */
    now_ns = train(ib, now_ns, 28940, 120000);
    answer = said(ib, now_ns);
    assert_int_equal(number_in(answer, "bytes="), 19 * SEGMENT);
    assert_int_equal(number_in(answer, "nsec="), 19 * 120000);
    assert_in_range(number_in(answer, "rate="), 99900000, 100100000);
    assert_int_equal(number_in(answer, "sure="), 1);
    assert_null(strstr(answer, "atleast="));
    autobuf_inband_close(ib);
}

/* The payload of a refused SINK is in flight already. */
static void test_refused_sink_is_drained(void **state)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_inband *ib;

    (void)state;
    options.budget_bytes = 6000;
    ib = open_with(&options);
    told(ib, MS, "AUTOBUF HELLO 1\r\n");
    said(ib, MS);
    assert_true(told(ib, MS, "AUTOBUF SINK 14480\r\n") > 0);
    assert_int_equal(strlen(said(ib, MS)), 0);
    train(ib, MS, 14480, 1000);
    assert_non_null(strstr(said(ib, MS), "ERROR 452 "));
    assert_true(told(ib, MS, "AUTOBUF RESULT\r\n") > 0);
    assert_non_null(strstr(said(ib, MS), "AUTOBUF RESULT"));
    assert_int_equal(autobuf_inband_finished(ib), 1);
    autobuf_inband_close(ib);
}

static void test_sink_before_hello_is_drained(void **state)
{
    struct autobuf_inband *ib = open_with(NULL);

    (void)state;
    assert_true(told(ib, MS, "AUTOBUF SINK 14480\r\n") > 0);
    assert_int_equal(autobuf_inband_finished(ib), 0);
    train(ib, MS, 14480, 1000);
    assert_non_null(strstr(said(ib, MS), "ERROR 503 "));
    autobuf_inband_close(ib);
}

/* An exchange of which 20 segments at 100 Mbit/s have come in. */
static struct autobuf_inband *after_a_sink(void)
{
    struct autobuf_inband *ib = greeted_with(NULL);

    told(ib, 10 * MS, "AUTOBUF SINK 28940\r\n");
    train(ib, 10 * MS, 28940, 120000);
    said(ib, 20 * MS);
    return ib;
}

static void test_both_directions_are_known(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *ib = after_a_sink();

    (void)state;
    told(ib, 20 * MS, "AUTOBUF TRAIN 14480\r\n");
    said(ib, 20 * MS);
    told(ib, 30 * MS, "AUTOBUF RESULT bytes=1 rate=50000000 low=49000000 high=51000000 atleast=1 "
                      "rtt=20000000\r\n");
    assert_non_null(strstr(said(ib, 30 * MS), "AUTOBUF RESULT bytes=27512 "));
    assert_int_equal(autobuf_inband_finished(ib), 1);
    assert_int_equal(autobuf_inband_result(ib, &path), 0);
    assert_int_equal(path.method, AUTOBUF_METHOD_INBAND);
    assert_int_equal(path.tx_rate_bit_per_s, 50000000);
    assert_in_range(path.rx_rate_bit_per_s, 99900000, 100100000);
    assert_int_equal(path.flags, AUTOBUF_PATH_TX_AT_LEAST);
    assert_int_equal(path.rtt_min_ns, 20 * MS);
    assert_in_range(path.rx_bdp_bytes, 250000, 253000);
    autobuf_inband_close(ib);
}

static void test_implausible_results(void **state)
{
    static const char *const lines[] = {
        "AUTOBUF RESULT rate=10000000001 low=1 high=10000000001\r\n",
        "AUTOBUF RESULT rate=9999999999999999999 high=9999999999999999999\r\n",
        "AUTOBUF RESULT rate=5 low=6 high=7\r\n",
        "AUTOBUF RESULT rate=5 low=4 high=4\r\n",
        "AUTOBUF RESULT\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = greeted_with(NULL);

        told(ib, MS, "AUTOBUF TRAIN 14480\r\n");
        said(ib, MS);
        told(ib, MS, lines[i]);
        said(ib, MS);
        CHECK_EQUAL(lines[i], autobuf_inband_result(ib, &path), AUTOBUF_E_NOREPLY);
        CHECK_EQUAL(lines[i], path.tx_rate_bit_per_s, 0);
        autobuf_inband_close(ib);
    }
}

/* A report counts if the train was sent in this exchange and can have arrived so. */
static const struct report_row {
    const char *name;
    const char *before[4]; /* lines, after HELLO */
    const char *result;
    uint64_t rate_bit_per_s;
} report_rows[] = {
    {"a train", {"TRAIN 14480"}, "bytes=13000 nsec=2000000 rate=50000000 low=50000000 high=50000000", 50000000},
    {"a train, and one packet to be asked again", {"TRAIN 14480", "TRAIN 1448", "TRAIN 1448"},
     "bytes=13000 nsec=2000000 rate=50000000 low=50000000 high=50000000", 50000000},
    {"no train", {NULL}, "bytes=13000 nsec=2000000 rate=50000000 low=50000000 high=50000000", 0},
    {"no train, and no bytes", {NULL}, "rate=50000000 low=50000000 high=50000000", 0},
    {"a refused train", {"TRAIN 480001"}, "bytes=13000 nsec=2000000 rate=50000000 low=50000000 high=50000000", 0},
    {"a train of another exchange", {"TRAIN 14480", "RESULT", "HELLO 1"},
     "bytes=13000 nsec=2000000 rate=50000000 low=50000000 high=50000000", 0},
    {"more than was sent", {"TRAIN 14480"}, "bytes=14481 nsec=2000000 rate=50000000 low=50000000 high=50000000", 0},
    {"longer than it took", {"TRAIN 14480"}, "bytes=13000 nsec=99000001 rate=50000000 low=50000000 high=50000000", 0},
    {"slower than it was", {"TRAIN 14480"}, "bytes=13000 nsec=2000000 rate=1000000 low=1000000 high=1000000", 0},
};

static void test_reports_of_trains(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(report_rows); i++) {
        const struct report_row *row = &report_rows[i];
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = greeted_with(NULL); /* at 1 ms */
        char line[200];

        for (size_t j = 0; row->before[j]; j++) {
            snprintf(line, sizeof line, "AUTOBUF %s\r\n", row->before[j]);
            CHECK_EQUAL(row->name, told(ib, MS, line), strlen(line));
            said(ib, MS);
        }
        snprintf(line, sizeof line, "AUTOBUF RESULT %s rtt=20000000\r\n", row->result);
        CHECK_EQUAL(row->name, told(ib, 100 * MS, line), strlen(line));
        CHECK(row->name, strcmp(said(ib, 100 * MS), "AUTOBUF RESULT\r\n") == 0);
        CHECK_EQUAL(row->name, autobuf_inband_finished(ib), 1);
        CHECK_EQUAL(row->name, autobuf_inband_result(ib, &path), row->rate_bit_per_s ? 0 : AUTOBUF_E_FEW);
        CHECK_EQUAL(row->name, path.tx_rate_bit_per_s, row->rate_bit_per_s);
        CHECK_EQUAL(row->name, path.rtt_min_ns, 20 * MS);
        autobuf_inband_close(ib);
    }
}

/* No exchange is shorter than the minimum RTT of its connection. */
static void test_an_rtt_below_tcp_s_is_ignored(void **state)
{
    static const struct {
        const char *line;
        uint64_t median_ns;
    } rows[] = {{"AUTOBUF RESULT rtt=1\r\n", 20 * MS},
                {"AUTOBUF RESULT rtt=19999999\r\n", 20 * MS},
                {"AUTOBUF RESULT rtt=20000000\r\n", 20 * MS},
                {"AUTOBUF RESULT rtt=25000000\r\n", 25 * MS}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = after_a_sink();

        facts.rtt_min_ns = 20 * MS;
        assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
        told(ib, 60 * MS, rows[i].line);
        said(ib, 60 * MS);
        CHECK_EQUAL(rows[i].line, autobuf_inband_result(ib, &path), 0);
        CHECK_EQUAL(rows[i].line, path.rtt_min_ns, 20 * MS);
        CHECK_EQUAL(rows[i].line, path.rtt_median_ns, rows[i].median_ns);
        autobuf_inband_close(ib);
    }
}

struct wish {
    uint64_t rcv, snd;
};

static void grant(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes)
{
    struct wish *wish = user;

    wish->rcv = *rcv_bytes;
    wish->snd = *snd_bytes;
    *rcv_bytes = 0;
    *snd_bytes /= 2;
}

static void test_set(void **state)
{
    struct wish wish = {0};
    struct autobuf_inband *ib = greeted_with(NULL);

    (void)state;
    ib->responder.set = grant;
    ib->responder.set_user = &wish;
    told(ib, MS, "AUTOBUF SET 1000 2000\r\n");
    assert_string_equal(said(ib, MS), "AUTOBUF SET 0 1000\r\n");
    assert_int_equal(wish.rcv, 1000);
    assert_int_equal(wish.snd, 2000);
    autobuf_inband_close(ib);
}

static void test_prefix(void **state)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_inband *ib;

    (void)state;
    snprintf(options.prefix, sizeof options.prefix, "SITE AUTOBUF");
    ib = open_with(&options);
    assert_int_equal(told(ib, MS, "SITE AUTOBUF HELLO 1\r\n"), 22);
    assert_string_equal(said(ib, MS), "SITE AUTOBUF HELLO 1 train=463360 budget=463360\r\n");
    autobuf_inband_close(ib);
}

/* A stall within an exchange ends it; between exchanges a peer may be silent. */
static void test_time(void **state)
{
    struct autobuf_inband *ib = open_with(NULL);
    const void *data;

    (void)state;
    assert_true(autobuf_inband_deadline_ns(ib) == AUTOBUF_NS_UNSET);
    told(ib, MS, "AUTOBUF HELLO 1\r\n");
    said(ib, MS);
    assert_int_equal(autobuf_inband_deadline_ns(ib), 7001 * MS);
    told(ib, MS, "AUTOBUF SINK 14480\r\n x");
    assert_int_equal(autobuf_inband_output(ib, 7000 * MS, &data), 0);
    assert_int_equal(autobuf_inband_finished(ib), 0);
    assert_int_equal(autobuf_inband_output(ib, 7001 * MS, &data), 0);
    assert_int_equal(autobuf_inband_finished(ib), -ETIMEDOUT);
    autobuf_inband_close(ib);
}

/* Half a line, or half a refused train, times out too. */
static void test_time_between_exchanges(void **state)
{
    static const char *const halves[] = {"AUTOBUF HEL", "AUTOBUF SINK 14480\r\n x"};

    (void)state;
    for (size_t i = 0; i < COUNT(halves); i++) {
        struct autobuf_inband *ib = open_with(NULL);
        const void *data;

        told(ib, MS, halves[i]);
        CHECK_EQUAL(halves[i], autobuf_inband_finished(ib), 0);
        CHECK_EQUAL(halves[i], autobuf_inband_deadline_ns(ib), 7001 * MS);
        autobuf_inband_output(ib, 7001 * MS, &data);
        CHECK_EQUAL(halves[i], autobuf_inband_finished(ib), -ETIMEDOUT);
        autobuf_inband_close(ib);
    }
}

/* A second exchange on a connection begins without results. */
static void test_second_exchange(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *ib = after_a_sink();

    (void)state;
    told(ib, 30 * MS, "AUTOBUF RESULT rate=50000000 low=49000000 high=51000000 rtt=20000000\r\n");
    said(ib, 30 * MS);
    told(ib, 40 * MS, "AUTOBUF HELLO 1\r\n");
    said(ib, 40 * MS);
    assert_int_equal(autobuf_inband_result(ib, &path), AUTOBUF_E_NOREPLY);
    told(ib, 50 * MS, "AUTOBUF RESULT\r\n");
    assert_string_equal(said(ib, 50 * MS), "AUTOBUF RESULT\r\n");
    autobuf_inband_close(ib);
}

/* Reading a train takes time, however short it is. */
static void test_many_small_trains(void **state)
{
    struct autobuf_inband *ib = greeted_with(NULL);

    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        told(ib, MS, "AUTOBUF SINK 1\r\n ");
        assert_non_null(strstr(said(ib, MS), "AUTOBUF SINK\r\n"));
    }
    told(ib, MS, "AUTOBUF SINK 1\r\n ");
    assert_non_null(strstr(said(ib, MS), "ERROR 452"));
    autobuf_inband_close(ib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_line_of_a_megabyte),
        cmocka_unit_test(test_too_many_errors),
        cmocka_unit_test(test_too_many_lines),
        cmocka_unit_test(test_greeted),
        cmocka_unit_test(test_memory_of_arrivals),
        cmocka_unit_test(test_train),
        cmocka_unit_test(test_train_fits_the_congestion_window),
        cmocka_unit_test(test_budget_of_trains),
        cmocka_unit_test(test_sink),
        cmocka_unit_test(test_refused_sink_is_drained),
        cmocka_unit_test(test_sink_before_hello_is_drained),
        cmocka_unit_test(test_both_directions_are_known),
        cmocka_unit_test(test_implausible_results),
        cmocka_unit_test(test_reports_of_trains),
        cmocka_unit_test(test_an_rtt_below_tcp_s_is_ignored),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_time_between_exchanges),
        cmocka_unit_test(test_second_exchange),
        cmocka_unit_test(test_many_small_trains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

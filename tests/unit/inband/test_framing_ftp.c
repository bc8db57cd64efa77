/* SPDX-License-Identifier: MIT */
/* The exchange as FTP commands and replies: its lines, and how both ends read them. */
#include "exchange.h"

#include <errno.h>

#include "inband/exchange.h"

#define SEGMENT 1448U
#define RTT_NS (20 * MS)
#define PREFIX "SITE AUTOBUF"

static const struct answer_row {
    const char *text;
    bool good;
    enum ab_verb verb;
    uint64_t first;
    enum ab_key key;
    uint64_t value;
} answer_rows[] = {
    {"211 AUTOBUF 1 maxrcv=4194304 maxsnd=8 train=480000", true, AB_HELLO, 1, AB_KEY_MAXSND, 8},
    {"211 AUTOBUF 1", true, AB_HELLO, 1, AB_KEY_TRAIN, 0},
    {"211 AUTOBUF", false, AB_NO_VERB, 0, AB_KEY_TRAIN, 0},
    {"211 AUTOBUF x", false, AB_HELLO, 0, AB_KEY_TRAIN, 0},
    {"211 AUTOBUFFER 1", false, AB_NO_VERB, 0, AB_KEY_TRAIN, 0},
    {"211 autobuf 1", false, AB_NO_VERB, 0, AB_KEY_TRAIN, 0},
    {"211-AUTOBUF TRAIN 14000", true, AB_TRAIN, 14000, AB_KEY_PACE, 0},
    {"211-AUTOBUF TRAIN 14000 pace=5 paced=1", true, AB_TRAIN, 14000, AB_KEY_PACE, 5},
    {"211-AUTOBUF TRAIN x", false, AB_TRAIN, 0, AB_KEY_PACE, 0},
    {"211-AUTOBUF TRAINS 1", true, AB_MORE, 0, AB_KEY_PACE, 0},
    {"350 Send 14480 bytes", true, AB_GO, 0, AB_KEY_PACE, 0},
    {"350", true, AB_GO, 0, AB_KEY_PACE, 0},
    {"350-more", true, AB_MORE, 0, AB_KEY_PACE, 0},
    {"211 bytes=14480 nsec=1042560", true, AB_SINK, 0, AB_KEY_NSEC, 1042560},
    {"211 bytes=14480 nsec=1042560 rate=100 sure=1", true, AB_SINK, 0, AB_KEY_RATE, 100},
    {"211 bytes=-1 nsec=0", false, AB_SINK, 0, AB_KEY_PACE, 0},
    {"200 AUTOBUF rcv=7 snd=0", true, AB_SET, 7, AB_KEY_SND, 0},
    {"200 AUTOBUF rcv=", false, AB_SET, 0, AB_KEY_SND, 0},
    {"200 Command okay.", false, AB_NO_VERB, 0, AB_KEY_SND, 0},
    {"211 End of status", false, AB_NO_VERB, 0, AB_KEY_SND, 0},
    {"452 no more", true, AB_ERROR, 452, AB_KEY_SND, 0},
    {"500 'SITE AUTOBUF' not understood", true, AB_ERROR, 500, AB_KEY_SND, 0},
    {"500-What?", true, AB_MORE, 0, AB_KEY_SND, 0},
    {"421 Bye", true, AB_ERROR, 421, AB_KEY_SND, 0},
    {"599", true, AB_ERROR, 599, AB_KEY_SND, 0},
    {"600 none", true, AB_MORE, 0, AB_KEY_SND, 0},
    {" payload or text", true, AB_MORE, 0, AB_KEY_SND, 0},
    {"2111 x", true, AB_MORE, 0, AB_KEY_SND, 0},
    {"21", true, AB_MORE, 0, AB_KEY_SND, 0},
    {"", true, AB_MORE, 0, AB_KEY_SND, 0},
};

static void test_parse_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(answer_rows); i++) {
        const struct answer_row *row = &answer_rows[i];
        size_t len = strlen(row->text);
        char *copy = malloc(len + 1);
        struct ab_line line;

        memcpy(copy, row->text, len);
        CHECK_EQUAL(row->text, ab_framing_ftp.answer.parse(PREFIX, copy, len, &line), row->good);
        free(copy);
        if (!row->good)
            continue;
        CHECK_EQUAL(row->text, line.verb, row->verb);
        CHECK_EQUAL(row->text, line.numbers[0], row->first);
        CHECK_EQUAL(row->text, line.values[row->key], row->value);
    }
}

/* Each end parses what the other builds. */
static void test_built_answers_parse(void **state)
{
    static const enum ab_verb verbs[] = {AB_HELLO, AB_TRAIN, AB_GO, AB_SINK, AB_SET, AB_ERROR};

    (void)state;
    for (size_t i = 0; i < COUNT(verbs); i++) {
        struct ab_line built = {.verb = verbs[i], .count = 1, .numbers = {452, 7}}, parsed;
        char text[AB_LINE_BYTES];
        size_t len;

        built.values[AB_KEY_RATE] = verbs[i] == AB_SINK ? 5 : 0;
        len = ab_framing_ftp.answer.build(&built, PREFIX, "why", text, sizeof text);
        assert_true(len > 2);
        assert_memory_equal(text + len - 2, "\r\n", 2);
        assert_true(ab_framing_ftp.answer.parse(PREFIX, text, len - 2, &parsed));
        assert_int_equal(parsed.verb, verbs[i]);
        assert_int_equal(ab_framing_ftp.answer.build(&built, PREFIX, "why", text, len - 1), 0);
        assert_int_equal(parsed.values[AB_KEY_RATE], built.values[AB_KEY_RATE]);
        if (verbs[i] == AB_HELLO || verbs[i] == AB_TRAIN || verbs[i] == AB_SET ||
            verbs[i] == AB_ERROR)
            assert_int_equal(parsed.numbers[0], 452);
    }
}

/* ------------------------------------------------------------------------------- responder */

static struct autobuf_inband *server(void)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_inband *ib;

    options.dress = AUTOBUF_INBAND_FTP;
    assert_int_equal(autobuf_inband_open_pure(&ib, AUTOBUF_INBAND_RESPONDER, 0, &options), 0);
    ib->responder.rcv_max_bytes = 4194304;
    ib->responder.snd_max_bytes = 8388608;
    return ib;
}

static struct autobuf_inband *greeted_server(void)
{
    struct autobuf_inband *ib = server();

    assert_true(told(ib, MS, "SITE AUTOBUF\r\n") > 0);
    assert_string_equal(
        said(ib, MS),
        "211 AUTOBUF 1 train=463360 budget=463360 maxrcv=4194304 maxsnd=8388608\r\n");
    assert_int_equal(autobuf_inband_finished(ib), 1);
    return ib;
}

static void test_server_answers(void **state)
{
    static const struct {
        const char *line, *answer;
    } rows[] = {
        {"SITE AUTOBUF\r\n", "211 AUTOBUF 1 "}, /* again */
        {"SITE AUTOBUF TRAIN 0\r\n", "501 "},
        {"SITE AUTOBUF TRAIN 480001\r\n", "501 "},
        {"SITE AUTOBUF TRAIN\r\n", "501 "},
        {"SITE AUTOBUF SINK 0\r\n", "501 "},
        {"SITE AUTOBUF SINK 480001\r\n", "501 "},
        {"SITE AUTOBUF SINK 470000\r\n", "452 "},
        {"SITE AUTOBUF SINK 14480\r\n", "350 Send 14480 bytes\r\n"},
        {"SITE AUTOBUF sink 14480\r\n", "350 "},
        {"SITE AUTOBUF SET 5 6\r\n", "200 AUTOBUF rcv=0 snd=0\r\n"},
        {"SITE AUTOBUF SET 5\r\n", "501 "},
        {"SITE AUTOBUF PAINT\r\n", "500 "},
        {"SITE AUTOBUF TRAIN x\r\n", "501 "},
        {"SITE AUTOBUF SINK -1\r\n", "501 "},
        {"SITE AUTOBUF SET 5 many\r\n", "501 "},
        {"SITE AUTOBUF TRAINS 14480\r\n", "500 "},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = greeted_server();
        const char *answer;

        CHECK_EQUAL(rows[i].line, told(ib, MS, rows[i].line), strlen(rows[i].line));
        answer = said(ib, MS);
        if (strncmp(answer, rows[i].answer, strlen(rows[i].answer)) != 0)
            fail_msg("%s: \"%s\"", rows[i].line, answer);
        autobuf_inband_close(ib);
    }
}

static void test_server_before_hello(void **state)
{
    static const char *const lines[] = {"SITE AUTOBUF TRAIN 14480\r\n", "SITE AUTOBUF SINK 14480\r\n",
                                        "SITE AUTOBUF SET 1 1\r\n"};

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct autobuf_inband *ib = server();

        told(ib, MS, lines[i]);
        CHECK(lines[i], strncmp(said(ib, MS), "503 ", 4) == 0);
        CHECK_EQUAL(lines[i], autobuf_inband_finished(ib), 1);
        autobuf_inband_close(ib);
    }
}

/* A reply of several lines as RFC 959 has it, of which none in the middle looks like its end. */
static void test_server_train(void **state)
{
    struct autobuf_inband *ib = greeted_server();
    const char *text, *line;

    (void)state;
    told(ib, MS, "SITE AUTOBUF TRAIN 14480\r\n");
    text = said(ib, MS);
    assert_int_equal(strlen(text), 10 * SEGMENT);
    line = strchr(text, '\n') + 1;
    assert_int_equal(number_in(text, "211-AUTOBUF TRAIN "), strlen(line));
    for (; *line == ' '; line = strchr(line, '\n') + 1)
        assert_true(strchr(line, '\n') - line < 500);
    assert_string_equal(line, "211 AUTOBUF\r\n");
    assert_int_equal(autobuf_inband_finished(ib), 1);
    autobuf_inband_close(ib);
}

static void test_server_sink(void **state)
{
    struct autobuf_inband *ib = greeted_server();
    uint64_t now_ns;
    const char *answer;

    (void)state;
    told(ib, MS, "SITE AUTOBUF SINK 28960\r\n");
    said(ib, MS);
    assert_int_equal(autobuf_inband_finished(ib), 0);
    now_ns = train(ib, 10 * MS, 28960, 120000);
    answer = said(ib, now_ns);
    assert_int_equal(strncmp(answer, "211 bytes=", 10), 0);
    /* Bytes and time alone are the rate, too: 19 segments in 19 gaps. */
    assert_int_equal(number_in(answer, "bytes="), 19 * SEGMENT);
    assert_int_equal(number_in(answer, "nsec="), 19 * 120000);
    assert_int_equal(autobuf_inband_finished(ib), 1);
    autobuf_inband_close(ib);
}

/* ------------------------------------------------------------------------------- initiator */

static struct autobuf_inband *client(uint32_t flags)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_inband *ib;

    options.dress = AUTOBUF_INBAND_FTP;
    options.flags = flags;
    assert_int_equal(autobuf_inband_open_pure(&ib, AUTOBUF_INBAND_INITIATOR, 0, &options), 0);
    assert_string_equal(said(ib, 0), "SITE AUTOBUF\r\n");
    return ib;
}

static struct autobuf_inband *greeting_client(void)
{
    struct autobuf_inband *ib = client(0);

    ib->initiator.hello_only = true;
    return ib;
}

static void test_client_accepts_only_the_right_replies(void **state)
{
    static const char *const replies[] = {
        "500 'SITE AUTOBUF' not understood\r\n",
        "500-What?\r\n I do not\r\n500 understand\r\n",
        "200 OK\r\n",
        "211 AUTOBUF 2 train=480000\r\n",
        "211 Autobuf 1\r\n",
        "214-The following SITE commands\r\n UMASK\r\n214 End\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(replies); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = client(0);
        size_t at = 0, len = strlen(replies[i]);

        while (at < len && autobuf_inband_finished(ib) == 0)
            at += (size_t)autobuf_inband_input(ib, RTT_NS, replies[i] + at, len - at);
        CHECK_EQUAL(replies[i], at, len);
        CHECK_EQUAL(replies[i], autobuf_inband_finished(ib), 1);
        CHECK_EQUAL(replies[i], autobuf_inband_result(ib, &path), AUTOBUF_E_UNSUPPORTED);
        CHECK_EQUAL(replies[i], strlen(said(ib, RTT_NS)), 0);
        autobuf_inband_close(ib);
    }
}

/* A train of len bytes with its last line. */
static uint64_t reply(struct autobuf_inband *ib, uint64_t now_ns, size_t len, uint64_t gap_ns)
{
    static const char end[] = "\r\n211 AUTOBUF\r\n";

    now_ns = train(ib, now_ns, len - strlen(end), gap_ns);
    assert_int_equal(told(ib, now_ns, end), strlen(end));
    return now_ns;
}

static struct autobuf_inband *client_in_a_train(void)
{
    struct autobuf_inband *ib = client(AUTOBUF_INBAND_RX);

    told(ib, RTT_NS, "211 AUTOBUF 1 train=480000\r\n");
    said(ib, RTT_NS);
    told(ib, 2 * RTT_NS, "211-AUTOBUF TRAIN 14000\r\n");
    return ib;
}

/* A reply ends with the line that begins with its code and a blank, whatever length was announced. */
static void test_client_drains_a_reply(void **state)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"at once", "211 End\r\n"},
        {"cut", " padding\r\n pad\r\n211 Sorry\r\n"},
        {"its code within a line", " 211 \r\n 211 x\r\nx211 \r\n211-211 \r\n211 End\r\n"},
        {"in two parts", " x\r\n2|11 En|d\r|\n"},
        {"no carriage return", " x\n211 End\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = client_in_a_train();
        char *copy = strdup(rows[i].text), *rest = copy;

        for (char *part = strsep(&rest, "|"); part; part = strsep(&rest, "|")) {
            CHECK_EQUAL(rows[i].name, autobuf_inband_finished(ib), 0);
            CHECK_EQUAL(rows[i].name, told(ib, 2 * RTT_NS, part), strlen(part));
        }
        /* It goes on: with another train, or to the end. */
        CHECK(rows[i].name, strncmp(said(ib, 2 * RTT_NS), "SITE AUTOBUF TRAIN ", 19) == 0 ||
                                autobuf_inband_finished(ib) == 1);
        free(copy);
        autobuf_inband_close(ib);
    }
}

/* A reply that is longer than announced is read to its end, up to a limit. */
static void test_client_drains_a_long_reply(void **state)
{
    struct autobuf_inband *ib = client_in_a_train();
    uint64_t now_ns = train(ib, 2 * RTT_NS, 20000, 120000);
    size_t taken = 0;

    (void)state;
    assert_int_equal(autobuf_inband_finished(ib), 0);
    told(ib, now_ns, "\r\n211 End\r\n");
    assert_true(strlen(said(ib, now_ns)) > 0 || autobuf_inband_finished(ib) == 1);
    autobuf_inband_close(ib);
    ib = client_in_a_train();
    for (unsigned i = 0; i < 10000 && autobuf_inband_finished(ib) == 0; i++) {
        told(ib, now_ns, " more and more\r\n");
        taken += strlen(" more and more\r\n");
    }
    assert_int_equal(autobuf_inband_finished(ib), AUTOBUF_E_PROTOCOL);
    assert_in_range(taken, 14000 + 65000, 14000 + 66000);
    autobuf_inband_close(ib);
}

static void test_client_measures_after_hello(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *ib = greeting_client();
    uint64_t now_ns = 100 * RTT_NS;

    (void)state;
    assert_int_equal(ab_inband_begin(ib, 0, AUTOBUF_INBAND_RX, 0, 0), -EINVAL);
    assert_int_equal(autobuf_inband_greeted(ib), 0);
    told(ib, RTT_NS, "211 AUTOBUF 1 maxrcv=7 maxsnd=8 train=480000\r\n");
    assert_int_equal(autobuf_inband_finished(ib), 1);
    assert_int_equal(autobuf_inband_greeted(ib), 1);
    assert_true(ib->initiator.peer_max_bytes[0] == 7 && ib->initiator.peer_max_bytes[1] == 8);
    assert_int_equal(ab_inband_begin(ib, now_ns, AUTOBUF_INBAND_RX, 0, 0), 0);
    assert_string_equal(said(ib, now_ns), "SITE AUTOBUF TRAIN 14480\r\n");
    told(ib, now_ns, "211-AUTOBUF TRAIN 14000\r\n");
    now_ns = reply(ib, now_ns, 14000, 1200000); /* 10 Mbit/s */
    assert_int_equal(autobuf_inband_finished(ib), 1); /* enough; and there is no RESULT */
    assert_int_equal(autobuf_inband_result(ib, &path), 0);
    assert_in_range(path.rx_rate_bit_per_s, 9900000, 10100000);
    assert_int_equal(path.tx_rate_bit_per_s, 0);
    /* Again, on a path that has become faster; what the other direction gave stays as it was. */
    assert_int_equal(ab_inband_begin(ib, now_ns, AUTOBUF_INBAND_RX, 0, 0), 0);
    assert_string_equal(said(ib, now_ns), "SITE AUTOBUF TRAIN 14480\r\n");
    told(ib, now_ns, "211-AUTOBUF TRAIN 14000\r\n");
    now_ns = reply(ib, now_ns, 14000, 600000);
    assert_int_equal(autobuf_inband_result(ib, &path), 0);
    assert_in_range(path.rx_rate_bit_per_s, 19800000, 20200000);
    /* And the other one, though the server was late, and was asked again. */
    ib->initiator.asked_again = 2;
    assert_int_equal(ab_inband_begin(ib, now_ns, AUTOBUF_INBAND_TX, 0, 0), 0);
    assert_non_null(strstr(said(ib, now_ns), "SITE AUTOBUF SINK "));
    autobuf_inband_close(ib);
}

/* After one train of 100 Mbit/s x 20 ms (250 KB) it goes on unless that is far outside the range. */
static void test_client_stops_when_the_bdp_is_outside_the_range(void **state)
{
    static const struct {
        const char *name;
        uint64_t low_bytes, high_bytes;
        int over;
    } rows[] = {
        {"all is of interest", 0, 0, 0},      {"far above", 100000, 150000, 1},
        {"above, but not by far", 100000, 220000, 0}, {"within", 200000, 300000, 0},
        {"below, but not by far", 280000, 400000, 0}, {"far below", 500000, 600000, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = greeting_client();

        told(ib, RTT_NS, "211 AUTOBUF 1 train=480000\r\n");
        assert_int_equal(ab_inband_begin(ib, RTT_NS, AUTOBUF_INBAND_RX, rows[i].low_bytes, rows[i].high_bytes), 0);
        said(ib, RTT_NS);
        told(ib, 2 * RTT_NS, "211-AUTOBUF TRAIN 14000\r\n");
        reply(ib, 2 * RTT_NS, 14000, 120000);
        CHECK_EQUAL(rows[i].name, autobuf_inband_finished(ib), rows[i].over);
        autobuf_inband_close(ib);
    }
}

static void test_client_waits_for_350(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *ib = client(AUTOBUF_INBAND_TX);
    const char *text;

    (void)state;
    told(ib, RTT_NS, "211 AUTOBUF 1 train=480000\r\n");
    assert_string_equal(said(ib, RTT_NS), "SITE AUTOBUF SINK 14480\r\n");
    told(ib, 2 * RTT_NS, "350 Go\r\n");
    text = said(ib, 2 * RTT_NS);
    assert_int_equal(strlen(text), 14480);
    assert_true(text[0] == ' ' && text[14479] == '\n');
    /* A server that tells bytes and time and no more: 9 segments of 1500 bytes in 10.8 ms. */
    told(ib, 4 * RTT_NS, "211 bytes=13032 nsec=10800000\r\n");
    assert_int_equal(autobuf_inband_finished(ib), 1);
    assert_int_equal(autobuf_inband_result(ib, &path), 0);
    assert_int_equal(path.tx_rate_bit_per_s, 10000000);
    assert_int_equal(path.flags, 0);
    autobuf_inband_close(ib);
}

static void test_client_is_refused(void **state)
{
    struct autobuf_inband *ib = client(AUTOBUF_INBAND_TX);

    (void)state;
    told(ib, RTT_NS, "211 AUTOBUF 1 train=480000\r\n");
    said(ib, RTT_NS);
    told(ib, 2 * RTT_NS, "452 no more\r\n");
    assert_int_equal(autobuf_inband_finished(ib), 1);
    assert_int_equal(strlen(said(ib, 2 * RTT_NS)), 0);
    assert_int_equal(ab_inband_set(ib, 2 * RTT_NS, 4000000, 0), 0);
    assert_string_equal(said(ib, 2 * RTT_NS), "SITE AUTOBUF SET 4000000 0\r\n");
    told(ib, 3 * RTT_NS, "200 AUTOBUF rcv=212992 snd=0\r\n");
    assert_int_equal(autobuf_inband_finished(ib), 1);
    autobuf_inband_close(ib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_answers),
        cmocka_unit_test(test_built_answers_parse),
        cmocka_unit_test(test_server_answers),
        cmocka_unit_test(test_server_before_hello),
        cmocka_unit_test(test_server_train),
        cmocka_unit_test(test_server_sink),
        cmocka_unit_test(test_client_accepts_only_the_right_replies),
        cmocka_unit_test(test_client_drains_a_reply),
        cmocka_unit_test(test_client_drains_a_long_reply),
        cmocka_unit_test(test_client_measures_after_hello),
        cmocka_unit_test(test_client_stops_when_the_bdp_is_outside_the_range),
        cmocka_unit_test(test_client_waits_for_350),
        cmocka_unit_test(test_client_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

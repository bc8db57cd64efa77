/* SPDX-License-Identifier: MIT */
/* The handle of the exchange in band: what both ends share. */
#include "exchange.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEGMENT 1448U
#define OPTIONS AUTOBUF_INBAND_OPTIONS_INIT
#define OPTIONS_SIZE ((uint32_t)sizeof(struct autobuf_inband_options))
#define FACTS_SIZE ((uint32_t)sizeof(struct autobuf_inband_facts))

static struct autobuf_inband *open_role(uint32_t role)
{
    struct autobuf_inband *ib;

    assert_int_equal(autobuf_inband_open_pure(&ib, role, 0, NULL), 0);
    return ib;
}

static const struct option_row {
    const char *name;
    uint32_t role;
    struct autobuf_inband_options options;
    int result;
} option_rows[] = {
    {"none", 1, OPTIONS, 0},
    {"no role", 0, OPTIONS, -EINVAL},
    {"a third role", 3, OPTIONS, -EINVAL},
    {"no size", 1, {.size = 0}, -EINVAL},
    {"the least budget", 2, {.size = OPTIONS_SIZE, .budget_bytes = 6000}, 0},
    {"less", 2, {.size = OPTIONS_SIZE, .budget_bytes = 5999}, -EINVAL},
    {"the largest budget", 1, {.size = OPTIONS_SIZE, .budget_bytes = 480000}, 0},
    {"more", 1, {.size = OPTIONS_SIZE, .budget_bytes = 480001}, -EINVAL},
    {"the longest timeout", 1, {.size = OPTIONS_SIZE, .timeout_ns = 30000 * MS}, 0},
    {"longer, which is that", 1, {.size = OPTIONS_SIZE, .timeout_ns = UINT64_MAX}, 0},
    {"a prefix", 1, {.size = OPTIONS_SIZE, .prefix = "X-MEASURE"}, 0},
    {"a prefix of two words", 1, {.size = OPTIONS_SIZE, .prefix = "SITE AUTOBUF"}, 0},
    {"a prefix without an end", 1,
     {.size = OPTIONS_SIZE, .prefix = {'1', '2', '3', '4', '5', '6', '7', '8', '1', '2', '3',
                                       '4', '5', '6', '7', '8', '1', '2', '3', '4', '5', '6',
                                       '7', '8', '1', '2', '3', '4', '5', '6', '7', '8'}},
     -EINVAL},
    {"a line feed in the prefix", 1, {.size = OPTIONS_SIZE, .prefix = "A\nB"}, -EINVAL},
};

static void test_options(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(option_rows); i++) {
        const struct option_row *row = &option_rows[i];
        struct autobuf_inband *ib;

        CHECK_EQUAL(row->name, autobuf_inband_open_pure(&ib, row->role, 0, &row->options),
                    row->result);
        CHECK(row->name, (ib != NULL) == (row->result == 0));
        autobuf_inband_close(ib);
    }
}

static const struct facts_row {
    const char *name;
    struct autobuf_inband_facts facts;
    int result;
} facts_rows[] = {
    {"unknown", AUTOBUF_INBAND_FACTS_INIT, 0},
    {"no size", {.size = 0}, -EINVAL},
    {"the least segment", {.size = FACTS_SIZE, .segment_bytes = 64}, 0},
    {"less", {.size = FACTS_SIZE, .segment_bytes = 63}, -EINVAL},
    {"the largest segment", {.size = FACTS_SIZE, .segment_bytes = 65536}, 0},
    {"larger", {.size = FACTS_SIZE, .segment_bytes = 65537}, -EINVAL},
    {"a packet smaller than its segment",
     {.size = FACTS_SIZE, .segment_bytes = 1400, .packet_bytes = 1399}, -EINVAL},
    {"TLS records", {.size = FACTS_SIZE, .segment_bytes = 1400, .packet_bytes = 1473}, 0},
};

static void test_facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(facts_rows); i++) {
        struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_INITIATOR);

        CHECK_EQUAL(facts_rows[i].name, autobuf_inband_tell(ib, &facts_rows[i].facts),
                    facts_rows[i].result);
        autobuf_inband_close(ib);
    }
}

/* Each read ends where a segment ends, the line in front included. */
static void test_reads_end_with_segments(void **state)
{
    static const char payload[2 * SEGMENT] = " ";
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    size_t line = strlen("AUTOBUF SINK 14480\r\n");

    (void)state;
    told(ib, MS, "AUTOBUF HELLO 1\r\n");
    said(ib, MS);
    assert_int_equal(autobuf_inband_wanted(ib), 500);
    assert_int_equal(told(ib, MS, "AUTOBUF SINK 14480\r\n"), line);
    assert_int_equal(autobuf_inband_wanted(ib), SEGMENT - line);
    autobuf_inband_input(ib, MS, payload, 100);
    assert_int_equal(autobuf_inband_wanted(ib), SEGMENT - line - 100);
    autobuf_inband_input(ib, MS, payload, SEGMENT - line - 100);
    assert_int_equal(autobuf_inband_wanted(ib), SEGMENT);
    for (int i = 0; i < 9; i++)
        autobuf_inband_input(ib, MS, payload, autobuf_inband_wanted(ib));
    assert_int_equal(autobuf_inband_wanted(ib), line);
    autobuf_inband_close(ib);
}

/* One train of 20 segments in a responder, 120 us apart but for what a row changes. */
static uint64_t rate_read(uint64_t (*stamp)(unsigned i), unsigned *at_least)
{
    static const char payload[SEGMENT] = " ";
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    size_t left = 28940;

    told(ib, 0, "AUTOBUF HELLO 1\r\n");
    said(ib, 0);
    told(ib, 0, "AUTOBUF SINK 28940\r\n");
    for (unsigned i = 0; left > 0; i++) {
        size_t part = autobuf_inband_wanted(ib);

        assert_int_equal(autobuf_inband_input(ib, stamp(i), payload, part), part);
        left -= part;
    }
    autobuf_inband_result(ib, &path);
    autobuf_inband_close(ib);
    *at_least = path.flags & AUTOBUF_PATH_RX_AT_LEAST;
    return path.rx_rate_bit_per_s;
}

static uint64_t even(unsigned i)
{
    return 10 * MS + i * 120000;
}

static uint64_t in_pairs(unsigned i) /* two come in one read */
{
    return even(i | 1);
}

static uint64_t with_a_stall(unsigned i) /* a window was full */
{
    return even(i) + (i >= 10 ? 50 * MS : 0);
}

static uint64_t with_a_hole(unsigned i) /* lost, and came again */
{
    return i == 7 ? even(19) + 30 * MS : even(i);
}

static uint64_t by_a_late_reader(unsigned i) /* at first */
{
    return even(i < 5 ? 5 : i);
}

static uint64_t at_once(unsigned i)
{
    (void)i;
    return 10 * MS;
}

static uint64_t backwards(unsigned i)
{
    return even(20 - i);
}

static uint64_t from_everywhere(unsigned i)
{
    return i % 2 ? UINT64_MAX - i : i;
}

static void test_readings(void **state)
{
    static const struct {
        const char *name;
        uint64_t (*stamp)(unsigned i);
        uint64_t low, high;
    } rows[] = {
        {"even", even, 99900000, 100100000},
        {"in pairs", in_pairs, 99000000, 101000000},
        {"with a stall", with_a_stall, 99000000, 101000000},
        {"with a hole", with_a_hole, 99000000, 101000000},
        {"by a late reader", by_a_late_reader, 99000000, 101000000},
        {"at once", at_once, 0, 0},
        {"backwards", backwards, 0, 0},
        {"from everywhere", from_everywhere, 0, 10000000000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        unsigned at_least;
        uint64_t rate = rate_read(rows[i].stamp, &at_least);

        if (rate < rows[i].low || rate > rows[i].high)
            fail_msg("%s: %llu", rows[i].name, (unsigned long long)rate);
        CHECK(rows[i].name, !at_least || i > 4);
    }
}

/* 1 Gbit/s in trains of 10, 20 and 40 segments; the last, of 160, was held up and let go at once. */
static void test_train_that_was_held_up(void **state)
{
    static const struct {
        unsigned bytes;
        uint64_t gap_ns;
    } trains[] = {{14460, 12000}, {28940, 12000}, {57900, 12000}, {231660, 2400}};
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);

    (void)state;
    told(ib, 0, "AUTOBUF HELLO 1\r\n");
    said(ib, 0);
    for (size_t i = 0; i < COUNT(trains); i++) {
        uint64_t now_ns = (i + 1) * 100 * MS;
        char line[100];

        snprintf(line, sizeof line, "AUTOBUF SINK %u\r\n", trains[i].bytes);
        told(ib, now_ns, line);
        train(ib, now_ns, trains[i].bytes, trains[i].gap_ns);
        said(ib, now_ns);
    }
    autobuf_inband_result(ib, &path);
    assert_in_range(path.rx_rate_bit_per_s, 900000000, 1100000000);
    autobuf_inband_close(ib);
}

/* Bytes that come one by one, each with a stamp of its own, take no more memory, and no longer. */
static void test_tiny_reads(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);

    (void)state;
    told(ib, 0, "AUTOBUF HELLO 1\r\n");
    said(ib, 0);
    told(ib, 0, "AUTOBUF SINK 463000\r\n");
    for (unsigned i = 0; i < 463000; i++)
        assert_int_equal(autobuf_inband_input(ib, MS + i, " ", 1), 1);
    assert_non_null(strstr(said(ib, 600 * MS), "AUTOBUF SINK"));
    autobuf_inband_close(ib);
}

/* What is sent in parts is what is sent at once. */
static void test_partial_writes(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    const void *data;
    size_t left, step = 1, sent = 0;

    (void)state;
    told(ib, 0, "AUTOBUF HELLO 1\r\n");
    said(ib, 0);
    told(ib, 0, "AUTOBUF TRAIN 14480\r\n");
    while ((left = autobuf_inband_output(ib, 0, &data)) > 0) {
        size_t part = step < left ? step : left;

        assert_int_equal(left, 14480 - sent);
        autobuf_inband_sent(ib, 0, part);
        sent += part;
        step += 7;
    }
    assert_int_equal(sent, 14480);
    autobuf_inband_close(ib);
}

static void test_end_of_the_connection(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);

    (void)state;
    assert_int_equal(autobuf_inband_input(ib, 0, "", 0), 0); /* between exchanges it may end */
    told(ib, 0, "AUTOBUF HEL");
    assert_int_equal(autobuf_inband_input(ib, 0, "", 0), -ECONNRESET);
    assert_int_equal(autobuf_inband_finished(ib), -ECONNRESET);
    autobuf_inband_close(ib);
    ib = open_role(AUTOBUF_INBAND_INITIATOR);
    assert_int_equal(autobuf_inband_input(ib, 0, "", 0), -ECONNRESET);
    autobuf_inband_close(ib);
}

static void test_results(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_INITIATOR);

    (void)state;
    assert_int_equal(autobuf_inband_result(ib, &path), AUTOBUF_E_NOREPLY);
    path.size = 0;
    assert_int_equal(autobuf_inband_result(ib, &path), -EINVAL);
    assert_int_equal(autobuf_inband_fd(ib), -1);
    assert_int_equal(autobuf_inband_step(ib, 0), -EBADF);
    autobuf_inband_close(ib);
    autobuf_inband_close(NULL);
}

static void test_forked(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_INITIATOR);
    int status = 0;
    pid_t child = fork();

    (void)state;
    if (child == 0)
        _exit(autobuf_inband_input(ib, 0, "x", 1) == AUTOBUF_E_FORKED ? 7 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    autobuf_inband_close(ib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_reads_end_with_segments),
        cmocka_unit_test(test_readings),
        cmocka_unit_test(test_train_that_was_held_up),
        cmocka_unit_test(test_tiny_reads),
        cmocka_unit_test(test_partial_writes),
        cmocka_unit_test(test_end_of_the_connection),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_forked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

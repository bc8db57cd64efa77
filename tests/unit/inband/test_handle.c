/* SPDX-License-Identifier: MIT */
/* The handle of the exchange in band: its options, its beginning, its result, its end. */
#include "exchange.h"

#include <errno.h>

#include "inband/exchange.h"

#define OPTIONS AUTOBUF_INBAND_OPTIONS_INIT
#define UNSET AUTOBUF_NS_UNSET
#define OPTIONS_SIZE ((uint32_t)sizeof(struct autobuf_inband_options))

static struct autobuf_inband *open_role(uint32_t role)
{
    struct autobuf_inband *ib;

    assert_int_equal(autobuf_inband_open_pure(&ib, role, 7 * MS, NULL), 0);
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

static void test_defaults_and_bounds(void **state)
{
    static const struct {
        const char *name;
        struct autobuf_inband_options options;
        const char *hello;
        uint64_t deadline_ns;
    } rows[] = {
        {"nothing said", OPTIONS, "AUTOBUF HELLO 1 train=463360 budget=463360\r\n", 7007 * MS},
        {"an older program", {.size = 8, .budget_bytes = 6000}, "AUTOBUF HELLO 1 train=5792 budget=5792\r\n",
         7007 * MS},
        {"the longest timeout", {.size = OPTIONS_SIZE, .timeout_ns = UINT64_MAX},
         "AUTOBUF HELLO 1 train=463360 budget=463360\r\n", 32007 * MS},
        {"the shortest", {.size = OPTIONS_SIZE, .timeout_ns = 1}, "AUTOBUF HELLO 1 train=463360 budget=463360\r\n",
         2007 * MS + 1},
        {"a prefix", {.size = OPTIONS_SIZE, .prefix = "X"}, "X HELLO 1 train=463360 budget=463360\r\n", 7007 * MS},
        {"FTP", {.size = OPTIONS_SIZE, .dress = AUTOBUF_INBAND_FTP}, "SITE AUTOBUF\r\n", 7007 * MS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib;

        assert_int_equal(autobuf_inband_open_pure(&ib, AUTOBUF_INBAND_INITIATOR, 7 * MS, &rows[i].options), 0);
        CHECK_EQUAL(rows[i].name, autobuf_inband_deadline_ns(ib), rows[i].deadline_ns);
        if (strcmp(said(ib, 7 * MS), rows[i].hello) != 0)
            fail_msg("%s: \"%s\"", rows[i].name, said(ib, 7 * MS));
        autobuf_inband_close(ib);
    }
}

/* NULL for a struct or a handle is an error, or does nothing in functions without errors. */
static void test_null(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    const void *data;
    char byte;
    uint64_t stamp_ns;
    int usable = 7;

    (void)state;
    assert_int_equal(autobuf_inband_tell(NULL, &(struct autobuf_inband_facts)AUTOBUF_INBAND_FACTS_INIT), -EINVAL);
    assert_int_equal(autobuf_inband_output(NULL, 0, &data), 0);
    assert_int_equal(autobuf_inband_output(ib, 0, NULL), 0);
    autobuf_inband_sent(NULL, 0, 1);
    assert_int_equal(autobuf_inband_wanted(NULL), 0);
    assert_int_equal(autobuf_inband_input(NULL, 0, "A", 1), -EINVAL);
    assert_int_equal(autobuf_inband_input(ib, 0, NULL, 1), -EINVAL);
    assert_true(autobuf_inband_deadline_ns(NULL) == AUTOBUF_NS_UNSET);
    assert_int_equal(autobuf_inband_finished(NULL), -EINVAL);
    assert_int_equal(autobuf_inband_greeted(NULL), -EINVAL);
    assert_int_equal(autobuf_inband_result(NULL, &path), -EINVAL);
    assert_int_equal(autobuf_inband_fd(NULL), -EINVAL);
    assert_int_equal(autobuf_inband_events(NULL), -EINVAL);
    assert_int_equal(autobuf_inband_step(NULL, 0), -EINVAL);
    assert_int_equal(autobuf_inband_receive(0, NULL, 1, &stamp_ns), -EINVAL);
    assert_int_equal(autobuf_inband_receive(0, &byte, 1, NULL), -EINVAL);
    assert_int_equal(autobuf_inband_open_pure(NULL, AUTOBUF_INBAND_INITIATOR, 0, NULL), -EINVAL);
    assert_int_equal(autobuf_inband_open(NULL, AUTOBUF_INBAND_INITIATOR, 0, NULL), -EINVAL);
    assert_int_equal(autobuf_inband_tell(ib, NULL), -EINVAL);
    assert_int_equal(autobuf_inband_result(ib, NULL), -EINVAL);
    assert_int_equal(autobuf_inband_facts(0, NULL), -EINVAL);
    assert_int_equal(autobuf_inband(0, NULL, NULL, &usable), -EINVAL);
    assert_int_equal(usable, 1);
    assert_int_equal(autobuf_inband(0, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(autobuf_inband_result(ib, &path), AUTOBUF_E_NOREPLY); /* it is as it was */
    autobuf_inband_close(ib);
    autobuf_inband_close(NULL);
}

static uint64_t rate_seen(int result, uint64_t rate_bit_per_s)
{
    return result == AUTOBUF_E_RELAYED ? 0 : rate_bit_per_s;
}

static void test_result(void **state)
{
    const struct ab_reading none = {0}, fast = {.rate_bit_per_s = 100000000, .low_bit_per_s = 90000000,
                                                .high_bit_per_s = 110000000},
                            bound = {.rate_bit_per_s = 50000000, .low_bit_per_s = 50000000,
                                     .high_bit_per_s = 50000000, .at_least = true};
    const struct {
        const char *name;
        struct ab_reading tx, rx;
        uint64_t tcp_ns, exchange_ns;
        int outcome, result;
        uint64_t rtt_min_ns, rtt_median_ns, tx_bdp_bytes, rx_bdp_bytes;
        uint32_t flags;
    } rows[] = {
        {"nothing", none, none, UNSET, UNSET, 0, AUTOBUF_E_NOREPLY, UNSET, UNSET, 0, 0, 0},
        {"TCP's time alone", none, none, 20 * MS, UNSET, 0, AUTOBUF_E_NOREPLY, 20 * MS, 20 * MS, 0, 0, 0},
        {"HELLO was answered", none, none, 20 * MS, 30 * MS, 0, AUTOBUF_E_FEW, 20 * MS, 30 * MS, 0, 0, 0},
        {"a stranger", none, none, 20 * MS, UNSET, AUTOBUF_E_UNSUPPORTED, AUTOBUF_E_UNSUPPORTED, 20 * MS, 20 * MS,
         0, 0, 0},
        {"one direction", fast, none, 20 * MS, 30 * MS, 0, 0, 20 * MS, 30 * MS, 251448, 0, 0},
        {"both", fast, bound, UNSET, 40 * MS, 0, 0, 40 * MS, 40 * MS, 501448, 251448, AUTOBUF_PATH_RX_AT_LEAST},
        {"both, the other way", bound, fast, UNSET, 40 * MS, 0, 0, 40 * MS, 40 * MS, 251448, 501448,
         AUTOBUF_PATH_TX_AT_LEAST},
        {"through a proxy", fast, fast, 9000, 201 * MS, 0, AUTOBUF_E_RELAYED, 200 * MS, 201 * MS, 0, 0, 0},
        {"rates without a time", fast, fast, UNSET, UNSET, 0, AUTOBUF_E_NOREPLY, UNSET, UNSET, 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT, small = {.size = 8};
        struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_INITIATOR);

        ib->tx.reading = rows[i].tx;
        ib->rx.reading = rows[i].rx;
        ib->facts.rtt_min_ns = rows[i].tcp_ns;
        ib->exchange_ns = rows[i].exchange_ns;
        if (rows[i].result == AUTOBUF_E_RELAYED) {
            ib->facts.rtt_high_ns = 27000;
            ib->shortest_ns = 200 * MS;
        }
        ib->outcome = rows[i].outcome;
        CHECK_EQUAL(rows[i].name, autobuf_inband_result(ib, &path), rows[i].result);
        CHECK_EQUAL(rows[i].name, path.rtt_min_ns, rows[i].rtt_min_ns);
        CHECK_EQUAL(rows[i].name, path.rtt_median_ns, rows[i].rtt_median_ns);
        CHECK_EQUAL(rows[i].name, path.tx_rate_bit_per_s, rate_seen(rows[i].result, rows[i].tx.rate_bit_per_s));
        CHECK_EQUAL(rows[i].name, path.rx_rate_low_bit_per_s, rate_seen(rows[i].result, rows[i].rx.low_bit_per_s));
        CHECK_EQUAL(rows[i].name, path.tx_rate_high_bit_per_s, rate_seen(rows[i].result, rows[i].tx.high_bit_per_s));
        CHECK_EQUAL(rows[i].name, path.tx_bdp_bytes, rows[i].tx_bdp_bytes);
        CHECK_EQUAL(rows[i].name, path.rx_bdp_bytes, rows[i].rx_bdp_bytes);
        CHECK_EQUAL(rows[i].name, path.flags, rows[i].flags);
        CHECK(rows[i].name, path.method == AUTOBUF_METHOD_INBAND && path.packet_bytes == 1500);
        CHECK_EQUAL(rows[i].name, autobuf_inband_result(ib, &small), rows[i].result);
        CHECK(rows[i].name, small.size == 8 && small.rtt_min_ns == 0); /* no more than it holds */
        path.size = 0;
        CHECK_EQUAL(rows[i].name, autobuf_inband_result(ib, &path), -EINVAL);
        autobuf_inband_close(ib);
    }
}

/* Up to the end of the exchange, or up to now; 0 if the clock ran backwards. */
static void test_elapsed(void **state)
{
    static const struct {
        const char *name;
        uint64_t now_ns, end_ns, elapsed_ns, measured_ns;
    } rows[] = {
        {"going on", 9 * MS, UINT64_MAX, 2 * MS, 9 * MS},
        {"over", 90 * MS, 10 * MS, 3 * MS, 10 * MS},
        {"backwards", 5 * MS, UINT64_MAX, 0, 5 * MS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_INITIATOR);

        ib->now_ns = rows[i].now_ns;
        ib->end_ns = rows[i].end_ns;
        autobuf_inband_result(ib, &path);
        CHECK_EQUAL(rows[i].name, path.elapsed_ns, rows[i].elapsed_ns);
        CHECK_EQUAL(rows[i].name, path.measured_ns, rows[i].measured_ns);
        autobuf_inband_close(ib);
    }
}

static void test_beginning(void **state)
{
    static const struct {
        uint32_t role;
        int finished, events;
        size_t wanted;
    } rows[] = {{AUTOBUF_INBAND_INITIATOR, 0, 5, 500}, {AUTOBUF_INBAND_RESPONDER, 1, 1, 500}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = open_role(rows[i].role);

        assert_int_equal(autobuf_inband_finished(ib), rows[i].finished);
        assert_int_equal(autobuf_inband_events(ib), rows[i].events); /* POLLIN, POLLOUT */
        assert_int_equal(autobuf_inband_wanted(ib), rows[i].wanted);
        assert_int_equal(autobuf_inband_greeted(ib), 0);
        assert_int_equal(autobuf_inband_fd(ib), -1);
        assert_int_equal(autobuf_inband_step(ib, 0), -EBADF);
        autobuf_inband_close(ib);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options), cmocka_unit_test(test_defaults_and_bounds),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_result),  cmocka_unit_test(test_elapsed),
        cmocka_unit_test(test_beginning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The trains that arrive in band, and their rates. */
#include "exchange.h"

#include "inband/exchange.h"

#define SEGMENT 1448U

static struct autobuf_inband *open_role(uint32_t role)
{
    struct autobuf_inband *ib;

    assert_int_equal(autobuf_inband_open_pure(&ib, role, 0, NULL), 0);
    return ib;
}

/* One train of 20 segments in a responder, 120 us apart but for what a row changes. */
static struct ab_reading reading_of(uint64_t (*stamp)(unsigned i))
{
    static const char payload[SEGMENT] = " ";
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    struct ab_reading reading;
    size_t left = 28940;

    told(ib, 0, "AUTOBUF HELLO 1\r\n");
    said(ib, 0);
    told(ib, 0, "AUTOBUF SINK 28940\r\n");
    for (unsigned i = 0; left > 0; i++) {
        size_t part = autobuf_inband_wanted(ib);

        assert_int_equal(autobuf_inband_input(ib, stamp(i), payload, part), part);
        left -= part;
    }
    reading = ib->rx.reading;
    autobuf_inband_close(ib);
    return reading;
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

static uint64_t with_a_short_stall(unsigned i) /* five times a gap */
{
    return even(i) + (i >= 10 ? 480000 : 0);
}

static uint64_t in_groups(unsigned i) /* of four */
{
    return even(i - i % 4) + i % 4 * 10000;
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

/* Even gaps show the rate exactly; impossible times give neither a rate nor a bound. */
static void test_readings(void **state)
{
    static const struct {
        const char *name;
        uint64_t (*stamp)(unsigned i);
        uint64_t rate_bit_per_s, span_ns; /* the stalls are no time of the train */
    } rows[] = {
        {"even", even, 100000000, 19 * 120000},
        {"in pairs", in_pairs, 100000000, 9 * 240000},
        {"with a stall", with_a_stall, 100000000, 18 * 120000},
        {"with a short stall", with_a_short_stall, 100000000, 18 * 120000},
        {"with a hole", with_a_hole, 100000000, 17 * 120000},
        {"by a late reader", by_a_late_reader, 100000000, 14 * 120000},
        {"at once", at_once, 0, 0},
        {"backwards", backwards, 0, 0},
        {"from everywhere", from_everywhere, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_reading r = reading_of(rows[i].stamp);

        CHECK_EQUAL(rows[i].name, r.rate_bit_per_s, rows[i].rate_bit_per_s);
        CHECK_EQUAL(rows[i].name, r.span_ns, rows[i].span_ns);
        CHECK_EQUAL(rows[i].name, r.at_least, 0);
    }
}

static void test_a_gap_that_a_quarter_have_is_no_stall(void **state)
{
    (void)state;
    assert_int_equal(reading_of(in_groups).span_ns, 16 * 120000 + 30000);
}

/* 1 Gbit/s in trains of 10, 20 and 40 segments; the last one, of 160, was delayed and released at once. */
static void test_delayed_train(void **state)
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

/* Bytes that come one by one, each with a stamp of its own, take no more memory than whole segments. */
static void test_tiny_reads(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    size_t capacity;
    const char *answer;

    (void)state;
    told(ib, 0, "AUTOBUF HELLO 1\r\n");
    said(ib, 0);
    told(ib, 0, "AUTOBUF SINK 463000\r\n");
    capacity = ib->arrivals.capacity;
    assert_true(capacity >= 463000 / SEGMENT && capacity <= 2 * 480000 / SEGMENT + 64);
    for (unsigned i = 0; i < 463000; i++) {
        assert_int_equal(autobuf_inband_input(ib, MS + 1000ULL * i, " ", 1), 1);
        assert_true(ib->arrivals.count <= capacity && ib->arrivals.capacity == capacity);
    }
    answer = said(ib, 600 * MS);
    assert_in_range(number_in(answer, "SINK bytes="), capacity - 10, capacity - 1); /* without the first's */
    assert_int_equal(ib->arrivals.count, capacity);
    autobuf_inband_close(ib);
}

/* Tiny segments take no more memory than others. */
static void test_small_segments(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    struct ab_line line = {.verb = AB_SINK, .count = 1, .numbers = {20 * SEGMENT}};

    (void)state;
    facts.segment_bytes = 100;
    facts.packet_bytes = 100; /* so that the budget is what it was */
    assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
    assert_int_equal(ab_inband_expect_train(ib, &line, 0), 0);
    assert_int_equal(ib->arrivals.capacity, 2 * 480000 / 536 + 64);
    autobuf_inband_close(ib);
}

/* A peer's report is plausible as a whole, or gives no rate. */
static void test_parse_reading(void **state)
{
    static const struct {
        const char *name;
        uint64_t rate, low, high;
        bool good;
        uint64_t high_kept;
    } rows[] = {
        {"a rate", 100, 90, 110, true, 110},
        {"sharp", 100, 100, 100, true, 100},
        {"none", 0, 0, 0, false, 0},
        {"bounds of none", 0, 1, 2, false, 0},
        {"the fastest that is plausible", 10000000000, 1, 10000000000, true, 10000000000},
        {"faster", 10000000001, 1, 10000000001, false, 0},
        {"far faster", UINT64_MAX, 0, UINT64_MAX, false, 0},
        {"low above it", 100, 101, 110, false, 0},
        {"high below it", 100, 90, 99, false, 0},
        {"high is anything", 100, 0, UINT64_MAX, true, 10000000000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_line line = {.verb = AB_SINK};
        struct ab_reading r = {.rate_bit_per_s = 7, .sure = true}, again;

        line.values[AB_KEY_BYTES] = 1000;
        line.values[AB_KEY_NSEC] = 2000;
        line.values[AB_KEY_RATE] = rows[i].rate;
        line.values[AB_KEY_LOW] = rows[i].low;
        line.values[AB_KEY_HIGH] = rows[i].high;
        line.values[AB_KEY_ATLEAST] = 1;
        line.values[AB_KEY_UNSURE] = AUTOBUF_UNSURE_PAUSES;
        CHECK_EQUAL(rows[i].name, ab_reading_parse(&line, &r), rows[i].good);
        CHECK(rows[i].name, r.bytes == 1000 && r.span_ns == 2000 && !r.sure);
        CHECK_EQUAL(rows[i].name, r.rate_bit_per_s, rows[i].good ? rows[i].rate : 0);
        CHECK_EQUAL(rows[i].name, r.high_bit_per_s, rows[i].high_kept);
        CHECK_EQUAL(rows[i].name, r.at_least, rows[i].good);
        CHECK_EQUAL(rows[i].name, r.unsure, rows[i].good ? AUTOBUF_UNSURE_PAUSES : AUTOBUF_UNSURE_NOT);
        line = (struct ab_line){.verb = AB_SINK};
        ab_reading_write(&r, &line); /* and what is told is what is heard */
        CHECK_EQUAL(rows[i].name, ab_reading_parse(&line, &again), rows[i].good);
        CHECK(rows[i].name, again.rate_bit_per_s == r.rate_bit_per_s && again.low_bit_per_s == r.low_bit_per_s &&
                                again.high_bit_per_s == r.high_bit_per_s && again.at_least == r.at_least &&
                                again.unsure == r.unsure);
    }
}

static void test_max_bdp(void **state)
{
    static const struct {
        const char *name;
        uint64_t rtt_ns, tx_spent_bytes, rx_high_bit_per_s;
        bool rx_at_least;
        uint64_t tx_bytes, rx_bytes;
    } rows[] = {
        {"nothing went", 20 * MS, 0, 0, false, 0, 0},
        {"no time is known", UINT64_MAX, 1448, 100000000, true, 0, 0},
        {"a train went", 20 * MS, 1448, 0, false, 25001448, 0},
        {"a train came", 20 * MS, 0, 100000000, false, 0, 2 * 251448},
        {"a bound came", 20 * MS, 0, 100000000, true, 0, 25001448},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);

        ib->exchange_ns = rows[i].rtt_ns;
        ib->tx.spent_bytes = rows[i].tx_spent_bytes;
        ib->rx.reading.high_bit_per_s = rows[i].rx_high_bit_per_s;
        ib->rx.reading.at_least = rows[i].rx_at_least;
        CHECK_EQUAL(rows[i].name, ab_inband_max_bdp(ib, true), rows[i].tx_bytes);
        CHECK_EQUAL(rows[i].name, ab_inband_max_bdp(ib, false), rows[i].rx_bytes);
        autobuf_inband_close(ib);
    }
}

/* Discarded payload leaves no arrival; the next train counts as usual. */
static void test_discarded_payload(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    struct ab_line line = {.verb = AB_SINK, .count = 1, .numbers = {3 * SEGMENT}};

    (void)state;
    ab_inband_discard(ib, 5000);
    assert_int_equal(ib->in.payload_left, 5000);
    ab_inband_arrived(ib, MS, 5000);
    assert_true(ib->arrivals.count == 0 && ib->arrivals.train_bytes == 0);
    assert_int_equal(ab_inband_expect_train(ib, &line, 0), 0);
    assert_int_equal(ib->in.payload_left, 3 * SEGMENT);
    for (unsigned i = 0; i < 3; i++)
        ab_inband_arrived(ib, (1 + i) * MS, SEGMENT);
    assert_int_equal(ib->arrivals.count, 3);
    assert_int_equal(ib->arrivals.packets[2].bytes, 1500);
    autobuf_inband_close(ib);
}

/* Bytes with one stamp are one arrival, in however many reads. With the bytes of two packets it is merged. */
static void test_same_stamp(void **state)
{
    static const struct {
        const char *name;
        uint64_t later_ns, bytes;
        size_t count;
        bool merged;
    } rows[] = {
        {"one packet in two reads", 0, 700, 1, false},     {"by another clock's reading", 299, 700, 1, false},
        {"the same before it", (uint64_t)-299, 700, 1, false}, {"a packet of its own", 300, 700, 2, false},
        {"two packets that came as one", 0, 1448, 1, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
        struct ab_line line = {.verb = AB_SINK, .count = 1, .numbers = {10 * SEGMENT}};

        assert_int_equal(ab_inband_expect_train(ib, &line, 0), 0);
        ab_inband_arrived(ib, MS, rows[i].merged ? 1448 : 748);
        ab_inband_arrived(ib, MS + rows[i].later_ns, rows[i].bytes);
        CHECK_EQUAL(rows[i].name, ib->arrivals.count, rows[i].count);
        CHECK_EQUAL(rows[i].name, ib->arrivals.packets[0].merged, rows[i].merged);
        CHECK_EQUAL(rows[i].name, ib->arrivals.packets[0].received_ns,
                    rows[i].count == 1 ? MS + rows[i].later_ns : MS);
        autobuf_inband_close(ib);
    }
}

/* A train beyond the capacity changes no earlier one. */
static void test_no_room(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    struct ab_line line = {.verb = AB_SINK, .count = 1, .numbers = {2 * SEGMENT}};

    (void)state;
    assert_int_equal(ab_inband_expect_train(ib, &line, 0), 0);
    ib->arrivals.capacity = 2;
    for (unsigned i = 0; i < 2; i++)
        ab_inband_arrived(ib, (1 + i) * MS, SEGMENT);
    assert_int_equal(ab_inband_expect_train(ib, &line, 0), 0);
    for (unsigned i = 0; i < 2; i++)
        ab_inband_arrived(ib, (10 + i) * MS, SEGMENT);
    assert_int_equal(ib->arrivals.count, 2);
    assert_int_equal(ib->arrivals.packets[1].received_ns, 2 * MS);
    ab_inband_estimate(ib);
    assert_int_equal(ib->rx.reading.span_ns, 0);
    autobuf_inband_close(ib);
}

/* An implausible pace is bounded. Facts may change within a train. */
static void test_implausible_pace(void **state)
{
    struct autobuf_inband *ib = open_role(AUTOBUF_INBAND_RESPONDER);
    struct autobuf_inband_facts tiny = AUTOBUF_INBAND_FACTS_INIT;
    struct ab_line line = {.verb = AB_SINK, .count = 1, .numbers = {20 * SEGMENT}};

    (void)state;
    line.values[AB_KEY_PACE] = UINT64_MAX;
    line.values[AB_KEY_PACED] = UINT64_MAX;
    assert_int_equal(ab_inband_expect_train(ib, &line, 0), 0);
    assert_int_equal(ib->arrivals.pace_bit_per_s, 10000000000);
    tiny.segment_bytes = 64;
    for (unsigned i = 0; i < 20; i++) {
        if (i == 10)
            assert_int_equal(autobuf_inband_tell(ib, &tiny), 0);
        ab_inband_arrived(ib, MS + i * 120000, SEGMENT);
    }
    ab_inband_estimate(ib);
    assert_true(ib->rx.reading.bytes <= 20 * SEGMENT);
    assert_true(ib->rx.reading.rate_bit_per_s > 90000000 && ib->rx.reading.rate_bit_per_s <= 200000000);
    autobuf_inband_close(ib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readings),
        cmocka_unit_test(test_a_gap_that_a_quarter_have_is_no_stall),
        cmocka_unit_test(test_delayed_train),
        cmocka_unit_test(test_tiny_reads), cmocka_unit_test(test_parse_reading),
        cmocka_unit_test(test_max_bdp), cmocka_unit_test(test_discarded_payload),
        cmocka_unit_test(test_same_stamp), cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_implausible_pace), cmocka_unit_test(test_small_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* What the exchange knows of its connection. */
#include "exchange.h"

#include <errno.h>

#include "inband/exchange.h"

#define UNSET AUTOBUF_NS_UNSET
#define FACTS(...) {.size = sizeof(struct autobuf_inband_facts), .rtt_min_ns = UNSET, __VA_ARGS__}

static struct autobuf_inband *open_with_budget(uint32_t budget_bytes)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_inband *ib;

    options.budget_bytes = budget_bytes;
    assert_int_equal(autobuf_inband_open_pure(&ib, AUTOBUF_INBAND_INITIATOR, 0, &options), 0);
    return ib;
}

/* Refused facts change nothing. */
static void test_tell(void **state)
{
    static const struct {
        const char *name;
        struct autobuf_inband_facts facts;
        int result;
        uint32_t segment_bytes, packet_bytes; /* that count then; 0, 0: those of before */
    } rows[] = {
        {"unknown", AUTOBUF_INBAND_FACTS_INIT, 0, 1448, 1500},
        {"no size", {.size = 0, .rtt_min_ns = UNSET}, -EINVAL, 0, 0},
        {"a size that does not hold itself", {.size = 3, .rtt_min_ns = UNSET}, -EINVAL, 0, 0},
        {"a size that ends before the times", {.size = 8, .segment_bytes = 1000}, 0, 1000, 1052},
        {"the least segment", FACTS(.segment_bytes = 64), 0, 64, 116},
        {"less", FACTS(.segment_bytes = 63), -EINVAL, 0, 0},
        {"the largest segment", FACTS(.segment_bytes = 65536), 0, 65536, 65588},
        {"larger", FACTS(.segment_bytes = 65537), -EINVAL, 0, 0},
        {"the largest there is", FACTS(.segment_bytes = UINT32_MAX), -EINVAL, 0, 0},
        {"a packet of its segment alone", FACTS(.segment_bytes = 1400, .packet_bytes = 1400), 0, 1400, 1400},
        {"a packet smaller than its segment", FACTS(.segment_bytes = 1400, .packet_bytes = 1399), -EINVAL, 0, 0},
        {"a packet smaller than the segment that is meant", FACTS(.packet_bytes = 1447), -EINVAL, 0, 0},
        {"TLS records", FACTS(.segment_bytes = 1400, .packet_bytes = 1473), 0, 1400, 1473},
        {"the largest packet", FACTS(.segment_bytes = 64, .packet_bytes = 131072), 0, 64, 131072},
        {"larger", FACTS(.segment_bytes = 64, .packet_bytes = 131073), -EINVAL, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = open_with_budget(0);
        struct autobuf_inband_facts before = FACTS(.segment_bytes = 700, .packet_bytes = 800);
        bool kept = rows[i].segment_bytes == 0;

        assert_int_equal(autobuf_inband_tell(ib, &before), 0);
        CHECK_EQUAL(rows[i].name, autobuf_inband_tell(ib, &rows[i].facts), rows[i].result);
        CHECK_EQUAL(rows[i].name, ib->facts.segment_bytes, kept ? 700 : rows[i].segment_bytes);
        CHECK_EQUAL(rows[i].name, ab_inband_wire_bytes(ib, 700000),
                    kept ? 800000 : 700000ULL * rows[i].packet_bytes / rows[i].segment_bytes);
        CHECK_EQUAL(rows[i].name, autobuf_inband_tell(ib, NULL), -EINVAL);
        autobuf_inband_close(ib);
    }
}

/* Payload that trains may have: the budget less its headers, and never more than the largest budget. */
static void test_budget(void **state)
{
    static const struct {
        const char *name;
        uint32_t budget_bytes, segment_bytes, packet_bytes;
        uint64_t payload_bytes;
    } rows[] = {
        {"all of it", 480000, 1448, 1500, 463360},   {"the least", 6000, 1448, 1500, 5792},
        {"no headers", 480000, 1400, 1400, 480000},  {"small segments", 480000, 64, 116, 264827},
        {"headers alone", 6000, 64, 131072, 2},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = open_with_budget(rows[i].budget_bytes);
        struct autobuf_inband_facts facts =
            FACTS(.segment_bytes = rows[i].segment_bytes, .packet_bytes = rows[i].packet_bytes);

        assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
        CHECK_EQUAL(rows[i].name, ab_inband_budget_bytes(ib), rows[i].payload_bytes);
        autobuf_inband_close(ib);
    }
}

/* TCP's minimum RTT, or the time of HELLO and its answer if that is less, and the BDP with it. */
static void test_bdp(void **state)
{
    static const struct {
        const char *name;
        uint64_t tcp_ns, exchange_ns, rtt_ns, rate_bit_per_s, product_bytes;
    } rows[] = {
        {"nobody knows", UNSET, UNSET, UNSET, 100000000, 0},
        {"TCP alone", 20 * MS, UNSET, 20 * MS, 100000000, 251448},
        {"the exchange alone", UNSET, 40 * MS, 40 * MS, 100000000, 501448},
        {"TCP knows better", 20 * MS, 40 * MS, 20 * MS, 100000000, 251448},
        {"TCP cannot be right", 50 * MS, 40 * MS, 40 * MS, 100000000, 501448},
        {"no rate", 20 * MS, 20 * MS, 20 * MS, 0, 0},
        {"1 ns", 1, UNSET, 1, 8000000000, 1449},
        {"a zeroed struct, which does not know it", 0, UNSET, UNSET, 100000000, 0},
        {"a zeroed struct, and the exchange", 0, 40 * MS, 40 * MS, 100000000, 501448},
        {"more than there is", UNSET - 1, UNSET, UNSET - 1, UINT64_MAX, UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = open_with_budget(0);
        struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;

        facts.rtt_min_ns = rows[i].tcp_ns;
        assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
        ib->exchange_ns = rows[i].exchange_ns;
        CHECK_EQUAL(rows[i].name, ab_inband_rtt_ns(ib), rows[i].rtt_ns);
        CHECK_EQUAL(rows[i].name, ab_inband_bdp(ib, rows[i].rate_bit_per_s), rows[i].product_bytes);
        autobuf_inband_close(ib);
    }
}

/* A proxy is told by the shortest answer against what TCP sees, never by TCP's minimum: a queue is none. */
static void test_relay(void **state)
{
    static const struct {
        const char *name;
        uint64_t high_ns, shortest_ns;
        bool relayed;
    } rows[] = {
        {"a forwarder on this host", 27 * 1000, 201 * MS, true},
        {"one to a near peer", 27 * 1000, 11 * MS, true},
        {"a busy peer", 27 * 1000, 9 * MS, false},
        {"no proxy", 105 * MS, 101 * MS, false},
        {"a peer that takes its time", 105 * MS, 219 * MS, false},
        {"a proxy half way to a farther peer", 105 * MS, 221 * MS, true},
        {"a queue, which TCP has seen too", 240 * MS, 220 * MS, false},
        {"TCP's time is unknown", 0, 201 * MS, false},
        {"no answer yet", 27 * 1000, UNSET, false},
        {"more than there is", UNSET - 1, UNSET - 1, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = open_with_budget(0);
        struct autobuf_inband_facts facts = FACTS(.rtt_high_ns = rows[i].high_ns);

        assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
        ib->shortest_ns = rows[i].shortest_ns;
        CHECK_EQUAL(rows[i].name, ab_inband_is_relayed(ib), rows[i].relayed);
        if (rows[i].relayed)
            CHECK_EQUAL(rows[i].name, ab_inband_rtt_ns(ib), rows[i].shortest_ns);
        autobuf_inband_close(ib);
    }
}

/* "paced" is reported only if the sender certainly paces. */
static void test_pace(void **state)
{
    static const struct {
        const char *name;
        uint32_t flags;
        uint64_t pace_bit_per_s, paced;
    } rows[] = {
        {"none", 0, 0, 0},
        {"computed", 0, 5000000, 0},
        {"kept", AUTOBUF_INBAND_PACED, 5000000, 1},
        {"computed, and the host was asked", AUTOBUF_INBAND_HOST_PACES | AUTOBUF_INBAND_HOST_FREE, 5000000, 0},
        {"kept by the host", AUTOBUF_INBAND_PACED | AUTOBUF_INBAND_HOST_PACES, 5000000, 1},
        {"every flag there could be", UINT32_MAX, UINT64_MAX, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_inband *ib = open_with_budget(0);
        struct autobuf_inband_facts facts =
            FACTS(.flags = rows[i].flags, .pace_bit_per_s = rows[i].pace_bit_per_s);
        struct ab_line line = {.verb = AB_SINK};

        assert_int_equal(autobuf_inband_tell(ib, &facts), 0);
        ab_inband_add_pace(ib, &line);
        CHECK_EQUAL(rows[i].name, line.values[AB_KEY_PACE], rows[i].pace_bit_per_s);
        CHECK_EQUAL(rows[i].name, line.values[AB_KEY_PACED], rows[i].paced);
        autobuf_inband_close(ib);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tell),  cmocka_unit_test(test_budget),
        cmocka_unit_test(test_bdp),
        cmocka_unit_test(test_relay), cmocka_unit_test(test_pace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

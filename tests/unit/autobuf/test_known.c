/* SPDX-License-Identifier: MIT */
/* tools/known.c: what is learned of a path, merged with what was known. */
#include "unit.h"

#include <string.h>

#include "paths/record.h"
#include "known.h"

#define NOW_S 1700000000U
#define HOUR_S 3600U
#define MS 1000000U
#define MBIT 1000000U
#define UNSET AUTOBUF_NS_UNSET
#define TX AUTOBUF_PATH_TX_AT_LEAST
#define RX AUTOBUF_PATH_RX_AT_LEAST
#define PASSIVE 5U /* what this version does not know is no better than what other programs reached */

/* What a row of the table says of an entry: times in ms, rates in Mbit/s, ages and ends in hours from now. */
struct says {
    uint32_t method, flags;
    uint64_t rtt_ms, tx, rx;
    int learned, expires;
};

static struct autobuf_paths_entry entry_of(const struct says *says)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse("192.0.2.1", &e.remote), 0);
    e.method = says->method;
    e.flags = says->flags;
    e.samples = 10;
    e.rtt_min_ns = says->rtt_ms ? says->rtt_ms * MS : UNSET;
    e.tx_rate_bit_per_s = e.tx_rate_low_bit_per_s = e.tx_rate_high_bit_per_s = says->tx * MBIT;
    e.rx_rate_bit_per_s = e.rx_rate_low_bit_per_s = e.rx_rate_high_bit_per_s = says->rx * MBIT;
    e.tx_bdp_bytes = says->tx * MBIT / 8 * says->rtt_ms / 1000;
    e.rx_bdp_bytes = says->rx * MBIT / 8 * says->rtt_ms / 1000;
    e.learned_s = NOW_S + (uint64_t)(says->learned * (int)HOUR_S);
    e.expires_s = NOW_S + (uint64_t)(says->expires * (int)HOUR_S);
    return e;
}

static void what_is_seen_is_merged_with_what_is_known(void **state)
{
    /* Seen now, for a day. */
    static const struct {
        const char *name;
        struct says known, seen, merged;
    } rows[] = {
        {"what has expired counts no more", {AUTOBUF_METHOD_ICMP, 0, 5, 900, 900, -48, 0},
         {PASSIVE, TX, 10, 50, 0, 0, 24}, {PASSIVE, TX, 10, 50, 0, 0, 24}},
        {"what was set by hand stays, also if it seems to have expired", {AUTOBUF_METHOD_GIVEN, 0, 20, 100, 100, -9000, -1},
         {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 24}, {AUTOBUF_METHOD_GIVEN, 0, 20, 100, 100, -9000, -1}},
        {"what was set by hand stays", {AUTOBUF_METHOD_GIVEN, 0, 20, 100, 100, -9000, 9000},
         {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 24}, {AUTOBUF_METHOD_GIVEN, 0, 20, 100, 100, -9000, 9000}},
        {"a newer measurement counts", {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -2, 22},
         {AUTOBUF_METHOD_INBAND, 0, 10, 100, 50, 0, 24}, {AUTOBUF_METHOD_INBAND, 0, 10, 100, 50, 0, 24}},
        {"the lesser time stays, until its end", {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -2, 22},
         {AUTOBUF_METHOD_ICMP, 0, 20, 400, 400, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 22}},
        {"and longer where what is seen is near it", {AUTOBUF_METHOD_ICMP, 0, 100, 400, 400, -2, 22},
         {AUTOBUF_METHOD_ICMP, 0, 125, 400, 400, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 100, 400, 400, 0, 24}},
        {"but not where it is hardly so", {AUTOBUF_METHOD_ICMP, 0, 100, 400, 400, -2, 22},
         {AUTOBUF_METHOD_ICMP, 0, 126, 400, 400, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 100, 400, 400, 0, 22}},
        {"a lesser time is taken", {AUTOBUF_METHOD_ICMP, 0, 20, 400, 400, -2, 22},
         {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 24}},
        {"a time that is not known changes none", {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -2, 22},
         {AUTOBUF_METHOD_INBAND, 0, 0, 300, 300, 0, 24}, {AUTOBUF_METHOD_INBAND, 0, 10, 300, 300, 0, 22}},
        {"a bound does not replace a measurement", {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -2, 22},
         {PASSIVE, TX, 10, 64, 0, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 22}},
        {"nor does a higher one", {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -2, 22},
         {PASSIVE, TX | RX, 10, 900, 900, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 22}},
        {"a bound near it each way keeps it longer", {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -2, 22},
         {PASSIVE, TX | RX, 10, 320, 390, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 24}},
        {"but not one that is hardly so", {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -2, 22},
         {PASSIVE, TX | RX, 10, 319, 390, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 22}},
        {"a measurement replaces a bound", {PASSIVE, TX, 10, 64, 0, -2, 22},
         {AUTOBUF_METHOD_ICMP, 0, 10, 40, 40, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 10, 40, 40, 0, 24}},
        {"the higher of two bounds counts", {PASSIVE, TX, 10, 64, 0, -2, 22},
         {PASSIVE, TX, 10, 90, 0, 0, 24}, {PASSIVE, TX, 10, 90, 0, 0, 24}},
        {"the old one until its end", {AUTOBUF_METHOD_IMPORTED, TX, 10, 90, 0, -2, 22},
         {PASSIVE, TX, 10, 64, 0, 0, 24}, {AUTOBUF_METHOD_IMPORTED, TX, 10, 90, 0, 0, 22}},
        {"a direction that was not known", {PASSIVE, TX, 10, 90, 0, -2, 22},
         {PASSIVE, RX, 10, 0, 64, 0, 24}, {PASSIVE, TX | RX, 10, 90, 64, 0, 22}},
        {"a measured one beside a bound", {AUTOBUF_METHOD_ICMP, RX, 10, 400, 90, -2, 22},
         {PASSIVE, TX | RX, 10, 64, 100, 0, 24}, {AUTOBUF_METHOD_ICMP, RX, 10, 400, 100, 0, 22}},
        {"a shorter end", {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -2, 100},
         {AUTOBUF_METHOD_ICMP, 0, 11, 400, 400, 0, 1}, {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 1}},
        {"two that know nothing", {AUTOBUF_METHOD_ICMP, 0, 0, 0, 0, -2, 22},
         {AUTOBUF_METHOD_ICMP, 0, 0, 0, 0, 0, 24}, {AUTOBUF_METHOD_ICMP, 0, 0, 0, 0, 0, 24}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_paths_entry known = entry_of(&rows[i].known), seen = entry_of(&rows[i].seen);
        struct autobuf_paths_entry expected = entry_of(&rows[i].merged);

        known_merge(&known, &seen);
        CHECK_EQUAL(rows[i].name, known.method, expected.method);
        CHECK_EQUAL(rows[i].name, known.flags, expected.flags);
        CHECK_EQUAL(rows[i].name, known.rtt_min_ns, expected.rtt_min_ns);
        CHECK_EQUAL(rows[i].name, known.tx_rate_bit_per_s, expected.tx_rate_bit_per_s);
        CHECK_EQUAL(rows[i].name, known.rx_rate_bit_per_s, expected.rx_rate_bit_per_s);
        CHECK_EQUAL(rows[i].name, known.tx_rate_low_bit_per_s, expected.tx_rate_low_bit_per_s);
        CHECK_EQUAL(rows[i].name, known.rx_rate_high_bit_per_s, expected.rx_rate_high_bit_per_s);
        CHECK_EQUAL(rows[i].name, known.learned_s, expected.learned_s);
        CHECK_EQUAL(rows[i].name, known.expires_s, expected.expires_s);
    }
}

/* A path that is as it was stays known; one that became longer is believed when the old time expires. */
static void what_changes_is_believed_in_the_end(void **state)
{
    struct says says = {PASSIVE, TX, 10, 100, 0, 0, 24};

    (void)state;
    for (unsigned longer = 0; longer < 2; longer++) {
        struct autobuf_paths_entry known = entry_of(&says);

        for (int hour = 1; hour < 72; hour++) {
            struct says later = {PASSIVE, TX, longer ? 50 : 11, 100, 0, hour, hour + 24};
            struct autobuf_paths_entry seen = entry_of(&later);

            known_merge(&known, &seen);
            assert_true(known.expires_s > seen.learned_s);
            assert_int_equal(known.rtt_min_ns, (longer && hour >= 24 ? 50 : longer || hour < 72 ? 10 : 11) * MS);
        }
    }
}

static void products_go_with_the_round_trip_time(void **state)
{
    struct says old = {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -1, 23}, slow = {AUTOBUF_METHOD_ICMP, 0, 30, 800, 200, 0, 24};
    struct says quick = {AUTOBUF_METHOD_ICMP, 0, 5, 0, 0, 0, 24};
    struct autobuf_paths_entry known = entry_of(&old), seen = entry_of(&slow);

    (void)state;
    seen.tx_bdp_bytes += 1460; /* the term for a full packet stays */
    known_merge(&known, &seen);
    assert_int_equal(known.tx_bdp_bytes, 1000000 + 1460);
    assert_int_equal(known.rx_bdp_bytes, 250000);
    seen = entry_of(&quick);
    known_merge(&known, &seen);
    assert_int_equal(known.rtt_min_ns, 5 * MS);
    assert_int_equal(known.tx_bdp_bytes, 500000 + 1460);
}

static void samples_are_summed_and_no_more_than_fit(void **state)
{
    struct says says = {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 0, 24};
    struct autobuf_paths_entry known = entry_of(&says), seen = entry_of(&says);

    (void)state;
    seen.packet_bytes = 1400;
    seen.limiter = AUTOBUF_LIMITER_PATH;
    known_merge(&known, &seen);
    assert_int_equal(known.samples, 20);
    assert_int_equal(known.packet_bytes, 1400);
    assert_int_equal(known.limiter, AUTOBUF_LIMITER_PATH);
    seen.samples = UINT32_MAX;
    known_merge(&known, &seen);
    assert_int_equal(known.samples, UINT32_MAX);
}

/* Any two valid entries make a valid one, with the same key, and no later end than both. */
static void any_two_make_a_valid_one(void **state)
{
    uint64_t random = 88172645463325252ULL;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        struct autobuf_paths_entry both[2] = {AUTOBUF_PATHS_ENTRY_INIT, AUTOBUF_PATHS_ENTRY_INIT}, known;

        for (unsigned k = 0; k < 2; k++) {
            uint64_t *large[] = {&both[k].tx_rate_bit_per_s, &both[k].rx_rate_bit_per_s, &both[k].tx_bdp_bytes,
                                 &both[k].rx_bdp_bytes};

            assert_int_equal(autobuf_prefix_parse("2001:db8::1", &both[k].remote), 0);
            both[k].method = (uint32_t)(unit_random(&random) % 6);
            both[k].flags = (uint32_t)(unit_random(&random) % 4);
            for (size_t f = 0; f < COUNT(large); f++)
                *large[f] = unit_random(&random) % ((1ULL << unit_random(&random) % 40) + 1);
            if (unit_random(&random) % 4)
                both[k].rtt_min_ns = unit_random(&random) % 1000000000000;
            both[k].learned_s = unit_random(&random) % 100;
            both[k].expires_s = unit_random(&random) % 8 ? unit_random(&random) % 100 : UINT64_MAX;
        }
        known = both[0];
        known_merge(&known, &both[1]);
        assert_int_equal(ab_paths_check(&known), 0);
        assert_int_equal(ab_paths_compare(&known, &both[0]), 0);
        assert_true(known.expires_s <= both[0].expires_s || known.expires_s <= both[1].expires_s);
    }
}

static void who_says_more(void **state)
{
    static const struct {
        const char *name;
        uint32_t known, fresh;
        int older_s;
        bool more;
    } rows[] = {
        {"the newer one", AUTOBUF_METHOD_ICMP, AUTOBUF_METHOD_INBAND, 1, false},
        {"one as old", AUTOBUF_METHOD_ICMP, AUTOBUF_METHOD_ICMP, 0, false},
        {"the older one", AUTOBUF_METHOD_ICMP, AUTOBUF_METHOD_ICMP, -1, true},
        {"measured before imported", AUTOBUF_METHOD_INBAND, AUTOBUF_METHOD_IMPORTED, 1000, true},
        {"imported before measured", AUTOBUF_METHOD_IMPORTED, AUTOBUF_METHOD_ICMP, -1000, false},
        {"by hand before measured", AUTOBUF_METHOD_GIVEN, AUTOBUF_METHOD_ICMP, 1000, true},
        {"passive is as imported", PASSIVE, AUTOBUF_METHOD_IMPORTED, 1, false},
        {"measured before passive", AUTOBUF_METHOD_ICMP, PASSIVE, 1000, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_paths_entry known = AUTOBUF_PATHS_ENTRY_INIT, fresh = AUTOBUF_PATHS_ENTRY_INIT;

        known.method = rows[i].known;
        fresh.method = rows[i].fresh;
        known.learned_s = NOW_S;
        fresh.learned_s = (uint64_t)((int)NOW_S + rows[i].older_s);
        CHECK_EQUAL(rows[i].name, known_says_more(&known, &fresh, NOW_S), rows[i].more);
    }
}

/* Learned when the clock was years ahead: nobody uses it, and so it must not keep what is seen from being used. */
static void a_clock_that_was_ahead_is_forgotten(void **state)
{
    struct says ahead = {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 24 * 365, 24 * 366}, now = {PASSIVE, TX, 11, 50, 0, 0, 24};
    struct autobuf_paths_entry known = entry_of(&ahead), seen = entry_of(&now);

    (void)state;
    known_merge(&known, &seen);
    assert_memory_equal(&known, &seen, sizeof known);
    ahead.method = AUTOBUF_METHOD_GIVEN;
    known = entry_of(&ahead);
    known_merge(&known, &seen);
    assert_int_equal(known.method, AUTOBUF_METHOD_GIVEN);
}

static void what_a_clock_ahead_says_is_less(void **state)
{
    static const struct {
        const char *name;
        uint32_t known, fresh;
        int known_h, fresh_h; /* hours from now */
        bool more, stays;
    } rows[] = {
        {"measured ahead", AUTOBUF_METHOD_ICMP, AUTOBUF_METHOD_IMPORTED, 25, 0, false, false},
        {"as new as a day ahead", AUTOBUF_METHOD_ICMP, AUTOBUF_METHOD_ICMP, 24, 0, true, true},
        {"the fresh one is ahead", AUTOBUF_METHOD_IMPORTED, AUTOBUF_METHOD_ICMP, -100, 25, true, true},
        {"both are", AUTOBUF_METHOD_ICMP, AUTOBUF_METHOD_ICMP, 900, 800, true, true},
        {"by hand ahead", AUTOBUF_METHOD_GIVEN, AUTOBUF_METHOD_ICMP, 900, 0, true, true},
        {"by hand, a measurement ahead", AUTOBUF_METHOD_GIVEN, AUTOBUF_METHOD_ICMP, 0, 900, true, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct says was = {rows[i].known, 0, 10, 1, 1, rows[i].known_h, 9000};
        struct says is = {rows[i].fresh, 0, 10, 1, 1, rows[i].fresh_h, 9000};
        struct autobuf_paths_entry known = entry_of(&was), fresh = entry_of(&is);

        CHECK_EQUAL(rows[i].name, known_says_more(&known, &fresh, NOW_S), rows[i].more);
        CHECK_EQUAL(rows[i].name, known_stays(&known, &fresh, NOW_S), rows[i].stays);
    }
}

static void a_file_replaces_nothing_that_was_set_by_hand(void **state)
{
    struct says by_hand = {AUTOBUF_METHOD_GIVEN, 0, 10, 400, 400, -9000, 9000}, newer = {AUTOBUF_METHOD_GIVEN, 0, 10, 1, 1, 0, 9000};
    struct autobuf_paths_entry known = entry_of(&by_hand), imported = entry_of(&newer);

    (void)state;
    assert_true(known_stays(&known, &imported, NOW_S) && !known_says_more(&known, &imported, NOW_S));
    known.method = AUTOBUF_METHOD_ICMP;
    assert_false(known_stays(&known, &imported, NOW_S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_seen_is_merged_with_what_is_known),
        cmocka_unit_test(what_changes_is_believed_in_the_end),
        cmocka_unit_test(products_go_with_the_round_trip_time),
        cmocka_unit_test(samples_are_summed_and_no_more_than_fit),
        cmocka_unit_test(any_two_make_a_valid_one),
        cmocka_unit_test(who_says_more),
        cmocka_unit_test(a_clock_that_was_ahead_is_forgotten),
        cmocka_unit_test(what_a_clock_ahead_says_is_less),
        cmocka_unit_test(a_file_replaces_nothing_that_was_set_by_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

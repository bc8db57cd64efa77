/* SPDX-License-Identifier: MIT */
/* tools/known.c: what is learned of a path, merged with what was known; which hosts of a network agree. */
#include "unit.h"

#include <stdio.h>
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
#define ECHOES (TX | RX | AUTOBUF_PATH_TX_ECHOED | AUTOBUF_PATH_RX_ECHOED)
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
        {"what was set by hand stays, also if it seems to have expired",
         {AUTOBUF_METHOD_GIVEN, 0, 20, 100, 100, -9000, -1},
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
        {"an echo leaves a faster direction as it was measured", {AUTOBUF_METHOD_INBAND, 0, 10, 20, 500, -2, 22},
         {AUTOBUF_METHOD_ICMP, ECHOES, 10, 20, 20, 0, 24}, {AUTOBUF_METHOD_INBAND, 0, 10, 20, 500, 0, 22}},
        {"and as it was reached", {PASSIVE, RX, 10, 0, 160, -2, 22},
         {AUTOBUF_METHOD_ICMP, ECHOES, 10, 20, 20, 0, 24},
         {AUTOBUF_METHOD_ICMP, TX | RX | AUTOBUF_PATH_TX_ECHOED, 10, 20, 160, 0, 22}},
        {"what is reached replaces an echo's that is slower", {AUTOBUF_METHOD_ICMP, ECHOES, 10, 20, 20, -2, 22},
         {PASSIVE, RX, 10, 0, 160, 0, 24}, {AUTOBUF_METHOD_ICMP, TX | RX | AUTOBUF_PATH_TX_ECHOED, 10, 20, 160, 0, 22}},
        {"a newer echo counts", {AUTOBUF_METHOD_ICMP, ECHOES, 10, 400, 400, -2, 22},
         {AUTOBUF_METHOD_ICMP, ECHOES, 10, 100, 100, 0, 24}, {AUTOBUF_METHOD_ICMP, ECHOES, 10, 100, 100, 0, 24}},
        {"an echo that is faster than what was measured", {AUTOBUF_METHOD_INBAND, 0, 10, 100, 110, -2, 22},
         {AUTOBUF_METHOD_ICMP, ECHOES, 10, 130, 130, 0, 24},
         {AUTOBUF_METHOD_ICMP, TX | AUTOBUF_PATH_TX_ECHOED, 10, 130, 110, 0, 24}},
        {"what was measured replaces an echo's", {AUTOBUF_METHOD_ICMP, ECHOES, 10, 20, 20, -2, 22},
         {AUTOBUF_METHOD_INBAND, 0, 10, 20, 500, 0, 24}, {AUTOBUF_METHOD_INBAND, 0, 10, 20, 500, 0, 24}},
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
    struct says old = {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, -1, 23},
                slow = {AUTOBUF_METHOD_ICMP, 0, 30, 800, 200, 0, 24};
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
    seen.bottleneck = AUTOBUF_BOTTLENECK_PATH;
    known_merge(&known, &seen);
    assert_int_equal(known.samples, 20);
    assert_int_equal(known.packet_bytes, 1400);
    assert_int_equal(known.bottleneck, AUTOBUF_BOTTLENECK_PATH);
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
    struct says ahead = {AUTOBUF_METHOD_ICMP, 0, 10, 400, 400, 24 * 365, 24 * 366},
                now = {PASSIVE, TX, 11, 50, 0, 0, 24};
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
    struct says by_hand = {AUTOBUF_METHOD_GIVEN, 0, 10, 400, 400, -9000, 9000},
                newer = {AUTOBUF_METHOD_GIVEN, 0, 10, 1, 1, 0, 9000};
    struct autobuf_paths_entry known = entry_of(&by_hand), imported = entry_of(&newer);

    (void)state;
    assert_true(known_stays(&known, &imported, NOW_S) && !known_says_more(&known, &imported, NOW_S));
    known.method = AUTOBUF_METHOD_ICMP;
    assert_false(known_stays(&known, &imported, NOW_S));
}

/* --------------------------------------------------------------------------------- neighbours */

#define EARLY_S 100U

static struct autobuf_paths_entry entries[NEIGHBOURS_MOST];
static bool agrees[NEIGHBOURS_MOST];

/* Host number n of 192.0.2.0/24, which expires at 100 + n. */
static struct autobuf_paths_entry host(unsigned n, unsigned rtt_ms, unsigned tx_mbit, unsigned rx_mbit)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
    char text[AUTOBUF_PREFIX_BYTES];

    snprintf(text, sizeof text, "192.0.2.%u", n);
    assert_int_equal(autobuf_prefix_parse(text, &e.remote), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    e.samples = 10;
    e.rtt_min_ns = rtt_ms ? (uint64_t)rtt_ms * MS : AUTOBUF_NS_UNSET;
    e.tx_rate_bit_per_s = (uint64_t)tx_mbit * MBIT;
    e.rx_rate_bit_per_s = (uint64_t)rx_mbit * MBIT;
    e.learned_s = 50 + n;
    e.expires_s = 100 + n;
    return e;
}

static void hosts_that_agree_are_one_network(void **state)
{
    static const struct {
        const char *name;
        unsigned rtts_ms[8], rates_mbit[8]; /* 0: no further host */
        int agree;                          /* -1: none */
    } rows[] = {
        {"four alike", {10, 10, 10, 10}, {100, 100, 100, 100}, 4},
        {"three", {10, 10, 10}, {100, 100, 100}, -1},
        {"within a fifth", {100, 90, 80, 120, 100}, {100, 90, 80, 120, 100}, 5},
        {"a time too long", {100, 100, 121, 100, 100}, {100, 100, 100, 100, 100}, 4},
        {"a time too short", {100, 100, 79, 100, 100}, {100, 100, 100, 100, 100}, 4},
        {"a rate too high", {10, 10, 10, 10, 10}, {100, 100, 121, 100, 100}, 4},
        {"a rate too low, and too few are left", {10, 10, 10, 10}, {100, 100, 79, 100}, -1},
        {"three quarters agree", {10, 10, 10, 10, 10, 10, 90, 90}, {9, 9, 9, 9, 9, 9, 9, 9}, 6},
        {"fewer do", {10, 10, 10, 10, 10, 90, 90}, {9, 9, 9, 9, 9, 9, 9}, -1},
        {"two crowds", {10, 10, 10, 10, 90, 90, 90, 90}, {9, 9, 9, 9, 9, 9, 9, 9}, -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_paths_entry network;
        size_t count = 0;
        int found = 0;
        bool agree;

        for (; count < 8 && rows[i].rtts_ms[count]; count++)
            entries[count] = host((unsigned)count + 1, rows[i].rtts_ms[count], rows[i].rates_mbit[count],
                                  rows[i].rates_mbit[count]);
        agree = neighbours_agree(entries, count, EARLY_S, &network, agrees);
        for (size_t k = 0; k < count && agree; k++)
            found += agrees[k];
        CHECK_EQUAL(rows[i].name, agree ? found : -1, rows[i].agree);
    }
}

/* Entries 1 to 5, of which one is changed in some way. */
static void what_does_not_agree(void **state)
{
    enum { METHOD, FLAGS, DEVICE, LOCAL, NO_TIME, NO_RATE, BY_HAND, TWICE, WAYS };

    (void)state;
    for (int way = METHOD; way < WAYS; way++) {
        struct autobuf_paths_entry network, *third = &entries[2];

        for (unsigned n = 0; n < 5; n++)
            entries[n] = host(n + 1, 10, 100, 50);
        if (way == METHOD)
            third->method = AUTOBUF_METHOD_INBAND;
        if (way == FLAGS)
            third->flags = AUTOBUF_PATH_TX_AT_LEAST;
        if (way == DEVICE)
            strcpy(third->device, "eth0");
        if (way == LOCAL)
            assert_int_equal(autobuf_prefix_parse("10.0.0.0/8", &third->local), 0);
        if (way == NO_TIME)
            third->rtt_min_ns = AUTOBUF_NS_UNSET;
        if (way == NO_RATE)
            third->rx_rate_bit_per_s = 0;
        if (way == BY_HAND)
            third->method = AUTOBUF_METHOD_GIVEN;
        if (way == TWICE) {
            entries[5] = host(5, 10, 100, 50);
            strcpy(entries[4].device, "eth0");
            assert_true(neighbours_agree(entries, 5, EARLY_S, &network, agrees));
            assert_false(neighbours_agree(entries, 6, EARLY_S, &network, agrees) && (agrees[4] || agrees[5]));
            continue;
        }
        assert_true(neighbours_agree(entries, 5, EARLY_S, &network, agrees));
        for (unsigned n = 0; n < 5; n++)
            assert_int_equal(agrees[n], n != 2);
    }
    for (unsigned n = 0; n < 5; n++)
        entries[n].method = AUTOBUF_METHOD_GIVEN;
    assert_false(neighbours_agree(entries, 5, EARLY_S, &(struct autobuf_paths_entry){0}, agrees));
}

/* A day ahead of now is the most. One that is further ahead would make the network's entry one that no lookup takes. */
static void a_clock_that_was_ahead_agrees_with_nothing(void **state)
{
    struct autobuf_paths_entry network;

    (void)state;
    for (unsigned n = 0; n < 5; n++)
        entries[n] = host(n + 1, 10, 100, 50);
    entries[3].learned_s = EARLY_S + 86400;
    entries[4].learned_s = EARLY_S + 86401;
    assert_true(neighbours_agree(entries, 5, EARLY_S, &network, agrees));
    assert_true(agrees[3] && !agrees[4]);
    assert_int_equal(network.learned_s, EARLY_S + 86400);
    entries[3].learned_s++;
    assert_false(neighbours_agree(entries, 5, EARLY_S, &network, agrees));
}

static void what_is_said_of_the_network(void **state)
{
    struct autobuf_paths_entry network;
    char text[AUTOBUF_PREFIX_BYTES];

    (void)state;
    for (unsigned n = 0; n < 5; n++) {
        entries[n] = host(n + 1, 10 + n / 2, 100 + n, 50);
        entries[n].packet_bytes = 1500 - n;
        entries[n].tx_bdp_bytes = 1000 + n;
        entries[n].rx_unsure = n == 3;
        strcpy(entries[n].device, "eth1");
    }
    assert_true(neighbours_agree(entries, 5, EARLY_S, &network, agrees));
    assert_int_equal(autobuf_prefix_print(&network.remote, text), 0);
    assert_string_equal(text, "192.0.2.0/24");
    assert_string_equal(network.device, "eth1");
    assert_int_equal(ab_paths_check(&network), 0);
    assert_int_equal(network.method, AUTOBUF_METHOD_ICMP);
    assert_int_equal(network.rtt_min_ns, 11 * MS);
    assert_int_equal(network.rtt_median_ns, AUTOBUF_NS_UNSET);
    assert_int_equal(network.tx_rate_bit_per_s, 102 * MBIT);
    assert_int_equal(network.rx_rate_bit_per_s, 50 * MBIT);
    assert_int_equal(network.tx_bdp_bytes, 1002);
    assert_int_equal(network.samples, 50);
    assert_int_equal(network.packet_bytes, 1496);
    assert_int_equal(network.rx_unsure, 1);
    assert_int_equal(network.learned_s, 55);
    assert_int_equal(network.expires_s, 102); /* when the fourth last expires, of 101 to 105 */
}

static void networks_of_prefixes(void **state)
{
    static const struct {
        const char *prefix, *network; /* NULL: it is larger than a network */
    } rows[] = {
        {"192.0.2.7", "192.0.2.0/24"}, {"192.0.2.128/25", "192.0.2.0/24"}, {"192.0.2.0/24", "192.0.2.0/24"},
        {"192.0.0.0/23", NULL}, {"0.0.0.0/0", NULL}, {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
        {"2001:db8:1:2::/64", "2001:db8:1:2::/64"}, {"2001:db8::/63", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_prefix prefix, network;
        char text[AUTOBUF_PREFIX_BYTES];
        bool found;

        assert_int_equal(autobuf_prefix_parse(rows[i].prefix, &prefix), 0);
        found = neighbours_network(&prefix, &network);
        CHECK(rows[i].prefix, found == (rows[i].network != NULL));
        if (!found)
            continue;
        assert_int_equal(autobuf_prefix_print(&network, text), 0);
        assert_string_equal(text, rows[i].network);
    }
}

/* Values may be anything that an entry may have: what comes out is valid, and of these hosts. */
static void any_values_make_a_valid_entry(void **state)
{
    uint64_t random = 362436069;
    unsigned agreed = 0;

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        size_t count = (size_t)(unit_random(&random) % 12);
        struct autobuf_paths_entry network;

        for (unsigned n = 0; n < count; n++) {
            entries[n] = host(n + 1, 0, 0, 0);
            if (unit_random(&random) % 8)
                entries[n].rtt_min_ns = 1000 + unit_random(&random) % 100;
            if (unit_random(&random) % 8)
                entries[n].tx_rate_bit_per_s = 1000000000000000 - unit_random(&random) % 1000;
            entries[n].samples = (uint32_t)unit_random(&random);
            entries[n].expires_s = unit_random(&random);
        }
        if (!neighbours_agree(entries, count, EARLY_S, &network, agrees))
            continue;
        agreed++;
        assert_int_equal(ab_paths_check(&network), 0);
        assert_true(network.tx_rate_bit_per_s == 0 || network.tx_rate_bit_per_s > 999999999999000);
    }
    assert_true(agreed > 100);
}

static void as_many_as_are_looked_at(void **state)
{
    struct autobuf_paths_entry network;

    (void)state;
    for (unsigned n = 0; n < NEIGHBOURS_MOST; n++) {
        entries[n] = host(1, 10, 100, 50);
        assert_int_equal(autobuf_prefix_parse("2001:db8::", &entries[n].remote), 0);
        entries[n].remote.address[14] = (uint8_t)(n >> 8);
        entries[n].remote.address[15] = (uint8_t)n;
    }
    assert_true(neighbours_agree(entries, NEIGHBOURS_MOST, EARLY_S, &network, agrees));
    assert_int_equal(network.samples, 10 * NEIGHBOURS_MOST);
    assert_int_equal(network.remote.bits, 64);
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
        cmocka_unit_test(hosts_that_agree_are_one_network),
        cmocka_unit_test(what_does_not_agree),
        cmocka_unit_test(a_clock_that_was_ahead_agrees_with_nothing),
        cmocka_unit_test(what_is_said_of_the_network),
        cmocka_unit_test(networks_of_prefixes),
        cmocka_unit_test(any_values_make_a_valid_entry),
        cmocka_unit_test(as_many_as_are_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

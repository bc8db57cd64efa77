/* SPDX-License-Identifier: MIT */
/* tools/neighbours.c: which hosts of a network agree, and what is said of it then. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "paths/record.h"
#include "neighbours.h"

#define NOW_S 100U
#define MS 1000000U
#define MBIT 1000000U

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
        agree = neighbours_agree(entries, count, NOW_S, &network, agrees);
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
            assert_true(neighbours_agree(entries, 5, NOW_S, &network, agrees));
            assert_false(neighbours_agree(entries, 6, NOW_S, &network, agrees) && (agrees[4] || agrees[5]));
            continue;
        }
        assert_true(neighbours_agree(entries, 5, NOW_S, &network, agrees));
        for (unsigned n = 0; n < 5; n++)
            assert_int_equal(agrees[n], n != 2);
    }
    for (unsigned n = 0; n < 5; n++)
        entries[n].method = AUTOBUF_METHOD_GIVEN;
    assert_false(neighbours_agree(entries, 5, NOW_S, &(struct autobuf_paths_entry){0}, agrees));
}

/* A day ahead of now is the most. One that is further ahead would make the network's entry one that no lookup takes. */
static void a_clock_that_was_ahead_agrees_with_nothing(void **state)
{
    struct autobuf_paths_entry network;

    (void)state;
    for (unsigned n = 0; n < 5; n++)
        entries[n] = host(n + 1, 10, 100, 50);
    entries[3].learned_s = NOW_S + 86400;
    entries[4].learned_s = NOW_S + 86401;
    assert_true(neighbours_agree(entries, 5, NOW_S, &network, agrees));
    assert_true(agrees[3] && !agrees[4]);
    assert_int_equal(network.learned_s, NOW_S + 86400);
    entries[3].learned_s++;
    assert_false(neighbours_agree(entries, 5, NOW_S, &network, agrees));
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
    assert_true(neighbours_agree(entries, 5, NOW_S, &network, agrees));
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
        if (!neighbours_agree(entries, count, NOW_S, &network, agrees))
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
    assert_true(neighbours_agree(entries, NEIGHBOURS_MOST, NOW_S, &network, agrees));
    assert_int_equal(network.samples, 10 * NEIGHBOURS_MOST);
    assert_int_equal(network.remote.bits, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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

/* SPDX-License-Identifier: MIT */
/* tools/daemon/site.c: what hosts of a site may tell each other. */
#include "unit.h"

#include <string.h>

#include "daemon/site.h"

#define NOW_S 1700000000U

static struct autobuf_paths_entry entry(void)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse("192.0.2.1", &e.remote), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    e.tx_rate_bit_per_s = e.tx_rate_low_bit_per_s = e.tx_rate_high_bit_per_s = 100000000;
    e.rx_rate_bit_per_s = e.rx_rate_low_bit_per_s = e.rx_rate_high_bit_per_s = 100000000;
    e.tx_bdp_bytes = e.rx_bdp_bytes = 500000;
    e.rtt_min_ns = e.rtt_median_ns = 40000000;
    e.learned_s = NOW_S - 10;
    e.expires_s = NOW_S + 3600;
    return e;
}

static void set_remote(struct autobuf_paths_entry *e, const char *text)
{
    assert_int_equal(autobuf_prefix_parse(text, &e->remote), 0);
}

static void nothing(struct autobuf_paths_entry *e) { (void)e; }
static void inband(struct autobuf_paths_entry *e) { e->method = AUTOBUF_METHOD_INBAND; }
static void passive(struct autobuf_paths_entry *e) { e->method = AUTOBUF_METHOD_PASSIVE; }
static void imported(struct autobuf_paths_entry *e) { e->method = AUTOBUF_METHOD_IMPORTED; }
static void given(struct autobuf_paths_entry *e) { e->method = AUTOBUF_METHOD_GIVEN; }
static void none(struct autobuf_paths_entry *e) { e->method = AUTOBUF_METHOD_NONE; }
static void later(struct autobuf_paths_entry *e) { e->method = 99; }
static void network(struct autobuf_paths_entry *e) { set_remote(e, "192.0.2.0/24"); }
static void v6(struct autobuf_paths_entry *e) { set_remote(e, "2001:db8::1"); }
static void loopback(struct autobuf_paths_entry *e) { set_remote(e, "127.1.2.3"); }
static void v6_loopback(struct autobuf_paths_entry *e) { set_remote(e, "::1"); }
static void group(struct autobuf_paths_entry *e) { set_remote(e, "239.0.0.1"); }
static void v6_group(struct autobuf_paths_entry *e) { set_remote(e, "ff02::1"); }
static void everything(struct autobuf_paths_entry *e) { set_remote(e, "0.0.0.0/0"); }
static void local(struct autobuf_paths_entry *e) { assert_int_equal(autobuf_prefix_parse("192.0.2.2", &e->local), 0); }
static void device(struct autobuf_paths_entry *e) { strcpy(e->device, "eth0"); }
static void expired(struct autobuf_paths_entry *e) { e->expires_s = NOW_S; }
static void last_second(struct autobuf_paths_entry *e) { e->expires_s = NOW_S + 1; }
static void large_packets(struct autobuf_paths_entry *e) { e->packet_bytes = 65535; }
static void larger_packets(struct autobuf_paths_entry *e) { e->packet_bytes = 65536; }
static void no_rtt(struct autobuf_paths_entry *e) { e->rtt_min_ns = AUTOBUF_NS_UNSET; }
static void no_median(struct autobuf_paths_entry *e) { e->rtt_median_ns = AUTOBUF_NS_UNSET; }
static void short_rtt(struct autobuf_paths_entry *e) { e->rtt_min_ns = SITE_RTT_LEAST_NS - 1; }
static void long_rtt(struct autobuf_paths_entry *e) { e->rtt_min_ns = e->rtt_median_ns = SITE_RTT_MOST_NS + 1; }
static void median_below(struct autobuf_paths_entry *e) { e->rtt_median_ns = e->rtt_min_ns - 1; }
static void long_median(struct autobuf_paths_entry *e) { e->rtt_median_ns = SITE_RTT_MOST_NS + 1; }
static void slow(struct autobuf_paths_entry *e)
{
    e->tx_rate_low_bit_per_s = e->tx_rate_bit_per_s = SITE_RATE_LEAST - 1;
}
static void fast(struct autobuf_paths_entry *e)
{
    e->rx_rate_high_bit_per_s = e->rx_rate_bit_per_s = SITE_RATE_MOST + 1;
}
static void high(struct autobuf_paths_entry *e) { e->rx_rate_high_bit_per_s = SITE_RATE_MOST + 1; }
static void low_above(struct autobuf_paths_entry *e) { e->tx_rate_low_bit_per_s++; }
static void high_below(struct autobuf_paths_entry *e) { e->rx_rate_high_bit_per_s--; }
static void twice_the_product(struct autobuf_paths_entry *e) { e->tx_bdp_bytes = 1000000; }
static void large_product(struct autobuf_paths_entry *e) { e->tx_bdp_bytes = 1100000; }
static void product_of_nothing(struct autobuf_paths_entry *e)
{
    e->tx_rate_bit_per_s = e->tx_rate_low_bit_per_s = e->tx_rate_high_bit_per_s = 0;
}
static void one_way(struct autobuf_paths_entry *e) { product_of_nothing(e); e->tx_bdp_bytes = 0; }
static void no_rates(struct autobuf_paths_entry *e)
{
    one_way(e);
    e->rx_rate_bit_per_s = e->rx_rate_low_bit_per_s = e->rx_rate_high_bit_per_s = e->rx_bdp_bytes = 0;
}
static void huge(struct autobuf_paths_entry *e)
{
    e->tx_rate_bit_per_s = e->tx_rate_low_bit_per_s = e->tx_rate_high_bit_per_s = SITE_RATE_MOST;
    e->tx_bdp_bytes = SITE_BDP_MOST + 1;
}
static void a_little_ahead(struct autobuf_paths_entry *e) { e->learned_s = NOW_S + SITE_AHEAD_S; }
static void ahead(struct autobuf_paths_entry *e) { e->learned_s = NOW_S + SITE_AHEAD_S + 1; e->expires_s = UINT64_MAX; }
static void for_ever(struct autobuf_paths_entry *e) { e->expires_s = UINT64_MAX; }
static void a_week(struct autobuf_paths_entry *e) { e->expires_s = e->learned_s + SITE_HOLDS_S; }
static void more_than_a_week(struct autobuf_paths_entry *e) { a_week(e); e->expires_s++; }
static void long_ago(struct autobuf_paths_entry *e) { e->learned_s = NOW_S - SITE_HOLDS_S; e->expires_s = UINT64_MAX; }

static void what_is_believed(void **state)
{
    static const struct {
        const char *name;
        void (*set)(struct autobuf_paths_entry *);
        bool believed;
        uint64_t learned_s, expires_s; /* 0: as it was */
    } rows[] = {
        {"measured", nothing, true, 0, 0}, {"in band", inband, true, 0, 0}, {"passive", passive, true, 0, 0},
        {"v6", v6, true, 0, 0},
        {"one way", one_way, true, 0, 0}, {"no median", no_median, true, 0, 0},
        {"twice the product", twice_the_product, true, 0, 0},
        {"a second left", last_second, true, 0, 0}, {"a little ahead", a_little_ahead, true, NOW_S, 0},
        {"for ever", for_ever, true, 0, NOW_S - 10 + SITE_HOLDS_S},
        {"a week", a_week, true, 0, 0}, {"more than a week", more_than_a_week, true, 0, NOW_S - 10 + SITE_HOLDS_S},
        {"imported", imported, false, 0, 0}, {"given", given, false, 0, 0}, {"no method", none, false, 0, 0},
        {"a later method", later, false, 0, 0}, {"a network", network, false, 0, 0},
        {"everything", everything, false, 0, 0},
        {"loopback", loopback, false, 0, 0}, {"v6 loopback", v6_loopback, false, 0, 0}, {"a group", group, false, 0, 0},
        {"a v6 group", v6_group, false, 0, 0}, {"local", local, false, 0, 0}, {"device", device, false, 0, 0},
        {"expired", expired, false, 0, 0}, {"no rtt", no_rtt, false, 0, 0},
        {"large packets", large_packets, true, 0, 0}, {"larger packets", larger_packets, false, 0, 0},
        {"short rtt", short_rtt, false, 0, 0},
        {"long rtt", long_rtt, false, 0, 0}, {"median below", median_below, false, 0, 0},
        {"long median", long_median, false, 0, 0},
        {"slow", slow, false, 0, 0}, {"fast", fast, false, 0, 0}, {"high", high, false, 0, 0},
        {"low above", low_above, false, 0, 0},
        {"high below", high_below, false, 0, 0}, {"large product", large_product, false, 0, 0},
        {"huge", huge, false, 0, 0},
        {"product of nothing", product_of_nothing, false, 0, 0}, {"no rates", no_rates, false, 0, 0},
        {"ahead", ahead, false, 0, 0},
        {"long ago", long_ago, false, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_paths_entry e = entry();
        uint64_t learned_s, expires_s;

        rows[i].set(&e);
        learned_s = rows[i].learned_s ? rows[i].learned_s : e.learned_s;
        expires_s = rows[i].expires_s ? rows[i].expires_s : e.expires_s;
        CHECK_EQUAL(rows[i].name, site_check(&e, NOW_S), rows[i].believed);
        if (rows[i].believed) {
            CHECK_EQUAL(rows[i].name, e.learned_s, learned_s);
            CHECK_EQUAL(rows[i].name, e.expires_s, expires_s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_believed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

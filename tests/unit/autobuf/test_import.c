/* SPDX-License-Identifier: MIT */
/* tools/import.c: other programs' measurements as entries of the path store. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"

#define NOW_S 1700000000ULL
#define HOLDS_S 604800ULL
#define NS_PER_MS 1000000ULL

static int read_as(const char *text, bool exported, struct imported *into)
{
    struct autobuf_prefix here[2];
    struct import_host host = {.addresses = here, .count = 2, .now_s = NOW_S, .holds_s = HOLDS_S, .exported = exported};
    char why[IMPORT_WHY_BYTES];

    assert_int_equal(autobuf_prefix_parse("192.0.2.1", here), 0);
    assert_int_equal(autobuf_prefix_parse("2001:db8::1", here + 1), 0);
    return import_read(text, strlen(text), &host, into, why);
}

static int read_text(const char *text, struct imported *into)
{
    return read_as(text, false, into);
}

/* ------------------------------------------------------------------------------------- results */

/* What `iperf3 -J` says, as far as it is read: PLACE, the addresses, the test's further members and the ends. */
#define IPERF(place, local, remote, more, end)                                                                          \
    "{\"start\":{\"connected\":[{\"local_host\":\"" local "\",\"remote_host\":\"" remote "\"}],"                        \
    "\"timestamp\":{\"timesecs\":1699999000}," place ",\"tcp_mss_default\":1448,"                                       \
    "\"test_start\":{\"protocol\":\"TCP\",\"num_streams\":1" more "}},\"end\":{" end "}}"
#define CLIENT "\"connecting_to\":{\"host\":\"x\"}"
#define SERVER "\"accepted_connection\":{\"host\":\"x\"}"
#define STREAMS(us) "\"streams\":[{\"sender\":{\"min_rtt\":" us "}}]"
#define BOTH_SUMS(sent, received) \
    "\"sum_sent\":{\"bits_per_second\":" sent "},\"sum_received\":{\"bits_per_second\":" received "}"

/* Documents of a perfSONAR archive, and what an archiver of pScheduler gets. */
#define ARCHIVED(from, to, spec, type, result)                                                                          \
    "{\"meta\":{\"source\":{\"ip\":\"" from "\"},\"destination\":{\"ip\":\"" to "\"}},"                                 \
    "\"pscheduler\":{\"start_time\":\"2023-11-14T21:00:00Z\",\"tool\":\"iperf3\"},"                                     \
    "\"test\":{\"type\":\"" type "\",\"spec\":{" spec "}},\"result\":{\"succeeded\":true," result "}}"
#define RUN(from, to, tool, type, result)                                                                               \
    "{\"run\":{\"start-time\":\"2023-11-14T22:00:00.5+01:00\"},\"tool\":{\"name\":\"" tool "\"},"                       \
    "\"test\":{\"type\":\"" type "\",\"spec\":{\"source\":\"" from "\",\"dest\":\"" to "\"}},"                          \
    "\"result\":{\"succeeded\":true," result "}}"
#define PING(from, to) ARCHIVED(from, to, "", "rtt", "\"rtt\":{\"min\":0.04}")

/* What `autobuf paths export` prints. */
#define ENTRY(remote, local, device, times) ENTRY_OF(remote, local, device, "icmp", times, "5")
#define ENTRY_OF(remote, local, device, method, times, bdp)                                                             \
    "{\"remote\":\"" remote "\",\"local\":" local ",\"device\":" device ",\"method\":\"" method "\",\"rtt_min_ns\":20000000," \
    "\"rtt_median_ns\":null,\"tx_rate_bit_per_s\":1000,\"tx_rate_low_bit_per_s\":900,\"tx_rate_high_bit_per_s\":1100,"   \
    "\"rx_rate_bit_per_s\":null,\"rx_rate_low_bit_per_s\":null,\"rx_rate_high_bit_per_s\":null,\"tx_at_least\":false,"   \
    "\"rx_at_least\":true,\"tx_unsure\":\"batches\",\"rx_unsure\":null,\"packet_bytes\":1400,\"samples\":12,"             \
    "\"limiter\":\"path\"," times ",\"tx_bdp_bytes\":" bdp ",\"rx_bdp_bytes\":null}"
#define EXPORTED "{\"paths\":[" ENTRY_OF("0.0.0.0/0", "null", "null", "given", "\"learned_s\":5,\"expires_s\":null", "5") "]}"

static void a_result_becomes_a_path(void **state)
{
    /* Rates in IP bytes: 1500 for 1448 of payload, over IPv6 1520. */
    static const struct {
        const char *name, *text, *remote;
        uint64_t tx_bit_per_s, rx_bit_per_s, rtt_ns, learned_s;
    } rows[] = {
        {"a client of iperf3", IPERF(CLIENT, "192.0.2.1", "192.0.2.9", "", BOTH_SUMS("99e6", "96.533e6") "," STREAMS("20000")),
         "192.0.2.9", 99999654, 0, 20 * NS_PER_MS, 1699999000},
        {"integers", IPERF(CLIENT, "192.0.2.1", "192.0.2.9", ",\"reverse\":0", BOTH_SUMS("0", "144800000") "," STREAMS("1")),
         "192.0.2.9", 150000000, 0, 1000, 1699999000},
        {"addresses of IPv4 on a socket of IPv6",
         IPERF(CLIENT, "::ffff:192.0.2.1", "::ffff:192.0.2.9", "", BOTH_SUMS("0", "144.8e6") "," STREAMS("20000")), "192.0.2.9",
         150000000, 0, 20 * NS_PER_MS, 1699999000},
        {"IPv6", IPERF(CLIENT, "2001:db8::1", "2001:db8::9", "", BOTH_SUMS("0", "144.8e6") "," STREAMS("20000")), "2001:db8::9",
         152000000, 0, 20 * NS_PER_MS, 1699999000},
        {"a server that sends, who knows the time, and its client, who knows the rate",
         IPERF(SERVER, "192.0.2.1", "192.0.2.9", ",\"reverse\":1", BOTH_SUMS("155e6", "0") "," STREAMS("20000"))
         IPERF(CLIENT, "192.0.2.9", "192.0.2.1", ",\"reverse\":1", BOTH_SUMS("155e6", "144.8e6") "," STREAMS("0")), "192.0.2.9",
         150000000, 0, 20 * NS_PER_MS, 1699999000},
        {"both ends, where that is the client",
         IPERF(SERVER, "192.0.2.9", "192.0.2.1", ",\"reverse\":1", BOTH_SUMS("155e6", "0") "," STREAMS("20000"))
         IPERF(CLIENT, "192.0.2.1", "192.0.2.9", ",\"reverse\":1", BOTH_SUMS("155e6", "144.8e6") "," STREAMS("0")), "192.0.2.9",
         0, 150000000, 20 * NS_PER_MS, 1699999000},
        {"both ways",
         IPERF(CLIENT, "192.0.2.1", "192.0.2.9", "",
               BOTH_SUMS("0", "144.8e6") ",\"sum_received_bidir_reverse\":{\"bits_per_second\":14.48e6}," STREAMS("20000")),
         "192.0.2.9", 150000000, 15000000, 20 * NS_PER_MS, 1699999000},
        {"the least of several connections",
         IPERF(CLIENT, "192.0.2.1", "192.0.2.9", "",
               BOTH_SUMS("0", "144.8e6") ",\"streams\":[{\"sender\":{\"min_rtt\":900}},{\"sender\":{\"min_rtt\":0}},"
                                         "{\"sender\":{\"min_rtt\":800}}]"),
         "192.0.2.9", 150000000, 0, 800000, 1699999000},
        {"an archive's document, from here, and a ping",
         ARCHIVED("192.0.2.1", "192.0.2.9", "", "throughput", "\"throughput\":144.8e6,\"mss\":1448") PING("192.0.2.1", "192.0.2.9"),
         "192.0.2.9", 150000000, 0, 40 * NS_PER_MS, 1699995600},
        {"to here, and a ping from there",
         "[" ARCHIVED("192.0.2.9", "192.0.2.1", "", "throughput", "\"throughput\":144.8e6,\"mss\":1448") ","
         PING("192.0.2.9", "192.0.2.1") "]", "192.0.2.9", 0, 150000000, 40 * NS_PER_MS, 1699995600},
        {"in reverse",
         ARCHIVED("192.0.2.1", "192.0.2.9", "\"reverse\":true", "throughput", "\"throughput\":144.8e6")
         "\n" PING("192.0.2.9", "192.0.2.1") "\n", "192.0.2.9", 0, 150000000, 40 * NS_PER_MS, 1699995600},
        {"both, the highest of each, as a search answers",
         "{\"took\":3,\"hits\":{\"total\":{\"value\":4},\"hits\":[{\"_source\":"
         ARCHIVED("192.0.2.9", "192.0.2.1", "", "throughput", "\"throughput\":72.4e6") "},{\"_source\":"
         ARCHIVED("192.0.2.1", "192.0.2.9", "", "throughput", "\"throughput\":144.8e6") "},{\"_source\":"
         ARCHIVED("192.0.2.1", "192.0.2.9", "", "throughput", "\"throughput\":14.48e6") "},{\"_source\":"
         PING("192.0.2.1", "192.0.2.9") "}]}}", "192.0.2.9", 150000000, 75000000, 40 * NS_PER_MS, 1699995600},
        {"round trips of the connections",
         ARCHIVED("192.0.2.1", "192.0.2.9", "", "throughput",
                  "\"throughput\":144.8e6,\"intervals\":{\"json\":[{\"streams\":[{\"rtt\":30000},{\"rtt\":31000}]}]},"
                  "\"streams\":{\"json\":[{\"rtt\":32000}]}"), "192.0.2.9", 150000000, 0, 30 * NS_PER_MS, 1699995600},
        {"what an archiver gets: what arrived",
         RUN("192.0.2.1", "192.0.2.9", "iperf3", "throughput",
             "\"summary\":{\"streams\":[{\"rtt\":30000}],\"summary\":{\"throughput-bits\":2e8,\"receiver-throughput-bits\":144.8e6}}"),
         "192.0.2.9", 150000000, 0, 30 * NS_PER_MS, 1699995600},
        {"a ping there",
         RUN("192.0.2.1", "192.0.2.9", "nuttcp", "throughput",
             "\"summary\":{\"streams\":[{\"rtt\":30}],\"summary\":{\"throughput-bits\":144.8e6}}")
         RUN("192.0.2.1", "192.0.2.9", "ping", "rtt", "\"min\":\"PT0.04S\""), "192.0.2.9", 150000000, 0, 40 * NS_PER_MS, 1699995600},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct autobuf_prefix remote;
        const struct autobuf_paths_entry *e;
        struct imported into;

        assert_int_equal(read_text(rows[i].text, &into), 0);
        if (into.count != 1)
            fail_msg("%s: %zu paths", rows[i].name, into.count);
        e = into.entries;
        assert_int_equal(autobuf_prefix_parse(rows[i].remote, &remote), 0);
        assert_memory_equal(&e->remote, &remote, sizeof remote);
        assert_int_equal(e->method, AUTOBUF_METHOD_IMPORTED);
        if (e->tx_rate_bit_per_s != rows[i].tx_bit_per_s || e->rx_rate_bit_per_s != rows[i].rx_bit_per_s)
            fail_msg("%s: %llu and %llu bit/s", rows[i].name, (unsigned long long)e->tx_rate_bit_per_s,
                     (unsigned long long)e->rx_rate_bit_per_s);
        if (e->rtt_min_ns != rows[i].rtt_ns)
            fail_msg("%s: %llu ns", rows[i].name, (unsigned long long)e->rtt_min_ns);
        if (e->learned_s != rows[i].learned_s)
            fail_msg("%s: of %llu", rows[i].name, (unsigned long long)e->learned_s);
        assert_true(e->expires_s == e->learned_s + HOLDS_S);
        assert_int_equal(e->flags, (e->tx_rate_bit_per_s ? AUTOBUF_PATH_TX_AT_LEAST : 0) |
                                       (e->rx_rate_bit_per_s ? AUTOBUF_PATH_RX_AT_LEAST : 0));
        assert_true(e->tx_bdp_bytes == (uint64_t)((double)e->tx_rate_bit_per_s * (double)e->rtt_min_ns / 8e9));
        assert_true(e->rx_bdp_bytes == (uint64_t)((double)e->rx_rate_bit_per_s * (double)e->rtt_min_ns / 8e9));
        free(into.entries);
    }
}

static void what_says_nothing_is_left_out_with_the_reason(void **state)
{
#define RATE "\"throughput\":1e8"
    static const struct {
        const char *name, *text;
        enum import_reason reason;
    } rows[] = {
        {"a number", "[7]", IMPORT_NOT_UNDERSTOOD},
        {"another object", "{\"rtt\":1}", IMPORT_NOT_UNDERSTOOD},
        {"what was exported, but nobody says so", EXPORTED, IMPORT_EXPORTED},
        {"that in an array", "[" EXPORTED "]", IMPORT_EXPORTED},
        {"that as the answer to a search", "{\"hits\":{\"hits\":[" EXPORTED "]}}", IMPORT_EXPORTED},
        {"that as a document", "{\"hits\":{\"hits\":[{\"_source\":" EXPORTED "}]}}", IMPORT_NOT_UNDERSTOOD},
        {"a network", PING("192.0.2.1", "198.51.100.0/24"), IMPORT_NO_ADDRESS},
        {"all that there is", PING("192.0.2.1", "0.0.0.0/0"), IMPORT_NO_ADDRESS},
        {"a network that this host is in", PING("192.0.2.0/24", "198.51.100.1"), IMPORT_NO_ADDRESS},
        {"no time", "{\"meta\":{\"source\":{\"ip\":\"192.0.2.1\"},\"destination\":{\"ip\":\"192.0.2.9\"}},\"test\":{\"type\":\"throughput\"},"
                    "\"result\":{" RATE "}}", IMPORT_NOT_UNDERSTOOD},
        {"no rate", ARCHIVED("192.0.2.1", "192.0.2.9", "", "throughput", "\"throughput\":\"1e8\""), IMPORT_NOT_UNDERSTOOD},
        {"a rate below 0", ARCHIVED("192.0.2.1", "192.0.2.9", "", "throughput", "\"throughput\":-5"), IMPORT_NOT_UNDERSTOOD},
        {"a rate that no network has", ARCHIVED("192.0.2.1", "192.0.2.9", "", "throughput", "\"throughput\":1e16"), IMPORT_NOT_UNDERSTOOD},
        {"a time that no path has", ARCHIVED("192.0.2.1", "192.0.2.9", "", "rtt", "\"rtt\":{\"min\":1001}"), IMPORT_NOT_UNDERSTOOD},
        {"months", ARCHIVED("192.0.2.1", "192.0.2.9", "", "rtt", "\"min\":\"P1M\""), IMPORT_NOT_UNDERSTOOD},
        {"a duration without its unit", ARCHIVED("192.0.2.1", "192.0.2.9", "", "rtt", "\"min\":\"PT1\""), IMPORT_NOT_UNDERSTOOD},
        {"no number", ARCHIVED("192.0.2.1", "192.0.2.9", "", "rtt", "\"min\":\"PTnanS\""), IMPORT_NOT_UNDERSTOOD},
        {"a trace", ARCHIVED("192.0.2.1", "192.0.2.9", "", "trace", RATE), IMPORT_OTHER_TEST},
        {"UDP", ARCHIVED("192.0.2.1", "192.0.2.9", "\"udp\":true", "throughput", RATE), IMPORT_OTHER_TEST},
        {"UDP of iperf3", "{\"start\":{\"timestamp\":{\"timesecs\":1},\"test_start\":{\"protocol\":\"UDP\"}},\"end\":{}}", IMPORT_OTHER_TEST},
        {"iperf3 that found no server", "{\"start\":{},\"error\":\"unable to connect\"}", IMPORT_FAILED},
        {"a run that failed", "{\"test\":{\"type\":\"rtt\"},\"result\":{\"succeeded\":false}}", IMPORT_FAILED},
        {"a name", ARCHIVED("192.0.2.1", "host.example", "", "throughput", RATE), IMPORT_NO_ADDRESS},
        {"a prefix", ARCHIVED("192.0.2.1", "192.0.2.0/24", "", "throughput", RATE), IMPORT_NO_ADDRESS},
        {"two families", ARCHIVED("192.0.2.1", "2001:db8::9", "", "throughput", RATE), IMPORT_NO_ADDRESS},
        {"others", ARCHIVED("192.0.2.8", "192.0.2.9", "", "throughput", RATE), IMPORT_ELSEWHERE},
        {"itself", ARCHIVED("192.0.2.1", "192.0.2.1", "", "throughput", RATE), IMPORT_ELSEWHERE},
        {"long ago", "{\"pscheduler\":{\"start_time\":\"2023-11-07T22:13:20Z\"},\"test\":{\"type\":\"rtt\",\"spec\":{\"source\":\"192.0.2.1\","
                     "\"dest\":\"192.0.2.9\"}},\"result\":{\"min\":0.04}}", IMPORT_OLD},
        {"what the sender alone has counted", IPERF(SERVER, "192.0.2.1", "192.0.2.9", ",\"reverse\":1", BOTH_SUMS("155e6", "0")
         "," STREAMS("20000")), IMPORT_NO_RATE},
        {"a ping alone", PING("192.0.2.1", "192.0.2.9"), IMPORT_NO_RATE},
        {"a rate alone", ARCHIVED("192.0.2.1", "192.0.2.9", "", "throughput", RATE), IMPORT_NO_RTT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct imported into;

        assert_int_equal(read_text(rows[i].text, &into), 0);
        for (unsigned reason = 0; reason < IMPORT_REASONS; reason++)
            if (into.left_out[reason] != (reason == rows[i].reason))
                fail_msg("%s: %llu left out for reason %u", rows[i].name, (unsigned long long)into.left_out[reason], reason);
        assert_int_equal(into.count, 0);
        free(into.entries);
    }
}

static void a_clock_that_is_ahead_makes_nothing_hold_longer(void **state)
{
    struct imported into;

    (void)state;
    assert_int_equal(read_text("{\"pscheduler\":{\"start_time\":\"2199-01-01T00:00:00Z\"},\"test\":{\"type\":\"throughput\",\"spec\":{"
                               "\"source\":\"192.0.2.1\",\"dest\":\"192.0.2.9\"}},\"result\":{\"throughput\":1e8}}"
                               PING("192.0.2.1", "192.0.2.9"), &into), 0);
    assert_int_equal(into.count, 1);
    assert_true(into.entries[0].learned_s == NOW_S);
    assert_true(into.entries[0].expires_s == NOW_S + HOLDS_S);
    free(into.entries);
}

static void what_is_no_json_is_refused(void **state)
{
    static const char *const texts[] = {"", " ", "{", "[1,", "{\"a\":1}}", "nul", "{\"a\":\"\xff\"}", "{\"a\":1e999}"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct imported into;

        if (read_text(texts[i], &into) != -EINVAL)
            fail_msg("%s: was read", texts[i]);
        free(into.entries);
    }
}

static void depth_has_an_end(void **state)
{
    char text[100001];
    struct imported into;

    (void)state;
    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(read_text(text, &into), -EINVAL);
    free(into.entries);
}

/* -------------------------------------------------------------------------------------- entries */

static void entries_are_as_they_were(void **state)
{
    const struct autobuf_paths_entry *e;
    struct imported into;
    char text[AUTOBUF_PREFIX_BYTES];

    (void)state;
    assert_int_equal(read_as("{\"paths\":["
                             ENTRY("2001:db8::/32", "null", "\"eth0\"", "\"learned_s\":5,\"expires_s\":null") ","
                             ENTRY("192.0.2.0/24", "\"198.51.100.0/24\"", "null", "\"learned_s\":1699999999,\"expires_s\":1700000001")
                             "]}", true, &into), 0);
    assert_int_equal(into.count, 2);
    e = into.entries; /* in the store's order: IPv4 first */
    assert_int_equal(autobuf_prefix_print(&e->remote, text), 0);
    assert_string_equal(text, "192.0.2.0/24");
    assert_int_equal(autobuf_prefix_print(&e->local, text), 0);
    assert_string_equal(text, "198.51.100.0/24");
    assert_true(e->learned_s == 1699999999 && e->expires_s == 1700000001);
    assert_int_equal(e->method, AUTOBUF_METHOD_ICMP);
    assert_int_equal(e->flags, AUTOBUF_PATH_RX_AT_LEAST);
    assert_int_equal(e->tx_unsure, AUTOBUF_UNSURE_BATCHES);
    assert_int_equal(e->rx_unsure, AUTOBUF_UNSURE_NOT);
    assert_string_equal(autobuf_limiter_name(e->limiter), "path");
    assert_int_equal(e->packet_bytes, 1400);
    assert_int_equal(e->samples, 12);
    assert_true(e->rtt_min_ns == 20 * NS_PER_MS && e->rtt_median_ns == AUTOBUF_NS_UNSET);
    assert_true(e->tx_rate_low_bit_per_s == 900 && e->tx_rate_bit_per_s == 1000 && e->tx_rate_high_bit_per_s == 1100);
    assert_true(e->rx_rate_bit_per_s == 0 && e->tx_bdp_bytes == 5 && e->rx_bdp_bytes == 0);
    e++;
    assert_int_equal(autobuf_prefix_print(&e->remote, text), 0);
    assert_string_equal(text, "2001:db8::/32");
    assert_string_equal(e->device, "eth0");
    assert_true(e->learned_s == 5 && e->expires_s == UINT64_MAX);
    free(into.entries);
}

static void entries_that_the_store_would_refuse_are_left_out(void **state)
{
    static const char *const texts[] = {
        "[" EXPORTED "]", /* it is one object */
        "{\"paths\":[7]}",
        "{\"paths\":[" ENTRY_OF("192.0.2.0/24", "null", "null", "icmp", "\"learned_s\":5,\"expires_s\":null", "1e15") "]}",
        "{\"paths\":[" ENTRY("192.0.2.1/24", "null", "null", "\"learned_s\":5,\"expires_s\":null") "]}",
        "{\"paths\":[" ENTRY("any", "null", "null", "\"learned_s\":5,\"expires_s\":null") "]}",
        "{\"paths\":[" ENTRY("192.0.2.0/24", "\"2001:db8::/32\"", "null", "\"learned_s\":5,\"expires_s\":null") "]}",
        "{\"paths\":[" ENTRY("192.0.2.0/24", "null", "\"a/b\"", "\"learned_s\":5,\"expires_s\":null") "]}",
        "{\"paths\":[" ENTRY("192.0.2.0/24", "null", "\"0123456789abcdef\"", "\"learned_s\":5,\"expires_s\":null") "]}",
        "{\"paths\":[" ENTRY("192.0.2.0/24", "null", "null", "\"learned_s\":-5,\"expires_s\":null") "]}",
        "{\"paths\":[" ENTRY("192.0.2.0/24", "null", "null", "\"learned_s\":5") "]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct imported into;

        assert_int_equal(read_as(texts[i], true, &into), 0);
        if (into.count || into.left_out[IMPORT_NOT_UNDERSTOOD] != 1)
            fail_msg("%s: %zu paths", texts[i], into.count);
        free(into.entries);
    }
}

static void of_the_same_path_the_newest_entry_counts(void **state)
{
    struct imported into;

    (void)state;
    assert_int_equal(read_as("{\"paths\":["
                             ENTRY("192.0.2.9", "null", "null", "\"learned_s\":7,\"expires_s\":null") ","
                             ENTRY("192.0.2.9", "null", "null", "\"learned_s\":9,\"expires_s\":null") ","
                             ENTRY("192.0.2.9", "null", "null", "\"learned_s\":8,\"expires_s\":null") "]}", true, &into), 0);
    assert_int_equal(into.count, 1);
    assert_true(into.entries[0].learned_s == 9);
    free(into.entries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_becomes_a_path),
        cmocka_unit_test(what_says_nothing_is_left_out_with_the_reason),
        cmocka_unit_test(a_clock_that_is_ahead_makes_nothing_hold_longer),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(depth_has_an_end),
        cmocka_unit_test(entries_are_as_they_were),
        cmocka_unit_test(entries_that_the_store_would_refuse_are_left_out),
        cmocka_unit_test(of_the_same_path_the_newest_entry_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

static void payload_of_a_bdp(void **state)
{
    static const struct {
        const char *name;
        uint64_t ip_bytes;
        uint32_t packet_bytes;
        uint64_t payload;
    } rows[] = {
        {"nothing", 0, 1500, 0},
        {"one packet", 1500, 1500, 1448},
        {"a thousand packets", 1500000, 1500, 1448000},
        {"unknown packet: 1500", 1500000, 0, 1448000},
        {"no room for a payload: 1500", 1500000, 52, 1448000},
        {"the smallest payload", 53000, 53, 1000},
        {"IPv6's smallest packet", 1280000, 1280, 1228000},
        {"a jumbo packet", 9000000, 9000, 8948000},
        {"one byte", 1, 1500, 0},
        {"no overflow", UINT64_MAX, 1500, 17807256945820953825ULL},
        {"the largest packet", UINT64_MAX, UINT32_MAX, 18446743850371252171ULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t payload = autobuf_payload_bytes(rows[i].ip_bytes, rows[i].packet_bytes);

        CHECK(rows[i].name, payload <= rows[i].ip_bytes);
        CHECK_EQUAL(rows[i].name, payload, rows[i].payload);
    }
}

static void a_given_path_has_bdps(void **state)
{
    static const struct {
        const char *name;
        uint64_t rate_bit_per_s, rtt_ns, bdp_bytes;
    } rows[] = {
        {"500 Mbit/s x 50 ms", 500000000, 50 * AB_NS_PER_MS, 3125000},
        {"800 Mbit/s x 100 ms", 800000000, 100 * AB_NS_PER_MS, 10000000},
        {"10 Gbit/s x 200 ms", 10000000000ULL, 200 * AB_NS_PER_MS, 250000000},
        {"9600 bit/s x 1 s", 9600, AB_NS_PER_S, 1200},
        {"the smallest", 1, 1, 0},
        {"1000 s", 8, 1000 * AB_NS_PER_S, 1000},
        {"no overflow", UINT64_MAX, 1000 * AB_NS_PER_S, UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path p = AUTOBUF_PATH_INIT;
        uint64_t rate = rows[i].rate_bit_per_s;

        CHECK_EQUAL(rows[i].name, autobuf_path_given(&p, rate, rows[i].rtt_ns), 0);
        CHECK_EQUAL(rows[i].name, p.size, sizeof p);
        CHECK_EQUAL(rows[i].name, p.method, AUTOBUF_METHOD_GIVEN);
        CHECK_EQUAL(rows[i].name, p.flags, 0);
        CHECK_EQUAL(rows[i].name, p.samples + p.cost_bytes + p.elapsed_ns, 0);
        CHECK_EQUAL(rows[i].name, p.measured_ns, AUTOBUF_NS_UNSET);
        CHECK(rows[i].name, p.rtt_min_ns == rows[i].rtt_ns && p.rtt_median_ns == rows[i].rtt_ns);
        CHECK(rows[i].name, p.tx_rate_bit_per_s == rate && p.rx_rate_bit_per_s == rate);
        CHECK(rows[i].name, p.tx_rate_low_bit_per_s == rate && p.tx_rate_high_bit_per_s == rate);
        CHECK(rows[i].name, p.rx_rate_low_bit_per_s == rate && p.rx_rate_high_bit_per_s == rate);
        /* the serialisation of one full packet may be counted in or not */
        CHECK(rows[i].name, p.tx_bdp_bytes >= rows[i].bdp_bytes);
        CHECK(rows[i].name, p.tx_bdp_bytes - rows[i].bdp_bytes <= 1500);
        CHECK_EQUAL(rows[i].name, p.rx_bdp_bytes, p.tx_bdp_bytes);
    }
}

static void given_path_is_refused(void **state)
{
    static const struct {
        const char *name;
        uint32_t size;
        uint64_t rate_bit_per_s, rtt_ns;
    } rows[] = {
        {"no rate", sizeof(struct autobuf_path), 0, AB_NS_PER_MS},
        {"no time", sizeof(struct autobuf_path), 1000000, 0},
        {"above 1000 s", sizeof(struct autobuf_path), 1000000, 1000 * AB_NS_PER_S + 1},
        {"time unset", sizeof(struct autobuf_path), 1000000, AUTOBUF_NS_UNSET},
        {"no size", 0, 1000000, AB_NS_PER_MS},
        {"size too small", 3, 1000000, AB_NS_PER_MS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path p, before;

        memset(&p, 0x77, sizeof p);
        p.size = rows[i].size;
        before = p;
        CHECK_EQUAL(rows[i].name, autobuf_path_given(&p, rows[i].rate_bit_per_s, rows[i].rtt_ns),
                    -EINVAL);
        CHECK(rows[i].name, memcmp(&p, &before, sizeof p) == 0);
    }
}

/* An older program's struct ends earlier: nothing behind its end is written. */
static void given_path_of_an_older_program(void **state)
{
    struct autobuf_path p;

    (void)state;
    memset(&p, 0x77, sizeof p);
    p.size = offsetof(struct autobuf_path, rx_rate_bit_per_s);
    assert_int_equal(autobuf_path_given(&p, 800000000, 100 * AB_NS_PER_MS), 0);
    assert_int_equal(p.size, offsetof(struct autobuf_path, rx_rate_bit_per_s));
    assert_true(p.tx_rate_bit_per_s == 800000000);
    assert_true(p.rx_rate_bit_per_s == 0x7777777777777777ULL);
    assert_true(p.rx_bdp_bytes == 0x7777777777777777ULL);
}

/*
 * By hand, in packets of 1448 bytes: reno, 1%: sqrt(150) = 12.25 a round trip. cubic, 0.01%, 100 ms: 1.0538 x
 * 1000^(3/4) = 187.4, as RFC 9438's table 2 says; reno 122.5. Measured with 1% each way at 200 Mbit/s x 60 ms: 2.95
 * Mbit/s.
 */
static void what_loss_leaves(void **state)
{
    static const struct {
        const char *name, *cc;
        uint32_t loss_ppm, rtt_ms, packet_bytes;
        double least, most; /* Mbit/s */
    } rows[] = {
        {"reno, 1%, 60 ms", "reno", 10000, 60, 1500, 2.36, 2.37},
        {"cubic is no slower", "cubic", 10000, 60, 1500, 2.36, 2.37},
        {"half the time", "reno", 10000, 30, 1500, 4.72, 4.74},
        {"a quarter of the loss", "reno", 2500, 60, 1500, 4.72, 4.74},
        {"packets of 576", "reno", 10000, 60, 576, 0.85, 0.86},
        {"of unknown size", "reno", 10000, 60, 0, 2.36, 2.37},
        {"reno, 0.01%, 100 ms", "reno", 100, 100, 1500, 14.1, 14.3},
        {"cubic, 0.01%, 100 ms", "cubic", 100, 100, 1500, 21.6, 21.8},
        {"cubic, 0.0001%, 100 ms", "cubic", 1, 100, 1500, 680, 690},
        {"all are lost", "reno", 1000000, 60, 1500, 0.23, 0.24},
    };
    static const struct {
        const char *cc;
        uint32_t loss_ppm;
        uint64_t rtt_ns, rate;
    } others[] = {
        {"reno", 0, 60000000, UINT64_MAX}, {"bbr", 10000, 60000000, UINT64_MAX}, {"bbr", 150000, 60000000, UINT64_MAX},
        {"bbr", 150001, 60000000, 0}, {"vegas", 10000, 60000000, 0}, {"", 10000, 60000000, 0},
        {NULL, 10000, 60000000, 0},
        {"reno", 10000, 0, 0}, {"reno", 10000, AUTOBUF_NS_UNSET, 0}, {"reno", 1000001, 60000000, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        double mbit = (double)autobuf_loss_rate(rows[i].cc, rows[i].loss_ppm, rows[i].rtt_ms * AB_NS_PER_MS,
                                                rows[i].packet_bytes) / 1e6;

        CHECK(rows[i].name, mbit >= rows[i].least && mbit <= rows[i].most);
    }
    for (size_t i = 0; i < COUNT(others); i++)
        CHECK_EQUAL(others[i].cc ? others[i].cc : "NULL",
                    autobuf_loss_rate(others[i].cc, others[i].loss_ppm, others[i].rtt_ns, 1500), others[i].rate);
}

static void each_method_has_a_name(void **state)
{
    (void)state;
    assert_null(autobuf_method_name(AUTOBUF_METHOD_NONE));
    assert_string_equal(autobuf_method_name(AUTOBUF_METHOD_ICMP), "icmp");
    assert_string_equal(autobuf_method_name(AUTOBUF_METHOD_GIVEN), "given");
    assert_string_equal(autobuf_method_name(AUTOBUF_METHOD_INBAND), "inband");
    assert_string_equal(autobuf_method_name(AUTOBUF_METHOD_IMPORTED), "imported");
    assert_string_equal(autobuf_method_name(AUTOBUF_METHOD_PASSIVE), "passive");
    assert_string_equal(autobuf_method_name(UINT32_MAX), "unknown");
}

static void each_doubt_has_a_name(void **state)
{
    (void)state;
    assert_null(autobuf_unsure_name(AUTOBUF_UNSURE_NOT));
    assert_string_equal(autobuf_unsure_name(AUTOBUF_UNSURE_JITTER), "jitter");
    assert_string_equal(autobuf_unsure_name(AUTOBUF_UNSURE_BATCHES), "batches");
    assert_string_equal(autobuf_unsure_name(AUTOBUF_UNSURE_PAUSES), "pauses");
    assert_string_equal(autobuf_unsure_name(UINT32_MAX), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payload_of_a_bdp),
        cmocka_unit_test(a_given_path_has_bdps),
        cmocka_unit_test(given_path_is_refused),
        cmocka_unit_test(given_path_of_an_older_program),
        cmocka_unit_test(what_loss_leaves),
        cmocka_unit_test(each_method_has_a_name),
        cmocka_unit_test(each_doubt_has_a_name),
    };

    return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}

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
        cmocka_unit_test(each_method_has_a_name),
        cmocka_unit_test(each_doubt_has_a_name),
    };

    return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}

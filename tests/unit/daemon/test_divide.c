/* SPDX-License-Identifier: MIT */
/* Window bytes divided among connections. */
#include "unit.h"

#include <autobuf/live.h>

#include "daemon/managed.h"

#define ALL UINT64_MAX
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void shares_are_max_min_fair(void **state)
{
    static const struct {
        uint64_t total, demands[4], shares[4];
        size_t count;
    } rows[] = {
        {8000000, {ALL}, {8000000}, 1},
        {8000000, {ALL, ALL, ALL, ALL}, {2000000, 2000000, 2000000, 2000000}, 4},
        {8000000, {500000, ALL, ALL, ALL}, {500000, 2500000, 2500000, 2500000}, 4},
        /* after the first turn it is less */
        {8000000, {ALL, 500000, 2400000, ALL}, {2550000, 500000, 2400000, 2550000}, 4},
        {8000000, {500000, 600000}, {500000, 600000}, 2},                               /* a rest that nobody wants */
        {8000000, {0, ALL}, {DIVIDE_LEAST_BYTES, 8000000}, 2},
        {40000, {ALL, ALL}, {DIVIDE_LEAST_BYTES, DIVIDE_LEAST_BYTES}, 2},
        {0, {ALL, 0}, {DIVIDE_LEAST_BYTES, DIVIDE_LEAST_BYTES}, 2},
        {ALL, {ALL, ALL}, {ALL / 2, ALL / 2}, 2},
        {ALL, {ALL}, {ALL - 1}, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t shares[4];

        divide_shares(rows[i].total, rows[i].demands, shares, rows[i].count);
        for (size_t k = 0; k < rows[i].count; k++)
            assert_int_equal(shares[k], rows[i].shares[k]);
    }
    divide_shares(1, NULL, NULL, 0);
}

static void who_is_limited_elsewhere_demands_little_more_than_it_uses(void **state)
{
    (void)state;
    assert_int_equal(divide_demand(100000, AUTOBUF_BOTTLENECK_PATH, 1000000, ALL), 150000);
    assert_int_equal(divide_demand(0, AUTOBUF_BOTTLENECK_IDLE, 1000000, ALL), DIVIDE_LEAST_BYTES);
    assert_int_equal(divide_demand(100000, AUTOBUF_BOTTLENECK_SND_BUFFER, 1000000, ALL), ALL);
    assert_int_equal(divide_demand(100000, AUTOBUF_BOTTLENECK_RCV_BUFFER, 1000000, ALL), ALL);
    assert_int_equal(divide_demand(100000, AUTOBUF_BOTTLENECK_UNKNOWN, 1000000, ALL), ALL);
    /* its share may be what limits it */
    assert_int_equal(divide_demand(900000, AUTOBUF_BOTTLENECK_PATH, 1000000, ALL), ALL);
    assert_int_equal(divide_demand(ALL, AUTOBUF_BOTTLENECK_PATH, ALL, ALL), ALL);
    /* its own pace is */
    assert_int_equal(divide_demand(100000, AUTOBUF_BOTTLENECK_SND_BUFFER, 1000000, 100000), 150000);
    assert_int_equal(divide_demand(900000, AUTOBUF_BOTTLENECK_PATH, 1000000, 900000), ALL);
    assert_int_equal(divide_demand(100000, AUTOBUF_BOTTLENECK_IDLE, 1000000, 300000), 150000); /* whichever is less */
    assert_int_equal(divide_demand(0, AUTOBUF_BOTTLENECK_PATH, 1000000, 0), DIVIDE_LEAST_BYTES);
    assert_int_equal(divide_paced(10000000, 100000000), 1000000);
    assert_int_equal(divide_paced(ALL, 100000000), ALL);
    assert_int_equal(divide_paced(10000000, AUTOBUF_NS_UNSET), ALL);
    assert_int_equal(divide_paced(ALL - 1, ALL - 1), ALL);
}

/* Its share is in flight at any round-trip time, the program's own bound stays, and what is right is not set again. */
static void a_pace_has_the_share_in_flight(void **state)
{
    static const struct {
        uint64_t share, rtt_ns, most, now, pace;
    } rows[] = {{1000000, 100000000, ALL, ALL, 10000000},    {1000000, 50000000, ALL, 10000000, 20000000},
                {1000000, 100000000, ALL, 10200000, 0},      {1000000, 100000000, ALL, 9800000, 0},
                {1000000, 100000000, ALL, 9790000, 10000000}, {1000000, 100000000, 3000000, ALL, 3000000},
                {1000000, 100000000, 3000000, 3000000, 0},   {ALL, 0, ALL, ALL, (uint64_t)1e18}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(divide_pace(rows[i].share, rows[i].rtt_ns, rows[i].most, rows[i].now), rows[i].pace);
}

/* Of what the kernel stores two thirds may be waiting when a program that waits with poll() is woken. */
static void a_small_buffer_is_made_to_hold_the_share_and_what_waits(void **state)
{
    static const struct {
        uint64_t share, most, snd_buf, request;
    } rows[] = {{1000000, ALL, 212992, 1500000}, {1000000, ALL, 2999998, 1500000}, {1000000, ALL, 3000000, 0},
                {1000000, ALL, 6000000, 0},      {DIVIDE_LEAST_BYTES, ALL, 4608, 49152},
                {ALL, ALL, 4608, ALL / 3 / 2 * 3},
                {1000000, 212992, 131072, 212992}, {1000000, 212992, 425984, 0},   {1000000, 212992, 4000000, 0}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(divide_request(rows[i].share, rows[i].most, rows[i].snd_buf), rows[i].request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_max_min_fair),
        cmocka_unit_test(who_is_limited_elsewhere_demands_little_more_than_it_uses),
        cmocka_unit_test(a_pace_has_the_share_in_flight),
        cmocka_unit_test(a_small_buffer_is_made_to_hold_the_share_and_what_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

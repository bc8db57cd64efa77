/* SPDX-License-Identifier: MIT */
/* Window bytes divided among connections. */
#include "unit.h"

#include <autobuf/live.h>

#include "daemon/divide.h"

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
        {8000000, {ALL, 500000, 2400000, ALL}, {2550000, 500000, 2400000, 2550000}, 4}, /* after the first turn it is less */
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
    assert_int_equal(divide_demand(100000, AUTOBUF_LIMITER_PATH, 1000000), 150000);
    assert_int_equal(divide_demand(0, AUTOBUF_LIMITER_IDLE, 1000000), DIVIDE_LEAST_BYTES);
    assert_int_equal(divide_demand(100000, AUTOBUF_LIMITER_SND_BUFFER, 1000000), ALL);
    assert_int_equal(divide_demand(100000, AUTOBUF_LIMITER_RCV_BUFFER, 1000000), ALL);
    assert_int_equal(divide_demand(100000, AUTOBUF_LIMITER_UNKNOWN, 1000000), ALL);
    assert_int_equal(divide_demand(900000, AUTOBUF_LIMITER_PATH, 1000000), ALL); /* its share may be what limits it */
    assert_int_equal(divide_demand(ALL, AUTOBUF_LIMITER_PATH, ALL), ALL);
}

/* A buffer that holds yield/100 payload for each byte of its size: as many steps as it takes. */
static void the_window_becomes_the_share(void **state)
{
    static const struct {
        uint64_t share, snd_buf, yield;
    } rows[] = {{1000000, 4000000, 90}, {1000000, 4000000, 45}, {1000000, 131072, 60}, {2500000, 2500000, 70}, {40000, 8000000, 50}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t share = rows[i].share, buffer = rows[i].snd_buf, window = buffer / 100 * rows[i].yield, request;
        unsigned steps = 0;

        while ((request = divide_request(share, window, buffer, AUTOBUF_LIMITER_SND_BUFFER)) != 0) {
            assert_true(request <= buffer); /* twice what it was */
            buffer = 2 * request;
            window = buffer / 100 * rows[i].yield;
            assert_true(steps++ < 8);
        }
        assert_in_range(window, share / 100 * 97, share / 100 * 103);
    }
}

static void what_the_path_limits_gets_no_larger_buffer(void **state)
{
    (void)state;
    assert_int_equal(divide_request(1000000, 300000, 4000000, AUTOBUF_LIMITER_PATH), 0);
    assert_int_equal(divide_request(1000000, 2000000, 8000000, AUTOBUF_LIMITER_PATH), 2000000);
    assert_int_equal(divide_request(1000000, 0, 8000000, AUTOBUF_LIMITER_SND_BUFFER), 0);
    assert_int_equal(divide_request(DIVIDE_LEAST_BYTES, 1U << 30, 65536, AUTOBUF_LIMITER_SND_BUFFER), 16384);
    assert_int_equal(divide_request(1000000, 500, 4608, AUTOBUF_LIMITER_SND_BUFFER), 4608);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_max_min_fair),
        cmocka_unit_test(who_is_limited_elsewhere_demands_little_more_than_it_uses),
        cmocka_unit_test(the_window_becomes_the_share),
        cmocka_unit_test(what_the_path_limits_gets_no_larger_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* tools/daemon/bulk.c: what counts is the rate, however often somebody looks. */
#include "unit.h"

#include "daemon/bulk.h"

#define NS_PER_MS 1000000ULL

/* Looks at a connection of a steady rate. The number of the look that finds it bulk; 0: none of a thousand. */
static unsigned found_by(uint64_t byte_per_s, uint64_t between_ms)
{
    struct bulk_mark mark = {0};

    for (unsigned look = 1; look <= 1000; look++)
        if (bulk_since(&mark, look * between_ms * byte_per_s / 1000, look * between_ms * NS_PER_MS))
            return look;
    return 0;
}

/* At full speed by the second look, of which the first set the mark, also where looks are rare. */
static void a_rate_is_found_however_rare_looks_are(void **state)
{
    static const uint64_t between_ms[] = {10, 100, 900, 1100, 1500, 3000, 10000, 600000};

    (void)state;
    for (size_t i = 0; i < sizeof between_ms / sizeof *between_ms; i++) {
        assert_int_equal(found_by(50000000, between_ms[i]), 1);
        assert_int_equal(found_by(700000, between_ms[i]), between_ms[i] < 100 ? 10 : 1);
        assert_int_equal(found_by(30000, between_ms[i]), 0);
        assert_int_equal(found_by(1, between_ms[i]), 0);
    }
}

/* One that was slow for long is found as soon as it is fast. */
static void the_past_does_not_count(void **state)
{
    struct bulk_mark mark = {0};
    uint64_t ns = 0, bytes = 1000000;

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        ns += 2000 * NS_PER_MS;
        bytes += 1000;
        assert_int_equal(bulk_since(&mark, bytes, ns), i == 0); /* what it had moved before */
    }
    assert_true(bulk_since(&mark, bytes + 200000, ns + 2000 * NS_PER_MS));
}

static void bounds(void **state)
{
    struct bulk_mark mark = {0};

    (void)state;
    assert_true(bulk_since(&mark, 65536, 0)); /* younger than a look */
    assert_false(bulk_since(&mark, 65536 + 65535, 0));
    assert_true(bulk_since(&mark, 65536 + 65536, 1000 * NS_PER_MS));
    assert_false(bulk_since(&mark, 3 * 65536, 2002 * NS_PER_MS));
    assert_false(bulk_since(&mark, 1000, 2100 * NS_PER_MS)); /* the socket was connected once more */
    assert_true(bulk_since(&mark, 66536, 2200 * NS_PER_MS));
    assert_true(bulk_since(&mark, UINT64_MAX, UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_found_however_rare_looks_are),
        cmocka_unit_test(the_past_does_not_count),
        cmocka_unit_test(bounds),
    };

    return cmocka_run_group_tests_name("bulk", tests, NULL, NULL);
}

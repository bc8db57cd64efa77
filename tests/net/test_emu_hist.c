#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "emu_hist.h"

static void test_empty(void **state)
{
    static struct emu_hist h;

    (void)state;
    assert_int_equal(emu_hist_mean_ns(&h), 0);
    assert_int_equal(emu_hist_quantile_ns(&h, 0.5), 0);
}

static void test_small_values_are_exact(void **state)
{
    static struct emu_hist h;
    uint64_t i;

    (void)state;
    for (i = 1; i <= 50; i++)
        emu_hist_add(&h, i);
    assert_int_equal(emu_hist_quantile_ns(&h, 0.5), 25);
    assert_int_equal(emu_hist_quantile_ns(&h, 0.98), 49);
    assert_int_equal(emu_hist_quantile_ns(&h, 1.0), 50);
    assert_int_equal(emu_hist_mean_ns(&h), 25);
}

static void test_large_values_are_within_a_bin(void **state)
{
    uint64_t value;

    (void)state;
    for (value = 64; value < UINT64_MAX / 3; value = value * 3 + 1) {
        static struct emu_hist h;
        uint64_t got;

        memset(&h, 0, sizeof(h));
        emu_hist_add(&h, value);
        emu_hist_add(&h, UINT64_MAX);
        got = emu_hist_quantile_ns(&h, 0.5);
        assert_true(got >= value && got - value <= value / 32);
        assert_int_equal(emu_hist_quantile_ns(&h, 1.0), UINT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_small_values_are_exact),
        cmocka_unit_test(test_large_values_are_within_a_bin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

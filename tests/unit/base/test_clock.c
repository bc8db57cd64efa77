/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <time.h>

#include "base/base.h"
#include "base/clock.h"

static uint64_t read_ns(clockid_t id)
{
    struct timespec t;

    assert_int_equal(clock_gettime(id, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void monotonic_is_the_kernel_s_and_does_not_go_back(void **state)
{
    uint64_t before = read_ns(CLOCK_MONOTONIC), last = before;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t now = autobuf_now_ns();

        assert_true(now >= last);
        last = now;
    }
    assert_true(last <= read_ns(CLOCK_MONOTONIC));
}

/* A realtime stamp minus the offset is about between the monotonic readings around it. */
static void offset_turns_realtime_into_monotonic(void **state)
{
    uint64_t offset = ab_clock_offset_ns(), before = read_ns(CLOCK_MONOTONIC);
    uint64_t stamp = read_ns(CLOCK_REALTIME), after = read_ns(CLOCK_MONOTONIC);
    uint64_t turned = stamp - offset;

    (void)state;
    assert_true(turned + 20 * AB_NS_PER_MS >= before); /* a clock that is being slewed is allowed */
    assert_true(turned <= after + 20 * AB_NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monotonic_is_the_kernel_s_and_does_not_go_back),
        cmocka_unit_test(offset_turns_realtime_into_monotonic),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}

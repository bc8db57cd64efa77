/* SPDX-License-Identifier: MIT */
/* Single steps of the pace. tests/sim tests their effect on a path. */
#include "unit.h"

#include "live/pace.h"

#define MS AB_NS_PER_MS
#define MBIT 125000ULL /* bytes a second */

/* 100 Mbit/s over 50 ms, looked at every 25 ms. */
static struct ab_pace_look look_at(uint64_t tick, uint64_t rtt_ms)
{
    return (struct ab_pace_look){.now_ns = tick * 25 * MS, .rtt_ns = rtt_ms * MS,
                                 .rtt_min_ns = 50 * MS, .acked_byte_per_s = 100 * MBIT,
                                 .mss_bytes = 1448};
}

/* Looks of one round-trip time each; how many of them changed the pace. */
static unsigned looks(struct ab_pace *pace, uint64_t *tick, unsigned count, uint64_t rtt_ms,
                      uint64_t acked_mbit, bool app_limited)
{
    unsigned changes = 0;

    for (unsigned i = 0; i < count; i++) {
        struct ab_pace_look look = look_at(++*tick, rtt_ms);
        const char *why = NULL;

        look.acked_byte_per_s = acked_mbit * MBIT;
        look.app_limited = app_limited;
        if (ab_pace_look(pace, &look, &why)) {
            assert_non_null(why);
            changes++;
        }
    }
    return changes;
}

static void nothing_is_done_without_a_queue(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    assert_int_equal(looks(&pace, &tick, 50, 50, 100, false), 0);
    assert_int_equal(looks(&pace, &tick, 50, 70, 100, false), 0); /* bursts of slow start */
    assert_int_equal(pace.byte_per_s, 0);
}

static void what_comes_and_goes_is_no_queue(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(looks(&pace, &tick, 1, i % 2 ? 50 : 120, 100, false), 0);
}

static void a_queue_is_emptied_and_the_pace_is_the_path_s(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    looks(&pace, &tick, 2, 50, 100, false);
    assert_int_equal(looks(&pace, &tick, 2, 100, 100, false), 1);
    assert_int_equal(pace.byte_per_s, 50 * MBIT); /* 1 - 50 / (2 x 50) */
    assert_int_equal(looks(&pace, &tick, 2, 100, 100, false), 0); /* the effect is waited for */
    assert_int_equal(looks(&pace, &tick, 1, 50, 100, false), 1);
    assert_int_equal(pace.byte_per_s, 99 * MBIT);
    assert_int_equal(looks(&pace, &tick, 5, 50, 99, true), 0); /* nothing more to send */
    assert_int_equal(looks(&pace, &tick, 5, 50, 99, false), 5);
    assert_true(pace.byte_per_s > 99 * MBIT && pace.byte_per_s < 125 * MBIT);
}

static void a_longer_path_is_no_queue(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    looks(&pace, &tick, 2, 50, 100, false);
    looks(&pace, &tick, 2, 100, 100, false);
    looks(&pace, &tick, 20, 50, 100, false);
    assert_true(pace.byte_per_s >= 99 * MBIT);
    looks(&pace, &tick, 4, 100, 50, false);
    assert_true(pace.byte_per_s <= 50 * MBIT);
    looks(&pace, &tick, 10, 100, 25, false); /* however slow we are */
    assert_true(pace.rebased);
    assert_true(pace.byte_per_s >= 99 * MBIT);
}

static void after_a_jump_of_the_clock_it_begins_again(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    looks(&pace, &tick, 4, 50, 100, false);
    ab_pace_forget(&pace);
    tick = 0;
    assert_int_equal(looks(&pace, &tick, 8, 55, 100, false), 0);
    assert_int_equal(pace.floor_ns[0], 55 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_done_without_a_queue),
        cmocka_unit_test(what_comes_and_goes_is_no_queue),
        cmocka_unit_test(a_queue_is_emptied_and_the_pace_is_the_path_s),
        cmocka_unit_test(a_longer_path_is_no_queue),
        cmocka_unit_test(after_a_jump_of_the_clock_it_begins_again),
    };

    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}

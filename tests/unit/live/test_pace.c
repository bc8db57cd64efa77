/* SPDX-License-Identifier: MIT */
/* Single steps of the pace. tests/sim tests their effect on a path. */
#include "unit.h"

#include "live/judge.h"

#define MS AB_NS_PER_MS
#define MBIT 125000ULL /* bytes a second */

/* 100 Mbit/s over 50 ms, looked at every 25 ms. */
static struct ab_pace_sample look_at(uint64_t tick, uint64_t rtt_ms)
{
    return (struct ab_pace_sample){.now_ns = tick * 25 * MS, .rtt_ns = rtt_ms * MS,
                                 .rtt_min_ns = 50 * MS, .acked_byte_per_s = 100 * MBIT,
                                 .mss_bytes = 1448};
}

/* Looks of one round-trip time each; how many of them changed the pace. */
static unsigned samples(struct ab_pace *pace, uint64_t *tick, unsigned count, uint64_t rtt_ms,
                      uint64_t acked_mbit, bool app_limited)
{
    unsigned changes = 0;

    for (unsigned i = 0; i < count; i++) {
        struct ab_pace_sample sample = look_at(++*tick, rtt_ms);
        const char *why = NULL;

        sample.acked_byte_per_s = acked_mbit * MBIT;
        sample.app_limited = app_limited;
        if (ab_pace_sample(pace, &sample, &why)) {
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
    assert_int_equal(samples(&pace, &tick, 50, 50, 100, false), 0);
    assert_int_equal(samples(&pace, &tick, 50, 70, 100, false), 0); /* bursts of slow start */
    assert_int_equal(pace.byte_per_s, 0);
}

static void what_comes_and_goes_is_no_queue(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(samples(&pace, &tick, 1, i % 2 ? 50 : 120, 100, false), 0);
}

static void a_queue_is_emptied_and_the_pace_is_the_path_s(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    samples(&pace, &tick, 2, 50, 100, false);
    assert_int_equal(samples(&pace, &tick, 2, 100, 100, false), 1);
    assert_int_equal(pace.byte_per_s, 50 * MBIT); /* 1 - 50 / (2 x 50) */
    assert_int_equal(samples(&pace, &tick, 2, 100, 100, false), 0); /* the effect is waited for */
    assert_int_equal(samples(&pace, &tick, 1, 50, 100, false), 1);
    assert_int_equal(pace.byte_per_s, 99 * MBIT);
    assert_int_equal(samples(&pace, &tick, 5, 50, 99, true), 0); /* nothing more to send */
    assert_int_equal(samples(&pace, &tick, 5, 50, 99, false), 5);
    assert_true(pace.byte_per_s > 99 * MBIT && pace.byte_per_s < 125 * MBIT);
}

static void a_longer_path_is_no_queue(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    samples(&pace, &tick, 2, 50, 100, false);
    samples(&pace, &tick, 2, 100, 100, false);
    samples(&pace, &tick, 20, 50, 100, false);
    assert_true(pace.byte_per_s >= 99 * MBIT);
    samples(&pace, &tick, 4, 100, 50, false);
    assert_true(pace.byte_per_s <= 50 * MBIT);
    samples(&pace, &tick, 10, 100, 25, false); /* however slow we are */
    assert_true(pace.rebased);
    assert_true(pace.byte_per_s >= 99 * MBIT);
}

static void after_a_jump_of_the_clock_it_begins_again(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    samples(&pace, &tick, 4, 50, 100, false);
    ab_pace_forget(&pace);
    tick = 0;
    assert_int_equal(samples(&pace, &tick, 8, 55, 100, false), 0);
    assert_int_equal(pace.floor_ns[0], 55 * MS);
}

/* One look with nothing to send, so that only a queue changes the pace; true if it was cut. */
static bool is_cut(struct ab_pace *pace, struct ab_pace_sample sample)
{
    uint64_t before = pace->byte_per_s;
    const char *why;

    sample.app_limited = true;
    return ab_pace_sample(pace, &sample, &why) && pace->byte_per_s < before;
}

/* Whether a queue that lasts two looks is seen, by a sender that has a pace. */
static bool is_seen(uint64_t floor_us, uint64_t rtt_us, uint64_t acked_byte_per_s)
{
    struct ab_pace pace = {.byte_per_s = 100 * MBIT};
    bool cut = false;

    for (uint64_t tick = 1; tick <= 4; tick++) {
        struct ab_pace_sample sample = look_at(tick, 0);

        sample.rtt_min_ns = floor_us * AB_NS_PER_US;
        sample.rtt_ns = tick <= 2 ? sample.rtt_min_ns : rtt_us * AB_NS_PER_US;
        sample.acked_byte_per_s = acked_byte_per_s;
        cut = is_cut(&pace, sample);
    }
    return cut;
}

static void how_long_a_queue_has_to_be(void **state)
{
    (void)state;
    assert_false(is_seen(50000, 54500, 100 * MBIT)); /* a tenth of the least */
    assert_true(is_seen(50000, 55500, 100 * MBIT));
    assert_false(is_seen(5000, 6900, 100 * MBIT)); /* 2 ms */
    assert_true(is_seen(5000, 7100, 100 * MBIT));
    assert_false(is_seen(50000, 50000 + 45000, MBIT)); /* four packets take 46.3 ms */
    assert_true(is_seen(50000, 50000 + 48000, MBIT));
}

static void a_least_that_tcp_never_saw_counts_a_quarter_more_at_most(void **state)
{
    struct ab_pace pace = {.byte_per_s = 100 * MBIT};
    uint64_t tick = 0;

    (void)state;
    while (tick < 3)
        assert_false(is_cut(&pace, look_at(++tick, 68))); /* 62.5 and a tenth are 68.75 */
    pace = (struct ab_pace){.byte_per_s = 100 * MBIT};
    assert_false(is_cut(&pace, look_at(++tick, 70)));
    assert_true(is_cut(&pace, look_at(++tick, 70)));
}

/* 50 ms at first, then 54 ms for so long, then 57 ms: a queue to whoever remembers the 50. */
static bool is_cut_after(uint64_t seconds)
{
    struct ab_pace pace = {.byte_per_s = 100 * MBIT, .rebased = true};
    uint64_t tick = 1;

    assert_false(is_cut(&pace, look_at(tick, 50)));
    while (tick < seconds * 40)
        assert_false(is_cut(&pace, look_at(++tick, 54)));
    assert_false(is_cut(&pace, look_at(++tick, 57)));
    return is_cut(&pace, look_at(++tick, 57));
}

static void the_least_is_remembered_for_two_spans(void **state)
{
    (void)state;
    assert_true(is_cut_after(19));
    assert_false(is_cut_after(21));
}

/* The pace after a queue of one round trip, where such a look with the path's full rate was so many looks ago. */
static uint64_t cut_to(unsigned looks_ago)
{
    struct ab_pace pace = {.byte_per_s = 100 * MBIT};
    uint64_t tick = 0;

    samples(&pace, &tick, 1, 50, 100, true);
    samples(&pace, &tick, looks_ago - 2, 50, 40, true);
    assert_int_equal(samples(&pace, &tick, 2, 100, 40, true), 1);
    return pace.byte_per_s;
}

static void the_path_s_rate_is_the_largest_of_three_round_trips(void **state)
{
    (void)state;
    assert_int_equal(cut_to(5), 50 * MBIT);
    assert_int_equal(cut_to(6), 20 * MBIT);
}

static void a_queue_that_shrinks_is_one(void **state)
{
    struct ab_pace pace = {0};
    uint64_t tick = 0;

    (void)state;
    samples(&pace, &tick, 2, 50, 100, false);
    assert_int_equal(samples(&pace, &tick, 2, 100, 100, false), 1);
    for (uint64_t rtt_ms = 100; rtt_ms >= 68; rtt_ms -= 4) /* to 36% of itself */
        samples(&pace, &tick, 1, rtt_ms, 100, false);
    assert_false(pace.rebased);
}

/* The pace after one look without a queue, before which there were so many. */
static uint64_t raised_to(unsigned clear_ticks, uint64_t acked_mbit)
{
    struct ab_pace pace = {.byte_per_s = 100 * MBIT, .clear_ticks = clear_ticks};
    uint64_t tick = 0;

    samples(&pace, &tick, 1, 50, acked_mbit, false);
    return pace.byte_per_s;
}

static void it_rises_ever_faster_while_no_queue_stands(void **state)
{
    static const struct {
        unsigned clear_ticks;
        uint64_t acked_mbit, permille;
    } rows[] = {
        {0, 100, 1003}, {8, 100, 1003}, {9, 100, 1006}, {11, 100, 1012}, {13, 100, 1024}, {40, 100, 1125},
        {40, 84, 1050}, /* not far ahead of what arrives */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(raised_to(rows[i].clear_ticks, rows[i].acked_mbit), 100 * MBIT / 1000 * rows[i].permille);
}

static void the_least_pace_is_16_kb_a_second(void **state)
{
    (void)state;
    for (uint64_t pace_at = 8000; pace_at <= 100000; pace_at += 92000) {
        struct ab_pace pace = {.byte_per_s = pace_at};

        for (uint64_t tick = 1; tick <= 4; tick++) {
            struct ab_pace_sample sample = look_at(tick, tick <= 2 ? 50 : 30000);
            const char *why;

            sample.acked_byte_per_s = 1000;
            sample.app_limited = true;
            ab_pace_sample(&pace, &sample, &why);
        }
        assert_int_equal(pace.byte_per_s, 16000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_done_without_a_queue),
        cmocka_unit_test(what_comes_and_goes_is_no_queue),
        cmocka_unit_test(a_queue_is_emptied_and_the_pace_is_the_path_s),
        cmocka_unit_test(a_longer_path_is_no_queue),
        cmocka_unit_test(after_a_jump_of_the_clock_it_begins_again),
        cmocka_unit_test(how_long_a_queue_has_to_be),
        cmocka_unit_test(a_least_that_tcp_never_saw_counts_a_quarter_more_at_most),
        cmocka_unit_test(the_least_is_remembered_for_two_spans),
        cmocka_unit_test(the_path_s_rate_is_the_largest_of_three_round_trips),
        cmocka_unit_test(a_queue_that_shrinks_is_one),
        cmocka_unit_test(it_rises_ever_faster_while_no_queue_stands),
        cmocka_unit_test(the_least_pace_is_16_kb_a_second),
    };

    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}

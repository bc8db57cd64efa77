/* SPDX-License-Identifier: MIT */
/* Single steps of a scavenger. tests/sim/test_scavenger_sim.c has their effect on a path that others use, too. */
#include "unit.h"

#include <string.h>

#include "live/judge.h"

#define MS AB_NS_PER_MS
#define MBIT 125000ULL /* bytes a second */

/* Takes samples each 25 ms. */
struct run {
    struct ab_scavenger scavenger;
    struct ab_pace_sample sample;
    const char *why;
};

static struct run begun(uint64_t mbit)
{
    struct run r = {.scavenger = {.byte_per_s = mbit * MBIT, .pause_ns = UINT64_MAX, .most_byte_per_s = mbit * MBIT},
                    .sample = {.rtt_min_ns = 50 * MS, .mss_bytes = 1448, .acked_byte_per_s = mbit * MBIT}};

    return r;
}

/* A sample. Returns the rate in Mbit/s. */
static uint64_t sampled(struct run *r, uint64_t rtt_ms)
{
    r->sample.now_ns += 25 * MS;
    r->sample.rtt_ns = rtt_ms * MS;
    r->sample.moved_bytes += 10000000; /* so many acknowledgements that the smoothed RTT is the newest one */
    ab_scavenger_sample(&r->scavenger, &r->sample, &r->why);
    return r->scavenger.byte_per_s / MBIT;
}

static uint64_t sampled_often(struct run *r, uint64_t rtt_ms, unsigned count)
{
    uint64_t rate = 0;

    while (count--)
        rate = sampled(r, rtt_ms);
    return rate;
}

static void nothing_is_known_before_tcp_has_an_rtt(void **state)
{
    struct run r = {0};

    (void)state;
    assert_int_equal(sampled(&r, 0), 0);
    r.sample.rtt_min_ns = 50 * MS;
    assert_int_equal(sampled(&r, 50), 0);
    assert_int_equal(r.scavenger.samples, 0);
}

static void slow_start_ends_with_a_queue(void **state)
{
    struct run r = {.sample = {.rtt_min_ns = 50 * MS, .mss_bytes = 1448}};

    (void)state;
    assert_int_equal(sampled(&r, 50), 10 * 1448 * 20 / MBIT); /* ten packets in 50 ms */
    r.sample.acked_byte_per_s = 40 * MBIT;
    r.scavenger.byte_per_s = 40 * MBIT;
    assert_int_equal(sampled(&r, 50), 45);
    assert_int_equal(sampled(&r, 50), 50);
    assert_true(sampled(&r, 56) <= 1); /* at the first sample: a pause */
    assert_true(sampled_often(&r, 50, 4) <= 1);
    assert_int_equal(sampled(&r, 50), 39); /* 98% of what came through */
}

static void what_is_its_own_queue_is_emptied(void **state)
{
    struct run r = begun(100);

    (void)state;
    sampled(&r, 50);
    sampled(&r, 56);
    assert_int_equal(sampled(&r, 56), 87); /* 1 - 6 / 50, and less than that what it has raised */
    assert_int_equal(sampled(&r, 56), 87);
    assert_int_equal(sampled(&r, 56), 98);
    assert_int_equal(sampled_often(&r, 50, 3), 98);
    assert_true(sampled(&r, 50) >= 98); /* and rises again */
    assert_string_equal(r.why, "no queue: a little faster");
}

static void somebody_else_s_queue_halves_it_until_it_is_gone(void **state)
{
    struct run r = begun(100);

    (void)state;
    sampled(&r, 50);
    sampled_often(&r, 56, 7);
    assert_int_equal(r.scavenger.byte_per_s / MBIT, 98);
    assert_int_equal(sampled(&r, 56), 49);
    assert_int_equal(sampled(&r, 60), 24);
    assert_int_equal(sampled(&r, 60), 12);
    assert_int_equal(sampled(&r, 50), 13); /* gone: up to half of what it had, by an eighth */
    assert_true(sampled_often(&r, 50, 11) >= 40);
}

/* More than its own rate explains: slow start of somebody else. */
static void a_sudden_queue_takes_an_eighth(void **state)
{
    struct run r = begun(100);

    (void)state;
    sampled(&r, 50);
    sampled(&r, 70);
    assert_int_equal(sampled(&r, 70), 12);
}

/* Whether two samples with such an RTT are a queue to a sender that has seen base_ms and a rate of most_mbit. */
static bool is_queue(uint64_t base_ms, uint64_t rtt_us, uint64_t most_mbit)
{
    struct run r = begun(most_mbit);

    r.sample.app_limited = true;
    r.sample.rtt_min_ns = base_ms * MS;
    sampled(&r, base_ms);
    for (unsigned i = 0; i < 2; i++) {
        r.sample.now_ns += 25 * MS;
        r.sample.rtt_ns = rtt_us * AB_NS_PER_US;
        r.sample.moved_bytes += 100000000;
        ab_scavenger_sample(&r.scavenger, &r.sample, &r.why);
    }
    return r.scavenger.byte_per_s < most_mbit * MBIT;
}

static void the_target_is_a_tenth_of_the_base_delay(void **state)
{
    (void)state;
    assert_false(is_queue(50, 54500, 100));
    assert_true(is_queue(50, 55500, 100));
    assert_false(is_queue(5, 6900, 100)); /* 2 ms */
    assert_true(is_queue(5, 7200, 100));
    assert_false(is_queue(20, 24500, 10)); /* four packets take 4.6 ms */
    assert_true(is_queue(20, 24900, 10));
    assert_false(is_queue(20, 24900, 1));  /* 46 ms, but no more than a quarter of the base */
    assert_true(is_queue(20, 25200, 1));
    assert_false(is_queue(800, 855000, 100)); /* LEDBAT++'s 60 ms */
    assert_true(is_queue(800, 865000, 100));
}

static void loss_halves_it(void **state)
{
    struct run r = begun(100);

    (void)state;
    sampled(&r, 50);
    r.sample.lost = 1;
    assert_int_equal(sampled(&r, 50), 50);
    r.sample.lost = 2;
    assert_int_equal(sampled_often(&r, 50, 2), 50); /* once in a round trip */
    assert_int_equal(sampled(&r, 50), 25);
    assert_int_equal(sampled_often(&r, 50, 2), 25);
    assert_int_equal(sampled(&r, 50), 28);
}

static void the_floor(void **state)
{
    struct run r = begun(100);

    (void)state;
    sampled(&r, 50);
    sampled_often(&r, 100, 40);
    assert_in_range(r.scavenger.byte_per_s, 2 * 1448 * 10 - 200, 2 * 1448 * 10); /* two packets in 100 ms */
    r = begun(1);
    sampled(&r, 50);
    sampled_often(&r, 100, 40);
    assert_int_equal(r.scavenger.byte_per_s, MBIT / 32); /* of the path */
}

/* By how many packets in eight round trips it rises, after so many samples without a queue. */
static uint64_t rises_by(unsigned clear)
{
    struct run r = begun(100);
    uint64_t before = r.scavenger.byte_per_s;

    r.scavenger.clear = clear;
    sampled(&r, 50);
    return (r.scavenger.byte_per_s - before) * 8 / (1448 * 20);
}

static void it_rises_ever_faster_while_no_queue_stands(void **state)
{
    (void)state;
    assert_in_range(rises_by(0), 3, 4); /* half a packet in each sample */
    assert_in_range(rises_by(8), 7, 8);
    assert_in_range(rises_by(16), 15, 16);
    assert_in_range(rises_by(40), 127, 128);
}

static void the_rate_is_not_far_ahead(void **state)
{
    struct run r = begun(100);

    (void)state;
    r.sample.acked_byte_per_s = 60 * MBIT;
    assert_int_equal(sampled(&r, 50), 100);
    r.sample.acked_byte_per_s = 100 * MBIT;
    r.sample.app_limited = true;
    assert_int_equal(sampled(&r, 50), 100);
    r.sample.app_limited = false;
    r.scavenger.clear = 100;
    assert_in_range(sampled(&r, 50), 149, 150);
}

static void it_pauses_each_10_s(void **state)
{
    struct run r = begun(100);

    (void)state;
    for (unsigned idle = 0; idle < 2; idle++, r = begun(100)) { /* who has little to send shows the path */
        r.scavenger.pause_ns = 1;
        r.sample.app_limited = idle;
        for (unsigned i = 0, pauses = 0; i < 40 * 30; i++) {
            sampled(&r, 50);
            pauses += strcmp(r.why, "a pause shows the path's delay") == 0 && r.scavenger.hold == 4;
            assert_true(i < 40 * 30 - 1 || pauses == (idle ? 0 : 3));
        }
    }
    r = begun(100);
    r.scavenger.pause_ns = 1;
    sampled(&r, 50);
    assert_true(sampled_often(&r, 50, 4) <= 1);
    r.sample.lost = 9; /* before it, which is answered by the pause */
    assert_int_equal(sampled(&r, 50), 98);
    assert_int_equal(sampled_often(&r, 50, 2), 98);
}

static void a_receiver_s_slow_start_ends_at_two_samples(void **state)
{
    struct run r = begun(100);

    (void)state;
    r.sample.receives = true;
    r.scavenger.pause_ns = 0;
    sampled(&r, 50);
    assert_true(sampled(&r, 56) >= 100);
    assert_int_equal(sampled(&r, 56), 25);
}

/* Its window is then less than the path holds, so nothing stands there a round trip later. */
static void a_receiver_s_own_queue_needs_no_deeper_cut(void **state)
{
    struct run r = begun(100);

    (void)state;
    r.sample.receives = true;
    sampled_often(&r, 50, 2);
    sampled(&r, 56);
    assert_int_equal(sampled(&r, 56), 98);
    assert_int_equal(sampled_often(&r, 50, 5), 98);
    assert_true(sampled(&r, 50) >= 98);
    assert_string_equal(r.why, "no queue: a little faster");
    sampled_often(&r, 56, 7);
    assert_in_range(sampled(&r, 56), 48, 49); /* somebody else's */
}

static void a_receiver_pauses_longer_and_less(void **state)
{
    struct run r = begun(100);

    (void)state;
    r.sample.receives = true;
    r.scavenger.pause_ns = 1;
    assert_int_equal(sampled(&r, 50), 25);
    assert_int_equal(sampled_often(&r, 50, 6), 25);
    assert_int_equal(sampled(&r, 50), 98);
}

/* What lies behind a smoothed one of milliseconds may be far too low. */
static void a_receiver_s_base_delay_is_a_smoothed_rtt(void **state)
{
    struct run r = begun(1);

    (void)state;
    r.sample.receives = true;
    sampled(&r, 80);
    r.sample.rtt_ns = 79 * MS;
    r.sample.moved_bytes += 2 * 1448;
    ab_scavenger_sample(&r.scavenger, &r.sample, &r.why);
    assert_in_range(r.scavenger.rtt_ns[0], 71000000, 73000000); /* one arrival: 80 - 8 */
    assert_int_equal(r.scavenger.base_ns[0], 79 * MS);
}

/* By a window no queue grows beyond what it holds: two that both wait below their target would never share. */
static void a_receiver_goes_on_up_to_the_target(void **state)
{
    (void)state;
    for (unsigned receives = 0; receives <= 1; receives++) {
        struct run r = begun(100);
        uint64_t before;

        r.sample.receives = receives;
        sampled_often(&r, 50, 2);
        before = r.scavenger.byte_per_s;
        sampled_often(&r, 54, 2);
        assert_int_equal(r.scavenger.byte_per_s > before, receives);
    }
}

/* 2 ms of 4 ms are a queue: half of what comes through stands in it. */
static void on_a_short_path_a_receiver_s_rate_is_further_ahead(void **state)
{
    (void)state;
    for (unsigned receives = 0; receives <= 1; receives++) {
        struct run r = begun(100);

        r.sample.receives = receives;
        r.sample.rtt_min_ns = 4 * MS;
        r.scavenger.clear = 100;
        sampled_often(&r, 4, 9);
        assert_in_range(r.scavenger.byte_per_s / MBIT, receives ? 199 : 149, receives ? 200 : 150);
    }
}

static void the_window(void **state)
{
    struct run r = begun(100);

    (void)state;
    r.sample.receives = true;
    sampled_often(&r, 50, 2);
    r.scavenger.byte_per_s = 100 * MBIT;
    assert_int_equal(ab_scavenger_window(&r.scavenger, 1448), 100 * MBIT / 20 + 2 * 1448); /* in 50 ms */
    r.scavenger.byte_per_s = UINT64_MAX;
    assert_true(ab_scavenger_window(&r.scavenger, UINT32_MAX) >= 1 << 30);
    r.scavenger.pause_ns = 0;
    assert_int_equal(ab_scavenger_window(&r.scavenger, 1448), 0);
}

/* At a low rate there are few acknowledgements, and the smoothed RTT is late. */
static void the_newest_rtt_is_found_behind_the_smoothed_one(void **state)
{
    struct run r = begun(1);

    (void)state;
    sampled(&r, 80);
    r.sample.rtt_ns = 75 * MS; /* by one acknowledgement: 80 - (80 - 40) / 8 */
    r.sample.rtt_min_ns = 30 * MS;
    r.sample.moved_bytes += 2 * 1448;
    ab_scavenger_sample(&r.scavenger, &r.sample, &r.why);
    assert_in_range(r.scavenger.rtt_ns[0], 39900000, 40100000);
    r.sample.now_ns += 25 * MS;
    ab_scavenger_sample(&r.scavenger, &r.sample, &r.why); /* no news */
    assert_in_range(r.scavenger.rtt_ns[0], 39900000, 40100000);
    r.sample.rtt_ns = 20 * MS;
    r.sample.moved_bytes += 2 * 1448;
    ab_scavenger_sample(&r.scavenger, &r.sample, &r.why);
    assert_int_equal(r.scavenger.rtt_ns[0], 30 * MS); /* not below what TCP has seen */
}

/* bbr below 1.2 Mbit/s: the ACK of two packets comes when the second one may go, and that is no queue. */
static void single_packets_are_acknowledged_late(void **state)
{
    (void)state;
    for (unsigned singles = 0; singles < 2; singles++) {
        struct run r = begun(1);
        uint64_t rate = 28000; /* two packets in 100 ms */

        sampled(&r, 50);
        r.scavenger.byte_per_s = rate;
        r.sample.singles = singles;
        sampled_often(&r, 50 + 1448 * 1000 / rate, 8);
        assert_int_equal(r.scavenger.byte_per_s > rate, singles);
        r.scavenger.byte_per_s = rate;
        sampled_often(&r, 50 + 1448 * 1000 / rate + 20, 8); /* and somebody else's queue is one */
        assert_true(r.scavenger.byte_per_s <= rate);
    }
}

static void after_a_jump_of_the_clock_it_begins_again(void **state)
{
    struct run r = begun(100);

    (void)state;
    sampled_often(&r, 50, 4);
    ab_scavenger_forget(&r.scavenger);
    r.sample.now_ns = 0;
    assert_true(sampled_often(&r, 60, 4) >= 100);
    assert_in_range(r.scavenger.base_ns[0], 59 * MS, 61 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_tcp_has_an_rtt),
        cmocka_unit_test(slow_start_ends_with_a_queue),
        cmocka_unit_test(what_is_its_own_queue_is_emptied),
        cmocka_unit_test(somebody_else_s_queue_halves_it_until_it_is_gone),
        cmocka_unit_test(a_sudden_queue_takes_an_eighth),
        cmocka_unit_test(the_target_is_a_tenth_of_the_base_delay),
        cmocka_unit_test(loss_halves_it),
        cmocka_unit_test(the_floor),
        cmocka_unit_test(it_rises_ever_faster_while_no_queue_stands),
        cmocka_unit_test(the_rate_is_not_far_ahead),
        cmocka_unit_test(it_pauses_each_10_s),
        cmocka_unit_test(a_receiver_s_slow_start_ends_at_two_samples),
        cmocka_unit_test(a_receiver_s_own_queue_needs_no_deeper_cut),
        cmocka_unit_test(a_receiver_pauses_longer_and_less),
        cmocka_unit_test(a_receiver_s_base_delay_is_a_smoothed_rtt),
        cmocka_unit_test(a_receiver_goes_on_up_to_the_target),
        cmocka_unit_test(on_a_short_path_a_receiver_s_rate_is_further_ahead),
        cmocka_unit_test(the_window),
        cmocka_unit_test(the_newest_rtt_is_found_behind_the_smoothed_one),
        cmocka_unit_test(single_packets_are_acknowledged_late),
        cmocka_unit_test(after_a_jump_of_the_clock_it_begins_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Dynamic Right-Sizing over paths in virtual time: invariants of each step, and the rate. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim_credit.h"

#define MS 1000000ULL
#define S 1000000000ULL
#define MBIT 125000.0 /* bytes a second */

struct seen {
    const struct sim_credit *sim;
    uint64_t least, largest, last;
    uint32_t measured;
    double after_bytes; /* consumed by after_ns */
    double sum, steps;  /* of windows since */
    uint64_t after_ns;
};

static uint64_t cap_of(const struct sim_credit *sim)
{
    return sim->cap_bytes ? sim->cap_bytes : 67108864;
}

/* In each step. */
static void sample(void *user, uint64_t now_ns, const struct autobuf_rightsize_state *s,
                   double consumed, double flight, double queue)
{
    struct seen *seen = user;
    double bdp = (double)s->best_byte_per_s * (double)s->rtt_min_ns / 1e9;

    (void)flight;
    (void)queue;
    if (!seen->least || s->window_bytes < seen->least)
        seen->least = s->window_bytes;
    if (s->window_bytes > seen->largest)
        seen->largest = s->window_bytes;
    assert_true(s->window_bytes >= seen->sim->window_bytes);
    assert_true(s->window_bytes <= cap_of(seen->sim));
    /* at most four times the best rate x the minimum RTT */
    if (s->window_bytes > seen->sim->window_bytes)
        assert_true((double)s->window_bytes <= 4 * bdp + 4);
    if (s->measured != seen->measured) {
        assert_true(s->sender_low_bytes <= s->sender_high_bytes);
        /* (1): what a sender with a fixed window sends in a round trip is between the bounds */
        if (seen->sim->fixed && seen->sim->rate_byte_per_s * (double)s->rtt_ns / 1e9 >
                                    3 * (double)seen->sim->window_bytes && now_ns > S) {
            assert_true((double)s->sender_low_bytes <= 1.03 * (double)seen->sim->window_bytes);
            assert_true((double)s->sender_high_bytes >= 0.97 * (double)seen->sim->window_bytes);
        }
        seen->measured = s->measured;
    }
    if (now_ns < seen->after_ns)
        seen->after_bytes = consumed;
    seen->last = s->window_bytes;
    if (now_ns >= seen->after_ns) {
        seen->sum += (double)s->window_bytes;
        seen->steps++;
    }
}

static struct sim_credit path_of(double mbit, double rtt_ms)
{
    return (struct sim_credit){.rate_byte_per_s = mbit * MBIT, .rtt_ns = (uint64_t)(rtt_ms * 1e6),
                               .tell_rtt = true, .window_bytes = 65536, .cap_bytes = 67108864,
                               .end_ns = 5 * S};
}

/* Bytes a second from after_ns to the end. */
static double run(const struct sim_credit *sim, struct seen *seen, uint64_t after_ns)
{
    double all;

    *seen = (struct seen){.sim = sim, .after_ns = after_ns};
    all = sim_credit(sim, sample, seen);
    return (all - seen->after_bytes) / ((double)(sim->end_ns - after_ns) / 1e9);
}

static const double mbits[] = {1, 10, 100, 400, 1000};
static const double rtts_ms[] = {2, 10, 50, 100, 300};

static void any_path_is_filled(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * 25; i++) {
        struct sim_credit sim = path_of(mbits[i % 5], rtts_ms[i / 5 % 5]);
        double bdp = sim.rate_byte_per_s * (double)sim.rtt_ns / 1e9, rate;
        struct seen seen;

        sim.tell_rtt = i < 25; /* else from its own samples */
        sim.end_ns = 10 * S + 40 * sim.rtt_ns;
        rate = run(&sim, &seen, sim.end_ns / 2);
        if (rate < 0.97 * sim.rate_byte_per_s)
            fail_msg("%.0f Mbit/s x %.0f ms%s: %.3f of the rate, window %llu of %.0f",
                     mbits[i % 5], rtts_ms[i / 5 % 5], sim.tell_rtt ? "" : ", no time told",
                     rate / sim.rate_byte_per_s, (unsigned long long)seen.last, bdp);
        /* as far as the path needs, and hardly farther */
        bdp = sim.tell_rtt || bdp > 65536 ? bdp : 65536; /* its own queue counts */
        if (seen.last > 65536 && (double)seen.last > 4.1 * bdp + 20000)
            fail_msg("%.0f Mbit/s x %.0f ms: window %llu, bdp %.0f", mbits[i % 5],
                     rtts_ms[i / 5 % 5], (unsigned long long)seen.last, bdp);
    }
}

/* It doubles each round trip, as slow start: the credit is not the bottleneck for long. */
static void it_grows_as_fast_as_slow_start(void **state)
{
    struct sim_credit sim = path_of(400, 100);
    struct seen seen;

    (void)state;
    /* 65,536 to 10 MB are 8 doublings; one round trip to begin, and one of delay for each */
    assert_true(run(&sim, &seen, 20 * 100 * MS) > 0.97 * sim.rate_byte_per_s);
}

/* The queue of the credit itself raises the RTT, which must not make the window grow. */
static void its_own_queue_does_not_feed_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < 25; i++) {
        struct sim_credit sim = path_of(mbits[i % 5], rtts_ms[i / 5]);
        double bdp = sim.rate_byte_per_s * (double)sim.rtt_ns / 1e9;
        struct seen seen;

        sim.end_ns = 20 * S;
        run(&sim, &seen, S);
        /* trials of more are undone */
        if (seen.sum / seen.steps > 2.4 * bdp + 66000)
            fail_msg("%.0f Mbit/s x %.0f ms: window %.0f, bdp %.0f", mbits[i % 5],
                     rtts_ms[i / 5], seen.sum / seen.steps, bdp);
    }
}

static void bounds_hold_for_a_fixed_window(void **state)
{
    static const uint64_t windows[] = {20000, 65536, 200000, 1000000};

    (void)state;
    for (size_t i = 0; i < 2 * 4 * 5; i++) {
        struct sim_credit sim = path_of(1000, rtts_ms[i % 5]);
        struct seen seen;

        sim.window_bytes = windows[i / 5 % 4];
        sim.fixed = true;
        sim.tell_rtt = i < 20;
        run(&sim, &seen, S);
        assert_true(seen.measured > 0);
    }
}

/* Its own RTT estimate is at least the truth, and not far above it. */
static void own_round_trip_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct sim_credit sim = path_of(100, rtts_ms[i]);
        struct autobuf_rightsize *rs;
        struct autobuf_rightsize_state s = AUTOBUF_RIGHTSIZE_STATE_INIT;
        uint64_t now_ns = 1;

        /* 64 KB of credit, used and granted at once: one RTT each time */
        assert_int_equal(autobuf_rightsize_open(&rs, NULL), 0);
        autobuf_rightsize_rtt(rs, 0); /* neither tells anything */
        autobuf_rightsize_rtt(rs, AUTOBUF_NS_UNSET);
        assert_int_equal(autobuf_rightsize_state(rs, &s), 0);
        assert_true(s.rtt_ns == AUTOBUF_NS_UNSET && s.rtt_min_ns == AUTOBUF_NS_UNSET);
        for (int round = 0; round < 20; round++) {
            now_ns += sim.rtt_ns;
            autobuf_rightsize_received(rs, now_ns, 65536);
            autobuf_rightsize_consumed(rs, now_ns, 65536);
            autobuf_rightsize_granted(rs, now_ns, 65536);
        }
        assert_int_equal(autobuf_rightsize_state(rs, &s), 0);
        assert_int_equal(s.rtt_ns, sim.rtt_ns);
        assert_int_equal(s.rtt_min_ns, sim.rtt_ns);
        autobuf_rightsize_close(rs);
    }
}

/* Bytes count also if the clock goes back, or a later RTT sample would be too long. */
static void no_byte_is_lost_when_the_clock_goes_back(void **state)
{
    struct autobuf_rightsize_state s = AUTOBUF_RIGHTSIZE_STATE_INIT;
    struct autobuf_rightsize *rs;

    (void)state;
    assert_int_equal(autobuf_rightsize_open(&rs, NULL), 0);
    autobuf_rightsize_received(rs, 5000 * MS, 65536);
    autobuf_rightsize_granted(rs, 5000 * MS, 65536);
    autobuf_rightsize_received(rs, 4000 * MS, 65536);
    autobuf_rightsize_granted(rs, 4000 * MS, 65536);
    autobuf_rightsize_received(rs, 4150 * MS, 1); /* the first of this grant */
    assert_int_equal(autobuf_rightsize_state(rs, &s), 0);
    assert_int_equal(s.rtt_ns, 150 * MS);
    autobuf_rightsize_granted(rs, 3000 * MS, 65536);
    autobuf_rightsize_granted(rs, 3000 * MS, 65536);
    autobuf_rightsize_received(rs, 3100 * MS, 65535 + 65536); /* grants from before: no RTT sample */
    autobuf_rightsize_received(rs, 3120 * MS, 1);
    assert_int_equal(autobuf_rightsize_state(rs, &s), 0);
    assert_int_equal(s.rtt_ns, 120 * MS);
    autobuf_rightsize_close(rs);
}

/* What comes after a pause is no measurement. A reader that a tick of the kernel wakes does not pause. */
static void what_is_a_pause(void **state)
{
    static const struct {
        const char *name;
        uint64_t rtt_ms, gap_ms;
        uint32_t measured;
    } rows[] = {
        {"a tick of 10 ms, and a shorter round trip", 1, 10, 9},
        {"twice that", 1, 20, 0},
        {"a round trip", 100, 100, 9},
        {"one and a half, and a tick", 100, 160, 9},
        {"two", 100, 200, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct autobuf_rightsize_state s = AUTOBUF_RIGHTSIZE_STATE_INIT;
        struct autobuf_rightsize *rs;

        assert_int_equal(autobuf_rightsize_open(&rs, NULL), 0);
        autobuf_rightsize_rtt(rs, rows[i].rtt_ms * MS);
        for (uint64_t call = 1; call <= 10; call++)
            autobuf_rightsize_consumed(rs, call * rows[i].gap_ms * MS, 1000);
        assert_int_equal(autobuf_rightsize_state(rs, &s), 0);
        if (s.measured != rows[i].measured)
            fail_msg("%s: measured %u times", rows[i].name, s.measured);
        autobuf_rightsize_close(rs);
    }
}

static void causes_that_do_not_make_it_grow(void **state)
{
    static const struct {
        const char *name;
        double reader_mbit;
        uint64_t reader_pause_ms, reader_period_ms, sender_pause_ms, sender_period_ms, gap_ms;
        double most; /* of the BDP of its real rate */
    } rows[] = {
        {"a slow reader", 5, 0, 0, 0, 0, 0, 4},
        {"a reader that pauses for seconds", 5, 2000, 4000, 0, 0, 0, 4},
        {"a slow reader and gaps", 5, 0, 0, 0, 0, 700, 4},
        {"a sender that is idle most of the time", 5, 0, 0, 1900, 2000, 0, 4},
    };

    (void)state;
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) {
        size_t row = i / 2;
        struct sim_credit sim = path_of(400, 50);
        double bdp = rows[row].reader_mbit * MBIT * 0.05;
        struct seen seen;

        sim.tell_rtt = i % 2 == 0;
        sim.end_ns = 20 * S;
        sim.reader_byte_per_s = rows[row].reader_mbit * MBIT;
        sim.reader_pause_ns = rows[row].reader_pause_ms * MS;
        sim.reader_period_ns = rows[row].reader_period_ms * MS;
        sim.sender_pause_ns = rows[row].sender_pause_ms * MS;
        sim.sender_period_ns = rows[row].sender_period_ms * MS;
        sim.gap_every_ns = rows[row].gap_ms * MS;
        run(&sim, &seen, S);
        if ((double)seen.largest > rows[row].most * bdp + 65536)
            fail_msg("%s%s: window %llu, bdp %.0f", rows[row].name,
                     sim.tell_rtt ? "" : ", no time told", (unsigned long long)seen.largest, bdp);
    }
}

/* Gaps delay growth, but do not prevent it. */
static void gaps_only_delay(void **state)
{
    struct sim_credit sim = path_of(100, 50);
    struct seen seen;

    (void)state;
    sim.gap_every_ns = S;
    sim.end_ns = 20 * S;
    assert_true(run(&sim, &seen, 10 * S) > 0.97 * sim.rate_byte_per_s);
}

static void the_path_changes(void **state)
{
    struct sim_credit sim = path_of(100, 100);
    struct seen seen;

    (void)state;
    sim.change_ns = 10 * S;
    sim.end_ns = 60 * S;
    sim.changed_byte_per_s = 400 * MBIT; /* wider: followed at once */
    assert_true(run(&sim, &seen, 15 * S) > 0.97 * sim.changed_byte_per_s);
    sim.changed_byte_per_s = 10 * MBIT; /* narrower: followed when the best rate expires */
    assert_true(run(&sim, &seen, 50 * S) > 0.97 * sim.changed_byte_per_s);
    assert_true((double)seen.last < 4.1 * sim.changed_byte_per_s * 0.1 + 20000);
}

/* A ControlMaster's connection, whose route changes. Once its best rate has expired, it has that rate again. */
static void the_path_becomes_longer(void **state)
{
    (void)state;
    for (unsigned told = 0; told < 2; told++) {
        for (uint64_t times = 2; times <= 20; times++) {
            struct sim_credit sim = path_of(100, 10);
            struct seen seen;

            sim.tell_rtt = told;
            sim.longer_ns = 30 * S;
            sim.longer_by_ns = (times - 1) * sim.rtt_ns;
            sim.end_ns = 100 * S;
            if (run(&sim, &seen, 70 * S) < 0.97 * sim.rate_byte_per_s)
                fail_msg("%llu times, told %u: %.3f of the rate", (unsigned long long)times, told,
                         run(&sim, &seen, 70 * S) / sim.rate_byte_per_s);
        }
    }
}

/* For as long, a queue that always stands must not pass for a longer path. */
static void a_standing_queue_is_no_longer_path(void **state)
{
    (void)state;
    for (unsigned told = 0; told < 2; told++) {
        struct sim_credit sim = path_of(100, 20);
        struct seen seen;

        sim.tell_rtt = told;
        sim.end_ns = 900 * S;
        run(&sim, &seen, 600 * S);
        assert_true(seen.sum / seen.steps < 2.4 * sim.rate_byte_per_s * 0.02 + 66000);
    }
}

static void the_cap_is_kept(void **state)
{
    struct sim_credit sim = path_of(1000, 100);
    struct seen seen;

    (void)state;
    sim.cap_bytes = 2000000;
    run(&sim, &seen, S);
    assert_int_equal(seen.largest, 2000000);
    sim = path_of(10000, 100); /* 125 MB */
    sim.cap_bytes = 0;
    run(&sim, &seen, S);
    assert_int_equal(seen.largest, cap_of(&sim));
}

/* With arbitrary values in any order the window stays between its bounds. */
static void arbitrary_values(void **state)
{
    uint64_t x = 0x9e3779b97f4a7c15ULL;

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct autobuf_rightsize_options options = AUTOBUF_RIGHTSIZE_OPTIONS_INIT;
        struct autobuf_rightsize *rs;

        options.window_bytes = 10000;
        options.cap_bytes = round % 2 ? 1000000 : UINT64_MAX;
        assert_int_equal(autobuf_rightsize_open(&rs, &options), 0);
        for (int i = 0; i < 500; i++) {
            uint64_t a, b, window;

            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            a = x >> (x % 60);
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            b = x >> (x % 60);
            if (i % 5 == 0)
                autobuf_rightsize_rtt(rs, a);
            else if (i % 5 == 1)
                autobuf_rightsize_granted(rs, a, b);
            else if (i % 5 == 2)
                autobuf_rightsize_received(rs, a, b);
            else if (i % 50 == 3)
                autobuf_rightsize_gap(rs, a);
            window = autobuf_rightsize_consumed(rs, b, a);
            assert_in_range(window, options.window_bytes, options.cap_bytes);
        }
        autobuf_rightsize_close(rs);
    }
}

static void options_and_structs(void **state)
{
    struct autobuf_rightsize_options options = AUTOBUF_RIGHTSIZE_OPTIONS_INIT;
    struct autobuf_rightsize_state s = AUTOBUF_RIGHTSIZE_STATE_INIT;
    struct autobuf_rightsize *rs;

    (void)state;
    options.window_bytes = 2000;
    options.cap_bytes = 1999;
    assert_int_equal(autobuf_rightsize_open(&rs, &options), -EINVAL);
    assert_null(rs);
    options.cap_bytes = 2000;
    assert_int_equal(autobuf_rightsize_open(&rs, &options), 0);
    assert_int_equal(autobuf_rightsize_consumed(rs, 1, 0), 2000);
    s.size = 3;
    assert_int_equal(autobuf_rightsize_state(rs, &s), -EINVAL);
    autobuf_rightsize_close(rs);
    options.size = 0;
    assert_int_equal(autobuf_rightsize_open(&rs, &options), -EINVAL);
    autobuf_rightsize_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_path_is_filled),
        cmocka_unit_test(it_grows_as_fast_as_slow_start),
        cmocka_unit_test(its_own_queue_does_not_feed_it),
        cmocka_unit_test(bounds_hold_for_a_fixed_window),
        cmocka_unit_test(own_round_trip_time),
        cmocka_unit_test(no_byte_is_lost_when_the_clock_goes_back),
        cmocka_unit_test(what_is_a_pause),
        cmocka_unit_test(causes_that_do_not_make_it_grow),
        cmocka_unit_test(gaps_only_delay),
        cmocka_unit_test(the_path_changes),
        cmocka_unit_test(the_path_becomes_longer),
        cmocka_unit_test(a_standing_queue_is_no_longer_path),
        cmocka_unit_test(the_cap_is_kept),
        cmocka_unit_test(arbitrary_values),
        cmocka_unit_test(options_and_structs),
    };

    return cmocka_run_group_tests_name("rightsize", tests, NULL, NULL);
}

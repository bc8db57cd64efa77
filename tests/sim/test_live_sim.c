/* SPDX-License-Identifier: MIT */
/* The pace of autobuf_live_*() for low delay, over a deep queue in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim_live.h"

#define MS 1000000ULL
#define S 1000000000ULL
#define PAYLOAD 0.965
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const double mbits[] = {10, 100, 400, 1000};
static const double rtts_ms[] = {20, 50, 100};
static const double jitters[] = {0, 0.03, 0.12}; /* of the RTT */

#define CELLS (4 * 3 * 3)

static struct sim_live path_of(size_t cell, char name[80])
{
    double mbit = mbits[cell % 4], rtt_ms = rtts_ms[cell / 4 % 3];
    double rate = mbit * 125000 * PAYLOAD;

    snprintf(name, 80, "%.0f Mbit/s x %.0f ms, jitter %.0f%%", mbit, rtt_ms,
             100 * jitters[cell / 12]);
    return (struct sim_live){.rate_byte_per_s = rate, .rtt_ns = (uint64_t)(rtt_ms * 1e6),
                             .buffer_bytes = 8 * rate * rtt_ms / 1e3 + 100000,
                             .jitter_ms = jitters[cell / 12] * rtt_ms, .seed = cell + 1,
                             .end_ns = 12 * S};
}

static void check_span(const char *name, const char *when, struct sim_span got, double rate,
                       double least, double most)
{
    if (got.rate_byte_per_s < least * rate || got.rtt_ratio > most)
        fail_msg("%s, %s: %.3f of the rate at %.2f of the round-trip time", name, when,
                 got.rate_byte_per_s / rate, got.rtt_ratio);
}

static void full_rate_at_hardly_any_queue(void **state)
{
    (void)state;
    for (size_t i = 0; i < CELLS; i++) {
        char name[80];
        struct sim_live sim = path_of(i, name), alone;

        check_span(name, "from 2 s on", sim_live(&sim, 2 * S, 12 * S), sim.rate_byte_per_s,
                   jitters[i / 12] > 0.1 ? 0.93 : 0.97, rtts_ms[i / 4 % 3] < 50 ? 1.2 : 1.1);
        alone = sim;
        alone.unpaced = true;
        check_span(name, "the start", sim_live(&sim, 0, 10 * S),
                   sim_live(&alone, 0, 10 * S).rate_byte_per_s, jitters[i / 12] > 0.1 ? 0.9 : 0.95, 2);
        /* else there is nothing to gain */
        assert_true(sim_live(&alone, 2 * S, 12 * S).rtt_ratio > 3);
    }
}

static void a_narrower_path_is_followed_within_a_second(void **state)
{
    (void)state;
    for (size_t i = 0; i < CELLS; i++) {
        char name[80];
        struct sim_live sim = path_of(i, name);

        sim.change_ns = 5 * S;
        sim.changed_byte_per_s = sim.rate_byte_per_s / 2;
        if (rtts_ms[i / 4 % 3] <= 50)
            check_span(name, "after a second", sim_live(&sim, 6 * S, 10 * S),
                       sim.changed_byte_per_s, 0.95,
                       mbits[i % 4] <= 10 ? 1.4 : 1.2); /* four packets of 5 Mbit/s take 10 ms */
    }
}

static void a_wider_path_is_followed_within_a_second(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * 12; i++) { /* with 12% of jitter it takes longer */
        char name[80];
        struct sim_live sim = path_of(i, name);

        sim.change_ns = 5 * S;
        sim.changed_byte_per_s = 2 * sim.rate_byte_per_s;
        if (rtts_ms[i / 4 % 3] <= 50)
            check_span(name, "after a second", sim_live(&sim, 6 * S, 10 * S),
                       sim.changed_byte_per_s, 0.9, 1.2);
    }
}

/* A radio link, or a host that stalls. */
static void a_path_that_stands_still_at_times_keeps_its_rate(void **state)
{
    static const unsigned stalls_ms[] = {20, 60, 150, 400};

    (void)state;
    for (size_t i = 0; i < 2 * 12 * COUNT(stalls_ms); i++) {
        struct sim_live sim = path_of(i % 12, (char[80]){0}), alone;
        char name[120];
        double most;

        sim.catches_up = i / 12 % 2;
        sim.stall_ns = stalls_ms[i / 24] * MS;
        sim.stall_every_ns = 2 * S + 7 * MS;
        sim.end_ns = 16 * S;
        alone = sim;
        alone.unpaced = true;
        most = sim_live(&alone, 2 * S, 16 * S).rate_byte_per_s;
        snprintf(name, sizeof name, "%.0f Mbit/s x %.0f ms, stalls of %u ms%s", mbits[i % 4], rtts_ms[i / 4 % 3],
                 stalls_ms[i / 24], sim.catches_up ? ", made good" : "");
        check_span(name, "from 2 s on", sim_live(&sim, 2 * S, 16 * S), most, 0.92, 4);
    }
}

/* The route changes; TCP keeps its minimum RTT. */
static void a_longer_or_shorter_path_keeps_its_rate(void **state)
{
    static const unsigned percents[] = {50, 130, 200, 300};

    (void)state;
    for (size_t i = 0; i < 12 * COUNT(percents); i++) {
        struct sim_live sim = path_of(i % 12, (char[80]){0});
        char name[120];
        uint64_t begin_ns;

        snprintf(name, sizeof name, "%.0f Mbit/s x %.0f ms, then %u%% of it", mbits[i % 4],
                 rtts_ms[i / 4 % 3], percents[i / 12]);
        sim.change_ns = 5 * S;
        sim.changed_byte_per_s = sim.rate_byte_per_s;
        sim.changed_rtt_ns = sim.rtt_ns * percents[i / 12] / 100;
        sim.end_ns = 16 * S;
        begin_ns = sim.change_ns + (20 * sim.changed_rtt_ns > 2 * S ? 20 * sim.changed_rtt_ns : 2 * S);
        check_span(name, "after twenty round trips", sim_live(&sim, begin_ns, begin_ns + 4 * S),
                   sim.rate_byte_per_s, 0.95, mbits[i % 4] <= 10 ? 1.6 : 1.25);
    }
}

/* ---- throughput ---- */

static const struct autobuf_limits host_6_18 = {
    .size = sizeof(struct autobuf_limits),
    .flags = AUTOBUF_LIMITS_RCV_AUTOTUNING | AUTOBUF_LIMITS_WINDOW_SCALING,
    .snd_settable_bytes = 4194304, .rcv_settable_bytes = 4194304,
    .tcp_wmem_min_bytes = 4096, .tcp_wmem_default_bytes = 16384, .tcp_wmem_max_bytes = 4194304,
    .tcp_rmem_min_bytes = 4096, .tcp_rmem_default_bytes = 131072, .tcp_rmem_max_bytes = 33554432,
    .tcp_mem_bytes = 1ULL << 40, .page_bytes = 4096,
};

/* Autotuning's window holds 2.8 MB. */
static const struct row {
    const char *name;
    double mbit, rtt_ms, queue_products;
    enum {SETS, FORCES, HELD} may; /* set 8 MB; force what it likes; set 416 KB */
    bool bursts;
    double jitter;
    double least_gain, most_gain; /* of the rate, from 2 s on, against the unmanaged one */
    double most_rtt;              /* of the path's */
} rows[] = {
    {"400 x 100: 0.58 of the product", 400, 100, 2, SETS, false, 0, 1.70, 1.75, 1.2},
    {"400 x 100, 3% of jitter", 400, 100, 2, SETS, false, 0.03, 1.70, 1.75, 1.2},
    {"300 x 100: 0.77", 300, 100, 1, SETS, false, 0, 1.29, 1.31, 1.56},
    {"200 x 120: 0.97", 200, 120, 1, SETS, false, 0, 1.03, 1.04, 1.95},
    {"1000 x 100, forced", 1000, 100, 1, FORCES, false, 0, 4.2, 4.4, 1.36},
    {"700 x 100, forced", 700, 100, 1, FORCES, false, 0, 2.95, 3.05, 1.36},
    {"1000 x 50, forced", 1000, 50, 1, FORCES, false, 0, 2.1, 2.2, 1.4},
    {"100 x 200: 1.16 products", 100, 200, 0.5, FORCES, false, 0, 0.999, 1.001, 1.17},
    {"100 x 200, 3% of jitter", 100, 200, 0.5, FORCES, false, 0.03, 0.999, 1.001, 1.17},
    {"100 x 210: 1.10 products", 100, 210, 0.5, FORCES, false, 0, 0.999, 1.001, 1.12},
    {"100 x 216: 1.07 products", 100, 216, 0.5, FORCES, false, 0, 0.999, 1.001, 1.08},
    {"400 x 100, bursts", 400, 100, 2, SETS, true, 0, 1.85, 1.95, 1.2},
    {"400 x 100, bursts, forced", 400, 100, 2, FORCES, true, 0, 1.85, 1.95, 1.2},
    {"400 x 100, bursts, and no more may be set", 400, 100, 2, HELD, true, 0, 0.9999, 1.0001, 1.1},
    {"1000 x 50, bursts", 1000, 50, 2, SETS, true, 0, 1.95, 2.05, 1.2},
    {"1000 x 100, bursts", 1000, 100, 2, SETS, true, 0, 1.95, 2.05, 1.1},
    {"100 x 200, bursts: 1.16 products", 100, 200, 0.5, FORCES, true, 0, 0.999, 1.001, 1.1},
    {"100 x 50, bursts: 4.7 products", 100, 50, 5, FORCES, true, 0, 0.999, 1.001, 5},
    {"10 x 20: autotuning does it", 10, 20, 2, FORCES, false, 0, 0.999, 1.001, 4},
};

static struct sim_live sim_of(const struct row *row, const struct autobuf_limits *limits, uint64_t rare_ns)
{
    double rate = row->mbit * 125000 * PAYLOAD;

    return (struct sim_live){.rate_byte_per_s = rate, .rtt_ns = (uint64_t)(row->rtt_ms * 1e6),
                             .jitter_ms = row->jitter * row->rtt_ms, .seed = 1,
                             .queue_bytes = row->queue_products * rate * row->rtt_ms / 1e3, .limits = limits,
                             .bursts = row->bursts, .rare_ns = rare_ns, .end_ns = 12 * S};
}

/* Samples are at least rare_ns apart; the buffer must have its final size from begin_ns on. */
static void check_rows(uint64_t rare_ns, uint64_t begin_ns)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = host_6_18;
        struct sim_live sim = sim_of(&rows[i], &limits, rare_ns), alone = sim;
        struct sim_span with, without;
        double gain;

        limits.flags |= rows[i].may == FORCES ? AUTOBUF_LIMITS_FORCE : 0;
        if (rows[i].may == HELD)
            limits.snd_settable_bytes = 212992;
        alone.unpaced = true;
        with = sim_live(&sim, begin_ns, 12 * S);
        without = sim_live(&alone, begin_ns, 12 * S);
        gain = with.rate_byte_per_s / without.rate_byte_per_s;
        if (getenv("AUTOBUF_SIM_SHOW"))
            fprintf(stderr, "%s%s: gain %.3f, round-trip time %.2f\n", rows[i].name, rare_ns ? ", rarely" : "", gain,
                    with.rtt_ratio);
        else if (gain < rows[i].least_gain || gain > rows[i].most_gain || with.rtt_ratio > rows[i].most_rtt)
            fail_msg("%s: a gain of %.3f at %.2f of the round-trip time", rows[i].name, gain, with.rtt_ratio);
    }
}

static void a_buffer_that_limits_grows_and_no_other(void **state)
{
    (void)state;
    check_rows(0, 3 * S);
}

/* As of ProFTPD's sendfile(), between which only a timer of whole seconds says anything. */
static void it_does_so_with_a_look_a_second(void **state)
{
    (void)state;
    check_rows(S, 6 * S);
}

/*
 * Where autotuning's window is 1.0 to 1.3 BDP and the queue holds half a BDP, from the first byte on. A buffer that
 * became twice as large would overflow the queue: 0.78 of the rate at 230 x 100.
 */
static void a_path_that_is_just_full_keeps_its_rate(void **state)
{
    static const double paths[][2] = {{100, 180}, {100, 200}, {100, 210}, {100, 216},
                                      {100, 225}, {210, 100}, {230, 100}, {250, 100}};

    (void)state;
    for (size_t i = 0; i < COUNT(paths); i++) {
        struct row row = {"just full", paths[i][0], paths[i][1], 0.5, FORCES, false, 0, 0.985, 0, 0};

        for (unsigned jitter = 0; jitter < 2; jitter++) {
            struct autobuf_limits limits = host_6_18;
            struct sim_live sim, alone;

            limits.flags |= AUTOBUF_LIMITS_FORCE;
            row.jitter = 0.03 * jitter;
            sim = alone = sim_of(&row, &limits, 0);
            alone.unpaced = true;
            for (uint64_t from_s = 0; from_s < 5; from_s += 3) {
                double gain = sim_live(&sim, from_s * S, 12 * S).rate_byte_per_s /
                              sim_live(&alone, from_s * S, 12 * S).rate_byte_per_s;

                if (gain < row.least_gain)
                    fail_msg("%g x %g: %.3f of the rate", paths[i][0], paths[i][1], gain);
            }
        }
    }
}

/* Beside limits that somebody raised to 64 MB, whose round-trip time is 1.46 times the path's. */
static void the_first_five_seconds(void **state)
{
    const struct row row = {"400 x 100", 400, 100, 2, FORCES, false, 0, 0.97, 0, 1.15};
    struct autobuf_limits limits = host_6_18, raised = host_6_18;
    struct sim_live sim, alone;
    struct sim_span with, without;

    (void)state;
    limits.flags |= AUTOBUF_LIMITS_FORCE;
    raised.tcp_wmem_max_bytes = 67108864;
    sim = sim_of(&row, &limits, 0);
    alone = sim_of(&row, &raised, 0);
    alone.unpaced = true;
    with = sim_live(&sim, 0, 5 * S);
    without = sim_live(&alone, 0, 5 * S);
    if (with.rate_byte_per_s < row.least_gain * without.rate_byte_per_s || with.rtt_ratio > row.most_rtt)
        fail_msg("%.3f of the rate at %.2f of the round-trip time", with.rate_byte_per_s / without.rate_byte_per_s,
                 with.rtt_ratio);
    assert_true(without.rtt_ratio > 1.4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_rate_at_hardly_any_queue),
        cmocka_unit_test(a_narrower_path_is_followed_within_a_second),
        cmocka_unit_test(a_wider_path_is_followed_within_a_second),
        cmocka_unit_test(a_path_that_stands_still_at_times_keeps_its_rate),
        cmocka_unit_test(a_longer_or_shorter_path_keeps_its_rate),
        cmocka_unit_test(a_buffer_that_limits_grows_and_no_other),
        cmocka_unit_test(it_does_so_with_a_look_a_second),
        cmocka_unit_test(a_path_that_is_just_full_keeps_its_rate),
        cmocka_unit_test(the_first_five_seconds),
    };

    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* lib/available/ beside other traffic, in virtual time. Each run is the same each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim_available.h"

#define MS 1000000ULL
#define S 1000000000ULL

static const double paths[][2] = {{10, 50}, {50, 20}, {100, 100}, {200, 5}}; /* Mbit/s, ms */
static const double loads[] = {0.25, 0.5, 0.75};
static const double queues[] = {0.3, 2};
static const double ends_s[] = {3, 6, 12};
static const char *const cross_names[] = {"CBR", "Poisson", "Pareto"};

#define RUNS (4U * 3 * 2 * 3 * 3)

static struct sim_available run_of(unsigned i)
{
    const double *path = paths[i % 4];

    return (struct sim_available){.mbit = path[0], .rtt_ms = path[1], .load = loads[i / 4 % 3],
                                  .queue_products = queues[i / 12 % 2], .cross = (enum sim_cross)(i / 24 % 3),
                                  .end_ns = (uint64_t)(ends_s[i / 72] * 1e9), .seed = i + 1};
}

static bool holds(const struct sim_free *found)
{
    const struct autobuf_available *e = &found->estimate;

    return (double)e->tx_low_bit_per_s <= found->truth_bit_per_s &&
           (!e->tx_high_bit_per_s || (double)e->tx_high_bit_per_s >= found->truth_bit_per_s);
}

static double ratio(const struct sim_free *found)
{
    return (double)found->estimate.tx_high_bit_per_s / (double)found->estimate.tx_low_bit_per_s;
}

static const char *kind_of(const struct sim_available *sim)
{
    if (sim->narrow_mbit > 0)
        return "a narrower link";
    if (sim->burst_bytes)
        return "a policer";
    if (sim->batch_ns || sim->longer_at_ns)
        return "another RTT";
    if (sim->searches)
        return "in line";
    return sim->sends_mbit > 0 || sim->window_products > 0 ? "less than is free" : "cubic";
}

static void show(const struct sim_available *sim, const struct sim_free *found)
{
    const struct autobuf_available *e = &found->estimate;

    if (getenv("AUTOBUF_SIM_SHOW"))
        fprintf(stderr,
                "%s %s: %g Mbit/s x %g ms, queue of %g, %s %g%s: %.2f to %.2f, truth %.2f, "
                "over %.2f s, %.2f s ago, %s\n",
                holds(found) ? "    " : "MISS", kind_of(sim), sim->mbit, sim->rtt_ms, sim->queue_products,
                cross_names[sim->cross], sim->load, sim->capacity_known ? ", C known" : "",
                (double)e->tx_low_bit_per_s / 1e6,
                (double)e->tx_high_bit_per_s / 1e6, found->truth_bit_per_s / 1e6, (double)e->over_ns / 1e9,
                (double)e->age_ns / 1e9, e->cause ? autobuf_cause_name(e->cause) : "-");
}

static int by_size(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Of a sender that fills the path, as cubic does: in nine of ten runs, and narrow where both bounds are known. */
static void check_cubic(bool capacity_known)
{
    double ratios[RUNS], deep = 0;
    unsigned held = 0, both = 0;

    for (unsigned i = 0; i < RUNS; i++) {
        struct sim_available sim = run_of(i);
        struct sim_free found;

        sim.capacity_known = capacity_known;
        found = sim_available(&sim);
        show(&sim, &found);
        held += holds(&found);
        assert_true(found.estimate.tx_low_bit_per_s > 0);
        if (!found.estimate.tx_high_bit_per_s)
            continue;
        ratios[both++] = ratio(&found);
        deep += sim.queue_products > 1;
    }
    qsort(ratios, both, sizeof *ratios, by_size);
    if (getenv("AUTOBUF_SIM_SHOW"))
        fprintf(stderr, "%u of %u held, %u both, %g of deep queues, median %.2f\n", held, RUNS, both, deep,
                ratios[both / 2]);
    assert_true(10 * held >= 9 * RUNS);
    assert_true(deep >= 0.6 * RUNS / 2); /* a queue of 0.3 BDP is empty for half of the time, or more */
    assert_true(ratios[both / 2] <= 1.5);
}

static void the_range_holds_the_truth(void **state)
{
    (void)state;
    check_cubic(false);
    check_cubic(true);
}

/* A program, or a buffer, that leaves a part of the path to nobody: that there is more is never denied. */
static void a_sender_that_does_not_fill_the_path(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RUNS / 3; i++) {
        struct sim_available sim = run_of(i);
        double left_mbit = sim.mbit * (1 - sim.load);

        for (unsigned window = 0; window < 2; window++) {
            struct sim_free found;

            sim.sends_mbit = window ? 0 : 0.5 * left_mbit;
            sim.window_products = window ? 0.5 * (1 - sim.load) : 0;
            found = sim_available(&sim);
            show(&sim, &found);
            assert_true(found.estimate.tx_low_bit_per_s > 0);
            if (sim.cross != SIM_PARETO) /* whose peaks alone may be more than the path takes */
                assert_int_equal(found.estimate.tx_high_bit_per_s, 0);
            assert_true(holds(&found));
        }
    }
}

/* Of the program's own data: with the bounds of what is free, or with twice its rate as the low one. */
static void a_program_s_data_are_searched_in_line(void **state)
{
    double ratios[RUNS];
    unsigned held = 0, runs = 0, both = 0, more = 0;

    (void)state;
    for (unsigned i = 0; i < RUNS; i++) {
        for (unsigned known = 0; known < 2; known++, runs++) {
            struct sim_available sim = run_of(i);
            struct sim_free found;

            sim.sends_mbit = (0.35 + 0.3 * (i / 72)) * sim.mbit * (1 - sim.load);
            sim.end_ns = 40 * S;
            sim.capacity_known = known;
            sim.searches = true;
            found = sim_available(&sim);
            show(&sim, &found);
            held += holds(&found);
            assert_true(found.late_part <= 0.02);
            more += (double)found.estimate.tx_low_bit_per_s >= 1.15e6 * sim.sends_mbit &&
                    !found.estimate.tx_high_bit_per_s;
            if (found.estimate.tx_high_bit_per_s && found.estimate.tx_low_bit_per_s)
                ratios[both++] = ratio(&found);
        }
    }
    qsort(ratios, both, sizeof *ratios, by_size);
    if (getenv("AUTOBUF_SIM_SHOW"))
        fprintf(stderr, "%u of %u held, %u both, median %.2f, %u more\n", held, runs, both, ratios[both / 2], more);
    assert_true(10 * held >= 9 * runs);
    assert_true(2 * (both + more) >= runs);
    assert_true(ratios[both / 2] <= 1.5);
}

/* ACKs that a radio link or a host merges for 2 and for 10 ms. */
static void merged_acks_do_not_make_it_lie(void **state)
{
    unsigned runs = 0, held = 0;

    (void)state;
    for (unsigned i = RUNS / 3; i < RUNS * 2 / 3; i++) {
        for (uint64_t batch_ms = 2; batch_ms <= 10; batch_ms += 8, runs++) {
            struct sim_available sim = run_of(i);
            struct sim_free found;

            sim.batch_ns = batch_ms * MS;
            found = sim_available(&sim);
            show(&sim, &found);
            held += holds(&found);
        }
    }
    assert_true(10 * held >= 9 * runs);
}

/* A route that becomes longer is no queue, whenever it does so. */
static void a_longer_path_does_not_make_it_lie(void **state)
{
    unsigned runs = 0, held = 0;

    (void)state;
    for (unsigned i = 0; i < RUNS / 3; i += 2, runs++) {
        struct sim_available sim = run_of(i);
        struct sim_free found;

        sim.end_ns = 8 * S;
        sim.longer_at_ns = (1 + i % 7) * S;
        sim.sends_mbit = 0.5 * sim.mbit * (1 - sim.load);
        found = sim_available(&sim);
        show(&sim, &found);
        held += holds(&found);
        if (sim.cross != SIM_PARETO)
            assert_true(holds(&found));
    }
    assert_true(10 * held >= 9 * runs);
}

/* Of each such run, with the capacity known and without, nine of ten hold. */
static void check_held(double narrow_part, double burst_s)
{
    unsigned held = 0, runs = 0;

    for (unsigned i = 0; i < RUNS; i++) {
        for (unsigned known = 0; known < 2; known++, runs++) {
            struct sim_available sim = run_of(i);
            struct sim_free found;

            sim.narrow_mbit = narrow_part * sim.mbit;
            sim.burst_bytes = (uint64_t)(sim.mbit * 125e3 * burst_s);
            sim.queue_products = burst_s > 0 ? 0 : sim.queue_products;
            sim.capacity_known = known;
            found = sim_available(&sim);
            show(&sim, &found);
            held += holds(&found);
        }
    }
    if (getenv("AUTOBUF_SIM_SHOW"))
        fprintf(stderr, "%u of %u held\n", held, runs);
    assert_true(10 * held >= 9 * runs);
}

/* The link of which the capacity is known is not the one that other traffic fills. */
static void the_tight_link_need_not_be_the_narrow_one(void **state)
{
    (void)state;
    check_held(0.6, 0);
}

/* It drops what is too much, and no queue shows it; at first it lets all pass. */
static void a_policer(void **state)
{
    (void)state;
    check_held(0, 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_range_holds_the_truth),
        cmocka_unit_test(a_sender_that_does_not_fill_the_path),
        cmocka_unit_test(a_program_s_data_are_searched_in_line),
        cmocka_unit_test(merged_acks_do_not_make_it_lie),
        cmocka_unit_test(a_longer_path_does_not_make_it_lie),
        cmocka_unit_test(the_tight_link_need_not_be_the_narrow_one),
        cmocka_unit_test(a_policer),
    };

    return cmocka_run_group_tests_name("available", tests, NULL, NULL);
}

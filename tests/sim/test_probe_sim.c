/* SPDX-License-Identifier: MIT */
/* Whole measurements in virtual time: bounds of error, cost and time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "impairments.h"

#define MS 1000000ULL
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SEEDS_MOST 400

static unsigned seeds; /* 40, or with AUTOBUF_TESTS_ALL in the environment all */

struct row {
    const char *name;
    double loss, cross;
    uint64_t jitter_ns, batch_ns;
    double queue_products;
    double median_percent; /* of the rate's error, at most */
    double p95_percent;
    double least_rtt_ms;
    double least_mbit, most_mbit;
    double wrong_percent;  /* of answers on which side of the range the BDP is */
};

/* These bounds hold over 40 seeds and over 400. */
static const struct row rows[] = {
    {"clean", 0, 0, 0, 0, 2, 0.01, 0.01, 0, 1, 1000, 0},
    {"short queue", 0, 0, 0, 0, 0.5, 0.01, 0.01, 0, 1, 1000, 0},
    {"loss 2%", 0.02, 0, 0, 0, 2, 0.01, 0.01, 0, 1, 1000, 0},
    {"cross traffic 50%", 0, 0.5, 0, 0, 2, 0.01, 0.01, 0, 1, 1000, 0.3},
    /* With a queue of two BDP of 1 ms no train is longer than the jitter. */
    {"jitter 2 ms", 0, 0, 2 * MS, 0, 2, 4, 15, 10, 1, 10, 1},
    {"jitter 2 ms", 0, 0, 2 * MS, 0, 2, 11, 30, 10, 100, 100, 6},
    {"jitter 2 ms", 0, 0, 2 * MS, 0, 2, 12, 65, 10, 400, 400, 12},
    {"jitter 2 ms", 0, 0, 2 * MS, 0, 2, 10, 92, 10, 1000, 1000, 25},
    {"batches of 60 us", 0, 0, 0, 60000, 2, 0.01, 0.01, 0, 1, 1000, 0},
    {"batches of 125 us", 0, 0, 0, 125000, 2, 4.1, 4.1, 0, 1, 1000, 0},
};

static const double mbits[] = {1, 10, 100, 400, 1000};
static const double rtts_ms[] = {1, 10, 50, 100, 200};

static bool is_for(const struct row *row, double mbit, double rtt_ms)
{
    return mbit >= row->least_mbit && mbit <= row->most_mbit && rtt_ms >= row->least_rtt_ms;
}

static struct sim_path path_of(const struct row *row, double mbit, double rtt_ms)
{
    struct sim_path path = {
        .there = {.rate_bit_per_s = (uint64_t)(mbit * 1e6),
                  .delay_ns = (uint64_t)(rtt_ms * 5e5),
                  .queue_bytes = (uint64_t)(row->queue_products * mbit * rtt_ms * 125) + 3000,
                  .loss = row->loss,
                  .cross = row->cross,
                  .jitter_ns = row->jitter_ns},
        .send_ns = 1500,
    };

    path.back = path.there;
    path.back.batch_ns = row->batch_ns;
    return path;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void check_bounds(const struct sim_result *r, const struct row *row, double mbit,
                         double rtt_ms)
{
    double ahead_ns = row->cross > 0 ? 72e6 : 24e6; /* packets of 12 ms at 1 Mbit/s: our own, and others' */
    uint64_t longest = (uint64_t)(1e9 + 2 * (rtt_ms * 1e6 + 2 * (double)row->jitter_ns + ahead_ns));

    assert_true(r->path.cost_bytes <= 1000000);
    if (mbit <= 100) /* what is unsure is measured again, three times at most */
        assert_true(r->path.cost_bytes <= (row->jitter_ns || row->cross > 0 || row->batch_ns ? 442000 : 64000));
    assert_true(r->end_ns <= longest && r->end_ns <= 2000 * MS);
    assert_true(r->path.tx_rate_low_bit_per_s <= r->path.tx_rate_bit_per_s);
    assert_true(r->path.tx_rate_high_bit_per_s >= r->path.tx_rate_bit_per_s);
    assert_int_equal(r->path.tx_rate_bit_per_s, r->path.rx_rate_bit_per_s);
    if (r->path.rtt_min_ns != AUTOBUF_NS_UNSET)
        assert_true((double)r->path.rtt_min_ns >= rtt_ms * 1e6);
}

static void check_cell(const struct row *row, double mbit, double rtt_ms)
{
    struct sim_path path = path_of(row, mbit, rtt_ms);
    double errors[SEEDS_MOST];

    for (unsigned i = 0; i < seeds; i++) {
        struct sim_result r;

        path.seed = i + 1;
        r = sim_probe(&path, NULL);
        check_bounds(&r, row, mbit, rtt_ms);
        errors[i] = 100 * ((double)r.path.tx_rate_bit_per_s / (mbit * 1e6) - 1);
        errors[i] = errors[i] < 0 ? -errors[i] : errors[i];
    }
    qsort(errors, seeds, sizeof *errors, compare);
    if (errors[seeds / 2] > row->median_percent || errors[seeds - 1 - seeds / 20] > row->p95_percent)
        fail_msg("%s, %.0f Mbit/s x %.0f ms: error %.2f%% median, %.2f%% p95", row->name, mbit,
                 rtt_ms, errors[seeds / 2], errors[seeds - 1 - seeds / 20]);
}

static void rate_is_right_over_the_grid(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (size_t m = 0; m < sizeof mbits / sizeof *mbits; m++)
            for (size_t d = 0; d < sizeof rtts_ms / sizeof *rtts_ms; d++)
                if (mbits[m] * rtts_ms[d] * 125 >= 6000 && is_for(&rows[k], mbits[m], rtts_ms[d]))
                    check_cell(&rows[k], mbits[m], rtts_ms[d]);
}

static void bdp_is_rate_times_rtt_of_a_full_segment(void **state)
{
    struct sim_path path = path_of(&rows[0], 100, 50);
    struct sim_result r = sim_probe(&path, NULL);
    double truth = 100e6 * 0.05 / 8 + 1500 + 52;

    (void)state;
    assert_int_equal(r.error, 0);
    assert_true((double)r.path.tx_bdp_bytes > truth * 0.999);
    assert_true((double)r.path.tx_bdp_bytes < truth * 1.001);
}

static void asymmetric_path_reads_the_smaller_direction(void **state)
{
    struct sim_path path = path_of(&rows[0], 100, 20);
    struct sim_result r;

    (void)state;
    path.back.rate_bit_per_s = 10000000;
    r = sim_probe(&path, NULL);
    assert_in_range(r.path.tx_rate_bit_per_s, 9900000, 10100000);
    path = path_of(&rows[0], 10, 20);
    path.back.rate_bit_per_s = 100000000;
    r = sim_probe(&path, NULL);
    assert_in_range(r.path.rx_rate_bit_per_s, 9900000, 10100000);
}

static void no_answer_ends_after_a_second(void **state)
{
    struct sim_path path = path_of(&rows[0], 100, 50);
    struct sim_result r;

    (void)state;
    path.there.loss = 1;
    r = sim_probe(&path, NULL);
    assert_int_equal(r.error, AUTOBUF_E_NOREPLY);
    assert_true(r.end_ns <= 1000 * MS);
    assert_true(r.path.cost_bytes < 1000); /* no train for a host that does not answer */
}

static void nothing_is_sent_after_the_deadline(void **state)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;

    (void)state;
    for (uint64_t timeout = 5; timeout <= 1000; timeout += 45) {
        struct sim_path path = path_of(&rows[0], 1, 100);
        struct sim_result r;

        options.timeout_ns = timeout * MS;
        r = sim_probe(&path, &options);
        assert_true(r.last_sent_ns < timeout * MS);
        assert_true(r.end_ns <= timeout * MS + 1);
    }
}

static void satellite_is_measured_in_two_seconds(void **state)
{
    struct sim_path path = path_of(&rows[0], 20, 620);
    struct sim_result r = sim_probe(&path, NULL);

    (void)state;
    assert_int_equal(r.error, 0);
    assert_true(r.end_ns <= 2000 * MS);
    assert_in_range(r.path.tx_rate_bit_per_s, 19800000, 20200000);
}

static void large_packets_that_vanish_are_replaced(void **state)
{
    static const uint32_t mtus[] = {1400, 1280, 900, 576};

    (void)state;
    for (size_t i = 0; i < sizeof mtus / sizeof *mtus; i++) {
        struct sim_path path = path_of(&rows[0], 100, 20);
        struct sim_result r;

        path.mtu_bytes = mtus[i];
        r = sim_probe(&path, NULL);
        assert_int_equal(r.error, 0);
        assert_true(r.path.packet_bytes <= mtus[i]);
        assert_in_range(r.path.tx_rate_bit_per_s, 99000000, 101000000);
        assert_true(r.path.cost_bytes <= 100000);
    }
}

static void duplicates_and_reordering_change_nothing(void **state)
{
    struct sim_path path = path_of(&rows[0], 100, 20);
    struct sim_result r;

    (void)state;
    path.duplicate = true;
    r = sim_probe(&path, NULL);
    assert_in_range(r.path.tx_rate_bit_per_s, 99000000, 101000000);
    assert_true(r.path.samples <= 47);
    path.duplicate = false;
    path.back.reorder = 0.1;
    path.back.reorder_by_ns = 500000;
    path.seed = 3;
    r = sim_probe(&path, NULL);
    assert_in_range(r.path.tx_rate_bit_per_s, 95000000, 105000000);
}

static void budget_is_kept(void **state)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;

    (void)state;
    for (uint32_t budget = 1000; budget <= 1000000; budget += budget / 3) {
        struct sim_path path = path_of(&rows[0], 1000, 50);

        options.budget_bytes = budget;
        assert_true(sim_probe(&path, &options).path.cost_bytes <= budget);
    }
}

/* As autobuf_tune(): the range of BDPs that matter ends the run early. */
static void a_bdp_outside_the_range_ends_the_run(void **state)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct sim_path path = path_of(&rows[0], 100, 10);
    struct sim_result r;

    (void)state;
    options.bdp_low_bytes = 14000000; /* 10 Gbit/s x 11 ms */
    options.bdp_high_bytes = 28000000;
    r = sim_probe(&path, &options);
    assert_in_range(r.path.rtt_min_ns, 10 * MS, 11 * MS);
    assert_true(r.path.cost_bytes <= 5 * 84 + 10 * 1500);
    path = path_of(&rows[0], 100, 1); /* it ends before the last small echo */
    r = sim_probe(&path, &options);
    assert_int_equal(r.error, AUTOBUF_E_FEW);
    assert_true(r.path.cost_bytes <= 5 * 84);
}

/* If a first train gives a clear answer, it takes one round trip, and the truth is on that side. */
static void a_clear_answer_takes_one_round_trip(void **state)
{
    static const struct {
        double mbit, rtt_ms;
    } cells[] = {{10, 20}, {100, 20}, {100, 50}, {100, 200}, {400, 100}, {1000, 10}, {1000, 200}};

    (void)state;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
        struct sim_path path = path_of(&rows[0], cells[i].mbit, cells[i].rtt_ms);
        double bdp = cells[i].mbit * cells[i].rtt_ms * 125, train_ms = 120 / cells[i].mbit;
        struct sim_result r;

        options.bdp_low_bytes = options.bdp_high_bytes = 2896000;
        r = sim_probe(&path, &options);
        assert_true(r.readings > 0);
        assert_true((double)r.end_ns / 1e6 <= cells[i].rtt_ms + train_ms + 10);
        assert_true(r.error == 0 || r.error == AUTOBUF_E_FEW);
        if (bdp > 2896000)
            assert_true(r.path.tx_bdp_bytes >= 2896000);
        else
            assert_true(r.path.tx_bdp_bytes <= 2896000);
    }
}

/*
 * A doubtful first train is no answer: all answers are right, except some with jitter, and none that is unsure has a
 * BDP.
 */
static void answers_are_right_over_the_grid(void **state)
{
    static const double bdp_shares[] = {0.2, 0.5, 2, 5}; /* of the bound of the range */

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (size_t m = 0; m < sizeof mbits / sizeof *mbits; m++)
            for (size_t x = 0; x < sizeof bdp_shares / sizeof *bdp_shares; x++) {
                struct sim_path path = path_of(&rows[k], mbits[m], 100);
                struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
                double bdp = mbits[m] * 12500;
                unsigned wrong = 0;

                if (!is_for(&rows[k], mbits[m], 100))
                    continue;
                options.bdp_low_bytes = options.bdp_high_bytes = (uint64_t)(bdp * bdp_shares[x]);
                for (unsigned i = 0; i < seeds; i++) {
                    struct sim_result r;

                    path.seed = i + 1;
                    r = sim_probe(&path, &options);
                    if (r.path.tx_unsure)
                        assert_int_equal(r.path.tx_bdp_bytes, 0);
                    wrong += bdp_shares[x] < 1 ? !r.path.tx_unsure && r.path.tx_bdp_bytes <= options.bdp_low_bytes
                                               : r.path.tx_bdp_bytes > options.bdp_high_bytes;
                }
                if (100 * wrong > rows[k].wrong_percent * seeds)
                    fail_msg("%s, %.0f Mbit/s, bound at %.1f BDP: %u of %u wrong",
                             rows[k].name, mbits[m], bdp_shares[x], wrong, seeds);
            }
}

static void silence_ends_the_run(void **state)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct sim_path path = path_of(&rows[0], 100, 20);
    struct sim_result r;

    (void)state;
    path.there.loss = 1;
    for (int hurry = 0; hurry < 2; hurry++) {
        options.bdp_low_bytes = options.bdp_high_bytes = hurry ? 2896000 : 0;
        options.silence_ns = 300 * MS;
        r = sim_probe(&path, &options);
        assert_int_equal(r.error, AUTOBUF_E_NOREPLY);
        assert_in_range(r.end_ns, 300 * MS, 301 * MS);
        options.silence_ns = 5000 * MS;
        assert_in_range(sim_probe(&path, &options).end_ns, 1000 * MS, 1001 * MS);
    }
}

static void ipv6_counts_its_larger_header(void **state)
{
    struct sim_path path = path_of(&rows[0], 100, 20);
    struct sim_result r;

    (void)state;
    path.ipv6 = true;
    r = sim_probe(&path, NULL);
    assert_int_equal(r.error, 0);
    assert_in_range(r.path.tx_rate_bit_per_s, 99900000, 100100000);
    assert_int_equal(r.path.packet_bytes, 1500);
}

/* Echoes see only the slower direction, whichever that is: the same is said of both, and of both as a lower bound. */
static void either_direction_may_be_the_slower_one(void **state)
{
    static const uint64_t ways[][2] = {{20, 500}, {500, 20}, {20, 20}};

    (void)state;
    for (size_t i = 0; i < COUNT(ways); i++) {
        struct sim_path path = path_of(&rows[0], 20, 150);
        struct sim_result r;

        path.there.rate_bit_per_s = ways[i][0] * 1000000;
        path.back.rate_bit_per_s = ways[i][1] * 1000000;
        r = sim_probe(&path, NULL);
        assert_in_range(r.path.tx_rate_bit_per_s, 19800000, 20200000);
        assert_int_equal(r.path.rx_rate_bit_per_s, r.path.tx_rate_bit_per_s);
        assert_int_equal(r.path.flags, AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST | AUTOBUF_PATH_TX_ECHOED |
                                           AUTOBUF_PATH_RX_ECHOED);
    }
}

/* This host sends slower than the path's capacity: the rate is a lower bound. */
static void slow_sender_says_at_least(void **state)
{
    struct sim_path path = path_of(&rows[0], 1000, 10);
    struct sim_result r;

    (void)state;
    path.send_ns = 30000; /* 400 Mbit/s */
    r = sim_probe(&path, NULL);
    assert_int_equal(r.path.flags, AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST);
    assert_in_range(r.path.tx_rate_bit_per_s, 300000000, 1000000000);
}

/* The same with replies in batches, which lengthen some windows, but not most. */
static void slow_sender_behind_batches(void **state)
{
    (void)state;
    for (uint64_t send_ns = 8000; send_ns <= 40000; send_ns += 2000) {
        struct sim_path path = path_of(&rows[0], 800, 20);
        struct sim_result r;

        path.back.batch_ns = 60000;
        path.send_ns = send_ns;
        r = sim_probe(&path, NULL);
        if (r.path.flags & AUTOBUF_PATH_TX_ECHOED && !r.path.tx_unsure)
            assert_in_range(r.path.tx_rate_bit_per_s, 720000000, 880000000);
    }
}

static void infinite_path_says_at_least(void **state)
{
    struct sim_path path = path_of(&rows[0], 1000, 1);
    struct sim_result r;

    (void)state;
    path.there.rate_bit_per_s = path.back.rate_bit_per_s = 0;
    r = sim_probe(&path, NULL);
    assert_int_equal(r.path.flags, AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST);
}

/* So few packets cannot show it, as documented. */
static void large_token_bucket_reads_its_peak(void **state)
{
    struct sim_path path = path_of(&rows[0], 50, 20);
    struct sim_result r;

    (void)state;
    path.there.burst_bytes = 4000000;
    path.there.peak_bit_per_s = 100000000;
    path.there.queue_bytes = 10000000;
    path.back.rate_bit_per_s = 1000000000;
    r = sim_probe(&path, NULL);
    assert_in_range(r.path.tx_rate_bit_per_s, 95000000, 105000000);
}

/*
 * On an impaired path the interval holds the truth nine times in ten, and a value that is far off is a bound, or
 * unsure. On a clean path the interval is narrow, and the value sure.
 */
static void doubtful_results_say_so(void **state)
{
    (void)state;
    for (size_t m = 0; m < impairments_count; m++) {
        struct tally tally = {0};

        for (size_t cell = 0; cell < COUNT(mbits) * COUNT(rtts_ms); cell++) {
            double mbit = mbits[cell / COUNT(rtts_ms)], rtt_ms = rtts_ms[cell % COUNT(rtts_ms)];
            struct sim_path path = impaired_path(&impairments[m], mbit, rtt_ms);

            for (unsigned seed = 1; seed <= seeds / 4 && mbit * rtt_ms * 125 >= 6000; seed++) {
                struct sim_result result;

                path.seed = seed;
                result = sim_probe(&path, NULL);
                tally_add(&tally, &result, mbit * 1e6);
            }
        }
        if (10 * tally.held < 9 * tally.runs || 100 * tally.wrong > tally.runs ||
            (impairments[m].clean && tally.wide + tally.flagged))
            fail_msg("%s: of %u runs the interval held the truth in %u, %u were wrong, %u wide, %u flagged",
                     impairments[m].name, tally.runs, tally.held, tally.wrong, tally.wide, tally.flagged);
    }
}

/* The direction with less is one of both, both, or the faster one. */
static struct sim_path loaded_path(unsigned i, bool constant)
{
    static const double paths[][2] = {{5, 40}, {10, 50}, {20, 10}, {50, 20}, {100, 100}, {200, 5}}; /* Mbit/s, ms */
    static const double loads[] = {0, 0.25, 0.5, 0.75};
    const double *path = paths[i % COUNT(paths)], load = loads[i / COUNT(paths) % COUNT(loads)];
    unsigned kind = i / (unsigned)(COUNT(paths) * COUNT(loads)) % 4;
    struct sim_path sim = {.seed = i + 1, .send_ns = 3000};

    sim.there = (struct emu_params){.rate_bit_per_s = (uint64_t)(path[0] * 1e6), .delay_ns = (uint64_t)(path[1] * 5e5),
                                    .queue_bytes = (uint64_t)(path[0] * path[1] * 250) + 60000,
                                    .cross_constant = constant};
    sim.back = sim.there;
    if (kind != 1 && kind != 3)
        sim.there.cross = load;
    if (kind != 0)
        sim.back.cross = load;
    if (kind == 3) {
        sim.back.rate_bit_per_s *= 3;
        sim.back.cross = 1 - (1 - load) * 0.8 / 3;
    }
    return sim;
}

static bool holds(const struct sim_path *sim, const struct sim_result *r)
{
    double there = (double)sim->there.rate_bit_per_s - r->cross_there;
    double back = (double)sim->back.rate_bit_per_s - r->cross_back;
    double truth = there < back ? there : back;
    bool held = (double)r->available.tx_low_bit_per_s <= truth &&
                (!r->available.tx_high_bit_per_s || (double)r->available.tx_high_bit_per_s >= truth);

    if (getenv("AUTOBUF_SIM_SHOW"))
        fprintf(stderr,
                "%s seed %u: %.2f to %.2f, truth %.2f and %.2f of %.0f and %.0f; rate %.2f, %.0f ms, %.0f kB, %s\n",
                held ? "    " : "MISS", (unsigned)sim->seed, (double)r->available.tx_low_bit_per_s / 1e6,
                (double)r->available.tx_high_bit_per_s / 1e6, there / 1e6, back / 1e6,
                (double)sim->there.rate_bit_per_s / 1e6, (double)sim->back.rate_bit_per_s / 1e6,
                (double)r->path.tx_rate_bit_per_s / 1e6, (double)r->end_ns / 1e6, (double)r->path.cost_bytes / 1e3,
                r->available.cause ? autobuf_cause_name(r->available.cause) : "-");
    return held;
}

/* Returns how many of a hundred runs hold the truth. */
static unsigned loaded_runs(unsigned runs, bool constant)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    unsigned held = 0, low = 0, high = 0;

    options.flags = AUTOBUF_PROBE_AVAILABLE;
    for (unsigned i = 0; i < runs; i++) {
        struct sim_path sim = loaded_path(i, constant);
        struct sim_result r = sim_probe(&sim, &options);

        assert_true(r.path.cost_bytes <= 1000000);
        assert_true(r.end_ns <= 3000 * MS + 10 * r.path.rtt_min_ns);
        held += holds(&sim, &r);
        low += r.available.tx_low_bit_per_s > 0;
        high += r.available.tx_high_bit_per_s > 0;
    }
    if (getenv("AUTOBUF_SIM_SHOW"))
        fprintf(stderr, "%u runs, %u held, %u low, %u high\n", runs, held, low, high);
    assert_true(3 * low >= runs && 3 * high >= runs);
    return 100 * held / runs;
}

static void stretches_of_echoes_hold_the_truth(void **state)
{
    (void)state;
    assert_true(loaded_runs(96, true) >= 97);
    assert_true(loaded_runs(480, false) >= 87);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_is_right_over_the_grid),
        cmocka_unit_test(doubtful_results_say_so),
        cmocka_unit_test(stretches_of_echoes_hold_the_truth),
        cmocka_unit_test(bdp_is_rate_times_rtt_of_a_full_segment),
        cmocka_unit_test(asymmetric_path_reads_the_smaller_direction),
        cmocka_unit_test(no_answer_ends_after_a_second),
        cmocka_unit_test(nothing_is_sent_after_the_deadline),
        cmocka_unit_test(satellite_is_measured_in_two_seconds),
        cmocka_unit_test(large_packets_that_vanish_are_replaced),
        cmocka_unit_test(duplicates_and_reordering_change_nothing),
        cmocka_unit_test(budget_is_kept),
        cmocka_unit_test(a_bdp_outside_the_range_ends_the_run),
        cmocka_unit_test(a_clear_answer_takes_one_round_trip),
        cmocka_unit_test(answers_are_right_over_the_grid),
        cmocka_unit_test(silence_ends_the_run),
        cmocka_unit_test(ipv6_counts_its_larger_header),
        cmocka_unit_test(either_direction_may_be_the_slower_one),
        cmocka_unit_test(slow_sender_says_at_least),
        cmocka_unit_test(slow_sender_behind_batches),
        cmocka_unit_test(infinite_path_says_at_least),
        cmocka_unit_test(large_token_bucket_reads_its_peak),
    };

    seeds = getenv("AUTOBUF_TESTS_ALL") ? SEEDS_MOST : 40;
    return cmocka_run_group_tests_name("probe in virtual time", tests, NULL, NULL);
}

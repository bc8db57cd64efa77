/* SPDX-License-Identifier: MIT */
/*
 * Whole exchanges in virtual time: bounds of rates, cost and time; and exchanges that are cut at every byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "sim_inband.h"

#define MS 1000000ULL
#define SEEDS_MOST 100
#define EXTRA_NS (500 * MS)

static unsigned seeds; /* 15, or with AUTOBUF_TESTS_ALL in the environment all */

static const struct row {
    const char *name;
    double loss, cross;
    uint64_t batch_ns;
    double pace_gain;
    bool pace_unsaid, window_untold;
    double median_percent, p95_percent; /* of the rate's error, at most */
    bool ftp;
    double bounds_mbit, bounds_rtt_ms; /* from such a path on there are only bounds; 0: there are none */
} rows[] = {
    {"clean", 0, 0, 0, 0, false, false, 0.01, 0.01, false, 0, 0},
    {"the windows are not known", 0, 0, 0, 0, false, true, 0.01, 0.01, false, 0, 0},
    {"loss 2%", 0.02, 0, 0, 0, false, false, 0.01, 0.01, false, 0, 0},
    {"cross traffic 50%", 0, 0.5, 0, 0, false, false, 5, 8, false, 0, 0},
    {"batches of 60 us", 0, 0, 60000, 0, false, false, 0.01, 0.01, false, 0, 0},
    {"paced", 0, 0, 0, 1.25, false, false, 0.01, 0.01, false, 1000, 10},
    {"paced, and unsaid", 0, 0, 0, 2, true, false, 0.01, 0.01, false, 1000, 10},
    {"paced, in batches", 0, 0, 60000, 1.25, false, false, 0.01, 0.01, false, 500, 0},
    {"as FTP", 0, 0, 0, 0, false, false, 0.01, 0.01, true, 0, 0},
    {"as FTP, loss 2%", 0.02, 0, 0, 0, false, false, 0.01, 0.01, true, 0, 0},
};

static const struct {
    double there, back; /* Mbit/s */
} rates[] = {{100, 100}, {100, 10}, {10, 100}, {500, 50}, {1000, 1000}};
static const double rtts_ms[] = {1, 10, 50, 200};

static struct sim_stream_path path_of(const struct row *row, double there, double back,
                                      double rtt_ms, uint64_t seed)
{
    struct sim_stream_path path = {
        .there = {.rate_bit_per_s = (uint64_t)(there * 1e6),
                  .delay_ns = (uint64_t)(rtt_ms * 5e5),
                  .loss = row->loss,
                  .cross = row->cross,
                  .batch_ns = row->batch_ns},
        .send_ns = 1500,
        .pace_gain = row->pace_gain,
        .pace_unsaid = row->pace_unsaid,
        .window_untold = row->window_untold,
        .seed = seed,
    };

    path.back = path.there;
    path.back.rate_bit_per_s = (uint64_t)(back * 1e6);
    return path;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct errors {
    double percent[4 * SEEDS_MOST];
    unsigned count;
    unsigned bounds; /* readings that said "at least" */
};

/* One end's result for one direction. A bound must not be above the truth. */
static void judge(const char *what, struct errors *e, uint64_t got, bool at_least, double mbit)
{
    double percent = ((double)got / (mbit * 1e6) - 1) * 100;

    if (at_least) {
        e->bounds++;
        if (percent > 0 || got == 0)
            fail_msg("%s: at least %.1f%% more than there is", what, percent);
        return;
    }
    e->percent[e->count++] = percent < 0 ? -percent : percent;
}

static void judge_end(const char *what, struct errors *e, const struct sim_stream_end *end,
                      double there, double back, bool initiator)
{
    const struct autobuf_path *p = &end->path;

    judge(what, e, p->tx_rate_bit_per_s, p->flags & AUTOBUF_PATH_TX_AT_LEAST,
          initiator ? there : back);
    judge(what, e, p->rx_rate_bit_per_s, p->flags & AUTOBUF_PATH_RX_AT_LEAST,
          initiator ? back : there);
}

/* In each run the ends stay in step, agree, and keep the budget. */
static void check_run(const char *what, const struct sim_stream_result *r, const struct row *row,
                      double rtt_ms, double fastest)
{
    const struct autobuf_path *here = &r->initiator.path, *there = &r->responder.path;
    uint64_t most = fastest <= 100 ? 64000 : 510000;

    if (r->initiator.state != 1 || r->responder.state != 1)
        fail_msg("%s: states %d and %d", what, r->initiator.state, r->responder.state);
    if (r->initiator.result != 0 || (!row->ftp && r->responder.result != 0))
        fail_msg("%s: results %d and %d", what, r->initiator.result, r->responder.result);
    if (!row->ftp && (here->tx_rate_bit_per_s != there->rx_rate_bit_per_s ||
                      here->rx_rate_bit_per_s != there->tx_rate_bit_per_s))
        fail_msg("%s: the ends do not agree", what);
    if (r->initiator.sent_bytes > most || r->responder.sent_bytes > most)
        fail_msg("%s: %llu and %llu bytes", what, (unsigned long long)r->initiator.sent_bytes,
                 (unsigned long long)r->responder.sent_bytes);
    if (row->loss == 0 && (double)r->elapsed_ns > 6 * rtt_ms * 1e6 + (double)EXTRA_NS)
        fail_msg("%s: %.0f ms", what, (double)r->elapsed_ns / 1e6);
}

/* In each direction all readings are bounds, or none; with loss one in a hundred may differ. */
static void check_bounds(const char *what, const struct row *row, const struct errors *e, double there,
                         double back, double rtt_ms)
{
    unsigned directions = (there >= row->bounds_mbit ? 1U : 0) + (back >= row->bounds_mbit ? 1U : 0);
    unsigned all = e->count + e->bounds, expected = 0;

    if (row->bounds_mbit > 0 && rtt_ms >= row->bounds_rtt_ms)
        expected = all * directions / 2;
    if (e->bounds < expected || e->bounds > expected + (row->loss > 0 ? all / 100 : 0))
        fail_msg("%s: %u bounds of %u readings, not %u", what, e->bounds, all, expected);
}

static void run_cell(const struct row *row, double there, double back, double rtt_ms)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct errors e = {.count = 0};
    char what[100];

    options.dress = row->ftp ? AUTOBUF_INBAND_FTP : AUTOBUF_INBAND_TEXT;
    snprintf(what, sizeof what, "%s, %g and %g Mbit/s x %g ms", row->name, there, back, rtt_ms);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct sim_stream_path path = path_of(row, there, back, rtt_ms, seed);
        struct sim_stream_result r = sim_inband(&path, &options, UINT64_MAX, UINT64_MAX, NULL, NULL);

        check_run(what, &r, row, rtt_ms, there > back ? there : back);
        judge_end(what, &e, &r.initiator, there, back, true);
        if (!row->ftp) /* a server does not get the client's result */
            judge_end(what, &e, &r.responder, there, back, false);
    }
    check_bounds(what, row, &e, there, back, rtt_ms);
    if (e.count == 0)
        return;
    qsort(e.percent, e.count, sizeof *e.percent, compare_doubles);
    if (getenv("AUTOBUF_SIM_SHOW")) {
        fprintf(stderr, "%-60s %6.2f%% %6.2f%% bounds %u\n", what, e.percent[e.count / 2],
                e.percent[e.count * 95 / 100], e.bounds);
        return;
    }
    if (e.percent[e.count / 2] > row->median_percent)
        fail_msg("%s: the median of errors is %.2f%%", what, e.percent[e.count / 2]);
    if (e.percent[e.count * 95 / 100] > row->p95_percent)
        fail_msg("%s: the 95th percentile of errors is %.2f%%", what,
                 e.percent[e.count * 95 / 100]);
}

static void test_row(void **state)
{
    const struct row *row = *state;

    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        for (size_t k = 0; k < sizeof rtts_ms / sizeof *rtts_ms; k++)
            run_cell(row, rates[i].there, rates[i].back, rtts_ms[k]);
}

/* On a path of any length, from 60 kbit/s on, the exchange ends in time and leaves a usable connection. */
static void no_path_costs_the_connection(void **state)
{
    static const struct {
        double mbit, rtt_ms;
    } paths[] = {{10, 1200}, {10, 1750}, {10, 2000}, {10, 2400}, {10, 3000}, {10, 3400},
                 {0.06, 100}, {0.06, 600}, {0.08, 1000}};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        for (unsigned k = 0; k < 6; k++) {
            struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
            struct sim_stream_path path = path_of(&rows[0], paths[i].mbit, paths[i].mbit, paths[i].rtt_ms, 1);
            struct sim_stream_result r;

            options.dress = k % 2 ? AUTOBUF_INBAND_FTP : AUTOBUF_INBAND_TEXT;
            options.flags = k / 2;
            r = sim_inband(&path, &options, UINT64_MAX, UINT64_MAX, NULL, NULL);
            if (r.initiator.state != 1 || r.responder.state != 1)
                fail_msg("%g Mbit/s x %g ms, framing %u, directions %u: states %d, %d after %.1f s", paths[i].mbit,
                         paths[i].rtt_ms, k % 2, k / 2, r.initiator.state, r.responder.state,
                         (double)r.elapsed_ns / 1e9);
        }
}

/* After a reset at any byte the exchange has failed, or is complete. */
static void cut_at_each_byte(uint32_t framing)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct sim_stream_path path = path_of(&rows[0], 100, 100, 10, 1);
    uint64_t there, back;

    options.budget_bytes = 6000;
    options.dress = framing;
    sim_inband(&path, &options, UINT64_MAX, UINT64_MAX, &there, &back);
    assert_true(there > 4500 && back > 4500);
    for (uint64_t at = 0; at < there; at++) {
        struct sim_stream_result r = sim_inband(&path, &options, at, UINT64_MAX, NULL, NULL);

        assert_int_equal(r.initiator.state, -ECONNRESET);
        /* In FTP each command is an exchange of its own, for a server. */
        assert_true(r.responder.state == -ECONNRESET ||
                    ((at == 0 || framing == AUTOBUF_INBAND_FTP) && r.responder.state == 1));
    }
    for (uint64_t at = 0; at < back; at++) {
        struct sim_stream_result r = sim_inband(&path, &options, UINT64_MAX, at, NULL, NULL);

        assert_int_equal(r.initiator.state, -ECONNRESET);
        assert_true(r.responder.state == -ECONNRESET || r.responder.state == 1);
    }
}

static void test_cut_at_each_byte(void **state)
{
    (void)state;
    cut_at_each_byte(AUTOBUF_INBAND_TEXT);
    cut_at_each_byte(AUTOBUF_INBAND_FTP);
}

int main(void)
{
    struct CMUnitTest tests[sizeof rows / sizeof *rows + 2];
    size_t count = 0;

    seeds = getenv("AUTOBUF_TESTS_ALL") ? SEEDS_MOST : 15;
    for (; count < sizeof rows / sizeof *rows; count++)
        tests[count] = (struct CMUnitTest){.name = rows[count].name,
                                           .test_func = test_row,
                                           .initial_state = (void *)(uintptr_t)&rows[count]};
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_cut_at_each_byte);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(no_path_costs_the_connection);
    return _cmocka_run_group_tests("inband_sim", tests, count, NULL, NULL);
}

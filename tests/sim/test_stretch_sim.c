/* SPDX-License-Identifier: MIT */
/* Searches of lib/available/stretch.h beside other traffic, in virtual time. Each run is the same each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "available/stretch.h"
#include "emu_link.h"

#define PACKET 1500U
#define CHUNKS 4096U
#define GAP_NS 500000ULL
#define SKEW_NS 123456789123ULL /* the clocks know nothing of each other */

static const double paths[][2] = {{5, 40}, {10, 50}, {50, 20}, {100, 100}, {200, 5}, {1000, 10}}; /* Mbit/s, ms */
static const double loads[] = {0, 0.25, 0.5, 0.75};
static const double queues[] = {0.3, 2}; /* BDP */

#define PATHS 6U
#define RUNS (PATHS * 4 * 2)

struct run {
    double mbit, rtt_ms, queue_products, load;
    bool constant; /* CBR; otherwise Poisson */
    double error;  /* of the capacity, each way; 1: its high bound is unknown */
    uint64_t batch_ns;
    uint64_t seed;
};

static struct run run_of(unsigned i, bool constant)
{
    const double *path = paths[i % PATHS];

    return (struct run){.mbit = path[0], .rtt_ms = path[1], .load = loads[i / PATHS % 4],
                        .queue_products = queues[i / PATHS / 4 % 2], .constant = constant, .error = 0.03,
                        .seed = i + 1};
}

struct sending {
    struct emu_link link;
    uint64_t now_ns;
    uint64_t cost_bytes;
    double spent_ns, cross_bytes; /* while stretches were sent */
    struct ab_available room;
    struct ab_chunk chunks[CHUNKS];
};

/*
 * A chunk of so many packets, that leaves at now_ns. Returns whether none was lost. A packet that is lost comes a round
 * trip later, and what is behind it waits.
 */
static bool send_chunk(const struct run *run, struct sending *s, struct ab_chunk *chunk, unsigned packets)
{
    uint64_t before_ns = chunk > s->chunks ? chunk[-1].arrived_ns : 0;
    bool whole = true;

    *chunk = (struct ab_chunk){.sent_ns = s->now_ns + SKEW_NS, .bytes = (uint64_t)packets * PACKET};
    for (unsigned i = 0; i < packets; i++) {
        uint64_t out_ns;

        if (!emu_link_offer(&s->link, s->now_ns, PACKET, &out_ns)) {
            whole = false;
            out_ns = s->now_ns + (uint64_t)(run->rtt_ms * 1.5e6);
        }
        chunk->arrived_ns = ab_max(chunk->arrived_ns, ab_max(out_ns, before_ns));
    }
    s->cost_bytes += chunk->bytes;
    return whole;
}

/* A sender hears of a loss a round trip later, stops, and only what it sent before has a meaning. */
static struct autobuf_available send_stretch(const struct run *run, struct sending *s, const struct ab_stretch *how,
                                             bool *lost)
{
    uint64_t pace = how->pace_bit_per_s, bytes = 0;
    uint64_t most = ab_search_bytes(ab_max(how->capacity_low_bit_per_s, how->capacity_high_bit_per_s));
    unsigned packets = (unsigned)ab_max(1, pace * GAP_NS / AB_NS_PER_S / 8 / PACKET);
    uint64_t begin_ns = s->now_ns;
    struct autobuf_available found;
    uint64_t rtt_ns = (uint64_t)(run->rtt_ms * 1e6), lost_ns = UINT64_MAX;
    struct emu_truth truth;
    uint64_t before;
    size_t count = 0;

    emu_link_truth(&s->link, s->now_ns, &truth);
    before = truth.cross_packets;
    while (count < CHUNKS && bytes + packets * PACKET <= most && s->now_ns - begin_ns < AB_NS_PER_S / 2 &&
           s->now_ns - begin_ns < ab_min(lost_ns, AB_NS_PER_S) + rtt_ns) {
        if (!send_chunk(run, s, &s->chunks[count], packets) && lost_ns > AB_NS_PER_S)
            lost_ns = s->now_ns - begin_ns;
        bytes += s->chunks[count++].bytes;
        s->now_ns = begin_ns + ab_mul_div(bytes, 8 * AB_NS_PER_S, pace);
    }
    emu_link_truth(&s->link, s->now_ns, &truth);
    s->cross_bytes += (double)(truth.cross_packets - before) * PACKET;
    s->spent_ns += (double)(s->now_ns - begin_ns);
    s->now_ns = ab_max(s->now_ns, s->chunks[count - 1].arrived_ns) + rtt_ns;
    *lost = lost_ns < AB_NS_PER_S;
    lost_ns = *lost ? lost_ns - ab_min(lost_ns, rtt_ns / 4) : lost_ns;
    ab_stretch_estimate(&s->room, s->chunks, count, lost_ns, how, &found);
    if (getenv("AUTOBUF_SIM_SHOW"))
        fprintf(stderr, "        at %.2f, %zu chunks: %.2f to %.2f, %s%s\n", (double)pace / 1e6, count,
                (double)found.tx_low_bit_per_s / 1e6, (double)found.tx_high_bit_per_s / 1e6,
                found.cause ? autobuf_cause_name(found.cause) : "-", *lost ? ", loss" : "");
    return found;
}

/* *truth: what other traffic left meanwhile. */
static struct autobuf_available search_of(const struct run *run, double *truth)
{
    struct emu_params params = {
        .rate_bit_per_s = (uint64_t)(run->mbit * 1e6),
        .queue_bytes = (uint64_t)(run->queue_products * run->mbit * 125 * run->rtt_ms) + 4 * PACKET,
        .delay_ns = (uint64_t)(run->rtt_ms * 0.5e6),
        .cross = run->load,
        .cross_constant = run->constant,
        .batch_ns = run->batch_ns,
    };
    struct ab_search search = {.capacity_low_bit_per_s = (uint64_t)(run->mbit * 1e6 * (1 - run->error)),
                               .capacity_high_bit_per_s = (uint64_t)(run->mbit * 1e6 * (1 + run->error))};
    struct ab_search none = {0};
    struct sending *s = calloc(1, sizeof *s);
    struct autobuf_available found;
    struct ab_stretch how;
    bool lost;

    assert_non_null(s);
    if (run->error >= 1) {
        search.capacity_low_bit_per_s = (uint64_t)(run->mbit * 0.8e6);
        search.capacity_high_bit_per_s = 0;
    }
    emu_link_init(&s->link, &params, run->seed, 0);
    s->now_ns = AB_NS_PER_S;
    while (ab_search_next(&search, &how)) {
        found = send_stretch(run, s, &how, &lost);
        ab_search_take(&search, how.pace_bit_per_s, lost, &found);
    }
    ab_search_result(&search, &none, &found);
    *truth = run->mbit * 1e6 - s->cross_bytes * 8e9 / s->spent_ns;
    assert_true(s->cost_bytes <= 4000000 && (double)s->cost_bytes * 8 <= run->mbit * 1e6 / 2 * 1.1);
    emu_link_free(&s->link);
    free(s);
    return found;
}

static bool holds(const struct run *run, const struct autobuf_available *e, double truth)
{
    bool held = (double)e->tx_low_bit_per_s <= truth &&
                (!e->tx_high_bit_per_s || (double)e->tx_high_bit_per_s >= truth);

    if (getenv("AUTOBUF_SIM_SHOW"))
        fprintf(stderr,
                "%s stretches: %g Mbit/s x %g ms, queue of %g, %s %g: %.2f to %.2f, truth %.2f, "
                "over %.2f s, kind %u, %s\n",
                held ? "    " : "MISS", run->mbit, run->rtt_ms, run->queue_products, run->constant ? "CBR" : "Poisson",
                run->load, (double)e->tx_low_bit_per_s / 1e6, (double)e->tx_high_bit_per_s / 1e6, truth / 1e6,
                (double)e->over_ns / 1e9, e->kind, e->cause ? autobuf_cause_name(e->cause) : "-");
    return held;
}

/* What a kind of runs came to. */
struct tally {
    unsigned runs, held, both, narrow; /* both bounds known; within 1.5 of each other */
};

static void add_runs(struct tally *t, bool constant, unsigned seeds, double error, uint64_t batch_ns)
{
    for (unsigned i = 0; i < seeds * RUNS; i++) {
        struct run run = run_of(i, constant);
        struct autobuf_available found;
        double truth;

        run.error = error;
        run.batch_ns = batch_ns;
        found = search_of(&run, &truth);
        t->runs++;
        t->held += holds(&run, &found, truth);
        t->both += found.tx_high_bit_per_s != 0;
        t->narrow += found.tx_high_bit_per_s && 2 * found.tx_high_bit_per_s <= 3 * found.tx_low_bit_per_s;
    }
    if (getenv("AUTOBUF_SIM_SHOW"))
        fprintf(stderr, "%u runs, %u held, %u both, %u narrow\n", t->runs, t->held, t->both, t->narrow);
}

/* The empty path is in a quarter of the runs, and has no high bound; nor do the shortest queues of the fast paths. */
static void stretches_hold_the_truth(void **state)
{
    struct tally constant = {0}, poisson = {0};

    (void)state;
    add_runs(&constant, true, 1, 0.03, 0);
    add_runs(&poisson, false, 10, 0.03, 0);
    assert_true(100 * constant.held >= 98 * constant.runs);
    assert_true(100 * poisson.held >= 80 * poisson.runs);
    assert_true(2 * constant.both >= constant.runs && 2 * poisson.both >= poisson.runs);
    assert_true(10 * constant.narrow >= 9 * constant.both && 10 * poisson.narrow >= 9 * poisson.both);
}

static void an_empty_path_is_free(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PATHS; i++) {
        struct run run = run_of(i, true);
        struct autobuf_available found;
        double truth;

        assert_true(run.load == 0);
        found = search_of(&run, &truth);
        assert_true(holds(&run, &found, run.mbit * 1e6));
        assert_true((double)found.tx_low_bit_per_s >= 0.75e6 * run.mbit);
        assert_int_equal(found.flags, AUTOBUF_AVAILABLE_TX_AT_LEAST);
        assert_int_equal(found.cause, AUTOBUF_CAUSE_NO_QUEUE);
    }
}

/* The capacity is only known to be at least eight tenths of what it is. */
static void a_capacity_that_is_a_lower_bound(void **state)
{
    struct tally constant = {0};

    (void)state;
    add_runs(&constant, true, 1, 1, 0);
    assert_true(100 * constant.held >= 95 * constant.runs);
}

/* Of a radio link, or a host that is late: then less shows, but nothing that is wrong. */
static void what_arrives_together_does_not_make_it_lie(void **state)
{
    struct tally constant = {0};

    (void)state;
    add_runs(&constant, true, 1, 0.03, 2000000);
    add_runs(&constant, true, 1, 0.03, 10000000);
    assert_true(100 * constant.held >= 95 * constant.runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stretches_hold_the_truth),
        cmocka_unit_test(an_empty_path_is_free),
        cmocka_unit_test(a_capacity_that_is_a_lower_bound),
        cmocka_unit_test(what_arrives_together_does_not_make_it_lie),
    };

    return cmocka_run_group_tests_name("stretches", tests, NULL, NULL);
}

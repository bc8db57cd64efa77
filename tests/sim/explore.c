/* SPDX-License-Identifier: MIT */
/*
 * Prints the errors of the estimator over the grid of simulated paths, in virtual time. Use it when changing the
 * estimator. usage: explore [SEEDS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim_probe.h"

struct impairment {
    const char *name;
    double loss, cross;
    uint32_t cross_size;
    uint64_t jitter_ns, batch_ns, send_ns;
    double queue_products;
};

static const struct impairment impairments[] = {
    {"clean", 0, 0, 0, 0, 0, 0, 2},          {"send 8us", 0, 0, 0, 0, 0, 8000, 2},
    {"queue 0.5", 0, 0, 0, 0, 0, 0, 0.5},    {"loss 2%", .02, 0, 0, 0, 0, 0, 2},
    {"loss 20%", .2, 0, 0, 0, 0, 0, 2},      {"cross 50%", 0, .5, 1500, 0, 0, 0, 2},
    {"cross 500B", 0, .5, 500, 0, 0, 0, 2},  {"jitter 2ms", 0, 0, 0, 2000000, 0, 0, 2},
    {"batch 60us", 0, 0, 0, 0, 60000, 0, 2}, {"batch 125us", 0, 0, 0, 0, 125000, 0, 2},
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void cell(const struct impairment *m, double mbit, double rtt_ms, unsigned seeds)
{
    double *rates = calloc(seeds, sizeof *rates);
    double most_cost = 0, most_ms = 0, bdp = mbit * rtt_ms / 8 * 1000;
    unsigned none = 0, bounds = 0;
    struct sim_path sim = {
        .there = {.rate_bit_per_s = (uint64_t)(mbit * 1e6),
                  .delay_ns = (uint64_t)(rtt_ms * 5e5),
                  .queue_bytes = (uint64_t)(m->queue_products * bdp) + 3000,
                  .loss = m->loss, .cross = m->cross, .cross_size_bytes = m->cross_size,
                  .jitter_ns = m->jitter_ns},
        .batch_ns = m->batch_ns,
        .send_ns = m->send_ns ? m->send_ns : 1500,
    };

    sim.back = sim.there;
    for (unsigned i = 0; i < seeds; i++) {
        struct sim_result r;

        sim.seed = i + 1;
        r = sim_probe(&sim, NULL);
        rates[i] = (double)r.path.tx_rate_bit_per_s / (mbit * 1e6) - 1;
        none += r.error != 0;
        bounds += r.path.flags != 0;
        most_cost = fmax(most_cost, (double)r.path.cost_bytes);
        most_ms = fmax(most_ms, (double)r.end_ns / 1e6);
    }
    qsort(rates, seeds, sizeof *rates, compare);
    printf("%-12s %5.0f Mbit/s %4.0f ms: p5 %+6.1f%% median %+6.1f%% p95 %+6.1f%%  none %u at least "
           "%u  %.0f KB %.0f ms%s\n",
           m->name, mbit, rtt_ms, 100 * rates[seeds / 20], 100 * rates[seeds / 2],
           100 * rates[seeds - 1 - seeds / 20], none, bounds, most_cost / 1e3, most_ms,
           most_ms > 1000 + 2 * rtt_ms + 5 ? " LATE" : "");
    free(rates);
}

int main(int argc, char **argv)
{
    static const double mbits[] = {1, 10, 100, 400, 1000};
    static const double rtts[] = {1, 10, 50, 100, 200};
    unsigned seeds = argc > 1 ? (unsigned)atoi(argv[1]) : 40;

    for (size_t m = 0; m < sizeof impairments / sizeof *impairments; m++)
        for (size_t r = 0; r < 5; r++)
            for (size_t d = 0; d < 5; d++)
                if (mbits[r] * rtts[d] / 8 * 1000 >= 6000)
                    cell(&impairments[m], mbits[r], rtts[d], seeds);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Prints the errors of the estimator over the grid of simulated paths, in virtual time. Use it when changing the
 * estimator. usage: explore [SEEDS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "impairments.h"

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void cell(const struct impairment *m, double mbit, double rtt_ms, unsigned seeds, struct tally *sum)
{
    double *rates = calloc(seeds, sizeof *rates);
    double most_cost = 0, most_ms = 0;
    unsigned none = 0, bounds = 0;
    struct sim_path sim = impaired_path(m, mbit, rtt_ms);

    for (unsigned i = 0; i < seeds; i++) {
        struct sim_result r;

        sim.seed = i + 1;
        r = sim_probe(&sim, NULL);
        rates[i] = (double)r.path.tx_rate_bit_per_s / (mbit * 1e6) - 1;
        none += r.error != 0;
        bounds += !(r.path.flags & AUTOBUF_PATH_TX_ECHOED);
        tally_add(sum, &r, mbit * 1e6);
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

    for (size_t m = 0; m < impairments_count; m++) {
        struct tally sum = {0};

        for (size_t r = 0; r < 5; r++)
            for (size_t d = 0; d < 5; d++)
                if (mbits[r] * rtts[d] / 8 * 1000 >= 6000)
                    cell(&impairments[m], mbits[r], rtts[d], seeds, &sum);
        printf("%-12s all: %u runs: the interval holds the truth in %.1f%%, wider than 1.3: %.1f%%, off by 20%% "
               "without a "
               "flag: %.1f%%, flagged: %.1f%%\n",
               impairments[m].name, sum.runs, 100.0 * sum.held / sum.runs, 100.0 * sum.wide / sum.runs,
               100.0 * sum.wrong / sum.runs, 100.0 * sum.flagged / sum.runs);
    }
    return 0;
}

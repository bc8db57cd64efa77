/* SPDX-License-Identifier: MIT */
/*
 * Figures 1 to 3 of "Dynamic Right-Sizing" in virtual time: a path of 100 ms that holds seven times
 * 64 KB, a sender with a congestion window, a static credit window of 64 KB and a right-sized one.
 * Prints a line for every 20 ms: static|sized, ms, bytes transferred, bytes in flight, window.
 */
#include <stdio.h>

#include "sim_credit.h"

#define STATIC_BYTES 65536
#define EVERY_NS 20000000ULL

struct line {
    const char *name;
    uint64_t next_ns;
    bool fixed;
};

static void print_line(void *user, uint64_t now_ns, const struct autobuf_rightsize_state *s,
                       double consumed, double flight, double queue)
{
    struct line *line = user;

    (void)queue;
    if (now_ns < line->next_ns)
        return;
    line->next_ns += EVERY_NS;
    printf("%s %.0f %.0f %.0f %.0f\n", line->name, (double)now_ns / 1e6, consumed, flight,
           line->fixed ? (double)STATIC_BYTES : (double)s->window_bytes);
}

int main(void)
{
    struct sim_credit sim = {.rate_byte_per_s = 7.0 * STATIC_BYTES / 0.1, .rtt_ns = 100000000,
                             .queue_bytes = 7.0 * STATIC_BYTES / 2, .congestion_window = true,
                             .window_bytes = STATIC_BYTES, .cap_bytes = 16777216,
                             .end_ns = 20000000000ULL};

    for (int fixed = 1; fixed >= 0; fixed--) {
        struct line line = {fixed ? "static" : "sized", 0, fixed};

        sim.fixed = fixed;
        sim_credit(&sim, print_line, &line);
    }
    return 0;
}

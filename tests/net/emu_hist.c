#include "emu_hist.h"

#include <math.h>

/* Up to 63 a bin is one nanosecond wide; above, the top six bits of the value choose the bin. */
static unsigned bin_of(uint64_t ns)
{
    unsigned shift = 0;

    while (ns >> shift >= 64)
        shift++;
    return shift * 32 + (unsigned)(ns >> shift);
}

static uint64_t upper_edge_ns(unsigned bin)
{
    unsigned shift = bin < 64 ? 0 : bin / 32 - 1;

    return (((uint64_t)(bin - shift * 32) + 1) << shift) - 1;
}

void emu_hist_add(struct emu_hist *h, uint64_t ns)
{
    h->bins[bin_of(ns)]++;
    h->count++;
    h->sum_ns += ns;
    if (ns > h->max_ns)
        h->max_ns = ns;
}

uint64_t emu_hist_mean_ns(const struct emu_hist *h)
{
    return h->count ? h->sum_ns / h->count : 0;
}

uint64_t emu_hist_quantile_ns(const struct emu_hist *h, double quantile)
{
    uint64_t below = 0, want = (uint64_t)ceil(quantile * (double)h->count);
    unsigned i;

    for (i = 0; i < EMU_HIST_BINS; i++) {
        below += h->bins[i];
        if (below >= want && below > 0)
            break;
    }
    if (i == EMU_HIST_BINS)
        return 0;
    return upper_edge_ns(i) < h->max_ns ? upper_edge_ns(i) : h->max_ns;
}

/* Lateness in nanoseconds, as a histogram of fixed size: 32 bins an octave, so 3% a bin. */
#ifndef EMU_HIST_H
#define EMU_HIST_H

#include <stdint.h>

#define EMU_HIST_BINS (32 * 60)

struct emu_hist {
    uint64_t bins[EMU_HIST_BINS];
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns;
};

void emu_hist_add(struct emu_hist *h, uint64_t ns);
uint64_t emu_hist_mean_ns(const struct emu_hist *h);

/* The upper edge of the bin in which the quantile (0..1) lies, but never above the maximum. */
uint64_t emu_hist_quantile_ns(const struct emu_hist *h, double quantile);

#endif

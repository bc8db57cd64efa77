/* SPDX-License-Identifier: MIT */
#include "estimate.h"

static void sort_sift(uint64_t *values, size_t root, size_t count)
{
    for (;;) {
        size_t child = 2 * root + 1;
        uint64_t held = values[root];

        if (child >= count)
            return;
        if (child + 1 < count && values[child] < values[child + 1])
            child++;
        if (held >= values[child])
            return;
        values[root] = values[child];
        values[child] = held;
        root = child;
    }
}

/* Heapsort: qsort() may allocate, and a peer could choose values that make it slow. */
void ab_sort(uint64_t *values, size_t count)
{
    for (size_t i = count / 2; i-- > 0;)
        sort_sift(values, i, count);
    for (size_t end = count; end-- > 1;) {
        uint64_t largest = values[0];

        values[0] = values[end];
        values[end] = largest;
        sort_sift(values, 0, end);
    }
}

uint64_t ab_mode(const uint64_t *sorted, size_t count)
{
    while (count > 3) {
        size_t half = (count + 1) / 2;
        size_t best = 0;

        for (size_t i = 1; i + half <= count; i++) {
            if (sorted[i + half - 1] - sorted[i] < sorted[best + half - 1] - sorted[best])
                best = i;
        }
        sorted += best;
        count = half;
    }
    if (count == 3) {
        uint64_t below = sorted[1] - sorted[0], above = sorted[2] - sorted[1];

        if (below == above)
            return sorted[1];
        if (below > above)
            sorted++;
        count = 2;
    }
    return count == 2 ? sorted[0] + (sorted[1] - sorted[0]) / 2 : sorted[0];
}

size_t ab_count_near(const uint64_t *sorted, size_t count, uint64_t center, uint64_t part)
{
    uint64_t width = center / 1000 * part + center % 1000 * part / 1000;
    size_t near = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t distance = sorted[i] > center ? sorted[i] - center : center - sorted[i];

        near += distance <= width;
    }
    return near;
}

uint64_t ab_percentile(const uint64_t *sorted, size_t count, unsigned percent)
{
    return sorted[(count - 1) * percent / 100];
}

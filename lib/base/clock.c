/* SPDX-License-Identifier: MIT */
#include "clock.h"

#include <time.h>

#include "base.h"

static uint64_t clock_read_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t); /* cannot fail for these two clocks */
    return (uint64_t)t.tv_sec * AB_NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t autobuf_now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t ab_clock_offset_ns(void)
{
    uint64_t best_width = UINT64_MAX, offset = 0;

    for (int i = 0; i < 4; i++) {
        uint64_t before = clock_read_ns(CLOCK_MONOTONIC);
        uint64_t real = clock_read_ns(CLOCK_REALTIME);
        uint64_t width = clock_read_ns(CLOCK_MONOTONIC) - before;

        if (width < best_width) {
            best_width = width;
            offset = real - (before + width / 2);
        }
    }
    return offset;
}

/* SPDX-License-Identifier: MIT */
/* What a part of the daemon may cost: after so much processor time it rests so long. */
#ifndef COST_H
#define COST_H

#include <stdint.h>
#include <time.h>

/* Of a core, sweeps take one part in so many, looks another, searches through /proc a third, answers a fourth. */
#define COST_PART 40U

static inline uint64_t cost_cpu_ns(void)
{
    struct timespec t = {0, 0};

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

#endif

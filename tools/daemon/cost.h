/* SPDX-License-Identifier: MIT */
/* What a part of the daemon may cost: after so much processor time it rests so long. */
#ifndef COST_H
#define COST_H

#include <stdint.h>
#include <time.h>

#include "../../lib/base/base.h"
#include "broker.h"

/* Of a core, sweeps take one part in so many, looks another, searches through /proc a third, answers a fourth. */
#define COST_PART 40U

static inline uint64_t cost_cpu_ns(void)
{
    struct timespec t = {0, 0};

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * AB_NS_PER_S + (uint64_t)t.tv_nsec + broker_cpu_ns();
}

/* When to do again what has taken processor time since then, which is added to its sum. */
static inline uint64_t cost_after(uint64_t now_ns, uint64_t began_cpu_ns, uint64_t least_ns, uint64_t *sum_ns)
{
    uint64_t took_ns = cost_cpu_ns() - began_cpu_ns, rest_ns = took_ns * COST_PART;

    *sum_ns += took_ns;
    return now_ns + ab_max(rest_ns, least_ns);
}

#endif

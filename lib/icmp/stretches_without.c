/* SPDX-License-Identifier: MIT */
/* In place of stretches.c in bwdelay.c, whose calls never ask what is free. */
#include "stretches.h"

#include <errno.h>

size_t ab_stretches_bytes(void)
{
    return 0;
}

bool ab_stretches_go_on(struct ab_schedule *schedule, uint64_t now_ns, uint64_t rtt_ns)
{
    (void)schedule;
    (void)now_ns;
    (void)rtt_ns;
    return false;
}

uint64_t ab_stretches_sent(struct ab_stretches *stretches, uint32_t full_bytes, uint64_t due_ns, uint64_t now_ns)
{
    (void)stretches;
    (void)full_bytes;
    (void)due_ns;
    (void)now_ns;
    return AUTOBUF_NS_UNSET;
}

int ab_stretches_result(const struct ab_stretches *stretches, struct autobuf_available *available)
{
    (void)stretches;
    (void)available;
    return -EOPNOTSUPP;
}

/* SPDX-License-Identifier: MIT */
/* In place of withhold.c, where there is no libbpf or no clang. */
#include "withhold.h"

#include <stdio.h>

void withhold_load(struct broker_maps *maps)
{
    maps->ready = false;
    snprintf(maps->why, sizeof maps->why, "this autobufd was built without libbpf");
}

struct withhold *withhold_open(struct broker_maps *maps)
{
    (void)maps;
    return NULL;
}

void withhold_rules(struct withhold *withhold, const struct config *config, bool dry_run)
{
    (void)withhold;
    (void)config;
    (void)dry_run;
}

void withhold_limits(struct withhold *withhold, const struct autobuf_limits *limits)
{
    (void)withhold;
    (void)limits;
}

uint64_t withhold_count(const struct withhold *withhold)
{
    (void)withhold;
    return 0;
}

void withhold_close(struct withhold *withhold)
{
    (void)withhold;
}

/* SPDX-License-Identifier: MIT */
/* In place of before_syn.c, where there is no libbpf or no clang. */
#include "before_syn.h"

#include <stdio.h>

struct before_syn *before_syn_open(char why[BEFORE_SYN_WHY_BYTES])
{
    snprintf(why, BEFORE_SYN_WHY_BYTES, "this autobufd was built without libbpf");
    return NULL;
}

void before_syn_rules(struct before_syn *before_syn, const struct config *config, bool dry_run)
{
    (void)before_syn;
    (void)config;
    (void)dry_run;
}

uint64_t before_syn_count(const struct before_syn *before_syn)
{
    (void)before_syn;
    return 0;
}

void before_syn_close(struct before_syn *before_syn)
{
    (void)before_syn;
}

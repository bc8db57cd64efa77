/* SPDX-License-Identifier: MIT */
/*
 * Sizes that programs set smaller than what autotuning reaches, and that the kernel is kept from: kernel.bpf.c has
 * the rest.
 */
#ifndef WITHHOLD_H
#define WITHHOLD_H

#include "broker.h"
#include "config.h"
#include "withhold_table.h"

struct withhold;

/* Takes what kernel_load() has loaded, here or in the broker. NULL: nothing is loaded; maps->why says why. */
struct withhold *withhold_open(struct broker_maps *maps);

/* From now on these rules and this host's limits hold, of the rules the first WITHHOLD_RULES. NULL is allowed. */
void withhold_rules(struct withhold *withhold, const struct config *config);
void withhold_limits(struct withhold *withhold, const struct autobuf_limits *limits);

/* What they write: the rules and the ports that stop; what a program can set here, and what autotuning reaches. */
void withhold_fill(const struct config *config, struct withhold_table *table, struct withhold_rule *rules);
void withhold_fill_limits(const struct autobuf_limits *limits, struct withhold_table *table);

/* How many sizes were withheld. NULL: 0. */
uint64_t withhold_count(const struct withhold *withhold);

/* NULL is allowed. What is loaded goes with its process. */
void withhold_close(struct withhold *withhold);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Sizes that programs set smaller than what autotuning reaches, and that the kernel is kept from: withhold.bpf.c has
 * the rest.
 */
#ifndef WITHHOLD_H
#define WITHHOLD_H

#include "../privilege.h"
#include "broker.h"
#include "config.h"
#include "withhold_table.h"

#ifndef CAP_BPF
#define CAP_BPF 39
#define CAP_PERFMON 38
#endif
/* Of which withhold_load() makes use, and nothing later. */
#define WITHHOLD_PRIVILEGES (PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON))

struct withhold;

/*
 * Loads the programs and attaches them to the root of the control groups, for this network namespace. Nothing is
 * withheld until there are rules. They go with this process, however that ends. maps->why: what is missing.
 */
void withhold_load(struct broker_maps *maps);

/* Takes what withhold_load() has loaded, here or in the broker. NULL: nothing is loaded; maps->why says why. */
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

/* SPDX-License-Identifier: MIT */
/*
 * What must happen before the SYN of a connection, in the kernel: a receive buffer that its program has locked too
 * small does not make the window scale small, so that the window can open later. Nothing else is changed.
 * before_syn.bpf.c has the rest.
 */
#ifndef BEFORE_SYN_H
#define BEFORE_SYN_H

#include <stdbool.h>
#include <stdint.h>

#include "../privilege.h"
#include "before_syn_table.h"
#include "config.h"

#define BEFORE_SYN_WHY_BYTES 256U

#ifndef CAP_BPF
#define CAP_BPF 39
#define CAP_PERFMON 38
#endif
/* Of which before_syn_open() makes use, and nothing later. */
#define BEFORE_SYN_PRIVILEGES (PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON))

struct before_syn;

/*
 * Loads the program and attaches it to the root of the control groups, for this network namespace. Nothing is done
 * until rules are given. It goes with this process, however that ends. NULL: why says what is missing.
 */
struct before_syn *before_syn_open(char why[BEFORE_SYN_WHY_BYTES]);

/* From now on these rules hold, the first BEFORE_SYN_RULES of them. With dry_run nothing is done. NULL is allowed. */
void before_syn_rules(struct before_syn *before_syn, const struct config *config, bool dry_run);

/* How many window scales became larger. NULL: 0. */
uint64_t before_syn_count(const struct before_syn *before_syn);

/* NULL is allowed. */
void before_syn_close(struct before_syn *before_syn);

#endif

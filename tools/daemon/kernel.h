/* SPDX-License-Identifier: MIT */
/* The daemon's part in the kernel, kernel.bpf.c: it withholds sizes (withhold.h), and tells who moves much (bulk.h). */
#ifndef KERNEL_H
#define KERNEL_H

#include "../privilege.h"
#include "broker.h"

#ifndef CAP_BPF
#define CAP_BPF 39
#define CAP_PERFMON 38
#endif
/* Of which kernel_load() makes use, and nothing later. */
#define KERNEL_PRIVILEGES (PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON))

/*
 * Loads the programs and attaches them to the root of the control groups, for this network namespace. Nothing is
 * withheld until there are rules. They go with this process, however that ends. maps->why: what is missing.
 */
void kernel_load(struct broker_maps *maps);

#endif

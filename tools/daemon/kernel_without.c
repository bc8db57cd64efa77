/* SPDX-License-Identifier: MIT */
/* In place of kernel_load.c, where there is no libbpf or no clang. */
#include "kernel.h"

#include <stdio.h>

void kernel_load(struct broker_maps *maps)
{
    maps->ready = false;
    snprintf(maps->why, sizeof maps->why, "this autobufd was built without libbpf");
}

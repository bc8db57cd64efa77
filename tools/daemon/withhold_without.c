/* SPDX-License-Identifier: MIT */
/* In place of withhold_load.c, where there is no libbpf or no clang. */
#include "withhold.h"

#include <stdio.h>

void withhold_load(struct broker_maps *maps)
{
    maps->ready = false;
    snprintf(maps->why, sizeof maps->why, "this autobufd was built without libbpf");
}

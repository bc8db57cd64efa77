/* SPDX-License-Identifier: MIT */
#include "next.h"

#include <dlfcn.h>
#include <string.h>

struct run_next run_next;

void run_next_find(void)
{
    /* A function that the C library does not have stays NULL: then nobody calls it either. */
#define RUN_FIND(type, name, parameters)                                                                               \
    {                                                                                                                  \
        void *found = dlsym(RTLD_NEXT, #name);                                                                         \
        memcpy(&run_next.name, &found, sizeof found);                                                                  \
    }
    RUN_FUNCTIONS(RUN_FIND)
#undef RUN_FIND
}

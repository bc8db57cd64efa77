/* SPDX-License-Identifier: MIT */
#include "next.h"

#include <dlfcn.h>
#include <string.h>

struct run_next run_next;

const struct run_next *run_next_find(void)
{
    /* What an older C library does not have stays NULL. */
#define RUN_FIND(type, name, parameters)                                                                               \
    {                                                                                                                  \
        void *found = dlsym(RTLD_NEXT, #name);                                                                         \
        memcpy(&run_next.name, &found, sizeof found);                                                                  \
    }
    RUN_FUNCTIONS(RUN_FIND)
#undef RUN_FIND
    return &run_next;
}

int run_option(int fd, int option)
{
    int value = 0;
    socklen_t length = sizeof value;

    return NEXT(getsockopt)(fd, SOL_SOCKET, option, &value, &length) < 0 ? -errno : value;
}

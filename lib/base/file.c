/* SPDX-License-Identifier: MIT */
#include "file.h"

#include <sys/resource.h>

bool ab_file_may_have(uint64_t bytes)
{
    struct rlimit most;

    return getrlimit(RLIMIT_FSIZE, &most) < 0 || most.rlim_cur == RLIM_INFINITY || bytes <= most.rlim_cur;
}

/* SPDX-License-Identifier: MIT */
#include "file.h"

#include <sys/resource.h>

bool ab_file_may_have(uint64_t bytes)
{
    struct rlimit max;

    return getrlimit(RLIMIT_FSIZE, &max) < 0 || max.rlim_cur == RLIM_INFINITY || bytes <= max.rlim_cur;
}

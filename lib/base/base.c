/* SPDX-License-Identifier: MIT */
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "environment.h"

bool ab_struct_out(void *theirs, const void *ours, size_t ours_bytes)
{
    uint32_t size;

    if (!theirs)
        return false;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size)
        return false;
    memcpy(theirs, ours, ab_min(size, ours_bytes));
    memcpy(theirs, &size, sizeof size);
    return true;
}

bool ab_struct_in(void *ours, size_t ours_bytes, const void *theirs)
{
    uint32_t size;

    if (!theirs)
        return false;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size)
        return false;
    memset(ours, 0, ours_bytes);
    memcpy(ours, theirs, ab_min(size, ours_bytes));
    size = (uint32_t)ours_bytes;
    memcpy(ours, &size, sizeof size);
    return true;
}

void ab_struct_init(void *theirs, uint32_t size, const void *ours, size_t ours_bytes)
{
    if (!theirs || size < sizeof size)
        return;
    memset(theirs, 0, size);
    memcpy(theirs, ours, ab_min(size, ours_bytes));
    memcpy(theirs, &size, sizeof size);
}

void ab_log(const struct ab_log *log, const char *format, ...)
{
    char line[256];
    va_list args;

    if (!log->fn && !ab_environment_logs())
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (log->fn)
        log->fn(log->user, line);
    if (ab_environment_logs())
        ab_environment_line(line);
}

__extension__ typedef unsigned __int128 wide_uint;

uint64_t ab_mul_div(uint64_t a, uint64_t b, uint64_t c)
{
    wide_uint product = (wide_uint)a * b / c;

    return product > UINT64_MAX ? UINT64_MAX : (uint64_t)product;
}

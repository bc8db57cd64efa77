/* SPDX-License-Identifier: MIT */
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define READ_TRIES 8 /* nothing there blocks: an interruption is no rule */

size_t ab_proc_parse(const char *text, size_t len, uint64_t *numbers, size_t count)
{
    size_t found = 0, i = 0;

    while (found < count) {
        uint64_t value = 0;
        size_t begin;

        while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n'))
            i++;
        for (begin = i; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
                return found;
        }
        if (i == begin)
            return found;
        numbers[found++] = value;
    }
    return found;
}

size_t ab_proc_read(const char *path, uint64_t *numbers, size_t count)
{
    char text[128];
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    for (int tries = 0; tries < READ_TRIES; tries++) {
        got = read(fd, text, sizeof text);
        if (got >= 0 || errno != EINTR)
            break;
    }
    close(fd);
    return got > 0 ? ab_proc_parse(text, (size_t)got, numbers, count) : 0;
}

/* SPDX-License-Identifier: MIT */
#ifndef AB_OPTION_H
#define AB_OPTION_H

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* Linux 5.15 */
#endif

static inline int ab_get_int(int fd, int level, int option, int *value)
{
    socklen_t len = sizeof *value;

    return getsockopt(fd, level, option, value, &len) < 0 ? -errno : 0;
}

static inline int ab_set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) < 0 ? -errno : 0;
}

/* SO_MAX_PACING_RATE; UINT64_MAX: no limit. It has 32 bits before Linux 4.20 and on 32-bit kernels. */
static inline int ab_get_pacing(int fd, uint64_t *byte_per_s)
{
    union {
        uint64_t wide;
        uint32_t narrow;
    } value = {0};
    socklen_t len = sizeof value.wide;

    if (getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &value, &len) < 0)
        return -errno;
    if (len == sizeof value.narrow)
        *byte_per_s = value.narrow == UINT32_MAX ? UINT64_MAX : value.narrow;
    else
        *byte_per_s = value.wide;
    return 0;
}

/* A rate in bit/s as that option; UINT64_MAX: no limit. */
static inline uint64_t ab_pacing_byte_per_s(uint64_t bit_per_s)
{
    if (bit_per_s == UINT64_MAX)
        return UINT64_MAX;
    return bit_per_s < 8 ? 1 : bit_per_s / 8;
}

#endif

/* SPDX-License-Identifier: MIT */
/* Socket options, read. */
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

/* SO_MAX_PACING_RATE; UINT64_MAX: no limit. */
static inline int ab_get_pacing(int fd, uint64_t *byte_per_s)
{
    socklen_t len = sizeof *byte_per_s;

    return getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, byte_per_s, &len) < 0 ? -errno : 0;
}

#endif

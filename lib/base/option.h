/* SPDX-License-Identifier: MIT */
/* Socket options that are an int. */
#ifndef AB_OPTION_H
#define AB_OPTION_H

#include <errno.h>
#include <sys/socket.h>

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* Linux 5.15 */
#endif

static inline int ab_get_int(int fd, int level, int option, int *value)
{
    socklen_t len = sizeof *value;

    return getsockopt(fd, level, option, value, &len) < 0 ? -errno : 0;
}

#endif

/* SPDX-License-Identifier: MIT */
#ifndef CLOCK_H
#define CLOCK_H

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <autobuf/error.h>

#define NS_PER_S 1000000000ULL

/* How long it is until then, for ppoll(2). */
static inline struct timespec time_until(uint64_t until_ns)
{
    uint64_t now_ns = autobuf_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;

    return (struct timespec){(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
}

/* Waits for one of these, at most until then. 0, -errno. */
static inline int wait_any(struct pollfd *fds, size_t count, uint64_t until_ns)
{
    struct timespec t = time_until(until_ns);

    return ppoll(fds, (nfds_t)count, &t, NULL) < 0 && errno != EINTR ? -errno : 0;
}

/* Waits for poll(2) events, at most until then. 0, -errno. */
static inline int wait_for(int fd, int events, uint64_t until_ns)
{
    struct pollfd p = {fd, (short)events, 0};

    return wait_any(&p, 1, until_ns);
}

#endif

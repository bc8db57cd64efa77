/* SPDX-License-Identifier: MIT */
#include "clock.h"

#include <errno.h>
#include <time.h>

#include "base.h"

static uint64_t clock_read_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t); /* cannot fail for these two clocks */
    return (uint64_t)t.tv_sec * AB_NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t autobuf_now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t ab_clock_offset_ns(void)
{
    uint64_t best_width = UINT64_MAX, offset = 0;

    for (int i = 0; i < 4; i++) {
        uint64_t before = clock_read_ns(CLOCK_MONOTONIC);
        uint64_t real = clock_read_ns(CLOCK_REALTIME);
        uint64_t width = clock_read_ns(CLOCK_MONOTONIC) - before;

        if (width < best_width) {
            best_width = width;
            offset = real - (before + width / 2);
        }
    }
    return offset;
}

struct timespec ab_time_until(uint64_t until_ns)
{
    uint64_t now_ns = autobuf_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;

    return (struct timespec){(time_t)(left_ns / AB_NS_PER_S), (long)(left_ns % AB_NS_PER_S)};
}

int ab_wait_any(struct pollfd *fds, size_t count, uint64_t until_ns)
{
    struct timespec t = ab_time_until(until_ns);

    return ppoll(fds, (nfds_t)count, &t, NULL) < 0 && errno != EINTR ? -errno : 0;
}

int ab_wait(int fd, int events, uint64_t until_ns)
{
    struct pollfd p = {fd, (short)events, 0};

    return ab_wait_any(&p, 1, until_ns);
}

int ab_run(int fd, ab_step_fn *step, void *handle)
{
    uint64_t until_ns;
    int events, result;

    while ((result = step(handle, autobuf_now_ns(), &events, &until_ns)) == 0) {
        result = ab_wait(fd, events, until_ns);
        if (result < 0)
            break;
    }
    return result;
}

/* SPDX-License-Identifier: MIT */
#include "wait.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "base.h"
#include "clock.h"

int ab_wait(int fd, int events, uint64_t until_ns)
{
    uint64_t now_ns = autobuf_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec t = {(time_t)(left_ns / AB_NS_PER_S), (long)(left_ns % AB_NS_PER_S)};
    struct pollfd p = {fd, (short)events, 0};

    return ppoll(&p, 1, &t, NULL) < 0 && errno != EINTR ? -errno : 0;
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

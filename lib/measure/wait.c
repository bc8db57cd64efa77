/* SPDX-License-Identifier: MIT */
#include "wait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "../base/base.h"
#include "../base/clock.h"

#define STAMP_SLACK_NS (2 * AB_NS_PER_MS)
#define STAMP_AGE_NS (2 * AB_NS_PER_S)

int ab_wait(int fd, int events, uint64_t until_ns)
{
    uint64_t now_ns = ab_clock_monotonic_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec t = {(time_t)(left_ns / AB_NS_PER_S), (long)(left_ns % AB_NS_PER_S)};
    struct pollfd p = {fd, (short)events, 0};

    return ppoll(&p, 1, &t, NULL) < 0 && errno != EINTR ? -errno : 0;
}

uint64_t ab_stamp_ns(struct msghdr *message, int type, uint64_t *offset_ns)
{
    uint64_t now_ns = ab_clock_monotonic_ns();

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct timespec t; /* SCM_TIMESTAMPING has three, of which the first is the software's */
        uint64_t real_ns;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != type ||
            c->cmsg_len < CMSG_LEN(sizeof t))
            continue;
        memcpy(&t, CMSG_DATA(c), sizeof t);
        real_ns = (uint64_t)t.tv_sec * AB_NS_PER_S + (uint64_t)t.tv_nsec;
        for (int tries = 0; tries < 2; tries++) {
            int64_t age_ns = (int64_t)(now_ns - (real_ns - *offset_ns));

            if (age_ns > -(int64_t)STAMP_SLACK_NS && age_ns < (int64_t)STAMP_AGE_NS)
                return ab_min(now_ns, real_ns - *offset_ns);
            *offset_ns = ab_clock_offset_ns();
        }
    }
    return now_ns;
}

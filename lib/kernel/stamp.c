/* SPDX-License-Identifier: MIT */
#include "stamp.h"

#include <string.h>
#include <time.h>

#include "../base/base.h"
#include "../base/clock.h"

#define STAMP_SLACK_NS (2 * (int64_t)AB_NS_PER_MS)
#define STAMP_AGE_NS (2 * (int64_t)AB_NS_PER_S)

/* Setting the clock changes the offset; slewing changes it by less than the slack during a measurement. */
static void refresh_offset(uint64_t *offset_ns)
{
    uint64_t present_ns = ab_clock_offset_ns();
    int64_t off_ns = (int64_t)(present_ns - *offset_ns);

    if (off_ns > STAMP_SLACK_NS || off_ns < -STAMP_SLACK_NS)
        *offset_ns = present_ns;
}

uint64_t ab_stamp_ns(struct msghdr *message, int type, uint64_t *offset_ns)
{
    uint64_t now_ns = autobuf_now_ns();

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct timespec t; /* SCM_TIMESTAMPING has three, of which the first is the software's */
        uint64_t real_ns;
        int64_t age_ns;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != type ||
            c->cmsg_len < CMSG_LEN(sizeof t))
            continue;
        memcpy(&t, CMSG_DATA(c), sizeof t);
        real_ns = (uint64_t)t.tv_sec * AB_NS_PER_S + (uint64_t)t.tv_nsec;
        refresh_offset(offset_ns);
        age_ns = (int64_t)(now_ns - (real_ns - *offset_ns));
        if (age_ns > -STAMP_SLACK_NS && age_ns < STAMP_AGE_NS)
            return ab_min(now_ns, real_ns - *offset_ns);
    }
    return now_ns;
}

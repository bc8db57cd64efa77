/* SPDX-License-Identifier: MIT */
/* The only place that sets a buffer, clamp or pacing option on a caller's socket. */
#include <errno.h>
#include <sys/socket.h>

#include "../base/base.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* Linux 5.15 */
#endif

static int set_int(int fd, int option, uint64_t value)
{
    int n = value > 0x3fffffff ? 0x3fffffff : (int)value;

    return setsockopt(fd, SOL_SOCKET, option, &n, sizeof n) < 0 ? -errno : 0;
}

/* Clears one side's lock, which gives it back to autotuning. */
static int unlock_side(int fd, uint32_t lock)
{
    int locks = 0;
    socklen_t len = sizeof locks;

    if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locks, &len) < 0)
        return -errno;
    return set_int(fd, SO_BUF_LOCK, (uint32_t)locks & ~lock);
}

static int apply_snd(int fd, const struct autobuf_plan *plan)
{
    if (plan->flags & AUTOBUF_PLAN_SND_UNLOCK)
        return unlock_side(fd, AUTOBUF_LOCK_SND);
    if (!plan->snd_request_bytes)
        return 0;
    return set_int(fd, plan->flags & AUTOBUF_PLAN_SND_FORCE ? SO_SNDBUFFORCE : SO_SNDBUF,
                   plan->snd_request_bytes);
}

static int apply_rcv(int fd, const struct autobuf_plan *plan)
{
    if (plan->flags & AUTOBUF_PLAN_RCV_UNLOCK)
        return unlock_side(fd, AUTOBUF_LOCK_RCV);
    if (!plan->rcv_request_bytes)
        return 0;
    return set_int(fd, SO_RCVBUF, plan->rcv_request_bytes);
}

static int apply_pacing(int fd, uint64_t bit_per_s)
{
    uint64_t byte_per_s = ab_max(bit_per_s / 8, 1);

    if (!bit_per_s)
        return 0;
    return setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &byte_per_s, sizeof byte_per_s) < 0
               ? -errno
               : 0;
}

/* The receive side as it was, if this plan changed it. Size first, for setting it locks. */
static void put_back_rcv(int fd, const struct autobuf_plan *plan, const struct autobuf_socket *was)
{
    if (!plan->rcv_request_bytes && !(plan->flags & AUTOBUF_PLAN_RCV_UNLOCK))
        return;
    if (plan->rcv_request_bytes && set_int(fd, SO_RCVBUFFORCE, was->rcv_buf_bytes / 2) < 0)
        set_int(fd, SO_RCVBUF, was->rcv_buf_bytes / 2);
    set_int(fd, SO_BUF_LOCK, was->locks);
}

int autobuf_apply(int fd, const struct autobuf_plan *theirs)
{
    struct autobuf_plan plan;
    struct autobuf_socket was = AUTOBUF_SOCKET_INIT;
    uint64_t pacing_was = 0;
    socklen_t len = sizeof pacing_was;
    int error;

    if (!ab_struct_in(&plan, sizeof plan, theirs))
        return -EINVAL;
    error = autobuf_limits_socket(fd, &was);
    if (error < 0)
        return error;
    if (ab_is_off() || (!plan.snd_request_bytes && !plan.rcv_request_bytes &&
                        !plan.snd_pacing_bit_per_s &&
                        !(plan.flags & (AUTOBUF_PLAN_SND_UNLOCK | AUTOBUF_PLAN_RCV_UNLOCK))))
        return 0;
    if (was.stage == AUTOBUF_STAGE_CONNECTED && plan.rcv_request_bytes)
        return -EINVAL; /* the plan was made for another socket: its window clamp would stay behind */
    if (getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &pacing_was, &len) < 0)
        return -errno;
    /* Each call that fails changes nothing itself: only what went before it is put back. */
    error = apply_pacing(fd, plan.snd_pacing_bit_per_s);
    if (error < 0)
        return error;
    error = apply_rcv(fd, &plan);
    if (error == 0) {
        error = apply_snd(fd, &plan);
        if (error < 0)
            put_back_rcv(fd, &plan, &was);
    }
    if (error < 0 && plan.snd_pacing_bit_per_s)
        setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &pacing_was, sizeof pacing_was);
    return error < 0 ? error : 1;
}

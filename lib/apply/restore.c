/* SPDX-License-Identifier: MIT */
#include "restore.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <linux/tcp.h>

#include "../base/option.h"
#include "../kernel/socket.h"

int ab_set_int(int fd, int level, int option, uint64_t value)
{
    return ab_set_option(fd, level, option, (int)ab_min(value, AB_REQUEST_MAX));
}

int ab_set_pacing(int fd, uint64_t byte_per_s)
{
    uint32_t narrow = (uint32_t)ab_min(byte_per_s, UINT32_MAX);
    uint64_t now;
    socklen_t len = sizeof now;
    bool is_wide = getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &now, &len) == 0 && len == sizeof now;

    return setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, is_wide ? (void *)&byte_per_s : &narrow,
                      is_wide ? sizeof byte_per_s : sizeof narrow) < 0
               ? -errno
               : 0;
}

int ab_open_clamp(int fd)
{
    int error = ab_set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, 0);

    /* A listener refuses 0. */
    return error == -EINVAL ? ab_set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, AB_NO_CLAMP) : error;
}

int ab_set_size(int fd, int option, uint64_t bytes)
{
    int side = option == SO_SNDBUF ? AUTOBUF_LOCK_SND : AUTOBUF_LOCK_RCV, locks;

    if (ab_get_int(fd, SOL_SOCKET, SO_BUF_LOCK, &locks) == 0 && !(locks & side))
        (void)ab_set_int(fd, SOL_SOCKET, SO_BUF_LOCK, (uint32_t)(locks | side));
    return ab_set_int(fd, SOL_SOCKET, option, bytes);
}

/* Sets no size that has not changed, which would lock it. The old size may need SO_*BUFFORCE. */
static int restore_size(int fd, int option, int force_option, uint64_t sk_buf)
{
    uint64_t sk_sndbuf, sk_rcvbuf;
    int error = ab_socket_sizes(fd, &sk_sndbuf, &sk_rcvbuf);

    if (error < 0 || (option == SO_SNDBUF ? sk_sndbuf : sk_rcvbuf) == sk_buf)
        return error;
    return ab_set_int(fd, SOL_SOCKET, force_option, sk_buf / 2) == 0 ? 0 : ab_set_size(fd, option, sk_buf / 2);
}

static int restore_clamp(int fd, uint32_t clamp_bytes)
{
    return clamp_bytes ? ab_set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, clamp_bytes) : ab_open_clamp(fd);
}

int autobuf_settings_read(int fd, struct autobuf_settings *theirs)
{
    struct autobuf_settings ours = AUTOBUF_SETTINGS_INIT;
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    int clamp = 0, notsent = 0, error = autobuf_socket_state(fd, &socket);

    if (error == 0)
        error = ab_get_pacing(fd, &ours.pacing_byte_per_s);
    if (error == 0)
        error = ab_get_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &notsent);
    if (error == 0)
        error = ab_get_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp);
    if (error < 0)
        return error;
    ours.snd_buf_bytes = socket.snd_buf_bytes;
    ours.rcv_buf_bytes = socket.rcv_buf_bytes;
    ours.locks = socket.locks;
    ours.notsent_bytes = (uint32_t)notsent;
    ours.rcv_clamp_bytes = (uint32_t)clamp;
    return ab_struct_out(theirs, &ours, sizeof ours) ? 0 : -EINVAL;
}

static void keep_first(int *first, int error)
{
    if (*first == 0)
        *first = error;
}

/* Of the buffers these sides, and whatever else is not as it was. Returns the first error. */
static int restore(int fd, const struct autobuf_settings *was, const struct autobuf_settings *now, uint32_t sides)
{
    int error = 0, locks_error = 0;

    if (sides & AUTOBUF_LOCK_SND)
        keep_first(&error, restore_size(fd, SO_SNDBUF, SO_SNDBUFFORCE, was->snd_buf_bytes));
    if (sides & AUTOBUF_LOCK_RCV)
        keep_first(&error, restore_size(fd, SO_RCVBUF, SO_RCVBUFFORCE, was->rcv_buf_bytes));
    if (was->locks != now->locks)
        locks_error = ab_set_int(fd, SOL_SOCKET, SO_BUF_LOCK, was->locks);
    if (locks_error != -ENOPROTOOPT || now->locks & ~was->locks) /* else the sizes have locked them */
        keep_first(&error, locks_error);
    /* A window that autotuning opened is not made smaller. */
    if (was->rcv_clamp_bytes != now->rcv_clamp_bytes &&
        (sides & AUTOBUF_LOCK_RCV || !was->rcv_clamp_bytes || now->rcv_clamp_bytes < was->rcv_clamp_bytes))
        keep_first(&error, restore_clamp(fd, was->rcv_clamp_bytes));
    if (was->notsent_bytes != now->notsent_bytes)
        keep_first(&error, ab_set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, was->notsent_bytes));
    if (was->pacing_byte_per_s != now->pacing_byte_per_s)
        keep_first(&error, ab_set_pacing(fd, was->pacing_byte_per_s));
    return error;
}

int ab_restore(int fd, const struct autobuf_settings *was, uint32_t sides)
{
    struct autobuf_settings now = AUTOBUF_SETTINGS_INIT;
    int error = autobuf_settings_read(fd, &now);

    return error < 0 ? error : restore(fd, was, &now, sides);
}

int autobuf_settings_restore(int fd, const struct autobuf_settings *theirs)
{
    struct autobuf_settings was, now = AUTOBUF_SETTINGS_INIT;
    uint32_t sides;
    int error, locks;

    if (!ab_struct_in(&was, sizeof was, theirs) || was.locks & ~(AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV) ||
        !was.snd_buf_bytes || !was.rcv_buf_bytes)
        return -EINVAL;
    error = autobuf_settings_read(fd, &now);
    if (error < 0 || autobuf_is_off())
        return error;
    /* A side that autotuning has now, and had then, is as it was. Before Linux 5.15 a lock cannot be cleared. */
    sides = was.locks | (now.locks & AUTOBUF_LOCK_SND);
    if (now.locks & ~was.locks && ab_get_int(fd, SOL_SOCKET, SO_BUF_LOCK, &locks) < 0)
        sides = 0;
    return restore(fd, &was, &now, sides);
}

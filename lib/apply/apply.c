/* SPDX-License-Identifier: MIT */
/* The only place that sets a buffer, clamp or pacing option on a caller's socket. */
#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "../base/option.h"
#include "../kernel/limits.h"
#include "../kernel/proc.h"
#include "../kernel/socket.h"
#include "../plan/plan.h"
#include "notsent.h"
#include "window.h"

#define FIRST_STEP 4U /* times the buffer: twice may arrive in a round trip by chance; tests/net/test_window.py */
#define REQUEST_MAX 0x3fffffffU /* largest request: the kernel doubles it into an int */
#define NO_CLAMP 0x3fffffff     /* above the window of any window scale */

struct before {
    struct autobuf_socket socket;
    struct autobuf_settings settings;
};

/* Sets an option of type int. Returns 0, or a negative errno. */
static int set_int(int fd, int level, int option, uint64_t value)
{
    return ab_set_option(fd, level, option, (int)ab_min(value, REQUEST_MAX));
}

/* SO_MAX_PACING_RATE has 32 bits in some kernels. UINT64_MAX: no limit. */
static int set_pacing(int fd, uint64_t byte_per_s)
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

/* Removes the window clamp. A listener refuses 0. */
static int open_clamp(int fd)
{
    int error = set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, 0);

    return error == -EINVAL ? set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, NO_CLAMP) : error;
}

/* SO_SNDBUF or SO_RCVBUF. Locks that side before: autobufd withholds small sizes of sides that are not locked. */
static int set_size(int fd, int option, uint64_t bytes)
{
    int side = option == SO_SNDBUF ? AUTOBUF_LOCK_SND : AUTOBUF_LOCK_RCV, locks;

    if (ab_get_int(fd, SOL_SOCKET, SO_BUF_LOCK, &locks) == 0 && !(locks & side))
        (void)set_int(fd, SOL_SOCKET, SO_BUF_LOCK, (uint32_t)(locks | side));
    return set_int(fd, SOL_SOCKET, option, bytes);
}

/* Sets no size that has not changed, which would lock it. The old size may need SO_*BUFFORCE. */
static int restore_size(int fd, int option, int force_option, uint64_t sk_buf)
{
    uint64_t sk_sndbuf, sk_rcvbuf;
    int error = ab_socket_sizes(fd, &sk_sndbuf, &sk_rcvbuf);

    if (error < 0 || (option == SO_SNDBUF ? sk_sndbuf : sk_rcvbuf) == sk_buf)
        return error;
    return set_int(fd, SOL_SOCKET, force_option, sk_buf / 2) == 0 ? 0 : set_size(fd, option, sk_buf / 2);
}

static int restore_clamp(int fd, uint32_t clamp_bytes)
{
    return clamp_bytes ? set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, clamp_bytes) : open_clamp(fd);
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

/* A clamp that is narrower than what autotuning has opened is one that somebody has set. */
static uint32_t clamp_of(const struct autobuf_settings *was, const struct autobuf_settings *now)
{
    bool grown = !(was->locks & AUTOBUF_LOCK_RCV) && now->rcv_buf_bytes > was->rcv_buf_bytes;
    uint64_t opened = grown ? ab_min(AB_RCV_WINDOW(now->rcv_buf_bytes), REQUEST_MAX) : 0;

    return was->rcv_clamp_bytes ? (uint32_t)ab_max(was->rcv_clamp_bytes, opened) : 0;
}

/* Of the buffers these sides, and whatever else is not as it was. Returns the first error. */
static int restore(int fd, const struct autobuf_settings *was, const struct autobuf_settings *now, uint32_t sides)
{
    uint32_t clamp_bytes = clamp_of(was, now);
    int error = 0, locks_error = 0;

    if (sides & AUTOBUF_LOCK_SND)
        keep_first(&error, restore_size(fd, SO_SNDBUF, SO_SNDBUFFORCE, was->snd_buf_bytes));
    if (sides & AUTOBUF_LOCK_RCV)
        keep_first(&error, restore_size(fd, SO_RCVBUF, SO_RCVBUFFORCE, was->rcv_buf_bytes));
    if (was->locks != now->locks)
        locks_error = set_int(fd, SOL_SOCKET, SO_BUF_LOCK, was->locks);
    if (locks_error != -ENOPROTOOPT || now->locks & ~was->locks) /* else the sizes have locked them */
        keep_first(&error, locks_error);
    /* A window that autotuning opened is not made smaller. */
    if (clamp_bytes != now->rcv_clamp_bytes &&
        (sides & AUTOBUF_LOCK_RCV || !clamp_bytes || now->rcv_clamp_bytes < clamp_bytes))
        keep_first(&error, restore_clamp(fd, clamp_bytes));
    if (was->notsent_bytes != now->notsent_bytes)
        keep_first(&error, ab_set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)was->notsent_bytes)); /* -1 too */
    if (was->pacing_byte_per_s != now->pacing_byte_per_s)
        keep_first(&error, set_pacing(fd, was->pacing_byte_per_s));
    return error;
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

/* Undoes what has changed; of the buffers only these sides. */
static void undo(int fd, const struct before *was, uint32_t sides)
{
    struct autobuf_settings now = AUTOBUF_SETTINGS_INIT;

    if (autobuf_settings_read(fd, &now) == 0)
        (void)restore(fd, &was->settings, &now, sides);
}

/* Gives sides back to autotuning. */
static int unlock_sides(int fd, uint32_t sides)
{
    int locks = 0, error = ab_get_int(fd, SOL_SOCKET, SO_BUF_LOCK, &locks);

    return error < 0 ? error : set_int(fd, SOL_SOCKET, SO_BUF_LOCK, (uint32_t)locks & ~sides);
}

/* The window clamp that SO_RCVBUF also sets from Linux 7.1 on; 0: none. */
static int clamp_set_with_size(uint64_t sk_rcvbuf)
{
    int fd = ab_socket_scratch(), clamp = 0;

    if (fd < 0)
        return 0;
    if (set_size(fd, SO_RCVBUF, sk_rcvbuf / 2) < 0 ||
        ab_get_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp) < 0)
        clamp = 0;
    close(fd);
    return clamp;
}

/*
 * Autotuning enlarges a receive buffer once the program reads more in a round trip than ever before
 * (tcp_rcv_space_adjust()). Behind a small buffer that happens by chance only; so it is multiplied first, within
 * net.core.rmem_max and what the window scale allows, and autotuning goes on from there.
 */
static int enlarge_before_unlock(int fd, const struct autobuf_socket *was)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    int error = ab_limits_read(&limits);
    uint64_t most = ab_min(2 * limits.rcv_settable_bytes, limits.tcp_rmem_max_bytes), sk_buf;

    if (was->rcv_window_max_bytes)
        most = ab_min(most, AB_RCV_STORED(was->rcv_window_max_bytes));
    sk_buf = ab_min(FIRST_STEP * was->rcv_buf_bytes, most);
    return error < 0 || sk_buf <= was->rcv_buf_bytes ? error : set_size(fd, SO_RCVBUF, sk_buf / 2);
}

/* A window clamp that the program set before connecting stays. */
static int unlock_rcv(int fd, const struct autobuf_socket *was)
{
    bool connected = was->stage == AUTOBUF_STAGE_CONNECTED;
    int clamp = 0, error = connected ? enlarge_before_unlock(fd, was) : 0;

    if (error == 0)
        error = unlock_sides(fd, AUTOBUF_LOCK_RCV);
    if (error == 0 && !connected)
        error = ab_get_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp);
    if (error < 0 || !clamp || clamp != clamp_set_with_size(was->rcv_buf_bytes))
        return error;
    return open_clamp(fd);
}

static int read_before(int fd, struct before *was)
{
    int error;

    was->socket = (struct autobuf_socket)AUTOBUF_SOCKET_INIT;
    was->settings = (struct autobuf_settings)AUTOBUF_SETTINGS_INIT;
    error = autobuf_socket_state(fd, &was->socket);
    return error < 0 ? error : autobuf_settings_read(fd, &was->settings);
}

/* The sides that a plan changes. */
static uint32_t sides_of(const struct autobuf_plan *plan)
{
    bool snd = plan->snd_request_bytes || plan->flags & AUTOBUF_PLAN_SND_UNLOCK;
    bool rcv = plan->rcv_request_bytes || plan->rcv_clamp_bytes || plan->flags & AUTOBUF_PLAN_RCV_UNLOCK;

    return (snd ? AUTOBUF_LOCK_SND : 0) | (rcv ? AUTOBUF_LOCK_RCV : 0);
}

static uint64_t host_notsent(void)
{
    uint64_t bytes;

    return ab_proc_read("/proc/sys/net/ipv4/tcp_notsent_lowat", &bytes, 1) == 1 ? bytes : UINT64_MAX;
}

/* A smaller TCP_NOTSENT_LOWAT stays, of the program or of net.ipv4.tcp_notsent_lowat. */
static int limit_notsent(int fd, const struct autobuf_plan *plan, const struct before *was)
{
    uint64_t now = was->settings.notsent_bytes ? was->settings.notsent_bytes : host_notsent();
    uint64_t held = plan->intent & AUTOBUF_INTENT_LOW_DELAY ? 0 : was->socket.snd_buf_bytes;
    uint64_t most = ab_max(AB_NOTSENT_BYTES, held);

    return now <= most ? 0 : set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, most);
}

int ab_apply_notsent(int fd, uint64_t ours, uint64_t bytes)
{
    int now, error = ab_get_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &now);

    bytes = ab_min(bytes, host_notsent());
    if (autobuf_is_off() || error < 0 || (uint32_t)now != ours || bytes <= ours)
        return error;
    error = set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes);
    return error < 0 ? error : 1;
}

/* Back at a clamp of before, or as wide as autotuning would have opened it. */
static uint64_t clamp_before(const struct ab_window *w, const struct autobuf_settings *now)
{
    return w->own ? w->before_bytes : ab_max(w->before_bytes, now->rcv_buf_bytes);
}

int ab_apply_window(int fd, struct ab_window *w, uint64_t bytes)
{
    struct autobuf_settings now = AUTOBUF_SETTINGS_INIT;
    int error = autobuf_settings_read(fd, &now);
    bool locked, locks = bytes && bytes <= AB_RCV_WINDOW(now.rcv_buf_bytes);

    if (error < 0 || autobuf_is_off())
        return error;
    locked = now.locks & AUTOBUF_LOCK_RCV;
    if (!w->before_bytes) {
        w->before_bytes = now.rcv_clamp_bytes;
        w->own = locked;
    }
    if (locks && !locked) {
        error = set_int(fd, SOL_SOCKET, SO_BUF_LOCK, now.locks | AUTOBUF_LOCK_RCV);
        w->locked = error == 0;
    }
    bytes = bytes ? ab_min(bytes, w->own ? w->before_bytes : UINT64_MAX) : clamp_before(w, &now);
    if (error == 0 && bytes != now.rcv_clamp_bytes)
        error = set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, bytes);
    if (error == 0 && !locks && w->locked) { /* last: autobufd sets what it has withheld at a clamp without a lock */
        error = set_int(fd, SOL_SOCKET, SO_BUF_LOCK, now.locks & ~(uint32_t)AUTOBUF_LOCK_RCV);
        w->locked = error < 0;
    }
    return error;
}

/* Requests a side's size, if there is one. Returns 0; AUTOBUF_E_CLAMPED: the kernel granted less; a negative errno. */
static int request(int fd, const struct autobuf_plan *plan, bool receives)
{
    bool forces = plan->flags & (receives ? AUTOBUF_PLAN_RCV_FORCE : AUTOBUF_PLAN_SND_FORCE);
    uint64_t bytes = receives ? plan->rcv_request_bytes : plan->snd_request_bytes, sizes[2];
    int error;

    if (!bytes)
        return 0;
    error = forces ? set_int(fd, SOL_SOCKET, receives ? SO_RCVBUFFORCE : SO_SNDBUFFORCE, bytes)
                   : set_size(fd, receives ? SO_RCVBUF : SO_SNDBUF, bytes);
    if (error == 0)
        error = ab_socket_sizes(fd, &sizes[0], &sizes[1]);
    if (error < 0)
        return error;
    return sizes[receives] / 2 < ab_min(bytes, REQUEST_MAX) ? AUTOBUF_E_CLAMPED : 0;
}

static int apply_snd(int fd, const struct autobuf_plan *plan, const struct before *was)
{
    int error = 0;

    if (plan->flags & AUTOBUF_PLAN_SND_UNLOCK)
        return unlock_sides(fd, AUTOBUF_LOCK_SND);
    if (!plan->snd_request_bytes)
        return 0;
    if (2 * plan->snd_request_bytes > was->socket.snd_buf_bytes)
        error = limit_notsent(fd, plan, was);
    return error < 0 ? error : request(fd, plan, false);
}

static int apply_rcv(int fd, const struct autobuf_plan *plan, const struct before *was)
{
    int error = 0;

    if (plan->flags & AUTOBUF_PLAN_RCV_UNLOCK)
        error = unlock_rcv(fd, &was->socket);
    else
        error = request(fd, plan, true);
    if (error < 0 || !plan->rcv_clamp_bytes)
        return error;
    return set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, plan->rcv_clamp_bytes);
}

static int apply_pacing(int fd, uint64_t bit_per_s)
{
    return bit_per_s ? set_pacing(fd, ab_pacing_byte_per_s(bit_per_s)) : 0;
}

/*
 * Requests the sizes on a scratch socket first: if the kernel clamped them on the real one, the size that autotuning
 * reached could not be restored. Returns as request().
 */
static int kernel_grants(const struct autobuf_plan *plan)
{
    int scratch, error;

    if (!plan->snd_request_bytes && !plan->rcv_request_bytes)
        return 0;
    scratch = ab_socket_scratch();
    if (scratch < 0)
        return 0; /* a failure shows later */
    error = request(scratch, plan, false);
    if (error == 0)
        error = request(scratch, plan, true);
    close(scratch);
    return error;
}

int autobuf_apply(int fd, const struct autobuf_plan *theirs)
{
    struct autobuf_plan plan;
    struct before was;
    int error;

    if (!ab_struct_in(&plan, sizeof plan, theirs))
        return -EINVAL;
    error = read_before(fd, &was);
    if (error < 0)
        return error;
    if (autobuf_is_off() || (!sides_of(&plan) && !plan.snd_pacing_bit_per_s))
        return 0;
    if (was.socket.stage == AUTOBUF_STAGE_CONNECTED && plan.rcv_request_bytes &&
        (!plan.rcv_clamp_bytes || 2 * plan.rcv_request_bytes + 1 < was.socket.rcv_buf_bytes))
        return -EINVAL; /* a plan for another socket: the window would shrink */
    error = kernel_grants(&plan);
    if (error < 0)
        return error;
    error = apply_rcv(fd, &plan, &was);
    if (error == 0)
        error = apply_snd(fd, &plan, &was);
    if (error == 0) /* last: a connection that was paced once stays paced */
        error = apply_pacing(fd, plan.snd_pacing_bit_per_s);
    if (error < 0)
        undo(fd, &was, sides_of(&plan));
    return error < 0 ? error : 1;
}

static bool window_scale_is_bottleneck(const struct autobuf_socket *socket)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;

    return ab_limits_read(&limits) == 0 && AB_RCV_WINDOW(limits.tcp_rmem_max_bytes) > socket->rcv_window_max_bytes;
}

int autobuf_unlock(int fd, uint32_t sides)
{
    struct before was;
    int error = read_before(fd, &was), locks;
    bool reopens;

    if (error < 0)
        return error;
    if (sides & ~(AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV))
        return -EINVAL;
    if (autobuf_is_off())
        return 0;
    error = ab_get_int(fd, SOL_SOCKET, SO_BUF_LOCK, &locks);
    if (error < 0)
        return error;
    sides &= was.socket.locks;
    if (!sides)
        return 0;
    error = sides & AUTOBUF_LOCK_SND ? unlock_sides(fd, AUTOBUF_LOCK_SND) : 0;
    if (error == 0 && sides & AUTOBUF_LOCK_RCV)
        error = unlock_rcv(fd, &was.socket);
    reopens = sides & AUTOBUF_LOCK_RCV && was.socket.stage == AUTOBUF_STAGE_CONNECTED;
    if (error == 0 && reopens) /* the kernel keeps the small buffer's clamp */
        error = set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, NO_CLAMP);
    if (error < 0) {
        undo(fd, &was, sides);
        return error;
    }
    if (!reopens)
        return (int)sides;
    return (int)(window_scale_is_bottleneck(&was.socket) ? sides | AUTOBUF_UNLOCK_LATE : sides);
}

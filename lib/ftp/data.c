/* SPDX-License-Identifier: MIT */
/* autobuf_ftp_data_*(): the data connection. */
#include "ftp.h"

#include <errno.h>
#include <unistd.h>

#include "../base/address.h"
#include "../base/clock.h"
#include "../live/live.h"
#include "../plan/plan.h"


static bool is_control_peer(const struct autobuf_ftp *f, const struct sockaddr *peer, socklen_t len)
{
    struct sockaddr_storage copy;

    return ab_address_copy(peer, len, &copy) > 0 && ab_address_same(&copy, &f->peer);
}

/* 1: the control connection's peer; 0: another host, or not connected. */
static bool is_connected_to_peer(const struct autobuf_ftp *f, int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;

    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
           is_control_peer(f, (struct sockaddr *)&peer, len);
}

/* Plans for the windows that the path is known to need, and applies it. */
static int set_windows(const struct autobuf_ftp *f, int fd, uint32_t direction,
                       uint64_t expected_bytes)
{
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    struct autobuf_limits limits;
    struct autobuf_plan plan;
    int error = autobuf_socket_state(fd, &socket);

    if (error == 0)
        error = ab_ftp_limits(f, &limits);
    if (error < 0)
        return error;
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, direction == AB_FTP_BOTH ? 0 : direction, &plan);
    plan.rtt_ns = f->rtt_ns;
    ab_plan_windows(direction & AUTOBUF_INTENT_SENDS ? f->snd_wanted_bytes : 0,
                    direction & AUTOBUF_INTENT_RECEIVES ? f->rcv_wanted_bytes : 0, &limits, &socket,
                    expected_bytes, &plan);
    ab_plan_log(&plan, &f->log);
    return autobuf_apply(fd, &plan);
}

static bool is_direction(uint32_t direction)
{
    return direction != 0 && (direction & ~AB_FTP_BOTH) == 0;
}

int autobuf_ftp_data_begin(struct autobuf_ftp *f, int fd, const struct sockaddr *peer,
                           socklen_t peer_len, uint32_t direction, uint64_t expected_bytes)
{
    int result;

    if (!is_direction(direction))
        return -EINVAL;
    if (f->owner != getpid())
        return AUTOBUF_E_FORKED;
    autobuf_ftp_data_end(f);
    if (peer && !is_control_peer(f, peer, peer_len)) {
        ab_log(&f->log, "the data go to another host: nothing is known of that path");
        return 0;
    }
    if (!peer)
        direction &= AUTOBUF_INTENT_RECEIVES; /* who will connect is not known yet */
    if (!(direction & AUTOBUF_INTENT_SENDS && f->snd_wanted_bytes) &&
        !(direction & AUTOBUF_INTENT_RECEIVES && f->rcv_wanted_bytes))
        return 0;
    result = set_windows(f, fd, direction, expected_bytes);
    f->listener_set = !peer && result == 1;
    return result;
}

/* A connection that takes after its listener, of a peer for whom that was not meant. */
static int unset_listener(struct autobuf_ftp *f, int fd)
{
    int result;

    ab_log(&f->log, "the data go to another host: nothing is known of that path");
    if (!f->listener_set)
        return 0;
    result = autobuf_unlock(fd, AUTOBUF_LOCK_RCV);
    return result < 0 ? result : result > 0;
}

int autobuf_ftp_data_connected(struct autobuf_ftp *f, int fd, uint32_t direction,
                               uint64_t expected_bytes)
{
    struct autobuf_live_options options = AUTOBUF_LIVE_OPTIONS_INIT;
    struct autobuf_limits limits;
    int result = 0;

    if (!is_direction(direction))
        return -EINVAL;
    if (f->owner != getpid())
        return AUTOBUF_E_FORKED;
    autobuf_live_close(f->live);
    f->live = NULL;
    if (!is_connected_to_peer(f, fd))
        result = unset_listener(f, fd);
    else if (direction & AUTOBUF_INTENT_SENDS && f->snd_wanted_bytes)
        result = set_windows(f, fd, AUTOBUF_INTENT_SENDS, expected_bytes);
    f->listener_set = false;
    if (result < 0 || (expected_bytes && expected_bytes <= AB_SHORT_BYTES))
        return result;
    options.intent = direction == AB_FTP_BOTH ? 0 : direction;
    options.log = f->options.log;
    options.log_user = f->options.log_user;
    if (ab_ftp_limits(f, &limits) == 0)
        ab_live_open(&f->live, fd, &options, &limits); /* without it, it is as it was */
    return result;
}

int autobuf_ftp_data_step(struct autobuf_ftp *f)
{
    int result;

    if (!f->live)
        return 0;
    result = autobuf_live_step(f->live, autobuf_now_ns());
    if (result >= 0)
        return result;
    autobuf_live_close(f->live);
    f->live = NULL;
    return 0;
}

uint64_t autobuf_ftp_data_deadline_ns(const struct autobuf_ftp *f)
{
    return f->live ? autobuf_live_deadline_ns(f->live) : AUTOBUF_NS_UNSET;
}

void autobuf_ftp_data_end(struct autobuf_ftp *f)
{
    autobuf_live_close(f->live);
    f->live = NULL;
    f->listener_set = false;
}

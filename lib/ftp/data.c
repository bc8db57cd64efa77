/* SPDX-License-Identifier: MIT */
/* autobuf_ftp_data_*(): the data connection. */
#include "ftp.h"

#include <errno.h>
#include <unistd.h>

#include "../base/address.h"
#include "../flow/flow.h"

static bool is_control_peer(const struct autobuf_ftp *f, const struct sockaddr *peer, socklen_t len)
{
    struct sockaddr_storage copy;

    return ab_address_copy(peer, len, &copy) > 0 && ab_address_same(&copy, &f->peer);
}

static bool is_connected_to_peer(const struct autobuf_ftp *f, int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;

    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && is_control_peer(f, (struct sockaddr *)&peer, len);
}

/* Whether the flow of the data connection may measure the path beside its data. */
static bool may_measure(const struct autobuf_ftp *f, uint32_t direction)
{
    return direction == AUTOBUF_INTENT_SENDS && !f->snd_wanted_bytes && f->may_probe && !f->probe_failed;
}

/* Opens a flow with the known windows; for an upload on an unknown path, one that measures. As autobuf_flow_open(). */
static int open_flow(struct autobuf_ftp *f, int fd, uint32_t direction, uint64_t expected_bytes)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct ab_windows windows = {f->snd_wanted_bytes, f->rcv_wanted_bytes, f->rtt_ns, f->flags};
    struct autobuf_limits limits;
    bool measures = may_measure(f, direction);
    int error = ab_ftp_limits(f, &limits);

    if (error < 0)
        return error;
    options.intent = f->options.intent | (direction == AB_FTP_BOTH ? 0 : direction);
    options.expected_bytes = expected_bytes;
    options.flags = measures ? 0 : AUTOBUF_FLOW_SILENT;
    options.most_bytes = f->options.most_bytes;
    options.limits = &limits;
    options.log = f->options.log;
    options.log_user = f->options.log_user;
    return ab_flow_open(&f->flow, fd, NULL, 0, &options, measures ? NULL : &windows);
}

static void learn_from_flow(struct autobuf_ftp *f)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.path = &path;
    if (!f->flow || autobuf_flow_state(f->flow, &applied) < 0)
        return;
    if (applied.measured > 0)
        ab_ftp_learn(f, AUTOBUF_INTENT_SENDS, &path);
    /* The next file does not try again. */
    if (applied.measured < 0 || (applied.measured > 0 && !f->snd_wanted_bytes))
        f->probe_failed = true;
}

static void close_flow(struct autobuf_ftp *f)
{
    learn_from_flow(f);
    autobuf_flow_close(f->flow);
    f->flow = NULL;
}

static uint32_t changes_of(const struct autobuf_flow *flow)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    return autobuf_flow_state(flow, &applied) == 0 ? applied.changes : 0;
}

static int check_direction(const struct autobuf_ftp *f, uint32_t direction)
{
    if (!f || !direction || direction & ~AB_FTP_BOTH)
        return -EINVAL;
    return f->owner == getpid() ? 0 : AUTOBUF_E_FORKED;
}

int autobuf_ftp_data_begin(struct autobuf_ftp *f, int fd, const struct sockaddr *peer,
                           socklen_t peer_len, uint32_t direction, uint64_t expected_bytes)
{
    int result = check_direction(f, direction);

    if (result < 0)
        return result;
    autobuf_ftp_data_end(f);
    if (peer && !is_control_peer(f, peer, peer_len)) {
        ab_log(&f->log, "the data connection goes to another host, whose path is not known");
        return 0;
    }
    if (!peer)
        direction &= AUTOBUF_INTENT_RECEIVES; /* the peer is not known yet */
    if (!(direction & AUTOBUF_INTENT_SENDS && f->snd_wanted_bytes) &&
        !(direction & AUTOBUF_INTENT_RECEIVES && f->rcv_wanted_bytes))
        return 0;
    result = open_flow(f, fd, direction, expected_bytes);
    if (result < 0)
        return result;
    result = changes_of(f->flow) > 0;
    f->listener_set = !peer && result == 1;
    return result;
}

/* The connection inherited the listener's receive buffer, but has another peer: gives it back to autotuning. */
static int unset_listener(struct autobuf_ftp *f, int fd)
{
    int result;

    ab_log(&f->log, "the data connection goes to another host, whose path is not known");
    if (!f->listener_set)
        return 0;
    result = autobuf_unlock(fd, AUTOBUF_LOCK_RCV);
    return result < 0 ? result : result > 0;
}

int autobuf_ftp_data_connected(struct autobuf_ftp *f, int fd, uint32_t direction, uint64_t expected_bytes)
{
    int result = check_direction(f, direction);

    if (result < 0)
        return result;
    close_flow(f);
    if (is_connected_to_peer(f, fd))
        result = open_flow(f, fd, direction, expected_bytes);
    else
        result = unset_listener(f, fd);
    f->listener_set = false;
    return f->flow ? changes_of(f->flow) > 0 : result;
}

int autobuf_ftp_data_step(struct autobuf_ftp *f)
{
    int result;

    if (!f)
        return -EINVAL;
    result = f->flow ? autobuf_flow_step(f->flow, autobuf_now_ns()) : 0;
    if (result >= 0)
        return result;
    close_flow(f);
    return 0;
}

uint64_t autobuf_ftp_data_deadline_ns(const struct autobuf_ftp *f)
{
    return f && f->flow ? autobuf_flow_deadline_ns(f->flow) : AUTOBUF_NS_UNSET;
}

void autobuf_ftp_data_end(struct autobuf_ftp *f)
{
    if (!f)
        return;
    close_flow(f);
    f->listener_set = false;
}

/* SPDX-License-Identifier: MIT */
/* autobuf_tune(): measure, plan and apply, in one call. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "../base/base.h"
#include "../icmp/like.h"
#include "../plan/plan.h"

#define STREAMS_MOST 65535U

struct tuning {
    struct autobuf_options options;
    struct ab_log log;
    struct autobuf_path path;
    struct autobuf_limits limits;
    struct autobuf_socket socket;
    struct autobuf_plan plan;
    int measured;
};

static int measure_path(int fd, const struct sockaddr *peer, socklen_t peer_len,
                        const struct autobuf_probe_options *interest, struct tuning *t)
{
    struct autobuf_probe_options probe = *interest;
    int result;

    probe.budget_bytes = t->options.budget_bytes;
    probe.timeout_ns = t->options.timeout_ns;
    probe.mark = t->options.mark;
    if (!probe.timeout_ns) /* a peer that answers no echo is to cost little */
        probe.silence_ns = AB_SILENCE_NS;
    probe.log = t->options.log;
    probe.log_user = t->options.log_user;
    result = ab_probe_like(fd, peer, peer_len, &probe, &t->path);
    if (result == -EINVAL)
        return result;
    if (result < 0)
        ab_log(&t->log, "not measured: %s", autobuf_strerror(result));
    return result < 0 ? result : 1;
}

static int tune_measure(int fd, const struct sockaddr *peer, socklen_t peer_len, struct tuning *t)
{
    struct sockaddr_storage connected;
    socklen_t len = sizeof connected;
    struct autobuf_probe_options interest = AUTOBUF_PROBE_OPTIONS_INIT;
    uint64_t streams;
    int worth;

    if (!peer && t->socket.stage == AUTOBUF_STAGE_CONNECTED &&
        getpeername(fd, (struct sockaddr *)&connected, &len) == 0) {
        peer = (struct sockaddr *)&connected;
        peer_len = len;
    }
    streams = ab_max(t->options.streams, 1);
    worth = autobuf_plan_worth(&t->limits, &t->socket, t->options.intent,
                               t->options.expected_bytes, &interest.bdp_low_bytes,
                               &interest.bdp_high_bytes);
    if (worth < 0)
        return worth;
    interest.bdp_low_bytes = ab_mul_div(interest.bdp_low_bytes, streams, 1);
    interest.bdp_high_bytes = ab_mul_div(interest.bdp_high_bytes, streams, 1);
    t->measured = 0;
    if (worth && peer)
        t->measured = measure_path(fd, peer, peer_len, &interest, t);
    else if (peer)
        ab_log(&t->log, "not measured: no result could change what is done, or pay for the wait");
    return t->measured == -EINVAL ? -EINVAL : 0; /* an option or the address: the caller's mistake */
}

static void report(const struct tuning *t, struct autobuf_applied *theirs)
{
    struct autobuf_applied applied;

    if (!theirs || !ab_struct_in(&applied, sizeof applied, theirs))
        return;
    applied.measured = t->measured;
    ab_struct_out(theirs, &applied, sizeof applied);
    if (applied.path)
        ab_struct_out(applied.path, &t->path, sizeof t->path);
    if (applied.limits)
        ab_struct_out(applied.limits, &t->limits, sizeof t->limits);
    if (applied.plan)
        ab_struct_out(applied.plan, &t->plan, sizeof t->plan);
}

/* Nothing to be gained: not even this host's limits are looked at, unless the caller wants them. */
static bool is_short(const struct tuning *t, const struct autobuf_applied *theirs)
{
    struct autobuf_applied applied;
    bool wants_limits = theirs && ab_struct_in(&applied, sizeof applied, theirs) && applied.limits;

    return t->options.expected_bytes && t->options.expected_bytes <= AB_SHORT_BYTES &&
           !t->socket.locks && !wants_limits && !autobuf_is_off();
}

/* What one of several connections has of a path, a packet at least. */
static void divide_path(struct autobuf_path *path, uint64_t streams)
{
    if (streams < 2)
        return;
    if (path->tx_bdp_bytes)
        path->tx_bdp_bytes = path->tx_bdp_bytes / streams + AB_IP_PACKET_BYTES;
    if (path->rx_bdp_bytes)
        path->rx_bdp_bytes = path->rx_bdp_bytes / streams + AB_IP_PACKET_BYTES;
    path->tx_rate_bit_per_s /= streams;
    path->rx_rate_bit_per_s /= streams;
}

static int tune_plan(int fd, const struct sockaddr *peer, socklen_t peer_len, struct tuning *t)
{
    struct autobuf_path share;
    int error;

    if (autobuf_is_off()) {
        t->measured = AUTOBUF_E_OFF;
        ab_plan_nothing(AUTOBUF_REASON_OFF, t->options.intent, &t->plan);
        return 0;
    }
    error = tune_measure(fd, peer, peer_len, t);
    if (error < 0)
        return error;
    share = t->path;
    divide_path(&share, ab_max(t->options.streams, 1));
    return autobuf_plan_make(&share, &t->limits, &t->socket, t->options.intent,
                             t->options.expected_bytes, &t->plan);
}

int autobuf_tune(int fd, const struct sockaddr *peer, socklen_t peer_len,
                 const struct autobuf_options *options, struct autobuf_applied *applied)
{
    struct tuning t = {
        .options = AUTOBUF_OPTIONS_INIT,
        .path = AUTOBUF_PATH_INIT,
        .limits = AUTOBUF_LIMITS_INIT,
        .socket = AUTOBUF_SOCKET_INIT,
        .plan = AUTOBUF_PLAN_INIT,
    };
    int error;

    if (options && !ab_struct_in(&t.options, sizeof t.options, options))
        return -EINVAL;
    t.log = (struct ab_log){t.options.log, t.options.log_user};
    if (!ab_intent_known(t.options.intent) || t.options.streams > STREAMS_MOST ||
        (t.options.budget_bytes && (t.options.budget_bytes < AB_BUDGET_BYTES_MIN ||
                                    t.options.budget_bytes > AB_BUDGET_BYTES)))
        return -EINVAL; /* whether or not there is something to measure */
    error = autobuf_socket_state(fd, &t.socket);
    if (error == 0 && is_short(&t, applied)) {
        ab_log(&t.log, "not measured: the transfer is too short for it to pay");
        ab_plan_nothing(AUTOBUF_REASON_KERNEL, t.options.intent, &t.plan);
    } else {
        if (error == 0)
            error = autobuf_limits_host(&t.limits);
        if (error == 0)
            error = tune_plan(fd, peer, peer_len, &t);
        if (error == 0)
            error = autobuf_apply(fd, &t.plan);
    }
    if (error >= 0) {
        ab_plan_log(&t.plan, &t.log);
        report(&t, applied);
    }
    return error;
}

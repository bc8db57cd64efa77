/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "../base/address.h"
#include "../kernel/limits.h"
#include "../plan/plan.h"
#include "flow.h"

#define STREAMS_MOST 65535U
#define FLAGS (AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE | AUTOBUF_FLOW_OBSERVE | AUTOBUF_FLOW_AVAILABLE)

static bool options_are_valid(const struct autobuf_options *o)
{
    return ab_intent_known(o->intent) && o->streams <= STREAMS_MOST && !(o->flags & ~FLAGS) &&
           (!o->budget_bytes ||
            (o->budget_bytes >= AB_BUDGET_BYTES_MIN && o->budget_bytes <= AB_BUDGET_BYTES));
}

static int take_options(struct ab_decision *d, const struct autobuf_options *theirs)
{
    d->options = (struct autobuf_options)AUTOBUF_OPTIONS_INIT;
    if (theirs && !ab_struct_in(&d->options, sizeof d->options, theirs))
        return -EINVAL;
    if (!options_are_valid(&d->options))
        return -EINVAL;
    if (d->options.path && !ab_path_in(&d->path, d->options.path))
        return -EINVAL;
    if (d->options.limits && !ab_struct_in(&d->limits, sizeof d->limits, d->options.limits))
        return -EINVAL;
    d->has_limits = d->options.limits;
    d->options.path = NULL; /* copied */
    d->options.limits = NULL;
    d->log = (struct ab_log){d->options.log, d->options.log_user};
    return 0;
}

void ab_decide_measured(struct ab_decision *d, int result)
{
    d->measured = result < 0 ? result : 1;
    d->found = d->path;
    ab_event(&d->log, &(struct autobuf_event){.what = AUTOBUF_EVENT_MEASURED, .side = AUTOBUF_LOCK_SND,
                                             .error = result < 0 ? result : 0,
                                             .after_bit_per_s = d->path.tx_rate_bit_per_s,
                                             .rtt_ns = d->path.rtt_min_ns,
                                             .why = d->path.tx_unsure ? "unsure: nothing is planned from it" : NULL});
}

static int take_peer(struct ab_decision *d, const struct sockaddr *peer, socklen_t peer_len)
{
    int copied = ab_address_copy(peer, peer_len, &d->peer);

    if (copied == -EAFNOSUPPORT) { /* no path to measure, but no error of the call */
        ab_decide_measured(d, copied);
        return 0;
    }
    if (copied < 0)
        return copied;
    d->peer_len = (socklen_t)copied;
    return 0;
}

void ab_decide_peer_of(struct ab_decision *d, int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;

    if (!d->peer_len && getpeername(fd, (struct sockaddr *)&peer, &len) == 0)
        take_peer(d, (struct sockaddr *)&peer, len);
}

int ab_decide_begin(struct ab_decision *d, int fd, const struct sockaddr *peer, socklen_t peer_len,
                    const struct autobuf_options *options)
{
    static const struct autobuf_path unknown = AUTOBUF_PATH_INIT;
    int error;

    *d = (struct ab_decision){.limits = AUTOBUF_LIMITS_INIT, .socket = AUTOBUF_SOCKET_INIT};
    ab_path_in(&d->path, &unknown);
    error = take_options(d, options);
    if (error == 0)
        error = autobuf_socket_state(fd, &d->socket);
    if (error == 0 && peer)
        error = take_peer(d, peer, peer_len);
    else if (error == 0 && d->socket.stage == AUTOBUF_STAGE_CONNECTED)
        ab_decide_peer_of(d, fd);
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, d->options.intent, &d->plan);
    return error;
}

int ab_decide_within(struct ab_decision *d)
{
    int error = d->has_limits ? 0 : ab_limits_read(&d->limits);

    if (d->options.most_bytes)
        d->limits.request_most_bytes = d->options.most_bytes;
    return error;
}

bool ab_decide_is_short(const struct ab_decision *d)
{
    return d->options.expected_bytes && d->options.expected_bytes <= AB_SHORT_BYTES &&
           (!d->socket.locks || d->by_windows);
}

bool ab_decide_knows_path(const struct ab_decision *d)
{
    return d->by_windows || d->path.method != AUTOBUF_METHOD_NONE || d->path.tx_bdp_bytes || d->path.rx_bdp_bytes;
}

int ab_decide_worth(const struct ab_decision *d, struct autobuf_probe_options *probe)
{
    uint64_t streams = ab_max(d->options.streams, 1);

    *probe = (struct autobuf_probe_options)AUTOBUF_PROBE_OPTIONS_INIT;
    if (!d->peer_len || d->measured || ab_decide_knows_path(d) || d->options.flags & AUTOBUF_FLOW_SILENT)
        return 0;
    /* Echoes give lower bounds, from which nothing is paced: low delay is no reason. */
    if (autobuf_plan_worth(&d->limits, &d->socket, d->options.intent & ~AUTOBUF_INTENT_LOW_DELAY,
                           d->options.expected_bytes, &probe->bdp_low_bytes, &probe->bdp_high_bytes) <= 0)
        return 0;
    probe->bdp_low_bytes = ab_mul_div(probe->bdp_low_bytes, streams, 1);
    probe->bdp_high_bytes = ab_mul_div(probe->bdp_high_bytes, streams, 1);
    probe->budget_bytes = d->options.budget_bytes;
    probe->timeout_ns = d->options.timeout_ns;
    probe->mark = d->options.mark;
    if (!probe->timeout_ns) /* a peer may filter echoes */
        probe->silence_ns = AB_SILENCE_NS;
    probe->log = d->options.log;
    probe->log_user = d->options.log_user;
    return 1;
}

/* The share of a path that one of several connections has, plus a packet. */
static struct autobuf_path share_of(const struct autobuf_path *whole, uint64_t streams)
{
    struct autobuf_path path = *whole;

    if (streams < 2)
        return path;
    if (path.tx_bdp_bytes)
        path.tx_bdp_bytes = path.tx_bdp_bytes / streams + AB_IP_PACKET_BYTES;
    if (path.rx_bdp_bytes)
        path.rx_bdp_bytes = path.rx_bdp_bytes / streams + AB_IP_PACKET_BYTES;
    path.tx_rate_bit_per_s /= streams;
    path.rx_rate_bit_per_s /= streams;
    return path;
}

/* Also for a path of which only its windows are known TCP's minimum RTT counts, if it is shorter. */
static void plan_windows(struct ab_decision *d)
{
    uint32_t sides = d->options.intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);
    struct ab_windows w = d->windows;

    if (w.rtt_ns != AUTOBUF_NS_UNSET && d->socket.rtt_min_ns < w.rtt_ns) {
        w.snd_bytes = ab_mul_div(w.snd_bytes, d->socket.rtt_min_ns, w.rtt_ns);
        w.rcv_bytes = ab_mul_div(w.rcv_bytes, d->socket.rtt_min_ns, w.rtt_ns);
        w.rtt_ns = d->socket.rtt_min_ns;
    }
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, d->options.intent, &d->plan);
    d->plan.rtt_ns = w.rtt_ns;
    d->plan.flags = w.flags;
    ab_plan_windows(sides == AUTOBUF_INTENT_RECEIVES ? 0 : w.snd_bytes, sides == AUTOBUF_INTENT_SENDS ? 0 : w.rcv_bytes,
                    &d->limits, &d->socket, d->options.expected_bytes, &d->plan);
}

static int plan_path(struct ab_decision *d)
{
    struct autobuf_path share = share_of(&d->path, ab_max(d->options.streams, 1));
    int error;

    if (d->by_windows) {
        plan_windows(d);
        return 0;
    }
    error = autobuf_plan_make(&share, &d->limits, &d->socket, d->options.intent, d->options.expected_bytes, &d->plan);
    if (error == 0)
        ab_plan_limits(&d->limits, &d->socket, &d->plan);
    return error;
}

/* Before Linux 5.15 a side that was set stays locked, also if its size does not show it. */
static uint32_t permanent_locks(const struct ab_decision *d)
{
    if (!(d->limits.flags & AUTOBUF_LIMITS_NO_UNLOCK))
        return 0;
    if (d->options.flags & AUTOBUF_FLOW_OBSERVE)   /* no plan was applied */
        return d->socket.locks;
    return d->socket.locks | (d->plan.snd_request_bytes ? AUTOBUF_LOCK_SND : 0) |
           (d->plan.rcv_request_bytes ? AUTOBUF_LOCK_RCV : 0);
}

int ab_decide_read_socket(struct ab_decision *d, int fd)
{
    uint32_t locks = permanent_locks(d);
    int error = autobuf_socket_state(fd, &d->socket);

    d->socket.locks |= locks;
    return error;
}

int ab_decide_plan(struct ab_decision *d, int fd)
{
    int error = ab_decide_read_socket(d, fd);

    d->limits.tcp_used_bytes = d->limits.forced_bytes = 0; /* or a plan within old numbers would not ask again */
    (void)ab_forced_kept(&d->limits.forced_bytes);
    if (error == 0)
        error = plan_path(d);
    if (error < 0 || !ab_plan_forces(&d->plan))
        return error;
    /* Buffers of other connections bound what may be forced. */
    ab_limits_forced(&d->limits);
    return plan_path(d);
}

bool ab_decide_without_privilege(struct ab_decision *d, int fd, int result)
{
    return result == -EPERM && ab_plan_forces(&d->plan) && ab_limits_refresh(&d->limits) == 0 &&
           ab_decide_plan(d, fd) == 0;
}

static bool is_undecided(uint32_t reason)
{
    return reason == AUTOBUF_REASON_UNKNOWN || reason == AUTOBUF_REASON_KERNEL;
}

/* Plans for one byte more than autotuning's window: the plan names what limits that. */
static void plan_more(struct ab_decision *d, uint32_t side, struct autobuf_plan *plan)
{
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, AUTOBUF_INTENT_THROUGHPUT, plan);
    plan->flags = AUTOBUF_PLAN_SND_AT_LEAST | AUTOBUF_PLAN_RCV_AT_LEAST;
    ab_plan_windows(side == AUTOBUF_LOCK_SND ? d->plan.snd_kernel_bytes + 1 : 0,
                    side == AUTOBUF_LOCK_RCV ? d->plan.rcv_kernel_bytes + 1 : 0, &d->limits, &d->socket,
                    0, plan);
}

void ab_decide_bottleneck(struct ab_decision *d, int fd, uint32_t side)
{
    struct autobuf_plan *plan = &d->plan, more;

    if (plan->snd_reason == AUTOBUF_REASON_UNKNOWN && side != AUTOBUF_LOCK_SND)
        plan->snd_reason = AUTOBUF_REASON_KERNEL;
    if (plan->rcv_reason == AUTOBUF_REASON_UNKNOWN && side != AUTOBUF_LOCK_RCV)
        plan->rcv_reason = AUTOBUF_REASON_KERNEL;
    if (!side || ab_decide_read_socket(d, fd) < 0)
        return;
    plan_more(d, side, &more);
    if (side == AUTOBUF_LOCK_SND && is_undecided(plan->snd_reason) && more.snd_reason == AUTOBUF_REASON_CAPPED) {
        plan->snd_reason = more.snd_reason;
        plan->snd_sysctl = more.snd_sysctl;
        plan->snd_needed_bytes = more.snd_needed_bytes;
    }
    if (side == AUTOBUF_LOCK_RCV && is_undecided(plan->rcv_reason) && more.rcv_reason == AUTOBUF_REASON_CAPPED) {
        plan->rcv_reason = more.rcv_reason;
        plan->rcv_sysctl = more.rcv_sysctl;
        plan->rcv_needed_bytes = more.rcv_needed_bytes;
    }
}

int ab_decide_reports(const struct autobuf_applied *theirs)
{
    struct autobuf_applied applied;
    struct autobuf_path path;
    struct autobuf_limits limits;
    struct autobuf_plan plan;

    if (!ab_struct_in(&applied, sizeof applied, theirs) ||
        (applied.path && !ab_struct_in(&path, sizeof path, applied.path)) ||
        (applied.limits && !ab_struct_in(&limits, sizeof limits, applied.limits)) ||
        (applied.plan && !ab_struct_in(&plan, sizeof plan, applied.plan)))
        return -EINVAL;
    return 0;
}

int ab_decide_report(const struct ab_decision *d, struct autobuf_applied *theirs)
{
    struct autobuf_applied applied;

    if (ab_decide_reports(theirs) < 0 || !ab_struct_in(&applied, sizeof applied, theirs))
        return -EINVAL;
    applied.measured = d->measured;
    ab_struct_out(theirs, &applied, sizeof applied);
    if (applied.path)
        ab_struct_out(applied.path, &d->path, sizeof d->path);
    if (applied.limits)
        ab_struct_out(applied.limits, &d->limits, sizeof d->limits);
    if (applied.plan)
        ab_struct_out(applied.plan, &d->plan, sizeof d->plan);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* autobuf_flow_*(): the handle. */
#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../icmp/probe.h"
#include "../kernel/limits.h"
#include "../kernel/socket.h"
#include "../live/live.h"
#include "../plan/plan.h"

#define CONNECT_POLL_NS (20 * AB_NS_PER_MS) /* how often to check whether the socket is connected */
#define REPLY_POLL_NS (5 * AB_NS_PER_MS)  /* how often to read echo replies, whose arrival the kernel has stamped */
/*
 * Measure once a connection moves, in one round trip, this part of the largest window that it has without a
 * measurement. Slow start fills that window two round trips later; a measurement takes one to four. It begins with a
 * sample, on a short path up to 75 ms late.
 */
#define NEAR_PERCENT 25U

struct autobuf_flow {
    struct ab_decision decision;
    struct autobuf_plan before;           /* the plan before decision's; large for a stack */
    struct autobuf_probe_options measure; /* for the probe */
    struct autobuf_probe *probe;          /* NULL: no measurement runs */
    struct ab_live *live;                 /* NULL: not connected yet */
    uint64_t cookie;
    uint64_t next_ns; /* when to check the connection, or for replies */
    uint64_t forced_from_bytes; /* sk_sndbuf before it was forced without live; 0: it was not */
    pid_t owner;
    int fd;
    bool inert; /* AUTOBUF=off, or a short transfer */
    int ended;  /* the error with which the connection, or its descriptor, has ended; 0: it has not */
    bool worth; /* a measurement could gain more than it costs */
    uint32_t changes;
};

/* Whether the BDP of a side of the intent has become known. */
static bool has_new_bdp(const struct autobuf_plan *plan, const struct autobuf_plan *before)
{
    uint32_t only = plan->intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);

    return (only != AUTOBUF_INTENT_RECEIVES && plan->snd_wanted_bytes && !before->snd_wanted_bytes) ||
           (only != AUTOBUF_INTENT_SENDS && plan->rcv_wanted_bytes && !before->rcv_wanted_bytes);
}

/* A new BDP is logged even if it changes nothing. */
static bool is_same_outcome(const struct autobuf_plan *plan, const struct autobuf_plan *before)
{
    return plan->snd_reason == before->snd_reason && plan->rcv_reason == before->rcv_reason &&
           !has_new_bdp(plan, before);
}

/* If a buffer is large enough because this flow has set it, the reason stays `set`. */
static void keep_reasons(struct autobuf_plan *plan, const struct autobuf_plan *before)
{
    if (plan->snd_reason == AUTOBUF_REASON_LARGER && before->snd_reason == AUTOBUF_REASON_SET)
        plan->snd_reason = AUTOBUF_REASON_SET;
    if (plan->rcv_reason == AUTOBUF_REASON_LARGER && before->rcv_reason == AUTOBUF_REASON_SET)
        plan->rcv_reason = AUTOBUF_REASON_SET;
}

static bool only_observes(const struct autobuf_flow *flow)
{
    return flow->decision.options.flags & AUTOBUF_FLOW_OBSERVE;
}

/* Not inlined: keeps the copy off the stack of ab_live_apply(). */
static __attribute__((noinline)) int apply_without_live(struct autobuf_flow *flow)
{
    struct autobuf_plan plan = flow->decision.plan;
    int result;

    plan.snd_pacing_bit_per_s = 0; /* only live sets a pacing rate, as it restores it */
    result = autobuf_apply(flow->fd, &plan);
    if (result > 0 && plan.flags & AUTOBUF_PLAN_SND_FORCE)
        flow->forced_from_bytes = ab_max(flow->decision.socket.snd_buf_bytes, AB_SND_STORED(plan.snd_kernel_bytes));
    return result;
}

static int apply_plan(struct autobuf_flow *flow, const char *why)
{
    if (only_observes(flow))
        return 0;
    return flow->live ? ab_live_apply(flow->live, &flow->decision.plan, why) : apply_without_live(flow);
}

static int plan_and_apply(struct autobuf_flow *flow, const char *why)
{
    struct autobuf_plan *before = &flow->before, *plan = &flow->decision.plan;
    int result;

    *before = *plan;
    result = ab_decide_plan(&flow->decision, flow->fd);
    if (result < 0)
        return result;
    result = apply_plan(flow, why);
    if (ab_decide_without_privilege(&flow->decision, flow->fd, result))
        result = apply_plan(flow, why);
    keep_reasons(plan, before);
    if (result < 0)
        *plan = *before;
    else if (result > 0 || !is_same_outcome(plan, before))
        ab_plan_log(plan, &flow->decision.log);
    flow->changes += result > 0;
    return result;
}

static int begin(struct autobuf_flow *flow)
{
    struct ab_decision *d = &flow->decision;
    bool off = autobuf_is_off();
    int error;

    if (off)
        d->measured = AUTOBUF_E_OFF;
    if ((off && !only_observes(flow)) || ab_decide_is_short(d)) {
        flow->inert = true;
        ab_plan_nothing(off ? AUTOBUF_REASON_OFF : AUTOBUF_REASON_KERNEL, d->options.intent, &d->plan);
        ab_plan_log(&d->plan, &d->log);
        return 0;
    }
    error = ab_decide_within(d);
    if (error < 0)
        return error;
    ab_decide_recall(d, flow->fd);
    error = plan_and_apply(flow, "before the connection");
    return error < 0 ? error : 0;
}

int ab_flow_open(struct autobuf_flow **out, int fd, const struct sockaddr *peer, socklen_t peer_len,
                 const struct autobuf_options *options, const struct ab_windows *windows)
{
    struct autobuf_flow *flow;
    int error;

    if (!out)
        return -EINVAL;
    *out = NULL;
    flow = calloc(1, sizeof *flow);
    if (!flow)
        return -ENOMEM;
    flow->owner = getpid();
    flow->fd = fd;
    error = ab_decide_begin(&flow->decision, fd, peer, peer_len, options);
    if (error == 0)
        error = ab_socket_cookie(fd, &flow->cookie);
    if (windows) {
        flow->decision.windows = *windows;
        flow->decision.by_windows = true;
    }
    if (error == 0)
        error = begin(flow);
    if (error < 0) {
        free(flow);
        return error;
    }
    *out = flow;
    return 0;
}

int autobuf_flow_open(struct autobuf_flow **flow, int fd, const struct sockaddr *peer, socklen_t peer_len,
                      const struct autobuf_options *options)
{
    return ab_flow_open(flow, fd, peer, peer_len, options, NULL);
}

uint64_t autobuf_flow_deadline_ns(const struct autobuf_flow *flow)
{
    uint64_t next_ns;

    if (!flow || flow->inert || flow->ended)
        return AUTOBUF_NS_UNSET;
    next_ns = flow->live && !flow->probe ? AUTOBUF_NS_UNSET : flow->next_ns;
    return flow->live ? ab_min(next_ns, ab_live_next_ns(flow->live)) : next_ns;
}

/* -------------------------------------------------------------------------------- measuring */

/* A larger window is needed once the present one is nearly full. */
static bool needs_path(const struct autobuf_flow *flow)
{
    uint64_t low = flow->measure.bdp_low_bytes / ab_max(flow->decision.options.streams, 1);

    return flow->worth && !flow->decision.measured &&
           ab_judge_round_bytes(&flow->live->judge) >= ab_percent(low, NEAR_PERCENT);
}

static void begin_measuring(struct autobuf_flow *flow)
{
    struct ab_decision *d = &flow->decision;
    int error;

    ab_decide_record_route(d, flow->fd);
    error = ab_probe_open_like(&flow->probe, flow->fd, (struct sockaddr *)&d->peer, d->peer_len, &flow->measure);

    if (error < 0) {
        flow->probe = NULL;
        ab_decide_measured(d, error);
    }
}

/* Returns 1 if the measurement changed something, else 0. A measurement that fails is no error of the flow. */
static int step_measuring(struct autobuf_flow *flow, uint64_t now_ns)
{
    int result = autobuf_probe_step(flow->probe, now_ns);

    flow->next_ns = ab_min(autobuf_probe_deadline_ns(flow->probe), now_ns + REPLY_POLL_NS);
    if (result == 0)
        return 0;
    if (result > 0) {
        result = ab_probe_conclude(flow->probe, &flow->decision.path);
    } else {
        autobuf_probe_close(flow->probe);
    }
    flow->probe = NULL;
    flow->next_ns = now_ns;
    ab_decide_measured(&flow->decision, result);
    return result < 0 ? 0 : plan_and_apply(flow, "the path is measured");
}

/* ------------------------------------------------------------------------------- connection */

/* Whether the socket is connected now. Returns what step() returns. */
static int check_connected(struct autobuf_flow *flow, uint64_t now_ns)
{
    struct ab_decision *d = &flow->decision;
    bool was_there = d->socket.stage == AUTOBUF_STAGE_CONNECTED && d->socket.snd_window_max_bytes;
    int error = ab_socket_check(flow->fd, flow->cookie);

    if (error == 0)
        error = ab_decide_read_socket(d, flow->fd);
    if (error == 0 && was_there && d->socket.stage == AUTOBUF_STAGE_NEW)
        error = -ENOTCONN;
    if (error < 0)
        return error;
    flow->next_ns = d->socket.stage == AUTOBUF_STAGE_LISTENING ? AUTOBUF_NS_UNSET : now_ns + CONNECT_POLL_NS;
    if (d->socket.stage == AUTOBUF_STAGE_CONNECTED && d->socket.snd_window_max_bytes) {
        error = ab_live_open(&flow->live, flow->fd, &d->options, &d->limits);
        if (error < 0)
            return error;
        if (d->limits.flags & AUTOBUF_LIMITS_NO_UNLOCK)
            flow->live->locks = d->socket.locks;
        if (flow->forced_from_bytes)
            ab_judge_forced(&flow->live->judge, flow->forced_from_bytes);
        ab_decide_peer_of(d, flow->fd);
        ab_decide_recall(d, flow->fd);
        error = plan_and_apply(flow, "the connection is there"); /* window scale and RTT are known now */
    }
    if (flow->live)
        flow->worth = ab_decide_worth(d, &flow->measure);
    return error;
}

/*
 * Completes the plan's reasons on an unknown path. Either autotuning has been enough so far, or the bottleneck is a
 * buffer that live could not enlarge; the plan then names the sysctl.
 */
static void report_bottleneck(struct autobuf_flow *flow)
{
    flow->before = flow->decision.plan;
    ab_decide_bottleneck(&flow->decision, flow->fd, ab_judge_short_side(&flow->live->judge));
    if (!is_same_outcome(&flow->decision.plan, &flow->before))
        ab_plan_log(&flow->decision.plan, &flow->decision.log);
}

static int step_live(struct autobuf_flow *flow, uint64_t now_ns)
{
    struct autobuf_plan *plan = &flow->decision.plan;
    int result = ab_live_step(flow->live, now_ns);
    uint32_t sides;

    if (result == 0)
        report_bottleneck(flow);
    if (result == 0)
        result = ab_live_search(flow->live, now_ns, &flow->decision.path);
    if (result <= 0)
        return result;
    flow->changes++;
    sides = flow->live->sides;
    if (sides & AUTOBUF_LOCK_RCV)
        plan->rcv_reason = AUTOBUF_REASON_SET;
    /* A pace is a plan's; without that intent it is a trial or a search. */
    if (sides & AUTOBUF_LOCK_SND || (!sides && flow->decision.options.intent & AB_INTENT_MODERATES))
        plan->snd_reason = AUTOBUF_REASON_SET;
    return result;
}

/* Returns what step() returns. */
static int step_connection(struct autobuf_flow *flow, uint64_t now_ns)
{
    int begun = flow->live ? 0 : check_connected(flow, now_ns), result;

    if (begun < 0 || !flow->live)
        return begun;
    result = step_live(flow, now_ns);
    return result < 0 ? result : begun || result;
}

int autobuf_flow_step(struct autobuf_flow *flow, uint64_t now_ns)
{
    int result, measured = 0;

    if (!flow)
        return -EINVAL;
    if (flow->ended)
        return flow->ended;
    if (now_ns < autobuf_flow_deadline_ns(flow) || flow->inert)
        return 0;
    if (flow->owner != getpid())
        return AUTOBUF_E_FORKED;
    result = step_connection(flow, now_ns);
    if (result == -ENOTCONN || result == -EBADF || result == -ENOTSOCK || result == -ESTALE)
        flow->ended = result;
    if (result < 0)
        return result;
    if (!flow->probe && needs_path(flow))
        begin_measuring(flow);
    if (flow->probe)
        measured = step_measuring(flow, now_ns);
    return measured < 0 ? measured : result || measured;
}

int autobuf_flow_move(struct autobuf_flow *flow, int fd)
{
    int error;

    if (!flow)
        return -EINVAL;
    if (flow->owner != getpid())
        return AUTOBUF_E_FORKED;
    if (flow->ended)
        return flow->ended;
    error = ab_socket_check(fd, flow->cookie);
    if (error < 0)
        return error;
    flow->fd = fd;
    if (flow->live)
        flow->live->fd = fd;
    return 0;
}

int autobuf_flow_tell(struct autobuf_flow *flow, const struct autobuf_path *path)
{
    struct autobuf_path known;
    int error;

    if (!flow || !ab_path_in(&known, path))
        return -EINVAL;
    if (flow->owner != getpid())
        return AUTOBUF_E_FORKED;
    if (flow->ended)
        return flow->ended;
    if (flow->inert)
        return 0;
    error = ab_socket_check(flow->fd, flow->cookie);
    if (error < 0)
        return error;
    autobuf_probe_close(flow->probe);
    flow->probe = NULL;
    flow->worth = false;
    flow->decision.path = known;
    return plan_and_apply(flow, "the path is known");
}

int autobuf_flow_state(const struct autobuf_flow *flow, struct autobuf_applied *applied)
{
    struct autobuf_live_state live = {.size = sizeof live, .rtt_ns = AUTOBUF_NS_UNSET, .rtt_min_ns = AUTOBUF_NS_UNSET};
    struct autobuf_available available = {.size = sizeof available, .cause = AUTOBUF_CAUSE_SHORT};
    int error = flow ? ab_decide_report(&flow->decision, applied) : -EINVAL;
    struct autobuf_applied wanted;

    if (error < 0)
        return error;
    ab_struct_in(&wanted, sizeof wanted, applied);
    wanted.changes = flow->changes;
    ab_struct_out(applied, &wanted, sizeof wanted);
    if (flow->live)
        ab_live_state(flow->live, &live);
    if (flow->live && wanted.available)
        ab_live_available(flow->live, &flow->decision.path, &available);
    if ((wanted.live && !ab_struct_out(wanted.live, &live, sizeof live)) ||
        (wanted.available && !ab_struct_out(wanted.available, &available, sizeof available)))
        return -EINVAL;
    return 0;
}

void autobuf_flow_close(struct autobuf_flow *flow)
{
    bool ours;

    if (!flow)
        return;
    ours = flow->owner == getpid();
    autobuf_probe_close(flow->probe);
    if (flow->live)
        ab_live_close(flow->live, ours);
    if (ours)
        ab_decide_keep(&flow->decision);
    free(flow);
}

/* SPDX-License-Identifier: MIT */
#include "act.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../../lib/base/base.h"
#include "../../lib/base/option.h"
#include "../../lib/kernel/limits.h"
#include "divide.h"

/* On a path so short that half of autotuning's window allows this rate nothing is to be gained. */
#define NEAR_BIT_PER_S 20000000000ULL
#define NEAR_NS_MOST 10000000U

#define REQUEST_MOST_BYTES 0x3fffffffU /* the kernel doubles it, in an int */

#define ONE_SHARE 8U /* of the memory at which TCP's pressure begins one forced buffer holds one part in so many, */
#define FORCED_SHARE 2U /* and all of them, with what TCP holds */

uint64_t act_forced_most(const struct autobuf_limits *limits)
{
    return limits->tcp_mem_bytes / FORCED_SHARE;
}

uint64_t act_forced_bytes(const struct autobuf_limits *limits, uint64_t snd_buf_bytes, uint64_t rcv_buf_bytes)
{
    return ab_forced_of(snd_buf_bytes, rcv_buf_bytes, ab_unforced_sndbuf(limits), ab_unforced_rcvbuf(limits));
}

bool act_is_near(int copy, const struct autobuf_limits *limits, uint32_t intent)
{
    uint64_t window_bytes = ab_min(limits->tcp_wmem_max_bytes, limits->tcp_rmem_max_bytes) / 2;
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (intent != AUTOBUF_INTENT_THROUGHPUT || autobuf_socket_state(copy, &now) < 0 || now.locks || !now.rtt_min_ns ||
        now.rtt_min_ns > NEAR_NS_MOST)
        return false;
    return 8 * window_bytes > NEAR_BIT_PER_S / 1000000U * now.rtt_min_ns / 1000U;
}

static void say(const struct act *act, uint32_t event, const char *what, uint64_t value)
{
    char text[96];

    snprintf(text, sizeof text, "sets %s %llu", what, (unsigned long long)value);
    act->say(act->user, &(struct autobuf_event){.what = event, .text = text});
}

/*
 * The largest request for a side of a socket that this host allows, and by force as much as the library's own plans
 * force, beside so much that is forced, too. A listener's buffer is not forced: each of its connections would have it,
 * and nobody counts them.
 */
static uint64_t most_bytes(const struct act *act, const struct autobuf_socket *now, bool snd, uint64_t beside_bytes)
{
    const struct autobuf_limits *l = act->limits;
    uint64_t settable_bytes = snd ? l->snd_settable_bytes : l->rcv_settable_bytes;
    uint64_t now_bytes = snd ? now->snd_buf_bytes : now->rcv_buf_bytes;
    uint64_t own = now_bytes > (snd ? ab_unforced_sndbuf(l) : ab_unforced_rcvbuf(l)) ? now_bytes : 0;
    uint64_t held = ab_max(l->tcp_used_bytes, l->forced_bytes - ab_min(l->forced_bytes, own));
    uint64_t all = act_forced_most(l), taken = ab_min(all, held);

    if (!(l->flags & AUTOBUF_LIMITS_FORCE) || now->stage == AUTOBUF_STAGE_LISTENING)
        return settable_bytes;
    taken += ab_min(all - taken, beside_bytes);
    return ab_max(settable_bytes, ab_min(ab_min(l->tcp_mem_bytes / ONE_SHARE, all - taken) / 2, REQUEST_MOST_BYTES));
}

/* What a rule asks for, as far as that. */
static void bound_requests(const struct act *act, const struct autobuf_socket *now, struct autobuf_plan *plan)
{
    uint64_t beside_bytes = 0;

    plan->snd_request_bytes = ab_min(plan->snd_request_bytes, most_bytes(act, now, true, 0));
    if (plan->snd_request_bytes > act->limits->snd_settable_bytes) {
        plan->flags |= AUTOBUF_PLAN_SND_FORCE;
        beside_bytes = 2 * plan->snd_request_bytes;
    }
    plan->rcv_request_bytes = ab_min(plan->rcv_request_bytes, most_bytes(act, now, false, beside_bytes));
    if (plan->rcv_request_bytes > act->limits->rcv_settable_bytes)
        plan->flags |= AUTOBUF_PLAN_RCV_FORCE;
}

/* What a rule of mode fixed asks for, as far as this host allows it. */
static struct autobuf_plan plan_fixed(const struct act *act, const struct autobuf_socket *now)
{
    const struct rule *rule = act->rule;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    plan.snd_pacing_bit_per_s = rule->pace_bit_per_s;
    plan.snd_request_bytes = rule->snd_bytes;
    plan.rcv_request_bytes = rule->rcv_bytes;
    bound_requests(act, now, &plan);
    if (now->stage == AUTOBUF_STAGE_CONNECTED) { /* its window opens only together with its clamp, and never shrinks */
        plan.rcv_clamp_bytes = plan.rcv_request_bytes;
        if (2 * plan.rcv_request_bytes < now->rcv_buf_bytes)
            plan.rcv_request_bytes = plan.rcv_clamp_bytes = 0;
    }
    return plan;
}

static void tell_plan(const struct act *act, const struct autobuf_plan *plan)
{
    if (plan->snd_request_bytes)
        say(act, AUTOBUF_EVENT_SET, plan->flags & AUTOBUF_PLAN_SND_FORCE ? "SO_SNDBUFFORCE" : "SO_SNDBUF",
            plan->snd_request_bytes);
    if (plan->rcv_request_bytes)
        say(act, AUTOBUF_EVENT_SET, plan->flags & AUTOBUF_PLAN_RCV_FORCE ? "SO_RCVBUFFORCE" : "SO_RCVBUF",
            plan->rcv_request_bytes);
    if (plan->snd_pacing_bit_per_s)
        say(act, AUTOBUF_EVENT_PACED, "a pace of bit/s:", plan->snd_pacing_bit_per_s);
}

/* The congestion control. */
static void read_control(int copy, char control[STATE_CONTROL_BYTES])
{
    socklen_t length = STATE_CONTROL_BYTES - 1;

    memset(control, 0, STATE_CONTROL_BYTES);
    if (getsockopt(copy, IPPROTO_TCP, TCP_CONGESTION, control, &length) < 0)
        control[0] = '\0';
}

/* One that is refused, or not there, is said; all else is done. Returns 1: it was set. */
static int set_control(const struct act *act, int copy)
{
    const char *wanted = act->rule->congestion_control;
    char now[STATE_CONTROL_BYTES], text[96];
    int error = 0;

    read_control(copy, now);
    if (!wanted[0] || strcmp(now, wanted) == 0)
        return 0;
    if (!act->dry_run && setsockopt(copy, IPPROTO_TCP, TCP_CONGESTION, wanted, (socklen_t)strlen(wanted)) < 0)
        error = errno;
    if (error)
        snprintf(text, sizeof text, "congestion control %s: %s", wanted, strerror(error));
    else
        snprintf(text, sizeof text, "sets congestion control %s, was %s", wanted, now);
    act->say(act->user, &(struct autobuf_event){.what = ACT_CONTROL, .error = -error, .text = text});
    return !error;
}

int act_fixed(const struct act *act, int copy)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;
    int control = set_control(act, copy), result = autobuf_socket_state(copy, &now);
    struct autobuf_plan plan;

    if (result < 0)
        return result;
    plan = plan_fixed(act, &now);
    result = act->dry_run ? 1 : autobuf_apply(copy, &plan);
    if (result > 0)
        tell_plan(act, &plan);
    return result ? result : control;
}

bool act_receives(const struct autobuf_live_state *state)
{
    return state->received_bit_per_s > state->sent_bit_per_s;
}

int act_share(const struct act *act, int copy, const struct autobuf_live_state *state, struct share *share)
{
    bool receives = act_receives(state), sends = !receives && state->sent_bit_per_s;
    struct autobuf_socket now = {.stage = AUTOBUF_STAGE_CONNECTED, .snd_buf_bytes = state->snd_buf_bytes};
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    uint64_t pace = 0;
    int result;

    share->set_byte_per_s = 0;
    if (receives)
        plan.rcv_clamp_bytes = share->bytes;
    if (sends && share->locked)
        plan.snd_request_bytes = divide_request(share->bytes, most_bytes(act, &now, true, 0), state->snd_buf_bytes);
    if ((sends || share->paced) && state->rtt_ns != AUTOBUF_NS_UNSET)
        pace = divide_pace(share->bytes, state->rtt_ns, share->own_byte_per_s, act_pace(copy));
    plan.snd_pacing_bit_per_s = 8 * pace;
    bound_requests(act, &now, &plan);
    result = act->dry_run ? 0 : autobuf_apply(copy, &plan);
    if (result > 0)
        share->set_byte_per_s = pace;
    return result;
}

int act_read(const struct act *act, int copy, uint64_t cookie, struct noted *noted)
{
    *noted = (struct noted){.cookie = cookie, .settings = AUTOBUF_SETTINGS_INIT};
    if (act->rule->congestion_control[0])
        read_control(copy, noted->control);
    return autobuf_settings_read(copy, &noted->settings);
}

void act_bound(const struct autobuf_limits *l, const struct autobuf_settings *now, struct autobuf_settings *was)
{
    uint64_t forced_bytes = l->tcp_mem_bytes / ONE_SHARE; /* what one forced buffer may have */

    was->snd_buf_bytes =
        ab_min(was->snd_buf_bytes, ab_max(ab_max(now->snd_buf_bytes, ab_unforced_sndbuf(l)), forced_bytes));
    was->rcv_buf_bytes =
        ab_min(was->rcv_buf_bytes, ab_max(ab_max(now->rcv_buf_bytes, ab_unforced_rcvbuf(l)), forced_bytes));
}

int act_restore(int copy, const struct noted *noted)
{
    int error = autobuf_settings_restore(copy, &noted->settings);
    char now[STATE_CONTROL_BYTES];

    read_control(copy, now);
    if (!noted->control[0] || strcmp(now, noted->control) == 0)
        return error;
    if (setsockopt(copy, IPPROTO_TCP, TCP_CONGESTION, noted->control, (socklen_t)strlen(noted->control)) < 0 &&
        error == 0)
        error = -errno;
    return error;
}

uint64_t act_pace(int copy)
{
    uint64_t value = 0;

    if (ab_get_pacing(copy, &value) < 0)
        return 0;
    return value ? value : UINT64_MAX;
}

int act_set_pace(int copy, uint64_t byte_per_s)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    plan.snd_pacing_bit_per_s = byte_per_s > UINT64_MAX / 8 ? UINT64_MAX : 8 * byte_per_s;
    return autobuf_apply(copy, &plan);
}

int act_restore_sizes(int copy, const struct noted *noted)
{
    struct autobuf_settings now = AUTOBUF_SETTINGS_INIT, sizes = noted->settings;
    int error = autobuf_settings_read(copy, &now);

    if (error < 0)
        return error;
    sizes.pacing_byte_per_s = now.pacing_byte_per_s;
    return autobuf_settings_restore(copy, &sizes);
}

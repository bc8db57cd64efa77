/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <errno.h>

/* 98% of the wire's payload rate: an estimate that is 1% too high must not fill the queue. */
#define PACING_PERCENT 98
/* A measurement costs about five round trips until the first byte is sent. */
#define MEASURING_ROUND_TRIPS 5
#define UNSCALED_WINDOW_BYTES 65535

/* One side of a socket in the terms that both sides share: stored bytes. */
struct side {
    uint64_t now_stored;
    uint64_t kernel_stored;   /* what autotuning reaches, if it is on or given back */
    uint64_t settable_stored; /* by setsockopt() */
    uint64_t share_stored;    /* and that one socket may pin */
    bool locked;
    bool late;
};

/* What came out. */
struct verdict {
    uint32_t reason;
    uint64_t request_bytes;
    uint64_t stored; /* expected */
    bool unlock;
};

static uint64_t doubled(uint64_t bytes)
{
    return 2 * ab_min(bytes, UINT64_MAX / 2);
}

static uint64_t share_stored(const struct autobuf_limits *limits)
{
    return limits->tcp_mem_bytes ? limits->tcp_mem_bytes / AB_TCP_MEM_SHARE : UINT64_MAX;
}

static struct side snd_side(const struct autobuf_limits *limits, const struct autobuf_socket *socket)
{
    bool force = limits->flags & AUTOBUF_LIMITS_FORCE;

    return (struct side){
        .now_stored = socket->snd_buf_bytes,
        .kernel_stored = limits->tcp_wmem_max_bytes,
        .settable_stored = force ? AB_STORED_MAX : doubled(limits->snd_settable_bytes),
        .share_stored = share_stored(limits),
        .locked = socket->locks & AUTOBUF_LOCK_SND,
    };
}

static struct side rcv_side(const struct autobuf_limits *limits, const struct autobuf_socket *socket)
{
    bool tuned = limits->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING;

    return (struct side){
        .now_stored = socket->rcv_buf_bytes,
        .kernel_stored = tuned ? limits->tcp_rmem_max_bytes : 0,
        .settable_stored = doubled(limits->rcv_settable_bytes),
        .share_stored = share_stored(limits),
        .locked = socket->locks & AUTOBUF_LOCK_RCV,
        .late = socket->stage == AUTOBUF_STAGE_CONNECTED,
    };
}

/* What the side gets if it is left alone. */
static uint64_t present_stored(const struct side *side)
{
    return side->locked ? side->now_stored : ab_max(side->kernel_stored, side->now_stored);
}

/* The most that setsockopt() may give it. */
static uint64_t most_stored(const struct side *side)
{
    return ab_min(side->settable_stored, side->share_stored);
}

/*
 * needed: stored bytes for the wanted window; ample: for twice that, which congestion control can
 * use on the queue of the narrowest link.
 */
static struct verdict judge(const struct side *side, uint64_t needed, uint64_t ample)
{
    uint64_t present = present_stored(side);
    uint64_t best = ab_min(ample, most_stored(side));
    struct verdict v = {.stored = present};

    if (present >= needed) {
        v.reason = side->locked ? AUTOBUF_REASON_LARGER : AUTOBUF_REASON_KERNEL;
    } else if (side->late) {
        v.reason = AUTOBUF_REASON_LATE;
    } else if (side->locked && side->kernel_stored > present &&
               side->kernel_stored >= ab_min(needed, best)) {
        v.unlock = true;
        v.stored = side->kernel_stored;
        v.reason = v.stored >= needed ? AUTOBUF_REASON_KERNEL : AUTOBUF_REASON_CAPPED;
    } else if (best <= present) {
        v.reason = AUTOBUF_REASON_CAPPED;
    } else {
        v.request_bytes = best / 2;
        v.stored = best;
        v.reason = best >= needed ? AUTOBUF_REASON_SET : AUTOBUF_REASON_CAPPED;
    }
    return v;
}

/* sysctl(8) takes no more than an int, and no socket can be given more. */
static uint64_t sysctl_bytes(uint64_t bytes)
{
    return ab_min(bytes, AB_STORED_MAX);
}

/* No more than the whole transfer is ever in flight, and that may be known to fit already. */
static uint64_t wanted_window(uint64_t wanted, uint64_t expected_bytes, uint64_t kernel_window)
{
    if (expected_bytes && (wanted || expected_bytes <= kernel_window))
        return ab_min(wanted ? wanted : UINT64_MAX, expected_bytes);
    return wanted;
}

static void plan_snd(const struct side *side, uint64_t expected_bytes,
                     const struct autobuf_limits *limits, struct autobuf_plan *plan)
{
    uint64_t wanted, needed;
    struct verdict v;

    plan->snd_kernel_bytes = plan->snd_window_bytes = AB_SND_WINDOW(present_stored(side));
    wanted = wanted_window(plan->snd_wanted_bytes, expected_bytes, plan->snd_kernel_bytes);
    if (!wanted)
        return;
    needed = AB_SND_STORED(wanted);
    v = judge(side, needed, AB_SND_STORED(2 * wanted));
    plan->snd_reason = v.reason;
    plan->snd_request_bytes = v.request_bytes;
    plan->snd_window_bytes = AB_SND_WINDOW(v.stored);
    if (v.unlock)
        plan->flags |= AUTOBUF_PLAN_SND_UNLOCK;
    if (v.request_bytes > limits->snd_settable_bytes)
        plan->flags |= AUTOBUF_PLAN_SND_FORCE;
    if (v.reason != AUTOBUF_REASON_CAPPED)
        return;
    if (side->share_stored < needed) {
        plan->snd_sysctl = AUTOBUF_SYSCTL_TCP_MEM;
        plan->snd_sysctl_value = needed * AB_TCP_MEM_SHARE;
    } else {
        plan->snd_sysctl = AUTOBUF_SYSCTL_WMEM_MAX;
        plan->snd_sysctl_value = sysctl_bytes((needed + 1) / 2);
    }
}

static void plan_rcv(const struct side *side, uint64_t expected_bytes,
                     const struct autobuf_limits *limits, struct autobuf_plan *plan)
{
    uint64_t wanted, needed;
    struct verdict v;

    plan->rcv_kernel_bytes = plan->rcv_window_bytes = AB_RCV_WINDOW(present_stored(side));
    wanted = wanted_window(plan->rcv_wanted_bytes, expected_bytes, plan->rcv_kernel_bytes);
    if (!wanted)
        return;
    needed = AB_RCV_STORED(wanted);
    v = judge(side, needed, AB_RCV_STORED(2 * wanted));
    plan->rcv_reason = v.reason;
    plan->rcv_request_bytes = v.request_bytes;
    plan->rcv_window_bytes = AB_RCV_WINDOW(v.stored);
    if (v.unlock)
        plan->flags |= AUTOBUF_PLAN_RCV_UNLOCK;
    if (v.reason != AUTOBUF_REASON_CAPPED)
        return;
    if (!side->kernel_stored && limits->tcp_rmem_max_bytes >= needed) {
        plan->rcv_sysctl = AUTOBUF_SYSCTL_MODERATE_RCVBUF;
        plan->rcv_sysctl_value = 1;
    } else {
        plan->rcv_sysctl = AUTOBUF_SYSCTL_TCP_RMEM;
        plan->rcv_sysctl_value = sysctl_bytes(needed);
    }
}

/* Without window scaling (RFC 7323) nothing else matters: 64 KB are in flight at most. */
static void plan_unscaled(uint64_t expected_bytes, struct autobuf_plan *plan)
{
    uint64_t snd, rcv;

    plan->snd_kernel_bytes = ab_min(plan->snd_kernel_bytes, UNSCALED_WINDOW_BYTES);
    plan->rcv_kernel_bytes = ab_min(plan->rcv_kernel_bytes, UNSCALED_WINDOW_BYTES);
    plan->snd_window_bytes = ab_min(plan->snd_window_bytes, UNSCALED_WINDOW_BYTES);
    plan->rcv_window_bytes = ab_min(plan->rcv_window_bytes, UNSCALED_WINDOW_BYTES);
    snd = wanted_window(plan->snd_wanted_bytes, expected_bytes, plan->snd_kernel_bytes);
    rcv = wanted_window(plan->rcv_wanted_bytes, expected_bytes, plan->rcv_kernel_bytes);
    if (snd > UNSCALED_WINDOW_BYTES) {
        plan->flags &= ~(AUTOBUF_PLAN_SND_FORCE | AUTOBUF_PLAN_SND_UNLOCK);
        plan->snd_reason = AUTOBUF_REASON_CAPPED;
        plan->snd_sysctl = AUTOBUF_SYSCTL_WINDOW_SCALING;
        plan->snd_sysctl_value = 1;
        plan->snd_request_bytes = 0;
    }
    if (rcv > UNSCALED_WINDOW_BYTES) {
        plan->flags &= ~AUTOBUF_PLAN_RCV_UNLOCK;
        plan->rcv_reason = AUTOBUF_REASON_CAPPED;
        plan->rcv_sysctl = AUTOBUF_SYSCTL_WINDOW_SCALING;
        plan->rcv_sysctl_value = 1;
        plan->rcv_request_bytes = 0;
    }
}

void ab_plan_nothing(uint32_t reason, uint32_t intent, struct autobuf_plan *plan)
{
    *plan = (struct autobuf_plan)AUTOBUF_PLAN_INIT;
    plan->intent = intent;
    plan->snd_reason = plan->rcv_reason = reason;
}

void ab_plan_windows(uint64_t snd_wanted_bytes, uint64_t rcv_wanted_bytes,
                     const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                     uint64_t expected_bytes, struct autobuf_plan *plan)
{
    struct side snd = snd_side(limits, socket), rcv = rcv_side(limits, socket);
    uint64_t largest = UINT64_MAX / 16; /* room for the arithmetic */

    plan->snd_wanted_bytes = ab_min(snd_wanted_bytes, largest);
    plan->rcv_wanted_bytes = ab_min(rcv_wanted_bytes, largest);
    plan_snd(&snd, expected_bytes, limits, plan);
    plan_rcv(&rcv, expected_bytes, limits, plan);
    if (!(limits->flags & AUTOBUF_LIMITS_WINDOW_SCALING))
        plan_unscaled(expected_bytes, plan);
}

/* The window beyond which no plausible rate goes at this round-trip time; 0: unknown. */
static uint64_t plausible_window(uint64_t rtt_ns)
{
    if (rtt_ns == AUTOBUF_NS_UNSET)
        return 0;
    return ab_mul_div(AB_PLAUSIBLE_BIT_PER_S, rtt_ns, 8 * AB_NS_PER_S) + 1;
}

static bool plan_inputs(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                        uint32_t intent, struct autobuf_limits *our_limits,
                        struct autobuf_socket *our_socket)
{
    return intent <= AUTOBUF_INTENT_LOW_DELAY &&
           ab_struct_in(our_limits, sizeof *our_limits, limits) &&
           ab_struct_in(our_socket, sizeof *our_socket, socket);
}

int autobuf_plan_make(const struct autobuf_path *path, const struct autobuf_limits *limits,
                      const struct autobuf_socket *socket, uint32_t intent,
                      uint64_t expected_bytes, struct autobuf_plan *plan)
{
    struct autobuf_path p;
    struct autobuf_limits l;
    struct autobuf_socket s;
    struct autobuf_plan made;
    uint64_t plausible;

    if (!ab_struct_in(&p, sizeof p, path) || !plan_inputs(limits, socket, intent, &l, &s))
        return -EINVAL;
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, intent, &made);
    made.rtt_ns = p.rtt_min_ns;
    ab_plan_windows(autobuf_payload_bytes(p.tx_bdp_bytes, p.packet_bytes),
                    autobuf_payload_bytes(p.rx_bdp_bytes, p.packet_bytes), &l, &s, expected_bytes,
                    &made);
    plausible = plausible_window(p.rtt_min_ns);
    if (made.snd_reason == AUTOBUF_REASON_UNKNOWN && plausible &&
        made.snd_kernel_bytes >= plausible)
        made.snd_reason = AUTOBUF_REASON_KERNEL;
    if (made.rcv_reason == AUTOBUF_REASON_UNKNOWN && plausible &&
        made.rcv_kernel_bytes >= plausible)
        made.rcv_reason = AUTOBUF_REASON_KERNEL;
    if (intent == AUTOBUF_INTENT_LOW_DELAY && p.tx_rate_bit_per_s &&
        !(p.flags & AUTOBUF_PATH_TX_AT_LEAST)) {
        made.snd_pacing_bit_per_s =
            autobuf_payload_bytes(ab_mul_div(p.tx_rate_bit_per_s, PACING_PERCENT, 100),
                                  p.packet_bytes);
        if (made.snd_reason != AUTOBUF_REASON_CAPPED)
            made.snd_reason = AUTOBUF_REASON_SET;
    }
    return ab_struct_out(plan, &made, sizeof made) ? 0 : -EINVAL;
}

/* Whether any path could make judge() act on this side; then *present and *best are its buffers. */
static bool side_can_change(const struct side *side, uint64_t *present, uint64_t *best)
{
    *present = present_stored(side);
    *best = ab_max(most_stored(side), side->locked ? side->kernel_stored : 0);
    return !side->late && *best > *present;
}

/* The wait for a measurement is made up for if the better window saves more round trips than that. */
static bool pays(uint64_t expected_bytes, uint64_t present, uint64_t best)
{
    uint64_t saved;

    if (!expected_bytes)
        return true;
    saved = ab_mul_div(expected_bytes, best - present, ab_max(best, 1));
    return saved / MEASURING_ROUND_TRIPS > present;
}

int autobuf_plan_worth(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                       uint32_t intent, uint64_t expected_bytes, uint64_t *rtt_enough_ns)
{
    uint64_t present, best, smallest = UINT64_MAX;
    struct autobuf_limits l;
    struct autobuf_socket s;
    struct side snd, rcv;

    if (!plan_inputs(limits, socket, intent, &l, &s))
        return -EINVAL;
    snd = snd_side(&l, &s);
    rcv = rcv_side(&l, &s);
    if (side_can_change(&snd, &present, &best) &&
        pays(expected_bytes, AB_SND_WINDOW(present), AB_SND_WINDOW(best)))
        smallest = AB_SND_WINDOW(present);
    if (side_can_change(&rcv, &present, &best) &&
        pays(expected_bytes, AB_RCV_WINDOW(present), AB_RCV_WINDOW(best)))
        smallest = ab_min(smallest, AB_RCV_WINDOW(present));
    if (rtt_enough_ns)
        *rtt_enough_ns = 0;
    if (intent == AUTOBUF_INTENT_LOW_DELAY) /* any path is paced, but not for a short transfer */
        return pays(expected_bytes, AB_SND_WINDOW(present_stored(&snd)),
                    2 * AB_SND_WINDOW(present_stored(&snd)));
    if (smallest == UINT64_MAX ||
        (!(l.flags & AUTOBUF_LIMITS_WINDOW_SCALING) && smallest >= UNSCALED_WINDOW_BYTES))
        return 0;
    if (rtt_enough_ns)
        *rtt_enough_ns = ab_mul_div(smallest, 8 * AB_NS_PER_S, AB_PLAUSIBLE_BIT_PER_S);
    return 1;
}

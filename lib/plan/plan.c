/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <errno.h>

/* Percent of the path's payload rate. At 100% a queue that exists already would never drain. */
#define PACING_PERCENT 99
/*
 * For low delay buffers are just above the product: the estimate may be too low, and acknowledgements are delayed.
 * More than half of a receive buffer may become window, and Linux from 6.6 on replaces a clamp that was set before
 * the SYN by that; so the receive buffer is the smallest.
 */
#define LOW_DELAY_CLAMP_PERCENT 115
#define LOW_DELAY_SND_PERCENT 125
#define LOW_DELAY_RCV_PERCENT 105
#define LOW_DELAY_SEGMENTS 4 /* but so many, of which three tell that the first is lost (RFC 5681): on loopback one has 64 KB */
/*
 * How much of the product a buffer is to hold. In a send buffer what exceeds the product stands in a queue. 135% is
 * enough for congestion control, whose window falls by 30% after a loss (cubic; transfer --quick, cells with
 * `root`). If the product is only a lower bound, it is 200%. A receive buffer only admits data, so it is 200% too.
 */
#define AMPLE_SND_PERCENT 135
#define AMPLE_PERCENT 200
#define UNSCALED_WINDOW_BYTES 65535
/*
 * A window that most paths do not fill: 1.3 Gbit/s over 100 ms. If autotuning makes the receive window so large, it
 * is no reason to measure, because few senders fill more. If it makes the send window so large, only a transfer
 * that is long even for such a path is a reason: on all other paths a measurement changes nothing and costs its
 * round trip (150 MB over 400 Mbit/s x 100 ms with a tcp_wmem of 32 MB: 4% of the time).
 */
#define PLENTY_BYTES 16000000
#define PLENTY_ROUND_TRIPS 30

/* One side of a socket. Both sides use these terms. */
struct side {
    uint64_t now_stored;
    uint64_t kernel_stored;   /* what autotuning reaches, if it is on or given back */
    uint64_t settable_stored; /* by setsockopt() */
    uint64_t share_stored;    /* and that one socket may pin */
    uint64_t window_max;      /* that the window scale can tell */
    uint64_t held_least;      /* window for low delay */
    bool receives;
    bool locked;
    bool for_good;            /* and nobody can unlock it */
    bool late;                /* the window scale is fixed */
    bool at_least;            /* the product is but a lower bound */
};

/* What came out. */
struct verdict {
    uint32_t reason;
    uint64_t request_bytes;
    uint64_t stored; /* expected, */
    uint64_t window; /* and what it gives */
    uint64_t needed; /* stored bytes for what is wanted */
    bool unlock;
    bool unscaled; /* this host's window scaling is off, and that limits the window */
};

static uint64_t doubled(uint64_t bytes)
{
    return 2 * ab_min(bytes, UINT64_MAX / 2);
}

static uint64_t share_stored(const struct autobuf_limits *limits)
{
    return limits->tcp_mem_bytes ? limits->tcp_mem_bytes / AB_TCP_MEM_SHARE : UINT64_MAX;
}

/* How much memory TCP has left to force a buffer that is now so large. Forced buffers count as if they were full. */
static uint64_t forced_share_stored(const struct autobuf_limits *limits, uint64_t now_stored, uint64_t unforced_stored)
{
    uint64_t all = limits->tcp_mem_bytes / AB_FORCED_SHARE;
    uint64_t own = now_stored > unforced_stored ? now_stored : 0;
    uint64_t forced = limits->forced_bytes - ab_min(limits->forced_bytes, own);
    uint64_t held = ab_max(limits->tcp_used_bytes, forced);

    return ab_min(share_stored(limits), all - ab_min(all, held));
}

static bool may_force(const struct autobuf_limits *limits)
{
    return limits->flags & AUTOBUF_LIMITS_FORCE && limits->tcp_mem_bytes;
}

/* TCP itself has seen a round-trip time as long as that of the path. */
static uint64_t forced_most_stored(const struct autobuf_socket *socket)
{
    bool seen = socket->stage == AUTOBUF_STAGE_CONNECTED && socket->rtt_min_ns != AUTOBUF_NS_UNSET;

    return seen ? AB_STORED_MAX : AB_UNSEEN_STORED;
}

static uint64_t forced_snd_stored(const struct autobuf_limits *limits, const struct autobuf_socket *socket)
{
    return forced_share_stored(limits, socket->snd_buf_bytes, ab_unforced_snd_stored(limits));
}

static uint64_t forced_rcv_stored(const struct autobuf_limits *limits, const struct autobuf_socket *socket)
{
    return forced_share_stored(limits, socket->rcv_buf_bytes, ab_unforced_rcv_stored(limits));
}

static bool is_above(uint64_t request_bytes, uint64_t share, const struct autobuf_limits *limits,
                     const struct autobuf_socket *socket)
{
    return !may_force(limits) || doubled(request_bytes) > ab_min(share, forced_most_stored(socket));
}

bool ab_plan_forces_too_much(const struct autobuf_plan *plan, const struct autobuf_limits *limits,
                             const struct autobuf_socket *socket)
{
    return (plan->flags & AUTOBUF_PLAN_SND_FORCE &&
            is_above(plan->snd_request_bytes, forced_snd_stored(limits, socket), limits, socket)) ||
           (plan->flags & AUTOBUF_PLAN_RCV_FORCE &&
            is_above(plan->rcv_request_bytes, forced_rcv_stored(limits, socket), limits, socket));
}

/* As the caller bounds it. */
static uint64_t bounded(const struct autobuf_limits *limits, uint64_t stored)
{
    return limits->request_most_bytes ? ab_min(stored, doubled(limits->request_most_bytes)) : stored;
}

static uint64_t window_max(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                           uint64_t of_connection)
{
    if (socket->stage == AUTOBUF_STAGE_CONNECTED)
        return of_connection ? of_connection : UINT64_MAX;
    return limits->flags & AUTOBUF_LIMITS_WINDOW_SCALING ? UINT64_MAX : UNSCALED_WINDOW_BYTES;
}

/* What force adds to what a side may be set to. */
static void add_force(struct side *side, uint64_t share, const struct autobuf_socket *socket)
{
    side->share_stored = ab_max(ab_min(side->settable_stored, side->share_stored), share);
    side->settable_stored = ab_max(side->settable_stored, forced_most_stored(socket));
}

/* A listener's send buffer is not forced: each of its connections would have it, and nobody counts them. */
static struct side snd_side(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                            uint32_t flags)
{
    struct side side = {
        .now_stored = socket->snd_buf_bytes,
        .kernel_stored = limits->tcp_wmem_max_bytes,
        .settable_stored = doubled(limits->snd_settable_bytes),
        .share_stored = share_stored(limits),
        .window_max = window_max(limits, socket, socket->snd_window_max_bytes),
        .held_least = LOW_DELAY_SEGMENTS * (uint64_t)socket->mss_bytes,
        .locked = socket->locks & AUTOBUF_LOCK_SND,
        .for_good = limits->flags & AUTOBUF_LIMITS_NO_UNLOCK,
        .late = socket->stage == AUTOBUF_STAGE_CONNECTED,
        .at_least = flags & AUTOBUF_PLAN_SND_AT_LEAST,
    };

    if (may_force(limits) && socket->stage != AUTOBUF_STAGE_LISTENING)
        add_force(&side, forced_snd_stored(limits, socket), socket);
    side.settable_stored = bounded(limits, side.settable_stored);
    return side;
}

/*
 * A receive buffer is forced on a connection only: before, the sysctls decide the window scale, and a larger buffer would
 * not get a larger window.
 */
static struct side rcv_side(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                            uint32_t flags)
{
    bool tuned = limits->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING;
    bool late = socket->stage == AUTOBUF_STAGE_CONNECTED;
    struct side side = {
        .now_stored = socket->rcv_buf_bytes,
        .kernel_stored = tuned ? limits->tcp_rmem_max_bytes : 0,
        .settable_stored = doubled(limits->rcv_settable_bytes),
        .share_stored = share_stored(limits),
        .window_max = window_max(limits, socket, socket->rcv_window_max_bytes),
        .held_least = LOW_DELAY_SEGMENTS * (uint64_t)socket->mss_bytes,
        .receives = true,
        .locked = socket->locks & AUTOBUF_LOCK_RCV,
        .for_good = limits->flags & AUTOBUF_LIMITS_NO_UNLOCK,
        .late = late,
        .at_least = flags & AUTOBUF_PLAN_RCV_AT_LEAST,
    };

    if (late && may_force(limits))
        add_force(&side, forced_rcv_stored(limits, socket), socket);
    side.settable_stored = bounded(limits, side.settable_stored);
    if (late && !socket->rcv_window_max_bytes) /* setting it needs a window clamp then, and that the window scale */
        side.settable_stored = 0;
    return side;
}

static uint64_t window_of(const struct side *side, uint64_t stored)
{
    return ab_min(side->receives ? AB_RCV_WINDOW(stored) : AB_SND_WINDOW(stored), side->window_max);
}

static void expect(struct verdict *v, const struct side *side, uint64_t stored)
{
    v->stored = stored;
    v->window = window_of(side, stored);
}

static uint64_t stored_for(const struct side *side, uint64_t window)
{
    return side->receives ? AB_RCV_STORED(window) : AB_SND_STORED(window);
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

/* The scale is fixed, but not known: nothing can be done for the receive side. */
static bool scale_unknown(const struct side *side)
{
    return side->receives && side->late && side->window_max == UINT64_MAX;
}

/* A side that is given back gets what autotuning would have made of it, if its window clamp can be raised again. */
static bool can_unlock(const struct side *side)
{
    return side->locked && !side->for_good && !scale_unknown(side);
}

/* No buffer of this side makes a difference, because the window scale limits it. */
static bool bound_by_scale(const struct side *side, uint64_t wanted)
{
    return side->window_max < wanted &&
           (!side->late || window_of(side, present_stored(side)) >= side->window_max);
}

/* ample: the window that congestion control can use, with the queue of the narrowest link. */
static struct verdict judge(const struct side *side, uint64_t wanted, uint64_t ample)
{
    uint64_t present = present_stored(side), best;
    uint64_t reachable = stored_for(side, ab_min(wanted, side->window_max));
    uint32_t short_of = side->window_max < wanted && side->late ? AUTOBUF_REASON_LATE
                                                                 : AUTOBUF_REASON_CAPPED;
    struct verdict v = {.needed = stored_for(side, wanted)};

    expect(&v, side, present);
    best = ab_min(stored_for(side, ab_min(ample, side->window_max)), most_stored(side));
    if (v.window >= wanted) {
        v.reason = side->locked ? AUTOBUF_REASON_LARGER : AUTOBUF_REASON_KERNEL;
    } else if (bound_by_scale(side, wanted)) {
        v.reason = short_of;
        v.unscaled = !side->late;
    } else if (can_unlock(side) && side->kernel_stored > present &&
               side->kernel_stored >= ab_min(reachable, best)) {
        v.unlock = true;
        expect(&v, side, side->kernel_stored);
        v.reason = v.window >= wanted ? AUTOBUF_REASON_KERNEL : short_of;
    } else if (window_of(side, best) <= v.window) {
        v.reason = scale_unknown(side) ? AUTOBUF_REASON_LATE : short_of;
    } else {
        v.request_bytes = best / 2;
        expect(&v, side, best);
        v.reason = v.window >= wanted ? AUTOBUF_REASON_SET : short_of;
    }
    return v;
}

/*
 * For low delay: if autotuning would let a buffer grow beyond the product, it is held just above the product. The
 * buffer of a receiving connection does not become smaller, because data on the way would be dropped.
 */
static struct verdict judge_low_delay(const struct side *side, uint64_t wanted)
{
    uint64_t target = ab_max(
        ab_mul_div(wanted, side->receives ? LOW_DELAY_RCV_PERCENT : LOW_DELAY_SND_PERCENT, 100), side->held_least);
    uint64_t stored = stored_for(side, target);
    struct verdict v = judge(side, wanted, target);

    if (side->receives && side->late)
        stored = ab_max(stored, side->now_stored);
    stored = ab_min(stored, most_stored(side));
    if (v.reason != AUTOBUF_REASON_KERNEL || v.window <= target ||
        stored < stored_for(side, wanted) || (side->receives && stored < side->now_stored))
        return v;
    v.unlock = false;
    v.request_bytes = stored / 2;
    expect(&v, side, stored);
    v.reason = AUTOBUF_REASON_SET;
    return v;
}

/* No more than the whole transfer is ever in flight, and the kernel's window may hold that already. */
static uint64_t wanted_window(uint64_t wanted, uint64_t expected_bytes, uint64_t kernel_window)
{
    if (expected_bytes && (wanted || expected_bytes <= kernel_window))
        return ab_min(wanted ? wanted : UINT64_MAX, expected_bytes);
    return wanted;
}

/*
 * How much larger than the wanted window the window that is set is: congestion control needs more than the product.
 */
static unsigned ample_percent(const struct side *side)
{
    return side->receives || side->at_least ? AMPLE_PERCENT : AMPLE_SND_PERCENT;
}

/* product: 0: unknown. held: for low delay, if the product is not only a lower bound. */
static struct verdict judge_side(const struct side *side, uint64_t product, uint64_t expected_bytes,
                                 bool held)
{
    struct verdict left_alone = {.reason = AUTOBUF_REASON_UNKNOWN};
    uint64_t wanted;

    expect(&left_alone, side, present_stored(side));
    wanted = wanted_window(product, expected_bytes, left_alone.window);
    if (!wanted)
        return left_alone;
    /* A transfer that is smaller than the product builds up no queue. */
    return held && wanted == product ? judge_low_delay(side, wanted)
                                     : judge(side, wanted, ab_mul_div(wanted, ample_percent(side), 100));
}

static void expect_snd(const struct side *side, uint64_t stored, struct autobuf_plan *plan)
{
    plan->snd_window_bytes = window_of(side, stored);
    plan->snd_block_bytes = ab_min(AB_SND_BLOCK_WINDOW(stored), side->window_max);
    plan->snd_retry_bytes = ab_min(stored, side->window_max);
}

static void plan_snd(const struct side *side, uint64_t expected_bytes, bool held,
                     const struct autobuf_limits *limits, struct autobuf_plan *plan)
{
    struct verdict v = judge_side(side, plan->snd_wanted_bytes, expected_bytes, held);

    plan->snd_kernel_bytes = window_of(side, present_stored(side));
    expect_snd(side, v.stored, plan);
    plan->snd_needed_bytes = v.needed;
    plan->snd_reason = v.reason;
    plan->snd_request_bytes = v.request_bytes;
    if (v.unlock)
        plan->flags |= AUTOBUF_PLAN_SND_UNLOCK;
    if (v.request_bytes > limits->snd_settable_bytes)
        plan->flags |= AUTOBUF_PLAN_SND_FORCE;
    if (v.reason != AUTOBUF_REASON_CAPPED)
        return;
    if (v.unscaled) {
        plan->snd_sysctl = AUTOBUF_SYSCTL_WINDOW_SCALING;
        return;
    }
    if (side->share_stored < v.needed)
        plan->snd_sysctl |= AUTOBUF_SYSCTL_TCP_MEM;
    if (side->settable_stored < v.needed)
        plan->snd_sysctl |= AUTOBUF_SYSCTL_WMEM_MAX;
}

static void plan_rcv(const struct side *side, uint64_t expected_bytes, bool held,
                     const struct autobuf_limits *limits, struct autobuf_plan *plan)
{
    struct verdict v = judge_side(side, plan->rcv_wanted_bytes, expected_bytes, held);

    plan->rcv_kernel_bytes = window_of(side, present_stored(side));
    plan->rcv_window_bytes = v.window;
    plan->rcv_needed_bytes = v.needed;
    plan->rcv_reason = v.reason;
    plan->rcv_request_bytes = v.request_bytes;
    if (v.request_bytes > limits->rcv_settable_bytes)
        plan->flags |= AUTOBUF_PLAN_RCV_FORCE;
    if (v.unlock)
        plan->flags |= AUTOBUF_PLAN_RCV_UNLOCK;
    if (side->late && (v.unlock || v.request_bytes)) /* the old clamp would stay behind */
        plan->rcv_clamp_bytes = side->window_max;
    if (held && v.request_bytes && v.reason == AUTOBUF_REASON_SET &&
        v.needed >= AB_RCV_STORED(plan->rcv_wanted_bytes)) {
        uint64_t clamp = ab_mul_div(plan->rcv_wanted_bytes, LOW_DELAY_CLAMP_PERCENT, 100);

        plan->rcv_clamp_bytes = ab_min(ab_max(clamp, side->held_least), side->window_max);
        plan->rcv_window_bytes = ab_min(v.window, plan->rcv_clamp_bytes);
    }
    if (v.reason != AUTOBUF_REASON_CAPPED)
        return;
    if (v.unscaled)
        plan->rcv_sysctl = AUTOBUF_SYSCTL_WINDOW_SCALING;
    else if (!side->kernel_stored && limits->tcp_rmem_max_bytes >= v.needed)
        plan->rcv_sysctl = AUTOBUF_SYSCTL_MODERATE_RCVBUF;
    else
        plan->rcv_sysctl = AUTOBUF_SYSCTL_TCP_RMEM;
}

void ab_plan_nothing(uint32_t reason, uint32_t intent, struct autobuf_plan *plan)
{
    *plan = (struct autobuf_plan)AUTOBUF_PLAN_INIT;
    plan->intent = intent;
    plan->snd_reason = plan->rcv_reason = reason;
}

/* How much a side is expected to carry. If the bulk goes the other way, that is hardly anything. */
static uint64_t side_bytes(uint32_t intent, uint32_t side, uint64_t expected_bytes)
{
    uint32_t other = side ^ (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);

    return (intent & (side | other)) == other ? 1 : expected_bytes;
}

/* The limits for the other side of a connection whose send buffer is forced, too. */
static struct autobuf_limits limits_beside(const struct autobuf_limits *limits, const struct autobuf_plan *plan)
{
    struct autobuf_limits left = *limits;
    uint64_t bytes = plan->flags & AUTOBUF_PLAN_SND_FORCE ? doubled(plan->snd_request_bytes) : 0;

    left.tcp_used_bytes += ab_min(bytes, UINT64_MAX - left.tcp_used_bytes);
    left.forced_bytes += ab_min(bytes, UINT64_MAX - left.forced_bytes);
    return left;
}

void ab_plan_windows(uint64_t snd_wanted_bytes, uint64_t rcv_wanted_bytes,
                     const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                     uint64_t expected_bytes, struct autobuf_plan *plan)
{
    struct side snd = snd_side(limits, socket, plan->flags), rcv;
    struct autobuf_limits left;
    bool low_delay = plan->intent & AUTOBUF_INTENT_LOW_DELAY;
    uint64_t largest = UINT64_MAX / 16; /* room for the arithmetic */

    plan->snd_wanted_bytes = ab_min(snd_wanted_bytes, largest);
    plan->rcv_wanted_bytes = ab_min(rcv_wanted_bytes, largest);
    plan_snd(&snd, side_bytes(plan->intent, AUTOBUF_INTENT_SENDS, expected_bytes),
             low_delay && !(plan->flags & AUTOBUF_PLAN_SND_AT_LEAST), limits, plan);
    left = limits_beside(limits, plan);
    rcv = rcv_side(&left, socket, plan->flags);
    plan_rcv(&rcv, side_bytes(plan->intent, AUTOBUF_INTENT_RECEIVES, expected_bytes),
             low_delay && !(plan->flags & AUTOBUF_PLAN_RCV_AT_LEAST), limits, plan);
}

/* Says whether a side is given back though nothing is known of the path: no path needs the smaller window. */
static bool gives_back(const struct side *side, uint32_t reason)
{
    return reason == AUTOBUF_REASON_UNKNOWN && can_unlock(side) &&
           window_of(side, side->kernel_stored) > window_of(side, side->now_stored);
}

void ab_plan_limits(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                    struct autobuf_plan *plan)
{
    struct side snd = snd_side(limits, socket, 0), rcv = rcv_side(limits, socket, 0);
    uint32_t sides = plan->intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);

    if (plan->intent & AUTOBUF_INTENT_LOW_DELAY)
        return;
    if (sides != AUTOBUF_INTENT_RECEIVES && gives_back(&snd, plan->snd_reason)) {
        plan->flags |= AUTOBUF_PLAN_SND_UNLOCK;
        plan->snd_reason = AUTOBUF_REASON_KERNEL;
        expect_snd(&snd, snd.kernel_stored, plan);
    }
    if (sides != AUTOBUF_INTENT_SENDS && gives_back(&rcv, plan->rcv_reason)) {
        plan->flags |= AUTOBUF_PLAN_RCV_UNLOCK;
        plan->rcv_reason = AUTOBUF_REASON_KERNEL;
        plan->rcv_window_bytes = window_of(&rcv, rcv.kernel_stored);
        if (rcv.late) /* the old clamp would stay behind */
            plan->rcv_clamp_bytes = rcv.window_max;
    }
}

/* The largest window that a plausible rate needs at this round-trip time; 0: unknown. */
static uint64_t plausible_window(uint64_t rtt_ns)
{
    if (rtt_ns == AUTOBUF_NS_UNSET)
        return 0;
    return ab_mul_div(AB_PLAUSIBLE_BIT_PER_S, rtt_ns, 8 * AB_NS_PER_S) + 1;
}

bool ab_intent_known(uint32_t intent)
{
    return !(intent &
             ~(AUTOBUF_INTENT_LOW_DELAY | AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES));
}

static bool plan_inputs(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                        uint32_t intent, struct autobuf_limits *our_limits,
                        struct autobuf_socket *our_socket)
{
    if (!ab_intent_known(intent) || !ab_struct_in(our_limits, sizeof *our_limits, limits) ||
        !ab_struct_in(our_socket, sizeof *our_socket, socket))
        return false;
    /* If the struct ends before this field, or is zeroed, the round-trip time is unknown. */
    our_socket->rtt_min_ns = ab_ns_or_unset(our_socket->rtt_min_ns);
    return true;
}

/*
 * The peer can make the measured round-trip time longer. If TCP has seen a shorter one on the connection itself,
 * TCP's counts, and the product becomes smaller in proportion.
 */
static void believe_tcp(const struct autobuf_socket *socket, struct autobuf_path *path)
{
    uint64_t tcp_ns = socket->rtt_min_ns, told_ns = path->rtt_min_ns;

    if (told_ns == AUTOBUF_NS_UNSET || told_ns <= tcp_ns || path->method == AUTOBUF_METHOD_GIVEN)
        return;
    path->tx_bdp_bytes = ab_mul_div(path->tx_bdp_bytes, tcp_ns, told_ns);
    path->rx_bdp_bytes = ab_mul_div(path->rx_bdp_bytes, tcp_ns, told_ns);
    path->rtt_min_ns = tcp_ns;
}

/* If nobody sends faster than the narrowest link, its queue stays empty. */
static void plan_pacing(const struct autobuf_path *path, struct autobuf_plan *plan)
{
    if (!path->tx_rate_bit_per_s || path->flags & AUTOBUF_PATH_TX_AT_LEAST)
        return;
    plan->snd_pacing_bit_per_s = autobuf_payload_bytes(
        ab_mul_div(path->tx_rate_bit_per_s, PACING_PERCENT, 100), path->packet_bytes);
    if (plan->snd_reason != AUTOBUF_REASON_CAPPED && plan->snd_reason != AUTOBUF_REASON_LATE)
        plan->snd_reason = AUTOBUF_REASON_SET;
}

void autobuf_plan_init(struct autobuf_plan *plan, uint32_t size)
{
    static const struct autobuf_plan fresh = AUTOBUF_PLAN_INIT;

    ab_struct_init(plan, size, &fresh, sizeof fresh);
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
    believe_tcp(&s, &p);
    made.rtt_ns = p.rtt_min_ns;
    if (made.rtt_ns == AUTOBUF_NS_UNSET)
        made.rtt_ns = s.rtt_min_ns;
    if (p.flags & AUTOBUF_PATH_TX_AT_LEAST)
        made.flags |= AUTOBUF_PLAN_SND_AT_LEAST;
    if (p.flags & AUTOBUF_PATH_RX_AT_LEAST)
        made.flags |= AUTOBUF_PLAN_RCV_AT_LEAST;
    ab_plan_windows(autobuf_payload_bytes(p.tx_bdp_bytes, p.packet_bytes),
                    autobuf_payload_bytes(p.rx_bdp_bytes, p.packet_bytes), &l, &s, expected_bytes,
                    &made);
    plausible = plausible_window(made.rtt_ns);
    if (made.snd_reason == AUTOBUF_REASON_UNKNOWN && plausible &&
        made.snd_kernel_bytes >= plausible)
        made.snd_reason = AUTOBUF_REASON_KERNEL;
    if (made.rcv_reason == AUTOBUF_REASON_UNKNOWN && plausible &&
        made.rcv_kernel_bytes >= plausible)
        made.rcv_reason = AUTOBUF_REASON_KERNEL;
    if (intent & AUTOBUF_INTENT_LOW_DELAY &&
        side_bytes(intent, AUTOBUF_INTENT_SENDS, expected_bytes) == expected_bytes)
        plan_pacing(&p, &made);
    return ab_struct_out(plan, &made, sizeof made) ? 0 : -EINVAL;
}

/* A measurement pays if the larger window saves more round trips than the measurement takes. */
static bool pays(uint64_t expected_bytes, uint64_t present, uint64_t best)
{
    uint64_t saved, worth = present < PLENTY_BYTES ? AB_MEASURING_ROUND_TRIPS : PLENTY_ROUND_TRIPS;

    if (!expected_bytes)
        return true;
    saved = ab_mul_div(expected_bytes, best - present, ab_max(best, 1));
    return saved / worth > present;
}

/*
 * Says whether any path could make judge() act on this side. It acts if the product is above *low, and acts in the
 * same way for all products from *high on.
 */
static bool side_can_change(const struct side *side, uint64_t expected_bytes, uint64_t *low,
                            uint64_t *high)
{
    uint64_t given_back = can_unlock(side) ? window_of(side, side->kernel_stored) : 0;
    uint64_t best = ab_max(window_of(side, most_stored(side)), given_back);

    *low = window_of(side, present_stored(side));
    *high = ab_max(ab_max(*low, given_back), ab_mul_div(best, 100, ample_percent(side)) + 1) + 1;
    if (!side->late && side->window_max < UINT64_MAX) /* beyond it nothing is done at all */
        *high = side->window_max + 1;
    if (side->receives && *low >= PLENTY_BYTES)
        return false;
    return best > *low && pays(expected_bytes, *low, best);
}

/* Converts payload to IP bytes, in full-size packets: smaller packets hold less payload. */
static uint64_t ip_bytes(uint64_t payload_bytes)
{
    return ab_mul_div(payload_bytes, AB_IP_PACKET_BYTES, AB_IP_PACKET_BYTES - AB_TCP_HEADER_BYTES);
}

/* Every path is paced, but not for a short transfer. */
static bool worth_for_low_delay(const struct side *snd, uint64_t expected_bytes)
{
    uint64_t present = window_of(snd, present_stored(snd));

    return pays(expected_bytes, present, 2 * present);
}

int autobuf_plan_worth(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                       uint32_t intent, uint64_t expected_bytes, uint64_t *bdp_low_bytes,
                       uint64_t *bdp_high_bytes)
{
    uint64_t low = UINT64_MAX, high = 0, side_low, side_high;
    struct autobuf_limits l;
    struct autobuf_socket s;
    struct side snd, rcv;

    if (!plan_inputs(limits, socket, intent, &l, &s))
        return -EINVAL;
    snd = snd_side(&l, &s, 0);
    rcv = rcv_side(&l, &s, 0);
    if (side_can_change(&snd, side_bytes(intent, AUTOBUF_INTENT_SENDS, expected_bytes), &side_low,
                        &side_high)) {
        low = side_low;
        high = side_high;
    }
    if (side_can_change(&rcv, side_bytes(intent, AUTOBUF_INTENT_RECEIVES, expected_bytes), &side_low,
                        &side_high)) {
        low = ab_min(low, side_low);
        high = ab_max(high, side_high);
    }
    if (bdp_low_bytes)
        *bdp_low_bytes = 0;
    if (bdp_high_bytes)
        *bdp_high_bytes = 0;
    if (intent & AUTOBUF_INTENT_LOW_DELAY)
        return worth_for_low_delay(&snd, expected_bytes);
    if (low == UINT64_MAX || (s.rtt_min_ns != AUTOBUF_NS_UNSET && plausible_window(s.rtt_min_ns) <= low))
        return 0;
    if (bdp_low_bytes)
        *bdp_low_bytes = ab_max(ip_bytes(low), 1); /* 0 would say that every product is */
    if (bdp_high_bytes)
        *bdp_high_bytes = ip_bytes(high) + 2;
    return 1;
}

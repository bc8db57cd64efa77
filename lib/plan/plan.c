/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <errno.h>

/* Percent of the path's payload rate. At 100% a standing queue would never drain. */
#define PACING_PERCENT 99 /* unit: low_delay_keeps_both_sides_near_the_bdp, as all of LOW_DELAY_* */
/*
 * For low delay buffers are just above the BDP: the estimate may be too low, and ACKs are delayed. More than half of
 * sk_rcvbuf may become window, and Linux from 6.6 on replaces a clamp that was set before the SYN by that; so the
 * receive buffer is the smallest.
 */
#define LOW_DELAY_CLAMP_PERCENT 115
#define LOW_DELAY_SND_PERCENT 125
#define LOW_DELAY_RCV_PERCENT 105
#define LOW_DELAY_SEGMENTS 4 /* but so many segments: three duplicate ACKs show a loss (RFC 5681) */
/*
 * Percent of the BDP. What a send buffer holds beyond the BDP stands in a queue. 135% is enough for congestion
 * control: cubic's window falls by 30% after a loss (tests/bench/run transfer, cells with `root`). If the BDP is only a
 * lower bound, it is 200%; but not if that is an echo's, which is the BDP itself on most paths. A receive buffer only
 * admits data, so it is 200% too.
 */
#define AMPLE_SND_PERCENT 135
#define AMPLE_PERCENT 200 /* unit: a_lower_bound_is_doubled */
/*
 * A window that most paths do not fill: 1.3 Gbit/s over 100 ms. If autotuning makes the receive window so large, do
 * not measure: few senders fill more. If it makes the send window so large, measure only for a transfer of more than
 * PLENTY_ROUND_TRIPS: others lose a round trip (4% of 150 MB over 400 Mbit/s x 100 ms, tcp_wmem 32 MB).
 */
#define PLENTY_BYTES 16000000 /* unit: worth_measuring */
#define PLENTY_ROUND_TRIPS 30 /* unit: worth_measuring */

/* One side of a socket. "buf" is sk_sndbuf or sk_rcvbuf. */
struct side {
    uint64_t now_buf;
    uint64_t kernel_buf;    /* what autotuning reaches, once the lock is cleared */
    uint64_t settable_buf;  /* by setsockopt() */
    uint64_t share_buf;     /* that one socket may pin of tcp_mem */
    uint64_t window_max;    /* that the window scale allows */
    uint64_t low_delay_min; /* smallest window for low delay */
    bool receives;
    bool locked;
    bool cannot_unlock; /* the kernel has no SO_BUF_LOCK */
    bool late;          /* the window scale is fixed */
    bool at_least;      /* the BDP is only a lower bound, and no echo's */
};

struct verdict {
    uint32_t reason;
    uint64_t request_bytes;
    uint64_t buf;    /* expected, */
    uint64_t window; /* and what it gives */
    uint64_t needed; /* buf for the wanted window */
    bool unlock;
    bool unscaled; /* net.ipv4.tcp_window_scaling=0 limits the window */
};

static uint64_t doubled(uint64_t bytes)
{
    return 2 * ab_min(bytes, UINT64_MAX / 2);
}

static uint64_t share_of_tcp_mem(const struct autobuf_limits *limits)
{
    return limits->tcp_mem_bytes ? limits->tcp_mem_bytes / AB_TCP_MEM_SHARE : UINT64_MAX;
}

/* The memory of TCP that is left to force a buffer that is now now_buf. Forced buffers count as full. */
static uint64_t forced_share(const struct autobuf_limits *limits, uint64_t now_buf, uint64_t unforced_buf)
{
    uint64_t all = limits->tcp_mem_bytes / AB_FORCED_SHARE;
    uint64_t own = now_buf > unforced_buf ? now_buf : 0;
    uint64_t forced = limits->forced_bytes - ab_min(limits->forced_bytes, own);
    uint64_t used = ab_max(limits->tcp_used_bytes, forced);

    return ab_min(share_of_tcp_mem(limits), all - ab_min(all, used));
}

static bool may_force(const struct autobuf_limits *limits)
{
    return limits->flags & AUTOBUF_LIMITS_FORCE && limits->tcp_mem_bytes;
}

static uint64_t forced_max(const struct autobuf_socket *socket)
{
    bool has_rtt = socket->stage == AUTOBUF_STAGE_CONNECTED && ab_ns_or_unset(socket->rtt_min_ns) != AUTOBUF_NS_UNSET;

    return has_rtt ? AB_SK_BUF_MAX : AB_UNSEEN_BUF_MAX;
}

static uint64_t forced_share_of(const struct autobuf_limits *limits, const struct autobuf_socket *socket, bool receives)
{
    return receives ? forced_share(limits, socket->rcv_buf_bytes, ab_unforced_rcvbuf(limits))
                    : forced_share(limits, socket->snd_buf_bytes, ab_unforced_sndbuf(limits));
}

static bool exceeds_forced_share(uint64_t request_bytes, const struct autobuf_limits *limits,
                                 const struct autobuf_socket *socket, bool receives)
{
    return !may_force(limits) ||
           doubled(request_bytes) > ab_min(forced_share_of(limits, socket, receives), forced_max(socket));
}

static uint64_t window_max(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                           uint64_t of_connection)
{
    if (socket->stage == AUTOBUF_STAGE_CONNECTED)
        return of_connection ? of_connection : UINT64_MAX;
    return limits->flags & AUTOBUF_LIMITS_WINDOW_SCALING ? UINT64_MAX : AB_UNSCALED_WINDOW_BYTES;
}

/*
 * A listener's send buffer is not forced: every accepted connection would inherit it. Before the SYN no receive buffer
 * is: the sysctls decide the window scale, so the window would not grow.
 */
static bool is_forcible(const struct autobuf_limits *limits, const struct side *side, uint32_t stage)
{
    return may_force(limits) && (side->receives ? side->late : stage != AUTOBUF_STAGE_LISTENING);
}

static struct side side_of(const struct autobuf_limits *limits, const struct autobuf_socket *socket, uint32_t flags,
                           bool receives)
{
    bool tuned = limits->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING;
    struct side side = {
        .now_buf = receives ? socket->rcv_buf_bytes : socket->snd_buf_bytes,
        .kernel_buf = !receives ? limits->tcp_wmem_max_bytes : tuned ? limits->tcp_rmem_max_bytes : 0,
        .settable_buf = doubled(receives ? limits->rcv_settable_bytes : limits->snd_settable_bytes),
        .share_buf = share_of_tcp_mem(limits),
        .window_max =
            window_max(limits, socket, receives ? socket->rcv_window_max_bytes : socket->snd_window_max_bytes),
        .low_delay_min = LOW_DELAY_SEGMENTS * (uint64_t)socket->mss_bytes,
        .receives = receives,
        .locked = socket->locks & (receives ? AUTOBUF_LOCK_RCV : AUTOBUF_LOCK_SND),
        .cannot_unlock = limits->flags & AUTOBUF_LIMITS_NO_UNLOCK,
        .late = socket->stage == AUTOBUF_STAGE_CONNECTED,
        .at_least = receives ? (flags & AUTOBUF_PLAN_RCV_AT_LEAST) != 0
                             : (flags & (AUTOBUF_PLAN_SND_AT_LEAST | AUTOBUF_PLAN_SND_ECHOED)) ==
                                   AUTOBUF_PLAN_SND_AT_LEAST,
    };

    if (is_forcible(limits, &side, socket->stage)) {
        side.share_buf = ab_max(ab_min(side.settable_buf, side.share_buf), forced_share_of(limits, socket, receives));
        side.settable_buf = ab_max(side.settable_buf, forced_max(socket));
    }
    if (limits->request_most_bytes)
        side.settable_buf = ab_min(side.settable_buf, doubled(limits->request_most_bytes));
    if (receives && side.late && !socket->rcv_window_max_bytes)
        side.settable_buf = 0; /* TCP_WINDOW_CLAMP, needed then, depends on the scale */
    return side;
}

/* Of window_max UINT64_MAX means that the scale is not known yet. */
static uint64_t most_window(const struct side *side)
{
    return ab_min(side->window_max, AB_SCALED_WINDOW_BYTES);
}

static uint64_t window_of(const struct side *side, uint64_t buf)
{
    return ab_min(side->receives ? AB_RCV_WINDOW(buf) : AB_SND_WINDOW(buf), most_window(side));
}

static void expect(struct verdict *v, const struct side *side, uint64_t buf)
{
    v->buf = buf;
    v->window = window_of(side, buf);
}

static uint64_t buf_for(const struct side *side, uint64_t window)
{
    return side->receives ? AB_RCV_STORED(window) : AB_SND_STORED(window);
}

/* What the side reaches if it is left alone. */
static uint64_t present_buf(const struct side *side)
{
    return side->locked ? side->now_buf : ab_max(side->kernel_buf, side->now_buf);
}

static uint64_t largest_buf(const struct side *side)
{
    return ab_min(side->settable_buf, side->share_buf);
}

/* The window scale is fixed, but not known: the receive side stays as it is. */
static bool scale_unknown(const struct side *side)
{
    return side->receives && side->late && side->window_max == UINT64_MAX;
}

static bool can_unlock(const struct side *side)
{
    return side->locked && !side->cannot_unlock && !scale_unknown(side);
}

/* ample: the window that congestion control can use, the queue at the bottleneck included. */
static struct verdict judge(const struct side *side, uint64_t wanted, uint64_t ample)
{
    uint64_t present = present_buf(side), best;
    uint64_t reachable = buf_for(side, ab_min(wanted, most_window(side)));
    bool bound = side->window_max < wanted; /* by the window scale */
    uint32_t short_of = bound && side->late ? AUTOBUF_REASON_LATE : AUTOBUF_REASON_CAPPED;
    struct verdict v = {.needed = buf_for(side, ab_min(wanted, AB_SCALED_WINDOW_BYTES)),
                        .unscaled = bound && !side->late};

    expect(&v, side, present);
    best = ab_min(buf_for(side, ab_min(ample, most_window(side))), largest_buf(side));
    if (v.window >= wanted) {
        v.reason = side->locked ? AUTOBUF_REASON_LARGER : AUTOBUF_REASON_KERNEL;
    } else if (bound && v.window >= side->window_max) { /* no buffer makes a difference */
        v.reason = short_of;
    } else if (can_unlock(side) && side->kernel_buf > present &&
               side->kernel_buf >= ab_min(reachable, best)) {
        v.unlock = true;
        expect(&v, side, side->kernel_buf);
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
 * For low delay: a buffer that autotuning would let grow beyond the BDP is set just above the BDP. The receive buffer
 * of a connection does not shrink, because data in flight would be dropped.
 */
static struct verdict judge_low_delay(const struct side *side, uint64_t wanted)
{
    uint64_t target = ab_max(
        ab_percent(wanted, side->receives ? LOW_DELAY_RCV_PERCENT : LOW_DELAY_SND_PERCENT), side->low_delay_min);
    uint64_t buf = buf_for(side, target);
    struct verdict v = judge(side, wanted, target);

    if (side->receives && side->late)
        buf = ab_max(buf, side->now_buf);
    buf = ab_min(buf, largest_buf(side));
    if (v.reason != AUTOBUF_REASON_KERNEL || v.window <= target ||
        buf < buf_for(side, wanted) || (side->receives && buf < side->now_buf))
        return v;
    v.unlock = false;
    v.request_bytes = buf / 2;
    expect(&v, side, buf);
    v.reason = AUTOBUF_REASON_SET;
    return v;
}

/* The whole transfer is the most that can be in flight; if autotuning's window holds it, the BDP need not be known. */
static uint64_t wanted_window(uint64_t wanted, uint64_t expected_bytes, uint64_t kernel_window)
{
    if (expected_bytes && (wanted || expected_bytes <= kernel_window))
        return ab_min(wanted ? wanted : UINT64_MAX, expected_bytes);
    return wanted;
}

static unsigned ample_percent(const struct side *side)
{
    return side->receives || side->at_least ? AMPLE_PERCENT : AMPLE_SND_PERCENT;
}

/* bdp: 0: unknown. low_delay: false also if the BDP is only a lower bound. */
static struct verdict judge_side(const struct side *side, uint64_t bdp, uint64_t expected_bytes, bool low_delay)
{
    struct verdict left_alone = {.reason = AUTOBUF_REASON_UNKNOWN};
    uint64_t wanted;

    expect(&left_alone, side, present_buf(side));
    wanted = wanted_window(bdp, expected_bytes, left_alone.window);
    if (!wanted)
        return left_alone;
    /* A transfer that is smaller than the BDP builds up no queue. */
    return low_delay && wanted == bdp ? judge_low_delay(side, wanted)
                                      : judge(side, wanted, ab_percent(wanted, ample_percent(side)));
}

static void expect_snd(const struct side *side, uint64_t buf, struct autobuf_plan *plan)
{
    plan->snd_window_bytes = window_of(side, buf);
    plan->snd_block_bytes = ab_min(AB_SND_BLOCK_WINDOW(buf), most_window(side));
    plan->snd_retry_bytes = ab_min(buf, most_window(side));
}

static void plan_snd(const struct side *side, uint64_t expected_bytes, bool low_delay,
                     const struct autobuf_limits *limits, struct autobuf_plan *plan)
{
    struct verdict v = judge_side(side, plan->snd_wanted_bytes, expected_bytes, low_delay);
    uint64_t most = limits->request_most_bytes ? doubled(limits->request_most_bytes) : UINT64_MAX;

    plan->snd_kernel_bytes = window_of(side, present_buf(side));
    expect_snd(side, v.buf, plan);
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
    if (side->share_buf < v.needed)
        plan->snd_sysctl |= AUTOBUF_SYSCTL_TCP_MEM;
    if (side->settable_buf < v.needed && side->settable_buf < most)
        plan->snd_sysctl |= AUTOBUF_SYSCTL_WMEM_MAX;
}

static void plan_rcv(const struct side *side, uint64_t expected_bytes, bool low_delay,
                     const struct autobuf_limits *limits, struct autobuf_plan *plan)
{
    struct verdict v = judge_side(side, plan->rcv_wanted_bytes, expected_bytes, low_delay);

    plan->rcv_kernel_bytes = window_of(side, present_buf(side));
    plan->rcv_window_bytes = v.window;
    plan->rcv_needed_bytes = v.needed;
    plan->rcv_reason = v.reason;
    plan->rcv_request_bytes = v.request_bytes;
    if (v.request_bytes > limits->rcv_settable_bytes)
        plan->flags |= AUTOBUF_PLAN_RCV_FORCE;
    if (v.unlock)
        plan->flags |= AUTOBUF_PLAN_RCV_UNLOCK;
    if (side->late && (v.unlock || v.request_bytes)) /* the kernel keeps the old clamp */
        plan->rcv_clamp_bytes = side->window_max;
    if (low_delay && v.request_bytes && v.reason == AUTOBUF_REASON_SET &&
        v.needed >= AB_RCV_STORED(plan->rcv_wanted_bytes)) {
        uint64_t clamp = ab_percent(plan->rcv_wanted_bytes, LOW_DELAY_CLAMP_PERCENT);

        plan->rcv_clamp_bytes = ab_min(ab_max(clamp, side->low_delay_min), side->window_max);
        plan->rcv_window_bytes = ab_min(v.window, plan->rcv_clamp_bytes);
    }
    if (v.reason != AUTOBUF_REASON_CAPPED)
        return;
    if (v.unscaled)
        plan->rcv_sysctl = AUTOBUF_SYSCTL_WINDOW_SCALING;
    else if (!side->kernel_buf && limits->tcp_rmem_max_bytes >= v.needed)
        plan->rcv_sysctl = AUTOBUF_SYSCTL_MODERATE_RCVBUF;
    else if (limits->tcp_rmem_max_bytes < v.needed)
        plan->rcv_sysctl = AUTOBUF_SYSCTL_TCP_RMEM;
}

void ab_plan_nothing(uint32_t reason, uint32_t intent, struct autobuf_plan *plan)
{
    *plan = (struct autobuf_plan){.size = sizeof *plan, .intent = intent, .snd_reason = reason, .rcv_reason = reason,
                                  .rtt_ns = AUTOBUF_NS_UNSET};
}

/* Expected bytes of one side: hardly any if the bulk goes the other way. */
static uint64_t side_bytes(uint32_t intent, uint32_t side, uint64_t expected_bytes)
{
    uint32_t other = side ^ (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);

    return (intent & (side | other)) == other ? 1 : expected_bytes;
}

/* The limits that are left for the receive side if the send buffer is forced. */
static struct autobuf_limits limits_beside_snd(const struct autobuf_limits *limits, const struct autobuf_plan *plan)
{
    struct autobuf_limits left = *limits;
    uint64_t bytes = plan->flags & AUTOBUF_PLAN_SND_FORCE ? doubled(plan->snd_request_bytes) : 0;

    left.tcp_used_bytes += ab_min(bytes, UINT64_MAX - left.tcp_used_bytes);
    left.forced_bytes += ab_min(bytes, UINT64_MAX - left.forced_bytes);
    return left;
}

bool ab_plan_forces_too_much(const struct autobuf_plan *plan, const struct autobuf_limits *limits,
                             const struct autobuf_socket *socket)
{
    struct autobuf_limits left = limits_beside_snd(limits, plan);

    return (plan->flags & AUTOBUF_PLAN_SND_FORCE &&
            exceeds_forced_share(plan->snd_request_bytes, limits, socket, false)) ||
           (plan->flags & AUTOBUF_PLAN_RCV_FORCE &&
            exceeds_forced_share(plan->rcv_request_bytes, &left, socket, true));
}

void ab_plan_windows(uint64_t snd_wanted_bytes, uint64_t rcv_wanted_bytes,
                     const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                     uint64_t expected_bytes, struct autobuf_plan *plan)
{
    struct side snd = side_of(limits, socket, plan->flags, false), rcv;
    struct autobuf_limits left;
    bool low_delay = plan->intent & AUTOBUF_INTENT_LOW_DELAY;
    uint64_t largest = UINT64_MAX / 16; /* room for the arithmetic */

    plan->snd_wanted_bytes = ab_min(snd_wanted_bytes, largest);
    plan->rcv_wanted_bytes = ab_min(rcv_wanted_bytes, largest);
    plan_snd(&snd, side_bytes(plan->intent, AUTOBUF_INTENT_SENDS, expected_bytes),
             low_delay && !(plan->flags & AUTOBUF_PLAN_SND_AT_LEAST), limits, plan);
    left = limits_beside_snd(limits, plan);
    rcv = side_of(&left, socket, plan->flags, true);
    plan_rcv(&rcv, side_bytes(plan->intent, AUTOBUF_INTENT_RECEIVES, expected_bytes),
             low_delay && !(plan->flags & AUTOBUF_PLAN_RCV_AT_LEAST), limits, plan);
}

/*
 * If too little is known of a path to say that a program's own size is large enough, a side goes back to autotuning if
 * that reaches a larger window.
 */
static bool is_unlocked(const struct side *side, uint32_t reason, bool at_least)
{
    return (reason == AUTOBUF_REASON_UNKNOWN || (reason == AUTOBUF_REASON_LARGER && at_least)) && can_unlock(side) &&
           window_of(side, side->kernel_buf) > window_of(side, side->now_buf);
}

void ab_plan_limits(const struct autobuf_limits *limits, const struct autobuf_socket *socket, struct autobuf_plan *plan)
{
    struct side snd = side_of(limits, socket, 0, false), rcv = side_of(limits, socket, 0, true);
    uint32_t sides = plan->intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);

    if (plan->intent & AUTOBUF_INTENT_LOW_DELAY)
        return;
    if (sides != AUTOBUF_INTENT_RECEIVES &&
        is_unlocked(&snd, plan->snd_reason, plan->flags & AUTOBUF_PLAN_SND_AT_LEAST)) {
        plan->flags |= AUTOBUF_PLAN_SND_UNLOCK;
        plan->snd_reason = AUTOBUF_REASON_KERNEL;
        expect_snd(&snd, snd.kernel_buf, plan);
    }
    if (sides != AUTOBUF_INTENT_SENDS && is_unlocked(&rcv, plan->rcv_reason, plan->flags & AUTOBUF_PLAN_RCV_AT_LEAST)) {
        plan->flags |= AUTOBUF_PLAN_RCV_UNLOCK;
        plan->rcv_reason = AUTOBUF_REASON_KERNEL;
        plan->rcv_window_bytes = window_of(&rcv, rcv.kernel_buf);
        if (rcv.late) /* the kernel keeps the old clamp */
            plan->rcv_clamp_bytes = rcv.window_max;
    }
}

/* The window of AB_PLAUSIBLE_BIT_PER_S at this RTT; 0: unknown. */
static uint64_t plausible_window(uint64_t rtt_ns)
{
    if (rtt_ns == AUTOBUF_NS_UNSET)
        return 0;
    return ab_mul_div(AB_PLAUSIBLE_BIT_PER_S, rtt_ns, 8 * AB_NS_PER_S) + 1;
}

bool ab_intent_known(uint32_t intent)
{
    return (intent & ~(AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)) <= AUTOBUF_INTENT_SCAVENGER;
}

static bool plan_inputs(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                        uint32_t intent, struct autobuf_limits *our_limits,
                        struct autobuf_socket *our_socket)
{
    if (!ab_intent_known(intent) || !ab_struct_in(our_limits, sizeof *our_limits, limits) ||
        !ab_struct_in(our_socket, sizeof *our_socket, socket))
        return false;
    /* In a shorter struct, or a zeroed one, the RTT is unknown. */
    our_socket->rtt_min_ns = ab_ns_or_unset(our_socket->rtt_min_ns);
    return true;
}

/* A peer can delay its echo replies. If TCP's minimum RTT is shorter, it counts, and the BDP shrinks with it. */
static void prefer_shorter_tcp_rtt(const struct autobuf_socket *socket, struct autobuf_path *path)
{
    uint64_t tcp_ns = socket->rtt_min_ns, path_ns = path->rtt_min_ns;

    if (path_ns == AUTOBUF_NS_UNSET || path_ns <= tcp_ns || path->method == AUTOBUF_METHOD_GIVEN)
        return;
    path->tx_bdp_bytes = ab_mul_div(path->tx_bdp_bytes, tcp_ns, path_ns);
    path->rx_bdp_bytes = ab_mul_div(path->rx_bdp_bytes, tcp_ns, path_ns);
    path->rtt_min_ns = tcp_ns;
}

/* A sender below the capacity leaves the queue of the bottleneck empty. */
static void plan_pacing(const struct autobuf_path *path, struct autobuf_plan *plan)
{
    if (!path->tx_rate_bit_per_s || plan->flags & AUTOBUF_PLAN_SND_AT_LEAST)
        return;
    plan->snd_pacing_bit_per_s =
        autobuf_payload_bytes(ab_percent(path->tx_rate_bit_per_s, PACING_PERCENT), path->packet_bytes);
    if (plan->snd_reason != AUTOBUF_REASON_CAPPED && plan->snd_reason != AUTOBUF_REASON_LATE)
        plan->snd_reason = AUTOBUF_REASON_SET;
}

uint32_t ab_plan_flags(const struct autobuf_path *path)
{
    bool snd_at_least = path->flags & AUTOBUF_PATH_TX_AT_LEAST || (path->tx_unsure && path->tx_bdp_bytes);
    bool rcv_at_least = path->flags & AUTOBUF_PATH_RX_AT_LEAST || (path->rx_unsure && path->rx_bdp_bytes);

    return (snd_at_least ? AUTOBUF_PLAN_SND_AT_LEAST : 0) | (rcv_at_least ? AUTOBUF_PLAN_RCV_AT_LEAST : 0) |
           (path->flags & AUTOBUF_PATH_TX_ECHOED ? AUTOBUF_PLAN_SND_ECHOED : 0);
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

    if (!ab_path_in(&p, path) || !plan_inputs(limits, socket, intent, &l, &s))
        return -EINVAL;
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, intent, &made);
    ab_path_forget_unsure(&p);
    prefer_shorter_tcp_rtt(&s, &p);
    made.rtt_ns = p.rtt_min_ns;
    if (made.rtt_ns == AUTOBUF_NS_UNSET)
        made.rtt_ns = s.rtt_min_ns;
    made.flags |= ab_plan_flags(&p);
    ab_plan_windows(autobuf_payload_bytes(p.tx_bdp_bytes, p.packet_bytes),
                    autobuf_payload_bytes(p.rx_bdp_bytes, p.packet_bytes), &l, &s, expected_bytes, &made);
    plausible = plausible_window(made.rtt_ns);
    if (made.snd_reason == AUTOBUF_REASON_UNKNOWN && plausible && made.snd_kernel_bytes >= plausible)
        made.snd_reason = AUTOBUF_REASON_KERNEL;
    if (made.rcv_reason == AUTOBUF_REASON_UNKNOWN && plausible && made.rcv_kernel_bytes >= plausible)
        made.rcv_reason = AUTOBUF_REASON_KERNEL;
    if (intent & AUTOBUF_INTENT_LOW_DELAY && side_bytes(intent, AUTOBUF_INTENT_SENDS, expected_bytes) == expected_bytes)
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
 * Whether any path could make judge() act on this side. It acts if the BDP is above *low, and in the same way for all
 * BDPs from *high on.
 */
static bool side_can_change(const struct side *side, uint64_t expected_bytes, uint64_t *low, uint64_t *high)
{
    uint64_t unlocked = can_unlock(side) ? window_of(side, side->kernel_buf) : 0;
    uint64_t best = ab_max(window_of(side, largest_buf(side)), unlocked);

    *low = window_of(side, present_buf(side));
    *high = ab_max(ab_max(*low, unlocked), ab_mul_div(best, 100, ample_percent(side)) + 1) + 1;
    if (!side->late && side->window_max < UINT64_MAX) /* beyond it judge() does nothing */
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

/* Low delay needs the rate of every path, unless the transfer is short. */
static bool worth_for_low_delay(const struct side *side, uint64_t expected_bytes)
{
    uint64_t present = window_of(side, present_buf(side));

    return pays(expected_bytes, present, 2 * present);
}

int autobuf_plan_worth(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                       uint32_t intent, uint64_t expected_bytes, uint64_t *bdp_low_bytes,
                       uint64_t *bdp_high_bytes)
{
    uint64_t low = UINT64_MAX, high = 0, side_low, side_high;
    struct autobuf_limits l;
    struct autobuf_socket s;
    struct side sides[2];

    if (!plan_inputs(limits, socket, intent, &l, &s))
        return -EINVAL;
    for (int receives = 0; receives < 2; receives++) {
        uint32_t intent_of = receives ? AUTOBUF_INTENT_RECEIVES : AUTOBUF_INTENT_SENDS;

        sides[receives] = side_of(&l, &s, 0, receives);
        if (!side_can_change(&sides[receives], side_bytes(intent, intent_of, expected_bytes), &side_low, &side_high))
            continue;
        low = ab_min(low, side_low);
        high = ab_max(high, side_high);
    }
    if (bdp_low_bytes)
        *bdp_low_bytes = 0;
    if (bdp_high_bytes)
        *bdp_high_bytes = 0;
    if (intent & AUTOBUF_INTENT_LOW_DELAY)
        return worth_for_low_delay(&sides[side_bytes(intent, AUTOBUF_INTENT_SENDS, 0) == 1], expected_bytes);
    /* Echoes would take from others, and say nothing of what these leave. */
    if (low == UINT64_MAX || intent & AUTOBUF_INTENT_SCAVENGER ||
        (s.rtt_min_ns != AUTOBUF_NS_UNSET && plausible_window(s.rtt_min_ns) <= low))
        return 0;
    if (bdp_low_bytes)
        *bdp_low_bytes = ab_max(ip_bytes(low), 1); /* 0 would mean: every BDP matters */
    if (bdp_high_bytes)
        *bdp_high_bytes = ip_bytes(high) + 2;
    return 1;
}

/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plan.h"

static void add_bytes(struct ab_text *t, uint64_t bytes)
{
    if (bytes >= 1000000)
        ab_add(t, "%.1f MB", (double)bytes / 1e6);
    else if (bytes >= 1000)
        ab_add(t, "%.1f kB", (double)bytes / 1e3);
    else
        ab_add(t, "%u bytes", (unsigned)bytes);
}

static void add_rate(struct ab_text *t, double bit_per_s)
{
    if (bit_per_s >= 1e10)
        ab_add(t, " (%.0f Gbit/s)", bit_per_s / 1e9);
    else
        ab_add(t, " (%.1f Mbit/s)", bit_per_s / 1e6);
}

/* A window, and the rate that it allows at this RTT if that is less than the path's. */
static void add_window(struct ab_text *t, uint64_t window, uint64_t wanted, uint64_t rtt_ns)
{
    ab_add(t, "a window of ");
    add_bytes(t, window);
    if (rtt_ns != AUTOBUF_NS_UNSET && rtt_ns && (!wanted || window < wanted))
        add_rate(t, (double)window * 8e9 / (double)rtt_ns);
}

struct words {
    const char *side;
    const char *option;
    const char *limit; /* sysctl that bounds autotuning */
};

static const struct words words[] = {
    {"send", "SO_SNDBUF", "net.core.wmem_max (or the third value of net.ipv4.tcp_wmem)"},
    {"receive", "SO_RCVBUF", "the third value of net.ipv4.tcp_rmem"},
};

static const struct {
    uint32_t sysctl;
    const char *text; /* NULL: limit of struct words */
} bottlenecks[] = {
    {AUTOBUF_SYSCTL_WMEM_MAX, NULL},
    {AUTOBUF_SYSCTL_TCP_RMEM, NULL},
    {AUTOBUF_SYSCTL_WINDOW_SCALING, "net.ipv4.tcp_window_scaling=0"},
    {AUTOBUF_SYSCTL_TCP_MEM, "the memory that TCP may use (net.ipv4.tcp_mem)"},
    {AUTOBUF_SYSCTL_MODERATE_RCVBUF, "net.ipv4.tcp_moderate_rcvbuf=0"},
};
#define OBSTACLES (sizeof bottlenecks / sizeof *bottlenecks)

struct line {
    uint32_t reason;
    uint32_t sysctl;
    uint64_t wanted, request, window, kernel, clamp;
    bool unlock;
    bool at_least;
};

static void add_needs(struct ab_text *t, const struct line *l)
{
    if (!l->wanted)
        return;
    ab_add(t, l->at_least ? "; the path holds at least " : "; the path holds ");
    add_bytes(t, l->wanted);
}

static void add_set(struct ab_text *t, const struct words *w, const struct line *l, uint64_t rtt_ns)
{
    if (l->request) {
        ab_add(t, "%s %llu ", w->option, (unsigned long long)l->request);
        if (l->clamp)
            ab_add(t, "with TCP_WINDOW_CLAMP %llu ", (unsigned long long)ab_min(l->clamp, AB_SK_BUF_MAX));
        ab_add(t, "gives ");
        add_window(t, l->window, l->wanted, rtt_ns);
        ab_add(t, "; without it ");
        add_window(t, l->kernel, l->wanted, rtt_ns);
    } else {
        ab_add(t, l->unlock ? "given back to autotuning, " : "stays at ");
        add_window(t, l->window, l->wanted, rtt_ns);
    }
    add_needs(t, l);
}

static void add_obstacles(struct ab_text *t, const struct words *w, const struct line *l)
{
    const char *between = "; limited by ";

    for (size_t i = 0; i < OBSTACLES; i++) {
        if (!(l->sysctl & bottlenecks[i].sysctl))
            continue;
        ab_add(t, "%s%s", between, bottlenecks[i].text ? bottlenecks[i].text : w->limit);
        between = " and ";
    }
    if (l->window >= AB_SCALED_WINDOW_BYTES)
        ab_add(t, "%sTCP, whose largest window it is", between);
}

static void add_line(struct ab_text *t, const struct words *w, const struct line *l, uint64_t rtt_ns)
{
    ab_add(t, "%s: %s: ", w->side, autobuf_reason_name(l->reason));
    switch (l->reason) {
    case AUTOBUF_REASON_KERNEL:
        if (!l->window) {
            ab_add(t, "left to autotuning; the transfer is too short to need more");
            break;
        }
        ab_add(t, l->unlock ? "given back to autotuning, which reaches "
                         : "left to autotuning, which reaches ");
        add_window(t, l->window, l->wanted, rtt_ns);
        add_needs(t, l);
        if (l->window < l->wanted)
            ab_add(t, ", but the transfer is too short to need more");
        break;
    case AUTOBUF_REASON_SET:
        add_set(t, w, l, rtt_ns);
        break;
    case AUTOBUF_REASON_CAPPED:
        add_set(t, w, l, rtt_ns);
        add_obstacles(t, w, l);
        break;
    case AUTOBUF_REASON_LARGER:
        ab_add(t, "the buffer that the program has set gives ");
        add_window(t, l->window, l->wanted, rtt_ns);
        add_needs(t, l);
        break;
    case AUTOBUF_REASON_LATE:
        ab_add(t, "the window scale is fixed; ");
        add_set(t, w, l, rtt_ns);
        break;
    case AUTOBUF_REASON_OFF:
        ab_add(t, "nothing is done, because AUTOBUF=off is in the environment");
        break;
    default:
        ab_add(t, "left to the kernel, because too little is known of the path");
        if (l->window) {
            ab_add(t, "; autotuning reaches ");
            add_window(t, l->window, l->wanted, rtt_ns);
        }
        break;
    }
}

static void explain_side(struct ab_text *t, const struct autobuf_plan *p, bool receives)
{
    const struct line lines[] = {
        {p->snd_reason, p->snd_sysctl, p->snd_wanted_bytes, p->snd_request_bytes, p->snd_window_bytes,
         p->snd_kernel_bytes, 0, p->flags & AUTOBUF_PLAN_SND_UNLOCK, p->flags & AUTOBUF_PLAN_SND_AT_LEAST},
        {p->rcv_reason, p->rcv_sysctl, p->rcv_wanted_bytes, p->rcv_request_bytes, p->rcv_window_bytes,
         p->rcv_kernel_bytes, p->rcv_clamp_bytes, p->flags & AUTOBUF_PLAN_RCV_UNLOCK,
         p->flags & AUTOBUF_PLAN_RCV_AT_LEAST},
    };

    add_line(t, &words[receives], &lines[receives], p->rtt_ns);
    if (!receives && p->snd_pacing_bit_per_s)
        ab_add(t, "; paced at %.1f Mbit/s of payload, so that no queue builds up",
            (double)p->snd_pacing_bit_per_s / 1e6);
}

int autobuf_plan_explain(const struct autobuf_plan *theirs, char *buf, size_t cap)
{
    struct autobuf_plan p;
    struct ab_text t = {buf, cap, 0};

    if (!buf && cap)
        return -EINVAL;
    if (cap)
        buf[0] = '\0';
    if (!ab_struct_in(&p, sizeof p, theirs))
        return -EINVAL;
    explain_side(&t, &p, false);
    ab_add(&t, "\n");
    explain_side(&t, &p, true);
    ab_add(&t, "\n");
    return (int)t.len;
}

static void log_side(const struct autobuf_plan *p, bool receives, const struct ab_log *log)
{
    bool unlocks = p->flags & (receives ? AUTOBUF_PLAN_RCV_UNLOCK : AUTOBUF_PLAN_SND_UNLOCK);
    bool sets = receives ? p->rcv_request_bytes : p->snd_request_bytes || p->snd_pacing_bit_per_s;
    char text[AB_LOG_BYTES];

    explain_side(&(struct ab_text){text, sizeof text, 0}, p, receives);
    ab_event(log, &(struct autobuf_event){
        .what = sets ? AUTOBUF_EVENT_SET : unlocks ? AUTOBUF_EVENT_GIVEN_BACK : AUTOBUF_EVENT_LEFT,
        .side = receives ? AUTOBUF_LOCK_RCV : AUTOBUF_LOCK_SND,
        .reason = receives ? p->rcv_reason : p->snd_reason,
        .before_bytes = receives ? p->rcv_kernel_bytes : p->snd_kernel_bytes,
        .after_bytes = receives ? p->rcv_window_bytes : p->snd_window_bytes,
        .after_bit_per_s = receives ? 0 : p->snd_pacing_bit_per_s,
        .rtt_ns = p->rtt_ns,
        .text = text,
    });
}

void ab_plan_log(const struct autobuf_plan *p, const struct ab_log *log)
{
    uint32_t wanted = p->intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);

    if (!ab_log_is_on(log))
        return;
    if (wanted != AUTOBUF_INTENT_RECEIVES)
        log_side(p, false, log);
    if (wanted != AUTOBUF_INTENT_SENDS)
        log_side(p, true, log);
}

/* sysctl(8) takes an int, and so do buffers. */
static unsigned long long sysctl_bytes(uint64_t bytes)
{
    return ab_min(bytes, AB_SK_BUF_MAX);
}

/* The kernel doubles net.core.wmem_max. */
static uint64_t wmem_max_bytes(const struct autobuf_plan *p)
{
    return p->snd_needed_bytes / 2 + p->snd_needed_bytes % 2;
}

static uint64_t tcp_mem_bytes(const struct autobuf_plan *p)
{
    return ab_mul_div(p->snd_needed_bytes, AB_TCP_MEM_SHARE, 1);
}

/* Whether the sysctl is too small. If not, the bottleneck is the caller's bound, or a size that cannot be unlocked. */
static bool is_short(uint32_t sysctl, const struct autobuf_plan *p, const struct autobuf_limits *l)
{
    if (sysctl == AUTOBUF_SYSCTL_WMEM_MAX)
        return sysctl_bytes(wmem_max_bytes(p)) > l->snd_settable_bytes;
    if (sysctl == AUTOBUF_SYSCTL_TCP_MEM) /* or others use it, or it is unknown */
        return tcp_mem_bytes(p) > l->tcp_mem_bytes;
    return sysctl != AUTOBUF_SYSCTL_TCP_RMEM || /* an assumed value may be below what is set */
           (sysctl_bytes(p->rcv_needed_bytes) > l->tcp_rmem_max_bytes && !(l->flags & AUTOBUF_LIMITS_ASSUMED));
}

static int sysctl_line(uint32_t sysctl, const struct autobuf_plan *p, const struct autobuf_limits *l,
                       char *buf, size_t cap)
{
    uint64_t page = l->page_bytes ? l->page_bytes : 4096, bytes;
    unsigned long long pages;

    switch (sysctl) {
    case AUTOBUF_SYSCTL_WMEM_MAX:
        return snprintf(buf, cap, "net.core.wmem_max=%llu", sysctl_bytes(wmem_max_bytes(p)));
    case AUTOBUF_SYSCTL_TCP_RMEM:
        return snprintf(buf, cap, "net.ipv4.tcp_rmem=%llu %llu %llu",
                        (unsigned long long)l->tcp_rmem_min_bytes,
                        (unsigned long long)l->tcp_rmem_default_bytes,
                        sysctl_bytes(p->rcv_needed_bytes));
    case AUTOBUF_SYSCTL_WINDOW_SCALING:
        return snprintf(buf, cap, "net.ipv4.tcp_window_scaling=1");
    case AUTOBUF_SYSCTL_TCP_MEM: /* 3 : 4 : 6, as tcp_init_mem() */
        bytes = tcp_mem_bytes(p);
        pages = bytes / page + (bytes % page != 0);
        return snprintf(buf, cap, "net.ipv4.tcp_mem=%llu %llu %llu", pages / 4 * 3, pages, pages / 2 * 3);
    default:
        return snprintf(buf, cap, "net.ipv4.tcp_moderate_rcvbuf=1");
    }
}

int autobuf_plan_sysctl(const struct autobuf_plan *plan, const struct autobuf_limits *limits,
                        unsigned index, char *buf, size_t cap)
{
    struct autobuf_plan p;
    struct autobuf_limits l;

    if (!ab_struct_in(&p, sizeof p, plan) || !ab_struct_in(&l, sizeof l, limits) || (!buf && cap))
        return -EINVAL;
    for (size_t i = 0; i < OBSTACLES; i++) {
        uint32_t sysctl = bottlenecks[i].sysctl;

        if ((p.snd_sysctl | p.rcv_sysctl) & sysctl && is_short(sysctl, &p, &l) && index-- == 0)
            return sysctl_line(sysctl, &p, &l, buf, cap);
    }
    return 0;
}

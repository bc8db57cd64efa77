/* SPDX-License-Identifier: MIT */
/* A plan in words. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plan.h"

const char *autobuf_reason_name(uint32_t reason)
{
    static const char *const names[] = {"unknown", "kernel", "set", "capped",
                                        "larger",  "late",   "off"};

    return reason < sizeof names / sizeof *names ? names[reason] : "?";
}

/* snprintf() at the end of what is there; counts on when there is no more room. */
struct text {
    char *buf;
    size_t cap;
    size_t len;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *t, const char *format, ...)
{
    va_list args;
    int added;

    va_start(args, format);
    added = vsnprintf(t->len < t->cap ? t->buf + t->len : NULL, t->len < t->cap ? t->cap - t->len : 0,
                      format, args);
    va_end(args);
    t->len += added > 0 ? (size_t)added : 0;
}

static void add_bytes(struct text *t, uint64_t bytes)
{
    if (bytes >= 1000000)
        add(t, "%.1f MB", (double)bytes / 1e6);
    else if (bytes >= 1000)
        add(t, "%.1f kB", (double)bytes / 1e3);
    else
        add(t, "%u bytes", (unsigned)bytes);
}

static void add_rate(struct text *t, double bit_per_s)
{
    if (bit_per_s >= 1e10)
        add(t, " (%.0f Gbit/s)", bit_per_s / 1e9);
    else
        add(t, " (%.1f Mbit/s)", bit_per_s / 1e6);
}

/* A window, and the rate it allows at this round-trip time. */
static void add_window(struct text *t, uint64_t window, uint64_t rtt_ns)
{
    add(t, "a window of ");
    add_bytes(t, window);
    if (rtt_ns != AUTOBUF_NS_UNSET && rtt_ns)
        add_rate(t, (double)window * 8e9 / (double)rtt_ns);
}

#define SYSCTLS 6U

/* The names in which the two sides differ. */
struct words {
    const char *side;
    const char *option;
    const char *autotuned;
    const char *capped[SYSCTLS]; /* by AUTOBUF_SYSCTL_* */
};

static const struct words snd_words = {
    "send", "SO_SNDBUF", "net.ipv4.tcp_wmem",
    {"the limits", "net.core.wmem_max (or the third value of net.ipv4.tcp_wmem)",
     "net.ipv4.tcp_rmem", "net.ipv4.tcp_window_scaling=0",
     "the memory that TCP may use (net.ipv4.tcp_mem)", "net.ipv4.tcp_moderate_rcvbuf=0"},
};
static const struct words rcv_words = {
    "receive", "SO_RCVBUF", "net.ipv4.tcp_rmem",
    {"the limits", "net.core.wmem_max", "the third value of net.ipv4.tcp_rmem",
     "net.ipv4.tcp_window_scaling=0", "the memory that TCP may use (net.ipv4.tcp_mem)",
     "net.ipv4.tcp_moderate_rcvbuf=0"},
};

struct line {
    uint32_t reason;
    uint32_t sysctl;
    uint64_t wanted, request, window, kernel;
    bool unlock;
};

static void add_needs(struct text *t, const struct line *l)
{
    if (!l->wanted)
        return;
    add(t, "; the path holds ");
    add_bytes(t, l->wanted);
}

static void add_set(struct text *t, const struct words *w, const struct line *l, uint64_t rtt_ns)
{
    if (l->request) {
        add(t, "%s %llu gives ", w->option, (unsigned long long)l->request);
        add_window(t, l->window, rtt_ns);
        add(t, "; without it ");
        add_window(t, l->kernel, rtt_ns);
    } else {
        add(t, l->unlock ? "given back to autotuning, " : "left alone at ");
        add_window(t, l->window, rtt_ns);
    }
    add_needs(t, l);
}

static void add_line(struct text *t, const struct words *w, const struct line *l, uint64_t rtt_ns)
{
    add(t, "%s: %s: ", w->side, autobuf_reason_name(l->reason));
    switch (l->reason) {
    case AUTOBUF_REASON_KERNEL:
        add(t, l->unlock ? "given back to autotuning, which reaches "
                         : "left to autotuning, which reaches ");
        add_window(t, l->window, rtt_ns);
        add_needs(t, l);
        break;
    case AUTOBUF_REASON_SET:
        add_set(t, w, l, rtt_ns);
        break;
    case AUTOBUF_REASON_CAPPED:
        add_set(t, w, l, rtt_ns);
        add(t, "; in the way: %s", w->capped[l->sysctl < SYSCTLS ? l->sysctl : 0]);
        break;
    case AUTOBUF_REASON_LARGER:
        add(t, "the buffer set already gives ");
        add_window(t, l->window, rtt_ns);
        add_needs(t, l);
        break;
    case AUTOBUF_REASON_LATE:
        add(t, "the window scale is fixed; left at ");
        add_window(t, l->window, rtt_ns);
        add_needs(t, l);
        break;
    case AUTOBUF_REASON_OFF:
        add(t, "left alone, AUTOBUF=off");
        break;
    default:
        add(t, "left alone, too little is known of the path");
        break;
    }
}

int autobuf_plan_explain(const struct autobuf_plan *theirs, char *buf, size_t cap)
{
    struct autobuf_plan p;
    struct text t = {buf, cap, 0};
    struct line snd, rcv;

    if (cap)
        buf[0] = '\0';
    if (!ab_struct_in(&p, sizeof p, theirs))
        return -EINVAL;
    snd = (struct line){p.snd_reason, p.snd_sysctl, p.snd_wanted_bytes, p.snd_request_bytes,
                        p.snd_window_bytes, p.snd_kernel_bytes,
                        (p.flags & AUTOBUF_PLAN_SND_UNLOCK) != 0};
    rcv = (struct line){p.rcv_reason, p.rcv_sysctl, p.rcv_wanted_bytes, p.rcv_request_bytes,
                        p.rcv_window_bytes, p.rcv_kernel_bytes,
                        (p.flags & AUTOBUF_PLAN_RCV_UNLOCK) != 0};
    add_line(&t, &snd_words, &snd, p.rtt_ns);
    if (p.snd_pacing_bit_per_s)
        add(&t, "; paced at %.1f Mbit/s of payload, so that no queue builds up",
            (double)p.snd_pacing_bit_per_s / 1e6);
    add(&t, "\n");
    add_line(&t, &rcv_words, &rcv, p.rtt_ns);
    add(&t, "\n");
    return (int)t.len;
}

static int sysctl_line(uint32_t sysctl, uint64_t value, const struct autobuf_limits *l, char *buf,
                       size_t cap)
{
    uint64_t page = l->page_bytes ? l->page_bytes : 4096;
    unsigned long long n = value, pages = value / page + (value % page != 0);

    switch (sysctl) {
    case AUTOBUF_SYSCTL_WMEM_MAX:
        return snprintf(buf, cap, "net.core.wmem_max=%llu", n);
    case AUTOBUF_SYSCTL_TCP_RMEM:
        return snprintf(buf, cap, "net.ipv4.tcp_rmem=%llu %llu %llu",
                        (unsigned long long)l->tcp_rmem_min_bytes,
                        (unsigned long long)l->tcp_rmem_default_bytes, n);
    case AUTOBUF_SYSCTL_WINDOW_SCALING:
        return snprintf(buf, cap, "net.ipv4.tcp_window_scaling=%llu", n);
    case AUTOBUF_SYSCTL_TCP_MEM: /* in the proportion in which the kernel sets the three */
        return snprintf(buf, cap, "net.ipv4.tcp_mem=%llu %llu %llu", pages / 4 * 3, pages,
                        pages / 2 * 3);
    case AUTOBUF_SYSCTL_MODERATE_RCVBUF:
        return snprintf(buf, cap, "net.ipv4.tcp_moderate_rcvbuf=%llu", n);
    default:
        return 0;
    }
}

int autobuf_plan_sysctl(const struct autobuf_plan *plan, const struct autobuf_limits *limits,
                        unsigned index, char *buf, size_t cap)
{
    struct autobuf_plan p;
    struct autobuf_limits l;
    uint32_t lines[2];
    uint64_t values[2];
    unsigned count = 0;

    if (!ab_struct_in(&p, sizeof p, plan) || !ab_struct_in(&l, sizeof l, limits))
        return -EINVAL;
    if (p.snd_sysctl != AUTOBUF_SYSCTL_NONE) {
        lines[count] = p.snd_sysctl;
        values[count++] = p.snd_sysctl_value;
    }
    if (p.rcv_sysctl != AUTOBUF_SYSCTL_NONE && p.rcv_sysctl != p.snd_sysctl) {
        lines[count] = p.rcv_sysctl;
        values[count++] = p.rcv_sysctl_value;
    }
    if (index >= count)
        return 0;
    return sysctl_line(lines[index], values[index], &l, buf, cap);
}

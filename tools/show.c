/* SPDX-License-Identifier: MIT */
#include "show.h"

#include "obstacles.h"
#include "print.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BARS 12
#define BAR_WIDTH 50
#define OBSTACLES_SHOWN 6 /* what fits on a screen together with the rest */
#define OBSTACLE_INDENT 7
#define PLAN_INDENT 3
#define LABEL_COLUMNS 25

struct direction {
    const char *label;
    bool at_least;
    uint64_t rate, low, high, bdp;
    const char *unsure;
};

static void show_label(FILE *out, const char *label)
{
    fprintf(out, "%-*s", LABEL_COLUMNS, label);
}

static void show_direction(FILE *out, const struct direction *d, uint32_t packet_bytes)
{
    show_label(out, d->label);
    if (!d->rate) {
        fputs("unknown\n", out);
        return;
    }
    fprintf(out, "%s%sbit/s", d->at_least ? "at least " : "", SCALED(d->rate));
    if (d->low != d->high)
        fprintf(out, " (%sbit/s to %sbit/s)", SCALED(d->low), SCALED(d->high));
    if (d->unsure)
        fprintf(out, "\n%*sunsure: %s", LABEL_COLUMNS, "", d->unsure);
    fputc('\n', out);
    show_label(out, "bandwidth-delay product");
    fprintf(out, "%sB of TCP payload, %sB of IP packets\n", SCALED(autobuf_payload_bytes(d->bdp, packet_bytes)),
            SCALED(d->bdp));
}

void show_path(FILE *out, const struct autobuf_path *p)
{
    bool each = p->method == AUTOBUF_METHOD_INBAND;
    struct direction there = {each ? "capacity there" : "capacity", p->flags & AUTOBUF_PATH_TX_AT_LEAST,
                              p->tx_rate_bit_per_s, p->tx_rate_low_bit_per_s,
                              p->tx_rate_high_bit_per_s, p->tx_bdp_bytes, autobuf_unsure_name(p->tx_unsure)};
    struct direction back = {"capacity back", p->flags & AUTOBUF_PATH_RX_AT_LEAST, p->rx_rate_bit_per_s,
                             p->rx_rate_low_bit_per_s, p->rx_rate_high_bit_per_s, p->rx_bdp_bytes,
                             autobuf_unsure_name(p->rx_unsure)};

    if (p->rtt_min_ns != AUTOBUF_NS_UNSET) {
        show_label(out, "round-trip time");
        fprintf(out, "%.3f ms", (double)p->rtt_min_ns / 1e6);
        if (p->method != AUTOBUF_METHOD_GIVEN)
            fprintf(out, " (%s %.3f ms)", each ? "HELLO to answer" : "median", (double)p->rtt_median_ns / 1e6);
        fputc('\n', out);
    }
    show_direction(out, &there, p->packet_bytes);
    if (each)
        show_direction(out, &back, p->packet_bytes);
    if (p->method != AUTOBUF_METHOD_GIVEN) {
        show_label(out, "cost");
        fprintf(out, "%sB sent, %u %s, %.0f ms\n", SCALED(p->cost_bytes), p->samples, each ? "arrivals" : "replies",
                (double)p->elapsed_ns / 1e6);
    }
    if (p->loss_permille) {
        show_label(out, "loss");
        fprintf(out, "%.1f%% of the trains' packets\n", p->loss_permille / 10.0);
    }
}

static int compare_rates(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void show_histogram(FILE *out, uint64_t *rates, size_t count, uint64_t chosen)
{
    size_t bins[BARS] = {0}, most = 1;
    uint64_t low, high, width;

    if (count < 3 || !chosen)
        return;
    qsort(rates, count, sizeof *rates, compare_rates);
    low = rates[count / 20]; /* the outermost twentieths would only stretch the scale */
    high = rates[count - 1 - count / 20];
    low = low < chosen ? low : chosen;
    high = high > chosen ? high : chosen;
    width = (high - low) / BARS + 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t bin = rates[i] < low ? BARS : (rates[i] - low) / width;

        if (bin < BARS && ++bins[bin] > most)
            most = bins[bin];
    }
    if (!bins[(chosen - low) / width]) { /* then it would show where the rate is not */
        fputs("no histogram: the rate is that of whole trains, whose packets came in batches\n", out);
        return;
    }
    for (uint64_t i = 0; i < BARS; i++) {
        int length = (int)(bins[i] * BAR_WIDTH / most);

        fprintf(out, "%10sbit/s %c %.*s %zu\n", SCALED(low + i * width),
                chosen >= low + i * width && chosen < low + (i + 1) * width ? '>' : '|', length,
                "##################################################", bins[i]);
    }
}

/* The plan in words, and the lines that change what limits it. */
void show_plan(FILE *out, const struct findings *f)
{
    char text[1024], line[128];

    autobuf_plan_explain(&f->plan, text, sizeof text);
    print_folded(out, text, PLAN_INDENT);
    for (unsigned i = 0; autobuf_plan_sysctl(&f->plan, &f->limits, i, line, sizeof line) > 0; i++)
        fprintf(out, "%s   sysctl -w \"%s\"\n", i ? "                      " : "to change, as root:",
                line);
}

/* ---------------------------------------------------------------------------------- explain */

void show_host(FILE *out, const struct autobuf_limits *l, const struct host_facts *h)
{
    fprintf(out, "this host: Linux %s, congestion control %s\n", h->kernel[0] ? h->kernel : "unknown",
            h->congestion_control[0] ? h->congestion_control : "unknown");
    fprintf(out, "  autotuning gives  %sB to send (tcp_wmem), %sB to receive (tcp_rmem)\n",
            SCALED(l->tcp_wmem_max_bytes), SCALED(l->tcp_rmem_max_bytes));
    if (l->flags & AUTOBUF_LIMITS_ASSUMED)
        fputs("  Both are assumed: /proc/sys cannot be read.\n", out);
    fprintf(out, "  programs may set  %sB to send (wmem_max), %sB to receive (rmem_max)\n",
            SCALED(l->snd_settable_bytes), SCALED(l->rcv_settable_bytes));
    if (!(l->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING))
        fputs("  Receive autotuning is off (tcp_moderate_rcvbuf).\n", out);
}

static uint64_t smaller(uint64_t window, uint64_t wanted)
{
    return wanted && wanted < window ? wanted : window;
}

/* "2.8 MB   223.7 Mbit/s", in two columns. */
static void show_window(FILE *out, const struct findings *f, bool sends, uint64_t window, uint64_t wanted)
{
    uint64_t rate = findings_rate(f, sends, window);

    fprintf(out, "%9sB %10s%5s", SCALED(smaller(window, wanted)), rate ? SCALED(rate) : "", rate ? "bit/s" : "");
}

/* Do the windows of two plans, or of one and of autotuning, differ as far as the path can use them? */
static bool differ(const struct autobuf_plan *p, uint64_t snd_a, uint64_t snd_b, uint64_t rcv_a, uint64_t rcv_b)
{
    return smaller(snd_a, p->snd_wanted_bytes) != smaller(snd_b, p->snd_wanted_bytes) ||
           smaller(rcv_a, p->rcv_wanted_bytes) != smaller(rcv_b, p->rcv_wanted_bytes);
}

static void show_who(FILE *out, const struct findings *f, const char *who, uint64_t snd, uint64_t rcv)
{
    fprintf(out, "  %-22s", who);
    show_window(out, f, true, snd, f->user.snd_wanted_bytes);
    show_window(out, f, false, rcv, f->user.rcv_wanted_bytes);
    fputc('\n', out);
}

void show_outlook(FILE *out, const struct findings *f, const struct host_facts *h)
{
    const struct autobuf_plan *u = &f->user, *r = &f->root;
    uint64_t route = h->route_window_bytes > 0 ? (uint64_t)h->route_window_bytes : UINT64_MAX;
    uint64_t kernel = smaller(route, u->rcv_kernel_bytes), user = smaller(route, u->rcv_window_bytes);
    uint64_t root = smaller(route, r->rcv_window_bytes);
    bool gains = differ(u, u->snd_kernel_bytes, u->snd_window_bytes, kernel, user);
    bool root_gains = differ(u, u->snd_window_bytes, r->snd_window_bytes, user, root);
    char text[1024];

    fprintf(out, "%-24s%26s%26s\n", "one connection, at most:", "sends", "receives");
    show_who(out, f, gains || root_gains ? "programs as they are" : "any program", u->snd_kernel_bytes, kernel);
    if (gains)
        show_who(out, f, "with libautobuf", u->snd_window_bytes, user);
    if (root_gains)
        show_who(out, f, "the same, as root", r->snd_window_bytes, root);
    if (u->snd_kernel_bytes < u->snd_wanted_bytes)
        fputs("   (Sent by programs that poll(); one whose write() blocks has an eighth more.)\n", out);
    autobuf_plan_explain(&f->plan, text, sizeof text);
    print_folded(out, text, PLAN_INDENT);
    if (f->plan.snd_request_bytes || f->plan.rcv_request_bytes)
        fputs("   (Linux keeps twice what a program sets; half to two thirds of it is data.)\n", out);
}

void show_obstacles(FILE *out, const struct obstacle *obstacles, size_t count)
{
    if (count)
        fputs("bottlenecks, largest loss first (share of the path's rate):\n", out);
    for (size_t i = 0; i < count && i < OBSTACLES_SHOWN; i++) {
        char text[sizeof obstacles->what + 16];

        if (obstacles[i].lost >= 0.005)
            snprintf(text, sizeof text, "%4.0f%%  %s\n", 100 * obstacles[i].lost, obstacles[i].what);
        else
            snprintf(text, sizeof text, "   -   %s\n", obstacles[i].what);
        print_folded(out, text, OBSTACLE_INDENT);
        snprintf(text, sizeof text, "%*s%s\n", OBSTACLE_INDENT, "", obstacles[i].line);
        print_folded(out, text, OBSTACLE_INDENT);
    }
    if (count > OBSTACLES_SHOWN)
        fprintf(out, "   -   %zu more, each with a smaller loss\n", count - OBSTACLES_SHOWN);
}

void show_sysctls(FILE *out, const struct findings *f)
{
    struct sysctl_line lines[SYSCTLS_MOST];
    size_t count = findings_sysctls(f, lines);

    if (!count) {
        fputs("# This host's limits are enough for this path.\n", out);
        return;
    }
    fprintf(out, "# For %sbit/s and a round-trip time of %.1f ms: autotuning may go so far.\n",
            SCALED(f->path.tx_rate_bit_per_s), (double)f->path.rtt_min_ns / 1e6);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s = %s\n", lines[i].name, lines[i].value);
}

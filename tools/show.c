/* SPDX-License-Identifier: MIT */
#include "findings.h"

#include "../lib/base/base.h"
#include "array.h"
#include "measure.h"
#include "print.h"

#define BARS 12
#define BAR_WIDTH 50
#define BOTTLENECKS_SHOWN 6 /* what fits on a screen together with the rest */
#define BOTTLENECK_INDENT 7
#define PLAN_INDENT 3
#define LABEL_COLUMNS 25

struct direction {
    const char *label;
    bool at_least, echoed;
    uint64_t rate, low, high, bdp;
    const char *unsure;
};

void show_label(FILE *out, const char *label)
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
    if (d->unsure) {
        fprintf(out, "unsure: %s: %sbit/s to %sbit/s\n", d->unsure, SCALED(d->low), SCALED(d->high));
        return;
    }
    fprintf(out, "%s%sbit/s", d->at_least && !d->echoed ? "at least " : "", SCALED(d->rate));
    if (d->low != d->high)
        fprintf(out, " (%sbit/s to %sbit/s)", SCALED(d->low), SCALED(d->high));
    if (d->echoed)
        fprintf(out, "\n%*sthe slower direction's (autobuf measure: of each)", LABEL_COLUMNS, "");
    fputc('\n', out);
    show_label(out, "bandwidth-delay product");
    fprintf(out, "%sB of TCP payload, %sB of IP packets\n", SCALED(autobuf_payload_bytes(d->bdp, packet_bytes)),
            SCALED(d->bdp));
}

void show_path(FILE *out, const struct autobuf_path *p)
{
    bool each = p->method == AUTOBUF_METHOD_INBAND;
    struct direction there = {each ? "capacity there" : "capacity", p->flags & AUTOBUF_PATH_TX_AT_LEAST,
                              p->flags & AUTOBUF_PATH_TX_ECHOED, p->tx_rate_bit_per_s, p->tx_rate_low_bit_per_s,
                              p->tx_rate_high_bit_per_s, p->tx_bdp_bytes, autobuf_unsure_name(p->tx_unsure)};
    struct direction back = {"capacity back", p->flags & AUTOBUF_PATH_RX_AT_LEAST, p->flags & AUTOBUF_PATH_RX_ECHOED,
                             p->rx_rate_bit_per_s, p->rx_rate_low_bit_per_s, p->rx_rate_high_bit_per_s,
                             p->rx_bdp_bytes, autobuf_unsure_name(p->rx_unsure)};

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
    if (p->flags & AUTOBUF_PATH_BLACK_HOLE) {
        show_label(out, "largest packet");
        fprintf(out, "%u bytes came back; larger ones were lost, and no ICMP error said so\n", p->packet_bytes);
    }
    if (p->loss_permille) {
        show_label(out, "loss");
        fprintf(out, "%.1f%% of the trains' packets\n", p->loss_permille / 10.0);
    }
}

void show_histogram(FILE *out, uint64_t *rates, size_t count, uint64_t chosen)
{
    size_t bins[BARS] = {0}, most = 1;
    uint64_t low, high, width;

    if (count < 3 || !chosen)
        return;
    qsort(rates, count, sizeof *rates, array_by_value);
    low = rates[count / 20]; /* the outermost twentieths would only stretch the scale */
    high = rates[count - 1 - count / 20];
    low = ab_min(low, chosen);
    high = ab_max(high, chosen);
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

void show_plan(FILE *out, const struct findings *f, const struct host_facts *host)
{
    char text[1024], line[128];
    const char *label = "to change, as root:";

    autobuf_plan_explain(&f->plan, text, sizeof text);
    print_folded(out, text, PLAN_INDENT);
    for (unsigned i = 0; autobuf_plan_sysctl(&f->plan, &f->limits, i, line, sizeof line) > 0; i++)
        if (bottlenecks_settable(line, f, host)) {
            fprintf(out, "%-19s   sysctl -w \"%s\"\n", label, line);
            label = "";
        }
}

void show_host(FILE *out, const struct autobuf_limits *l, const struct host_facts *h)
{
    fprintf(out, "this host: Linux %s, congestion control %s\n", h->kernel[0] ? h->kernel : "unknown",
            h->congestion_control[0] ? h->congestion_control : "unknown");
    if (l->flags & AUTOBUF_LIMITS_ASSUMED)
        fputs("  autotuning gives  unknown: /proc/sys cannot be read\n", out);
    fprintf(out, "  %s %sB to send (tcp_wmem), %sB to receive (tcp_rmem)\n",
            l->flags & AUTOBUF_LIMITS_ASSUMED ? "assumed below    " : "autotuning gives ",
            SCALED(l->tcp_wmem_max_bytes), SCALED(l->tcp_rmem_max_bytes));
    fprintf(out, "  programs may set  %sB to send (wmem_max), %sB to receive (rmem_max)\n",
            SCALED(l->snd_settable_bytes), SCALED(l->rcv_settable_bytes));
    if (!(l->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING))
        fputs("  Receive autotuning is off (tcp_moderate_rcvbuf).\n", out);
}

static uint64_t smaller(uint64_t window, uint64_t wanted)
{
    return wanted && wanted < window ? wanted : window;
}

/* "2.8 MB   223.7 Mbit/s", in two columns. Returns whether the rate may be more. */
static bool show_window(FILE *out, const struct findings *f, bool sends, uint64_t window)
{
    bool or_more = findings_or_more(f, sends, window);
    uint64_t rate = findings_rate(f, sends, window);

    fprintf(out, "%9sB %10s%5s%s", SCALED(smaller(window, findings_wanted(f, sends))), rate ? SCALED(rate) : "",
            rate ? "bit/s" : "", or_more ? "+" : sends ? " " : "");
    return or_more;
}

/* Do the windows of two plans, or of one and of autotuning, differ as far as the path can use them? */
static bool differ(const struct findings *f, uint64_t snd_a, uint64_t snd_b, uint64_t rcv_a, uint64_t rcv_b)
{
    uint64_t snd = findings_wanted(f, true), rcv = findings_wanted(f, false);

    return smaller(snd_a, snd) != smaller(snd_b, snd) || smaller(rcv_a, rcv) != smaller(rcv_b, rcv);
}

/* Returns whether one of the rates may be more. */
static bool show_who(FILE *out, const struct findings *f, const char *who, uint64_t snd, uint64_t rcv)
{
    bool more;

    fprintf(out, "  %-22s", who);
    more = show_window(out, f, true, snd);
    more |= show_window(out, f, false, rcv);
    fputc('\n', out);
    if (f->expected_bytes) {
        struct duration sends = findings_duration(f, true, snd), receives = findings_duration(f, false, rcv);
        char there[DURATION_BYTES], back[DURATION_BYTES], label[SCALED_BYTES + 8];

        snprintf(label, sizeof label, "%sB take", SCALED(f->expected_bytes));
        fprintf(out, "    %-20s%26s%27s\n", label, duration_words(there, sends.low_ns, sends.high_ns),
                duration_words(back, receives.low_ns, receives.high_ns));
    }
    return more;
}

void show_outlook(FILE *out, const struct findings *f, const struct host_facts *h)
{
    const struct autobuf_plan *u = &f->user, *r = &f->root;
    uint64_t route = h->route_window_bytes > 0 ? (uint64_t)h->route_window_bytes : UINT64_MAX;
    uint64_t kernel = smaller(route, u->rcv_kernel_bytes), user = smaller(route, u->rcv_window_bytes);
    uint64_t root = smaller(route, r->rcv_window_bytes);
    bool gains = differ(f, u->snd_kernel_bytes, u->snd_window_bytes, kernel, user);
    bool root_gains = differ(f, u->snd_window_bytes, r->snd_window_bytes, user, root);
    char text[1024];
    bool more;

    fprintf(out, "%-24s%26s%27s\n",
            f->limits.flags & AUTOBUF_LIMITS_ASSUMED ? "one connection, assumed:" : "one connection, at most:", "sends",
            "receives");
    more = show_who(out, f, gains || root_gains ? "programs as they are" : "any program", u->snd_kernel_bytes, kernel);
    if (gains)
        more |= show_who(out, f, "with libautobuf", u->snd_window_bytes, user);
    if (root_gains)
        more |= show_who(out, f, "the same, as root", r->snd_window_bytes, root);
    if (more)
        fputs("   (+: or more. What is known of this direction of the path is a lower bound.)\n", out);
    if (u->snd_kernel_bytes < findings_wanted(f, true))
        fputs("   (Sent by programs that poll(); one whose write() blocks has an eighth more.)\n", out);
    autobuf_plan_explain(&f->plan, text, sizeof text);
    print_folded(out, text, PLAN_INDENT);
    if (f->plan.snd_request_bytes || f->plan.rcv_request_bytes)
        fputs("   (Linux keeps twice what a program sets; half to two thirds of it is data.)\n", out);
}

void show_bottlenecks(FILE *out, const struct bottleneck *bottlenecks, size_t count)
{
    if (count)
        fputs("bottlenecks, largest loss first (share of the path's rate):\n", out);
    for (size_t i = 0; i < count && i < BOTTLENECKS_SHOWN; i++) {
        char text[sizeof bottlenecks->what + 16];

        if (bottlenecks[i].lost >= 0.005)
            snprintf(text, sizeof text, "%4.0f%%  %s\n", 100 * bottlenecks[i].lost, bottlenecks[i].what);
        else
            snprintf(text, sizeof text, "   -   %s\n", bottlenecks[i].what);
        print_folded(out, text, BOTTLENECK_INDENT);
        snprintf(text, sizeof text, "%*s%s\n", BOTTLENECK_INDENT, "", bottlenecks[i].line);
        print_folded(out, text, BOTTLENECK_INDENT);
        ways_text(bottlenecks[i].ways, text, sizeof text);
        if (text[0])
            fprintf(out, "%*s%s\n", BOTTLENECK_INDENT, "", text);
    }
    if (count > BOTTLENECKS_SHOWN)
        fprintf(out, "   -   %zu more (--json has all)\n", count - BOTTLENECKS_SHOWN);
}

void show_sysctls(FILE *out, const struct findings *f)
{
    struct sysctl_line lines[SYSCTLS_MOST];
    size_t count = findings_sysctls(f, lines);
    const struct autobuf_path *p = &f->share;
    bool fillable = findings_fillable(f, true) && findings_fillable(f, false), back = !p->tx_bdp_bytes;

    fprintf(out, "# For %s%sbit/s and a round-trip time of %.1f ms:\n# %s\n",
            p->flags & (back ? AUTOBUF_PATH_RX_AT_LEAST : AUTOBUF_PATH_TX_AT_LEAST) ? "at least " : "",
            SCALED(back ? p->rx_rate_bit_per_s : p->tx_rate_bit_per_s), (double)p->rtt_min_ns / 1e6,
            count && fillable ? "autotuning may go so far." : count ? "as far as this host's memory and TCP allow."
            : fillable ? "this host's limits are enough." : "this host's memory, or TCP, allows no more.");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s = %s\n", lines[i].name, lines[i].value);
}

static void json_rates(FILE *out, const char *side, uint64_t rate, uint64_t low, uint64_t high,
                       uint32_t at_least, uint32_t echoed, uint32_t unsure)
{
    char key[40];

    snprintf(key, sizeof key, "%s_rate_bit_per_s", side);
    json_number(out, key, rate, !rate);
    snprintf(key, sizeof key, "%s_rate_low_bit_per_s", side);
    json_number(out, key, low, !rate);
    snprintf(key, sizeof key, "%s_rate_high_bit_per_s", side);
    json_number(out, key, high, !rate);
    fprintf(out, "\"%s_at_least\":%s,", side, !rate ? "null" : at_least ? "true" : "false");
    fprintf(out, "\"%s_echoed\":%s,", side, !rate ? "null" : echoed ? "true" : "false");
    snprintf(key, sizeof key, "%s_unsure", side);
    json_string(out, key, rate ? autobuf_unsure_name(unsure) : NULL);
}

void json_path_rates(FILE *out, const struct autobuf_path *p)
{
    json_rates(out, "tx", p->tx_rate_bit_per_s, p->tx_rate_low_bit_per_s, p->tx_rate_high_bit_per_s,
               p->flags & AUTOBUF_PATH_TX_AT_LEAST, p->flags & AUTOBUF_PATH_TX_ECHOED, p->tx_unsure);
    json_rates(out, "rx", p->rx_rate_bit_per_s, p->rx_rate_low_bit_per_s, p->rx_rate_high_bit_per_s,
               p->flags & AUTOBUF_PATH_RX_AT_LEAST, p->flags & AUTOBUF_PATH_RX_ECHOED, p->rx_unsure);
}

void json_duration(FILE *out, const char *side, struct duration d)
{
    char key[32];

    snprintf(key, sizeof key, "%sexpected_low_ns", side);
    json_number(out, key, d.low_ns, d.low_ns == AUTOBUF_NS_UNSET);
    snprintf(key, sizeof key, "%sexpected_high_ns", side);
    json_number(out, key, d.high_ns, d.high_ns == AUTOBUF_NS_UNSET);
}

static void json_plan(FILE *out, const struct findings *f, const struct host_facts *host)
{
    const struct autobuf_plan *p = &f->plan;
    const char *between = "";
    char line[128];

    fputs("\"plan\":{", out);
    json_number(out, "snd_request_bytes", p->snd_request_bytes, false);
    json_number(out, "snd_window_bytes", p->snd_window_bytes, !p->snd_window_bytes);
    json_number(out, "snd_block_bytes", p->snd_block_bytes, !p->snd_block_bytes);
    json_number(out, "snd_retry_bytes", p->snd_retry_bytes, !p->snd_retry_bytes);
    json_number(out, "snd_wanted_bytes", p->snd_wanted_bytes, !p->snd_wanted_bytes);
    json_number(out, "snd_kernel_bytes", p->snd_kernel_bytes, !p->snd_kernel_bytes);
    json_number(out, "snd_pacing_bit_per_s", p->snd_pacing_bit_per_s, !p->snd_pacing_bit_per_s);
    json_duration(out, "snd_", findings_duration(f, true, p->snd_window_bytes));
    json_bool(out, "snd_force", p->flags & AUTOBUF_PLAN_SND_FORCE);
    json_bool(out, "snd_unlock", p->flags & AUTOBUF_PLAN_SND_UNLOCK);
    json_string(out, "snd_reason", autobuf_reason_name(p->snd_reason));
    json_number(out, "rcv_request_bytes", p->rcv_request_bytes, false);
    json_number(out, "rcv_window_bytes", p->rcv_window_bytes, !p->rcv_window_bytes);
    json_number(out, "rcv_wanted_bytes", p->rcv_wanted_bytes, !p->rcv_wanted_bytes);
    json_number(out, "rcv_kernel_bytes", p->rcv_kernel_bytes, !p->rcv_kernel_bytes);
    json_number(out, "rcv_clamp_bytes", p->rcv_clamp_bytes, !p->rcv_clamp_bytes);
    json_duration(out, "rcv_", findings_duration(f, false, p->rcv_window_bytes));
    json_bool(out, "rcv_force", p->flags & AUTOBUF_PLAN_RCV_FORCE);
    json_bool(out, "rcv_unlock", p->flags & AUTOBUF_PLAN_RCV_UNLOCK);
    json_string(out, "rcv_reason", autobuf_reason_name(p->rcv_reason));
    fputs("\"sysctl\":[", out);
    for (unsigned i = 0; autobuf_plan_sysctl(p, &f->limits, i, line, sizeof line) > 0; i++)
        if (bottlenecks_settable(line, f, host)) {
            fprintf(out, "%s\"%s\"", between, line);
            between = ",";
        }
    fputs("]}", out);
}

/* What holds on this host, for the user who runs the command. */
void json_host(FILE *out, const struct autobuf_limits *l, const struct host_facts *h)
{
    bool assumed = l->flags & AUTOBUF_LIMITS_ASSUMED;
    const char *off = assumed ? "null" : "false", *on = assumed ? "null" : "true";

    fputs("\"host\":{", out);
    json_string(out, "kernel", h->kernel[0] ? h->kernel : NULL);
    json_string(out, "congestion_control", h->congestion_control[0] ? h->congestion_control : NULL);
    json_number(out, "tcp_wmem_max_bytes", l->tcp_wmem_max_bytes, assumed);
    json_number(out, "tcp_rmem_max_bytes", l->tcp_rmem_max_bytes, assumed);
    json_number(out, "wmem_max_bytes", l->snd_settable_bytes, false);
    json_number(out, "rmem_max_bytes", l->rcv_settable_bytes, false);
    json_number(out, "tcp_mem_bytes", (uint64_t)h->tcp_mem_bytes, h->tcp_mem_bytes == UNKNOWN);
    fprintf(out, "\"window_scaling\":%s,", l->flags & AUTOBUF_LIMITS_WINDOW_SCALING ? on : off);
    fprintf(out, "\"rcv_autotuning\":%s,", l->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING ? on : off);
    json_bool(out, "may_force", l->flags & AUTOBUF_LIMITS_FORCE);
    fprintf(out, "\"may_unlock\":%s},", l->flags & AUTOBUF_LIMITS_NO_UNLOCK ? "false" : "true");
}

void json_bottlenecks(FILE *out, const struct bottleneck *bottlenecks, size_t count)
{
    fputs("\"obstacles\":[", out);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ",{" : "{", out);
        json_number(out, "lost_permille", (uint64_t)(1000 * bottlenecks[i].lost + 0.5), bottlenecks[i].lost < 0.0005);
        json_string(out, "what", bottlenecks[i].what);
        fputs("\"change\":", out);
        json_text(out, bottlenecks[i].line);
        fputs(",\"ways\":", out);
        ways_json(out, bottlenecks[i].ways);
        fputc('}', out);
    }
    fputs("],", out);
}

void show_json(FILE *out, const struct findings *f, const struct host_facts *host, const struct bottleneck *bottlenecks,
               size_t count, const struct transfer_result *transfers)
{
    const struct autobuf_path *p = &f->path;

    fputc('{', out);
    json_string(out, "version", autobuf_version());
    json_string(out, "method", autobuf_method_name(p->method));
    json_number(out, "rtt_min_ns", p->rtt_min_ns, p->rtt_min_ns == AUTOBUF_NS_UNSET);
    json_number(out, "rtt_median_ns", p->rtt_median_ns, p->rtt_median_ns == AUTOBUF_NS_UNSET);
    json_path_rates(out, p);
    json_string(out, "unsure", findings_unsure(f));
    json_number(out, "tx_bdp_bytes", p->tx_bdp_bytes, !p->tx_bdp_bytes);
    json_number(out, "rx_bdp_bytes", p->rx_bdp_bytes, !p->rx_bdp_bytes);
    json_number(out, "samples", p->samples, false);
    json_number(out, "loss_permille", p->loss_permille, p->method != AUTOBUF_METHOD_ICMP);
    json_number(out, "mtu_bytes", p->packet_bytes, !p->packet_bytes || p->method == AUTOBUF_METHOD_GIVEN);
    fprintf(out, "\"pmtu_black_hole\":%s,", p->method != AUTOBUF_METHOD_ICMP ? "null"
                                            : p->flags & AUTOBUF_PATH_BLACK_HOLE ? "true" : "false");
    fprintf(out, "\"window_scaling\":%s,", p->method != AUTOBUF_METHOD_INBAND ? "null"
                                           : f->socket.flags & AUTOBUF_SOCKET_UNSCALED ? "false" : "true");
    json_number(out, "cost_bytes", p->cost_bytes, false);
    json_number(out, "elapsed_ns", p->elapsed_ns, false);
    json_host(out, &f->limits, host);
    json_bottlenecks(out, bottlenecks, count);
    if (f->available.size)
        json_available(out, &f->available);
    if (transfers)
        show_transfers_json(out, transfers);
    if (findings_unsure(f))
        fputs("\"plan\":null", out);
    else
        json_plan(out, f, host);
    fputs("}\n", out);
}

/* SPDX-License-Identifier: MIT */
#include "show.h"

#include "obstacles.h"
#include "print.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BARS 12
#define BAR_WIDTH 50
#define OBSTACLES_SHOWN 6 /* what fits on a screen together with the rest */

/* ------------------------------------------------------------------------------------- JSON */

static void json_rates(FILE *out, const char *side, uint64_t rate, uint64_t low, uint64_t high,
                       bool at_least, uint32_t unsure)
{
    char key[40];

    snprintf(key, sizeof key, "%s_rate_bit_per_s", side);
    json_number(out, key, rate, !rate);
    snprintf(key, sizeof key, "%s_rate_low_bit_per_s", side);
    json_number(out, key, low, !rate);
    snprintf(key, sizeof key, "%s_rate_high_bit_per_s", side);
    json_number(out, key, high, !rate);
    fprintf(out, "\"%s_at_least\":%s,", side, !rate ? "null" : at_least ? "true" : "false");
    snprintf(key, sizeof key, "%s_unsure", side);
    json_string(out, key, rate ? autobuf_unsure_name(unsure) : NULL);
}

static void json_plan(FILE *out, const struct findings *f)
{
    const struct autobuf_plan *p = &f->plan;
    char line[128];

    fputs("\"plan\":{", out);
    json_number(out, "snd_request_bytes", p->snd_request_bytes, false);
    json_number(out, "snd_window_bytes", p->snd_window_bytes, !p->snd_window_bytes);
    json_string(out, "snd_reason", autobuf_reason_name(p->snd_reason));
    json_number(out, "rcv_request_bytes", p->rcv_request_bytes, false);
    json_number(out, "rcv_window_bytes", p->rcv_window_bytes, !p->rcv_window_bytes);
    json_string(out, "rcv_reason", autobuf_reason_name(p->rcv_reason));
    fputs("\"sysctl\":[", out);
    for (unsigned i = 0; autobuf_plan_sysctl(p, &f->limits, i, line, sizeof line) > 0; i++)
        fprintf(out, "%s\"%s\"", i ? "," : "", line);
    fputs("]}", out);
}

static const char *method_name(uint32_t method)
{
    switch (method) {
    case AUTOBUF_METHOD_ICMP:
        return "icmp";
    case AUTOBUF_METHOD_GIVEN:
        return "given";
    case AUTOBUF_METHOD_INBAND:
        return "inband";
    default:
        return NULL;
    }
}

void show_json(FILE *out, const struct findings *f)
{
    const struct autobuf_path *p = &f->path;

    fputc('{', out);
    json_string(out, "method", method_name(p->method));
    json_number(out, "rtt_min_ns", p->rtt_min_ns, p->rtt_min_ns == AUTOBUF_NS_UNSET);
    json_number(out, "rtt_median_ns", p->rtt_median_ns, p->rtt_median_ns == AUTOBUF_NS_UNSET);
    json_rates(out, "tx", p->tx_rate_bit_per_s, p->tx_rate_low_bit_per_s, p->tx_rate_high_bit_per_s,
               p->flags & AUTOBUF_PATH_TX_AT_LEAST, p->tx_unsure);
    json_rates(out, "rx", p->rx_rate_bit_per_s, p->rx_rate_low_bit_per_s, p->rx_rate_high_bit_per_s,
               p->flags & AUTOBUF_PATH_RX_AT_LEAST, p->rx_unsure);
    json_number(out, "tx_bdp_bytes", p->tx_bdp_bytes, !p->tx_bdp_bytes);
    json_number(out, "rx_bdp_bytes", p->rx_bdp_bytes, !p->rx_bdp_bytes);
    json_number(out, "samples", p->samples, false);
    json_number(out, "loss_permille", p->loss_permille, p->method != AUTOBUF_METHOD_ICMP);
    json_number(out, "mtu_bytes", p->packet_bytes, !p->packet_bytes);
    json_number(out, "cost_bytes", p->cost_bytes, false);
    json_number(out, "elapsed_ns", p->elapsed_ns, false);
    json_plan(out, f);
    fputs("}\n", out);
}

/* ------------------------------------------------------------------------------------ words */

struct direction {
    const char *label;
    bool at_least;
    uint64_t rate, low, high, bdp;
    const char *unsure;
};

static void show_direction(FILE *out, const struct direction *d, uint32_t packet_bytes)
{
    fprintf(out, "capacity%s  ", d->label);
    if (!d->rate) {
        fputs("unknown\n", out);
        return;
    }
    if (d->at_least)
        fputs("at least ", out);
    print_quantity(out, d->rate, "bit/s");
    fputs(" (", out);
    print_quantity(out, d->low, "bit/s to ");
    print_quantity(out, d->high, "bit/s)");
    if (d->unsure)
        fprintf(out, ", unsure: %s", d->unsure);
    fputc('\n', out);
    fprintf(out, "product%s   ", d->label);
    print_quantity(out, d->bdp, "B");
    fputs(" of IP packets, ", out);
    print_quantity(out, autobuf_payload_bytes(d->bdp, packet_bytes), "B of TCP payload\n");
}

void show_path(FILE *out, const struct autobuf_path *p)
{
    bool each = p->method == AUTOBUF_METHOD_INBAND;
    struct direction there = {each ? " there " : "       ", p->flags & AUTOBUF_PATH_TX_AT_LEAST,
                              p->tx_rate_bit_per_s, p->tx_rate_low_bit_per_s,
                              p->tx_rate_high_bit_per_s, p->tx_bdp_bytes, autobuf_unsure_name(p->tx_unsure)};
    struct direction back = {" back  ", p->flags & AUTOBUF_PATH_RX_AT_LEAST, p->rx_rate_bit_per_s,
                             p->rx_rate_low_bit_per_s, p->rx_rate_high_bit_per_s, p->rx_bdp_bytes,
                             autobuf_unsure_name(p->rx_unsure)};

    if (p->rtt_min_ns != AUTOBUF_NS_UNSET)
        fprintf(out, "round-trip time  %.3f ms (%s %.3f ms)\n", (double)p->rtt_min_ns / 1e6,
                each ? "HELLO to answer" : "median", (double)p->rtt_median_ns / 1e6);
    show_direction(out, &there, p->packet_bytes);
    if (each)
        show_direction(out, &back, p->packet_bytes);
    if (p->method != AUTOBUF_METHOD_GIVEN) {
        fputs("cost             ", out);
        print_quantity(out, p->cost_bytes, "B");
        fprintf(out, " sent, %u %s, %.0f ms\n", p->samples, each ? "arrivals" : "replies",
                (double)p->elapsed_ns / 1e6);
    }
    if (p->loss_permille)
        fprintf(out, "loss             %.1f%% of the trains' packets\n", p->loss_permille / 10.0);
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
    for (uint64_t i = 0; i < BARS; i++) {
        char text[32];
        int length = (int)(bins[i] * BAR_WIDTH / most);

        scaled(text, sizeof text, (double)(low + i * width));
        fprintf(out, "%10sbit/s %c %.*s %zu\n", text,
                chosen >= low + i * width && chosen < low + (i + 1) * width ? '>' : '|', length,
                "##################################################", bins[i]);
    }
}

void show_plan(FILE *out, const struct findings *f)
{
    char text[1024], line[128];

    autobuf_plan_explain(&f->plan, text, sizeof text);
    fputs(text, out);
    for (unsigned i = 0; autobuf_plan_sysctl(&f->plan, &f->limits, i, line, sizeof line) > 0; i++)
        fprintf(out, "%s   sysctl -w \"%s\"\n", i ? "                      " : "to change, as root:",
                line);
}

void show_explained(FILE *out, const struct findings *f, const struct obstacle *obstacles,
                    size_t count)
{
    char text[1024];

    autobuf_plan_explain(&f->plan, text, sizeof text);
    fputs(text, out);
    if (count)
        fputs("bottlenecks, largest loss first (share of the path's rate):\n", out);
    for (size_t i = 0; i < count && i < OBSTACLES_SHOWN; i++) {
        if (obstacles[i].lost >= 0.005)
            fprintf(out, "%4.0f%%  %s\n", 100 * obstacles[i].lost, obstacles[i].what);
        else
            fprintf(out, "   -   %s\n", obstacles[i].what);
        fprintf(out, "       %s\n", obstacles[i].line);
    }
    if (count > OBSTACLES_SHOWN)
        fprintf(out, "   -   %zu more, each with a smaller loss\n", count - OBSTACLES_SHOWN);
}

void show_limits(FILE *out, const struct autobuf_limits *l)
{
    fputs("this host: autotuning up to ", out);
    print_quantity(out, l->tcp_wmem_max_bytes, "B to send (tcp_wmem), ");
    print_quantity(out, l->tcp_rmem_max_bytes, "B to receive (tcp_rmem); setsockopt() up to ");
    print_quantity(out, l->snd_settable_bytes, "B (wmem_max) and ");
    print_quantity(out, l->rcv_settable_bytes, "B (rmem_max)");
    if (!(l->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING))
        fputs("; receive autotuning is off (tcp_moderate_rcvbuf)", out);
    fputs(l->flags & AUTOBUF_LIMITS_FORCE ? ", more with SO_SNDBUFFORCE\n" : "\n", out);
}

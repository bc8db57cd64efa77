/* SPDX-License-Identifier: MIT */
#include "show.h"

#include <stdbool.h>

#include "obstacles.h"
#include "print.h"
#include "transfers.h"

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
    json_number(out, "snd_block_bytes", p->snd_block_bytes, !p->snd_block_bytes);
    json_number(out, "snd_retry_bytes", p->snd_retry_bytes, !p->snd_retry_bytes);
    json_number(out, "snd_wanted_bytes", p->snd_wanted_bytes, !p->snd_wanted_bytes);
    json_number(out, "snd_kernel_bytes", p->snd_kernel_bytes, !p->snd_kernel_bytes);
    json_number(out, "snd_pacing_bit_per_s", p->snd_pacing_bit_per_s, !p->snd_pacing_bit_per_s);
    json_bool(out, "snd_force", p->flags & AUTOBUF_PLAN_SND_FORCE);
    json_bool(out, "snd_unlock", p->flags & AUTOBUF_PLAN_SND_UNLOCK);
    json_string(out, "snd_reason", autobuf_reason_name(p->snd_reason));
    json_number(out, "rcv_request_bytes", p->rcv_request_bytes, false);
    json_number(out, "rcv_window_bytes", p->rcv_window_bytes, !p->rcv_window_bytes);
    json_number(out, "rcv_wanted_bytes", p->rcv_wanted_bytes, !p->rcv_wanted_bytes);
    json_number(out, "rcv_kernel_bytes", p->rcv_kernel_bytes, !p->rcv_kernel_bytes);
    json_number(out, "rcv_clamp_bytes", p->rcv_clamp_bytes, !p->rcv_clamp_bytes);
    json_bool(out, "rcv_force", p->flags & AUTOBUF_PLAN_RCV_FORCE);
    json_bool(out, "rcv_unlock", p->flags & AUTOBUF_PLAN_RCV_UNLOCK);
    json_string(out, "rcv_reason", autobuf_reason_name(p->rcv_reason));
    fputs("\"sysctl\":[", out);
    for (unsigned i = 0; autobuf_plan_sysctl(p, &f->limits, i, line, sizeof line) > 0; i++)
        fprintf(out, "%s\"%s\"", i ? "," : "", line);
    fputs("]}", out);
}

/* What holds on this host, for the user who runs the command. */
static void json_host(FILE *out, const struct autobuf_limits *l, const struct host_facts *h)
{
    bool assumed = l->flags & AUTOBUF_LIMITS_ASSUMED;

    fputs("\"host\":{", out);
    json_string(out, "kernel", h->kernel[0] ? h->kernel : NULL);
    json_string(out, "congestion_control", h->congestion_control[0] ? h->congestion_control : NULL);
    json_number(out, "tcp_wmem_max_bytes", l->tcp_wmem_max_bytes, assumed);
    json_number(out, "tcp_rmem_max_bytes", l->tcp_rmem_max_bytes, assumed);
    json_number(out, "wmem_max_bytes", l->snd_settable_bytes, false);
    json_number(out, "rmem_max_bytes", l->rcv_settable_bytes, false);
    json_number(out, "tcp_mem_bytes", l->tcp_mem_bytes, !l->tcp_mem_bytes);
    json_bool(out, "window_scaling", l->flags & AUTOBUF_LIMITS_WINDOW_SCALING);
    json_bool(out, "rcv_autotuning", l->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING);
    json_bool(out, "may_force", l->flags & AUTOBUF_LIMITS_FORCE);
    fprintf(out, "\"may_unlock\":%s},", l->flags & AUTOBUF_LIMITS_NO_UNLOCK ? "false" : "true");
}

static void json_obstacles(FILE *out, const struct obstacle *obstacles, size_t count)
{
    fputs("\"obstacles\":[", out);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ",{" : "{", out);
        json_number(out, "lost_permille", (uint64_t)(1000 * obstacles[i].lost + 0.5), obstacles[i].lost < 0.0005);
        json_string(out, "what", obstacles[i].what);
        fputs("\"change\":", out);
        json_text(out, obstacles[i].line);
        fputc('}', out);
    }
    fputs("],", out);
}

void show_json(FILE *out, const struct findings *f, const struct host_facts *host, const struct obstacle *obstacles,
               size_t count, const struct transfer_result *transfers)
{
    const struct autobuf_path *p = &f->path;

    fputc('{', out);
    json_string(out, "version", autobuf_version());
    json_string(out, "method", autobuf_method_name(p->method));
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
    json_host(out, &f->limits, host);
    json_obstacles(out, obstacles, count);
    if (transfers)
        show_transfers_json(out, transfers);
    json_plan(out, f);
    fputs("}\n", out);
}

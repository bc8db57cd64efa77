/* SPDX-License-Identifier: MIT */
#include "paths_print.h"

#include <stdio.h>
#include <time.h>

#include "print.h"

static void print_time(uint64_t at_s)
{
    time_t seconds = (time_t)at_s;
    struct tm utc;
    char text[32] = "never";

    if (at_s != UINT64_MAX && gmtime_r(&seconds, &utc))
        strftime(text, sizeof text, "%Y-%m-%d %H:%MZ", &utc);
    fputs(text, stdout);
}

static void print_rate(uint64_t bit_per_s, bool at_least)
{
    if (bit_per_s)
        printf("%s%.1f Mbit/s", at_least ? "at least " : "", (double)bit_per_s / 1e6);
    else
        fputs("unknown", stdout);
}

static void print_rates(const struct autobuf_paths_entry *e)
{
    bool tx_at_least = e->flags & AUTOBUF_PATH_TX_AT_LEAST, rx_at_least = e->flags & AUTOBUF_PATH_RX_AT_LEAST;

    print_rate(e->tx_rate_bit_per_s, tx_at_least);
    if (e->rx_rate_bit_per_s == e->tx_rate_bit_per_s && rx_at_least == tx_at_least)
        return;
    fputs(" there, ", stdout);
    print_rate(e->rx_rate_bit_per_s, rx_at_least);
    fputs(" back", stdout);
}

static void print_line(const struct autobuf_paths_entry *e, const char *remote, const char *local, uint64_t now_s)
{
    printf("%s", remote);
    if (e->local.version)
        printf(" from %s", local);
    if (e->device[0])
        printf(" through %s", e->device);
    fputs(": ", stdout);
    print_rates(e);
    if (e->rtt_min_ns != AUTOBUF_NS_UNSET)
        printf(", %.3f ms", (double)e->rtt_min_ns / 1e6);
    printf(", %s of ", e->method ? autobuf_method_name(e->method) : "unknown");
    print_time(e->learned_s);
    if (e->expires_s <= now_s) {
        fputs(", expired\n", stdout);
        return;
    }
    fputs(", expires ", stdout);
    print_time(e->expires_s);
    putchar('\n');
}

static void print_json(const struct autobuf_paths_entry *e, const char *remote, const char *local)
{
    putchar('{');
    json_string(stdout, "remote", remote);
    json_string(stdout, "local", e->local.version ? local : NULL);
    json_string(stdout, "device", e->device[0] ? e->device : NULL);
    json_string(stdout, "method", e->method ? autobuf_method_name(e->method) : "unknown");
    json_number(stdout, "rtt_min_ns", e->rtt_min_ns, e->rtt_min_ns == AUTOBUF_NS_UNSET);
    json_number(stdout, "rtt_median_ns", e->rtt_median_ns, e->rtt_median_ns == AUTOBUF_NS_UNSET);
    json_number(stdout, "tx_rate_bit_per_s", e->tx_rate_bit_per_s, !e->tx_rate_bit_per_s);
    json_number(stdout, "tx_rate_low_bit_per_s", e->tx_rate_low_bit_per_s, !e->tx_rate_low_bit_per_s);
    json_number(stdout, "tx_rate_high_bit_per_s", e->tx_rate_high_bit_per_s, !e->tx_rate_high_bit_per_s);
    json_number(stdout, "rx_rate_bit_per_s", e->rx_rate_bit_per_s, !e->rx_rate_bit_per_s);
    json_number(stdout, "rx_rate_low_bit_per_s", e->rx_rate_low_bit_per_s, !e->rx_rate_low_bit_per_s);
    json_number(stdout, "rx_rate_high_bit_per_s", e->rx_rate_high_bit_per_s, !e->rx_rate_high_bit_per_s);
    json_bool(stdout, "tx_at_least", e->flags & AUTOBUF_PATH_TX_AT_LEAST);
    json_bool(stdout, "rx_at_least", e->flags & AUTOBUF_PATH_RX_AT_LEAST);
    json_string(stdout, "tx_unsure", autobuf_unsure_name(e->tx_unsure));
    json_string(stdout, "rx_unsure", autobuf_unsure_name(e->rx_unsure));
    json_number(stdout, "packet_bytes", e->packet_bytes, !e->packet_bytes);
    json_number(stdout, "samples", e->samples, false);
    json_string(stdout, "limiter", autobuf_limiter_name(e->limiter));
    json_number(stdout, "learned_s", e->learned_s, false);
    json_number(stdout, "expires_s", e->expires_s, e->expires_s == UINT64_MAX);
    json_number(stdout, "tx_bdp_bytes", e->tx_bdp_bytes, !e->tx_bdp_bytes);
    printf("\"rx_bdp_bytes\":");
    if (e->rx_bdp_bytes)
        printf("%llu}", (unsigned long long)e->rx_bdp_bytes);
    else
        printf("null}");
}

void paths_print(const struct autobuf_paths_entry *entry, bool json, uint64_t now_s)
{
    char remote[AUTOBUF_PREFIX_BYTES], local[AUTOBUF_PREFIX_BYTES];

    if (autobuf_prefix_print(&entry->remote, remote) < 0 || autobuf_prefix_print(&entry->local, local) < 0)
        return;
    if (json)
        print_json(entry, remote, local);
    else
        print_line(entry, remote, local, now_s);
}

/* SPDX-License-Identifier: MIT */
#include "obstacles.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SSH_CHANNEL_BYTES 2097152.0 /* OpenSSH: CHAN_SES_WINDOW_DEFAULT, 64 packets of 32 KB */
#define SFTP_REQUESTS 64.0          /* and as many requests, of 32 KB without limits@openssh.com, */
#define SFTP_REQUEST_BYTES 261120.0 /* and of 255 KB with it */
#define INITIAL_WINDOW 10.0         /* packets: RFC 6928 */
#define PACKET_BYTES 1448.0

/* What is known of the path, in the terms of one transfer; 0: unknown. */
struct path_terms {
    double rate_bit_per_s; /* payload, of the direction that is filled */
    double rtt_s;
    double product_bytes;
};

struct list {
    struct obstacle *out;
    size_t count;
};

static struct obstacle *add(struct list *list, double lost, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

static struct obstacle *add(struct list *list, double lost, const char *what, ...)
{
    struct obstacle *o = &list->out[list->count < OBSTACLES_MOST ? list->count++ : list->count - 1];
    va_list args;

    o->lost = lost < 0 ? 0 : lost > 1 ? 1 : lost;
    va_start(args, what);
    vsnprintf(o->what, sizeof o->what, what, args);
    va_end(args);
    o->line[0] = '\0';
    return o;
}

static struct path_terms terms_of(const struct autobuf_path *path)
{
    struct path_terms t = {0};

    if (path->rtt_min_ns == AUTOBUF_NS_UNSET || !path->tx_rate_bit_per_s)
        return t;
    t.rate_bit_per_s =
        (double)autobuf_payload_bytes(path->tx_rate_bit_per_s, path->packet_bytes);
    t.rtt_s = (double)path->rtt_min_ns / 1e9;
    t.product_bytes = t.rate_bit_per_s * t.rtt_s / 8;
    return t;
}

/* What a window leaves unused. */
static double lost_by(double window, double wanted)
{
    return wanted > 0 ? 1 - window / wanted : 0;
}

/* Adds the limits that the plan met. If a limit concerns both sides, the side that loses more counts. */
static void add_limits(struct list *list, const struct findings *f)
{
    const struct autobuf_plan *p = &f->plan;
    double snd = lost_by((double)p->snd_window_bytes, (double)p->snd_wanted_bytes);
    double rcv = lost_by((double)p->rcv_window_bytes, (double)p->rcv_wanted_bytes);
    char line[128];

    for (unsigned i = 0; autobuf_plan_sysctl(p, &f->limits, i, line, sizeof line) > 0; i++) {
        bool both = strncmp(line, "net.ipv4.tcp_window_scaling", 27) == 0;
        bool receives = strncmp(line, "net.ipv4.tcp_rmem", 17) == 0 ||
                        strncmp(line, "net.ipv4.tcp_moderate_rcvbuf", 28) == 0;
        double lost = both ? (snd > rcv ? snd : rcv) : receives ? rcv : snd;
        int name = (int)strcspn(line, "=");
        struct obstacle *o =
            add(list, lost, "%.*s limits the %s window to %.1f MB of %.1f MB", name, line,
                both ? "largest" : receives ? "receive" : "send",
                (double)(receives ? p->rcv_window_bytes : p->snd_window_bytes) / 1e6,
                (double)(receives ? p->rcv_wanted_bytes : p->snd_wanted_bytes) / 1e6);

        snprintf(o->line, sizeof o->line, "sysctl -w \"%s\"", line);
    }
}

static void add_ssh(struct list *list, const struct path_terms *t)
{
    double requests = SFTP_REQUESTS * SFTP_REQUEST_BYTES;
    struct obstacle *o;

    if (t->product_bytes > SSH_CHANNEL_BYTES) {
        o = add(list, lost_by(SSH_CHANNEL_BYTES, t->product_bytes),
                "scp, sftp, ssh: OpenSSH's channel window of 2 MB allows %.0f Mbit/s",
                SSH_CHANNEL_BYTES * 8 / t->rtt_s / 1e6);
        snprintf(o->line, sizeof o->line, "run %.0f transfers at once, or use OpenSSH with larger windows",
                 t->product_bytes / SSH_CHANNEL_BYTES + 1);
    }
    if (t->product_bytes > requests) {
        o = add(list, lost_by(requests, t->product_bytes),
                "scp, sftp: 64 requests of 255 KB at once allow %.0f Mbit/s",
                requests * 8 / t->rtt_s / 1e6);
        snprintf(o->line, sizeof o->line, "sftp -R %.0f, scp -X nrequests=%.0f",
                 t->product_bytes / SFTP_REQUEST_BYTES + 1,
                 t->product_bytes / SFTP_REQUEST_BYTES + 1);
    }
}

/* Slow start's doublings from the initial window to the product. */
static unsigned doublings(double product_bytes)
{
    unsigned rounds = 0;

    for (double window = INITIAL_WINDOW * PACKET_BYTES; window < product_bytes; window *= 2)
        rounds++;
    return rounds;
}

static void add_tcp(struct list *list, const struct path_terms *t, const struct host_facts *h,
                    const struct autobuf_limits *limits)
{
    unsigned rounds = doublings(t->product_bytes);
    struct obstacle *o;

    if (h->ssthresh_packets > 0 && t->product_bytes > (double)h->ssthresh_packets * PACKET_BYTES) {
        double window = (double)h->ssthresh_packets * PACKET_BYTES;

        o = add(list, lost_by(window, t->product_bytes),
                "the kernel remembers an earlier loss (tcp_metrics): slow start ends at %.1f of "
                "%.1f MB", window / 1e6, t->product_bytes / 1e6);
        snprintf(o->line, sizeof o->line,
                 "ip tcp_metrics flush %s; sysctl -w net.ipv4.tcp_no_ssthresh_metrics_save=1",
                 h->peer);
    }
    if (limits->tcp_mem_bytes && h->tcp_used_bytes > (int64_t)limits->tcp_mem_bytes) {
        o = add(list, 0.5, "TCP is under memory pressure: %.0f MB of %.0f (net.ipv4.tcp_mem) in use",
                (double)h->tcp_used_bytes / 1e6, (double)limits->tcp_mem_bytes / 1e6);
        snprintf(o->line, sizeof o->line, "use fewer or smaller buffers, or raise net.ipv4.tcp_mem");
    }
    if (h->sack == 0) {
        o = add(list, 0, "selective acknowledgements are off: each lost packet costs a round trip");
        snprintf(o->line, sizeof o->line, "sysctl -w \"net.ipv4.tcp_sack=1\"");
    }
    if (h->slow_start_after_idle == 1 && rounds > 1) {
        o = add(list, 0, "after each pause a connection repeats slow start: %u round trips, %.1f s",
                rounds, rounds * t->rtt_s);
        snprintf(o->line, sizeof o->line, "sysctl -w \"net.ipv4.tcp_slow_start_after_idle=0\"");
    }
}

/* If a window is larger than the device's queue, one burst of it overflows the queue. */
static void add_queue(struct list *list, const struct path_terms *t, const struct host_facts *h)
{
    double queue = (double)h->queue_packets * PACKET_BYTES;
    double packets = t->product_bytes / PACKET_BYTES + 1;
    struct obstacle *o;

    if (h->queue_drops <= 0 || !h->device[0])
        return;
    o = add(list, 0, "the queue of %s (%s) has dropped %lld packets%s", h->device,
            h->qdisc[0] ? h->qdisc : "?", (long long)h->queue_drops,
            h->queue_packets > 0 && queue < t->product_bytes ? ", and is shorter than the path" : "");
    if (packets < (double)h->queue_packets)
        packets = 2.0 * (double)h->queue_packets;
    if (strcmp(h->qdisc, "fq") == 0 || strcmp(h->qdisc, "fq_codel") == 0)
        snprintf(o->line, sizeof o->line, "tc -s qdisc show dev %s", h->device);
    else
        snprintf(o->line, sizeof o->line,
                 "tc qdisc replace dev %s root fq, or ip link set %s txqueuelen %.0f", h->device,
                 h->device, packets);
}

static int dearer_first(const void *a, const void *b)
{
    double x = ((const struct obstacle *)a)->lost, y = ((const struct obstacle *)b)->lost;

    return (x < y) - (x > y);
}

size_t obstacles_find(const struct findings *found, const struct host_facts *host,
                      struct obstacle out[OBSTACLES_MOST])
{
    struct path_terms t = terms_of(&found->path);
    struct list list = {out, 0};

    add_limits(&list, found);
    add_ssh(&list, &t);
    add_tcp(&list, &t, host, &found->limits);
    add_queue(&list, &t, host);
    qsort(out, list.count, sizeof *out, dearer_first);
    return list.count;
}

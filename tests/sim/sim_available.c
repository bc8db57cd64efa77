/* SPDX-License-Identifier: MIT */
#include "sim_available.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "available/inline.h"
#include "emu_link.h"

#define PACKET 1500U
#define SOURCES 8
#define BIN_NS 1000000ULL
#define IN_FLIGHT 65536U /* packets, at most */
#define INITIAL_WINDOW 10

/* One of those whose traffic is not ours. */
struct source {
    uint64_t next_ns; /* of its next packet */
    uint64_t off_ns;  /* when it falls silent; UINT64_MAX: never */
};

/* What the sender hears of a packet: that it came, or was lost. */
struct heard {
    uint64_t sent_ns, at_ns;
    bool lost;
};

struct world {
    const struct sim_available *sim;
    struct emu_link link, narrow;
    struct source sources[SOURCES];
    unsigned source_count;
    uint64_t rng;
    uint64_t back_ns;     /* from the link's end to the sender */
    struct heard *heard;  /* ring, in the order of at_ns */
    uint64_t sent, answered; /* packets */
    uint64_t next_send_ns;
    uint64_t delivered_bytes, lost;
    double cwnd, most_cwnd; /* packets; before the newest loss */
    uint64_t cut_ns;      /* 0: slow start */
    double target;        /* to which the window shrinks over a round trip (RFC 6937); 0: it does not */
    double srtt_us, mdev_us;
    double *cross_bytes;  /* that the queue took, by the end of each bin, */
    double *own_bytes;    /* and what the sender put in */
    uint64_t bins;
    struct ab_available available;
    struct ab_inline in_line;
    double late_part;
};

static double chance(struct world *w)
{
    w->rng = w->rng * 6364136223846793005ULL + 1442695040888963407ULL;
    return ((double)(w->rng >> 11) + 0.5) / 9007199254740992.0;
}

/* ---------------------------------------------------------------------------------- other traffic */

/* A third of the mean is the least of Pareto's distribution with the exponent 1.5. */
static uint64_t pareto_ns(struct world *w, double mean_ns)
{
    double ns = mean_ns / 3 * pow(chance(w), -1 / 1.5);

    return (uint64_t)fmin(ns, 20 * mean_ns);
}

/* The packet of a source arrives, and its next one is fixed. */
static void cross_arrives(struct world *w, struct source *source)
{
    double gap_ns = PACKET * 8e3 / (w->sim->mbit * w->sim->load);
    uint64_t now_ns = source->next_ns, out_ns;

    if (emu_link_offer(&w->link, now_ns, PACKET, &out_ns))
        w->cross_bytes[now_ns / BIN_NS] += PACKET;
    switch (w->sim->cross) {
    case SIM_CBR:
        source->next_ns += (uint64_t)gap_ns;
        break;
    case SIM_POISSON:
        source->next_ns += (uint64_t)(-log(chance(w)) * gap_ns) + 1;
        break;
    case SIM_PARETO:
        source->next_ns += (uint64_t)(gap_ns * SOURCES / 2); /* on for half of the time */
        if (source->next_ns >= source->off_ns) {
            source->next_ns = source->off_ns + pareto_ns(w, 100e6);
            source->off_ns = source->next_ns + pareto_ns(w, 100e6);
        }
        break;
    }
}

static struct source *next_source(struct world *w)
{
    struct source *next = &w->sources[0];

    for (unsigned i = 1; i < w->source_count; i++)
        if (w->sources[i].next_ns < next->next_ns)
            next = &w->sources[i];
    return next;
}

/* ---------------------------------------------------------------------------------- the sender */

static bool may_send(const struct world *w)
{
    double window = w->cwnd;

    if (w->sim->window_products > 0)
        window = fmin(window, w->sim->window_products * w->sim->mbit * w->sim->rtt_ms * 125 / PACKET);
    return (double)(w->sent - w->answered) < fmin(window, IN_FLIGHT);
}

/* When the program has written the next packet. */
static uint64_t written_ns(const struct world *w)
{
    return w->sim->sends_mbit > 0 ? (uint64_t)((double)(w->sent + 1) * PACKET * 8e3 / w->sim->sends_mbit) : 0;
}

static uint64_t waiting_bytes(const struct world *w, uint64_t now_ns)
{
    double written = w->sim->sends_mbit * (double)now_ns / 8e3, sent = (double)w->sent * PACKET;

    return written > sent ? (uint64_t)(written - sent) : 0;
}

static void send_packet(struct world *w, uint64_t now_ns)
{
    struct heard *heard = &w->heard[w->sent % IN_FLIGHT];
    uint64_t out_ns, back_ns = now_ns + (uint64_t)(2 * w->srtt_us * 1e3);
    bool lost = !emu_link_offer(&w->link, now_ns, PACKET, &out_ns) ||
                (w->sim->narrow_mbit > 0 && !emu_link_offer(&w->narrow, out_ns, PACKET, &out_ns));

    if (!lost)
        back_ns = out_ns + w->back_ns;
    else if (w->sent > w->answered) /* the packet before it and the one behind it tell */
        back_ns = w->heard[(w->sent - 1) % IN_FLIGHT].at_ns;
    w->late_part = fmax(w->late_part, (double)(now_ns - written_ns(w)) / (double)now_ns);
    *heard = (struct heard){now_ns, back_ns, lost};
    w->sent++;
    w->own_bytes[now_ns / BIN_NS] += lost ? 0 : PACKET;
    w->next_send_ns = now_ns;
    if (w->in_line.pace_bit_per_s)
        w->next_send_ns += PACKET * 8000000000U / w->in_line.pace_bit_per_s;
}

/* RFC 9438, without its part for short round trips. */
static void grow(struct world *w, uint64_t now_ns)
{
    double k = cbrt(w->most_cwnd * 0.3 / 0.4), t = ((double)now_ns - (double)w->cut_ns) / 1e9, target;

    if (!w->cut_ns) {
        w->cwnd++;
        return;
    }
    if (w->target > 0) {
        w->cwnd = fmax(w->cwnd - 0.3, w->target);
        w->target = w->cwnd > w->target ? w->target : 0;
        return;
    }
    target = 0.4 * pow(t + w->srtt_us / 1e6 - k, 3) + w->most_cwnd;
    w->cwnd += fmin(fmax(target - w->cwnd, 0.01), w->cwnd / 2) / w->cwnd;
}

static void hear(struct world *w)
{
    const struct heard *heard = &w->heard[w->answered++ % IN_FLIGHT];
    double rtt_us = (double)(heard->at_ns - heard->sent_ns) / 1e3, error = rtt_us - w->srtt_us;

    if (heard->lost) {
        w->lost++;
        if (heard->sent_ns <= w->cut_ns) /* of the same round trip as the newest cut */
            return;
        w->most_cwnd = w->cwnd;
        w->target = fmax(0.7 * w->cwnd, 2);
        w->cut_ns = heard->at_ns;
        return;
    }
    w->delivered_bytes += PACKET;
    grow(w, heard->at_ns);
    if (w->answered % 2) /* an ACK for each second packet */
        return;
    if (w->srtt_us <= 0) {
        w->srtt_us = rtt_us;
        w->mdev_us = rtt_us / 2;
        return;
    }
    w->srtt_us += error / 8;
    w->mdev_us += (fabs(error) - w->mdev_us) / (error < -w->mdev_us ? 32 : 4); /* as the kernel's tcp_rtt_estimator() */
}

/* ---------------------------------------------------------------------------------- the look at it */

static uint64_t capacity_of(const struct sim_available *sim)
{
    double mbit = sim->narrow_mbit > 0 ? sim->narrow_mbit : sim->mbit;

    return sim->capacity_known ? (uint64_t)(mbit * 1e6) : 0;
}

/* A search, in line, that is due begins, or goes on. Returns whether one does. */
static bool search(struct world *w, uint64_t now_ns)
{
    const struct ab_inline_sample sample = {
        .now_ns = now_ns,
        .rtt_ns = (uint64_t)(w->srtt_us * 1e3),
        .rtt_min_ns = (uint64_t)(w->sim->rtt_ms * 1e6),
        .rtt_deviation_ns = (uint64_t)(w->mdev_us * 1e3),
        .delivered_bytes = w->delivered_bytes,
        .waiting_bytes = waiting_bytes(w, now_ns),
        .room_bytes = UINT32_MAX,
        .resent_packets = (uint32_t)w->lost,
    };
    uint64_t capacity = capacity_of(w->sim);
    struct autobuf_available passive;

    if (w->in_line.state == AB_INLINE_RESTS) {
        if (!ab_inline_is_due(&w->in_line, &sample))
            return false;
        ab_available_estimate(&w->available, capacity, capacity, &passive);
        if (!ab_inline_begin(&w->in_line, &sample, &passive, capacity, capacity))
            return false;
    } else if (!ab_inline_sample(&w->in_line, &sample)) {
        return true;
    }
    w->next_send_ns = now_ns;
    return true;
}

static uint64_t look(struct world *w, uint64_t now_ns)
{
    struct ab_available_sample sample = {
        .now_ns = now_ns,
        .delivered_bytes = w->delivered_bytes,
        .resent_packets = (uint32_t)w->lost,
        .rtt_ns = (uint64_t)(w->srtt_us * 1e3),
        .rtt_deviation_ns = (uint64_t)(w->mdev_us * 1e3),
        .program_limits = w->sim->sends_mbit > 0,
    };

    if (w->sim->searches && w->srtt_us > 0 && search(w, now_ns))
        return now_ns + 10000000;
    ab_available_sample(&w->available, &sample);
    return now_ns + (uint64_t)fmax(w->srtt_us * 1e3, 50e6);
}

static double sum(const double *bins, double from_ns, double to_ns)
{
    double bytes = 0;

    for (uint64_t i = (uint64_t)fmax(from_ns / BIN_NS, 0); i < (uint64_t)(to_ns / BIN_NS); i++)
        bytes += bins[i];
    return bytes;
}

static struct sim_free end_of(struct world *w)
{
    struct sim_free found;
    double narrow_mbit = w->sim->narrow_mbit > 0 ? w->sim->narrow_mbit : w->sim->mbit;
    double to_ns, from_ns;

    ab_available_estimate(&w->available, capacity_of(w->sim), capacity_of(w->sim), &found.estimate);
    ab_inline_result(&w->in_line, w->available.now_ns, &found.estimate);
    found.late_part = w->late_part;
    /* What is acknowledged was put in a round trip ago. */
    to_ns = (double)(w->available.now_ns - found.estimate.age_ns) - w->srtt_us * 1e3;
    from_ns = to_ns - (double)found.estimate.over_ns;
    found.truth_bit_per_s = fmin(w->sim->mbit * 1e6 - sum(w->cross_bytes, from_ns, to_ns) * 8e9 / (to_ns - from_ns),
                                 narrow_mbit * 1e6);
    found.sent_bit_per_s = sum(w->own_bytes, from_ns, to_ns) * 8e9 / (to_ns - from_ns);
    return found;
}

static void lengthen(struct world *w, const struct emu_params *params, uint64_t now_ns)
{
    struct emu_params longer = *params;

    if (!w->sim->longer_at_ns || now_ns < w->sim->longer_at_ns || w->link.params.delay_ns != params->delay_ns)
        return;
    longer.delay_ns = 2 * params->delay_ns;
    emu_link_set(&w->link, &longer, now_ns);
}

static void run(struct world *w, const struct emu_params *params)
{
    uint64_t look_ns = 50000000;

    for (;;) {
        struct source *source = next_source(w);
        uint64_t ack_ns = w->sent > w->answered ? w->heard[w->answered % IN_FLIGHT].at_ns : UINT64_MAX;
        uint64_t written = written_ns(w), send_ns = w->next_send_ns > written ? w->next_send_ns : written;
        uint64_t now_ns = source->next_ns;

        send_ns = may_send(w) ? send_ns : UINT64_MAX;
        now_ns = now_ns < ack_ns ? now_ns : ack_ns;
        now_ns = now_ns < send_ns ? now_ns : send_ns;
        now_ns = now_ns < look_ns ? now_ns : look_ns;
        if (now_ns >= w->sim->end_ns)
            return;
        lengthen(w, params, now_ns);
        if (now_ns == ack_ns) {
            hear(w);
            w->next_send_ns = w->sim->sends_mbit > 0 ? w->next_send_ns : now_ns;
        } else if (now_ns == send_ns) {
            send_packet(w, now_ns);
        } else if (now_ns == look_ns) {
            look_ns = look(w, now_ns);
        } else {
            cross_arrives(w, source);
        }
    }
}

struct sim_free sim_available(const struct sim_available *sim)
{
    struct emu_params params = {
        .rate_bit_per_s = (uint64_t)(sim->mbit * 1e6),
        .queue_bytes = (uint64_t)(sim->queue_products * sim->mbit * 125 * sim->rtt_ms) + PACKET,
        .delay_ns = (uint64_t)(sim->rtt_ms * 0.5e6),
        .batch_ns = sim->batch_ns,
        .burst_bytes = sim->burst_bytes,
    };
    struct emu_params narrow = {.rate_bit_per_s = (uint64_t)(sim->narrow_mbit * 1e6),
                                .queue_bytes = params.queue_bytes};
    struct world *w = calloc(1, sizeof *w);
    struct sim_free found;

    assert(w);
    w->sim = sim;
    w->rng = sim->seed * 0x9E3779B97F4A7C15U + 1;
    w->cwnd = sim->sends_mbit > 0 ? IN_FLIGHT : INITIAL_WINDOW;
    w->back_ns = params.delay_ns;
    w->bins = sim->end_ns / BIN_NS + 1;
    w->heard = calloc(IN_FLIGHT, sizeof *w->heard);
    w->cross_bytes = calloc(2 * w->bins, sizeof *w->cross_bytes);
    assert(w->heard && w->cross_bytes);
    w->own_bytes = w->cross_bytes + w->bins;
    w->source_count = sim->cross == SIM_PARETO ? SOURCES : 1;
    for (unsigned i = 0; i < w->source_count; i++) {
        w->sources[i].next_ns = (uint64_t)(chance(w) * 100e6);
        w->sources[i].off_ns = w->sources[i].next_ns + pareto_ns(w, 100e6);
    }
    emu_link_init(&w->link, &params, sim->seed, 0);
    emu_link_init(&w->narrow, &narrow, sim->seed, 0);
    run(w, &params);
    found = end_of(w);
    emu_link_free(&w->link);
    emu_link_free(&w->narrow);
    free(w->cross_bytes);
    free(w->heard);
    free(w);
    return found;
}

/* SPDX-License-Identifier: MIT */
#include "sim_live.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "live/judge.h"
#include "plan/plan.h"

#define STEP_NS 250000ULL
#define MSS 1448.0

struct tcp {
    const struct sim_live *sim;
    double sent, delivered, acked; /* bytes so far: sent, out of the queue, acknowledged */
    double written;                /* by a bursty writer */
    bool writes;                   /* it does so in this step */
    double cwnd;
    bool growing;                  /* slow start */
    double pace;                   /* 0: none */
    uint64_t sk_sndbuf;               /* for throughput */
    bool locked;                   /* it was set */
    uint64_t halved_ns;            /* when the congestion window was halved last */
    double srtt_ms;
    double deviation_ms;           /* rttvar */
    double owed; /* bytes that a stall delayed */
    uint64_t seed;
    double *acks;                  /* bytes acknowledged in each step, */
    double *rtts_ms;               /* and their RTT samples: for bursts shorter than an RTT */
    double *sents;                 /* bytes sent by the end of each step */
    uint64_t head;                 /* the step in which the head of the queue was sent */
};

static double rate_at(const struct sim_live *sim, uint64_t now_ns)
{
    return sim->change_ns && now_ns >= sim->change_ns ? sim->changed_byte_per_s
                                                      : sim->rate_byte_per_s;
}

/* Bytes that the link can deliver in a step, with those that a stall delayed. */
static double capacity(struct tcp *t, double rate, uint64_t now_ns)
{
    double bytes = rate * (double)STEP_NS / 1e9 + t->owed;

    t->owed = 0;
    if (!t->sim->stall_ns || now_ns < t->sim->stall_every_ns || now_ns % t->sim->stall_every_ns >= t->sim->stall_ns)
        return bytes;
    t->owed = t->sim->catches_up ? bytes : 0;
    return 0;
}

static uint64_t rtt_at(const struct sim_live *sim, uint64_t now_ns)
{
    return sim->changed_rtt_ns && now_ns >= sim->change_ns ? sim->changed_rtt_ns : sim->rtt_ns;
}

static double jitter_ms(struct tcp *t)
{
    t->seed = t->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return t->sim->jitter_ms * (double)(t->seed >> 40) / (double)(1U << 24);
}

static double buffer_of(const struct tcp *t)
{
    return t->sim->limits ? (double)AB_SND_WINDOW(t->sk_sndbuf) : t->sim->buffer_bytes;
}

/* Payload that the whole buffer holds. */
static double whole_of(const struct tcp *t)
{
    return (double)t->sk_sndbuf * 0.9;
}

/* A bursty writer sleeps until a third of the buffer is free, and then fills it. Returns the unsent bytes. */
static double burst(struct tcp *t)
{
    t->writes = t->written - t->acked <= whole_of(t) * 2 / 3;
    if (t->writes)
        t->written = t->acked + whole_of(t);
    return t->written - t->sent;
}

/* The kernel's srtt and mdev. A fall counts less in mdev. */
static void smooth(struct tcp *t, double rtt_ms, double acked)
{
    double acks = acked / MSS, error = rtt_ms - t->srtt_ms, off = error < 0 ? -error / 8 : error;

    if (acked <= 0)
        return;
    t->srtt_ms += error / (1 + 8 / acks);
    t->deviation_ms += (off - t->deviation_ms) / (1 + 4 / acks);
}

/* An overflow halves the congestion window at most once per RTT, and ends slow start. */
static void lose(struct tcp *t, uint64_t now_ns)
{
    t->growing = false;
    if (now_ns < t->halved_ns + (uint64_t)(t->srtt_ms * 1e6))
        return;
    t->cwnd = (t->sent - t->acked) / 2;
    t->halved_ns = now_ns;
}

static void step(struct tcp *t, uint64_t now_ns)
{
    double step_s = (double)STEP_NS / 1e9, rate = rate_at(t->sim, now_ns);
    uint64_t rtt_ns = rtt_at(t->sim, now_ns), at = now_ns / STEP_NS;
    double acked = t->acks[at], queue, held, ready, room, out, rtt_ms;

    t->acked += acked;
    if (t->growing)
        t->cwnd += acked;
    else
        t->cwnd += acked * MSS / t->cwnd;
    held = t->sim->bursts ? whole_of(t) : buffer_of(t);
    room = (t->cwnd < held ? t->cwnd : held) - (t->sent - t->acked);
    if (t->sim->bursts) {
        ready = burst(t);
        room = room < ready ? room : ready;
    }
    if (t->pace > 0 && room > t->pace * step_s)
        room = t->pace * step_s;
    if (room > 0)
        t->sent += room;
    queue = t->sent - t->delivered;
    if (t->sim->queue_bytes > 0 && queue > t->sim->queue_bytes) {
        t->sent -= queue - t->sim->queue_bytes;
        queue = t->sim->queue_bytes;
        lose(t, now_ns);
    }
    out = capacity(t, rate, now_ns);
    out = queue < out ? queue : out;
    t->delivered += out;
    t->sents[at] = t->sent;
    while (t->head < at && t->sents[t->head] < t->delivered)
        t->head++;
    t->acks[at + rtt_ns / STEP_NS] += out;
    t->rtts_ms[at + rtt_ns / STEP_NS] = (double)(rtt_ns + (at - t->head) * STEP_NS) / 1e6;
    rtt_ms = (double)rtt_ns / 1e6 + queue / rate * 1e3;
    smooth(t, t->sim->limits ? t->rtts_ms[at] : rtt_ms, acked);
}

static struct ab_sample look_of(struct tcp *t, uint64_t now_ns)
{
    struct ab_sample sample = {.now_ns = now_ns, .socket = AUTOBUF_SOCKET_INIT};
    double rtt_ms = t->srtt_ms + jitter_ms(t);

    sample.info = (struct ab_tcpinfo){
        .state = AB_TCP_ESTABLISHED,
        .mss_bytes = (uint32_t)MSS,
        .unacked_packets = (uint32_t)((t->sent - t->acked) / MSS),
        .cwnd_packets = (uint32_t)(t->cwnd / MSS) + 1,
        .rtt_ns = (uint64_t)(rtt_ms * 1e6),
        .rtt_min_ns = t->sim->rtt_ns,
        .acked_bytes = (uint64_t)t->acked,
        .notsent_bytes = 1000000,
        .peer_window_bytes = 1U << 30,
    };
    sample.socket.stage = AUTOBUF_STAGE_CONNECTED;
    sample.socket.snd_buf_bytes = sample.queued_bytes = 4194304;
    if (t->sim->limits) {
        bool full = t->sent - t->acked > 0.98 * buffer_of(t);

        sample.socket.snd_buf_bytes = t->sk_sndbuf;
        sample.socket.locks = t->locked ? AUTOBUF_LOCK_SND : 0;
        sample.socket.rtt_min_ns = t->sim->rtt_ns;
        sample.queued_bytes = full ? t->sk_sndbuf / 20 * (14 + now_ns / 7 % 6) : (uint64_t)(t->sent - t->acked);
        sample.info.notsent_bytes = full ? 0 : 1000000;
        sample.info.rtt_deviation_ns = (uint64_t)(t->sim->jitter_ms * 0.25e6);
        sample.info.pacing_byte_per_s = t->pace > 0 ? (uint64_t)t->pace : UINT64_MAX;
        sample.info.max_pacing_byte_per_s = sample.info.pacing_byte_per_s;
        if (t->sim->bursts) {
            sample.queued_bytes = (uint64_t)((t->written - t->acked) / whole_of(t) * (double)t->sk_sndbuf);
            sample.info.notsent_bytes = (uint32_t)(t->written - t->sent);
            sample.info.rtt_deviation_ns = (uint64_t)(t->deviation_ms * 1e6);
        }
    }
    return sample;
}

static void judge_it(struct tcp *t, struct ab_judge *judge, uint64_t now_ns)
{
    struct ab_sample sample = look_of(t, now_ns);
    struct autobuf_plan plan;
    const char *why;

    if (!ab_judge_sample(judge, &sample, &plan, &why))
        return;
    if (plan.snd_pacing_bit_per_s)
        t->pace = (double)plan.snd_pacing_bit_per_s / 8;
    if (plan.snd_request_bytes) {
        t->sk_sndbuf = 2 * plan.snd_request_bytes;
        t->locked = true;
    }
}

struct sim_span sim_live(const struct sim_live *sim, uint64_t begin_ns, uint64_t end_ns)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct tcp t = {.sim = sim, .cwnd = 10 * MSS, .growing = true, .seed = sim->seed,
                    .srtt_ms = (double)sim->rtt_ns / 1e6};
    size_t steps = (size_t)((sim->end_ns + sim->rtt_ns + sim->changed_rtt_ns) / STEP_NS) + 1;
    struct sim_span span = {0};
    struct ab_judge judge;
    double before = 0, samples = 0;
    uint64_t rare_ns = 0;

    t.acks = calloc(3 * steps, sizeof *t.acks);
    assert(t.acks);
    t.rtts_ms = t.acks + steps;
    t.sents = t.rtts_ms + steps;
    if (sim->limits) {
        limits = *sim->limits;
        t.sk_sndbuf = limits.tcp_wmem_max_bytes;
    }
    ab_judge_begin(&judge, sim->limits ? AUTOBUF_INTENT_THROUGHPUT : AUTOBUF_INTENT_LOW_DELAY, &limits);
    for (uint64_t now_ns = 0; now_ns < sim->end_ns; now_ns += STEP_NS) {
        double ratio;

        step(&t, now_ns);
        if (!sim->unpaced && now_ns >= ab_judge_next_ns(&judge) && now_ns >= rare_ns && (!sim->bursts || t.writes)) {
            judge_it(&t, &judge, now_ns + 1);
            rare_ns = now_ns + sim->rare_ns;
        }
        if (now_ns < begin_ns)
            before = t.acked;
        if (now_ns < begin_ns || now_ns >= end_ns)
            continue;
        ratio = 1 + (t.sent - t.delivered) / rate_at(sim, now_ns) * 1e9 /
                        (double)rtt_at(sim, now_ns);
        span.rtt_ratio += ratio;
        span.worst_ratio = ratio > span.worst_ratio ? ratio : span.worst_ratio;
        span.rate_byte_per_s = (t.acked - before) * 1e9 / (double)(now_ns + STEP_NS - begin_ns);
        samples++;
    }
    span.rtt_ratio /= samples;
    free(t.acks);
    return span;
}

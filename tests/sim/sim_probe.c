/* SPDX-License-Identifier: MIT */
#include "sim_probe.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "icmp/probe.h"

#define PACKETS 16384
#define BETWEEN_STALLS_NS 1e8
#define STALLS 1024

struct reply {
    uint64_t sent_ns;
    uint64_t stamp_ns;
    size_t len;
    uint8_t bytes[24]; /* that a parser reads */
};

/* What other traffic came at a link while a stretch was sent. */
struct cross {
    uint64_t at_ns, packets; /* at the newest packet of the stretch */
    uint32_t train;
    double ns, bytes;
};

struct sim {
    const struct sim_path *path;
    struct emu_link there;
    struct emu_link back;
    struct reply *replies; /* a queue ordered by time: head..count */
    size_t head;
    size_t count;
    size_t small_len; /* of the small echoes: the first packet is one */
    uint64_t rtt_ns;  /* minimum RTT so far */
    uint64_t random;
    uint32_t train; /* stretch that is being sent; 0: none */
    struct cross cross_there, cross_back;
    struct {
        uint64_t begin_ns, end_ns;
    } stalls[STALLS];
};

static void insert_reply(struct sim *sim, const struct reply *r)
{
    size_t at = sim->count;

    assert(sim->count < 2 * PACKETS);
    while (at > sim->head && sim->replies[at - 1].stamp_ns > r->stamp_ns) {
        sim->replies[at] = sim->replies[at - 1];
        at--;
    }
    sim->replies[at] = *r;
    sim->count++;
}

/* Uniform in [0, 1). */
static double chance(struct sim *sim)
{
    sim->random ^= sim->random << 13;
    sim->random ^= sim->random >> 7;
    sim->random ^= sim->random << 17;
    return (double)(sim->random >> 11) * 0x1p-53;
}

static void plan_stalls(struct sim *sim)
{
    double between_ns = sim->path->between_ns ? (double)sim->path->between_ns : BETWEEN_STALLS_NS;
    uint64_t now_ns = 0;

    for (size_t i = 0; i < STALLS && sim->path->stall_ns; i++) {
        now_ns += (uint64_t)(-log(1 - chance(sim)) * between_ns);
        sim->stalls[i].begin_ns = now_ns;
        now_ns += (uint64_t)(chance(sim) * (double)sim->path->stall_ns);
        sim->stalls[i].end_ns = now_ns;
    }
}

/* When this host, which may stall, can do what is due now. */
static uint64_t awake(const struct sim *sim, uint64_t due_ns)
{
    for (size_t i = 0; i < STALLS && sim->stalls[i].begin_ns <= due_ns; i++)
        if (due_ns < sim->stalls[i].end_ns)
            return sim->stalls[i].end_ns;
    return due_ns;
}

static void count_cross(const struct sim *sim, struct cross *cross, struct emu_link *link, uint64_t now_ns)
{
    struct emu_truth truth;

    emu_link_truth(link, now_ns, &truth);
    if (sim->train && sim->train == cross->train) {
        cross->ns += (double)(now_ns - cross->at_ns);
        cross->bytes += (double)(truth.cross_packets - cross->packets) * 1500;
    }
    cross->at_ns = now_ns;
    cross->packets = truth.cross_packets;
    cross->train = sim->train;
}

/* The peer answers a request at once, unless a link drops it. */
static void carry(struct sim *sim, uint64_t now_ns, const uint8_t *message, size_t len)
{
    uint32_t ip_bytes = (uint32_t)len + (sim->path->ipv6 ? 40 : 20);
    struct reply r = {.len = len, .sent_ns = now_ns};
    uint64_t there_ns, back_ns;

    if (sim->path->mtu_bytes && ip_bytes > sim->path->mtu_bytes)
        return;
    if (!emu_link_offer(&sim->there, now_ns, ip_bytes, &there_ns) ||
        !emu_link_offer(&sim->back, there_ns, ip_bytes, &back_ns))
        return;
    count_cross(sim, &sim->cross_there, &sim->there, now_ns);
    count_cross(sim, &sim->cross_back, &sim->back, there_ns);
    memcpy(r.bytes, message, sizeof r.bytes);
    r.bytes[0] = sim->path->ipv6 ? 129 : 0;
    r.stamp_ns = awake(sim, back_ns);
    insert_reply(sim, &r);
    if (sim->path->duplicate)
        insert_reply(sim, &r);
}

/* Sends all that is due; false when the measurement is over. */
static bool send_due(struct sim *sim, struct autobuf_probe *probe, uint64_t *now_ns,
                     struct sim_result *result)
{
    uint8_t message[1480];
    int len;

    while ((len = ab_schedule_next(ab_probe_schedule(probe), *now_ns, message, sizeof message)) > 0) {
        result->last_sent_ns = *now_ns;
        result->rtt_then_ns = sim->rtt_ns;
        if (!sim->small_len)
            sim->small_len = (size_t)len;
        sim->train = ab_probe_schedule(probe)->phase == AB_STRETCHES ? ab_probe_schedule(probe)->trains : 0;
        carry(sim, *now_ns, message, (size_t)len);
        *now_ns = awake(sim, *now_ns + sim->path->send_ns);
    }
    assert(len == 0 || len == -ETIME);
    return len == 0;
}

static void receive_due(struct sim *sim, struct autobuf_probe *probe, uint64_t now_ns)
{
    uint8_t message[1480] = {0};

    while (sim->head < sim->count && sim->replies[sim->head].stamp_ns <= now_ns) {
        const struct reply *r = &sim->replies[sim->head++];

        memcpy(message, r->bytes, sizeof r->bytes);
        if (r->len == sim->small_len && r->stamp_ns - r->sent_ns < sim->rtt_ns)
            sim->rtt_ns = r->stamp_ns - r->sent_ns;
        ab_schedule_reply(ab_probe_schedule(probe), r->stamp_ns, message, r->len);
    }
}

static void run(struct sim *sim, struct autobuf_probe *probe, struct sim_result *result)
{
    uint64_t now_ns = 0;

    while (send_due(sim, probe, &now_ns, result)) {
        uint64_t next_ns = autobuf_probe_deadline_ns(probe);

        if (sim->head < sim->count && sim->replies[sim->head].stamp_ns < next_ns)
            next_ns = sim->replies[sim->head].stamp_ns;
        now_ns = awake(sim, next_ns > now_ns ? next_ns : now_ns);
        receive_due(sim, probe, now_ns);
    }
    result->end_ns = now_ns;
}

struct sim_result sim_probe(const struct sim_path *path, const struct autobuf_probe_options *options)
{
    static const uint8_t token[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    struct sim_result result = {.path = AUTOBUF_PATH_INIT, .available = AUTOBUF_AVAILABLE_INIT};
    struct sim sim = {.path = path, .rtt_ns = UINT64_MAX, .random = path->seed * 0x9e3779b97f4a7c15ULL + 1};
    struct autobuf_probe *probe;
    int error = ab_probe_open_pure(&probe, path->ipv6 ? AF_INET6 : AF_INET, 1, token, 0,
                                        options);

    assert(error == 0);
    plan_stalls(&sim);
    emu_link_init(&sim.there, &path->there, 2 * path->seed + 1, 0);
    emu_link_init(&sim.back, &path->back, 2 * path->seed + 2, 0);
    sim.replies = calloc(2 * PACKETS, sizeof *sim.replies);
    assert(sim.replies);
    run(&sim, probe, &result);
    result.cross_there = sim.cross_there.bytes * 8e9 / sim.cross_there.ns;
    result.cross_back = sim.cross_back.bytes * 8e9 / sim.cross_back.ns;
    result.error = autobuf_probe_result(probe, &result.path);
    result.readings = autobuf_probe_rates(probe, NULL, 1); /* counts, and writes none */
    autobuf_probe_available(probe, &result.available);
    autobuf_probe_close(probe);
    emu_link_free(&sim.there);
    emu_link_free(&sim.back);
    free(sim.replies);
    return result;
}

/* SPDX-License-Identifier: MIT */
#include "sim_credit.h"

#include <assert.h>
#include <stdlib.h>

#define STEP_NS 500000ULL
#define PACKET_BYTES 1448.0
#define DELAY_STEPS_MAX 40000U /* of one way: 20 s */

/* Bytes in flight, by the step in which they arrive. */
struct wire {
    double *arriving;
    uint64_t delay; /* steps */
};

struct state {
    const struct sim_credit *sim;
    struct autobuf_rightsize *rs;
    struct wire there, back;
    uint64_t step;
    double credit, sent;        /* as the sender knows them: offsets */
    double cwnd, ssthresh, acked;
    double queued;
    double received, consumed, granted;
    uint64_t hold_until;        /* no further cut of the congestion window before this step */
};

static void wire_open(struct wire *w, uint64_t delay_ns)
{
    w->delay = delay_ns / STEP_NS ? delay_ns / STEP_NS : 1;
    assert(w->delay < DELAY_STEPS_MAX);
    w->arriving = calloc(DELAY_STEPS_MAX, sizeof *w->arriving);
    assert(w->arriving);
}

static void wire_put(struct wire *w, uint64_t step, double bytes)
{
    w->arriving[(step + w->delay) % DELAY_STEPS_MAX] += bytes;
}

static double wire_take(struct wire *w, uint64_t step)
{
    double bytes = w->arriving[step % DELAY_STEPS_MAX];

    w->arriving[step % DELAY_STEPS_MAX] = 0;
    return bytes;
}

static bool pauses(uint64_t now_ns, uint64_t pause_ns, uint64_t period_ns)
{
    return period_ns && now_ns % period_ns < pause_ns;
}

static double rate_at(const struct sim_credit *sim, uint64_t now_ns)
{
    return sim->change_ns && now_ns >= sim->change_ns ? sim->changed_byte_per_s
                                                      : sim->rate_byte_per_s;
}

static bool is_longer(const struct sim_credit *sim, uint64_t now_ns)
{
    return sim->longer_ns && now_ns >= sim->longer_ns;
}

static uint64_t rtt_at(const struct sim_credit *sim, uint64_t now_ns)
{
    return sim->rtt_ns + (is_longer(sim, now_ns) ? sim->longer_by_ns : 0);
}

static void lose(struct state *s, double bytes)
{
    s->queued -= bytes;
    s->sent -= bytes; /* retransmitted in its turn */
    if (s->step < s->hold_until)
        return;
    s->ssthresh = s->cwnd = s->cwnd / 2 > 2 * PACKET_BYTES ? s->cwnd / 2 : 2 * PACKET_BYTES;
    s->hold_until = s->step + s->there.delay + s->back.delay;
}

static void send_more(struct state *s, uint64_t now_ns)
{
    double limit = s->credit;

    if (pauses(now_ns, s->sim->sender_pause_ns, s->sim->sender_period_ns))
        return;
    if (s->sim->congestion_window && limit > s->acked + s->cwnd)
        limit = s->acked + s->cwnd;
    if (limit <= s->sent)
        return;
    s->queued += limit - s->sent;
    s->sent = limit;
    if (s->sim->queue_bytes > 0 && s->queued > s->sim->queue_bytes)
        lose(s, s->queued - s->sim->queue_bytes);
}

static void serve_link(struct state *s, double rate)
{
    double served = rate * (double)STEP_NS / 1e9;

    served = served < s->queued ? served : s->queued;
    s->queued -= served;
    wire_put(&s->there, s->step, served);
}

static void take_acks(struct state *s, double acked)
{
    s->acked += acked;
    if (s->cwnd < s->ssthresh)
        s->cwnd += acked;
    else
        s->cwnd += PACKET_BYTES * acked / s->cwnd;
}

/* The receiver: bytes that arrive, bytes that the reader consumes, credit. */
static void receive(struct state *s, uint64_t now_ns, double rate)
{
    const struct sim_credit *sim = s->sim;
    double came = wire_take(&s->there, s->step), ready;
    uint64_t before = (uint64_t)s->consumed, window;

    autobuf_rightsize_received(s->rs, now_ns, (uint64_t)(s->received + came) - (uint64_t)s->received);
    s->received += came;
    ready = s->received - s->consumed;
    if (sim->reader_byte_per_s > 0 && ready > sim->reader_byte_per_s * (double)STEP_NS / 1e9)
        ready = sim->reader_byte_per_s * (double)STEP_NS / 1e9;
    if (pauses(now_ns, sim->reader_pause_ns, sim->reader_period_ns))
        ready = 0;
    s->consumed += ready;
    if (sim->tell_rtt)
        autobuf_rightsize_rtt(s->rs, rtt_at(sim, now_ns) + (uint64_t)(s->queued / rate * 1e9));
    window = autobuf_rightsize_consumed(s->rs, now_ns, (uint64_t)s->consumed - before);
    if (sim->fixed)
        window = sim->window_bytes;
    if (s->consumed + (double)window > s->granted + PACKET_BYTES) {
        double more = s->consumed + (double)window - s->granted;

        autobuf_rightsize_granted(s->rs, now_ns, (uint64_t)more);
        s->granted += (double)(uint64_t)more;
    }
}

double sim_credit(const struct sim_credit *sim, sim_credit_fn *sample, void *user)
{
    struct autobuf_rightsize_options options = AUTOBUF_RIGHTSIZE_OPTIONS_INIT;
    struct autobuf_rightsize_state seen = AUTOBUF_RIGHTSIZE_STATE_INIT;
    struct state s = {.sim = sim, .cwnd = 10 * PACKET_BYTES, .ssthresh = 1e18};
    double acknowledged = 0, *credits = calloc(DELAY_STEPS_MAX, sizeof *credits);
    int error;

    options.window_bytes = sim->window_bytes;
    options.cap_bytes = sim->cap_bytes;
    error = autobuf_rightsize_open(&s.rs, &options);
    assert(error == 0 && credits);
    s.credit = s.granted = (double)sim->window_bytes;
    if (sim->tell_rtt)
        autobuf_rightsize_rtt(s.rs, sim->rtt_ns); /* of the handshake */
    wire_open(&s.there, sim->rtt_ns / 2);
    wire_open(&s.back, sim->rtt_ns - sim->rtt_ns / 2);
    for (; s.step * STEP_NS < sim->end_ns; s.step++) {
        uint64_t now_ns = 1 + s.step * STEP_NS;
        double rate = rate_at(sim, now_ns), back = wire_take(&s.back, s.step);

        if (is_longer(sim, now_ns))
            s.back.delay = (rtt_at(sim, now_ns) - sim->rtt_ns / 2) / STEP_NS;

        if (credits[s.step % DELAY_STEPS_MAX] > s.credit)
            s.credit = credits[s.step % DELAY_STEPS_MAX];
        take_acks(&s, back);
        send_more(&s, now_ns);
        serve_link(&s, rate);
        receive(&s, now_ns, rate);
        wire_put(&s.back, s.step, s.received - acknowledged);
        acknowledged = s.received;
        credits[(s.step + s.back.delay) % DELAY_STEPS_MAX] = s.granted;
        if (sim->gap_every_ns && now_ns / sim->gap_every_ns != (now_ns - STEP_NS) / sim->gap_every_ns)
            autobuf_rightsize_gap(s.rs, now_ns);
        autobuf_rightsize_state(s.rs, &seen);
        if (sample)
            sample(user, now_ns, &seen, s.consumed, s.sent - s.acked, s.queued);
    }
    autobuf_rightsize_close(s.rs);
    free(s.there.arriving);
    free(s.back.arriving);
    free(credits);
    return s.consumed;
}

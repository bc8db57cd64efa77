/* SPDX-License-Identifier: MIT */
/*
 * Scavengers and cubic flows that share a FIFO queue with tail drop, in virtual time. A scavenger that receives has a
 * cubic sender, and knows what TCP tells a receiver: by timestamps of a millisecond, of which each is used once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "live/judge.h"

#define STEP_NS 250000ULL
#define MSS 1448.0
#define FLOWS_MOST 2U
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FIRST_WINDOW 65536.0

/* A receiver's kernel averages the RTT, or, from 6.16 on, takes each lower one at once. */
enum kind { CUBIC, PACED, AVERAGES, LATCHES };
#define SCAVENGERS 3U

static const char *const names[] = {"cubic", "paced", "a window", "a window, Linux 6.16"};

struct flow {
    enum kind kind;
    double begin_s, end_s;
    double cwnd, ssthresh, w_max, epoch_s; /* of cubic, in packets */
    double cubic_s;
    double in_flight, acked, lost;
    double halved_s;
    double srtt_ns, min_ns;
    struct ab_scavenger scavenger;
    uint64_t next_ns;
    double before[2]; /* acknowledged at the samples before, */
    uint64_t before_ns[2];
    double part;    /* lost, of a packet */
    double unheard; /* acknowledged, of two packets */
    double clamp, window, edge; /* TCP_WINDOW_CLAMP, what is advertised, and up to where that lets the peer send */
    double room;    /* of the receive buffer */
    double read, most_read, round_s; /* in this round trip, in any, and when this one began */
    double stamp_ms;
    double advertised; /* rcv_wnd: by the last acknowledgement */
    double filled, filled_s; /* when so much has come, a window was filled, since then */
    unsigned higher;
    double mark[8]; /* acknowledged at the times that the case names */
};

struct step {
    double sent[FLOWS_MOST], left[FLOWS_MOST]; /* into the queue, and of that not served yet */
    double acked[FLOWS_MOST], lost[FLOWS_MOST]; /* news that come back in this step */
    double rtt_ns[FLOWS_MOST];
};

struct path {
    double byte_per_s, rtt_s, queue_bytes;
    double longer_s, longer_rtt_s; /* from then on */
    double marks_s[8];
    double end_s;
    struct flow flows[FLOWS_MOST];
    unsigned count;
    double queue_mean_s;      /* written */
};

/* How long cubic takes from a loss to the window that it had. */
static double cubic_time(double w_max)
{
    double k = w_max * 0.3 / 0.4, root = 1;

    for (int i = 0; i < 60; i++) /* its cube root */
        root -= (root * root * root - k) / (3 * root * root);
    return root;
}

static double cubic_window(const struct flow *f, double now_s)
{
    double t = now_s - f->epoch_s - f->cubic_s;

    return 0.4 * t * t * t + f->w_max;
}

static void run_cubic(struct flow *f, double acked, double lost, double now_s)
{
    double w;

    if (f->kind != CUBIC && f->in_flight + acked <= 0.8 * f->cwnd * MSS) /* it grows only while it limits */
        acked = 0;
    if (lost > 0 && now_s >= f->halved_s) {
        f->w_max = f->cwnd;
        f->cubic_s = cubic_time(f->w_max);
        f->cwnd = f->ssthresh = f->cwnd * 0.7;
        f->epoch_s = now_s;
        f->halved_s = now_s + f->srtt_ns / 1e9;
    }
    if (f->cwnd < f->ssthresh) {
        f->cwnd += acked / MSS;
        return;
    }
    w = cubic_window(f, now_s);
    if (w > f->cwnd)
        f->cwnd += (w - f->cwnd) / f->cwnd * acked / MSS;
    else
        f->cwnd += 0.53 * acked / MSS / f->cwnd; /* as Reno with this decrease */
}

/* A clamp closes the window at once, and lets it open. */
static void set_clamp(struct flow *f)
{
    double bytes = (double)ab_scavenger_window(&f->scavenger, (uint32_t)MSS);

    if (bytes <= 0)
        return;
    if (f->window > bytes)
        f->window = bytes;
    f->clamp = bytes;
}

/* What tcp_rcv_rtt_measure_ts() makes of an arrival. From 6.16 on a higher RTT counts only if all was read before. */
static void see_rtt(struct flow *f, double now_s, double rtt_ns)
{
    double now_ms = (double)(uint64_t)(now_s * 1e3), sent_ms = now_s * 1e3 - rtt_ns / 1e6;
    double stamp_ms = sent_ms > 0 ? (double)(uint64_t)sent_ms : 0;
    double sample_ns = (now_ms - stamp_ms) * 1e6;

    if (stamp_ms <= f->stamp_ms && f->srtt_ns > 0)
        return;
    f->stamp_ms = stamp_ms;
    if (sample_ns < 1e6)
        sample_ns = 1e6;
    if (f->srtt_ns <= 0 || (f->kind == LATCHES && sample_ns < f->srtt_ns))
        f->srtt_ns = sample_ns;
    else if (f->kind == AVERAGES || f->higher++ % 3)
        f->srtt_ns += (sample_ns - f->srtt_ns) / 8;
    f->min_ns = f->min_ns > 0 && f->min_ns < f->srtt_ns ? f->min_ns : f->srtt_ns;
}

/* tcp_rcv_rtt_measure(): the time in which a window was filled, if that is less. */
static void see_window_filled(struct flow *f, double now_s)
{
    if (f->acked < f->filled)
        return;
    if (f->filled > 0 && f->srtt_ns > (now_s - f->filled_s) * 1e9)
        f->srtt_ns = (now_s - f->filled_s) * 1e9;
    f->filled = f->acked + f->advertised;
    f->filled_s = now_s;
}

/*
 * Autotuning makes room, and moves the clamp with it, unless the buffer is locked, which it is while it has room for
 * the scavenger's window. The window opens by two packets with each that arrives.
 */
static void open_window(struct flow *f, double arrived, double now_s)
{
    double wanted = (double)ab_scavenger_window(&f->scavenger, (uint32_t)MSS);

    f->read += arrived;
    if (now_s >= f->round_s + f->srtt_ns / 1e9) {
        if (f->read > f->most_read && (wanted <= 0 || wanted > f->room) && 2 * f->read > f->room)
            f->clamp = f->room = 2 * f->read;
        f->most_read = f->read > f->most_read ? f->read : f->most_read;
        f->read = 0;
        f->round_s = now_s;
    }
    f->window = f->window + 2 * arrived < f->clamp ? f->window + 2 * arrived : f->clamp;
    if (f->edge < f->acked + f->window)
        f->edge = f->acked + f->window;
    f->advertised = f->edge - f->acked;
}

static void run_scavenger(struct flow *f, uint64_t now_ns)
{
    uint64_t wait_ns = (uint64_t)(f->srtt_ns / 2);
    struct ab_pace_sample sample = {
        .now_ns = now_ns, .rtt_ns = (uint64_t)f->srtt_ns, .rtt_min_ns = (uint64_t)f->min_ns,
        .moved_bytes = (uint64_t)f->acked, .lost = f->kind == PACED ? (uint64_t)(f->lost / MSS) : 0,
        .mss_bytes = (uint32_t)MSS, .receives = f->kind != PACED,
    };
    const char *why;

    if (now_ns < f->next_ns)
        return;
    if (now_ns > f->before_ns[1])
        sample.acked_byte_per_s = (uint64_t)((f->acked - f->before[1]) * 1e9 / (double)(now_ns - f->before_ns[1]));
    f->before[1] = f->before[0];
    f->before_ns[1] = f->before_ns[0];
    f->before[0] = f->acked;
    f->before_ns[0] = now_ns;
    if (f->min_ns > 0)
        ab_scavenger_sample(&f->scavenger, &sample, &why);
    if (sample.receives)
        set_clamp(f);
    f->next_ns = now_ns + (wait_ns > 10000000 ? wait_ns : 10000000);
}

/* What a flow sends in a step. */
static double may_send(struct flow *f, double now_s, double step_s)
{
    double room = f->cwnd * MSS - f->in_flight;

    if (now_s < f->begin_s || now_s >= f->end_s)
        return 0;
    if (f->kind > PACED && room > f->edge - f->acked - f->in_flight)
        room = f->edge - f->acked - f->in_flight;
    if (f->kind == PACED && f->scavenger.byte_per_s && room > (double)f->scavenger.byte_per_s * step_s)
        room = (double)f->scavenger.byte_per_s * step_s;
    return room > 0 ? room : 0;
}

static void take_news(struct flow *f, const struct step *now, unsigned i, double now_s)
{
    double acks, lost = 0;

    f->in_flight -= now->acked[i] + now->lost[i];
    f->acked += now->acked[i];
    f->part += now->lost[i];
    while (f->part >= MSS) {
        f->part -= MSS;
        f->lost += MSS;
        lost += MSS;
    }
    f->unheard += now->acked[i] / MSS / 2;
    acks = (double)(unsigned)f->unheard;
    f->unheard -= acks;
    if (acks > 0 && f->kind > PACED) {
        see_rtt(f, now_s, now->rtt_ns[i]);
        see_window_filled(f, now_s);
        open_window(f, 2 * acks * MSS, now_s);
    } else if (acks > 0) {
        f->srtt_ns += f->srtt_ns > 0 ? (now->rtt_ns[i] - f->srtt_ns) / (1 + 8 / acks) : now->rtt_ns[i];
        f->min_ns = f->min_ns > 0 && f->min_ns < now->rtt_ns[i] ? f->min_ns : now->rtt_ns[i];
    }
    run_cubic(f, now->acked[i], lost, now_s);
    if (f->kind != CUBIC)
        run_scavenger(f, (uint64_t)(now_s * 1e9));
}

static void run(struct path *p)
{
    double step_s = (double)STEP_NS / 1e9, queue = 0, all = 0;
    size_t count = (size_t)((p->end_s + 4 * (p->rtt_s + p->longer_rtt_s) + 10) / step_s), head = 0;
    struct step *steps = calloc(count, sizeof *steps);

    assert_non_null(steps);
    for (size_t n = 0; (double)n * step_s < p->end_s; n++) {
        double now_s = (double)n * step_s, room = p->byte_per_s * step_s, wants = 0, kept = 1;
        double rtt_s = p->longer_s > 0 && now_s >= p->longer_s ? p->longer_rtt_s : p->rtt_s;
        size_t back = n + (size_t)(rtt_s / step_s);

        for (unsigned i = 0; i < p->count; i++) {
            take_news(&p->flows[i], &steps[n], i, now_s);
            wants += steps[n].sent[i] = may_send(&p->flows[i], now_s, step_s);
            for (unsigned m = 0; m < COUNT(p->marks_s); m++)
                if (now_s <= p->marks_s[m])
                    p->flows[i].mark[m] = p->flows[i].acked;
        }
        if (queue + wants > p->queue_bytes + room)
            kept = (p->queue_bytes + room - queue) / wants;
        for (unsigned i = 0; i < p->count; i++) {
            double in = steps[n].sent[i] * (kept > 0 ? kept : 0);

            p->flows[i].in_flight += steps[n].sent[i];
            steps[back + 1].lost[i] += steps[n].sent[i] - in;
            steps[n].left[i] = in;
            queue += in;
        }
        all += queue / p->byte_per_s;
        while (room > 1e-6 && head <= n) {
            double left = 0, part;

            for (unsigned i = 0; i < p->count; i++)
                left += steps[head].left[i];
            part = left > room ? room / left : 1;
            for (unsigned i = 0; i < p->count; i++) {
                double out = steps[head].left[i] * part;

                steps[back + 1].acked[i] += out;
                if (out > 0)
                    steps[back + 1].rtt_ns[i] = rtt_s * 1e9 + (double)((n - head) * STEP_NS);
                steps[head].left[i] -= out;
                queue -= out;
            }
            room -= left * part;
            if (part < 1)
                break;
            head++;
        }
    }
    p->queue_mean_s = all * step_s / p->end_s;
    free(steps);
}

static struct path path_of(double mbit, double rtt_ms, double bdps, double end_s)
{
    struct path p = {.byte_per_s = mbit * 125000 * 1448 / 1514, .rtt_s = rtt_ms / 1e3, .end_s = end_s};

    p.queue_bytes = p.byte_per_s * p.rtt_s * bdps;
    if (p.queue_bytes < 20 * MSS)
        p.queue_bytes = 20 * MSS;
    return p;
}

static void add(struct path *p, enum kind kind, double begin_s, double end_s)
{
    p->flows[p->count++] = (struct flow){.kind = kind, .begin_s = begin_s, .end_s = end_s,
                                         .cwnd = 10, .ssthresh = 1e9,
                                         .room = FIRST_WINDOW, .clamp = FIRST_WINDOW, .window = FIRST_WINDOW,
                                         .edge = FIRST_WINDOW, .advertised = FIRST_WINDOW};
}

/* Of the path, between two marks. */
static double share(const struct path *p, unsigned flow, unsigned from)
{
    return (p->flows[flow].mark[from + 1] - p->flows[flow].mark[from]) / (p->marks_s[from + 1] - p->marks_s[from]) /
           p->byte_per_s;
}

static void at_least(const char *name, enum kind kind, const double of[3], double got, double least)
{
    if (got < least)
        fail_msg("%s, %s, %g Mbit/s x %g ms, a queue of %g BDP: %.3f", name, names[kind], of[0], of[1], of[2], got);
}

static void alone_it_has_the_path(void **state)
{
    static const double paths[][3] = {{100, 40, 1}, {10, 20, 1},   {400, 100, 1}, {1000, 5, 2},
                                      {10, 2, 4},   {50, 200, 0.5}, {100, 40, 8}};

    (void)state;
    for (size_t i = 0; i < SCAVENGERS * COUNT(paths); i++) {
        const double *of = paths[i / SCAVENGERS];
        struct path p = path_of(of[0], of[1], of[2], 30);
        enum kind kind = PACED + i % SCAVENGERS;

        p.marks_s[0] = 5, p.marks_s[1] = 30;
        add(&p, kind, 0, 30);
        run(&p);
        at_least("alone", kind, of, share(&p, 0, 0), kind == PACED ? 0.95 : 0.87);
        assert_true(p.queue_mean_s < (kind == PACED ? 0.01 : 0.015));
    }
}

/*
 * A cubic flow that comes, and one that is there already; and what it has 2 s after that ends. One that receives is
 * asked 12 s after it: the peer's own congestion window, which losses have closed, has to open again.
 */
static void it_yields_to_cubic(void **state)
{
    static const struct {
        double of[3], beside, beside_window, after;
    } rows[] = {
        {{100, 40, 1}, 0.95, 0.95, 0.9},   {{100, 40, 2}, 0.95, 0.95, 0.9},   {{100, 40, 0.3}, 0.7, 0.7, 0.9},
        {{10, 20, 2}, 0.95, 0.9, 0.45}, {{400, 100, 1}, 0.95, 0.95, 0.45}, {{1000, 5, 2}, 0.9, 0.95, 0.9},
    };

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        const double *of = rows[i / 2].of;
        struct path alone = path_of(of[0], of[1], of[2], 40);

        alone.marks_s[0] = 14, alone.marks_s[1] = 38;
        add(&alone, CUBIC, 10, 40);
        run(&alone);
        for (enum kind kind = PACED; kind <= LATCHES; kind++) {
            struct path p = path_of(of[0], of[1], of[2], 55);

            p.marks_s[0] = 14, p.marks_s[1] = 38;
            p.marks_s[2] = kind == PACED ? 40 : 50, p.marks_s[3] = p.marks_s[2] + 4;
            p.end_s = p.marks_s[3] + 1;
            add(&p, CUBIC, i % 2 ? 0 : 10, 38);
            add(&p, kind, i % 2 ? 5 : 0, 55);
            run(&p);
            at_least("cubic beside it", kind, of, share(&p, 0, 0) / share(&alone, 0, 0),
                     kind == PACED ? rows[i / 2].beside : rows[i / 2].beside_window);
            at_least("after cubic", kind, of, share(&p, 1, 2), kind == PACED ? rows[i / 2].after : 0.5);
        }
    }
}

static double jain(double a, double b)
{
    return (a + b) * (a + b) / 2 / (a * a + b * b);
}

/* The second comes 7 s later, the first ends at 50 s. */
static void two_share(void **state)
{
    static const struct {
        double of[3], jain;
    } rows[] = {
        {{100, 40, 1}, 0.9}, {{10, 20, 1}, 0.9}, {{1000, 5, 2}, 0.9}, {{100, 40, 8}, 0.9}, {{400, 100, 1}, 0.65},
    };

    (void)state;
    for (size_t i = 0; i < SCAVENGERS * COUNT(rows); i++) {
        const double *of = rows[i / SCAVENGERS].of;
        struct path p = path_of(of[0], of[1], of[2], 65);
        enum kind kind = PACED + i % SCAVENGERS;
        bool paced = kind == PACED;

        p.marks_s[0] = 15, p.marks_s[1] = 35, p.marks_s[2] = 52, p.marks_s[3] = 60;
        add(&p, kind, 0, 50);
        add(&p, kind, 7, 65);
        run(&p);
        at_least("Jain's index", kind, of, jain(share(&p, 0, 0), share(&p, 1, 0)),
                 paced ? rows[i / SCAVENGERS].jain : 0.8);
        at_least("both", kind, of, share(&p, 0, 0) + share(&p, 1, 0), paced ? 0.9 : 0.85);
        at_least("the second, alone again", kind, of, share(&p, 1, 2), paced ? 0.9 : 0.6);
    }
}

/* From 40 to 60 ms after 20 s: a queue of somebody else's, for all that it knows, until the minimum is forgotten. */
static void a_longer_path_is_known_within_40_s(void **state)
{
    static const double of[3] = {100, 40, 1};

    (void)state;
    for (enum kind kind = PACED; kind <= LATCHES; kind++) {
        struct path p = path_of(of[0], of[1], of[2], 90);

        p.longer_s = 20;
        p.longer_rtt_s = 0.06;
        p.marks_s[0] = 62, p.marks_s[1] = 90;
        add(&p, kind, 0, 90);
        run(&p);
        at_least("a longer path", kind, of, share(&p, 0, 0), 0.9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_has_the_path),
        cmocka_unit_test(it_yields_to_cubic),
        cmocka_unit_test(two_share),
        cmocka_unit_test(a_longer_path_is_known_within_40_s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

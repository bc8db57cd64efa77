/* SPDX-License-Identifier: MIT */
#include "sim_inband.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MSS 1448U
#define HEADER 52U
#define SEGMENTS 4096U
#define FIRST_WINDOW 10U
#define NS_PER_S 1000000000ULL
#define STEPS_MOST 100000U

struct segment {
    uint64_t stamp_ns; /* when it arrived */
    uint64_t ready_ns; /* and when it could be read */
    size_t len, taken;
    uint8_t *bytes;
};

/* One end, and the segments in flight to it. */
struct end {
    struct autobuf_inband *inband;
    struct emu_link link;
    struct segment queue[SEGMENTS];
    size_t head, count;
    uint64_t arrived_bytes;
    uint64_t cut_bytes;
    uint64_t sent_bytes;
    uint32_t window; /* segments that may leave at once */
};

struct exchange {
    const struct sim_stream_path *path;
    struct end ends[2]; /* initiator, responder */
    uint64_t now_ns, rtt_ns;
};

static uint64_t pace_bit_per_s(const struct exchange *x, const struct end *from)
{
    double window_bits = 8.0 * from->window * MSS;

    return (uint64_t)(x->path->pace_gain * window_bits * (double)NS_PER_S / (double)x->rtt_ns);
}

/* When the i-th segment of a write leaves its host. */
static uint64_t leaves_ns(const struct exchange *x, const struct end *from, size_t i)
{
    uint64_t pace = pace_bit_per_s(x, from);

    if (pace)
        return x->now_ns + i / 2 * 2 * (8 * MSS * NS_PER_S / pace) + i % 2 * x->path->send_ns;
    return x->now_ns + i / from->window * x->rtt_ns + i * x->path->send_ns;
}

/* Sends a segment; false: it is lost. */
static bool offer(struct end *to, struct segment *s, uint64_t leave_ns)
{
    return emu_link_offer(&to->link, leave_ns, (uint32_t)s->len + HEADER, &s->stamp_ns);
}

/* Sends the segments of a write, then the lost ones again. Segments behind a hole wait for it. */
static void carry(struct exchange *x, const struct end *from, struct end *to, const uint8_t *bytes,
                  size_t len)
{
    struct segment *first = &to->queue[to->count];
    uint64_t ready_ns = to->count ? first[-1].ready_ns : 0, again_ns = 0;
    size_t count = (len + MSS - 1) / MSS;

    assert(to->count + count <= SEGMENTS);
    to->count += count;
    for (size_t i = 0; i < count; i++) {
        struct segment *s = &first[i];

        s->len = i + 1 < count ? MSS : len - i * MSS;
        s->bytes = malloc(s->len);
        assert(s->bytes);
        memcpy(s->bytes, bytes + i * MSS, s->len);
        again_ns = leaves_ns(x, from, i) + x->rtt_ns;
        if (!offer(to, s, leaves_ns(x, from, i)))
            s->stamp_ns = 0;
    }
    for (size_t i = 0; i < count; i++) {
        for (; first[i].stamp_ns == 0; again_ns += x->rtt_ns)
            if (!offer(to, &first[i], again_ns))
                first[i].stamp_ns = 0;
        ready_ns = first[i].stamp_ns > ready_ns ? first[i].stamp_ns : ready_ns;
        first[i].ready_ns = ready_ns;
    }
}

static void tell_facts(struct exchange *x, struct end *e)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;

    facts.train_bytes = x->path->window_untold ? 0 : (uint64_t)e->window * MSS;
    facts.pace_bit_per_s = pace_bit_per_s(x, e);
    facts.flags = facts.pace_bit_per_s && !x->path->pace_unsaid ? AUTOBUF_INBAND_PACED : 0;
    assert(autobuf_inband_tell(e->inband, &facts) == 0);
}

static void send_from(struct exchange *x, struct end *from, struct end *to)
{
    const void *data;
    size_t len = autobuf_inband_output(from->inband, x->now_ns, &data);

    if (len == 0)
        return;
    carry(x, from, to, data, len);
    from->sent_bytes += len + (len + MSS - 1) / MSS * HEADER;
    if (len / MSS + 1 >= from->window / 2)
        from->window *= 2;
    autobuf_inband_sent(from->inband, x->now_ns, len);
}

static void cut(struct exchange *x)
{
    for (unsigned i = 0; i < 2; i++) {
        autobuf_inband_input(x->ends[i].inband, x->now_ns, "", 0);
        x->ends[i].head = x->ends[i].count;
    }
}

/* Passes an end what it wants of its next segment. false: it wants nothing, or the connection is cut. */
static bool deliver(struct exchange *x, struct end *e)
{
    struct segment *s = &e->queue[e->head];
    size_t wanted, part = s->len - s->taken;
    int64_t took;

    tell_facts(x, e);
    wanted = autobuf_inband_wanted(e->inband);
    part = part < wanted ? part : wanted;
    part = part < e->cut_bytes - e->arrived_bytes ? part : (size_t)(e->cut_bytes - e->arrived_bytes);
    if (part == 0 && e->arrived_bytes < e->cut_bytes)
        return false;
    took = part ? autobuf_inband_input(e->inband, s->stamp_ns, s->bytes + s->taken, part) : 0;
    if (took >= 0) {
        s->taken += (size_t)took;
        e->arrived_bytes += (uint64_t)took;
    }
    if (e->arrived_bytes == e->cut_bytes) {
        cut(x);
        return false;
    }
    if (took < 0 || s->taken == s->len)
        e->head++;
    return took >= 0;
}

/* The end that the next segment reaches; NULL: none is in flight. */
static struct end *next_end(struct exchange *x)
{
    struct end *next = NULL;

    for (unsigned i = 0; i < 2; i++) {
        struct end *e = &x->ends[i];

        if (e->head < e->count &&
            (!next || e->queue[e->head].ready_ns < next->queue[next->head].ready_ns))
            next = e;
    }
    return next;
}

static void run_exchange(struct exchange *x)
{
    struct end *next;

    tell_facts(x, &x->ends[0]);
    for (unsigned step = 0;; step++) {
        assert(step < STEPS_MOST);
        send_from(x, &x->ends[0], &x->ends[1]);
        send_from(x, &x->ends[1], &x->ends[0]);
        next = next_end(x);
        if (!next || autobuf_inband_finished(x->ends[0].inband))
            break;
        if (next->queue[next->head].ready_ns > x->now_ns)
            x->now_ns = next->queue[next->head].ready_ns;
        deliver(x, next);
    }
}

static void end_result(const struct end *e, struct sim_stream_end *out)
{
    out->path = (struct autobuf_path)AUTOBUF_PATH_INIT;
    out->state = autobuf_inband_finished(e->inband);
    out->result = autobuf_inband_result(e->inband, &out->path);
    out->sent_bytes = e->sent_bytes;
}

struct sim_stream_result sim_inband(const struct sim_stream_path *path,
                                    const struct autobuf_inband_options *options,
                                    uint64_t cut_there, uint64_t cut_back, uint64_t *there_bytes,
                                    uint64_t *back_bytes)
{
    struct exchange *x = calloc(1, sizeof *x);
    struct sim_stream_result result;

    assert(x);
    x->path = path;
    x->rtt_ns = path->there.delay_ns + path->back.delay_ns + 1;
    for (unsigned i = 0; i < 2; i++) {
        struct end *e = &x->ends[i];

        assert(autobuf_inband_open_pure(&e->inband, i + 1, 0, options) == 0);
        emu_link_init(&e->link, i ? &path->there : &path->back, 2 * path->seed + i + 1, 0);
        e->cut_bytes = i ? cut_there : cut_back;
        e->window = FIRST_WINDOW;
    }
    run_exchange(x);
    end_result(&x->ends[0], &result.initiator);
    end_result(&x->ends[1], &result.responder);
    result.elapsed_ns = x->now_ns;
    if (there_bytes)
        *there_bytes = x->ends[1].arrived_bytes;
    if (back_bytes)
        *back_bytes = x->ends[0].arrived_bytes;
    for (unsigned i = 0; i < 2; i++) {
        for (size_t k = 0; k < x->ends[i].count; k++)
            free(x->ends[i].queue[k].bytes);
        autobuf_inband_close(x->ends[i].inband);
        emu_link_free(&x->ends[i].link);
    }
    free(x);
    return result;
}

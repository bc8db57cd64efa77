#include "emu_link.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000u
#define CROSS_SIZE_BYTES 1500u
#define GAP_MAX_NS 1e15 /* between two packets of cross traffic: 11 days, safely an integer */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* splitmix64 (Steele, Lea, Flood 2014): one word of state, any seed is a good one. */
static uint64_t rng_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1). */
static double rng_unit(struct emu_link *l, enum emu_rng which)
{
    return (double)(rng_next(&l->rng[which]) >> 11) * 0x1.0p-53;
}

static int chance(struct emu_link *l, enum emu_rng which, double probability)
{
    return probability > 0.0 && rng_unit(l, which) < probability;
}

static uint64_t serialise_ns(uint64_t bytes, uint64_t rate)
{
    emu_wide ns = rate ? (emu_wide)bytes * 8 * NS_PER_S / rate : 0;

    return ns > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)ns;
}

/* Serialise bytes, starting when the clock is free but not before from_ns. */
static void clock_run(struct emu_clock *c, uint64_t from_ns, uint32_t bytes, uint64_t rate)
{
    uint64_t num;

    if (c->ns < from_ns) {
        c->ns = from_ns;
        c->rem = 0;
    }
    if (rate == 0)
        return;
    num = (uint64_t)bytes * 8 * NS_PER_S + c->rem;
    c->ns += num / rate;
    c->rem = num % rate;
}

static int waiting_push(struct emu_link *l, uint64_t depart_ns, uint32_t len)
{
    size_t mask;

    if (l->waiting_count == l->waiting_size) {
        size_t i, size = l->waiting_size ? 2 * l->waiting_size : 256;
        struct emu_waiting *grown = malloc(size * sizeof(*grown));

        if (!grown)
            return 0;
        for (i = 0; i < l->waiting_count; i++)
            grown[i] = l->waiting[(l->waiting_head + i) & (l->waiting_size - 1)];
        free(l->waiting);
        l->waiting = grown;
        l->waiting_size = size;
        l->waiting_head = 0;
    }
    mask = l->waiting_size - 1;
    l->waiting[(l->waiting_head + l->waiting_count) & mask] =
        (struct emu_waiting){.depart_ns = depart_ns, .len_bytes = len};
    l->waiting_count++;
    l->queued_bytes += len;
    if (l->queued_bytes > l->truth.queue_max_bytes)
        l->truth.queue_max_bytes = l->queued_bytes;
    return 1;
}

static void pass_time(struct emu_link *l, uint64_t until_ns)
{
    if (until_ns <= l->now_ns)
        return;
    l->queue_area += (emu_wide)l->queued_bytes * (until_ns - l->now_ns);
    l->now_ns = until_ns;
}

/* Let go of what has left the serialiser by now_ns. */
static void settle(struct emu_link *l, uint64_t now_ns)
{
    while (l->waiting_count > 0) {
        const struct emu_waiting *w = &l->waiting[l->waiting_head];

        if (w->depart_ns > now_ns)
            break;
        pass_time(l, w->depart_ns);
        l->queued_bytes -= w->len_bytes;
        l->waiting_head = (l->waiting_head + 1) & (l->waiting_size - 1);
        l->waiting_count--;
    }
    pass_time(l, now_ns);
}

/*
 * Into the queue at l->now_ns; sets l->depart_ns. The bucket is kept as the time at which its
 * debt would be earned: a packet may leave once that is less than a bucketful ahead, so it needs no
 * tokens counted, and without a bucket it is the ordinary serialiser. While a burst passes, tokens
 * still come in: burst * peak / (peak - rate) bytes pass at the peak rate.
 */
static int enqueue(struct emu_link *l, uint32_t len)
{
    const struct emu_params *p = &l->params;
    struct emu_clock wire = l->wire, bucket = l->bucket;
    uint64_t depart_ns;

    if (p->rate_bit_per_s == 0) {
        l->depart_ns = l->now_ns;
        return 1;
    }
    if (p->queue_bytes && l->queued_bytes + len > p->queue_bytes)
        return 0;
    clock_run(&bucket, l->now_ns, len, p->rate_bit_per_s);
    clock_run(&wire, l->now_ns, len, p->peak_bit_per_s);
    depart_ns = bucket.ns > l->bucket_ns ? bucket.ns - l->bucket_ns : 0;
    if (depart_ns > wire.ns) {
        wire.ns = depart_ns;
        wire.rem = 0;
    }
    if (!waiting_push(l, wire.ns, len))
        return 0;
    l->wire = wire;
    l->bucket = bucket;
    l->depart_ns = wire.ns;
    return 1;
}

static int cross_on(const struct emu_link *l)
{
    return l->params.cross > 0.0 && l->params.rate_bit_per_s > 0;
}

static uint32_t cross_size(const struct emu_link *l)
{
    return l->params.cross_size_bytes ? l->params.cross_size_bytes : CROSS_SIZE_BYTES;
}

static void cross_schedule(struct emu_link *l, uint64_t from_ns)
{
    double gap_ns = (double)cross_size(l) * 8.0 * (double)NS_PER_S /
                    (l->params.cross * (double)l->params.rate_bit_per_s);

    if (!l->params.cross_constant)
        gap_ns *= -log(1.0 - rng_unit(l, EMU_RNG_CROSS));
    gap_ns = fmin(gap_ns + l->cross_fraction_ns, GAP_MAX_NS);
    l->cross_next_ns = from_ns + (uint64_t)gap_ns;
    l->cross_fraction_ns = gap_ns - floor(gap_ns);
}

void emu_link_advance(struct emu_link *l, uint64_t now_ns)
{
    while (cross_on(l) && l->cross_next_ns <= now_ns) {
        settle(l, l->cross_next_ns);
        l->truth.cross_packets++;
        if (!enqueue(l, cross_size(l)))
            l->truth.cross_drops++;
        cross_schedule(l, l->cross_next_ns);
    }
    settle(l, now_ns);
}

/* When a packet that has arrived is passed on; the order is kept. */
static uint64_t passed_on(struct emu_link *l, uint64_t at_ns)
{
    const struct emu_params *p = &l->params;

    if (p->wake_ns || p->forward_ns) {
        uint64_t begin_ns = l->forwarded_ns;

        if (at_ns > begin_ns) /* it slept */
            begin_ns = at_ns + (uint64_t)(-log(1.0 - rng_unit(l, EMU_RNG_WAKE)) * (double)p->wake_ns);
        at_ns = l->forwarded_ns = begin_ns + p->forward_ns;
    }
    if (p->stall_every_ns && at_ns % p->stall_every_ns < p->stall_ns)
        at_ns += p->stall_ns - at_ns % p->stall_every_ns;
    return p->batch_ns ? (at_ns + p->batch_ns - 1) / p->batch_ns * p->batch_ns : at_ns;
}

static uint64_t deliver_at(struct emu_link *l)
{
    const struct emu_params *p = &l->params;
    uint64_t at_ns = l->depart_ns + p->delay_ns;

    if (p->jitter_ns)
        at_ns += (uint64_t)(rng_unit(l, EMU_RNG_JITTER) * ((double)p->jitter_ns + 1.0));
    at_ns = later(at_ns, l->last_deliver_ns);
    l->held = chance(l, EMU_RNG_REORDER, p->reorder);
    if (l->held)
        return passed_on(l, at_ns) + p->reorder_by_ns;
    l->last_depart_ns = l->depart_ns;
    l->last_deliver_ns = at_ns;
    return passed_on(l, at_ns);
}

int emu_link_offer(struct emu_link *l, uint64_t now_ns, uint32_t len_bytes, uint64_t *deliver_ns)
{
    emu_link_advance(l, now_ns);
    l->truth.packets++;
    l->truth.bytes += len_bytes;
    if (!enqueue(l, len_bytes)) {
        l->truth.drops_queue++;
        return 0;
    }
    if (chance(l, EMU_RNG_LOSS, l->params.loss)) {
        l->truth.drops_loss++;
        return 0;
    }
    *deliver_ns = deliver_at(l);
    l->truth.delivered_packets++;
    l->truth.delivered_bytes += len_bytes;
    return 1;
}

static void apply(struct emu_link *l, const struct emu_params *p)
{
    int cross_same = p->cross == l->params.cross &&
                     p->cross_size_bytes == l->params.cross_size_bytes &&
                     p->cross_constant == l->params.cross_constant &&
                     p->rate_bit_per_s == l->params.rate_bit_per_s;

    l->params = *p;
    l->bucket_ns = serialise_ns(p->burst_bytes, p->rate_bit_per_s);
    if (!cross_same && cross_on(l)) {
        l->cross_fraction_ns = 0.0;
        cross_schedule(l, l->now_ns);
    }
}

void emu_link_init(struct emu_link *l, const struct emu_params *p, uint64_t seed, uint64_t now_ns)
{
    int i;

    memset(l, 0, sizeof(*l));
    for (i = 0; i < EMU_RNG_COUNT; i++)
        l->rng[i] = rng_next(&seed);
    l->now_ns = now_ns;
    l->since_ns = now_ns;
    apply(l, p);
}

void emu_link_free(struct emu_link *l)
{
    free(l->waiting);
    l->waiting = NULL;
    l->waiting_size = 0;
    l->waiting_count = 0;
}

/*
 * A serialiser with work waiting is busy without a gap, so the work ahead of a departure is
 * (departure - now) x rate, whatever the packets are; at another rate that takes
 * proportionally longer. (With a bucket that is not empty this is an approximation.)
 */
uint64_t emu_link_retime(const struct emu_link *l, uint64_t depart_ns)
{
    emu_wide ahead;

    if (depart_ns <= l->changed_ns || l->old_rate_bit_per_s == l->new_rate_bit_per_s)
        return depart_ns;
    if (l->new_rate_bit_per_s == 0)
        return l->changed_ns;
    ahead = (emu_wide)(depart_ns - l->changed_ns) * l->old_rate_bit_per_s / l->new_rate_bit_per_s;
    if (ahead > UINT64_MAX / 2)
        ahead = UINT64_MAX / 2;
    return l->changed_ns + (uint64_t)ahead;
}

void emu_link_set(struct emu_link *l, const struct emu_params *p, uint64_t now_ns)
{
    uint64_t way_ns = l->last_deliver_ns - l->last_depart_ns;
    size_t i;

    emu_link_advance(l, now_ns);
    l->changed_ns = l->now_ns;
    l->old_rate_bit_per_s = l->params.rate_bit_per_s;
    l->new_rate_bit_per_s = p->rate_bit_per_s;
    for (i = 0; i < l->waiting_count; i++) {
        struct emu_waiting *w = &l->waiting[(l->waiting_head + i) & (l->waiting_size - 1)];

        w->depart_ns = emu_link_retime(l, w->depart_ns);
    }
    l->wire.ns = emu_link_retime(l, l->wire.ns);
    l->bucket.ns = emu_link_retime(l, l->bucket.ns);
    /* Remainders are in parts of the old rate; dropping one is less than a nanosecond. */
    l->wire.rem = 0;
    l->bucket.rem = 0;
    l->last_depart_ns = emu_link_retime(l, l->last_depart_ns);
    l->last_deliver_ns = l->last_depart_ns + way_ns;
    apply(l, p);
}

uint64_t emu_link_queued_bytes(struct emu_link *l, uint64_t now_ns)
{
    emu_link_advance(l, now_ns);
    return l->queued_bytes;
}

void emu_link_truth(struct emu_link *l, uint64_t now_ns, struct emu_truth *out)
{
    emu_link_advance(l, now_ns);
    *out = l->truth;
    out->counted_ns = l->now_ns > l->since_ns ? l->now_ns - l->since_ns : 0;
    out->queue_mean_bytes = out->counted_ns ? (uint64_t)(l->queue_area / out->counted_ns) : 0;
}

void emu_link_reset(struct emu_link *l, uint64_t now_ns)
{
    emu_link_advance(l, now_ns);
    memset(&l->truth, 0, sizeof(l->truth));
    l->truth.queue_max_bytes = l->queued_bytes;
    l->queue_area = 0;
    l->since_ns = l->now_ns;
}

/* SPDX-License-Identifier: MIT */
#include "learn.h"

#include <string.h>

#include "../../lib/base/base.h"

#define HELD_ROUNDS 8U
#define HELD_NS 200000000ULL      /* at least; shorter ones would time the host's own scheduling */
#define HELD_SAMPLES 4U           /* at least: a busy daemon comes by less often */
#define COUNTING_PERCENT 75U      /* of a stretch's samples */
#define BULK_PERCENT 50U          /* of the time in which it carried the bulk */
#define BULK_BYTES 1048576U
#define NEAR_NS 1000000U          /* a path so short needs no window that autotuning does not give */
#define LIMITED_PERCENT 25U /* of the time that it was busy, the peer's window or the buffer may have held it back */
#define NEAR_PACE_PERCENT 80U     /* of a pace: from there on it may be what limits */
#define NEAR_OURS_PERCENT 90U     /* of the library's, which is 1.19 times the rate that it sees, or more */
/* of what was received, in a stretch and in all: packets that came, some twice, some behind a gap */
#define COUNTED_PERCENT 150U
#define QUEUE_PERCENT 5U          /* of the minimum RTT is a queue; as in judge.c of the library */
#define QUEUE_DEVIATIONS 2U       /* but not up to so many mean deviations; likewise */
#define V4_HEADERS 52U            /* with the timestamp option */
#define V6_HEADERS 72U
#define PACKET_BYTES 1500U        /* unless the kernel has said */
#define PACKET_MOST 65535U        /* the store takes no more; over loopback IPv6 has packets of 65,536 */
#define RATE_MOST 1000000000000000ULL /* bit/s; the store takes no more */

static uint64_t per_second(uint64_t bytes, uint64_t ns)
{
    double rate = ns ? (double)bytes * (double)AB_NS_PER_S / (double)ns : 0;

    return rate < (double)RATE_MOST / 8 ? (uint64_t)rate : RATE_MOST / 8;
}

static uint64_t bdp(uint64_t bit_per_s, uint64_t ns)
{
    return (uint64_t)((double)bit_per_s * (double)ns / (8.0 * (double)AB_NS_PER_S));
}

/* --------------------------------------------------------------------------------- samples */

/* A program, or an earlier rule, may have bounded it: then the path is not what limits. */
static bool comes_near(uint64_t bit_per_s, uint64_t pace_byte_per_s, uint64_t percent)
{
    return pace_byte_per_s && pace_byte_per_s != UINT64_MAX && bit_per_s / 8 >= pace_byte_per_s / 100 * percent;
}

/* Bursts make the RTT vary as much as they make it longer. */
static bool queue_stands(const struct autobuf_live_state *state, const struct ab_tcpinfo *seen)
{
    uint64_t least_ns = ab_max(ab_percent(state->rtt_min_ns, QUEUE_PERCENT), QUEUE_DEVIATIONS * seen->rtt_deviation_ns);

    return state->rtt_ns > state->rtt_min_ns && state->rtt_ns - state->rtt_min_ns > least_ns;
}

/* A buffer that is full while a queue stands limits no more than the path does. */
static bool path_limits(const struct autobuf_live_state *state, const struct ab_tcpinfo *seen)
{
    return state->bottleneck == AUTOBUF_BOTTLENECK_PATH ||
           (state->bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER && queue_stands(state, seen));
}

static bool counts(const struct autobuf_live_state *state, const struct ab_tcpinfo *seen, enum learn_way way)
{
    uint64_t pace_byte_per_s = seen->max_pacing_byte_per_s;
    bool is_ours;

    if (way == LEARN_RX)
        return state->bottleneck == AUTOBUF_BOTTLENECK_PEER;
    if (!path_limits(state, seen))
        return false;
    /* else somebody has set another since */
    is_ours = state->pacing_bit_per_s && pace_byte_per_s == state->pacing_bit_per_s / 8;
    return !comes_near(state->sent_bit_per_s, pace_byte_per_s, is_ours ? NEAR_OURS_PERCENT : NEAR_PACE_PERCENT);
}

/* A peer may have sent small packets, which counted as full ones would be many times too fast. */
static bool are_full(const struct learn_count *began, const struct learn_count *now)
{
    double through = (double)(now->bytes - began->bytes), gapless = (double)(now->gapless_bytes - began->gapless_bytes);

    return 100.0 * through <= (double)COUNTED_PERCENT * gapless;
}

static void close_stretch(struct learn_course *course, const struct learn_count *now, uint64_t now_ns, uint64_t rtt_ns)
{
    struct learn_stretch *stretch = &course->stretch;
    uint64_t took_ns = now_ns - stretch->began_ns, bytes = now->bytes - stretch->began.bytes;

    if (took_ns < HELD_NS || took_ns < HELD_ROUNDS * rtt_ns || stretch->samples < HELD_SAMPLES)
        return;
    if (100 * stretch->counting >= COUNTING_PERCENT * stretch->samples && bytes && are_full(&stretch->began, now) &&
        are_full(&course->first, now)) {
        course->byte_per_s = ab_max(course->byte_per_s, per_second(bytes, took_ns));
        course->stretches++;
    }
    *stretch = (struct learn_stretch){.began_ns = now_ns, .began = *now};
}

/* carries: it is this way that the bulk goes now. Returns whether the sample counts. */
static bool follow(struct learn_course *course, const struct autobuf_live_state *state, const struct ab_tcpinfo *seen,
                   enum learn_way way, bool carries, const struct learn_count *now, uint64_t now_ns, uint64_t since_ns)
{
    bool counting = carries && counts(state, seen, way);

    if (!course->stretch.began_ns) {
        course->stretch = (struct learn_stretch){.began_ns = now_ns, .began = *now};
        course->first = *now;
        return counting;
    }
    course->bulk_ns += carries ? since_ns : 0;
    course->counting_ns += counting ? since_ns : 0;
    course->stretch.samples++;
    course->stretch.counting += counting;
    /* A receiver's smoothed round-trip time is that of its request, and stays, however late the answer to that was. */
    close_stretch(course, now, now_ns, way == LEARN_RX ? ab_min(state->rtt_min_ns, state->rtt_ns) : state->rtt_ns);
    return counting;
}

/* That came through. */
static uint32_t packets_of(const struct ab_tcpinfo *seen, enum learn_way way)
{
    return way == LEARN_TX ? seen->delivered_packets : seen->received_packets;
}

/* What came through since the last sample. */
static uint64_t moved_since(const struct learn *learn, const struct ab_tcpinfo *seen, uint64_t bytes,
                            enum learn_way way)
{
    if (!learn->sampled_ns)
        return 0;
    if (packets_of(seen, way)) /* it may have wrapped */
        return (uint64_t)(packets_of(seen, way) - learn->packets[way]) *
               (way == LEARN_TX ? seen->mss_bytes : seen->rcv_mss_bytes);
    return bytes > learn->bytes[way] ? bytes - learn->bytes[way] : 0;
}

void learn_sample(struct learn *learn, const struct autobuf_live_state *state, const struct ab_tcpinfo *seen,
                  uint64_t now_ns)
{
    const uint64_t bytes[LEARN_WAYS] = {seen->acked_bytes, seen->received_bytes};
    uint64_t moved[LEARN_WAYS], since_ns = learn->sampled_ns ? now_ns - learn->sampled_ns : 0;

    if (state->rtt_ns == AUTOBUF_NS_UNSET || now_ns <= learn->sampled_ns) /* nothing was seen */
        return;
    for (int way = 0; way < LEARN_WAYS; way++)
        moved[way] = moved_since(learn, seen, bytes[way], (enum learn_way)way);
    for (int way = 0; way < LEARN_WAYS; way++) {
        bool carries = moved[way] && moved[way] >= moved[!way];
        struct learn_count now;

        now.bytes = learn->through_bytes[way] += moved[way];
        now.gapless_bytes = way == LEARN_RX ? bytes[way] : now.bytes;
        if (follow(&learn->courses[way], state, seen, (enum learn_way)way, carries, &now, now_ns, since_ns) &&
            way == LEARN_TX && queue_stands(state, seen) && seen->sndbuf_limited_ns > learn->sndbuf_limited_ns)
            learn->excused_ns += seen->sndbuf_limited_ns - learn->sndbuf_limited_ns;
        learn->bytes[way] = bytes[way];
        learn->packets[way] = packets_of(seen, (enum learn_way)way);
    }
    learn->sampled_ns = now_ns;
    learn->sndbuf_limited_ns = seen->sndbuf_limited_ns;
    learn->pace_byte_per_s = seen->max_pacing_byte_per_s;
    if (state->rtt_min_ns != AUTOBUF_NS_UNSET)
        learn->rtt_min_ns = state->rtt_min_ns;
    if (state->packet_bytes)
        learn->packet_bytes = state->packet_bytes;
}

/* ------------------------------------------------------------------------------------- end */

static bool was_held_back(const struct learn *learn, const struct ab_tcpinfo *final)
{
    double held_ns = (double)final->rwnd_limited_ns + (double)final->sndbuf_limited_ns - (double)learn->excused_ns;

    return 100.0 * held_ns > (double)LIMITED_PERCENT * (double)final->busy_ns;
}

/*
 * A connection that was closed before a stretch was whole: what it sent in the time that it was busy, slow start
 * included, if it still sent at least as fast when it ended, and then had more to send.
 */
static uint64_t rate_of_all(const struct ab_tcpinfo *final, uint64_t rtt_ns)
{
    uint64_t rate = per_second(final->acked_bytes, final->busy_ns);

    if (final->app_limited || final->busy_ns < HELD_NS || final->busy_ns < HELD_ROUNDS * rtt_ns)
        return 0;
    return final->delivery_byte_per_s >= rate ? rate : 0;
}

/* Whether what was received is more in a round trip than the window that autotuning gives. */
static bool needs_more(const struct learn *learn, const struct learn_course *course, uint64_t rtt_ns)
{
    return learn->autotuning_bytes && bdp(8 * course->byte_per_s, rtt_ns) > learn->autotuning_bytes;
}

/* Payload a second; 0: this way nothing is learned. */
static uint64_t rate_of(const struct learn *learn, const struct ab_tcpinfo *final, enum learn_way way, uint64_t rtt_ns)
{
    const struct learn_course *course = &learn->courses[way];
    bool held =
        course->stretches && 100.0 * (double)course->counting_ns >= (double)BULK_PERCENT * (double)course->bulk_ns;
    uint64_t byte_per_s;

    if (way == LEARN_RX) {
        held = held && final->received_bytes >= BULK_BYTES;
        return held && (final->out_of_order_packets || needs_more(learn, course, rtt_ns)) ? course->byte_per_s : 0;
    }
    if (final->acked_bytes < BULK_BYTES || was_held_back(learn, final))
        return 0;
    if (held)
        return course->byte_per_s;
    byte_per_s = course->stretches ? 0 : rate_of_all(final, rtt_ns);
    return comes_near(8 * byte_per_s, learn->pace_byte_per_s, NEAR_PACE_PERCENT) ? 0 : byte_per_s;
}

/* In IP bytes, as the store has it. */
static uint64_t ip_bit_per_s(uint64_t byte_per_s, uint32_t packet_bytes, uint32_t headers)
{
    double rate = 8.0 * (double)byte_per_s * packet_bytes / (packet_bytes - headers);

    return rate < (double)RATE_MOST ? (uint64_t)rate : RATE_MOST;
}

bool learn_is_host(const struct autobuf_prefix *remote)
{
    static const uint8_t nothing[16] = {0}, loopback[16] = {[15] = 1}, mapped[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *a = remote->address;

    if (remote->version == 4)
        return remote->bits == 32 && a[0] != 0 && a[0] != 127 && a[0] < 224 && /* from there on: groups, and no hosts */
               !(a[0] == 169 && a[1] == 254);
    return remote->version == 6 && remote->bits == 128 && a[0] != 0xff && !(a[0] == 0xfe && (a[1] & 0xc0) == 0x80) &&
           memcmp(a, nothing, 16) != 0 && memcmp(a, loopback, 16) != 0 && memcmp(a, mapped, 12) != 0;
}

bool learn_is_of_host(const struct autobuf_paths_entry *e)
{
    bool seen =
        e->method == AUTOBUF_METHOD_ICMP || e->method == AUTOBUF_METHOD_INBAND || e->method == AUTOBUF_METHOD_PASSIVE;

    return seen && learn_is_host(&e->remote) && !e->local.version && !e->device[0] && !e->tx_unsure && !e->rx_unsure;
}

bool learn_end(const struct learn *learn, const struct ab_tcpinfo *final, const struct autobuf_prefix *remote,
               struct autobuf_paths_entry *entry)
{
    uint64_t rtt_ns = final->rtt_min_ns ? final->rtt_min_ns : learn->rtt_min_ns, tx, rx;
    uint32_t headers = remote->version == 4 ? V4_HEADERS : V6_HEADERS;
    uint32_t packet_bytes = learn->packet_bytes > 2 * headers ? learn->packet_bytes : PACKET_BYTES;

    if (rtt_ns < NEAR_NS || !learn_is_host(remote))
        return false;
    tx = ip_bit_per_s(rate_of(learn, final, LEARN_TX, rtt_ns), packet_bytes, headers);
    rx = ip_bit_per_s(rate_of(learn, final, LEARN_RX, rtt_ns), packet_bytes, headers);
    if (!tx && !rx)
        return false;
    *entry = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
    entry->method = AUTOBUF_METHOD_PASSIVE;
    entry->remote = *remote;
    entry->flags = (tx ? AUTOBUF_PATH_TX_AT_LEAST : 0) | (rx ? AUTOBUF_PATH_RX_AT_LEAST : 0);
    entry->bottleneck = tx || final->out_of_order_packets ? AUTOBUF_BOTTLENECK_PATH : AUTOBUF_BOTTLENECK_PEER;
    entry->samples = (uint32_t)ab_max(learn->courses[LEARN_TX].stretches + learn->courses[LEARN_RX].stretches, 1);
    entry->packet_bytes = learn->packet_bytes < PACKET_MOST ? learn->packet_bytes : PACKET_MOST;
    entry->rtt_min_ns = rtt_ns;
    entry->tx_rate_bit_per_s = entry->tx_rate_low_bit_per_s = entry->tx_rate_high_bit_per_s = tx;
    entry->rx_rate_bit_per_s = entry->rx_rate_low_bit_per_s = entry->rx_rate_high_bit_per_s = rx;
    entry->tx_bdp_bytes = bdp(tx, rtt_ns);
    entry->rx_bdp_bytes = bdp(rx, rtt_ns);
    return true;
}

/* SPDX-License-Identifier: MIT */
#include "judge.h"

#include "../plan/plan.h"

/*
 * The experiment that set each constant, as in judge.c. On 400 Mbit/s x 100 ms only all of these together, no single
 * one, showed that the buffer limits.
 */
#define FULL_PERCENT 60U       /* of a buffer: a writer is woken when a third is free; sweep: 1.73, 1.73, 1.00 */
#define GROWN_PERCENT 90U      /* of autotuning's limit; sweep: 1.73, 1.73, 1.00 at 400 x 100 */
#define READY_BYTES 131072U    /* if more waits to be sent, the path or the peer limits; tests/bench/run live */
/* of what is stored is on its way: all but a rest; unit: a_burst_that_fills_the_congestion_window */
#define SENT_PERCENT 90U
#define DRY_PERCENT 5U         /* of a round trip; unit: a_buffer_that_runs_dry */
#define PACED_PERCENT 95U      /* of a pace, and the socket goes at it; unit: the_pace_is_never_the_bottleneck */
#define CWND_PERCENT 95U       /* of the congestion window; tests/bench/run live (400 x 100) */
#define PEER_PERCENT 90U       /* of the peer's window; tests/bench/run live (400 x 100) */
#define RCV_FULL_PERCENT 80U   /* of a window, in a round trip; unit: the_receive_side */
#define UNREAD_PERCENT 25U     /* of a buffer; tests/kernels/run --all readers */

/* How large the send buffer becomes if nobody sets it (again). */
static uint64_t snd_grown(const struct ab_bottleneck_sample *seen)
{
    const struct autobuf_socket *socket = &seen->sample->socket;

    return socket->locks & AUTOBUF_LOCK_SND ? socket->snd_buf_bytes : seen->limits->tcp_wmem_max_bytes;
}

static bool fills_peer_window(const struct ab_bottleneck_sample *seen)
{
    const struct ab_tcpinfo *info = &seen->sample->info;

    if (!info->peer_window_bytes) /* a reader that is late closes it, and what is sent waits */
        return info->tells_peer_window && info->notsent_bytes;
    return ab_at_least(ab_tcpinfo_flight_bytes(info), PEER_PERCENT, info->peer_window_bytes);
}

static bool fills_cwnd(const struct ab_bottleneck_sample *seen)
{
    const struct ab_tcpinfo *info = &seen->sample->info;

    return info->unacked_packets && ab_at_least(info->unacked_packets, CWND_PERCENT, info->cwnd_packets);
}

bool ab_bottleneck_is_paced(const struct ab_sample *sample, uint64_t pace_byte_per_s)
{
    return pace_byte_per_s && sample->info.max_pacing_byte_per_s == pace_byte_per_s;
}

/* At times all was sent and the buffer had no room. */
static bool ran_dry(const struct ab_bottleneck_sample *seen)
{
    return seen->dry_ns && ab_at_least(seen->dry_ns, DRY_PERCENT, seen->span_ns);
}

/*
 * What waits for that pace is not held back by the path. Nor is what waits for congestion control's own, if there was
 * nothing to send before: bbr paces by what came through, also if that was a full buffer's.
 */
static bool has_more_ready(const struct ab_bottleneck_sample *seen)
{
    const struct ab_tcpinfo *info = &seen->sample->info;
    bool waits = ab_bottleneck_is_paced(seen->sample, seen->pace_byte_per_s) &&
                 ab_at_least(info->pacing_byte_per_s, PACED_PERCENT, seen->pace_byte_per_s);
    bool paced = ran_dry(seen) && info->pacing_byte_per_s < info->max_pacing_byte_per_s;

    return !waits && !paced && info->notsent_bytes >= READY_BYTES;
}

static bool fills_buffer(const struct ab_bottleneck_sample *seen)
{
    return ab_at_least(seen->sample->queued_bytes, FULL_PERCENT, seen->sample->socket.snd_buf_bytes) &&
           !has_more_ready(seen);
}

static bool fills_grown_buffer(const struct ab_bottleneck_sample *seen)
{
    return fills_buffer(seen) && ab_at_least(seen->sample->socket.snd_buf_bytes, GROWN_PERCENT, snd_grown(seen));
}

bool ab_bottleneck_sent_all(const struct ab_bottleneck_sample *seen)
{
    const struct ab_tcpinfo *info = &seen->sample->info;
    uint64_t flight = ab_tcpinfo_flight_bytes(info);

    return fills_grown_buffer(seen) && info->notsent_bytes < READY_BYTES &&
           ab_at_least(flight, SENT_PERCENT, flight + info->notsent_bytes);
}

/* Of a sender, the first row that holds. */
static const struct {
    bool (*holds)(const struct ab_bottleneck_sample *seen);
    uint32_t bottleneck;
} sender_limits[] = {
    {fills_peer_window, AUTOBUF_BOTTLENECK_PEER},
    {fills_cwnd, AUTOBUF_BOTTLENECK_PATH},
    {fills_grown_buffer, AUTOBUF_BOTTLENECK_SND_BUFFER},
    {fills_buffer, AUTOBUF_BOTTLENECK_UNKNOWN}, /* autotuning still enlarges it */
    {has_more_ready, AUTOBUF_BOTTLENECK_PATH},
};

static uint32_t bottleneck_sending(const struct ab_bottleneck_sample *seen)
{
    for (size_t i = 0; i < sizeof sender_limits / sizeof *sender_limits; i++)
        if (sender_limits[i].holds(seen))
            return sender_limits[i].bottleneck;
    return AUTOBUF_BOTTLENECK_SENDER;
}

uint64_t ab_rcv_rtt_ns(const struct ab_tcpinfo *info)
{
    return info->rtt_min_ns ? info->rtt_min_ns : info->rcv_rtt_ns;
}

static bool is_open(const struct ab_bottleneck_sample *seen)
{
    uint32_t state = seen->sample->info.state;

    return state == AB_TCP_ESTABLISHED || state == AB_TCP_CLOSE_WAIT || state == AB_TCP_FIN_WAIT1 ||
           state == AB_TCP_FIN_WAIT2;
}

static bool is_left_unread(const struct ab_bottleneck_sample *seen)
{
    return ab_at_least(seen->sample->unread_bytes, UNREAD_PERCENT, ab_max(seen->sample->socket.rcv_buf_bytes, 1));
}

unsigned ab_bottleneck_arrives_percent(const struct ab_bottleneck_sample *seen)
{
    const struct autobuf_socket *socket = &seen->sample->socket;
    uint64_t most = socket->rcv_window_max_bytes ? socket->rcv_window_max_bytes : UINT64_MAX;
    uint64_t window = ab_min(AB_RCV_WINDOW(socket->rcv_buf_bytes), most);
    bool grown = socket->locks & AUTOBUF_LOCK_RCV || !(seen->limits->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING) ||
                 ab_at_least(socket->rcv_buf_bytes, GROWN_PERCENT, seen->limits->tcp_rmem_max_bytes);
    uint64_t arrives = ab_in_time(seen->received_byte_per_s, ab_rcv_rtt_ns(&seen->sample->info));

    if (!grown || !is_open(seen) || is_left_unread(seen) || seen->acked_byte_per_s >= seen->received_byte_per_s)
        return 0;
    return (unsigned)ab_min(ab_mul_div(arrives, 100, ab_max(window, 1)), 100);
}

static uint32_t bottleneck_receiving(const struct ab_bottleneck_sample *seen)
{
    if (is_left_unread(seen))
        return AUTOBUF_BOTTLENECK_RECEIVER;
    return ab_bottleneck_arrives_percent(seen) >= RCV_FULL_PERCENT ? AUTOBUF_BOTTLENECK_RCV_BUFFER
                                                                   : AUTOBUF_BOTTLENECK_PEER;
}

/* Nothing moved. Data may be in flight all the same, for less than an RTT, or lost. No buffer is judged by that. */
static uint32_t bottleneck_at_rest(const struct ab_bottleneck_sample *seen)
{
    const struct ab_tcpinfo *info = &seen->sample->info;
    uint32_t limit;

    if (info->unacked_packets && info->retransmits)
        return AUTOBUF_BOTTLENECK_STALLED;
    if (is_left_unread(seen))
        return AUTOBUF_BOTTLENECK_RECEIVER;
    if (!info->unacked_packets && !info->notsent_bytes)
        return AUTOBUF_BOTTLENECK_IDLE;
    limit = bottleneck_sending(seen);
    return limit == AUTOBUF_BOTTLENECK_PEER || limit == AUTOBUF_BOTTLENECK_SENDER ? limit : AUTOBUF_BOTTLENECK_PATH;
}

uint32_t ab_bottleneck(const struct ab_bottleneck_sample *seen)
{
    if (!is_open(seen))
        return AUTOBUF_BOTTLENECK_UNKNOWN;
    if (!seen->acked_byte_per_s && !seen->received_byte_per_s)
        return bottleneck_at_rest(seen);
    return seen->acked_byte_per_s >= seen->received_byte_per_s ? bottleneck_sending(seen) : bottleneck_receiving(seen);
}

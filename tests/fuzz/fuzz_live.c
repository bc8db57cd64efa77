/* SPDX-License-Identifier: MIT */
/*
 * TCP_INFO of any length and content, counters and clocks that jump, sockets and limits of any size: what
 * is decided stays within the limits, and a receive buffer never shrinks.
 */
#include "fuzz.h"

#include "live/judge.h"
#include "plan/plan.h"

static struct autobuf_limits take_limits(struct input *in)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;

    limits.flags = (uint32_t)take(in, 1) & 7;
    limits.snd_settable_bytes = take_number(in);
    limits.rcv_settable_bytes = take_number(in);
    limits.tcp_wmem_max_bytes = take_number(in);
    limits.tcp_rmem_max_bytes = take_number(in);
    limits.tcp_mem_bytes = take_number(in);
    return limits;
}

/* The kernel's bytes, or as many as there are of them. */
static struct ab_tcpinfo take_raw(struct input *in)
{
    size_t len = take(in, 2) % AB_TCPINFO_BYTES;
    struct ab_tcpinfo info;
    uint8_t *bytes;

    len = len < in->len ? len : in->len;
    bytes = exact_copy(in->data, len);
    in->data += len;
    in->len -= len;
    CHECK(ab_tcpinfo_parse(bytes, len, &info) || len < 104);
    CHECK(info.scaled || (!info.snd_scale && !info.rcv_scale));
    free(bytes);
    return info;
}

/* A transfer that goes on, roughly. */
static void take_progress(struct input *in, struct ab_tcpinfo *info)
{
    info->state = take(in, 1) % 8 ? AB_TCP_ESTABLISHED : (uint8_t)take(in, 1);
    info->mss_bytes = 1448;
    info->rtt_ns = take_number(in);
    info->rtt_min_ns = take(in, 1) % 4 ? info->rtt_min_ns : take_number(in);
    info->unacked_packets = (uint32_t)take_number(in);
    info->cwnd_packets = (uint32_t)take_number(in);
    info->acked_bytes += take_number(in) % 1000000000;
    info->received_bytes += take_number(in) % 1000000000;
    info->notsent_bytes = take_number(in);
    info->peer_window_bytes = take_number(in);
}

static void take_socket(struct input *in, struct ab_sample *sample)
{
    sample->socket.locks = (uint32_t)take(in, 1) & 3;
    sample->socket.snd_buf_bytes = take_number(in) & 0x7fffffff;
    sample->socket.rcv_buf_bytes = take_number(in) & 0x7fffffff;
    sample->socket.rcv_window_max_bytes = 65535ULL << take(in, 1) % 15;
    sample->queued_bytes = take_number(in);
    sample->unread_bytes = take_number(in);
}

/* The judge has this intent and these limits, and names this bottleneck of its newest sample. */
static void check_plan(uint32_t intent, const struct autobuf_limits *limits, uint32_t bottleneck,
                       const struct ab_sample *sample, const struct autobuf_plan *plan)
{
    uint64_t rtt_min_ns = sample->info.rtt_min_ns ? sample->info.rtt_min_ns : sample->info.rtt_ns;
    bool sends = bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER;

    if (intent & AB_INTENT_MODERATES) {
        CHECK(!plan->rcv_request_bytes && !(plan->flags & AUTOBUF_PLAN_RCV_UNLOCK));
        CHECK(!plan->snd_pacing_bit_per_s || !plan->snd_request_bytes);
        CHECK(!plan->rcv_clamp_bytes || (intent == AUTOBUF_INTENT_SCAVENGER && !plan->snd_pacing_bit_per_s));
        if (plan->snd_pacing_bit_per_s || plan->rcv_clamp_bytes)
            return;
    }
    if (plan->snd_pacing_bit_per_s) { /* bursts are spread: the whole buffer still comes through in each round trip */
        CHECK(!plan->rcv_request_bytes);
        CHECK(ab_in_time(plan->snd_pacing_bit_per_s / 8, rtt_min_ns) >= sample->socket.snd_buf_bytes);
        CHECK(sends || !plan->snd_request_bytes);
        if (!plan->snd_request_bytes)
            return;
    }
    if (plan->snd_request_bytes && 2 * plan->snd_request_bytes + 1 < sample->socket.snd_buf_bytes) {
        CHECK(plan->flags == AUTOBUF_PLAN_SND_FORCE && limits->flags & AUTOBUF_LIMITS_FORCE);
        CHECK(sends || bottleneck == AUTOBUF_BOTTLENECK_PATH || bottleneck == AUTOBUF_BOTTLENECK_PEER);
        CHECK(!plan->rcv_request_bytes);
        return; /* what was forced is taken back */
    }
    /* ahead of what arrives */
    CHECK(sends || bottleneck == AUTOBUF_BOTTLENECK_RCV_BUFFER || bottleneck == AUTOBUF_BOTTLENECK_PEER);
    CHECK(sends ? !plan->rcv_request_bytes : !plan->snd_request_bytes); /* that side alone */
    CHECK(!plan->rcv_request_bytes || 2 * plan->rcv_request_bytes + 1 >= sample->socket.rcv_buf_bytes);
    CHECK(plan->rcv_request_bytes <= limits->rcv_settable_bytes ||
          (plan->flags & AUTOBUF_PLAN_RCV_FORCE && limits->flags & AUTOBUF_LIMITS_FORCE));
    CHECK(plan->snd_request_bytes <= limits->snd_settable_bytes ||
          plan->flags & AUTOBUF_PLAN_SND_FORCE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    struct ab_sample sample = {.socket = AUTOBUF_SOCKET_INIT};
    struct autobuf_limits limits = take_limits(&in);
    struct ab_judge judge;
    uint32_t intent;

    sample.socket.stage = AUTOBUF_STAGE_CONNECTED;
    sample.now_ns = take_number(&in);
    intent = (uint32_t)take(&in, 1) % 3; /* throughput, low delay, scavenger */
    ab_judge_begin(&judge, intent, &limits);
    while (in.len > 0) {
        unsigned what = (unsigned)take(&in, 1);
        struct autobuf_plan plan;
        const char *why = NULL;

        sample.now_ns = what & 128 ? take_number(&in) : ab_judge_next_ns(&judge) + what % 4;
        if (what & 64)
            sample.info = take_raw(&in);
        else
            take_progress(&in, &sample.info);
        if (what & 32)
            take_socket(&in, &sample);
        if (ab_judge_sample(&judge, &sample, &plan, &why)) {
            CHECK(why);
            check_plan(intent, &limits, ab_judge_bottleneck(&judge), &sample, &plan);
        }
        CHECK(ab_judge_bottleneck(&judge) <= AUTOBUF_BOTTLENECK_STALLED);
        CHECK(ab_judge_next_ns(&judge) != sample.now_ns);
    }
    return 0;
}

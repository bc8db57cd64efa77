/* SPDX-License-Identifier: MIT */
/* The socket around the judge. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>

#include "../apply/notsent.h"
#include "../base/option.h"
#include "../kernel/limits.h"
#include "../kernel/socket.h"
#include "../plan/plan.h"
#include "live.h"

#define AGAIN_NS (10 * AB_NS_PER_S) /* until it is asked again what may be forced, which lists all connections */
#define WAITING_WINDOWS 4U /* tests/kernels/run --all writers (late) */

/*
 * Of what waits for the program, only what came in order: TCP's memory also holds what came out of order, which no
 * program can read yet. Little is not worth the call.
 */
static uint64_t readable_bytes(int fd, const struct ab_sample *sample)
{
    int bytes;

    if (sample->unread_bytes < sample->socket.rcv_buf_bytes / 8 || ioctl(fd, SIOCINQ, &bytes) < 0)
        return sample->unread_bytes;
    return ab_min(sample->unread_bytes, AB_RCV_STORED((uint64_t)bytes));
}

static int take_sample(int fd, uint64_t now_ns, struct ab_sample *sample)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0}; /* stays 0 before Linux 4.12 */
    socklen_t len = sizeof memory;
    int error;

    *sample = (struct ab_sample){.now_ns = now_ns};
    error = ab_socket_read(fd, &sample->socket, &sample->info);
    if (error < 0)
        return error;
    if (sample->socket.stage != AUTOBUF_STAGE_CONNECTED)
        return -ENOTCONN;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &len) == 0) {
        sample->queued_bytes = memory[SK_MEMINFO_WMEM_QUEUED];
        sample->unread_bytes = memory[SK_MEMINFO_RMEM_ALLOC];
        sample->unread_bytes = readable_bytes(fd, sample);
    }
    return 0;
}

/* bbr does, below 1.2 Mbit/s (bbr_min_tso_segs()). */
static bool sends_singles(int fd)
{
    char control[16] = "";
    socklen_t len = sizeof control - 1;

    return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &len) == 0 && strncmp(control, "bbr", 3) == 0;
}

static uint64_t notsent_of(int fd)
{
    int bytes;

    return ab_get_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes) < 0 ? 0 : (uint32_t)bytes;
}

int ab_live_open(struct ab_live **out, int fd, const struct autobuf_options *options,
                 const struct autobuf_limits *limits)
{
    bool observes = options->flags & AUTOBUF_FLOW_OBSERVE;
    struct ab_live *live;
    struct ab_sample sample;
    uint64_t cookie;
    int error = take_sample(fd, 0, &sample);

    *out = NULL;
    if (error == 0)
        error = ab_socket_cookie(fd, &cookie);
    if (error < 0)
        return error;
    live = calloc(1, sizeof *live);
    if (!live)
        return -ENOMEM;
    ab_judge_begin(&live->judge, observes ? AUTOBUF_INTENT_THROUGHPUT : options->intent, limits);
    live->judge.singles = sends_singles(fd);
    if (options->most_bytes)
        live->judge.limits.request_most_bytes = options->most_bytes;
    if (options->flags & AUTOBUF_FLOW_AVAILABLE) {
        live->in_line = calloc(1, sizeof *live->in_line);
        if (!live->in_line) {
            free(live);
            return -ENOMEM;
        }
    }
    live->log = (struct ab_log){options->log, options->log_user};
    live->fd = fd;
    live->cookie = cookie;
    live->observes = observes;
    if (ab_get_pacing(fd, &live->pace_byte_per_s) < 0 || !live->pace_byte_per_s)
        live->pace_byte_per_s = UINT64_MAX;
    live->path_bit_per_s = UINT64_MAX;
    /* What was set before the connection was there, or on its listener, is ours: only its value tells. */
    live->notsent_bytes = notsent_of(fd) == AB_NOTSENT_BYTES ? AB_NOTSENT_BYTES : 0;
    live->notsent_most_bytes = UINT64_MAX;
    *out = live;
    return 0;
}

/* A pace that is not as it was left is the program's own from now on. */
static void detect_pacing(struct ab_live *live)
{
    uint64_t left = live->set_bit_per_s ? ab_pacing_byte_per_s(live->set_bit_per_s) : live->pace_byte_per_s, now = 0;

    if (ab_get_pacing(live->fd, &now) < 0 || now == left)
        return;
    live->pace_byte_per_s = now ? now : UINT64_MAX;
    live->set_bit_per_s = 0;
}

static void put_back_pace(struct ab_live *live)
{
    struct autobuf_plan plan;

    detect_pacing(live);
    if (!live->set_bit_per_s)
        return;
    ab_plan_nothing(AUTOBUF_REASON_SET, live->judge.intent, &plan);
    plan.snd_pacing_bit_per_s = ab_mul_div(live->pace_byte_per_s, 8, 1);
    autobuf_apply(live->fd, &plan);
}

void ab_live_close(struct ab_live *live, bool ours)
{
    if (ours && (live->set_bit_per_s || live->window_bytes) && ab_socket_check(live->fd, live->cookie) == 0) {
        put_back_pace(live);
        if (live->window_bytes)
            (void)ab_apply_window(live->fd, &live->window, 0);
    }
    free(live->in_line);
    free(live);
}

/*
 * TCP and all forced buffers may hold more now than before. Finding out lists each connection of the
 * host, so it is done only before a buffer is forced. Returns true if less may be forced than is planned.
 */
static bool is_too_much(struct ab_live *live, const struct autobuf_socket *socket, const struct autobuf_plan *plan)
{
    bool trims = plan->flags & AUTOBUF_PLAN_SND_FORCE && 2 * plan->snd_request_bytes <= socket->snd_buf_bytes;

    if (trims || !ab_plan_forces(plan))
        return false;
    live->asked_ns = live->judge.last.now_ns;
    ab_limits_forced(&live->judge.limits);
    return ab_plan_forces_too_much(plan, &live->judge.limits, socket);
}

/*
 * A change may have lowered the bound of what waits unsent. If it was not ours before, it was the program's, or none.
 */
static void note_notsent(struct ab_live *live, uint64_t before_bytes)
{
    uint64_t now_bytes = notsent_of(live->fd);

    if (now_bytes == before_bytes)
        return;
    if (before_bytes && before_bytes != live->notsent_bytes)
        live->notsent_most_bytes = before_bytes;
    live->notsent_bytes = now_bytes;
}

static void tell(const struct ab_live *live, struct autobuf_event *event)
{
    event->bottleneck = ab_judge_bottleneck(&live->judge);
    ab_event(&live->log, event);
}

static void tell_size(const struct ab_live *live, uint32_t side, uint64_t request_bytes, uint64_t before_bytes,
                      uint64_t after_bytes, const char *why)
{
    if (live->sides & side)
        tell(live, &(struct autobuf_event){.what = request_bytes ? AUTOBUF_EVENT_RESIZED : AUTOBUF_EVENT_GIVEN_BACK,
                                          .side = side, .before_bytes = before_bytes, .after_bytes = after_bytes,
                                          .why = why});
}

static int act(struct ab_live *live, const struct autobuf_socket *socket, struct autobuf_plan *plan, const char *why)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;
    bool ends = plan->snd_pacing_bit_per_s == UINT64_MAX;
    uint64_t most, before, notsent_bytes = notsent_of(live->fd);
    int result;

    if (plan->snd_pacing_bit_per_s)
        detect_pacing(live);
    most = ab_min(ab_mul_div(live->pace_byte_per_s, 8, 1), live->path_bit_per_s);
    before = live->set_bit_per_s;
    if (is_too_much(live, socket, plan)) { /* the next sample plans by what is left */
        plan->snd_request_bytes = plan->rcv_request_bytes = plan->rcv_clamp_bytes = 0;
        plan->flags = 0;
    }
    plan->snd_pacing_bit_per_s = ab_min(plan->snd_pacing_bit_per_s, most);
    if (plan->snd_pacing_bit_per_s == before && !plan->snd_request_bytes && !plan->rcv_request_bytes && !plan->flags)
        return 0;
    result = autobuf_apply(live->fd, plan);
    /* Privilege was dropped, or a limit lowered: from now on it is planned with what there is. */
    if ((result == -EPERM && ab_plan_forces(plan)) || result == AUTOBUF_E_CLAMPED)
        (void)ab_limits_refresh(&live->judge.limits);
    if (result <= 0)
        return result;
    note_notsent(live, notsent_bytes);
    live->changes++;
    live->sides = (plan->snd_request_bytes || plan->flags & AUTOBUF_PLAN_SND_UNLOCK ? AUTOBUF_LOCK_SND : 0) |
                  (plan->rcv_request_bytes || plan->flags & AUTOBUF_PLAN_RCV_UNLOCK ? AUTOBUF_LOCK_RCV : 0);
    if (plan->snd_pacing_bit_per_s) {
        live->set_bit_per_s = ends ? 0 : plan->snd_pacing_bit_per_s;
        tell(live, &(struct autobuf_event){.what = AUTOBUF_EVENT_PACED, .before_bit_per_s = before,
                                          .after_bit_per_s = live->set_bit_per_s, .why = why});
    }
    if (live->sides && ab_log_is_on(&live->log) && autobuf_socket_state(live->fd, &now) == 0) {
        tell_size(live, AUTOBUF_LOCK_SND, plan->snd_request_bytes, socket->snd_buf_bytes, now.snd_buf_bytes, why);
        tell_size(live, AUTOBUF_LOCK_RCV, plan->rcv_request_bytes, socket->rcv_buf_bytes, now.rcv_buf_bytes, why);
    }
    return result;
}

/* At each sample, for autotuning may have moved the clamp. Returns 1 if that is told; 0; or an error. */
static int hold_peer(struct ab_live *live, uint64_t bytes, const char *why)
{
    uint64_t before = live->window_bytes;
    int error = ab_apply_window(live->fd, &live->window, bytes);

    if (error < 0)
        return error;
    live->window_bytes = bytes;
    if (!*why || bytes == before)
        return 0;
    live->changes++;
    live->sides = AUTOBUF_LOCK_RCV;
    tell(live, &(struct autobuf_event){.what = AUTOBUF_EVENT_WINDOW, .side = AUTOBUF_LOCK_RCV,
                                      .before_bytes = before, .after_bytes = bytes, .why = why});
    return 1;
}

/*
 * As much may wait as autotuning would let: it makes the buffer two (bbr: three) times the congestion window, of which
 * one is in flight, and slow start doubles that until the next sample. A peer has to have taken some of it, and the
 * window grows only then.
 */
static uint64_t may_wait_bytes(const struct ab_live *live, const struct ab_sample *sample)
{
    uint64_t window = (uint64_t)sample->info.cwnd_packets * sample->info.mss_bytes;
    uint64_t waits = ab_mul_div(ab_min(window, sample->info.acked_bytes), WAITING_WINDOWS, 1);
    uint64_t most = ab_min(sample->socket.snd_buf_bytes, live->judge.limits.tcp_wmem_max_bytes);

    most = ab_min(most, live->notsent_most_bytes);
    /* Twice as much, or all, at once: so it is seldom set. */
    return waits >= most ? most : waits >= 2 * live->notsent_bytes ? waits : 0;
}

/* Returns 1 if more may wait than before, else 0. */
static int let_more_wait(struct ab_live *live, const struct ab_sample *sample)
{
    uint32_t side = live->judge.intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);
    uint64_t bytes = may_wait_bytes(live, sample), before = live->notsent_bytes;

    if (!before || bytes <= before || side == AUTOBUF_INTENT_RECEIVES ||
        live->judge.intent & AB_INTENT_MODERATES || live->observes)
        return 0;
    if (ab_apply_notsent(live->fd, before, bytes) != 1) { /* the program has set its own, or the host has a lower one */
        live->notsent_bytes = 0;
        return 0;
    }
    live->notsent_bytes = notsent_of(live->fd);
    live->sides = 0;
    live->changes++;
    tell(live, &(struct autobuf_event){.what = AUTOBUF_EVENT_UNSENT, .before_bytes = before,
                                      .after_bytes = live->notsent_bytes, .why = "the peer takes what is sent"});
    return 1;
}

int ab_live_apply(struct ab_live *live, const struct autobuf_plan *theirs, const char *why)
{
    struct autobuf_plan plan = *theirs;
    uint64_t path_bit_per_s = live->path_bit_per_s;
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    int error = ab_socket_check(live->fd, live->cookie);

    if (error == 0)
        error = autobuf_socket_state(live->fd, &socket);
    if (error == 0 && socket.stage != AUTOBUF_STAGE_CONNECTED)
        error = -ENOTCONN;
    if (error < 0)
        return error;
    if (live->window_bytes) { /* a lock and a clamp that are ours */
        plan.rcv_request_bytes = plan.rcv_clamp_bytes = 0;
        plan.flags &= ~AUTOBUF_PLAN_RCV_UNLOCK;
    }
    if (plan.snd_pacing_bit_per_s)
        live->path_bit_per_s = plan.snd_pacing_bit_per_s;
    error = act(live, &socket, &plan, why);
    if (error < 0) {
        live->path_bit_per_s = path_bit_per_s;
        return error;
    }
    if (plan.snd_pacing_bit_per_s)
        live->judge.pace.byte_per_s = ab_min(theirs->snd_pacing_bit_per_s / 8, live->pace_byte_per_s);
    if (plan.flags & AUTOBUF_PLAN_SND_FORCE)
        ab_judge_forced(&live->judge, socket.snd_buf_bytes);
    return error;
}

/* Payload that the peer has. */
static uint64_t delivered_bytes(const struct ab_tcpinfo *info)
{
    return info->acked_bytes + (uint64_t)info->sacked_packets * info->mss_bytes;
}

static uint64_t with_headers(uint64_t mss_bytes, uint64_t payload_bytes)
{
    return ab_mul_div(payload_bytes, mss_bytes + AB_TCP_HEADER_BYTES, ab_max(mss_bytes, 1));
}

static void estimate_available(struct ab_live *live, const struct ab_sample *sample)
{
    const struct ab_tcpinfo *info = &sample->info;
    uint64_t now_bytes = delivered_bytes(info), before_bytes = delivered_bytes(&live->judge.last.info);
    struct ab_available_sample seen = {
        .now_ns = sample->now_ns,
        .resent_packets = info->retrans_packets,
        .rtt_ns = info->rtt_ns,
        .rtt_deviation_ns = info->rtt_deviation_ns,
        .program_limits = info->app_limited,
    };

    now_bytes -= ab_min(before_bytes, now_bytes);
    live->delivered_bytes += with_headers(info->mss_bytes, now_bytes);
    seen.delivered_bytes = live->delivered_bytes;
    ab_available_sample(&live->available, &seen);
}

static uint64_t capacity_low(const struct autobuf_path *path)
{
    return path->tx_unsure ? 0 : path->tx_rate_low_bit_per_s;
}

static uint64_t capacity_high(const struct autobuf_path *path)
{
    return path->tx_unsure || path->flags & AUTOBUF_PATH_TX_AT_LEAST ? 0 : path->tx_rate_high_bit_per_s;
}

void ab_live_available(const struct ab_live *live, const struct autobuf_path *path, struct autobuf_available *available)
{
    ab_available_estimate(&live->available, capacity_low(path), capacity_high(path), available);
    if (live->in_line)
        ab_inline_result(live->in_line, live->judge.last.now_ns, available);
}

/* What more may wait: of the buffer, or of the bound on what waits. */
static uint64_t room_bytes(const struct ab_live *live, const struct ab_sample *sample)
{
    uint64_t most = AB_SND_WINDOW(sample->socket.snd_buf_bytes), notsent_bytes = notsent_of(live->fd);
    uint64_t taken = sample->info.notsent_bytes + ab_tcpinfo_flight_bytes(&sample->info);

    most -= ab_min(most, taken);
    return notsent_bytes ? ab_min(most, notsent_bytes) : most;
}

static struct ab_inline_sample search_sample(const struct ab_live *live, const struct ab_sample *sample)
{
    const struct ab_tcpinfo *info = &sample->info;

    return (struct ab_inline_sample){
        .now_ns = sample->now_ns,
        .rtt_ns = info->rtt_ns,
        .rtt_min_ns = info->rtt_min_ns,
        .rtt_deviation_ns = info->rtt_deviation_ns,
        .delivered_bytes = with_headers(live->search_mss_bytes, delivered_bytes(info)),
        .waiting_bytes = with_headers(live->search_mss_bytes, info->notsent_bytes),
        .room_bytes = with_headers(live->search_mss_bytes, room_bytes(live, sample)),
        .resent_packets = info->retrans_packets,
    };
}

static bool is_searching(const struct ab_live *live)
{
    return live->in_line && live->in_line->state != AB_INLINE_RESTS;
}

/* Returns what act() returns. Where no pace can be set, there is no search. */
static int set_search_pace(struct ab_live *live, const struct autobuf_socket *socket)
{
    static const char *const why[] = {"the search for what is free is over", "held back, to search what is free",
                                      "faster, to search what is free", "the search waits for acknowledgements"};
    struct ab_inline *in = live->in_line;
    struct autobuf_plan plan;
    int result;

    ab_plan_nothing(AUTOBUF_REASON_SET, live->judge.intent, &plan);
    plan.snd_pacing_bit_per_s = in->pace_bit_per_s ? in->pace_bit_per_s : UINT64_MAX;
    result = act(live, socket, &plan, why[in->state]);
    if (result <= 0) {
        ab_inline_stop(in, in->sample_ns);
        put_back_pace(live);
        live->set_bit_per_s = 0;
    }
    return result;
}

static int step_search(struct ab_live *live, uint64_t now_ns)
{
    struct ab_inline_sample seen;
    struct ab_sample sample;
    int error = take_sample(live->fd, now_ns, &sample);

    if (error < 0)
        return error;
    seen = search_sample(live, &sample);
    return ab_inline_sample(live->in_line, &seen) ? set_search_pace(live, &sample.socket) : 0;
}

int ab_live_search(struct ab_live *live, uint64_t now_ns, const struct autobuf_path *path)
{
    const struct ab_judge *judge = &live->judge;
    struct autobuf_available passive;
    struct ab_inline_sample seen;

    /* What sends singles is bbr, which goes no faster than it has seen before. */
    if (!live->in_line || live->observes || live->set_bit_per_s || judge->singles ||
        judge->intent & AB_INTENT_MODERATES ||
        (judge->intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)) == AUTOBUF_INTENT_RECEIVES ||
        judge->last.now_ns != now_ns || judge->last.info.max_pacing_byte_per_s != UINT64_MAX)
        return 0;
    live->search_mss_bytes = judge->last.info.mss_bytes; /* which may change meanwhile */
    seen = search_sample(live, &judge->last);
    if (!ab_inline_is_due(live->in_line, &seen))
        return 0;
    ab_available_estimate(&live->available, capacity_low(path), capacity_high(path), &passive);
    if (!ab_inline_begin(live->in_line, &seen, &passive, capacity_low(path), capacity_high(path)))
        return 0;
    return set_search_pace(live, &judge->last.socket);
}

uint64_t ab_live_next_ns(const struct ab_live *live)
{
    return is_searching(live) ? ab_inline_next_ns(live->in_line) : ab_judge_next_ns(&live->judge);
}

static bool is_due(const struct ab_live *live, uint64_t now_ns)
{
    if (is_searching(live))
        return now_ns >= ab_inline_next_ns(live->in_line) || now_ns < live->in_line->sample_ns;
    return ab_judge_due(&live->judge, now_ns);
}

/*
 * Samples. Returns 1 if the plan is to be applied; 0; or an error. *raised: what let_more_wait() returned. Not inlined,
 * for a sample is not to lie on the stack below act().
 */
static __attribute__((noinline)) int sample_and_judge(struct ab_live *live, uint64_t now_ns,
                                                    struct autobuf_plan *plan, const char **why, int *raised)
{
    struct ab_sample sample;
    int error = take_sample(live->fd, now_ns, &sample);

    if (error < 0)
        return error;
    sample.socket.locks |= live->locks;
    if (live->window.locked)
        sample.socket.locks &= ~AUTOBUF_LOCK_RCV; /* its program has not locked it */
    estimate_available(live, &sample);
    *raised = let_more_wait(live, &sample);
    return ab_judge_sample(&live->judge, &sample, plan, why);
}

int ab_live_step(struct ab_live *live, uint64_t now_ns)
{
    struct autobuf_plan plan;
    struct ab_trial trial;
    const char *why = "";
    bool forced;
    int error, raised;

    if (!is_due(live, now_ns))
        return 0;
    error = ab_socket_check(live->fd, live->cookie);
    if (error < 0)
        return error;
    if (is_searching(live))
        return step_search(live, now_ns);
    if (now_ns - live->asked_ns >= AGAIN_NS) /* others may have ended; act() asks before it forces */
        live->judge.limits.tcp_used_bytes = live->judge.limits.forced_bytes = 0;
    (void)ab_forced_kept(&live->judge.limits.forced_bytes);
    trial = live->judge.set;
    error = sample_and_judge(live, now_ns, &plan, &why, &raised);
    if (error <= 0)
        return error < 0 ? error : raised;
    if (live->observes) {
        live->judge.set = trial;
        return raised;
    }
    if (plan.rcv_clamp_bytes && live->judge.intent & AUTOBUF_INTENT_SCAVENGER)
        return hold_peer(live, plan.rcv_clamp_bytes, why);
    forced = ab_plan_forces(&plan);
    error = act(live, &live->judge.last.socket, &plan, why);
    if (error <= 0)
        live->judge.set = trial;
    if (error == 0 || error == AUTOBUF_E_CLAMPED || (error == -EPERM && forced))
        return raised;
    return error;
}

void ab_live_state(const struct ab_live *live, struct autobuf_live_state *state)
{
    const struct ab_judge *judge = &live->judge;
    const struct ab_tcpinfo *info = &judge->last.info;

    *state = (struct autobuf_live_state){
        .size = sizeof *state,
        .bottleneck = ab_judge_bottleneck(judge),
        .changes = live->changes,
        .retransmits = info->retrans_packets,
        .rtt_ns = ab_ns_or_unset(info->rtt_ns),
        .rtt_min_ns = ab_ns_or_unset(judge->rtt_min_ns),
        .sent_bit_per_s = ab_mul_div(judge->acked_byte_per_s, 8, 1),
        .received_bit_per_s = ab_mul_div(judge->received_byte_per_s, 8, 1),
        .snd_buf_bytes = judge->last.socket.snd_buf_bytes,
        .rcv_buf_bytes = judge->last.socket.rcv_buf_bytes,
        .in_flight_bytes = ab_tcpinfo_flight_bytes(info),
        .cwnd_bytes = (uint64_t)info->cwnd_packets * info->mss_bytes,
        .peer_window_bytes = info->peer_window_bytes,
        .notsent_bytes = info->notsent_bytes,
        .pacing_bit_per_s = live->set_bit_per_s,
        .sent_bytes = info->acked_bytes,
        .received_bytes = info->received_bytes,
        .packet_bytes = info->packet_bytes,
        .resent_permille = info->sent_bytes ? (uint32_t)ab_mul_div(info->resent_bytes, 1000, info->sent_bytes) : 0,
    };
}

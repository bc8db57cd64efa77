/* SPDX-License-Identifier: MIT */
/* autobuf_ftp_*(): the client, which measures, and sends the result to the server. */
#include "ftp.h"

#include <errno.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../icmp/probe.h"
#include "../plan/plan.h"

#define INBAND_ROUND_TRIPS 8U /* up to 7 of an exchange, and SET */

/* With AUTOBUF_FTP_BY_INBAND over the control connection, otherwise by echoes. */
static bool is_worth(const struct autobuf_ftp *f, uint32_t ways, uint32_t direction, uint64_t expected_bytes,
                     struct autobuf_probe_options *range)
{
    const bool asked = ways & AUTOBUF_FTP_BY_INBAND && f->inband;
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    struct autobuf_limits limits;
    struct ab_worth worth = {
        .limits = &limits,
        .peer_sets = ways & (AUTOBUF_FTP_BY_INBAND | AUTOBUF_FTP_PEER_SETS),
        .peer_max_bytes = asked ? f->inband->initiator.peer_max_bytes[direction != AUTOBUF_INTENT_SENDS] : 0,
        .direction = direction,
        .round_trips = ways & AUTOBUF_FTP_BY_INBAND ? INBAND_ROUND_TRIPS : AB_MEASURING_ROUND_TRIPS,
        .expected_bytes = expected_bytes,
    };

    autobuf_socket_state(f->fd, &state);
    worth.rtt_ns = ab_ns_or_unset(state.rtt_min_ns);
    return ab_ftp_limits(f, &limits) == 0 && ab_worth_measuring(&worth, &range->bdp_low_bytes, &range->bdp_high_bytes);
}

static bool is_worth_logged(const struct autobuf_ftp *f, uint32_t ways, uint32_t direction, uint64_t expected_bytes,
                            struct autobuf_probe_options *range)
{
    if (is_worth(f, ways, direction, expected_bytes, range))
        return true;
    ab_log(&f->log, direction == AUTOBUF_INTENT_SENDS
                        ? "not measured before the transfer: the server's window could not gain from it"
                        : "not measured: it would cost more time than it could save");
    return false;
}

void ab_ftp_learn(struct autobuf_ftp *f, uint32_t direction, const struct autobuf_path *path)
{
    const uint32_t snd_flags = AUTOBUF_PLAN_SND_AT_LEAST | AUTOBUF_PLAN_SND_ECHOED;
    uint32_t flags = direction == AUTOBUF_INTENT_SENDS ? snd_flags : AUTOBUF_PLAN_RCV_AT_LEAST;
    struct autobuf_path sure = *path;

    ab_path_forget_unsure(&sure);
    f->flags = (f->flags & ~flags) | (ab_plan_flags(&sure) & flags);
    f->rtt_ns = sure.rtt_min_ns;
    f->measured |= direction;
    if (direction & AUTOBUF_INTENT_SENDS)
        f->snd_wanted_bytes = autobuf_payload_bytes(sure.tx_bdp_bytes, sure.packet_bytes);
    if (direction & AUTOBUF_INTENT_RECEIVES)
        f->rcv_wanted_bytes = autobuf_payload_bytes(sure.rx_bdp_bytes, sure.packet_bytes);
}

static void log_path(const struct autobuf_ftp *f, const struct autobuf_path *path, uint32_t direction)
{
    bool sends = direction == AUTOBUF_INTENT_SENDS;

    ab_log(&f->log, "%s: %s%.1f Mbit/s, %.1f ms: %llu bytes, in %.0f ms for %llu bytes",
           sends ? "path to the server" : "path from the server",
           path->flags & (sends ? AUTOBUF_PATH_TX_AT_LEAST : AUTOBUF_PATH_RX_AT_LEAST) ? "at least "
                                                                                      : "",
           (double)(sends ? path->tx_rate_bit_per_s : path->rx_rate_bit_per_s) / 1e6,
           (double)path->rtt_min_ns / 1e6,
           (unsigned long long)(sends ? f->snd_wanted_bytes : f->rcv_wanted_bytes),
           (double)path->elapsed_ns / 1e6, (unsigned long long)path->cost_bytes);
}

/* Says HELLO once. Returns 1 if the server knows the exchange, 0 if it does not, or an error. */
static int say_hello(struct autobuf_ftp *f)
{
    int result;

    if (f->inband)
        return 1;
    result = ab_ftp_open_inband(f);
    if (result < 0) { /* nothing was sent yet */
        ab_log(&f->log, "not measured in band: %s", autobuf_strerror(result));
        f->unsupported = true;
        return 0;
    }
    f->inband->initiator.hello_only = true;
    result = ab_ftp_run(f);
    if (result == 1 && !autobuf_inband_greeted(f->inband)) {
        ab_log(&f->log, "the server does not know SITE AUTOBUF");
        ab_ftp_close_inband(f);
        f->unsupported = true;
        return 0;
    }
    return result;
}

/* Whether autotuning of a receiver with this host's limits does not reach such a window. */
static bool exceeds_autotuning(const struct autobuf_ftp *f, uint64_t window_bytes)
{
    struct autobuf_limits limits;
    uint64_t kernel_bytes = 0;

    if (ab_ftp_limits(f, &limits) == 0 && limits.flags & AUTOBUF_LIMITS_RCV_AUTOTUNING)
        kernel_bytes = AB_RCV_WINDOW(limits.tcp_rmem_max_bytes);
    return window_bytes > kernel_bytes;
}

/*
 * Sends the server the windows of each direction, unless it only receives, and its autotuning is probably enough.
 */
static int tell_server(struct autobuf_ftp *f)
{
    const struct ab_initiator *own = &f->inband->initiator;
    int result;

    if (!f->rcv_wanted_bytes && !exceeds_autotuning(f, f->snd_wanted_bytes)) {
        ab_log(&f->log, "the server is not asked to set anything: its kernel's receive window is large enough");
        return 1;
    }
    result = ab_inband_set(f->inband, autobuf_now_ns(), f->snd_wanted_bytes, f->rcv_wanted_bytes);
    if (result == 0)
        result = ab_ftp_run(f);
    if (result == 1 && own->has_set_answer)
        ab_log(&f->log, "the server sets: receive buffer %llu, send buffer %llu (0: left to its kernel)",
               (unsigned long long)own->set_answer[0], (unsigned long long)own->set_answer[1]);
    return result;
}

static int measure_inband(struct autobuf_ftp *f, uint32_t direction, uint64_t expected_bytes)
{
    struct autobuf_probe_options range = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int result = say_hello(f);

    if (result != 1)
        return result;
    if (!is_worth_logged(f, AUTOBUF_FTP_BY_INBAND, direction, expected_bytes, &range))
        return 0;
    result = ab_inband_begin(f->inband, autobuf_now_ns(),
                             direction == AUTOBUF_INTENT_SENDS ? AUTOBUF_INBAND_TX : AUTOBUF_INBAND_RX,
                             range.bdp_low_bytes, range.bdp_high_bytes);
    if (result == 0)
        result = ab_ftp_run(f);
    if (result != 1)
        return result;
    result = autobuf_inband_result(f->inband, &path);
    if (result < 0) {
        ab_log(&f->log, "nothing could be measured: %s", autobuf_strerror(result));
        f->measured |= direction;
        return 0;
    }
    ab_ftp_learn(f, direction, &path);
    log_path(f, &path, direction);
    return tell_server(f);
}

static int measure_icmp(struct autobuf_ftp *f, uint32_t ways, uint32_t direction, uint64_t expected_bytes)
{
    struct autobuf_probe_options probe = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int result;

    if (!is_worth_logged(f, ways & ~AUTOBUF_FTP_BY_INBAND, direction, expected_bytes, &probe))
        return 0;
    f->measured |= direction;
    probe.silence_ns = AB_SILENCE_NS;
    probe.log = f->options.log;
    probe.log_user = f->options.log_user;
    result = ab_probe_like(f->fd, (struct sockaddr *)&f->peer, sizeof f->peer, &probe, &path);
    if (result < 0) {
        ab_log(&f->log, "not measured: %s", autobuf_strerror(result));
        return 0;
    }
    ab_ftp_learn(f, direction, &path);
    log_path(f, &path, direction);
    return 1;
}

static bool is_valid_request(const struct autobuf_ftp *f, uint32_t ways, uint32_t direction)
{
    const uint32_t known = AUTOBUF_FTP_BY_INBAND | AUTOBUF_FTP_BY_ICMP | AUTOBUF_FTP_PEER_SETS;

    return f && f->role == AUTOBUF_FTP_CLIENT && !(ways & ~known) &&
           (direction == AUTOBUF_INTENT_SENDS || direction == AUTOBUF_INTENT_RECEIVES);
}

int autobuf_ftp_worth(const struct autobuf_ftp *f, uint32_t ways, uint32_t direction, uint64_t expected_bytes)
{
    struct autobuf_probe_options range = AUTOBUF_PROBE_OPTIONS_INIT;

    if (!is_valid_request(f, ways, direction))
        return -EINVAL;
    if (f->measured & direction)
        return 0;
    if (f->unsupported)
        ways &= ~AUTOBUF_FTP_BY_INBAND;
    return ways & (AUTOBUF_FTP_BY_INBAND | AUTOBUF_FTP_BY_ICMP) && is_worth(f, ways, direction, expected_bytes, &range);
}

int autobuf_ftp_measure(struct autobuf_ftp *f, uint32_t ways, uint32_t direction, uint64_t expected_bytes)
{
    struct autobuf_probe_options range = AUTOBUF_PROBE_OPTIONS_INIT;
    int result = 0;

    if (!is_valid_request(f, ways, direction))
        return -EINVAL;
    if (f->owner != getpid())
        return AUTOBUF_E_FORKED;
    f->may_probe = ways & AUTOBUF_FTP_BY_ICMP;
    if (f->measured & direction)
        return 0;
    if (ways & AUTOBUF_FTP_BY_INBAND && !f->unsupported) {
        if (f->inband || is_worth_logged(f, ways, direction, expected_bytes, &range))
            result = measure_inband(f, direction, expected_bytes);
        if (!f->unsupported)
            return result;
    }
    if (!(ways & AUTOBUF_FTP_BY_ICMP))
        return 0;
    return measure_icmp(f, ways, direction, expected_bytes);
}

uint64_t autobuf_ftp_peer_bytes(const struct autobuf_ftp *f, uint32_t direction)
{
    struct autobuf_limits limits;
    bool sends = direction == AUTOBUF_INTENT_SENDS;

    if (!f || f->role != AUTOBUF_FTP_CLIENT || !(f->measured & direction) || f->inband ||
        ab_ftp_limits(f, &limits) < 0)
        return 0;
    return ab_worth_request(&limits, sends ? AUTOBUF_INTENT_RECEIVES : AUTOBUF_INTENT_SENDS,
                            sends ? f->snd_wanted_bytes : f->rcv_wanted_bytes);
}

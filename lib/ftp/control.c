/* SPDX-License-Identifier: MIT */
/* autobuf_ftp_*(): the session over the control connection. */
#include "ftp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "../base/address.h"
#include "../base/clock.h"
#include "../measure/inband.h"
#include "../measure/like.h"
#include "../measure/limits.h"
#include "../measure/wait.h"
#include "../plan/plan.h"
#include "worth.h"

#define COMMAND "SITE AUTOBUF"
#define INBAND_ROUND_TRIPS 8U
#define ICMP_ROUND_TRIPS 3U
#define SILENCE_NS (300 * AB_NS_PER_MS)

int ab_ftp_limits(const struct autobuf_ftp *f, struct autobuf_limits *limits)
{
    int error;

    *limits = f->host;
    error = ab_limits_retry(limits);
    if (error < 0 || !f->options.most_bytes)
        return error;
    limits->flags &= ~AUTOBUF_LIMITS_FORCE;
    limits->snd_settable_bytes = ab_min(limits->snd_settable_bytes, f->options.most_bytes);
    limits->rcv_settable_bytes = ab_min(limits->rcv_settable_bytes, f->options.most_bytes);
    return 0;
}

static int read_control(struct autobuf_ftp *f)
{
    struct sockaddr_storage peer = {0};
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    socklen_t len = sizeof peer;
    int error = autobuf_limits_socket(f->fd, &state);

    if (error < 0)
        return error;
    if (getpeername(f->fd, (struct sockaddr *)&peer, &len) < 0)
        return -errno;
    error = ab_address_copy((struct sockaddr *)&peer, len, &f->peer);
    return error < 0 ? error : autobuf_limits_host(&f->host);
}

int autobuf_ftp_open(struct autobuf_ftp **ftp, uint32_t role, int control_fd,
                     const struct autobuf_ftp_options *theirs)
{
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    struct autobuf_ftp *f;
    int error;

    *ftp = NULL;
    if ((theirs && !ab_struct_in(&options, sizeof options, theirs)) ||
        (role != AUTOBUF_FTP_CLIENT && role != AUTOBUF_FTP_SERVER) ||
        !options.read != !options.write)
        return -EINVAL;
    if (ab_is_off())
        return AUTOBUF_E_OFF;
    f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    f->role = role;
    f->options = options;
    f->log = (struct ab_log){options.log, options.log_user};
    f->owner = getpid();
    f->fd = control_fd;
    f->rtt_ns = AUTOBUF_NS_UNSET;
    f->host.size = sizeof f->host;
    error = read_control(f);
    if (error < 0) {
        free(f);
        return error;
    }
    *ftp = f;
    return 0;
}

static void close_inband(struct autobuf_ftp *f)
{
    if (f->inband && f->options.read && f->owner == getpid())
        autobuf_inband_restore(f->fd, f->prepared);
    autobuf_inband_close(f->inband);
    f->inband = NULL;
}

void autobuf_ftp_close(struct autobuf_ftp *f)
{
    if (!f)
        return;
    autobuf_ftp_data_end(f);
    close_inband(f);
    free(f);
}

/* ------------------------------------------------------------------------------ the exchange */

/* Facts of a connection whose every segment holds a record. */
static int tell_records(struct autobuf_ftp *f)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    int error = autobuf_inband_facts(f->fd, &facts);

    if (error == 0 && facts.segment_bytes > f->options.record_bytes)
        facts.segment_bytes -= f->options.record_bytes;
    return error < 0 ? error : autobuf_inband_tell(f->inband, &facts);
}

static int write_lines(struct autobuf_ftp *f, uint64_t now_ns, const void *data, size_t len)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    uint64_t deadline_ns = autobuf_inband_deadline_ns(f->inband);
    int error = autobuf_inband_facts(f->fd, &facts);
    int64_t written;

    if (error < 0)
        return error;
    written = f->options.write(f->options.io_user, data, len,
                               facts.segment_bytes - ab_min(f->options.record_bytes,
                                                            facts.segment_bytes / 2),
                               deadline_ns);
    if (written <= 0)
        return written < 0 ? (int)written : -ECONNRESET;
    autobuf_inband_sent(f->inband, now_ns, ab_min((uint64_t)written, len));
    return 0;
}

static int read_lines(struct autobuf_ftp *f)
{
    char buf[16384];
    size_t wanted = ab_min(autobuf_inband_wanted(f->inband), sizeof buf);
    uint64_t stamp_ns = ab_clock_monotonic_ns();
    int64_t got;

    got = f->options.read(f->options.io_user, buf, wanted, autobuf_inband_deadline_ns(f->inband),
                          &stamp_ns);
    if (got > (int64_t)wanted)
        return -EINVAL;
    if (got >= 0) {
        tell_records(f);
        got = autobuf_inband_input(f->inband, stamp_ns, buf, (size_t)got);
    }
    return got < 0 ? (int)got : 0;
}

static int run_records(struct autobuf_ftp *f)
{
    int result;

    while ((result = autobuf_inband_state(f->inband)) == 0) {
        uint64_t now_ns = ab_clock_monotonic_ns();
        const void *data;
        size_t len = autobuf_inband_output(f->inband, now_ns, &data);

        if (len > 0)
            result = write_lines(f, now_ns, data, len);
        else if (autobuf_inband_state(f->inband) == 0)
            result = read_lines(f);
        if (result < 0)
            return result;
    }
    return result;
}

static int run_socket(struct autobuf_ftp *f)
{
    int result;

    while ((result = autobuf_inband_step(f->inband, ab_clock_monotonic_ns())) == 0) {
        result = ab_wait(f->fd, autobuf_inband_events(f->inband),
                         autobuf_inband_deadline_ns(f->inband));
        if (result < 0)
            return result;
    }
    return result;
}

/* Until it is over: 1, and the control connection is the program's again; or an error. */
static int run(struct autobuf_ftp *f)
{
    int result = f->options.read ? run_records(f) : run_socket(f);

    if (result < 0)
        close_inband(f);
    return result;
}

static int open_records(struct autobuf_ftp *f, uint32_t role,
                        const struct autobuf_inband_options *options)
{
    int error = autobuf_inband_open_pure(&f->inband, role, ab_clock_monotonic_ns(), options);

    if (error == 0)
        error = tell_records(f);
    if (error == 0)
        error = f->prepared = autobuf_inband_prepare(f->fd);
    if (error < 0) {
        autobuf_inband_close(f->inband);
        f->inband = NULL;
        return error;
    }
    return 0;
}

static int open_inband(struct autobuf_ftp *f, struct autobuf_inband_options *options)
{
    uint32_t role = f->role == AUTOBUF_FTP_CLIENT ? AUTOBUF_INBAND_INITIATOR
                                                  : AUTOBUF_INBAND_RESPONDER;

    options->dress = AUTOBUF_INBAND_FTP;
    options->log = f->options.log;
    options->log_user = f->options.log_user;
    return f->options.read ? open_records(f, role, options)
                           : autobuf_inband_open(&f->inband, role, f->fd, options);
}

/* -------------------------------------------------------------------------------- the client */

static uint64_t control_rtt_ns(const struct autobuf_ftp *f)
{
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;

    return autobuf_limits_socket(f->fd, &state) == 0 ? state.rtt_min_ns : 0;
}

static bool pays(const struct autobuf_ftp *f, uint32_t direction, uint32_t round_trips,
                 uint64_t peer_snd_most_bytes, uint64_t expected_bytes,
                 struct autobuf_probe_options *interest)
{
    struct autobuf_limits limits;
    struct ab_worth worth = {
        .limits = &limits,
        .peer_snd_most_bytes = peer_snd_most_bytes,
        .rtt_ns = control_rtt_ns(f),
        .direction = direction,
        .round_trips = round_trips,
        .expected_bytes = expected_bytes,
    };

    if (ab_ftp_limits(f, &limits) == 0 &&
        ab_worth_measuring(&worth, &interest->bdp_low_bytes, &interest->bdp_high_bytes))
        return true;
    ab_log(&f->log, "not measured: no likely result could pay for the wait");
    return false;
}

static void learn(struct autobuf_ftp *f, uint32_t direction, const struct autobuf_path *path)
{
    f->rtt_ns = path->rtt_min_ns;
    f->measured |= direction;
    if (direction & AUTOBUF_INTENT_SENDS)
        f->snd_wanted_bytes = autobuf_payload_bytes(path->tx_bdp_bytes, path->packet_bytes);
    if (direction & AUTOBUF_INTENT_RECEIVES)
        f->rcv_wanted_bytes = autobuf_payload_bytes(path->rx_bdp_bytes, path->packet_bytes);
}

static void log_path(const struct autobuf_ftp *f, const struct autobuf_path *path,
                     uint32_t direction)
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

/* Says HELLO, once. 1: the server knows the exchange; 0: it does not; or an error. */
static int greet(struct autobuf_ftp *f)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    uint64_t rcv_bytes, snd_bytes;
    int result;

    if (f->inband)
        return 1;
    options.flags = AUTOBUF_INBAND_GREET;
    result = open_inband(f, &options);
    if (result == 0)
        result = run(f);
    if (result == 1 && autobuf_inband_peer(f->inband, &rcv_bytes, &snd_bytes) < 0) {
        ab_log(&f->log, "the server does not know SITE AUTOBUF");
        close_inband(f);
        f->mute = true;
        return 0;
    }
    return result;
}

/* Tells the server what each direction needs of it. */
static int tell_server(struct autobuf_ftp *f)
{
    uint64_t rcv_bytes, snd_bytes;
    int result = autobuf_inband_set(f->inband, ab_clock_monotonic_ns(), f->snd_wanted_bytes,
                                    f->rcv_wanted_bytes);

    if (result == 0)
        result = run(f);
    if (result == 1 && autobuf_inband_took(f->inband, &rcv_bytes, &snd_bytes) == 0)
        ab_log(&f->log, "the server sets: receive %llu, send %llu (0: left to its kernel)",
               (unsigned long long)rcv_bytes, (unsigned long long)snd_bytes);
    return result;
}

static int measure_inband(struct autobuf_ftp *f, uint32_t direction, uint64_t expected_bytes)
{
    struct autobuf_probe_options interest = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    uint64_t rcv_bytes = 0, snd_bytes = 0;
    int result = greet(f);

    if (result != 1)
        return result;
    autobuf_inband_peer(f->inband, &rcv_bytes, &snd_bytes);
    if (!pays(f, direction, INBAND_ROUND_TRIPS, snd_bytes, expected_bytes, &interest))
        return 0;
    result = autobuf_inband_begin(f->inband, ab_clock_monotonic_ns(),
                                  direction == AUTOBUF_INTENT_SENDS ? AUTOBUF_INBAND_TX
                                                                    : AUTOBUF_INBAND_RX);
    if (result == 0)
        result = run(f);
    if (result != 1)
        return result;
    if (autobuf_inband_result(f->inband, &path) < 0) {
        ab_log(&f->log, "nothing could be measured");
        f->measured |= direction;
        return 0;
    }
    learn(f, direction, &path);
    log_path(f, &path, direction);
    return tell_server(f);
}

static int measure_icmp(struct autobuf_ftp *f, uint32_t direction, uint64_t expected_bytes)
{
    struct autobuf_probe_options probe = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int result;

    if (!pays(f, direction, ICMP_ROUND_TRIPS, 0, expected_bytes, &probe))
        return 0;
    f->measured |= direction;
    probe.silence_ns = SILENCE_NS;
    probe.log = f->options.log;
    probe.log_user = f->options.log_user;
    result = ab_probe_like(f->fd, (struct sockaddr *)&f->peer, sizeof f->peer, &probe, &path);
    if (result < 0) {
        ab_log(&f->log, "not measured: %s", autobuf_strerror(result));
        return 0;
    }
    learn(f, direction, &path);
    log_path(f, &path, direction);
    return 1;
}

int autobuf_ftp_measure(struct autobuf_ftp *f, uint32_t ways, uint32_t direction,
                        uint64_t expected_bytes)
{
    struct autobuf_probe_options interest = AUTOBUF_PROBE_OPTIONS_INIT;
    int result = 0;

    if (f->role != AUTOBUF_FTP_CLIENT ||
        ways & ~(AUTOBUF_FTP_BY_INBAND | AUTOBUF_FTP_BY_ICMP) ||
        (direction != AUTOBUF_INTENT_SENDS && direction != AUTOBUF_INTENT_RECEIVES))
        return -EINVAL;
    if (f->owner != getpid())
        return AUTOBUF_E_FORKED;
    if (f->measured & direction)
        return 0;
    if (ways & AUTOBUF_FTP_BY_INBAND && !f->mute) {
        if (f->inband || pays(f, direction, INBAND_ROUND_TRIPS, 0, expected_bytes, &interest))
            result = measure_inband(f, direction, expected_bytes);
        if (!f->mute)
            return result;
    }
    return ways & AUTOBUF_FTP_BY_ICMP ? measure_icmp(f, direction, expected_bytes) : 0;
}

uint64_t autobuf_ftp_peer_bytes(const struct autobuf_ftp *f, uint32_t direction)
{
    struct autobuf_limits limits;
    bool sends = direction == AUTOBUF_INTENT_SENDS;

    if (f->role != AUTOBUF_FTP_CLIENT || !(f->measured & direction) || f->inband ||
        ab_ftp_limits(f, &limits) < 0)
        return 0;
    return ab_worth_request(&limits, sends ? AUTOBUF_INTENT_RECEIVES : AUTOBUF_INTENT_SENDS,
                            sends ? f->snd_wanted_bytes : f->rcv_wanted_bytes);
}

/* -------------------------------------------------------------------------------- the server */

/* What a client wants is a wish: what takes effect is what this host's limits make useful. */
static void hear_wish(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes)
{
    struct autobuf_ftp *f = user;
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    struct autobuf_limits limits;
    struct autobuf_plan plan;

    f->rcv_wanted_bytes = *rcv_bytes;
    f->snd_wanted_bytes = *snd_bytes;
    *rcv_bytes = *snd_bytes = 0;
    if (ab_ftp_limits(f, &limits) < 0)
        return;
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, AUTOBUF_INTENT_THROUGHPUT, &plan);
    ab_plan_windows(f->snd_wanted_bytes, f->rcv_wanted_bytes, &limits, &socket, 0, &plan);
    *rcv_bytes = plan.rcv_request_bytes;
    *snd_bytes = plan.snd_request_bytes;
    ab_log(&f->log, "windows wanted: receive %llu, send %llu; set: receive %llu, send %llu",
           (unsigned long long)f->rcv_wanted_bytes, (unsigned long long)f->snd_wanted_bytes,
           (unsigned long long)*rcv_bytes, (unsigned long long)*snd_bytes);
}

static int open_responder(struct autobuf_ftp *f)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct autobuf_limits limits;
    int error = ab_ftp_limits(f, &limits);

    if (error < 0)
        return error;
    options.set = hear_wish;
    options.set_user = f;
    options.rcv_most_bytes = limits.rcv_settable_bytes;
    options.snd_most_bytes = limits.snd_settable_bytes;
    return open_inband(f, &options);
}

/* The command as the exchange reads it: verbs in capitals, ended by CRLF. 0: it is another one. */
static size_t normalise(const char *line, size_t len, char *to, size_t cap)
{
    size_t head = strlen(COMMAND);

    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    if (len < head || len + 2 > cap || strncasecmp(line, COMMAND, head) != 0 ||
        (len > head && line[head] != ' '))
        return 0;
    for (size_t i = 0; i < len; i++)
        to[i] = line[i] >= 'a' && line[i] <= 'z' ? (char)(line[i] - 'a' + 'A') : line[i];
    memcpy(to + len, "\r\n", 2);
    return len + 2;
}

int autobuf_ftp_answer(struct autobuf_ftp *f, const char *line, size_t len)
{
    char command[AB_LINE_BYTES];
    size_t command_bytes = normalise(line, len, command, sizeof command);
    int64_t result = 0;

    if (f->role != AUTOBUF_FTP_SERVER)
        return -EINVAL;
    if (f->owner != getpid())
        return AUTOBUF_E_FORKED;
    if (command_bytes == 0)
        return 0;
    if (!f->inband)
        result = open_responder(f);
    else if (f->options.read)
        tell_records(f);
    if (result == 0)
        result = autobuf_inband_input(f->inband, ab_clock_monotonic_ns(), command, command_bytes);
    return result < 0 ? (int)result : run(f);
}

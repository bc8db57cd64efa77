/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "print.h"
#include "privilege.h"

#define INDENT 3
#define NOISE 0.05 /* of a rate: two transfers of the same kind may differ by so much */
#define CONNECT_NS (5 * AB_NS_PER_S)
#define SHOW_NS (AB_NS_PER_S / 5)

static int probe_run(struct measurement *m, struct autobuf_probe *probe, struct autobuf_path *path)
{
    struct autobuf_probe_progress now = AUTOBUF_PROBE_PROGRESS_INIT;
    int result;

    while ((result = autobuf_probe_step(probe, autobuf_now_ns())) == 0) {
        if (m->progress && autobuf_probe_progress(probe, &now) == 0)
            fprintf(stderr, "\r\033[K%u trains, %u of %u answered, %sB sent", now.trains, now.received_packets,
                    now.sent_packets, SCALED(now.cost_bytes));
        result = ab_wait(autobuf_probe_fd(probe), autobuf_probe_events(probe), autobuf_probe_deadline_ns(probe));
        if (result < 0)
            break;
    }
    if (m->progress)
        fputs("\r\033[K", stderr);
    if (result < 0)
        return result;
    result = autobuf_probe_result(probe, path);
    if (m->available.size)
        (void)autobuf_probe_available(probe, &m->available);
    m->reading_count = ab_min_size(autobuf_probe_rates(probe, m->readings, READINGS), READINGS);
    return result == AUTOBUF_E_FEW ? 0 : result;
}

static bool can_reach(const struct source *source, const struct addrinfo *to)
{
    return !source->len || source->address.ss_family == to->ai_family;
}

static int probe_open_to(const struct arguments *want, const struct measurement *m, const struct addrinfo *to,
                         struct autobuf_probe **probe)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct source source = m->source;

    if (!can_reach(&source, to))
        return -EADDRNOTAVAIL;
    if (want->keep_source && !source.len) {
        int error = source_towards(to->ai_addr, to->ai_addrlen, &source);

        if (error < 0)
            return error;
    }
    options.budget_bytes = (uint32_t)want->budget_bytes;
    options.timeout_ns = want->timeout_ns;
    options.flags = want->available ? AUTOBUF_PROBE_AVAILABLE : 0;
    options.source = source.len ? (const struct sockaddr *)&source.address : NULL;
    options.source_len = source.len;
    memcpy(options.device, source.device, sizeof options.device);
    return autobuf_probe_open(probe, to->ai_addr, to->ai_addrlen, &options);
}

static int probe_open(const struct arguments *want, struct measurement *m, struct autobuf_probe **probe)
{
    struct addrinfo *list;
    int result = resolve(want->operand, NULL, (int)want->family, 0, &list);

    if (result < 0)
        return result;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        result = probe_open_to(want, m, a, probe);
        m->peer_len = a->ai_addrlen <= sizeof m->peer ? a->ai_addrlen : 0;
        memcpy(&m->peer, a->ai_addr, m->peer_len);
        if (result != -ENETUNREACH && result != -EADDRNOTAVAIL)
            break;
    }
    freeaddrinfo(list);
    return result;
}

int measure_echoes(const struct arguments *want, struct measurement *m, struct autobuf_path *path)
{
    struct autobuf_probe *probe;
    int result = probe_open(want, m, &probe);

    if (result < 0)
        return result;
    m->available.size = want->available ? sizeof m->available : 0;
    result = drop_privileges(); /* the socket is open */
    if (result == 0)
        result = probe_run(m, probe, path);
    autobuf_probe_close(probe);
    return result;
}

/* connect(2) of a socket that does not block, with a deadline. 0; -ETIMEDOUT; errors of connect(2). */
static int connect_until(int fd, const struct sockaddr *peer, socklen_t peer_len, uint64_t until_ns)
{
    struct pollfd p = {fd, POLLOUT, 0};
    struct timespec t = ab_time_until(until_ns);
    int error = 0, ready;
    socklen_t len = sizeof error;

    if (connect(fd, peer, peer_len) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    ready = ppoll(&p, 1, &t, NULL);
    if (ready <= 0)
        return ready < 0 ? -errno : -ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return -error;
}

/*
 * Connects to the first address that answers. Returns its descriptor, or the error of the last one. Each address
 * has its share of the time.
 */
static int connect_any(const struct addrinfo *list, const struct source *source, uint64_t timeout_ns)
{
    int error = -EADDRNOTAVAIL;
    unsigned addresses = 0;

    for (const struct addrinfo *a = list; a; a = a->ai_next)
        addresses += can_reach(source, a);
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        uint64_t until_ns;
        int fd;

        if (!can_reach(source, a))
            continue;
        until_ns = autobuf_now_ns() + timeout_ns / addresses;
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            error = -errno;
            continue;
        }
        error = source_bind(fd, source);
        if (error == 0)
            error = connect_until(fd, a->ai_addr, a->ai_addrlen, until_ns);
        if (error == 0)
            return fd;
        close(fd);
    }
    return error;
}

/* autobuf_inband(), but for the progress. */
static int measure_over(int fd, struct measurement *m, const struct autobuf_inband_options *options,
                        struct autobuf_path *path)
{
    struct autobuf_path so_far = AUTOBUF_PATH_INIT;
    struct autobuf_inband *inband;
    int result = autobuf_inband_open(&inband, AUTOBUF_INBAND_INITIATOR, fd, options);

    if (result < 0)
        return result;
    while ((result = autobuf_inband_step(inband, autobuf_now_ns())) == 0) {
        if (m->progress) {
            autobuf_inband_result(inband, &so_far);
            fprintf(stderr, "\r\033[K%sB sent, %u arrivals", SCALED(so_far.cost_bytes), so_far.samples);
        }
        result = ab_wait(autobuf_inband_fd(inband), autobuf_inband_events(inband), autobuf_inband_deadline_ns(inband));
        if (result < 0)
            break;
    }
    if (m->progress)
        fputs("\r\033[K", stderr);
    if (result == 1)
        result = autobuf_inband_result(inband, path);
    m->greeted = autobuf_inband_greeted(inband);
    autobuf_inband_close(inband);
    return result;
}

int measure_server(const struct arguments *want, struct measurement *m, struct autobuf_path *path)
{
    struct addrinfo *list;
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    int fd, result = drop_privileges();

    if (result == 0)
        result = resolve(want->host_name, want->port, (int)want->family, 0, &list);
    if (result < 0)
        return result;
    fd = connect_any(list, &m->source, want->timeout_ns);
    freeaddrinfo(list);
    if (fd < 0)
        return fd;
    m->peer_len = sizeof m->peer;
    if (getpeername(fd, (struct sockaddr *)&m->peer, &m->peer_len) < 0)
        m->peer_len = 0;
    options.timeout_ns = want->timeout_ns;
    m->socket = (struct autobuf_socket)AUTOBUF_SOCKET_INIT;
    (void)autobuf_socket_state(fd, &m->socket);
    result = measure_over(fd, m, &options, path);
    close(fd);
    return result == AUTOBUF_E_FEW ? 0 : result;
}

void show_free(FILE *out, const struct autobuf_available *found)
{
    struct autobuf_available there = *found, back = *found;
    char text[AVAILABLE_BYTES];

    if (found->flags & AUTOBUF_AVAILABLE_ECHOED) {
        fprintf(out, "%-25s%s\n", "free, worse direction", available_words(text, found));
        return;
    }
    there.over_ns = there.tx_low_bit_per_s || there.tx_high_bit_per_s ? found->over_ns : 0;
    fprintf(out, "%-25s%s\n", "free there", available_words(text, &there));
    back.tx_low_bit_per_s = found->rx_low_bit_per_s;
    back.tx_high_bit_per_s = found->rx_high_bit_per_s;
    back.over_ns = back.tx_low_bit_per_s || back.tx_high_bit_per_s ? found->over_ns : 0;
    fprintf(out, "%-25s%s\n", "free back", available_words(text, &back));
}

static const char *const names[TRANSFERS] = {"sending, default", "sending, tuned", "receiving, default",
                                             "receiving, tuned"};

void show_transfer_progress(FILE *out, struct transfer_picture *p, const struct transfer *t, uint64_t now_ns)
{
    static const char heights[] = " .:-=+*#%@"; /* of a rate, beside the highest one */
    uint64_t bytes = t->sends ? t->state.sent_bytes : t->moved_bytes, last_ns = p->shown_ns ? p->shown_ns : p->begin_ns;
    uint64_t most = 1;
    char line[PICTURE_COLUMNS + 1] = "", rtt[64] = "";

    memmove(p->rates, p->rates + 1, sizeof p->rates - sizeof *p->rates);
    p->rates[PICTURE_COLUMNS - 1] = 0;
    if (now_ns > last_ns && bytes > p->bytes)
        p->rates[PICTURE_COLUMNS - 1] = (uint64_t)((double)(bytes - p->bytes) * 8e9 / (double)(now_ns - last_ns));
    p->bytes = bytes;
    p->shown_ns = now_ns;
    for (unsigned i = 0; i < PICTURE_COLUMNS; i++)
        most = ab_max(p->rates[i], most);
    for (unsigned i = 0; i < PICTURE_COLUMNS; i++)
        line[i] = heights[(size_t)((double)p->rates[i] * (double)(sizeof heights - 2) / (double)most)];
    if (t->sends && t->state.rtt_ns != AUTOBUF_NS_UNSET)
        snprintf(rtt, sizeof rtt, ", %sB, %.1f ms", SCALED(t->state.in_flight_bytes), (double)t->state.rtt_ns / 1e6);
    fprintf(out, "\r\033[K%-18s %2.0f s |%s| %sbit/s%s", names[(t->sends ? 0 : 2) + t->tuned],
            (double)(now_ns - p->begin_ns) / 1e9, line, SCALED(p->rates[PICTURE_COLUMNS - 1]), rtt);
}

const char *show_transfer_why(int error, uint64_t code)
{
    if (error != AUTOBUF_E_UNSUPPORTED)
        return error == -ECONNRESET ? "the server closed the connection" : autobuf_strerror(error);
    return code == TRANSFER_BUSY      ? "the server is busy with other transfers"
           : code == TRANSFER_REFUSED ? "the server allows no transfers (autobuf serve --transfer SECONDS does)"
                                      : "the server does not know transfers: its autobuf is older";
}

/*
 * What limits a direction, as its sender sees it: briefly; while this host sends; while the server does. No line that
 * transfer_line_parse() takes names another.
 */
static const struct {
    const char *name, *sending, *receiving;
} limits[TRANSFER_BOTTLENECKS] = {
    [AUTOBUF_BOTTLENECK_PATH] = {"path", "the path", "the path"},
    [AUTOBUF_BOTTLENECK_SND_BUFFER] = {"send buffer", "the send buffer of this host", "the server's send buffer"},
    [AUTOBUF_BOTTLENECK_PEER] = {"peer's window", "the server's receive window", "the receive window of this host"},
    [AUTOBUF_BOTTLENECK_SENDER] = {"program", "this host's processor",
                                   "the server, by its rate (--rate) or its processor,"},
    [AUTOBUF_BOTTLENECK_STALLED] = {"stalled", NULL, NULL},
};

static void show_cell(FILE *out, int columns, const char *unit, uint64_t value)
{
    char text[40] = "-";

    if (value)
        snprintf(text, sizeof text, "%s%s", SCALED(value), unit);
    fprintf(out, "%*s", columns, text);
}

static void show_row(FILE *out, const char *title, const struct transfer_result *r)
{
    const uint64_t *seen = r->sender.values;
    const char *name = limits[seen[TRANSFER_BOTTLENECK]].name;
    char text[128];

    if (r->error < 0) {
        snprintf(text, sizeof text, "%-19s%s\n", title, show_transfer_why(r->error, r->code));
        print_folded(out, text, INDENT);
        return;
    }
    fprintf(out, "%-19s", title);
    show_cell(out, 13, "bit/s", r->rate_bit_per_s);
    show_cell(out, 10, "B", seen[TRANSFER_WINDOW]);
    snprintf(text, sizeof text, "%.*f/%.*f ms", seen[TRANSFER_RTT_MEAN] < 100000000 ? 1 : 0,
             (double)seen[TRANSFER_RTT_MEAN] / 1e6, seen[TRANSFER_RTT_MIN] < 100000000 ? 1 : 0,
             (double)seen[TRANSFER_RTT_MIN] / 1e6);
    fprintf(out, "%15s", seen[TRANSFER_RTT_MEAN] ? text : "-");
    scaled(text, seen[TRANSFER_RESENT]);
    text[strcspn(text, " ")] = seen[TRANSFER_RESENT] < 1000 ? '\0' : ' '; /* no unit follows */
    fprintf(out, "%8s  %s\n", seen[TRANSFER_RTT_MEAN] ? text : "-", name ? name : "-");
}

static const char *limit_words(const struct transfer_result *r)
{
    uint64_t limit = r->sender.values[TRANSFER_BOTTLENECK];
    const char *words = r->receives ? limits[limit].receiving : limits[limit].sending;

    return words ? words : "something unknown";
}

/* "sending: 1.74 times the rate: the send buffer of this host was the limit of the default." Never rounds up. */
static void show_gain(FILE *out, const struct transfer_result *without, const struct transfer_result *with)
{
    uint64_t was = without->sender.values[TRANSFER_BOTTLENECK];
    const char *way = without->receives ? "receiving" : "sending";
    double times, shown;
    char text[256];

    if (without->error < 0 || with->error < 0)
        return;
    times = (double)with->rate_bit_per_s / (double)without->rate_bit_per_s;
    shown = (double)(uint64_t)(times * 100) / 100;
    if (times <= 1 - NOISE)
        snprintf(text, sizeof text,
                 "%s: %.2f times the rate: slower; other traffic or chance may be why: run it again\n", way, shown);
    else if (times < 1 + NOISE)
        snprintf(text, sizeof text, "%s: no gain: %s was the limit\n", way, limit_words(with));
    else if (was == AUTOBUF_BOTTLENECK_SND_BUFFER || was == AUTOBUF_BOTTLENECK_PEER)
        snprintf(text, sizeof text, "%s: %.2f times the rate: %s was the limit of the default\n", way, shown,
                 limit_words(without));
    else
        snprintf(text, sizeof text,
                 "%s: %.2f times the rate, but no window was the limit of the default: other traffic, or chance\n",
                 way, shown);
    print_folded(out, text, INDENT);
}

void show_transfers(FILE *out, const struct transfer_result results[TRANSFERS], uint64_t seconds)
{
    char title[32];

    snprintf(title, sizeof title, "transfers of %" PRIu64 " s", seconds);
    fprintf(out, "%-19s%13s%10s%15s%8s  %s\n", title, "rate", "in flight", "rtt mean/least", "resent", "limited by");
    for (unsigned i = 0; i < TRANSFERS; i++)
        show_row(out, names[i], &results[i]);
    show_gain(out, &results[SENDING_DEFAULT], &results[SENDING_TUNED]);
    show_gain(out, &results[RECEIVING_DEFAULT], &results[RECEIVING_TUNED]);
}

void show_transfers_json(FILE *out, const struct transfer_result results[TRANSFERS])
{
    fputs("\"transfers\":[", out);
    for (unsigned i = 0; i < TRANSFERS; i++) {
        const struct transfer_result *r = &results[i];
        const uint64_t *seen = r->sender.values;

        fputs(i ? ",{" : "{", out);
        json_string(out, "direction", r->receives ? "receive" : "send");
        json_bool(out, "tuned", r->tuned);
        json_number(out, "rate_bit_per_s", r->rate_bit_per_s, r->error < 0);
        json_number(out, "bytes", r->bytes, r->error < 0);
        json_number(out, "elapsed_ns", r->elapsed_ns, r->error < 0);
        json_number(out, "in_flight_bytes", seen[TRANSFER_WINDOW], r->error < 0 || !seen[TRANSFER_WINDOW]);
        json_number(out, "rtt_mean_ns", seen[TRANSFER_RTT_MEAN], r->error < 0 || !seen[TRANSFER_RTT_MEAN]);
        json_number(out, "rtt_min_ns", seen[TRANSFER_RTT_MIN], r->error < 0 || !seen[TRANSFER_RTT_MIN]);
        json_number(out, "retransmits", seen[TRANSFER_RESENT], r->error < 0 || !seen[TRANSFER_RTT_MEAN]);
        json_string(out, "limited", r->error < 0 ? NULL : autobuf_bottleneck_name((uint32_t)seen[TRANSFER_BOTTLENECK]));
        fputs("\"error\":", out);
        json_text(out, r->error < 0 ? show_transfer_why(r->error, r->code) : NULL);
        fputc('}', out);
    }
    fputs("],", out);
}

/* Steps until it is over, and shows how it goes on. */
static int run(struct transfer *t, bool progress)
{
    struct transfer_picture picture = {.begin_ns = autobuf_now_ns()};
    uint64_t show_ns = progress ? picture.begin_ns + SHOW_NS : AUTOBUF_NS_UNSET;
    int result = 0;

    while (result == 0) {
        uint64_t now_ns = autobuf_now_ns();

        result = transfer_step(t, now_ns, TRANSFER_CHUNK_BYTES);
        if (result != 0)
            break;
        if (now_ns >= show_ns) {
            show_transfer_progress(stderr, &picture, t, now_ns);
            show_ns = now_ns + SHOW_NS;
        }
        result = ab_wait(t->fd, transfer_events(t, true, now_ns), ab_min(show_ns, transfer_deadline_ns(t)));
    }
    if (progress)
        fputs("\r\033[K", stderr);
    return result < 0 ? result : 0;
}

/* One transfer on a new socket, with the options of its flow, if it is tuned. */
static int make(int fd, const struct measurement *m, struct autobuf_options *options, bool progress, uint64_t *seconds,
                struct transfer_result *r)
{
    const struct sockaddr *peer = (const struct sockaddr *)&m->peer;
    struct transfer_line ask = {.verb = TRANSFER_ASK, .number = *seconds};
    struct autobuf_flow *flow = NULL;
    struct transfer t;
    const uint64_t *arrived;
    int error = source_bind(fd, &m->source);

    ask.values[TRANSFER_RECEIVE] = r->receives;
    ask.values[TRANSFER_TUNED] = r->tuned;
    if (error == 0 && r->tuned) /* as a linked program does before connect() */
        error = autobuf_flow_open(&flow, fd, peer, m->peer_len, options);
    if (error == 0)
        error = connect_until(fd, peer, m->peer_len, autobuf_now_ns() + CONNECT_NS);
    if (error < 0) {
        autobuf_flow_close(flow);
        return error;
    }
    error = transfer_open(&t, fd, false, &ask, flow, autobuf_now_ns());
    if (error == 0)
        error = run(&t, progress);
    r->code = t.code;
    *seconds = t.seconds;
    r->sender = *transfer_senders(&t);
    arrived = (r->receives ? &t.own : &t.peers)->values;
    r->bytes = arrived[TRANSFER_BYTES];
    r->elapsed_ns = arrived[TRANSFER_NSEC];
    r->rate_bit_per_s = transfer_rate(&t);
    transfer_close(&t);
    return error == 0 && !r->rate_bit_per_s ? AUTOBUF_E_NOREPLY : error;
}

uint64_t transfers_run(const struct arguments *want, const struct measurement *m, const struct autobuf_path *path,
                       struct transfer_result results[TRANSFERS])
{
    bool progress = !want->json && isatty(STDERR_FILENO);
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    uint64_t seconds = want->transfer_seconds;

    options.flags = AUTOBUF_FLOW_SILENT; /* also where one direction of the path is unknown */
    options.path = path;
    for (unsigned i = 0; i < TRANSFERS; i++) {
        struct transfer_result *r = &results[i];
        int fd;

        if (i > 0 && results[i - 1].error == AUTOBUF_E_UNSUPPORTED) {
            r->error = results[i - 1].error;
            r->code = results[i - 1].code;
        }
        r->receives = i >= RECEIVING_DEFAULT;
        r->tuned = i % 2;
        if (r->error < 0)
            continue;
        options.intent = want->intent | (r->receives ? AUTOBUF_INTENT_RECEIVES : AUTOBUF_INTENT_SENDS);
        fd = socket(m->peer.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        r->error = fd < 0 ? -errno : make(fd, m, &options, progress, &seconds, r);
        if (fd >= 0)
            close(fd);
    }
    return seconds;
}

/* What is known of the capacity of a direction. */
static struct ab_search search_of(uint64_t low, uint64_t high, bool at_least)
{
    return (struct ab_search){.capacity_low_bit_per_s = low, .capacity_high_bit_per_s = at_least ? 0 : high};
}

/* Runs one search to its end; t->paced is NULL: it opens the first stretch of the connection. */
static int search(struct transfer *t, int fd, bool receive, struct ab_search *s)
{
    struct ab_stretch how;

    while (ab_search_next(s, &how)) {
        struct transfer_line ask = {.verb = TRANSFER_ASK};
        int error;

        ask.values[TRANSFER_RECEIVE] = receive;
        ask.values[TRANSFER_PACE] = how.pace_bit_per_s;
        ask.values[TRANSFER_LOW] = how.capacity_low_bit_per_s;
        ask.values[TRANSFER_HIGH] = how.capacity_high_bit_per_s;
        error = t->paced ? transfer_again(t, &ask, autobuf_now_ns())
                         : transfer_open(t, fd, false, &ask, NULL, autobuf_now_ns());
        if (error == 0)
            error = run(t, false);
        if (error < 0)
            return error;
        ab_search_take(s, how.pace_bit_per_s, t->paced->until_ns != AUTOBUF_NS_UNSET, &t->free);
    }
    return 0;
}

int measure_free(const struct measurement *m, const struct autobuf_path *path, struct autobuf_available *found,
                 uint64_t *code)
{
    struct ab_search tx = search_of(path->tx_rate_low_bit_per_s, path->tx_rate_high_bit_per_s,
                                    path->flags & AUTOBUF_PATH_TX_AT_LEAST);
    struct ab_search rx = search_of(path->rx_rate_low_bit_per_s, path->rx_rate_high_bit_per_s,
                                    path->flags & AUTOBUF_PATH_RX_AT_LEAST);
    int fd = socket(m->peer.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct transfer t = {.paced = NULL};
    int error = fd < 0 ? -errno : source_bind(fd, &m->source);

    if (error == 0)
        error = connect_until(fd, (const struct sockaddr *)&m->peer, m->peer_len, autobuf_now_ns() + CONNECT_NS);
    if (error == 0)
        error = search(&t, fd, false, &tx);
    if (error == 0)
        error = search(&t, fd, true, &rx);
    *code = t.code;
    transfer_close(&t);
    if (fd >= 0)
        close(fd);
    ab_search_result(&tx, &rx, found);
    return error;
}

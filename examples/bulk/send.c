/* SPDX-License-Identifier: MIT */
/* bulk send: one transfer over one or more connections, and a report. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream.h"

struct transfer {
    struct request request;
    const char *host;
    const char *port;
    bool json;
    uint64_t begin_ns;
    struct stream stream[MAX_STREAMS];
};

struct outcome {
    uint64_t bytes;
    uint64_t elapsed_ns;
    struct trailer sender; /* of the sending end */
    uint64_t rcv_buf_bytes;
    double jain_index;     /* of the streams' bytes; 1: each moved as many (Jain, Chiu and Hawe 1984) */
};

static bool parse_number(const char *text, double most, uint64_t *value)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end || !(number > 0) || number > most)
        return false;
    *value = (uint64_t)number;
    return true;
}

static bool parse_tune(const char *text, struct request *r)
{
    if (strcmp(text, "none") == 0)
        r->tune = TUNE_NONE;
    else if (strcmp(text, "autobuf") == 0)
        r->tune = TUNE_AUTOBUF;
    else if (strcmp(text, "live") == 0)
        r->tune = TUNE_LIVE;
    else if (strncmp(text, "naive:", 6) == 0 && parse_number(text + 6, 1e9, &r->naive_bytes))
        r->tune = TUNE_NAIVE;
    else
        return false;
    return true;
}

static bool parse_one(int option, struct transfer *t)
{
    uint64_t value = 0;

    switch (option) {
    case 't':
        return parse_tune(optarg, &t->request);
    case 'i':
        t->request.intent = strcmp(optarg, "low-delay") == 0   ? AUTOBUF_INTENT_LOW_DELAY
                            : strcmp(optarg, "scavenger") == 0 ? AUTOBUF_INTENT_SCAVENGER
                                                               : AUTOBUF_INTENT_THROUGHPUT;
        return t->request.intent || strcmp(optarg, "throughput") == 0;
    case 's': {
        double seconds = atof(optarg);

        t->request.limit_ns = seconds > 0 && seconds <= 3600 ? (uint64_t)(seconds * 1e9) : 0;
        return t->request.limit_ns != 0;
    }
    case 'b':
        return parse_number(optarg, 1e15, &t->request.bytes);
    case 'k':
        if (!parse_number(optarg, MAX_STREAMS, &value))
            return false;
        t->request.streams = (uint32_t)value;
        return true;
    case 'c':
        snprintf(t->request.cc, sizeof t->request.cc, "%s", optarg);
        return strlen(optarg) < sizeof t->request.cc && optarg[0];
    case 'R':
        if (!parse_number(optarg, 1e12, &value))
            return false;
        t->request.byte_per_s = value / 8;
        return value >= 8;
    case 'r':
        return t->request.reverse = true;
    case 'p':
        t->port = optarg;
        return true;
    case 'j':
        return t->json = true;
    default:
        return false;
    }
}

static bool parse_arguments(int argc, char **argv, struct transfer *t)
{
    static const struct option options[] = {
        {"tune", required_argument, NULL, 't'},    {"intent", required_argument, NULL, 'i'},
        {"seconds", required_argument, NULL, 's'}, {"bytes", required_argument, NULL, 'b'},
        {"streams", required_argument, NULL, 'k'}, {"cc", required_argument, NULL, 'c'},
        {"reverse", no_argument, NULL, 'r'},       {"port", required_argument, NULL, 'p'},
        {"rate", required_argument, NULL, 'R'},
        {"json", no_argument, NULL, 'j'},          {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!parse_one(option, t))
            return false;
    }
    if (optind + 1 != argc || (t->request.bytes && t->request.limit_ns))
        return false;
    t->host = argv[optind];
    if (t->request.bytes && t->request.bytes < t->request.streams)
        t->request.streams = (uint32_t)t->request.bytes; /* for each stream a byte: 0 would be "no limit" */
    if (!t->request.bytes && !t->request.limit_ns)
        t->request.limit_ns = 10 * NS_PER_S;
    return true;
}

/* Begins to connect; all streams do at once. */
static int open_stream(struct transfer *t, size_t i, const struct addrinfo *peer)
{
    struct stream *s = &t->stream[i];
    int error;

    *s = (struct stream){.request = t->request, .phase = PHASE_DATA};
    s->sending = !t->request.reverse;
    s->fd = socket(peer->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0)
        return -errno;
    if (s->request.bytes)
        s->request.bytes = t->request.bytes / t->request.streams +
                           (i < t->request.bytes % t->request.streams);
    error = stream_tune(s, peer->ai_addr, peer->ai_addrlen, i == 0);
    if (error < 0)
        return error;
    return connect(s->fd, peer->ai_addr, peer->ai_addrlen) < 0 && errno != EINPROGRESS ? -errno : 0;
}

static int wait_connected(int fd)
{
    struct pollfd connected = {fd, POLLOUT, 0};
    socklen_t len = sizeof(int);
    int error = 0;

    while (poll(&connected, 1, -1) < 0)
        if (errno != EINTR)
            return -errno;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? -errno : -error;
}

/* Says what is wanted, once it is connected. */
static int ask(struct transfer *t, struct stream *s)
{
    char line[LINE_BYTES];
    uint64_t spent;
    size_t len;
    int error = wait_connected(s->fd);

    if (error < 0)
        return error;
    spent = autobuf_now_ns() - t->begin_ns;
    if (s->request.limit_ns)
        s->request.limit_ns -= s->request.limit_ns > spent ? spent : s->request.limit_ns - 1;
    len = request_format(&s->request, line);
    if (send(s->fd, line, len, MSG_NOSIGNAL) != (ssize_t)len)
        return -EPIPE;
    stream_begin(s, autobuf_now_ns());
    return 0;
}

static int open_all(struct transfer *t)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    int error = 0;

    if (getaddrinfo(t->host, t->port, &hints, &list) != 0)
        return AUTOBUF_E_RESOLVE;
    t->begin_ns = autobuf_now_ns(); /* before any measuring, after the resolver */
    for (size_t i = 0; error == 0 && i < t->request.streams; i++)
        error = open_stream(t, i, list);
    freeaddrinfo(list);
    for (size_t i = 0; error == 0 && i < t->request.streams; i++)
        error = ask(t, &t->stream[i]);
    return error;
}

static int pump(struct transfer *t)
{
    struct pollfd fds[MAX_STREAMS];
    size_t open;

    do {
        uint64_t now;

        for (size_t i = 0; i < t->request.streams; i++) {
            bool done = t->stream[i].phase == PHASE_DONE;

            fds[i] = (struct pollfd){done ? -1 : t->stream[i].fd, stream_events(&t->stream[i]), 0};
        }
        if (poll(fds, t->request.streams, 10) < 0 && errno != EINTR)
            return -errno;
        now = autobuf_now_ns();
        open = 0;
        for (size_t i = 0; i < t->request.streams; i++) {
            int error;

            if (t->stream[i].phase == PHASE_DONE)
                continue;
            error = stream_step(&t->stream[i], fds[i].revents, now);
            if (error < 0)
                return error;
            open += t->stream[i].phase != PHASE_DONE;
        }
        stream_share(t->stream, t->request.streams);
    } while (open);
    return 0;
}

/* Adds what a sender knows to the outcome: the minimum RTT, the mean of the mean RTTs. */
static void add_sender(struct outcome *o, const struct trailer *t, size_t streams)
{
    if (t->rtt_min_ns && (!o->sender.rtt_min_ns || t->rtt_min_ns < o->sender.rtt_min_ns))
        o->sender.rtt_min_ns = t->rtt_min_ns;
    o->sender.rtt_mean_ns += t->rtt_mean_ns / streams;
    o->sender.snd_buf_bytes = t->snd_buf_bytes;
    o->sender.reason = t->reason;
}

static int conclude(const struct transfer *t, struct outcome *o)
{
    double squares = 0;
    uint64_t last_ns = 0;

    for (size_t i = 0; i < t->request.streams; i++) {
        const struct stream *s = &t->stream[i];
        struct trailer here, there;
        uint64_t arrived = s->arrived_ns;

        stream_measure(s, &here);
        if (s->text_len != TRAILER_BYTES || !trailer_parse(s->text, &there))
            return -EPROTO;
        if (s->sending && there.bytes != s->total_bytes - TRAILER_BYTES)
            return -EPROTO; /* the trailer is counted in our total, but was not sent by us */
        add_sender(o, s->sending ? &here : &there, t->request.streams);
        o->rcv_buf_bytes = s->sending ? there.rcv_buf_bytes : here.rcv_buf_bytes;
        o->bytes += there.bytes;
        squares += (double)there.bytes * (double)there.bytes;
        if (s->sending) /* the trailer answers the last byte: it came half an RTT after that arrived */
            arrived -= here.rtt_min_ns / 2;
        last_ns = arrived > last_ns ? arrived : last_ns;
    }
    o->elapsed_ns = last_ns - t->begin_ns;
    o->jain_index = squares > 0 ? (double)o->bytes * (double)o->bytes / (squares * t->request.streams) : 1;
    return 0;
}

/* What a flow knows to be free besides, in this direction. */
static struct autobuf_available free_of(const struct stream *s)
{
    struct autobuf_available found = AUTOBUF_AVAILABLE_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.available = &found;
    if (s->flow)
        autobuf_flow_state(s->flow, &applied);
    return found;
}

static void report(const struct transfer *t, const struct outcome *o)
{
    struct autobuf_available found = free_of(&t->stream[0]);
    double rate = o->elapsed_ns ? (double)o->bytes * 8e9 / (double)o->elapsed_ns : 0;

    if (!t->json) {
        printf("%.1f MB in %.2f s: %.1f Mbit/s, round-trip time %.1f ms (least %.1f ms), "
               "buffers %" PRIu64 " and %" PRIu64 ", %s",
               (double)o->bytes / 1e6, (double)o->elapsed_ns / 1e9, rate / 1e6,
               (double)o->sender.rtt_mean_ns / 1e6, (double)o->sender.rtt_min_ns / 1e6,
               o->sender.snd_buf_bytes, o->rcv_buf_bytes, autobuf_reason_name(o->sender.reason));
        if (t->request.streams > 1)
            printf(", Jain's index %.3f", o->jain_index);
        putchar('\n');
        return;
    }
    printf("{\"bytes\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64 ",\"rate_bit_per_s\":%.0f,"
           "\"rtt_min_ns\":%" PRIu64 ",\"rtt_mean_ns\":%" PRIu64 ",\"snd_buf_bytes\":%" PRIu64
           ",\"rcv_buf_bytes\":%" PRIu64 ",\"reason\":\"%s\",\"jain_index\":%.4f,"
           "\"free_low_bit_per_s\":%" PRIu64 ",\"free_high_bit_per_s\":%" PRIu64 "}\n",
           o->bytes, o->elapsed_ns, rate, o->sender.rtt_min_ns, o->sender.rtt_mean_ns,
           o->sender.snd_buf_bytes, o->rcv_buf_bytes, autobuf_reason_name(o->sender.reason), o->jain_index,
           found.tx_low_bit_per_s, found.tx_high_bit_per_s);
}

int run_send(int argc, char **argv)
{
    static struct transfer t = {.port = "7500", .request.streams = 1};
    struct outcome o = {0};
    int error;

    if (!parse_arguments(argc, argv, &t))
        return 2;
    error = open_all(&t);
    if (error == 0)
        error = pump(&t);
    if (error == 0)
        error = conclude(&t, &o);
    if (error < 0) {
        fprintf(stderr, "bulk: %s: %s\n", t.host, autobuf_strerror(error));
        return 1;
    }
    report(&t, &o);
    for (uint32_t i = 0; i < t.request.streams; i++)
        stream_end(&t.stream[i]); /* which also keeps what was measured, for the next transfer */
    return 0;
}

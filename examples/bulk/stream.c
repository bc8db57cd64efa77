/* SPDX-License-Identifier: MIT */
#include "stream.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>
#include <linux/tcp.h> /* its struct tcp_info knows tcpi_min_rtt, that of <netinet/tcp.h> does not */

#define SAMPLE_NS 10000000ULL
#define PATIENCE_NS (30 * NS_PER_S)

static char chunk[CHUNK_BYTES];

/* ------------------------------------------------------------------------------------ texts */

size_t request_format(const struct request *r, char text[LINE_BYTES])
{
    int len = snprintf(text, LINE_BYTES,
                       "BULK1 %d %d %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32
                       " %s\n",
                       r->reverse, (int)r->tune, r->intent, r->naive_bytes, r->bytes, r->limit_ns,
                       r->streams, r->cc[0] ? r->cc : "-");

    return (size_t)len;
}

bool request_parse(const char *text, struct request *r)
{
    int reverse, tune, used = -1;

    if (sscanf(text,
               "BULK1 %d %d %" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %15s%n",
               &reverse, &tune, &r->intent, &r->naive_bytes, &r->bytes, &r->limit_ns, &r->streams,
               r->cc, &used) != 8 ||
        used < 0 || text[used])
        return false;
    if (reverse < 0 || reverse > 1 || tune < TUNE_NONE || tune > TUNE_LIVE ||
        r->intent > AUTOBUF_INTENT_SCAVENGER || r->naive_bytes > INT32_MAX ||
        r->limit_ns > 3600 * NS_PER_S || r->streams < 1 || r->streams > MAX_STREAMS ||
        (reverse && !r->bytes && !r->limit_ns))
        return false;
    r->reverse = reverse;
    r->tune = (enum tune)tune;
    if (strcmp(r->cc, "-") == 0)
        r->cc[0] = '\0';
    return true;
}

void trailer_format(const struct trailer *t, char text[TRAILER_BYTES])
{
    int len = snprintf(text, TRAILER_BYTES,
                       "END1 %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32,
                       t->bytes, t->rtt_min_ns, t->rtt_mean_ns, t->snd_buf_bytes, t->rcv_buf_bytes,
                       t->reason);

    memset(text + len, ' ', (size_t)(TRAILER_BYTES - len));
    text[TRAILER_BYTES - 1] = '\0';
}

bool trailer_parse(const char text[TRAILER_BYTES], struct trailer *t)
{
    char copy[TRAILER_BYTES];

    memcpy(copy, text, sizeof copy);
    copy[sizeof copy - 1] = '\0';
    return sscanf(copy,
                  "END1 %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32,
                  &t->bytes, &t->rtt_min_ns, &t->rtt_mean_ns, &t->snd_buf_bytes, &t->rcv_buf_bytes,
                  &t->reason) == 6;
}

/* ------------------------------------------------------------------------------------- tune */

static void say(void *user, const struct autobuf_event *event)
{
    (void)user;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "libautobuf: %s\n", event->text);
}

/* What libautobuf exists to replace: a constant, set always. */
static int tune_naively(int fd, uint64_t bytes)
{
    int n = (int)bytes;

    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof n) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof n) < 0)
        return -errno;
    return 0;
}

static int open_flow(struct stream *s, const struct sockaddr *peer, socklen_t peer_len, bool leads)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    options.intent = s->request.intent |
                     (s->sending ? AUTOBUF_INTENT_SENDS : AUTOBUF_INTENT_RECEIVES);
    options.streams = s->request.streams;
    options.expected_bytes = s->request.bytes;
    options.flags = leads ? 0 : AUTOBUF_FLOW_SILENT;
    options.log = say;
    s->leads = leads;
    return autobuf_flow_open(&s->flow, s->fd, peer, peer_len, &options);
}

int stream_tune(struct stream *s, const struct sockaddr *peer, socklen_t peer_len, bool leads)
{
    s->reason = s->request.tune == TUNE_NAIVE ? AUTOBUF_REASON_SET : AUTOBUF_REASON_OFF;
    if (s->request.cc[0] && setsockopt(s->fd, IPPROTO_TCP, TCP_CONGESTION, s->request.cc,
                                       (socklen_t)strlen(s->request.cc)) < 0)
        return -errno;
    if (s->request.tune == TUNE_NAIVE)
        return tune_naively(s->fd, s->request.naive_bytes);
    return s->request.tune == TUNE_AUTOBUF ? open_flow(s, peer, peer_len, leads) : 0;
}

bool stream_same_peer(const struct stream *a, const struct stream *b)
{
    struct sockaddr_storage x = {0}, y = {0};
    socklen_t x_len = sizeof x, y_len = sizeof y;
    size_t port = offsetof(struct sockaddr_in, sin_port); /* at the same place in both families */

    if (getpeername(a->fd, (struct sockaddr *)&x, &x_len) < 0 ||
        getpeername(b->fd, (struct sockaddr *)&y, &y_len) < 0 || x_len != y_len)
        return false;
    memcpy((char *)&x + port, (char *)&y + port, sizeof(in_port_t));
    return memcmp(&x, &y, x_len) == 0;
}

/* The path that a leading stream has measured; returned once. */
static bool take_path(struct stream *s, struct autobuf_path *path)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    *path = (struct autobuf_path)AUTOBUF_PATH_INIT;
    applied.path = path;
    if (!s->leads || !s->flow || autobuf_flow_state(s->flow, &applied) < 0 || applied.measured != 1)
        return false;
    s->leads = false;
    return true;
}

void stream_share(struct stream *streams, size_t count)
{
    struct autobuf_path path;

    for (size_t i = 0; count > 1 && i < count; i++) {
        if (!take_path(&streams[i], &path))
            continue;
        for (size_t k = 0; k < count; k++) {
            if (k != i && streams[k].flow && stream_same_peer(&streams[i], &streams[k]))
                autobuf_flow_tell(streams[k].flow, &path);
        }
    }
}

/* -------------------------------------------------------------------------------------- data */

/* Each end manages its own side. */
static void begin_live(struct stream *s)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    options.intent = s->request.intent;
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE | (s->request.byte_per_s ? AUTOBUF_FLOW_AVAILABLE : 0);
    options.log = say;
    (void)autobuf_flow_open(&s->flow, s->fd, NULL, 0, &options); /* without it the transfer goes on */
}

static void manage(struct stream *s, uint64_t now)
{
    if (s->flow)
        autobuf_flow_step(s->flow, now);
}

void stream_begin(struct stream *s, uint64_t begin_ns)
{
    s->progress_ns = autobuf_now_ns();
    s->sample_ns = s->begin_ns = begin_ns;
    s->rtt_min_ns = AUTOBUF_NS_UNSET;
    s->end_ns = s->request.limit_ns ? begin_ns + s->request.limit_ns : UINT64_MAX;
    if (s->request.tune == TUNE_LIVE && s->phase == PHASE_DATA && !s->flow)
        begin_live(s);
}

void stream_end(struct stream *s)
{
    autobuf_flow_close(s->flow);
    s->flow = NULL;
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* What its rate allows now. */
static uint64_t allowed_bytes(const struct stream *s, uint64_t now)
{
    double bytes = (double)s->request.byte_per_s * (double)(now - s->begin_ns) / 1e9;

    if (!s->request.byte_per_s)
        return sizeof chunk;
    return bytes > (double)s->total_bytes ? (uint64_t)bytes - s->total_bytes : 0;
}

short stream_events(const struct stream *s)
{
    if (s->phase == PHASE_DATA && s->sending)
        return allowed_bytes(s, autobuf_now_ns()) ? POLLOUT : 0;
    return POLLIN;
}

static void sample_rtt(struct stream *s, uint64_t now)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    if (now < s->sample_ns || getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
        !info.tcpi_rtt)
        return;
    s->sample_ns = now + SAMPLE_NS;
    s->rtt_sum_ns += (uint64_t)info.tcpi_rtt * 1000;
    s->rtt_count++;
    if (len >= offsetof(struct tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt)
        s->rtt_min_ns = (uint64_t)info.tcpi_min_rtt * 1000;
}

static bool all_sent(const struct stream *s, uint64_t now)
{
    return now >= s->end_ns || (s->request.bytes && s->total_bytes >= s->request.bytes);
}

/* The send buffer of a slow path is taken by no further write for long, while TCP empties it. */
static bool tcp_goes_on(struct stream *s, uint64_t now)
{
    int left;

    if (!s->sending || ioctl(s->fd, SIOCOUTQ, &left) < 0 || left == s->left_bytes)
        return false;
    s->left_bytes = left;
    s->progress_ns = now;
    return true;
}

/* One write for one poll(), as poll-driven programs do; 1 when all is written. */
static int send_data(struct stream *s, uint64_t now)
{
    uint64_t allowed = allowed_bytes(s, now);
    size_t want = allowed < sizeof chunk ? (size_t)allowed : sizeof chunk;
    ssize_t sent;

    if (all_sent(s, now))
        return 1;
    if (s->request.bytes && s->request.bytes - s->total_bytes < want)
        want = (size_t)(s->request.bytes - s->total_bytes);
    sent = send(s->fd, chunk, want, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    s->total_bytes += (uint64_t)sent;
    s->progress_ns = now;
    return all_sent(s, now);
}

/* The last TRAILER_BYTES that came may be the trailer. */
static void keep_tail(struct stream *s, const char *data, size_t len)
{
    size_t keep;

    if (len >= TRAILER_BYTES) {
        memcpy(s->text, data + len - TRAILER_BYTES, TRAILER_BYTES);
        s->text_len = TRAILER_BYTES;
        return;
    }
    keep = s->text_len + len > TRAILER_BYTES ? TRAILER_BYTES - len : s->text_len;
    memmove(s->text, s->text + s->text_len - keep, keep);
    memcpy(s->text + keep, data, len);
    s->text_len = keep + len;
}

/* Reads what is there; 1 at the end of the stream. */
static int receive_data(struct stream *s)
{
    for (;;) {
        ssize_t got = recv(s->fd, chunk, sizeof chunk, MSG_DONTWAIT);

        if (got < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (got == 0)
            return 1;
        s->total_bytes += (uint64_t)got;
        s->arrived_ns = s->progress_ns = autobuf_now_ns();
        keep_tail(s, chunk, (size_t)got);
        if ((size_t)got < sizeof chunk)
            return 0;
    }
}

void stream_measure(const struct stream *s, struct trailer *t)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    int snd = 0, rcv = 0;
    socklen_t len = sizeof snd;

    getsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &snd, &len);
    len = sizeof rcv;
    getsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &rcv, &len);
    *t = (struct trailer){
        .bytes = s->total_bytes,
        .rtt_min_ns = s->rtt_min_ns == AUTOBUF_NS_UNSET ? 0 : s->rtt_min_ns,
        .rtt_mean_ns = s->rtt_count ? s->rtt_sum_ns / s->rtt_count : 0,
        .snd_buf_bytes = (uint64_t)snd,
        .rcv_buf_bytes = (uint64_t)rcv,
        .reason = s->reason,
    };
    applied.plan = &plan;
    if (s->flow && autobuf_flow_state(s->flow, &applied) == 0)
        t->reason = plan.snd_reason;
}

/* The server's last words; they fit into any send buffer that is not full of data. */
static int send_trailer(struct stream *s)
{
    ssize_t sent = send(s->fd, s->text + s->text_len, TRAILER_BYTES - s->text_len,
                        MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    s->text_len += (size_t)sent;
    return s->text_len == TRAILER_BYTES;
}

/* The data are through: what this end does next. */
static void after_data(struct stream *s, bool server)
{
    struct trailer t;

    s->phase = PHASE_TRAILER;
    if (server) {
        stream_measure(s, &t);
        trailer_format(&t, s->text);
        s->text_len = 0;
    } else if (s->sending) {
        shutdown(s->fd, SHUT_WR);
        s->text_len = 0;
    } else {
        s->phase = PHASE_DONE; /* the trailer came with the data */
    }
}

int stream_step(struct stream *s, short revents, uint64_t now)
{
    bool server = s->sending == s->request.reverse;
    int result = 0;

    sample_rtt(s, now);
    manage(s, now);
    if (s->phase == PHASE_DATA) {
        if (s->sending && ((revents & (POLLOUT | POLLERR | POLLHUP)) || now >= s->end_ns))
            result = send_data(s, now);
        else if (!s->sending && (revents & (POLLIN | POLLERR | POLLHUP)))
            result = receive_data(s);
        if (result > 0)
            after_data(s, server);
    }
    if (s->phase == PHASE_TRAILER && result >= 0) {
        result = server ? send_trailer(s) : revents ? receive_data(s) : 0;
        if (result > 0)
            s->phase = PHASE_DONE;
    }
    if (result >= 0 && now > s->progress_ns + PATIENCE_NS && !tcp_goes_on(s, now))
        result = -ETIMEDOUT;
    return result < 0 ? result : 0;
}

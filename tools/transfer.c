/* SPDX-License-Identifier: MIT */
#include "transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <linux/sockios.h>

#include "../lib/base/base.h"

#define READ_BYTES 65536U
#define READS_MOST 4U /* of one step: a server has other clients */
#define SILENT_NS (5 * AB_NS_PER_S)
#define GRACE_NS (5 * AB_NS_PER_S) /* beyond its seconds: the first round trips, and a queue that drains */
#define TAIL_NS (2 * AB_NS_PER_S)  /* a sender goes on so long while the receiver's report is on its way */
#define VERSION 1
#define DIGITS_MOST 19
#define KEY_BYTES 15
#define NS_MOST 99000000000ULL /* longer than any transfer, or round trip of one */
#define BIT_PER_S_MOST 1000000000000ULL
#define STRETCHES_MOST 8U /* of a connection: more than the searches of both directions take */
#define PLAUSIBLE_PERCENT 125U /* of the rate at which a stretch was sent; test_transfer.c */
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const verbs[] = {
    [TRANSFER_ASK] = TRANSFER_PREFIX, [TRANSFER_REPORT] = "AUTOBUF REPORT ", [TRANSFER_ERROR] = "AUTOBUF ERROR "};

static const struct {
    const char *name;
    uint64_t most;
} keys[TRANSFER_KEYS] = {
    [TRANSFER_RECEIVE] = {"receive", 1},
    [TRANSFER_TUNED] = {"tuned", 1},
    [TRANSFER_BYTES] = {"bytes", 1000000000000000ULL},
    [TRANSFER_NSEC] = {"nsec", NS_MOST},
    [TRANSFER_WINDOW] = {"window", 1ULL << 40},
    [TRANSFER_RTT_MIN] = {"rttmin", NS_MOST},
    [TRANSFER_RTT_MEAN] = {"rtt", NS_MOST},
    [TRANSFER_RESENT] = {"resent", 1000000000000ULL},
    [TRANSFER_BOTTLENECK] = {"limiter", AUTOBUF_BOTTLENECK_STALLED},
    [TRANSFER_PACE] = {"pace", BIT_PER_S_MOST},
    [TRANSFER_LOW] = {"low", BIT_PER_S_MOST},
    [TRANSFER_HIGH] = {"high", BIT_PER_S_MOST},
    [TRANSFER_CAUSE] = {"cause", AUTOBUF_CAUSE_CAPACITY},
};

size_t transfer_line_format(const struct transfer_line *line, char text[TRANSFER_LINE_BYTES])
{
    const char *why = line->number == TRANSFER_BUSY      ? "busy with other transfers"
                      : line->number == TRANSFER_REFUSED ? "no transfers here: --transfer SECONDS allows them"
                                                         : "TRANSFER takes a version and seconds";
    struct ab_text out = {text, TRANSFER_LINE_BYTES, 0};

    ab_add(&out, "%s", verbs[line->verb]);
    if (line->verb == TRANSFER_ERROR)
        ab_add(&out, "%" PRIu64 " %s", line->number % 1000, why);
    else
        ab_add(&out, "%d", VERSION);
    if (line->verb == TRANSFER_ASK)
        ab_add(&out, " %" PRIu64, line->number % 1000);
    for (unsigned i = 0; line->verb != TRANSFER_ERROR && i < TRANSFER_KEYS; i++)
        if (line->values[i])
            ab_add(&out, " %s=%" PRIu64, keys[i].name, ab_min(line->values[i], keys[i].most));
    ab_add(&out, "\r\n");
    return out.len;
}

/* Digits alone; NULL: there are none. */
static bool take_number(const char *text, uint64_t most, uint64_t *value)
{
    size_t digits = text ? strspn(text, "0123456789") : 0;

    *value = digits && digits <= DIGITS_MOST ? strtoull(text, NULL, 10) : UINT64_MAX;
    return digits && !text[digits] && *value <= most;
}

/* key=number, into its place. *seen: the keys before it. */
static bool take_pair(char *pair, struct transfer_line *line, unsigned *seen)
{
    size_t length = strspn(pair, "abcdefghijklmnopqrstuvwxyz");
    uint64_t value;

    if (length == 0 || length > KEY_BYTES || pair[length] != '=' ||
        !take_number(pair + length + 1, UINT64_MAX - 1, &value))
        return false;
    pair[length] = '\0';
    for (unsigned i = 0; i < TRANSFER_KEYS; i++) {
        if (strcmp(keys[i].name, pair) != 0)
            continue;
        if (*seen & 1U << i || value > keys[i].most)
            return false;
        *seen |= 1U << i;
        line->values[i] = value;
    }
    return true;
}

bool transfer_line_parse(const char *text, size_t len, struct transfer_line *line)
{
    char copy[TRANSFER_LINE_BYTES], *rest = copy, *word;
    unsigned seen = 0, verb = 0;
    uint64_t version;

    *line = (struct transfer_line){0};
    if (len == 0 || len > sizeof copy || text[--len] != '\n' || memchr(text, '\0', len))
        return false;
    len -= len && text[len - 1] == '\r';
    memcpy(copy, text, len);
    copy[len] = '\0';
    while (verb < COUNT(verbs) && strncmp(copy, verbs[verb], strlen(verbs[verb])) != 0)
        verb++;
    if (verb == COUNT(verbs))
        return false;
    line->verb = (enum transfer_verb)verb;
    rest += strlen(verbs[verb]);
    word = strsep(&rest, " ");
    if (verb == TRANSFER_ERROR)
        return take_number(word, 999, &line->number);
    if (!take_number(word, UINT64_MAX - 1, &version) || version < VERSION)
        return false;
    if (verb == TRANSFER_ASK &&
        !take_number(strsep(&rest, " "), TRANSFER_SECONDS_MOST, &line->number))
        return false;
    while ((word = strsep(&rest, " ")))
        if (!take_pair(word, line, &seen))
            return false;
    return verb != TRANSFER_ASK || !line->number == !!line->values[TRANSFER_PACE];
}

static char payload[TRANSFER_CHUNK_BYTES];
static char scratch[READ_BYTES];

/* Random, so that nothing on the path can compress it; without a line feed, so that a line behind it can be found. */
static void fill_payload(void)
{
    if (payload[0])
        return;
    for (size_t i = 0; i < sizeof payload; i += 256) /* getrandom(2) is not interrupted for so little */
        if (getrandom(payload + i, 256, GRND_NONBLOCK) < 0)
            memset(payload + i, 'x', 256);
    for (size_t i = 0; i < sizeof payload; i++)
        if (payload[i] == '\n' || payload[i] == '\0')
            payload[i] = 'x';
}

/* recv(2) without waiting: the length; 0: nothing is there; -ENOTCONN: the peer closed; -errno. */
static int64_t receive(int fd, void *buf, size_t len, int flags)
{
    ssize_t got = recv(fd, buf, len, MSG_DONTWAIT | flags);

    if (got > 0)
        return got;
    if (got == 0)
        return -ENOTCONN;
    return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

int transfer_hear(int fd, const char *prefix, char *line, size_t *len)
{
    int64_t got = receive(fd, line + *len, TRANSFER_LINE_BYTES - *len, MSG_PEEK);
    size_t known = ab_min_size(*len, strlen(prefix));
    char *end;

    if (got <= 0)
        return (int)got;
    if (memcmp(line + *len, prefix + known, ab_min_size((size_t)got, strlen(prefix) - known)) != 0)
        return TRANSFER_NOT;
    end = memchr(line + *len, '\n', (size_t)got);
    got = receive(fd, line + *len, end ? (size_t)(end - line) + 1 - *len : (size_t)got, 0);
    if (got <= 0)
        return (int)got;
    *len += (size_t)got;
    if (line[*len - 1] == '\n')
        return 1;
    return *len == TRANSFER_LINE_BYTES ? -EPROTO : 0;
}

/* Puts a line where the next steps send it. after_payload: a line feed ends that. */
static void say(struct transfer *t, const struct transfer_line *line, bool after_payload)
{
    t->out[0] = '\n';
    t->out_begin = after_payload ? 0 : 1;
    t->out_end = 1 + transfer_line_format(line, t->out + 1);
}

/* 0: all is said, or the socket is full; -errno. */
static int send_line(struct transfer *t)
{
    ssize_t sent;

    if (t->out_begin == t->out_end)
        return 0;
    sent = send(t->fd, t->out + t->out_begin, t->out_end - t->out_begin, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    t->out_begin += (size_t)sent;
    return 0;
}

/* When to sample next. Not a connection that comes to its end: then there would always be something due. */
static uint64_t sample_ns(const struct transfer *t)
{
    if (t->phase == TRANSFER_RESTS && t->out_begin == t->out_end)
        return AUTOBUF_NS_UNSET;
    return autobuf_flow_deadline_ns(t->flow);
}

/* Bytes that were sent and not acknowledged. The kernel's count of packets would take short ones for full ones. */
static uint64_t flight_bytes(int fd)
{
    int queued = 0, unsent = 0;

    if (ioctl(fd, SIOCOUTQNSD, &unsent) < 0 || ioctl(fd, SIOCOUTQ, &queued) < 0 || queued < unsent)
        return 0;
    return (uint64_t)(queued - unsent);
}

/* Notes what the sender sees: the window, the round-trip time, and what limits for how long. */
static void note(struct transfer *t, uint64_t now_ns)
{
    const struct autobuf_live_state *s = &t->state;
    uint64_t *values = t->own.values, past_ns = now_ns - t->sampled_ns;

    if (!t->sends || t->phase != TRANSFER_MOVES)
        return;
    values[TRANSFER_WINDOW] = ab_max(flight_bytes(t->fd), values[TRANSFER_WINDOW]);
    values[TRANSFER_RESENT] = s->retransmits;
    if (s->rtt_ns != AUTOBUF_NS_UNSET && past_ns) {
        t->rtt_past_ns += past_ns;
        t->rtt_mean_ns += ((double)s->rtt_ns - t->rtt_mean_ns) * (double)past_ns / (double)t->rtt_past_ns;
        values[TRANSFER_RTT_MEAN] = (uint64_t)t->rtt_mean_ns;
    }
    if (s->rtt_min_ns != AUTOBUF_NS_UNSET)
        values[TRANSFER_RTT_MIN] = s->rtt_min_ns;
    if (s->bottleneck < TRANSFER_BOTTLENECKS && s->bottleneck > AUTOBUF_BOTTLENECK_IDLE)
        t->limited_ns[s->bottleneck] += past_ns;
    for (uint64_t i = 0; i < TRANSFER_BOTTLENECKS; i++)
        if (t->limited_ns[i] > t->limited_ns[values[TRANSFER_BOTTLENECK]])
            values[TRANSFER_BOTTLENECK] = i;
}

static void sample(struct transfer *t, uint64_t now_ns)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    uint64_t acked_bytes = t->state.sent_bytes;

    if (now_ns < sample_ns(t))
        return;
    /* an error of it is a setting that stays as it was, or shows at the next send or receive */
    autobuf_flow_step(t->flow, now_ns);
    applied.live = &t->state;
    autobuf_flow_state(t->flow, &applied);
    if (t->state.sent_bytes > acked_bytes)
        t->progress_ns = now_ns;
    note(t, now_ns);
    t->sampled_ns = now_ns;
}

static uint64_t span_ns(const struct transfer *t)
{
    return t->seconds * AB_NS_PER_S;
}

bool transfer_has_more(const struct transfer *t, uint64_t now_ns)
{
    return t->phase == TRANSFER_MOVES && t->sends && !t->paced && t->out_begin == t->out_end &&
           now_ns < t->begin_ns + span_ns(t) + TAIL_NS;
}

static int write_payload(struct transfer *t, uint64_t now_ns, size_t most_bytes)
{
    size_t want = ab_min_size(most_bytes, sizeof payload);
    ssize_t sent;

    if (want == 0 || !transfer_has_more(t, now_ns))
        return 0;
    sent = send(t->fd, payload, want, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    t->moved_bytes += (uint64_t)sent;
    t->progress_ns = now_ns;
    return 0;
}

/* A receiver cannot have seen more than was sent, nor for another time than the transfer's. Clocks differ a little. */
static bool is_plausible(const struct transfer *t, uint64_t now_ns)
{
    const uint64_t *values = t->peers.values;

    return values[TRANSFER_BYTES] <= t->moved_bytes && values[TRANSFER_NSEC] >= span_ns(t) &&
           values[TRANSFER_NSEC] - values[TRANSFER_NSEC] / 100 <= now_ns - t->begin_ns;
}

static int move_out(struct transfer *t, uint64_t now_ns, size_t most_bytes)
{
    int heard = transfer_hear(t->fd, "", t->in, &t->in_len);

    if (heard == 0)
        return write_payload(t, now_ns, most_bytes);
    if (heard < 0)
        return heard == -ENOTCONN ? -ECONNRESET : heard;
    if (!transfer_line_parse(t->in, t->in_len, &t->peers) || t->peers.verb != TRANSFER_REPORT)
        return AUTOBUF_E_PROTOCOL;
    t->phase = TRANSFER_RESTS;
    if (!t->serves) /* a server's report is the result, a client's only says that it is enough */
        return is_plausible(t, now_ns) ? 1 : AUTOBUF_E_PROTOCOL;
    say(t, &t->own, true);
    return 0;
}

/* Keeps the newest bytes: the last line is a report. */
static void keep_tail(struct transfer *t, const char *data, size_t len)
{
    size_t newest = ab_min_size(len, sizeof t->in), keep = ab_min_size(t->in_len, sizeof t->in - newest);

    memmove(t->in, t->in + t->in_len - keep, keep);
    memcpy(t->in + keep, data + len - newest, newest);
    t->in_len = keep + newest;
}

static void parse_tail(struct transfer *t)
{
    const char *before = t->in_len > 1 ? memrchr(t->in, '\n', t->in_len - 1) : NULL;

    if (!before || !transfer_line_parse(before + 1, (size_t)(t->in + t->in_len - before) - 1, &t->peers) ||
        t->peers.verb != TRANSFER_REPORT)
        t->peers = (struct transfer_line){.verb = TRANSFER_REPORT};
}

/* Reads some of what is there. 0: so far; -ENOTCONN: the peer closed; -errno. */
static int read_payload(struct transfer *t, uint64_t now_ns)
{
    for (unsigned i = 0; i < READS_MOST; i++) {
        int64_t got = receive(t->fd, scratch, sizeof scratch, 0);

        if (got <= 0)
            return (int)got;
        t->progress_ns = now_ns;
        t->moved_bytes += (uint64_t)got;
        if (t->phase == TRANSFER_RESTS) {
            keep_tail(t, scratch, (size_t)got);
        } else if (t->first_ns == AUTOBUF_NS_UNSET) {
            t->first_ns = now_ns;
        } else {
            t->own.values[TRANSFER_BYTES] += (uint64_t)got;
        }
    }
    return 0;
}

static int move_in(struct transfer *t, uint64_t now_ns)
{
    int result = read_payload(t, now_ns);

    if (result < 0)
        return result == -ENOTCONN ? -ECONNRESET : result;
    if (t->first_ns == AUTOBUF_NS_UNSET || now_ns - t->first_ns < span_ns(t))
        return 0;
    t->own.values[TRANSFER_NSEC] = now_ns - t->first_ns;
    t->phase = TRANSFER_RESTS;
    say(t, &t->own, false);
    return send_line(t);
}

/* A receiver reads up to the end; a server that has sent says that nothing follows, and waits for the client's end. */
static int rest(struct transfer *t, uint64_t now_ns)
{
    int result;

    if (t->sends && shutdown(t->fd, SHUT_WR) < 0)
        return errno == ENOTCONN ? 1 : -errno;
    result = read_payload(t, now_ns);
    if (result == 0)
        return 0;
    if (!t->serves && !t->sends)
        parse_tail(t);
    return 1;
}

/* The server's answer: as many seconds as were asked for, or fewer. */
static int take_answer(struct transfer *t)
{
    struct transfer_line answer;
    int heard = transfer_hear(t->fd, "", t->in, &t->in_len);

    if (heard <= 0)
        return heard == -ENOTCONN ? -ECONNRESET : heard;
    if (!transfer_line_parse(t->in, t->in_len, &answer))
        return AUTOBUF_E_PROTOCOL;
    t->code = answer.verb == TRANSFER_ERROR ? answer.number : 0;
    if (answer.verb == TRANSFER_ERROR)
        return AUTOBUF_E_UNSUPPORTED;
    if (answer.verb != TRANSFER_ASK || answer.number > t->seconds)
        return AUTOBUF_E_PROTOCOL;
    if (!t->paced != !!answer.number)
        return AUTOBUF_E_PROTOCOL;
    if (t->paced && !t->sends && !paced_chunk(t->paced, answer.values[TRANSFER_BYTES]))
        return AUTOBUF_E_PROTOCOL;
    t->seconds = answer.number;
    t->phase = TRANSFER_MOVES;
    t->in_len = 0;
    return 0;
}

int transfer_again(struct transfer *t, const struct transfer_line *ask, uint64_t now_ns)
{
    const uint64_t *asked = ask->values;
    const struct ab_stretch how = {asked[TRANSFER_PACE], asked[TRANSFER_LOW], asked[TRANSFER_HIGH]};
    struct transfer_line line = *ask;
    int error;

    t->sends = (asked[TRANSFER_RECEIVE] == 1) == t->serves;
    error = paced_begin(t->paced, t->fd, t->sends, &how);
    if (error < 0)
        return error;
    if (t->sends)
        line.values[TRANSFER_BYTES] = t->paced->chunk_bytes;
    else if (t->serves && !paced_chunk(t->paced, asked[TRANSFER_BYTES]))
        return AUTOBUF_E_PROTOCOL;
    t->phase = t->serves ? TRANSFER_MOVES : TRANSFER_ASKS;
    t->begin_ns = t->progress_ns = now_ns;
    t->in_len = 0;
    t->stretches++;
    say(t, &line, false);
    return 0;
}

static int open_stretches(struct transfer *t, const struct transfer_line *ask, uint64_t now_ns)
{
    int error = paced_prepare(t->fd);

    if (error < 0)
        return error;
    t->paced = calloc(1, sizeof *t->paced);
    return t->paced ? transfer_again(t, ask, now_ns) : -ENOMEM;
}

/* What the peer says that a stretch showed is believed as far as it can be: no more than was sent. */
static void believe(struct transfer *t, const struct transfer_line *report, uint64_t now_ns)
{
    const uint64_t *said = report->values;
    uint64_t most = ab_percent(paced_sent_bit_per_s(t->paced), PLAUSIBLE_PERCENT);

    t->free = (struct autobuf_available){.size = sizeof t->free, .cause = AUTOBUF_CAUSE_SHORT};
    if (said[TRANSFER_LOW] > most || said[TRANSFER_HIGH] > most || said[TRANSFER_NSEC] > now_ns - t->begin_ns ||
        (said[TRANSFER_HIGH] && said[TRANSFER_LOW] > said[TRANSFER_HIGH]))
        return;
    t->free.cause = (uint32_t)said[TRANSFER_CAUSE];
    t->free.tx_low_bit_per_s = said[TRANSFER_LOW];
    t->free.tx_high_bit_per_s = said[TRANSFER_HIGH];
    t->free.over_ns = said[TRANSFER_NSEC];
}

/* A stretch is over at this end. Returns 1: at the other one, too. */
static int end_stretch(struct transfer *t)
{
    struct paced *p = t->paced;

    t->phase = TRANSFER_WAITS;
    t->in_len = 0;
    if (t->sends)
        return 0;
    ab_stretch_estimate(&p->room, p->chunks, p->count, p->until_ns, &p->how, &t->free);
    if (!t->serves)
        return 1;
    t->own = (struct transfer_line){.verb = TRANSFER_REPORT,
                                    .values = {[TRANSFER_NSEC] = t->free.over_ns, [TRANSFER_CAUSE] = t->free.cause,
                                               [TRANSFER_LOW] = t->free.tx_low_bit_per_s,
                                               [TRANSFER_HIGH] = t->free.tx_high_bit_per_s}};
    say(t, &t->own, false);
    return 0;
}

static int move_stretch(struct transfer *t, uint64_t now_ns, size_t most_bytes)
{
    uint64_t before_bytes = t->paced->moved_bytes;
    int result = paced_step(t->paced, payload, most_bytes == 0);

    if (t->paced->moved_bytes > before_bytes)
        t->progress_ns = now_ns;
    t->moved_bytes += t->paced->moved_bytes - before_bytes;
    return result == 1 ? end_stretch(t) : result;
}

static int wait_for_line(struct transfer *t, uint64_t now_ns)
{
    struct transfer_line line;
    int heard = transfer_hear(t->fd, "", t->in, &t->in_len);

    if (heard == -ENOTCONN)
        return t->serves ? 1 : -ECONNRESET;
    if (heard <= 0)
        return heard;
    if (!transfer_line_parse(t->in, t->in_len, &line))
        return AUTOBUF_E_PROTOCOL;
    if (!t->serves && line.verb == TRANSFER_REPORT) {
        believe(t, &line, now_ns);
        return 1;
    }
    if (!t->serves || line.verb != TRANSFER_ASK || line.number || t->stretches == STRETCHES_MOST)
        return AUTOBUF_E_PROTOCOL;
    return transfer_again(t, &line, now_ns);
}

int transfer_open(struct transfer *t, int fd, bool serves, const struct transfer_line *ask, struct autobuf_flow *flow,
                  uint64_t now_ns)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    fill_payload();
    *t = (struct transfer){.fd = fd, .serves = serves, .sends = (ask->values[TRANSFER_RECEIVE] == 1) == serves,
                           .tuned = ask->values[TRANSFER_TUNED], .seconds = ask->number,
                           .phase = serves ? TRANSFER_MOVES : TRANSFER_ASKS, .flow = flow, .begin_ns = now_ns,
                           .first_ns = AUTOBUF_NS_UNSET, .progress_ns = now_ns, .sampled_ns = now_ns,
                           .state = {.size = sizeof t->state, .rtt_ns = AUTOBUF_NS_UNSET},
                           .own = {.verb = TRANSFER_REPORT},
                           .peers = {.verb = TRANSFER_REPORT}};
    if (!ask->number)
        return open_stretches(t, ask, now_ns);
    say(t, ask, false);
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE | AUTOBUF_FLOW_OBSERVE;
    return flow ? 0 : autobuf_flow_open(&t->flow, fd, NULL, 0, &options);
}

int transfer_events(const struct transfer *t, bool may_send, uint64_t now_ns)
{
    /* a step reads nothing before that is out, and what waits there would wake it again and again */
    if (t->out_begin < t->out_end)
        return POLLOUT;
    if (t->paced && t->phase == TRANSFER_MOVES)
        return paced_events(t->paced);
    return POLLIN | (may_send && transfer_has_more(t, now_ns) ? POLLOUT : 0);
}

/* When it has lasted too long. */
static uint64_t end_ns(const struct transfer *t)
{
    return ab_min(t->progress_ns + SILENT_NS, t->begin_ns + span_ns(t) + GRACE_NS);
}

uint64_t transfer_deadline_ns(const struct transfer *t)
{
    uint64_t next_ns = ab_min(end_ns(t), sample_ns(t));

    if (t->phase == TRANSFER_MOVES && t->paced)
        next_ns = ab_min(paced_deadline_ns(t->paced), next_ns);
    else if (t->phase == TRANSFER_MOVES && !t->sends && t->first_ns != AUTOBUF_NS_UNSET)
        next_ns = ab_min(t->first_ns + span_ns(t), next_ns);
    return next_ns;
}

int transfer_step(struct transfer *t, uint64_t now_ns, size_t most_bytes)
{
    int result;

    sample(t, now_ns);
    if (now_ns >= end_ns(t)) /* what a client has measured stands, also if the server's report never came */
        return t->phase == TRANSFER_RESTS && !t->serves ? 1 : -ETIMEDOUT;
    result = send_line(t);
    if (result < 0)
        return result;
    if (t->out_begin < t->out_end)
        return 0;
    if (t->phase == TRANSFER_ASKS)
        return take_answer(t);
    if (t->phase == TRANSFER_RESTS)
        return rest(t, now_ns);
    if (t->phase == TRANSFER_WAITS)
        return wait_for_line(t, now_ns);
    if (t->paced)
        return move_stretch(t, now_ns, most_bytes);
    return t->sends ? move_out(t, now_ns, most_bytes) : move_in(t, now_ns);
}

void transfer_close(struct transfer *t)
{
    autobuf_flow_close(t->flow);
    t->flow = NULL;
    free(t->paced);
    t->paced = NULL;
}

uint64_t transfer_rate(const struct transfer *t)
{
    const uint64_t *values = (t->sends ? &t->peers : &t->own)->values;

    if (!values[TRANSFER_NSEC])
        return 0;
    return (uint64_t)((double)values[TRANSFER_BYTES] * 8e9 / (double)values[TRANSFER_NSEC]);
}

const struct transfer_line *transfer_senders(const struct transfer *t)
{
    return t->sends ? &t->own : &t->peers;
}

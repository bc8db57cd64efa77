/* SPDX-License-Identifier: MIT */
#include "slow.h"

#include <stdarg.h>
#include <string.h>

#include "../lib/base/base.h"
#include "print.h"

#define QUEUE_PERCENT 130U /* of the minimum RTT: EXCESS_PERCENT of lib/live/judge.c */
#define STANDS_PERCENT 75U /* of the time; test_slow.c: a_high_rtt_for_a_while_is_no_queue */
#define FULL_PERCENT 90U   /* WORTH_PERCENT of lib/available/streams.c: more brings less than a tenth */

void slow_sample(struct slow *s, const struct connection *c, enum activity activity, uint64_t now_ns)
{
    const struct autobuf_live_state *state = &c->state;
    uint64_t span_ns;

    if (s->of != c || s->since_ns != c->since_ns)
        *s = (struct slow){.of = c, .since_ns = c->since_ns, .now_ns = c->since_ns, .sent_bytes = state->sent_bytes,
                           .received_bytes = state->received_bytes, .retransmits = state->retransmits};
    span_ns = now_ns - s->now_ns;
    s->now_ns = now_ns;
    if (state->bottleneck <= AUTOBUF_BOTTLENECK_STALLED)
        s->spent_ns[state->bottleneck] += span_ns;
    if (state->bottleneck == AUTOBUF_BOTTLENECK_SENDER || state->bottleneck == AUTOBUF_BOTTLENECK_RECEIVER ||
        state->bottleneck == AUTOBUF_BOTTLENECK_IDLE)
        s->program_ns[activity] += span_ns;
    if (state->rtt_min_ns != AUTOBUF_NS_UNSET && state->rtt_ns != AUTOBUF_NS_UNSET &&
        state->rtt_ns >= ab_percent(state->rtt_min_ns, QUEUE_PERCENT))
        s->queue_ns += span_ns;
}

static uint64_t sent(const struct slow *s)
{
    return s->of->state.sent_bytes - ab_min(s->sent_bytes, s->of->state.sent_bytes);
}

static uint64_t moved(const struct slow *s)
{
    return sent(s) + s->of->state.received_bytes - ab_min(s->received_bytes, s->of->state.received_bytes);
}

/* Without data: as far as something waits to be sent. */
static bool sends(const struct slow *s)
{
    const struct autobuf_live_state *state = &s->of->state;

    return moved(s) ? 2 * sent(s) >= moved(s) : state->in_flight_bytes || state->notsent_bytes;
}

static uint64_t rate_of(const struct slow *s)
{
    return sends(s) ? s->of->sent_bit_per_s : s->of->received_bit_per_s;
}

/* While a transfer pauses, whoever sends has nothing more. */
static uint64_t spent_ns(const struct slow *s, uint32_t bottleneck)
{
    bool transfers = moved(s) > INITIAL_WINDOW_BYTES;
    uint32_t pauses = sends(s) ? AUTOBUF_BOTTLENECK_SENDER : AUTOBUF_BOTTLENECK_PEER;

    if (transfers && bottleneck == AUTOBUF_BOTTLENECK_IDLE)
        return 0;
    return s->spent_ns[bottleneck] + (transfers && bottleneck == pauses ? s->spent_ns[AUTOBUF_BOTTLENECK_IDLE] : 0);
}

uint32_t slow_bottleneck(const struct slow *s)
{
    uint32_t most = AUTOBUF_BOTTLENECK_UNKNOWN;

    for (uint32_t b = AUTOBUF_BOTTLENECK_IDLE; b <= AUTOBUF_BOTTLENECK_STALLED; b++)
        if (spent_ns(s, b) > (most ? spent_ns(s, most) : 0))
            most = b;
    return most;
}

bool slow_is_bulk(const struct slow *s)
{
    const struct autobuf_live_state *state = &s->of->state;
    uint32_t b = slow_bottleneck(s);

    return moved(s) > INITIAL_WINDOW_BYTES || b == AUTOBUF_BOTTLENECK_STALLED || b == AUTOBUF_BOTTLENECK_RECEIVER ||
           state->in_flight_bytes + state->notsent_bytes > INITIAL_WINDOW_BYTES;
}

int slow_by_bytes(const void *a, const void *b)
{
    const struct slow *x = a, *y = b;

    if (slow_is_bulk(x) != slow_is_bulk(y))
        return slow_is_bulk(y) - slow_is_bulk(x);
    return (moved(x) < moved(y)) - (moved(x) > moved(y));
}

/* ---------------------------------------------------------------------------------- causes */

/* The most that is free for what it sends, payload; 0: unknown. */
static uint64_t free_most(const struct slow *s)
{
    return sends(s) ? autobuf_payload_bytes(s->of->available.tx_high_bit_per_s, s->of->state.packet_bytes) : 0;
}

/* Payload; 0: unknown, or only a lower bound. */
static uint64_t capacity(const struct slow *s)
{
    const struct autobuf_path *p = &s->f.share;
    bool known = !(p->flags & (sends(s) ? AUTOBUF_PATH_TX_AT_LEAST : AUTOBUF_PATH_RX_AT_LEAST));

    return known ? findings_rate(&s->f, sends(s), UINT64_MAX) : 0;
}

static uint32_t resent_packets(const struct slow *s)
{
    return s->of->state.retransmits - (uint32_t)ab_min(s->retransmits, s->of->state.retransmits);
}

/* Of the packets with data that it sent; at least 1. */
static double sent_packets(const struct slow *s)
{
    uint32_t packet_bytes = s->of->state.packet_bytes;
    uint64_t payload_bytes = autobuf_payload_bytes(packet_bytes ? packet_bytes : AB_IP_PACKET_BYTES, packet_bytes);

    return (double)sent(s) / (double)payload_bytes + (double)resent_packets(s) + 1;
}

static __attribute__((format(printf, 2, 3))) void say(struct bottleneck *b, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    bottleneck_say(b, format, args);
    va_end(args);
}

static double lost_percent(const struct slow *s)
{
    return 100 * (double)resent_packets(s) / sent_packets(s);
}

/* Packets that a queue drops when it overflows are lost together: TCP then is faster than at random loss. */
static void say_loss(const struct slow *s, struct bottleneck *b)
{
    const char *cc = s->of->congestion_control;
    struct autobuf_path path = s->f.share;
    double least, most;
    char reaches[3 * SCALED_BYTES] = "";

    path.rtt_min_ns = s->of->state.rtt_ns; /* the mean, which counts here */
    bottlenecks_loss(cc, (double)resent_packets(s), sent_packets(s), 1, &path, &least, &most);
    if (least > 0)
        snprintf(reaches, sizeof reaches, "; %s reaches %sbit/s to %sbit/s then", cc, SCALED((uint64_t)least),
                 SCALED((uint64_t)most));
    if (least > 0 && (double)rate_of(s) > most) {
        say(b, "the path is full: it delivers %sbit/s, and its queue overflows; %.2f%% of the packets were sent again\n"
            "nothing: the path has no more for it", SCALED(rate_of(s)), lost_percent(s));
        return;
    }
    say(b, "loss: %.2f%% of the packets (%u) were sent again%s\nsysctl -w \"net.ipv4.tcp_congestion_control=bbr\", "
        "for new connections", lost_percent(s), resent_packets(s), reaches);
}

/* Why the path is taken for full, if it is. */
static const char *full_words(const struct slow *s, char text[128])
{
    const struct connection *c = s->of;
    uint64_t rate = rate_of(s), most = capacity(s), left = free_most(s);

    if (most && rate >= ab_percent(most, FULL_PERCENT))
        snprintf(text, 128, " of %sbit/s", SCALED(most));
    else if (left && rate >= ab_percent(left, FULL_PERCENT))
        snprintf(text, 128, ", all that is free");
    else if (s->queue_ns >= ab_percent(s->now_ns - s->since_ns, STANDS_PERCENT))
        snprintf(text, 128, ", and a queue stands (RTT %.1f ms, least %.1f ms)", (double)c->state.rtt_ns / 1e6,
                 (double)c->state.rtt_min_ns / 1e6);
    else if (strncmp(c->congestion_control, "bbr", 3) == 0)
        snprintf(text, 128, ", as %s sees it", c->congestion_control);
    else
        return NULL;
    return text;
}

/* Congestion control decides. Why does it not send more? */
static void say_path(const struct slow *s, struct bottleneck *b)
{
    const struct connection *c = s->of;
    uint64_t pace = ab_mul_div(c->settings.pacing_byte_per_s, 8, 1);
    char text[128];
    const char *full = full_words(s, text);

    if (pace && rate_of(s) >= ab_percent(pace, FULL_PERCENT))
        say(b, "its pace: %sbit/s, which the program or autobufd has set\nwhoever has set SO_MAX_PACING_RATE",
            SCALED(pace));
    else if (full && resent_packets(s))
        say(b, "the path is full: it delivers %sbit/s%s; %.2f%% of the packets were sent again\n"
            "nothing: the path has no more for it", SCALED(rate_of(s)), full, lost_percent(s));
    else if (full)
        say(b, "the path is full: it delivers %sbit/s%s\nnothing: the path has no more for it", SCALED(rate_of(s)),
            full);
    else if (resent_packets(s))
        say_loss(s, b);
    else
        say(b, "congestion control: its window is %sB; no queue and no loss was seen (%u packets sent again before)\n"
            "nothing: it looks for more by itself", SCALED(c->state.cwnd_bytes), c->state.retransmits);
}

static void say_buffer(const struct slow *s, struct bottleneck *b, bool send)
{
    const struct connection *c = s->of;
    bool locked = c->settings.locks & (send ? AUTOBUF_LOCK_SND : AUTOBUF_LOCK_RCV);
    const char *name = send ? "net.ipv4.tcp_wmem" : "net.ipv4.tcp_rmem";
    uint64_t bytes = send ? c->state.snd_buf_bytes : c->state.rcv_buf_bytes;
    uint64_t grown = send ? s->f.limits.tcp_wmem_max_bytes : s->f.limits.tcp_rmem_max_bytes;
    struct sysctl_line lines[SYSCTLS_MOST];
    size_t count = findings_sysctls(&s->f, lines);

    if (locked)
        say(b, "the %s buffer: %sB, which the program has set\nautobuf watch --tune %d", send ? "send" : "receive",
            SCALED(bytes), (int)c->of->process.pid);
    else
        say(b, "the %s buffer: %sB, as far as autotuning goes\na larger %s, or autobuf watch --tune %d",
            send ? "send" : "receive", SCALED(bytes), name, (int)c->of->process.pid);
    if (!findings_known(&s->f) && (!locked || bytes >= grown)) /* how far each way helps depends on the path */
        return;
    ways_find(&s->f, send, send ? s->f.user.snd_kernel_bytes : s->f.user.rcv_kernel_bytes, b->ways);
    for (size_t way = 0; locked && way < WAYS; way++) /* all but the sysctls give it back to autotuning */
        b->ways[way] = way == WAY_SYSCTL ? HELP_NO : findings_known(&s->f) ? b->ways[way] : HELP_ALL;
    for (size_t i = 0; !locked && i < count; i++)
        if (strcmp(lines[i].name, name) == 0)
            snprintf(b->line, sizeof b->line, "sysctl -w \"%s=%s\"", name, lines[i].value);
}

static void say_peer(const struct slow *s, struct bottleneck *b)
{
    const struct autobuf_live_state *state = &s->of->state;

    if (!sends(s))
        say(b, "the peer, or the path from there: what comes is read at once\nautobuf explain --pid, on the peer");
    else if (!state->peer_window_bytes)
        say(b, "the peer: its window is closed, its program does not read\nautobuf explain --pid, on the peer");
    else if (state->notsent_bytes || state->in_flight_bytes)
        say(b, "the peer: its receive window of %sB is full\nautobuf explain --pid, on the peer",
            SCALED(state->peer_window_bytes));
    else
        say(b, "the peer: its receive window\nautobuf explain --pid, on the peer");
}

/* It sends nothing more, or leaves data unread. What does it do for most of that time? */
static void say_program(const struct slow *s, struct bottleneck *b, const char *what)
{
    static const char *const does[] = {[PROCESS_WAITS] = "", [PROCESS_RUNS] = ": it computes",
                                       [PROCESS_DISK] = ": it waits for a disk"};
    static const char *const change[] = {[PROCESS_WAITS] = "the program, and what it waits for",
                                         [PROCESS_RUNS] = "the program, or a faster processor",
                                         [PROCESS_DISK] = "the disk, or the network file system"};
    enum activity most = s->program_ns[PROCESS_DISK] > s->program_ns[PROCESS_WAITS] ? PROCESS_DISK : PROCESS_WAITS;

    if (s->program_ns[PROCESS_RUNS] > s->program_ns[most])
        most = PROCESS_RUNS;
    say(b, "the program, which %s%s\nnothing in TCP: %s", what, does[most], change[most]);
}

/* Whether the window of 65,535 bytes that TCP has without scaling is full. */
static bool is_unscaled(const struct slow *s, uint32_t bottleneck)
{
    uint64_t rtt_ns = s->of->state.rtt_min_ns;

    if (!s->of->unscaled || bottleneck < AUTOBUF_BOTTLENECK_PATH || bottleneck > AUTOBUF_BOTTLENECK_RCV_BUFFER)
        return false;
    return (bottleneck == AUTOBUF_BOTTLENECK_PEER && sends(s)) ||
           (rtt_ns != AUTOBUF_NS_UNSET &&
            ab_mul_div(rate_of(s), rtt_ns, 8 * AB_NS_PER_S) >= ab_percent(UINT16_MAX, FULL_PERCENT));
}

struct bottleneck slow_cause(const struct slow *s)
{
    uint32_t bottleneck = slow_bottleneck(s);
    struct bottleneck b = {0};

    if (is_unscaled(s, bottleneck))
        say(&b, UNSCALED_WORDS "\n" UNSCALED_CHANGE);
    else if (bottleneck == AUTOBUF_BOTTLENECK_PATH)
        say_path(s, &b);
    else if (bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER || bottleneck == AUTOBUF_BOTTLENECK_RCV_BUFFER)
        say_buffer(s, &b, bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER);
    else if (bottleneck == AUTOBUF_BOTTLENECK_PEER)
        say_peer(s, &b);
    else if (bottleneck == AUTOBUF_BOTTLENECK_SENDER)
        say_program(s, &b, "sends nothing more");
    else if (bottleneck == AUTOBUF_BOTTLENECK_RECEIVER)
        say_program(s, &b, "leaves data unread");
    else if (bottleneck == AUTOBUF_BOTTLENECK_STALLED)
        say(&b, "stalled: what is sent again is not acknowledged\n"
            "the path: a firewall, or a PMTU black hole (sysctl -w \"net.ipv4.tcp_mtu_probing=1\")");
    else
        say(&b, "%s\nnothing", bottleneck ? "idle: nothing moves, and nothing waits" : "unknown: too little was seen");
    if (capacity(s))
        b.lost = 1 - (double)ab_min(rate_of(s), capacity(s)) / (double)capacity(s);
    return b;
}

/* --------------------------------------------------------------------------------- figures */

/* Of a new connection whose buffers are set as those of this one. */
static uint64_t window_of(const struct slow *s)
{
    return sends(s) ? s->f.user.snd_kernel_bytes : s->f.user.rcv_kernel_bytes;
}

struct duration slow_duration(const struct slow *s, uint64_t bytes)
{
    uint64_t now = rate_of(s), most = free_most(s) ? free_most(s) : capacity(s);
    struct duration d = {AUTOBUF_NS_UNSET, AUTOBUF_NS_UNSET};

    if (!bytes || !now)
        return d;
    d.high_ns = findings_time_ns(bytes, now, 0);
    d.low_ns = most ? findings_time_ns(bytes, ab_max(most, now), 0) : AUTOBUF_NS_UNSET;
    return d;
}

int slow_streams(const struct slow *s)
{
    double ppm = 1e4 * lost_percent(s);
    uint64_t most = ppm >= 1 ? autobuf_loss_rate(s->of->congestion_control, (uint32_t)ppm, s->of->state.rtt_ns,
                                                 s->of->state.packet_bytes)
                             : 0;

    return sends(s) ? autobuf_streams(&s->of->available, &s->f.share, window_of(s), most) : 0;
}

void slow_show(FILE *out, const struct slow *s)
{
    uint32_t bottleneck = slow_bottleneck(s);
    struct bottleneck cause = slow_cause(s);
    uint64_t known_ns = 0;

    for (uint32_t b = AUTOBUF_BOTTLENECK_IDLE; b <= AUTOBUF_BOTTLENECK_STALLED; b++)
        known_ns += spent_ns(s, b);
    fprintf(out, "%sbit/s %s %s (fd %d): %s", SCALED(rate_of(s)), sends(s) ? "to" : "from", s->of->peer, s->of->fd,
            cause.what);
    if (known_ns)
        fprintf(out, " (%.0f%% of %.1f s)", 100.0 * (double)spent_ns(s, bottleneck) / (double)known_ns,
                (double)known_ns / 1e9);
    fputc('\n', out);
}

static void show_capacity(FILE *out, const struct slow *s)
{
    const struct autobuf_path *p = &s->f.path;
    uint64_t rate = sends(s) ? p->tx_rate_bit_per_s : p->rx_rate_bit_per_s;
    bool at_least = p->flags & (sends(s) ? AUTOBUF_PATH_TX_AT_LEAST : AUTOBUF_PATH_RX_AT_LEAST);

    show_label(out, "capacity");
    if (rate)
        fprintf(out, "%s%sbit/s (the path store: %s)\n", at_least ? "at least " : "", SCALED(rate),
                autobuf_method_name(p->method));
    else if (rate_of(s))
        fprintf(out, "at least %sbit/s, which it delivers; the path store has none\n", SCALED(rate_of(s)));
    else
        fputs("unknown\n", out);
}

static void show_outlook_of(FILE *out, const struct slow *s)
{
    uint64_t window = window_of(s), most = findings_window_rate(&s->f, window);
    int streams = slow_streams(s);

    show_label(out, "another connection");
    if (!most)
        fputs("unknown\n", out);
    else if (most < AB_PLAUSIBLE_BIT_PER_S)
        fprintf(out, "at most %sbit/s: its window is %sB\n", SCALED(most), SCALED(window));
    else
        fprintf(out, "not limited by its window of %sB\n", SCALED(window));
    show_label(out, "several connections");
    if (streams > 1)
        fprintf(out, "%s%d take what is free\n", s->of->available.tx_high_bit_per_s ? "" : "at least ", streams);
    else if (streams == 1 && s->of->available.kind == AUTOBUF_KIND_SHARE)
        fputs("only take from others\n", out);
    else
        fputs(streams == 1 ? "take no more than one\n" : "unknown\n", out);
}

void slow_show_figures(FILE *out, const struct slow *s, uint64_t bytes)
{
    const struct autobuf_live_state *state = &s->of->state;
    struct duration d = slow_duration(s, bytes);
    struct bottleneck cause = slow_cause(s);
    char text[AVAILABLE_BYTES], ways[256];

    show_label(out, "round-trip time");
    if (state->rtt_min_ns != AUTOBUF_NS_UNSET && state->rtt_ns != AUTOBUF_NS_UNSET)
        fprintf(out, "%.3f ms (least %.3f ms)\n", (double)state->rtt_ns / 1e6, (double)state->rtt_min_ns / 1e6);
    else
        fputs("unknown\n", out);
    show_capacity(out, s);
    show_label(out, "free");
    fprintf(out, "%s\n", sends(s) ? available_words(text, &s->of->available) : "unknown: only the sender can see it");
    show_outlook_of(out, s);
    if (bytes) {
        char take[SCALED_BYTES + 8];

        snprintf(take, sizeof take, "%sB take", SCALED(bytes));
        show_label(out, take);
        fprintf(out, "%s%s\n", duration_words(text, d.low_ns, d.high_ns),
                d.high_ns == AUTOBUF_NS_UNSET  ? ""
                : d.low_ns < d.high_ns         ? ", the latter as it goes now"
                                               : ", as it goes now");
    }
    show_label(out, "to change it");
    fprintf(out, "%s\n", cause.line);
    ways_text(cause.ways, ways, sizeof ways);
    if (ways[0]) {
        show_label(out, "");
        fprintf(out, "%s\n", ways);
    }
}

void slow_json(FILE *out, const struct slow *s, uint64_t bytes)
{
    const struct autobuf_path *p = &s->f.path;
    struct bottleneck cause = slow_cause(s);
    int streams = slow_streams(s);

    fputc('{', out);
    json_string(out, "method", p->tx_rate_bit_per_s || p->rx_rate_bit_per_s ? autobuf_method_name(p->method) : NULL);
    json_path_rates(out, p);
    json_bottlenecks(out, &cause, slow_bottleneck(s) > AUTOBUF_BOTTLENECK_IDLE);
    json_number(out, "streams", streams > 0 ? (uint64_t)streams : 0, streams <= 0);
    json_duration(out, "", slow_duration(s, bytes));
    connection_json(out, s->of);
    fputc('}', out);
}

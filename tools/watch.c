/* SPDX-License-Identifier: MIT */
/* `autobuf watch`. */
#include "arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "connections.h"
#include "print.h"

#define REPORT_NS (AB_NS_PER_S / 2)
#define CHANGES_SHOWN 5
#define CHANGE_BYTES 200
#define BLOCK_ROWS 9

struct watch {
    struct connections all;
    struct arguments want;
    char changes[CHANGES_SHOWN][CHANGE_BYTES]; /* the newest last */
    bool started;
};

/* --------------------------------------------------------------------------------- showing */

static void show_start_json(const struct watch *w)
{
    struct utsname system;

    fputc('{', stdout);
    json_number(stdout, "pid", (uint64_t)w->all.process.pid, false);
    json_string(stdout, "version", autobuf_version());
    json_string(stdout, "kernel", uname(&system) == 0 ? system.release : NULL);
    json_bool(stdout, "tune", w->want.tune);
    printf("\"intent\":\"%s\"}\n", intent_name(w->want.intent));
}

static void show_change_json(const struct connection *c, const struct autobuf_event *event)
{
    char text[1024];

    fputc('{', stdout);
    connection_json_name(stdout, c);
    json_string(stdout, "change", event->text);
    ab_event_json(event, text, sizeof text);
    fprintf(stdout, "\"event\":%s}\n", text);
}

static const char *const bottleneck_words[] = {
    [AUTOBUF_BOTTLENECK_UNKNOWN] = "not known yet",
    [AUTOBUF_BOTTLENECK_IDLE] = "nothing: it is idle",
    [AUTOBUF_BOTTLENECK_SENDER] = "the program, which has nothing more to send",
    [AUTOBUF_BOTTLENECK_PATH] = "the path (congestion control, or a queue)",
    [AUTOBUF_BOTTLENECK_SND_BUFFER] = "the send buffer",
    [AUTOBUF_BOTTLENECK_PEER] = "the peer: its window, or what it sends",
    [AUTOBUF_BOTTLENECK_RCV_BUFFER] = "the receive buffer",
    [AUTOBUF_BOTTLENECK_RECEIVER] = "the program, which leaves data unread",
    [AUTOBUF_BOTTLENECK_STALLED] = "stalled: retransmitting, nothing is acknowledged",
};

/* "20.1 ms", or "unknown". */
static const char *ms_words(char text[32], uint64_t ns)
{
    if (ns == AUTOBUF_NS_UNSET)
        return "unknown";
    snprintf(text, 32, "%.1f ms", (double)ns / 1e6);
    return text;
}

static void show_connection(struct screen *s, const struct connection *c, bool tunes)
{
    const struct autobuf_live_state *state = &c->state;
    uint32_t limit = state->bottleneck;
    bool buffer = limit == AUTOBUF_BOTTLENECK_SND_BUFFER || limit == AUTOBUF_BOTTLENECK_RCV_BUFFER;
    bool peer = state->peer_window_bytes, paced = state->pacing_bit_per_s;
    char now[32], least[32], free_now[AVAILABLE_BYTES];

    screen_line(s, "%s", "");
    screen_line(s, "fd %d  %s -> %s", c->fd, c->local, c->peer);
    screen_line(s, "  limited by   %s%s", bottleneck_words[limit], buffer && !tunes ? " (--tune enlarges it)" : "");
    if (state->sent_bit_per_s > state->received_bit_per_s)
        screen_line(s, "  free         %s", available_words(free_now, &c->available));
    screen_line(s, "  sent         %sbit/s, %sB; received %sbit/s, %sB", SCALED(c->sent_bit_per_s),
                SCALED(state->sent_bytes), SCALED(c->received_bit_per_s), SCALED(state->received_bytes));
    screen_line(s, "  round trip   %s (least %s), %u packets sent again", ms_words(now, state->rtt_ns),
                ms_words(least, state->rtt_min_ns), state->retransmits);
    screen_line(s, "  in flight    %sB; congestion window %sB%s%s%s", SCALED(state->in_flight_bytes),
                SCALED(state->cwnd_bytes), peer ? ", peer's " : "",
                peer ? SCALED(state->peer_window_bytes) : "", peer ? "B" : "");
    if (c->unscaled)
        screen_line(s, "  " UNSCALED_WORDS);
    screen_line(s, "  buffers      send %sB (not sent yet %sB), receive %sB%s%s%s", SCALED(state->snd_buf_bytes),
                SCALED(state->notsent_bytes), SCALED(state->rcv_buf_bytes), paced ? ", paced at " : "",
                paced ? SCALED(state->pacing_bit_per_s) : "", paced ? "bit/s" : "");
}

static void show_screen(const struct watch *w)
{
    unsigned rows, columns, below = 0;
    size_t shown = 0;
    struct screen s;

    screen_size(&rows, &columns);
    s = screen_begin(stdout, rows, columns);
    for (size_t i = 0; i < CHANGES_SHOWN; i++)
        below += w->changes[i][0] != 0;
    screen_line(&s, "%s (%d): %zu TCP connection%s%s%s", w->all.process.name,
                (int)w->all.process.pid, w->all.count, w->all.count == 1 ? "" : "s",
                w->want.tune ? ", tuned for " : "", w->want.tune ? intent_name(w->want.intent) : "");
    for (size_t i = 0; i < CONNECTIONS_MOST && s.row + BLOCK_ROWS + below + 2 < rows; i++) {
        if (!w->all.list[i].flow)
            continue;
        show_connection(&s, &w->all.list[i], w->want.tune);
        shown++;
    }
    if (shown < w->all.count || w->all.left_out)
        screen_line(&s, "%zu more", w->all.count - shown + w->all.left_out);
    if (below)
        screen_line(&s, "%s", "");
    for (size_t i = CHANGES_SHOWN - below; i < CHANGES_SHOWN; i++)
        screen_line(&s, "%s", w->changes[i]);
    screen_end(&s);
}

/* -------------------------------------------------------------------------------- watching */

/* Before anything else is told. */
static void start(struct watch *w)
{
    if (w->want.json && !w->started)
        show_start_json(w);
    w->started = true;
}

static void note_change(void *user, const struct autobuf_event *event)
{
    struct connection *c = user;
    struct watch *w = c->of->user;

    if (event->what == AUTOBUF_EVENT_LEFT) /* that nothing changes */
        return;
    if (w->want.json) {
        start(w);
        show_change_json(c, event);
        return;
    }
    memmove(w->changes[0], w->changes[1], sizeof w->changes - sizeof w->changes[0]);
    snprintf(w->changes[CHANGES_SHOWN - 1], CHANGE_BYTES, "fd %d: %s", c->fd, event->text);
}

static void note_end(const struct connection *c)
{
    const struct watch *w = c->of->user;

    if (!w->want.json)
        return;
    fputc('{', stdout);
    connection_json_name(stdout, c);
    fputs("\"end\":\"closed\"}\n", stdout);
}

static void report(struct watch *w, uint64_t now_ns)
{
    for (size_t i = 0; i < CONNECTIONS_MOST; i++) {
        struct connection *c = &w->all.list[i];

        if (!c->flow)
            continue;
        connection_rates(c, now_ns);
        if (!w->want.json)
            continue;
        fputc('{', stdout);
        connection_json(stdout, c);
        fputs("}\n", stdout);
    }
    if (!w->want.json)
        show_screen(w);
    fflush(stdout);
}

static int run(struct watch *w, int ends)
{
    uint64_t report_ns = 0, next_ns;

    do {
        uint64_t now_ns = autobuf_now_ns();
        int error = connections_step(&w->all, now_ns, &next_ns);

        if (w->all.seen)
            start(w);
        if (error < 0)
            return error == -ESRCH ? 0 : error;
        if (w->all.fd >= 0 && !w->all.count)
            return 0;
        if (now_ns >= report_ns) {
            report(w, now_ns);
            report_ns = now_ns + REPORT_NS;
        }
        next_ns = ab_min(report_ns, next_ns);
    } while (!ferror(stdout) && connections_wait(&w->all, ends, next_ns));
    return 0;
}

static int signals[2]; /* a pipe, which has a byte once a signal came */

static void note_signal(int number)
{
    int saved = errno;

    (void)!write(signals[1], &number, 1);
    errno = saved;
}

/* They also end a write() to a pipe that nobody reads. */
static int catch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction act = {.sa_handler = note_signal}; /* without SA_RESTART */
    struct sigaction was;

    if (pipe2(signals, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i] != SIGHUP || (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN)) /* by nohup(1) */
            sigaction(ends[i], &act, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader that went away shows in stdout */
    return 0;
}

static int watch(const struct arguments *want)
{
    static struct watch w;
    int error;

    w.want = *want;
    w.want.json |= !isatty(STDOUT_FILENO);
    w.want.tune &= !autobuf_is_off();
    w.all.fd = want->fd;
    w.all.intent = want->intent;
    w.all.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE;
    if (!w.want.tune)
        w.all.flags |= AUTOBUF_FLOW_OBSERVE;
    w.all.log = w.want.tune ? note_change : NULL; /* a flow that observes tells of what it would do */
    w.all.ended = note_end;
    w.all.user = &w;
    error = connections_open(&w.all, (pid_t)want->pid);
    if (error < 0)
        return error;
    error = catch_signals();
    if (error == 0)
        error = run(&w, signals[0]);
    connections_close(&w.all);
    return error == 0 && !w.all.seen ? -ENOTCONN : error;
}

int watch_process(const struct arguments *want)
{
    int error = watch(want);

    return error == 0 ? EXIT_RESULT : connections_fail(want->operand, error);
}

/* SPDX-License-Identifier: MIT */
/*
 * Each sample duplicates the descriptor, reads the state, acts if it should, and closes the duplicate: otherwise the
 * connection would stay open after its owner closes it.
 */
#include "arguments.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "print.h"
#include "privilege.h"
#include "process.h"

#define REPORT_NS (AB_NS_PER_S / 2)
#define SCAN_NS AB_NS_PER_S
#define FDS_MOST 16384 /* sockets of a process that are watched; the others are told as left out */
#define CONNECTIONS_MOST 64
#define CHANGES_SHOWN 5
#define CHANGE_BYTES 200
#define BLOCK_ROWS 9

struct watch;

struct connection {
    struct watch *watch;
    int fd; /* there */
    struct autobuf_flow *flow; /* NULL: a place that is free */
    char local[PROCESS_ADDRESS_BYTES], peer[PROCESS_ADDRESS_BYTES];
    bool unscaled;
    struct autobuf_live_state state;
    struct autobuf_available available;
    uint64_t sent_bit_per_s, received_bit_per_s;       /* since the report before */
    uint64_t reported_ns, sent_bytes, received_bytes; /* at the report before */
};

struct watch {
    struct arguments want;
    struct process process;
    struct connection connections[CONNECTIONS_MOST];
    size_t count;    /* of places that are not */
    size_t left_out; /* connections beyond what is watched */
    bool seen;       /* a connection */
    char changes[CHANGES_SHOWN][CHANGE_BYTES]; /* the newest last */
};

/* --------------------------------------------------------------------------------- showing */

static void json_begin(const struct connection *c)
{
    fputc('{', stdout);
    json_number(stdout, "pid", (uint64_t)c->watch->process.pid, false);
    json_number(stdout, "fd", (uint64_t)c->fd, false);
}

static void show_connection_json(const struct connection *c)
{
    struct autobuf_live_state state = c->state;

    state.sent_bit_per_s = c->sent_bit_per_s; /* since the report before */
    state.received_bit_per_s = c->received_bit_per_s;
    json_begin(c);
    json_string(stdout, "local", c->local);
    json_string(stdout, "peer", c->peer);
    json_bool(stdout, "window_scaling", !c->unscaled);
    json_available(stdout, &c->available);
    json_state(stdout, &state);
    fputs("}\n", stdout);
}

static void show_start_json(const struct watch *w)
{
    struct utsname system;

    fputc('{', stdout);
    json_number(stdout, "pid", (uint64_t)w->process.pid, false);
    json_string(stdout, "version", autobuf_version());
    json_string(stdout, "kernel", uname(&system) == 0 ? system.release : NULL);
    json_bool(stdout, "tune", w->want.tune);
    printf("\"intent\":\"%s\"}\n", intent_name(w->want.intent));
}

static void show_change_json(const struct connection *c, const struct autobuf_event *event)
{
    char text[1024];

    json_begin(c);
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

static void show_connection(struct screen *s, const struct connection *c)
{
    const struct autobuf_live_state *state = &c->state;
    uint32_t limit = state->bottleneck;
    bool buffer = limit == AUTOBUF_BOTTLENECK_SND_BUFFER || limit == AUTOBUF_BOTTLENECK_RCV_BUFFER;
    bool peer = state->peer_window_bytes, paced = state->pacing_bit_per_s;
    char now[32], least[32], free_now[AVAILABLE_BYTES];

    screen_line(s, "%s", "");
    screen_line(s, "fd %d  %s -> %s", c->fd, c->local, c->peer);
    screen_line(s, "  limited by   %s%s", bottleneck_words[limit],
                buffer && !c->watch->want.tune ? " (--tune enlarges it)" : "");
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
    screen_line(&s, "%s (%d): %zu TCP connection%s%s%s", w->process.name,
                (int)w->process.pid, w->count, w->count == 1 ? "" : "s",
                w->want.tune ? ", tuned for " : "", w->want.tune ? intent_name(w->want.intent) : "");
    for (size_t i = 0; i < CONNECTIONS_MOST && s.row + BLOCK_ROWS + below + 2 < rows; i++) {
        if (!w->connections[i].flow)
            continue;
        show_connection(&s, &w->connections[i]);
        shown++;
    }
    if (shown < w->count || w->left_out)
        screen_line(&s, "%zu more", w->count - shown + w->left_out);
    if (below)
        screen_line(&s, "%s", "");
    for (size_t i = CHANGES_SHOWN - below; i < CHANGES_SHOWN; i++)
        screen_line(&s, "%s", w->changes[i]);
    screen_end(&s);
}

/* -------------------------------------------------------------------------------- watching */

static void note_change(void *user, const struct autobuf_event *event)
{
    struct connection *c = user;
    struct watch *w = c->watch;

    if (event->what == AUTOBUF_EVENT_LEFT) /* that nothing changes */
        return;
    if (w->want.json) {
        show_change_json(c, event);
        return;
    }
    memmove(w->changes[0], w->changes[1], sizeof w->changes - sizeof w->changes[0]);
    snprintf(w->changes[CHANGES_SHOWN - 1], CHANGE_BYTES, "fd %d: %s", c->fd, event->text);
}

static int open_flow(struct connection *c, int copy)
{
    const struct arguments *want = &c->watch->want;
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    int error = autobuf_socket_state(copy, &socket);

    if (error == 0 && socket.stage != AUTOBUF_STAGE_CONNECTED)
        error = -ENOTCONN;
    if (error < 0)
        return error;
    options.intent = want->intent;
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE;
    if (!want->tune || autobuf_is_off())
        options.flags |= AUTOBUF_FLOW_OBSERVE;
    options.log = note_change;
    options.log_user = c;
    return autobuf_flow_open(&c->flow, copy, NULL, 0, &options);
}

/* What is known once it is connected. */
static void describe(struct connection *c, int copy)
{
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;

    process_addresses(copy, c->local, c->peer);
    c->unscaled = autobuf_socket_state(copy, &socket) == 0 && socket.flags & AUTOBUF_SOCKET_UNSCALED;
}

static void read_state(struct connection *c)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.live = &c->state;
    applied.available = &c->available;
    (void)autobuf_flow_state(c->flow, &applied);
}

/* The place of a descriptor; -1: one that is free. NULL: there is none. */
static struct connection *place_of(struct watch *w, int fd)
{
    for (size_t i = 0; i < CONNECTIONS_MOST; i++)
        if (fd < 0 ? !w->connections[i].flow : w->connections[i].flow && w->connections[i].fd == fd)
            return &w->connections[i];
    return NULL;
}

/* Takes a connection in; 0, also where it is none. */
static int begin(struct watch *w, int fd, uint64_t now_ns)
{
    struct connection *c = place_of(w, -1);
    int copy = process_borrow(w->process.pid, w->process.pidfd, fd), error;

    if (copy < 0)
        return process_is_over(copy) ? 0 : copy;
    if (!c) {
        process_give_back(copy);
        w->left_out++;
        return 0;
    }
    *c = (struct connection){.watch = w, .fd = fd, .reported_ns = now_ns,
                             .state = AUTOBUF_LIVE_STATE_INIT, .available = AUTOBUF_AVAILABLE_INIT};
    error = open_flow(c, copy);
    if (error == 0) {
        describe(c, copy);
        autobuf_flow_step(c->flow, now_ns); /* the first sample changes nothing */
        read_state(c);
        c->sent_bytes = c->state.sent_bytes;
        c->received_bytes = c->state.received_bytes;
        w->count++;
        if (w->want.json && !w->seen)
            show_start_json(w);
        w->seen = true;
    }
    process_give_back(copy);
    return process_is_over(error) ? 0 : error;
}

/* Finds connections that are not watched yet. */
static int scan(struct watch *w, uint64_t now_ns)
{
    static int fds[FDS_MOST];
    int count, error = 0;

    if (w->want.fd >= 0)
        return w->seen ? 0 : begin(w, w->want.fd, now_ns);
    w->left_out = 0;
    count = process_sockets(&w->process, fds, FDS_MOST);
    if (count < 0)
        return count;
    w->left_out += count > FDS_MOST ? (size_t)(count - FDS_MOST) : 0;
    for (int i = 0; error == 0 && i < count && i < FDS_MOST; i++) {
        if (!place_of(w, fds[i]))
            error = begin(w, fds[i], now_ns);
    }
    return error;
}

static void drop(struct connection *c)
{
    if (c->watch->want.json) {
        json_begin(c);
        fputs("\"end\":\"closed\"}\n", stdout);
    }
    autobuf_flow_close(c->flow); /* at a descriptor that is ours no more: touches nothing */
    c->flow = NULL;
    c->watch->count--;
}

/* One step; negative: it cannot go on. */
static int sample(struct connection *c, uint64_t now_ns)
{
    int copy = process_borrow(c->watch->process.pid, c->watch->process.pidfd, c->fd), error = copy;

    if (copy >= 0) {
        error = autobuf_flow_move(c->flow, copy);
        if (c->peer[0] == '?') /* it was still connecting */
            describe(c, copy);
        if (error == 0)
            error = autobuf_flow_step(c->flow, now_ns);
        process_give_back(copy);
        if (error < 0 && !process_is_over(error)) { /* this change was refused; the watching goes on */
            note_change(c, &(struct autobuf_event){.error = error, .text = autobuf_strerror(error)});
            error = 0;
        }
    }
    read_state(c);
    if (!process_is_over(error))
        return error;
    drop(c);
    return 0;
}

/* What watching has set for its own time only is put back. */
static void leave(struct watch *w)
{
    for (size_t i = 0; i < CONNECTIONS_MOST; i++) {
        struct connection *c = &w->connections[i];
        int copy = c->flow ? process_borrow(w->process.pid, w->process.pidfd, c->fd) : -1;

        if (copy >= 0)
            autobuf_flow_move(c->flow, copy);
        autobuf_flow_close(c->flow);
        if (copy >= 0)
            process_give_back(copy);
    }
}

static uint64_t per_second(uint64_t now, uint64_t *before, uint64_t span_ns)
{
    double bits = now > *before ? (double)(now - *before) * 8 : 0;

    *before = now;
    return span_ns ? (uint64_t)(bits * 1e9 / (double)span_ns) : 0;
}

static void report(struct watch *w, uint64_t now_ns)
{
    for (size_t i = 0; i < CONNECTIONS_MOST; i++) {
        struct connection *c = &w->connections[i];
        uint64_t span_ns = now_ns - c->reported_ns;

        if (!c->flow)
            continue;
        c->sent_bit_per_s = per_second(c->state.sent_bytes, &c->sent_bytes, span_ns);
        c->received_bit_per_s = per_second(c->state.received_bytes, &c->received_bytes, span_ns);
        c->reported_ns = now_ns;
        if (w->want.json)
            show_connection_json(c);
    }
    if (!w->want.json)
        show_screen(w);
    fflush(stdout);
}

/* Samples the connections that are due. *next_ns becomes the latest time for the next sample. */
static int sample_all(struct watch *w, uint64_t now_ns, uint64_t *next_ns)
{
    for (size_t i = 0; i < CONNECTIONS_MOST; i++) {
        struct connection *c = &w->connections[i];

        if (c->flow && now_ns >= autobuf_flow_deadline_ns(c->flow)) {
            int error = sample(c, now_ns);

            if (error < 0)
                return error;
        }
        if (c->flow)
            *next_ns = ab_min(autobuf_flow_deadline_ns(c->flow), *next_ns);
    }
    return 0;
}

/* Until then, the process's end, or a signal. true: go on. */
static bool wait_until(const struct watch *w, int signals, uint64_t until_ns)
{
    struct pollfd fds[] = {{w->process.pidfd, POLLIN, 0}, {signals, POLLIN, 0}};
    struct timespec t = ab_time_until(until_ns);

    return (ppoll(fds, 2, &t, NULL) >= 0 || errno == EINTR) && !fds[0].revents && !fds[1].revents;
}

/*
 * A sample can wait. Woken for one, this process must not interrupt the one that it watches: that may hold the socket
 * just then, and what arrives meanwhile waits. A policy that somebody chose stays.
 */
static void take_turns(void)
{
    const struct sched_param none = {0};

    if (syscall(SYS_sched_getscheduler, 0) == SCHED_OTHER) /* musl's functions of these names do nothing */
        (void)syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &none);
}

static int run(struct watch *w, int signals)
{
    uint64_t report_ns = 0, scan_ns = 0, next_ns;

    take_turns();
    do {
        uint64_t now_ns = autobuf_now_ns();
        int error = 0;

        if (now_ns >= scan_ns) {
            error = scan(w, now_ns);
            scan_ns = now_ns + SCAN_NS;
        }
        next_ns = scan_ns;
        if (error == 0)
            error = sample_all(w, now_ns, &next_ns);
        if (error < 0)
            return error == -ESRCH ? 0 : error;
        if (w->want.fd >= 0 && !w->count)
            return 0;
        if (now_ns >= report_ns) {
            report(w, now_ns);
            report_ns = now_ns + REPORT_NS;
        }
        next_ns = ab_min(report_ns, next_ns);
    } while (!ferror(stdout) && wait_until(w, signals, next_ns));
    return 0;
}

static int watch(const struct arguments *want)
{
    static struct watch w;
    sigset_t ends;
    int signals, error;

    w.want = *want;
    w.want.json |= !isatty(STDOUT_FILENO);
    /*
     * Privilege that the file has by setuid or setcap is not given to the user who runs it: that user may do only
     * what its own rights allow.
     */
    error = getauxval(AT_SECURE) ? drop_privileges() : 0;
    if (error == 0)
        error = process_open(want->pid, &w.process);
    if (error < 0)
        return error;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGPIPE); /* a reader that went away shows in stdout */
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signals = signalfd(-1, &ends, SFD_CLOEXEC);
    error = signals < 0 ? -errno : run(&w, signals);
    leave(&w);
    close(signals);
    close(w.process.pidfd);
    return error == 0 && !w.seen ? -ENOTCONN : error;
}

int watch_process(const struct arguments *want)
{
    int error = watch(want);

    if (error == 0)
        return EXIT_RESULT;
    if (error == -EPERM || error == -EACCES) {
        fprintf(stderr,
                "autobuf: %s: not permitted: it takes the same user (and kernel.yama.ptrace_scope=0, "
                "where there is one), or CAP_SYS_PTRACE\n",
                want->operand);
        return EXIT_NOT_PERMITTED;
    }
    fprintf(stderr, "autobuf: %s: %s\n", want->operand,
            error == -ENOTCONN ? "no open TCP connection" : autobuf_strerror(error));
    return EXIT_NOTHING;
}

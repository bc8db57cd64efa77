/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "next.h"
#include "sizes.h"

#define STANDARD_ERROR 2
#define LINE_BYTES 512U
#define SOON_MS 100 /* what cannot be written by then is lost */
#define LOOKBACK_NS 1000000000U    /* what a look sees was not so long ago; it may be the first since a pause */
#define NEAR_NS 1000000U /* a shorter round trip never makes a window the limit */

/* Lines that wait for the process to end. More than fit are written before. */
static struct {
    char text[32768];
    size_t used;
} lines;

static _Atomic uint8_t locked; /* of the lines */
static struct stat standard_error; /* as this process found it */

/* One line, built piece by piece; what does not fit is cut off. */
struct line {
    char *text; /* LINE_BYTES, the last one for the end of the line */
    size_t used;
};

static __attribute__((format(printf, 2, 3))) void add(struct line *line, const char *format, ...)
{
    size_t room = LINE_BYTES - 1 - line->used;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line->text + line->used, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        line->used += (size_t)length < room ? (size_t)length : room - 1;
}

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;

    return NEXT(getsockopt)(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) < 0 ? 0 : cookie;
}

void run_report_who(int fd, struct place *place)
{
    struct sockaddr_in6 peer;
    socklen_t length = sizeof peer;

    atomic_store(&place->cookie, cookie_of(fd));
    if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && length <= sizeof peer)
        memcpy(&place->peer, &peer, length);
}

void run_report_note(int fd, struct place *place)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;
    socklen_t length = sizeof place->peer;

    /* The number may be that of another socket by now: a program may close without the C library. */
    if (cookie_of(fd) != atomic_load(&place->cookie) || autobuf_socket_state(fd, &now) < 0 ||
        now.stage != AUTOBUF_STAGE_CONNECTED)
        return;
    place->last = now;
    if (place->peer.sin6_family == AF_UNSPEC && getpeername(fd, (struct sockaddr *)&place->peer, &length) < 0)
        place->peer.sin6_family = AF_UNSPEC; /* nobody saw connect(), or it ended early */
}

void run_report_sample(int fd, struct place *place, uint64_t now_ns)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_live_state live = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_available available = AUTOBUF_AVAILABLE_INIT;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    uint64_t past_ns = place->sampled_ns ? now_ns - place->sampled_ns : 0;

    run_report_note(fd, place);
    applied.plan = &plan;
    applied.live = &live;
    applied.available = &available;
    if (autobuf_flow_state(place->flow, &applied) < 0)
        return;
    if (live.bottleneck < BOTTLENECKS)
        place->limited_ns[live.bottleneck] += past_ns < LOOKBACK_NS ? past_ns : LOOKBACK_NS;
    place->sampled_ns = now_ns;
    if (available.over_ns) {
        place->low_bit_per_s = available.tx_low_bit_per_s;
        place->high_bit_per_s = available.tx_high_bit_per_s;
    }
    if (!applied.changes)
        return;
    place->paced_bit_per_s = live.pacing_bit_per_s;
    place->changed |= (plan.snd_reason == AUTOBUF_REASON_SET ? AUTOBUF_LOCK_SND : 0) |
                      (plan.rcv_reason == AUTOBUF_REASON_SET ? AUTOBUF_LOCK_RCV : 0);
}

static void add_peer(struct line *line, const struct place *place)
{
    const struct sockaddr_in6 *v6 = &place->peer;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)v6;
    char text[INET6_ADDRSTRLEN] = "?";

    if (v6->sin6_family == AF_INET)
        add(line, "%s:%u", inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text), ntohs(v4->sin_port));
    else if (v6->sin6_family == AF_INET6)
        add(line, "[%s]:%u", inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text), ntohs(v6->sin6_port));
    else
        add(line, "unknown peer");
}

static void add_bytes(struct line *line, uint64_t bytes)
{
    if (bytes < 100000)
        add(line, "%llu bytes", (unsigned long long)bytes);
    else
        add(line, "%.1f MB", (double)bytes / 1e6);
}

static void add_moved(struct line *line, const struct place *place, double seconds)
{
    uint64_t sent = atomic_load(&place->sent_bytes), received = atomic_load(&place->received_bytes);

    if (sent) {
        add(line, " sent ");
        add_bytes(line, sent);
    }
    if (received) {
        add(line, "%s received ", sent ? "," : "");
        add_bytes(line, received);
    }
    add(line, " in %.3f s", seconds);
    if (seconds > 0)
        add(line, ", %.1f Mbit/s", 8e-6 * (double)(sent > received ? sent : received) / seconds);
}

/* What limited it for most of the time that was looked at. */
static void add_bottleneck(struct line *line, const struct place *place)
{
    unsigned most = AUTOBUF_BOTTLENECK_UNKNOWN;

    for (unsigned i = AUTOBUF_BOTTLENECK_SENDER; i < BOTTLENECKS; i++)
        if (place->limited_ns[i] > (most ? place->limited_ns[most] : 0))
            most = i;
    add(line, "; limited by: %s", most == AUTOBUF_BOTTLENECK_UNKNOWN ? "not looked at: too short, too slow or too near"
                                                                  : autobuf_bottleneck_name(most));
}

/* What other traffic left at the end, as far as what was sent showed. */
static void add_free(struct line *line, const struct place *place)
{
    double low = (double)place->low_bit_per_s / 1e6, high = (double)place->high_bit_per_s / 1e6;

    if (place->low_bit_per_s && place->high_bit_per_s)
        add(line, "; free: %.1f to %.1f Mbit/s", low, high);
    else if (place->low_bit_per_s || place->high_bit_per_s)
        add(line, "; free: at %s %.1f Mbit/s", place->low_bit_per_s ? "least" : "most", low + high);
}

/* As a program would set it: the kernel keeps twice as much. */
static void add_size(struct line *line, const char *option, uint64_t stored_bytes)
{
    add(line, ", %s", option);
    if (stored_bytes) /* it could be read */
        add(line, " %llu", (unsigned long long)stored_bytes / 2);
}

static void add_changes(struct line *line, const struct place *place)
{
    if (place->changed & AUTOBUF_LOCK_SND)
        add_size(line, "SO_SNDBUF", place->last.snd_buf_bytes);
    if (place->changed & AUTOBUF_LOCK_RCV)
        add_size(line, "SO_RCVBUF", place->last.rcv_buf_bytes);
    if (place->paced_bit_per_s)
        add(line, ", pace %.1f Mbit/s", (double)place->paced_bit_per_s / 1e6);
}

/* What was set, and what the program would have set. */
static void add_set(struct line *line, const struct place *place)
{
    static const char before[] = "; set: ", between[] = ", ";
    size_t begin = line->used + strlen(before);

    add(line, "%s", before);
    add_changes(line, place);
    if (place->kept & AUTOBUF_LOCK_SND)
        add(line, ", SO_SNDBUF %u of the program left to autotuning", place->asked_bytes[0] / 2);
    if (place->kept & AUTOBUF_LOCK_RCV)
        add(line, ", SO_RCVBUF %u of the program left to autotuning", place->asked_bytes[1] / 2);
    if (line->used <= begin) {
        add(line, "nothing");
        return;
    }
    line->used -= strlen(between); /* none before the first */
    memmove(line->text + begin, line->text + begin + strlen(between), line->used - begin);
}

/* The buffer of one side without this object. */
static uint64_t bytes_alone(const struct place *place, const struct autobuf_limits *limits, uint32_t side,
                            uint64_t now_bytes)
{
    uint64_t reach_bytes = run_size_reach(limits, side);

    if (place->kept & side)
        return place->asked_bytes[side != AUTOBUF_LOCK_SND];
    return place->set & side || now_bytes < reach_bytes ? now_bytes : reach_bytes;
}

/* The largest window of the same socket without this object, and the rate that it allows. */
static void add_without(struct line *line, const struct place *place, const struct autobuf_limits *limits)
{
    struct autobuf_socket socket = place->last;
    struct autobuf_path none = AUTOBUF_PATH_INIT;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    bool sends = atomic_load(&place->sent_bytes) >= atomic_load(&place->received_bytes);
    uint64_t window;

    if (!limits || socket.stage != AUTOBUF_STAGE_CONNECTED)
        return;
    socket.locks = place->kept | place->set;
    socket.snd_buf_bytes = bytes_alone(place, limits, AUTOBUF_LOCK_SND, socket.snd_buf_bytes);
    socket.rcv_buf_bytes = bytes_alone(place, limits, AUTOBUF_LOCK_RCV, socket.rcv_buf_bytes);
    if (autobuf_plan_make(&none, limits, &socket, AUTOBUF_INTENT_THROUGHPUT, 0, &plan) < 0)
        return;
    window = sends ? plan.snd_kernel_bytes : plan.rcv_kernel_bytes;
    if (!window)
        return;
    add(line, "; the kernel alone: a window of %llu bytes", (unsigned long long)window);
    if (place->last.flags & AUTOBUF_SOCKET_UNSCALED)
        add(line, " (window scaling was not negotiated: a middlebox?)");
    if (socket.rtt_min_ns >= NEAR_NS && socket.rtt_min_ns != AUTOBUF_NS_UNSET)
        add(line, ", at most %.1f Mbit/s", 8e3 * (double)window / (double)socket.rtt_min_ns);
}

/*
 * Programs close their standard error, and what they open next gets its number: a line there would be among the data.
 * Nor is a connection a place for reports, which is standard error of what inetd starts.
 */
static bool is_standard_error(void)
{
    struct stat now;

    if (fstat(STANDARD_ERROR, &now) < 0 || now.st_dev != standard_error.st_dev || now.st_ino != standard_error.st_ino)
        return false;
    return !S_ISSOCK(now.st_mode) || run_option(STANDARD_ERROR, SO_DOMAIN) == AF_UNIX;
}

/* Whether a pipe, or whatever else it is, takes a piece soon; it must not hold the program up. */
static bool takes_more(void)
{
    struct pollfd now = {.fd = STANDARD_ERROR, .events = POLLOUT};

    return NEXT(poll)(&now, 1, SOON_MS) > 0 && !(now.revents & ~POLLOUT);
}

/* A signal that writing has raised, while signals are blocked: the program has not written. */
static void take_back(int signal)
{
    const struct timespec now = {0, 0};
    sigset_t one;

    sigemptyset(&one);
    sigaddset(&one, signal);
    sigtimedwait(&one, NULL, &now);
}

/* What would not be read, or is too much for a pipe, is lost. Signals are blocked. */
static ssize_t write_piece(const char *text, size_t bytes)
{
    sigset_t before;
    ssize_t wrote;

    sigpending(&before);
    wrote = takes_more() ? NEXT(write)(STANDARD_ERROR, text, bytes < PIPE_BUF ? bytes : PIPE_BUF) : 0;
    if (wrote < 0 && errno == EPIPE && !sigismember(&before, SIGPIPE))
        take_back(SIGPIPE);
    if (wrote < 0 && errno == EFBIG && !sigismember(&before, SIGXFSZ))
        take_back(SIGXFSZ);
    return wrote;
}

/* Those that wait; the caller holds the lock. */
static void write_lines(void)
{
    size_t done = 0;

    if (!is_standard_error())
        lines.used = 0;
    while (done < lines.used) {
        ssize_t wrote = write_piece(lines.text + done, lines.used - done);

        if (wrote <= 0) /* nobody reads it */
            break;
        done += (size_t)wrote;
    }
    lines.used = 0;
}

/* The other descriptor of the same connection goes on with what was counted here. */
static void pass_on(const struct place *from, struct place *to)
{
    atomic_fetch_add(&to->sent_bytes, atomic_load(&from->sent_bytes));
    atomic_fetch_add(&to->received_bytes, atomic_load(&from->received_bytes));
    to->changed |= from->changed;
    if (atomic_load(&from->ahead_bytes) > atomic_load(&to->ahead_bytes))
        atomic_store(&to->ahead_bytes, atomic_load(&from->ahead_bytes));
    if (from->paced_bit_per_s)
        to->paced_bit_per_s = from->paced_bit_per_s;
    if (from->began_ns < to->began_ns)
        to->began_ns = from->began_ns;
    if (from->sampled_ns > to->sampled_ns) {
        to->sampled_ns = from->sampled_ns;
        to->low_bit_per_s = from->low_bit_per_s;
        to->high_bit_per_s = from->high_bit_per_s;
    }
    if (to->last.stage != AUTOBUF_STAGE_CONNECTED)
        to->last = from->last;
    for (unsigned i = 0; i < BOTTLENECKS; i++)
        to->limited_ns[i] += from->limited_ns[i];
}

void run_report_add(int fd, struct place *place, const struct autobuf_limits *limits)
{
    struct place *other = places_lock_other(place);
    struct line line;

    run_report_note(fd, place);
    if (other) {
        pass_on(place, other);
        spin_unlock(&other->locked);
        return;
    }
    spin_lock(&locked);
    if (lines.used + LINE_BYTES > sizeof lines.text)
        write_lines();
    line = (struct line){lines.text + lines.used, 0};
    add(&line, "autobuf[%d]: ", (int)getpid());
    add_peer(&line, place);
    add_moved(&line, place, (double)(autobuf_now_ns() - place->began_ns) / 1e9);
    add_bottleneck(&line, place);
    if (atomic_load(&place->sent_bytes) > atomic_load(&place->received_bytes))
        add_free(&line, place);
    if (atomic_load(&place->ahead_bytes))
        add(&line, "; libssh2: up to %llu bytes requested ahead", (unsigned long long)atomic_load(&place->ahead_bytes));
    add_set(&line, place);
    add_without(&line, place, limits);
    line.text[line.used++] = '\n';
    lines.used += line.used;
    spin_unlock(&locked);
}

void run_report_write(void)
{
    spin_lock(&locked);
    write_lines();
    spin_unlock(&locked);
}

void run_report_lost(const char *program)
{
    char text[LINE_BYTES];
    struct line line = {text, 0};

    add(&line, "autobuf run: %.200s cannot be reached: LD_PRELOAD was replaced; autobufd(8) reaches it from outside, "
               "and so does autobuf watch --tune PID", program ? program : "a program");
    text[line.used++] = '\n';
    if (is_standard_error())
        (void)write_piece(text, line.used);
}

void run_report_begin(void)
{
    if (fstat(STANDARD_ERROR, &standard_error) < 0)
        standard_error = (struct stat){.st_dev = 0};
}

void run_report_forget(void)
{
    spin_unlock(&locked); /* a thread that does not exist here may have held it */
    if (lines.used)
        lines.used = 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Each sample duplicates the descriptor, reads the state, acts if it should, and closes the duplicate: otherwise the
 * connection would stay open after its owner closes it.
 */
#include "connections.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "arguments.h"
#include "print.h"
#include "privilege.h"

#define SCAN_NS AB_NS_PER_S
#define FDS_MOST 16384 /* sockets of a process that are sampled; the others are told as left out */

static int open_flow(struct connection *c, int copy)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    int error = autobuf_socket_state(copy, &socket);

    if (error == 0 && socket.stage != AUTOBUF_STAGE_CONNECTED)
        error = -ENOTCONN;
    if (error < 0)
        return error;
    options.intent = c->of->intent;
    options.flags = c->of->flags;
    options.log = c->of->log;
    options.log_user = c;
    return autobuf_flow_open(&c->flow, copy, NULL, 0, &options);
}

/* What is known once it is connected. */
static void describe(struct connection *c, int copy)
{
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    socklen_t len = sizeof c->congestion_control - 1;

    process_addresses(copy, c->local, c->peer);
    c->unscaled = autobuf_socket_state(copy, &socket) == 0 && socket.flags & AUTOBUF_SOCKET_UNSCALED;
    (void)autobuf_settings_read(copy, &c->settings);
    if (getsockopt(copy, IPPROTO_TCP, TCP_CONGESTION, c->congestion_control, &len) < 0)
        c->congestion_control[0] = '\0';
}

static void read_state(struct connection *c)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.live = &c->state;
    applied.available = &c->available;
    (void)autobuf_flow_state(c->flow, &applied);
}

/* The place of a descriptor; -1: one that is free. NULL: there is none. */
static struct connection *place_of(struct connections *all, int fd)
{
    for (size_t i = 0; i < CONNECTIONS_MOST; i++)
        if (fd < 0 ? !all->list[i].flow : all->list[i].flow && all->list[i].fd == fd)
            return &all->list[i];
    return NULL;
}

/* Takes a connection in; 0, also where it is none. */
static int begin(struct connections *all, int fd, uint64_t now_ns)
{
    struct connection *c = place_of(all, -1);
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;
    int copy = process_borrow(all->process.pid, all->process.pidfd, fd), error;

    if (copy < 0)
        return process_is_over(copy) ? 0 : copy;
    if (!c) {
        all->left_out += autobuf_socket_state(copy, &now) == 0 && now.stage == AUTOBUF_STAGE_CONNECTED;
        process_give_back(copy);
        return 0;
    }
    *c = (struct connection){.of = all, .fd = fd, .since_ns = now_ns, .state = AUTOBUF_LIVE_STATE_INIT,
                             .available = AUTOBUF_AVAILABLE_INIT, .settings = AUTOBUF_SETTINGS_INIT};
    error = open_flow(c, copy);
    if (error == 0) {
        describe(c, copy);
        autobuf_flow_step(c->flow, now_ns); /* the first sample changes nothing */
        read_state(c);
        c->sent_bytes = c->state.sent_bytes;
        c->received_bytes = c->state.received_bytes;
        all->count++;
        all->seen = true;
    }
    process_give_back(copy);
    return process_is_over(error) ? 0 : error;
}

/* Finds connections that are not sampled yet. */
static int scan(struct connections *all, uint64_t now_ns)
{
    static int fds[FDS_MOST];
    int count, error = 0;

    if (all->fd >= 0)
        return all->seen ? 0 : begin(all, all->fd, now_ns);
    all->left_out = 0;
    count = process_sockets(&all->process, fds, FDS_MOST);
    if (count < 0)
        return count;
    all->left_out += count > FDS_MOST ? (size_t)(count - FDS_MOST) : 0;
    for (int i = 0; error == 0 && i < count && i < FDS_MOST; i++) {
        if (!place_of(all, fds[i]))
            error = begin(all, fds[i], now_ns);
    }
    return error;
}

static void drop(struct connection *c)
{
    if (c->of->ended)
        c->of->ended(c);
    autobuf_flow_close(c->flow); /* at a descriptor that is ours no more: touches nothing */
    c->flow = NULL;
    c->of->count--;
}

/* One step; negative: it cannot go on. */
static int sample(struct connection *c, uint64_t now_ns)
{
    const struct process *process = &c->of->process;
    int copy = process_borrow(process->pid, process->pidfd, c->fd), error = copy;

    if (copy >= 0) {
        error = autobuf_flow_move(c->flow, copy);
        if (c->peer[0] == '?') /* it was still connecting */
            describe(c, copy);
        if (error == 0)
            error = autobuf_flow_step(c->flow, now_ns);
        process_give_back(copy);
        if (error < 0 && !process_is_over(error)) { /* this change was refused; the sampling goes on */
            if (c->of->log)
                c->of->log(c, &(struct autobuf_event){.error = error, .text = autobuf_strerror(error)});
            error = 0;
        }
    }
    read_state(c);
    if (!process_is_over(error))
        return error;
    drop(c);
    return 0;
}

/* Samples the connections that are due. *next_ns becomes the latest time for the next sample. */
static int sample_all(struct connections *all, uint64_t now_ns, uint64_t *next_ns)
{
    for (size_t i = 0; i < CONNECTIONS_MOST; i++) {
        struct connection *c = &all->list[i];

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

/*
 * A sample can wait. Woken for one, this process must not interrupt the one that it samples: that may hold the socket
 * just then, and what arrives meanwhile waits. A policy that somebody chose stays.
 */
static void take_turns(void)
{
    const struct sched_param none = {0};

    if (syscall(SYS_sched_getscheduler, 0) == SCHED_OTHER) /* musl's functions of these names do nothing */
        (void)syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &none);
}

int connections_open(struct connections *all, pid_t pid)
{
    int error = getauxval(AT_SECURE) ? drop_privileges() : 0;

    if (error == 0)
        error = process_open(pid, &all->process);
    if (error == 0)
        take_turns();
    return error;
}

int connections_step(struct connections *all, uint64_t now_ns, uint64_t *next_ns)
{
    int error = 0;

    if (now_ns >= all->scan_ns) {
        error = scan(all, now_ns);
        all->scan_ns = now_ns + SCAN_NS;
    }
    *next_ns = all->scan_ns;
    return error < 0 ? error : sample_all(all, now_ns, next_ns);
}

bool connections_wait(const struct connections *all, int other, uint64_t until_ns)
{
    struct pollfd fds[] = {{all->process.pidfd, POLLIN, 0}, {other, POLLIN, 0}};
    struct timespec t = ab_time_until(until_ns);

    return (ppoll(fds, 2, &t, NULL) >= 0 || errno == EINTR) && !fds[0].revents && !fds[1].revents;
}

static uint64_t per_second(uint64_t now, uint64_t *before, uint64_t span_ns)
{
    double bits = now > *before ? (double)(now - *before) * 8 : 0;

    *before = now;
    return span_ns ? (uint64_t)(bits * 1e9 / (double)span_ns) : 0;
}

void connection_rates(struct connection *c, uint64_t now_ns)
{
    uint64_t span_ns = now_ns - c->since_ns;

    c->sent_bit_per_s = per_second(c->state.sent_bytes, &c->sent_bytes, span_ns);
    c->received_bit_per_s = per_second(c->state.received_bytes, &c->received_bytes, span_ns);
    c->since_ns = now_ns;
}

void connection_json_name(FILE *out, const struct connection *c)
{
    json_number(out, "pid", (uint64_t)c->of->process.pid, false);
    json_number(out, "fd", (uint64_t)c->fd, false);
}

void connection_json(FILE *out, const struct connection *c)
{
    struct autobuf_live_state state = c->state;

    state.sent_bit_per_s = c->sent_bit_per_s;
    state.received_bit_per_s = c->received_bit_per_s;
    connection_json_name(out, c);
    json_string(out, "local", c->local);
    json_string(out, "peer", c->peer);
    json_bool(out, "window_scaling", !c->unscaled);
    json_available(out, &c->available);
    json_state(out, &state);
}

void connections_close(struct connections *all)
{
    for (size_t i = 0; i < CONNECTIONS_MOST; i++) {
        struct connection *c = &all->list[i];
        int copy = c->flow ? process_borrow(all->process.pid, all->process.pidfd, c->fd) : -1;

        if (copy >= 0)
            autobuf_flow_move(c->flow, copy);
        autobuf_flow_close(c->flow);
        c->flow = NULL;
        if (copy >= 0)
            process_give_back(copy);
    }
    close(all->process.pidfd);
}

int connections_fail(const char *process, int error)
{
    if (error == -EPERM || error == -EACCES) {
        fprintf(stderr,
                "autobuf: %s: not permitted: it takes the same user (and kernel.yama.ptrace_scope=0, "
                "where there is one), or CAP_SYS_PTRACE\n",
                process);
        return EXIT_NOT_PERMITTED;
    }
    fprintf(stderr, "autobuf: %s: %s\n", process,
            error == -ENOTCONN ? "no open TCP connection" : autobuf_strerror(error));
    return EXIT_NOTHING;
}

/* SPDX-License-Identifier: MIT */
/*
 * One process, one epoll loop: what there is to do for a client is short, never waits, and is all in
 * the library's step(), so that a library for loops, with its timers and threads, would only add a
 * dependency.
 *
 * Clients are hostile until they have said HELLO. What bounds them: a number of clients, the oldest silent
 * one leaving for a new one; a lifetime; a budget of bytes for each, which shrinks as they become more; and
 * bytes a second for all of them together.
 */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "clock.h"
#include "privilege.h"

#define LISTENERS_MOST 16
#define SYSTEMD_FIRST_FD 3
#define CLIENTS_MOST 2000
#define SPARE_FDS 32
#define BACKLOG 1024
#define EVENTS_MOST 64
#define SILENT_NS (3 * NS_PER_S) /* without a HELLO */
#define LIFETIME_NS (12 * NS_PER_S)
#define BUDGET_BYTES 480000U
#define BUDGET_LEAST_BYTES 60000U
#define BUDGETS_BYTES (64U * 1000 * 1000) /* of all clients */
#define BYTES_A_SECOND (128U * 1000 * 1000)

/* In a list, the oldest first. */
struct client {
    struct client *older, *newer;
    struct autobuf_inband *inband;
    int fd;
    uint32_t events;
    bool greeted;
    uint64_t begin_ns;
    uint64_t cost_bytes;
};

struct server {
    int epoll;
    int listeners[LISTENERS_MOST];
    unsigned listener_count;
    bool listening;
    struct client *oldest, *newest;
    unsigned clients;
    unsigned clients_most;
    uint64_t second_ns;   /* when the count below began */
    uint64_t sent_bytes;
};

/* --------------------------------------------------------------------------------- clients */

static void client_unlink(struct server *s, struct client *c)
{
    *(c->older ? &c->older->newer : &s->oldest) = c->newer;
    *(c->newer ? &c->newer->older : &s->newest) = c->older;
    s->clients--;
}

static void client_link(struct server *s, struct client *c)
{
    c->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = c;
    s->newest = c;
    s->clients++;
}

/* A reset, where something was left unsaid: a hostile peer must not keep memory in this kernel either. */
static void client_end(struct server *s, struct client *c, bool reset)
{
    struct linger now = {1, 0};

    client_unlink(s, c);
    autobuf_inband_close(c->inband);
    if (reset)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(c->fd);
    free(c);
}

/* The oldest that has not said HELLO, else the oldest. */
static void client_make_room(struct server *s)
{
    struct client *c = s->oldest;

    while (c && c->greeted)
        c = c->newer;
    client_end(s, c ? c : s->oldest, true);
}

static uint64_t client_cost_bytes(const struct client *c)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;

    autobuf_inband_result(c->inband, &path);
    return path.cost_bytes;
}

/*
 * A half-close shows as the end of input, when input is wanted. EPOLLRDHUP would be told again and again as
 * long as the client takes nothing of its answer.
 */
static int client_watch(struct server *s, struct client *c, int operation)
{
    int events = autobuf_inband_events(c->inband); /* poll's are epoll's */
    struct epoll_event e = {.events = (uint32_t)events, .data.ptr = c};

    if (operation == EPOLL_CTL_MOD && e.events == c->events)
        return 0;
    c->events = e.events;
    return epoll_ctl(s->epoll, operation, c->fd, &e) < 0 ? -errno : 0;
}

static void client_step(struct server *s, struct client *c, uint32_t events)
{
    int state = autobuf_inband_step(c->inband, monotonic_ns());
    uint64_t cost_bytes = client_cost_bytes(c);

    s->sent_bytes += cost_bytes - c->cost_bytes;
    c->cost_bytes = cost_bytes;
    c->greeted |= state == 0;
    if (state < 0 || events & (EPOLLERR | EPOLLHUP) ||
        client_watch(s, c, EPOLL_CTL_MOD) < 0)
        client_end(s, c, state != 1 && state != -ENOTCONN);
}

static int client_begin(struct server *s, int fd)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct client *c = calloc(1, sizeof *c);
    uint32_t share = BUDGETS_BYTES / (s->clients + 1);
    int error;

    if (!c)
        return -ENOMEM;
    options.budget_bytes = share < BUDGET_LEAST_BYTES ? BUDGET_LEAST_BYTES
                           : share > BUDGET_BYTES     ? BUDGET_BYTES
                                                      : share;
    c->fd = fd;
    c->begin_ns = monotonic_ns();
    error = autobuf_inband_open(&c->inband, AUTOBUF_INBAND_RESPONDER, fd, &options);
    if (error == 0)
        error = client_watch(s, c, EPOLL_CTL_ADD);
    if (error < 0) {
        autobuf_inband_close(c->inband);
        free(c);
        return error;
    }
    client_link(s, c);
    return 0;
}

static void accept_clients(struct server *s, int listener)
{
    for (unsigned i = 0; i < EVENTS_MOST; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS) && s->oldest) {
            client_make_room(s);
            continue;
        }
        if (fd < 0)
            return;
        if (s->clients >= s->clients_most)
            client_make_room(s);
        if (client_begin(s, fd) < 0)
            close(fd);
    }
}

/* When the first of them has to leave; AUTOBUF_NS_UNSET: there is none. */
static uint64_t end_old_clients(struct server *s, uint64_t now_ns)
{
    uint64_t next_ns = AUTOBUF_NS_UNSET;

    for (struct client *c = s->oldest, *newer; c; c = newer) {
        uint64_t end_ns = c->begin_ns + (c->greeted ? LIFETIME_NS : SILENT_NS);

        newer = c->newer;
        if (end_ns <= now_ns) {
            client_end(s, c, true);
            continue;
        }
        next_ns = end_ns < next_ns ? end_ns : next_ns;
        if (!c->greeted)
            break; /* those behind it are newer */
    }
    return next_ns;
}

/* -------------------------------------------------------------------------------- listening */

static int add_listener(struct server *s, int fd)
{
    if (s->listener_count == LISTENERS_MOST)
        return -ENOSPC;
    s->listeners[s->listener_count++] = fd;
    return 0;
}

/* Sockets that were handed over: sd_listen_fds(3), whose protocol are these two variables. */
static void take_listeners(struct server *s)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    long fds = count ? strtol(count, NULL, 10) : 0;

    if (!pid || strtol(pid, NULL, 10) != getpid())
        return;
    for (int fd = SYSTEMD_FIRST_FD; fd < SYSTEMD_FIRST_FD + fds; fd++) {
        int listens = 0;
        socklen_t len = sizeof listens;

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 || !listens ||
            fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            continue;
        add_listener(s, fd);
    }
}

static int open_listener(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) /* the other list entry is for IPv4 */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        int error = -errno;

        close(fd);
        return error;
    }
    return fd;
}

static int open_listeners(struct server *s, const struct serving *want)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *list;
    int error = AUTOBUF_E_RESOLVE;

    if (getaddrinfo(want->address, want->port, &hints, &list) != 0)
        return AUTOBUF_E_RESOLVE;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int fd = open_listener(a);

        if (fd < 0)
            error = fd;
        else
            add_listener(s, fd);
    }
    freeaddrinfo(list);
    return s->listener_count ? 0 : error;
}

/* Listens, or not while the clients' bytes of this second are used up. */
static int watch_listeners(struct server *s, bool listen)
{
    if (listen == s->listening)
        return 0;
    s->listening = listen;
    for (unsigned i = 0; i < s->listener_count; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &s->listeners[i]};

        if (epoll_ctl(s->epoll, listen ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, s->listeners[i], &e) < 0)
            return -errno;
    }
    return 0;
}

static int *listener_of(struct server *s, void *pointer)
{
    for (unsigned i = 0; i < s->listener_count; i++)
        if (pointer == &s->listeners[i])
            return &s->listeners[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------- loop */

/* As many clients as there may be descriptors. */
static unsigned clients_allowed(void)
{
    struct rlimit files;
    rlim_t want = CLIENTS_MOST + SPARE_FDS;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return CLIENTS_MOST / 2;
    if (files.rlim_cur < want) {
        files.rlim_cur = files.rlim_max < want ? files.rlim_max : want;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= want)
        return CLIENTS_MOST;
    return files.rlim_cur > 2 * SPARE_FDS ? (unsigned)files.rlim_cur - SPARE_FDS : SPARE_FDS;
}

/* Clients first: one that left makes room, and none may be gone when its own event comes. */
static void handle_events(struct server *s, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++)
        if (!listener_of(s, events[i].data.ptr))
            client_step(s, events[i].data.ptr, events[i].events);
    for (int i = 0; i < count; i++) {
        const int *listener = listener_of(s, events[i].data.ptr);

        if (listener)
            accept_clients(s, *listener);
    }
}

static int serve_loop(struct server *s)
{
    for (;;) {
        struct epoll_event events[EVENTS_MOST];
        uint64_t now_ns = monotonic_ns(), wake_ns = end_old_clients(s, now_ns);
        struct timespec t;
        int count, error;

        if (now_ns - s->second_ns >= NS_PER_S) {
            s->second_ns = now_ns;
            s->sent_bytes = 0;
        }
        error = watch_listeners(s, s->sent_bytes < BYTES_A_SECOND);
        if (error < 0)
            return error;
        if (!s->listening && s->second_ns + NS_PER_S < wake_ns)
            wake_ns = s->second_ns + NS_PER_S;
        t = time_until(wake_ns); /* seconds away, or never: a millisecond is fine enough */
        count = epoll_wait(s->epoll, events, EVENTS_MOST,
                           wake_ns == AUTOBUF_NS_UNSET
                               ? -1
                               : (int)t.tv_sec * 1000 + (int)(t.tv_nsec / 1000000) + 1);
        if (count < 0 && errno != EINTR)
            return -errno;
        handle_events(s, events, count);
    }
}

int serve_clients(const struct serving *want)
{
    static struct server s;
    int error = 0;

    take_listeners(&s);
    if (!s.listener_count)
        error = open_listeners(&s, want);
    if (error < 0)
        return error;
    s.clients_most = clients_allowed();
    error = become_nobody();
    if (error < 0)
        return error;
    s.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s.epoll < 0)
        return -errno;
    return serve_loop(&s);
}

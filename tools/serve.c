/* SPDX-License-Identifier: MIT */
/*
 * One process, one epoll loop: what there is to do for a client is short, never waits, and is all in
 * the library's step(), so that a library for loops, with its timers and threads, would only add a
 * dependency.
 */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "privilege.h"
#include "resolve.h"
#include "serve_client.h"

#define HEADROOM_NS (CREDIT_NS / 2) /* of the rate's credit, which transfers leave to others */
#define WRITES_PER_S 200U    /* that a transfer makes at least, at a low rate: its writes are then short */
#define PACKET_LEAST_BYTES 1500U
#define HEADERS_PART 24U /* of payload: 52 bytes of headers to 1448 are less */
#define SYSTEMD_FIRST_FD 3
#define SPARE_FDS 32
#define BACKLOG 1024
#define EVENTS_MOST 64
#define SHORTAGE_NS (AB_NS_PER_S / 10)

/*
 * A place for a transfer of this origin; NULL: all are taken, or it has one. One that is measured already gives way:
 * its client has gone on, and only its last packet was lost.
 */
static struct client **place_for(struct server *s, const struct in6_addr *origin)
{
    struct client **place = NULL;

    for (unsigned i = 0; i < TRANSFERS_MOST; i++) {
        struct client *c = s->transfers[i];
        bool same = c && IN6_ARE_ADDR_EQUAL(&c->origin, origin);

        if (same && c->transfer->phase == TRANSFER_MOVES)
            return NULL;
        if (same)
            client_end(s, c, true);
        if (!s->transfers[i])
            place = &s->transfers[i];
    }
    return place;
}

/* The server's end of what "tuned" means: a program with a flow that sends nothing of its own. */
static struct autobuf_flow *open_flow(int fd, bool sends)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_flow *flow;

    options.intent = sends ? AUTOBUF_INTENT_SENDS : AUTOBUF_INTENT_RECEIVES;
    options.flags = AUTOBUF_FLOW_SILENT;
    return autobuf_flow_open(&flow, fd, NULL, 0, &options) < 0 ? NULL : flow;
}

/* 0: it has begun; or the code of the error that it is answered with. */
static uint64_t admit(struct server *s, struct client *c)
{
    struct autobuf_flow *flow = NULL;
    struct transfer_line ask;
    struct client **place;

    if (!transfer_line_parse(c->line, c->line_len, &ask) || ask.verb != TRANSFER_ASK)
        return TRANSFER_WRONG;
    if (!s->transfer_seconds)
        return TRANSFER_REFUSED;
    place = place_for(s, &c->origin);
    c->transfer = place ? calloc(1, sizeof *c->transfer) : NULL;
    if (!c->transfer)
        return TRANSFER_BUSY;
    *place = c;
    if (ask.number > s->transfer_seconds)
        ask.number = s->transfer_seconds;
    autobuf_inband_close(c->inband); /* puts the socket's options back */
    c->inband = NULL;
    if (ask.values[TRANSFER_TUNED])
        flow = open_flow(c->fd, ask.values[TRANSFER_RECEIVE]);
    c->greeted = true;
    return transfer_open(c->transfer, c->fd, true, &ask, flow, autobuf_now_ns()) < 0 ? TRANSFER_BUSY : 0;
}

/* Answers a client whose first line asks for a transfer: begins it, or ends the client. May end another transfer. */
static void transfers_answer(struct server *s, struct client *c)
{
    struct transfer_line answer = {.verb = TRANSFER_ERROR, .number = admit(s, c)};
    char text[TRANSFER_LINE_BYTES];

    if (answer.number == 0)
        return;
    if (send(c->fd, text, transfer_line_format(&answer, text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        client_end(s, c, true);
        return;
    }
    client_end(s, c, false);
}

/* How much of a transfer may be sent now. */
static size_t allowance(const struct server *s, uint64_t now_ns)
{
    uint64_t bytes = s->rate_bit_per_s / 8 / WRITES_PER_S;

    if (s->paid_ns + HEADROOM_NS > now_ns)
        return 0;
    bytes = bytes < TRANSFER_CHUNK_BYTES ? bytes : TRANSFER_CHUNK_BYTES;
    return bytes > PACKET_LEAST_BYTES ? (size_t)bytes : PACKET_LEAST_BYTES;
}

/* Steps one. Returns whether it goes on. */
static bool step(struct server *s, struct client *c, uint64_t now_ns)
{
    struct transfer *t = c->transfer;
    uint64_t before_bytes = t->moved_bytes;
    int state = transfer_step(t, now_ns, allowance(s, now_ns));

    if (t->sends && t->moved_bytes > before_bytes) {
        spend(s, now_ns, (t->moved_bytes - before_bytes) * (HEADERS_PART + 1) / HEADERS_PART);
        while (s->transfers[s->turn] != c)
            s->turn = (s->turn + 1) % TRANSFERS_MOST;
        s->turn = (s->turn + 1) % TRANSFERS_MOST; /* then the next one writes first */
    }
    if (state == 0)
        state = client_watch(s, c, EPOLL_CTL_MOD, transfer_events(t, allowance(s, now_ns), now_ns));
    if (state != 0)
        client_end(s, c, state < 0);
    return state == 0;
}

/* Steps each transfer. Returns when to do it again at the latest. */
static uint64_t transfers_step(struct server *s, uint64_t now_ns)
{
    uint64_t next_ns = AUTOBUF_NS_UNSET;

    for (unsigned i = 0, first = s->turn; i < TRANSFERS_MOST; i++) {
        struct client *c = s->transfers[(first + i) % TRANSFERS_MOST];
        uint64_t due_ns;

        if (!c || !step(s, c, now_ns))
            continue;
        due_ns = transfer_deadline_ns(c->transfer);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
        due_ns = s->paid_ns + HEADROOM_NS; /* then the rate allows more */
        if (due_ns > now_ns && due_ns < next_ns && transfer_has_more(c->transfer, now_ns))
            next_ns = due_ns;
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

/* Takes the sockets that systemd hands over: sd_listen_fds(3), whose protocol these two variables are. */
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

static int open_listeners(struct server *s, const struct arguments *want)
{
    struct addrinfo *list;
    int error = resolve(want->bind, want->port, AF_UNSPEC, AI_PASSIVE, &list);

    if (error < 0)
        return error;
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

/* Says where it listens: an address and a port, or what systemd has handed over. */
static void say_listening(const struct server *s)
{
    for (unsigned i = 0; i < s->listener_count; i++) {
        struct sockaddr_storage own = {0};
        socklen_t len = sizeof own;
        char host[NAME_BYTES], port[8];

        if (getsockname(s->listeners[i], (struct sockaddr *)&own, &len) == 0 &&
            getnameinfo((struct sockaddr *)&own, len, host, sizeof host, port, sizeof port,
                        NI_NUMERICHOST | NI_NUMERICSERV) == 0)
            fprintf(stderr, "autobuf: listening on %s port %s\n", host, port);
    }
}

static int watch_listeners(struct server *s)
{
    for (unsigned i = 0; i < s->listener_count; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &s->listeners[i]};

        if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listeners[i], &e) < 0)
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

/* This host has no descriptor or no memory left for another client. */
static bool is_short_of_means(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void accept_clients(struct server *s, int listener)
{
    for (unsigned i = 0; i < EVENTS_MOST; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t len = sizeof peer;
        int fd = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && is_short_of_means(errno) && s->oldest) {
            client_make_room(s);
            continue;
        }
        if (fd < 0) {
            if (is_short_of_means(errno)) /* who waits would be told of at once, again and again */
                s->paid_ns = autobuf_now_ns() + SHORTAGE_NS;
            return;
        }
        client_take(s, fd, &peer, len);
    }
}

/* ------------------------------------------------------------------------------------- loop */

/* The number of clients: as many as are wanted, and as many as there may be descriptors for. */
static unsigned clients_allowed(unsigned most)
{
    struct rlimit files;
    rlim_t want = most + SPARE_FDS;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return most;
    if (files.rlim_cur < want) {
        files.rlim_cur = files.rlim_max < want ? files.rlim_max : want;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= want)
        return most;
    return files.rlim_cur > 2 * SPARE_FDS ? (unsigned)files.rlim_cur - SPARE_FDS : SPARE_FDS;
}

/*
 * Clients come first: one that leaves makes room, and none may be gone before its own event is handled. A transfer that
 * begins may end another one.
 */
static void handle_events(struct server *s, const struct epoll_event *events, int count)
{
    struct client *asking[EVENTS_MOST];
    size_t asked = 0;

    for (int i = 0; i < count; i++)
        if (!listener_of(s, events[i].data.ptr) && client_step(s, events[i].data.ptr, events[i].events))
            asking[asked++] = events[i].data.ptr;
    for (size_t i = 0; i < asked; i++)
        transfers_answer(s, asking[i]);
    for (int i = 0; i < count; i++) {
        const int *listener = listener_of(s, events[i].data.ptr);

        if (listener)
            accept_clients(s, *listener);
    }
}

/* Events, or none by wake_ns. */
static int wait_for_events(const struct server *s, struct epoll_event *events, int most,
                           uint64_t wake_ns)
{
    int error = ab_wait(s->epoll, POLLIN, wake_ns), count; /* finer than the milliseconds of epoll_wait(2) */

    if (error < 0)
        return error;
    count = epoll_wait(s->epoll, events, most, 0);
    if (count < 0)
        return errno == EINTR ? 0 : -errno;
    return count;
}

/*
 * If more was sent than the rate allows, nobody is served until the average is below it. Then one client is served:
 * if several were, the later ones would always find the rate used up.
 */
static int serve_loop(struct server *s)
{
    int most = EVENTS_MOST;

    for (;;) {
        struct epoll_event events[EVENTS_MOST];
        uint64_t now_ns = autobuf_now_ns(), wake_ns = clients_end_old(s, now_ns), due_ns;
        int count;

        if (is_overspent(s, now_ns)) {
            ab_wait(-1, 0, s->paid_ns < wake_ns ? s->paid_ns : wake_ns);
            most = 1;
            continue;
        }
        due_ns = transfers_step(s, now_ns);
        count = wait_for_events(s, events, most, due_ns < wake_ns ? due_ns : wake_ns);
        if (count < 0)
            return count;
        handle_events(s, events, count);
        most = EVENTS_MOST;
    }
}

int serve_clients(const struct arguments *want)
{
    static struct server s;
    int error = 0;

    take_listeners(&s);
    if (!s.listener_count)
        error = open_listeners(&s, want);
    if (error < 0)
        return error;
    s.clients_most = clients_allowed((unsigned)want->clients);
    s.per_address = (unsigned)want->per_address;
    s.transfer_seconds = (unsigned)want->transfer_seconds;
    s.rate_bit_per_s = want->rate_bit_per_s;
    error = become_nobody();
    if (error < 0)
        return error;
    s.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s.epoll < 0)
        return -errno;
    error = watch_listeners(&s);
    if (error == 0)
        say_listening(&s);
    return error < 0 ? error : serve_loop(&s);
}

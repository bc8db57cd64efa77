/* SPDX-License-Identifier: MIT */
/*
 * One process, one epoll loop: what there is to do for a client is short, never waits, and is all in the library's
 * step(), so that a library for loops, with its timers and threads, would only add a dependency.
 *
 * Clients are hostile, also when they have said HELLO. What bounds them: a number of clients of one address; a number
 * of all, the oldest silent one leaving for a new one; a lifetime; a budget of bytes for each, which shrinks as they
 * become more; and a rate for all of them together. Transfers, if they are allowed at all, are few, and have what the
 * others leave of the rate.
 */
#include "arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "../lib/base/address.h"
#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "print.h"
#include "privilege.h"
#include "resolve.h"
#include "transfer.h"

#define LISTENERS_MOST 16
#define TRANSFERS_MOST 2 /* at once; of one address 1 */
#define CREDIT_NS (AB_NS_PER_S / 100) /* percent of the rate that may be made up for after a pause */
#define NAME_BYTES (INET6_ADDRSTRLEN + 8)
#define SILENT_NS (3 * AB_NS_PER_S) /* without a HELLO */
#define LIFETIME_NS (12 * AB_NS_PER_S)
#define BUDGET_LEAST_BYTES 60000U
#define BUDGETS_BYTES (64U * 1000 * 1000) /* of all clients */
#define LINES_PER_S 10U /* that are logged of clients: nobody may fill a disk by connecting */
#define HEADROOM_NS (CREDIT_NS / 2) /* of the rate's credit, which transfers leave to others */
#define WRITES_PER_S 200U    /* that a transfer makes at least, at a low rate: its writes are then short */
#define PACKET_LEAST_BYTES 1500U
#define HEADERS_PART 24U /* of payload: 52 bytes of headers to 1448 are less */
#define SYSTEMD_FIRST_FD 3
#define SPARE_FDS 32
#define BACKLOG 1024
#define EVENTS_MOST 64
#define SHORTAGE_NS (AB_NS_PER_S / 10)

struct client {
    TAILQ_ENTRY(client) place;
    struct autobuf_inband *inband;
    int fd;
    uint32_t events;
    struct in6_addr origin;
    char name[NAME_BYTES]; /* its address, numeric */
    char line[TRANSFER_LINE_BYTES]; /* its first line, as far as it may be one that asks for a transfer */
    size_t line_len;
    bool measures; /* what it says is the measurement's */
    bool greeted;
    struct transfer *transfer; /* NULL: none */
    uint64_t begin_ns;
    uint64_t cost_bytes;
};

struct server {
    const struct arguments *want;
    int epoll;
    int listeners[LISTENERS_MOST];
    unsigned listener_count;
    TAILQ_HEAD(list, client) list; /* the oldest first */
    unsigned clients;              /* in it */
    unsigned clients_most;
    struct client *transfers[TRANSFERS_MOST]; /* NULL: a place that is free */
    unsigned turn; /* of these, who writes first */
    uint64_t paid_ns; /* at the rate of all, what was sent by now takes until then */
    uint64_t second_ns; /* in which lines are counted: its begin */
    unsigned lines;     /* in it */
};

/* ---------------------------------------------------------------------------------- clients */

/* One line for a client that has measured, on standard error. Those beyond LINES_PER_S are counted. */
static void client_log(struct server *s, const struct client *c)
{
    uint64_t now_ns = autobuf_now_ns(), bytes = c->transfer ? c->transfer->moved_bytes : c->cost_bytes;
    const char *deed = !c->transfer ? "sent" : c->transfer->sends ? "transfer, sent" : "transfer, received";

    if (!c->greeted)
        return;
    if (now_ns - s->second_ns >= AB_NS_PER_S) {
        if (s->lines > LINES_PER_S)
            fprintf(stderr, "autobuf: %u more clients\n", s->lines - LINES_PER_S);
        s->second_ns = now_ns;
        s->lines = 0;
    }
    if (++s->lines <= LINES_PER_S)
        fprintf(stderr, "autobuf: %s: %s %sB in %.2f s\n", c->name, deed, SCALED(bytes),
                (double)(now_ns - c->begin_ns) / 1e9);
}

/* Closes it so that nothing of it is kept in this kernel. */
static void reset(int fd)
{
    struct linger now = {1, 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

/*
 * Ends it. Resets the connection if something was left unsent or unacknowledged, beyond a last line, so that a hostile
 * peer does not keep memory in this kernel.
 */
static void client_end(struct server *s, struct client *c, bool unsaid)
{
    int queued = 0;

    client_log(s, c);
    TAILQ_REMOVE(&s->list, c, place);
    s->clients--;
    autobuf_inband_close(c->inband);
    for (unsigned i = 0; c->transfer && i < TRANSFERS_MOST; i++)
        if (s->transfers[i] == c)
            s->transfers[i] = NULL;
    if (c->transfer)
        transfer_close(c->transfer);
    if (unsaid || (ioctl(c->fd, SIOCOUTQ, &queued) == 0 && queued > TRANSFER_LINE_BYTES))
        reset(c->fd);
    else
        close(c->fd);
    free(c->transfer);
    free(c);
}

/* What counts as one address. For IPv6 it is the network of 64 bits, in which a host may take any address. */
static struct in6_addr origin_of(const struct sockaddr_storage *peer)
{
    struct in6_addr origin = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    struct sockaddr_storage host; /* of IPv4 also where it is mapped into IPv6 */
    size_t count;
    const void *bytes;

    (void)ab_address_copy((const struct sockaddr *)peer, sizeof *peer, &host);
    bytes = ab_address_bytes(&host, &count);
    if (count == 4)
        memcpy(origin.s6_addr + 12, bytes, 4);
    else
        memcpy(origin.s6_addr, bytes, 8);
    return origin;
}

static bool is_crowd(const struct server *s, const struct in6_addr *origin)
{
    const struct client *c;
    unsigned count = 0;

    TAILQ_FOREACH (c, &s->list, place)
        count += IN6_ARE_ADDR_EQUAL(&c->origin, origin) ? 1U : 0U;
    return count >= s->want->per_address;
}

/* Ends the oldest that has not said HELLO, or else the oldest. There is one. */
static void client_make_room(struct server *s)
{
    struct client *c;

    TAILQ_FOREACH (c, &s->list, place)
        if (!c->greeted)
            break;
    client_end(s, c ? c : TAILQ_FIRST(&s->list), true);
}

/*
 * epoll_ctl(2), for events of poll(2). 0, -errno. A half-close shows as the end of input, when input is wanted.
 * EPOLLRDHUP would be reported again and again while the client takes nothing of its answer.
 */
static int client_watch(struct server *s, struct client *c, int operation, int events)
{
    struct epoll_event e = {.events = (uint32_t)events, .data.ptr = c}; /* poll's are epoll's */

    if (operation == EPOLL_CTL_MOD && e.events == c->events)
        return 0;
    c->events = e.events;
    return epoll_ctl(s->epoll, operation, c->fd, &e) < 0 ? -errno : 0;
}

/* Counts bytes that were sent against the rate. */
static void spend(struct server *s, uint64_t now_ns, uint64_t bytes)
{
    s->paid_ns = ab_max(s->paid_ns, now_ns - CREDIT_NS) + bytes * 8 * AB_NS_PER_S / s->want->rate_bit_per_s;
}

/*
 * Is what the client says the measurement's? Its first bytes show that. If not, *asks becomes true once the line that
 * asks for a transfer is here; or there is more to come, or the client is gone.
 */
static bool client_measures(struct server *s, struct client *c, bool *asks)
{
    int heard;

    if (c->measures)
        return true;
    heard = transfer_hear(c->fd, TRANSFER_PREFIX, c->line, &c->line_len);
    if (heard == TRANSFER_NOT) {
        c->measures = true;
        autobuf_inband_input(c->inband, autobuf_now_ns(), c->line, c->line_len); /* step() tells an error of it */
        return true;
    }
    *asks = heard == 1 || heard == -EPROTO; /* a line that is too long is answered, too */
    if (heard < 0 && !*asks)
        client_end(s, c, heard != -ENOTCONN);
    return false;
}

/* After events of it. Returns whether it asks for a transfer. Ends no other client. */
static bool client_step(struct server *s, struct client *c, uint32_t events)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    uint64_t now_ns = autobuf_now_ns();
    bool asks = false;
    int state;

    if (c->transfer && events & EPOLLERR) { /* it would be told until the next chunk is due */
        client_end(s, c, true);
        return false;
    }
    if (c->transfer || s->paid_ns > now_ns)
        return false; /* transfers have their own turn; another one is told again after the pause */
    if (!client_measures(s, c, &asks))
        return asks;
    state = autobuf_inband_step(c->inband, now_ns);
    autobuf_inband_result(c->inband, &path);
    spend(s, now_ns, path.cost_bytes - c->cost_bytes);
    c->cost_bytes = path.cost_bytes;
    c->greeted = autobuf_inband_greeted(c->inband);
    if (state < 0 || events & (EPOLLERR | EPOLLHUP) ||
        client_watch(s, c, EPOLL_CTL_MOD, autobuf_inband_events(c->inband)) < 0)
        client_end(s, c, state != 1 && state != -ENOTCONN);
    return false;
}

/*
 * Takes a connection as a client. Resets it if its address has as many clients as it may have. If there are as many as
 * there may be, another one leaves for it.
 */
static void client_take(struct server *s, int fd, const struct sockaddr_storage *peer, socklen_t peer_len)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct in6_addr origin = origin_of(peer);
    struct client *c;
    int error = -ENOMEM;

    if (is_crowd(s, &origin)) { /* before anybody else has to leave for it */
        reset(fd);
        return;
    }
    if (s->clients >= s->clients_most)
        client_make_room(s);
    options.budget_bytes = (uint32_t)ab_min(ab_max(BUDGETS_BYTES / (s->clients + 1), BUDGET_LEAST_BYTES),
                                            AUTOBUF_INBAND_BUDGET_BYTES);
    c = calloc(1, sizeof *c);
    if (c) {
        *c = (struct client){.fd = fd, .origin = origin, .begin_ns = autobuf_now_ns()};
        if (getnameinfo((const struct sockaddr *)peer, peer_len, c->name, sizeof c->name, NULL, 0, NI_NUMERICHOST) != 0)
            snprintf(c->name, sizeof c->name, "?");
        error = autobuf_inband_open(&c->inband, AUTOBUF_INBAND_RESPONDER, fd, &options);
    }
    if (error == 0)
        error = client_watch(s, c, EPOLL_CTL_ADD, autobuf_inband_events(c->inband));
    if (error == 0) {
        TAILQ_INSERT_TAIL(&s->list, c, place);
        s->clients++;
        return;
    }
    if (c)
        autobuf_inband_close(c->inband);
    free(c);
    close(fd);
}

/* Ends those whose time is over. Returns when the next one's is; AUTOBUF_NS_UNSET: there is none. */
static uint64_t clients_end_old(struct server *s, uint64_t now_ns)
{
    uint64_t next_ns = AUTOBUF_NS_UNSET;

    for (struct client *c = TAILQ_FIRST(&s->list), *newer; c; c = newer) {
        uint64_t end_ns = c->begin_ns + (c->greeted ? LIFETIME_NS : SILENT_NS);

        newer = TAILQ_NEXT(c, place);
        if (c->transfer)
            continue; /* it ends by its own deadline */
        if (end_ns <= now_ns) {
            client_end(s, c, true);
            continue;
        }
        next_ns = ab_min(end_ns, next_ns);
        if (!c->greeted)
            break; /* those behind it are newer */
    }
    return next_ns;
}

/* -------------------------------------------------------------------------------- transfers */

/*
 * A place for a transfer of this origin; NULL: all are taken, or it has one. One that is measured already, or that has
 * waited a second for its next stretch, gives way: its client has gone on, and only its last packet was lost.
 */
static struct client **place_for(struct server *s, const struct in6_addr *origin)
{
    uint64_t now_ns = autobuf_now_ns();
    struct client **place = NULL;

    for (unsigned i = 0; i < TRANSFERS_MOST; i++) {
        struct client *c = s->transfers[i];
        bool same = c && IN6_ARE_ADDR_EQUAL(&c->origin, origin);

        if (same && (c->transfer->phase == TRANSFER_MOVES ||
                     (c->transfer->phase == TRANSFER_WAITS && now_ns - c->transfer->progress_ns < AB_NS_PER_S)))
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
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE;
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
    if (!s->want->transfer_seconds)
        return TRANSFER_REFUSED;
    place = place_for(s, &c->origin);
    c->transfer = place ? calloc(1, sizeof *c->transfer) : NULL;
    if (!c->transfer)
        return TRANSFER_BUSY;
    *place = c;
    ask.number = ab_min(ask.number, s->want->transfer_seconds);
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
    client_end(s, c, send(c->fd, text, transfer_line_format(&answer, text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0);
}

/* How much of a transfer may be sent now. */
static size_t allowance(const struct server *s, uint64_t now_ns)
{
    if (s->paid_ns + HEADROOM_NS > now_ns)
        return 0;
    return ab_max(PACKET_LEAST_BYTES, ab_min(s->want->rate_bit_per_s / 8 / WRITES_PER_S, TRANSFER_CHUNK_BYTES));
}

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
        uint64_t more_ns; /* the rate allows more then */

        if (!c || !step(s, c, now_ns))
            continue;
        next_ns = ab_min(transfer_deadline_ns(c->transfer), next_ns);
        more_ns = s->paid_ns + HEADROOM_NS;
        if (more_ns > now_ns && transfer_has_more(c->transfer, now_ns))
            next_ns = ab_min(more_ns, next_ns);
    }
    return next_ns;
}

/* -------------------------------------------------------------------------------- listening */

static void add_listener(struct server *s, int fd)
{
    if (s->listener_count < LISTENERS_MOST)
        s->listeners[s->listener_count++] = fd;
}

/* Takes the sockets that systemd hands over: sd_listen_fds(3), whose protocol these two variables are. */
static void take_listeners(struct server *s)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    long fds = count ? strtol(count, NULL, 10) : 0;
    int end = SYSTEMD_FIRST_FD + (int)ab_min(fds > 0 ? (uint64_t)fds : 0, LISTENERS_MOST);

    if (!pid || strtol(pid, NULL, 10) != getpid())
        return;
    for (int fd = SYSTEMD_FIRST_FD; fd < end; fd++) {
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
    int error = resolve(want->bind, want->port, AF_UNSPEC, AI_PASSIVE, &list), taken = 0;

    if (error < 0)
        return error;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int fd = open_listener(a);

        if (fd >= 0)
            add_listener(s, fd);
        else if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL) /* one family may be off */
            taken = fd;
        else
            error = fd;
    }
    freeaddrinfo(list);
    return taken ? taken : s->listener_count ? 0 : error;
}

/* Says where it listens: an address and a port, or what systemd has handed over. */
static int watch_listeners(struct server *s)
{
    for (unsigned i = 0; i < s->listener_count; i++) {
        struct epoll_event e = {.events = EPOLLIN}; /* data.ptr: no client */
        struct sockaddr_storage own = {0};
        socklen_t len = sizeof own;
        char host[NAME_BYTES], port[8];

        if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listeners[i], &e) < 0)
            return -errno;
        if (getsockname(s->listeners[i], (struct sockaddr *)&own, &len) == 0 &&
            getnameinfo((struct sockaddr *)&own, len, host, sizeof host, port, sizeof port,
                        NI_NUMERICHOST | NI_NUMERICSERV) == 0)
            fprintf(stderr, "autobuf: listening on %s port %s\n", host, port);
    }
    return 0;
}

static void accept_clients(struct server *s, int listener)
{
    for (unsigned i = 0; i < EVENTS_MOST; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t len = sizeof peer;
        int fd = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        bool shortage = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);

        if (fd >= 0) {
            client_take(s, fd, &peer, len);
        } else if (shortage && s->clients) {
            client_make_room(s);
        } else {
            if (shortage) /* who waits would be told of at once, again and again */
                s->paid_ns = autobuf_now_ns() + SHORTAGE_NS;
            return;
        }
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
        files.rlim_cur = ab_min(files.rlim_max, want);
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
    bool arrived = false;

    for (int i = 0; i < count; i++) {
        struct client *c = events[i].data.ptr;

        if (!c)
            arrived = true;
        else if (client_step(s, c, events[i].events))
            asking[asked++] = c;
    }
    for (size_t i = 0; i < asked; i++)
        transfers_answer(s, asking[i]);
    for (unsigned i = 0; arrived && i < s->listener_count; i++)
        accept_clients(s, s->listeners[i]);
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

        if (s->paid_ns > now_ns) {
            ab_wait(-1, 0, ab_min(s->paid_ns, wake_ns));
            most = 1;
            continue;
        }
        due_ns = transfers_step(s, now_ns);
        count = ab_wait(s->epoll, POLLIN, ab_min(due_ns, wake_ns)); /* finer than the milliseconds of epoll_wait(2) */
        if (count == 0) {
            count = epoll_wait(s->epoll, events, most, 0);
            count = count < 0 ? (errno == EINTR ? 0 : -errno) : count;
        }
        if (count < 0)
            return count;
        handle_events(s, events, count);
        most = EVENTS_MOST;
    }
}

static int begin(struct server *s, const struct arguments *want)
{
    s->want = want;
    TAILQ_INIT(&s->list);
    take_listeners(s);
    return s->listener_count ? 0 : open_listeners(s, want);
}

static int serve(struct server *s)
{
    int error;

    s->clients_most = clients_allowed((unsigned)s->want->clients);
    error = become_nobody();
    if (error < 0)
        return error;
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll < 0)
        return -errno;
    error = watch_listeners(s);
    return error < 0 ? error : serve_loop(s);
}

int serve_clients(const struct arguments *want)
{
    static struct server s;
    int error = begin(&s, want);

    if (error == 0) {
        fprintf(stderr, "autobuf: cannot serve: %s\n", strerror(-serve(&s)));
        return EXIT_NOTHING;
    }
    fprintf(stderr, "autobuf: cannot listen on %s%sport %s: %s\n", want->bind ? want->bind : "",
            want->bind ? ", " : "", want->port, resolve_strerror(error, want->bind, AF_UNSPEC));
    return error == -EACCES || error == -EPERM ? EXIT_NOT_PERMITTED : EXIT_NOTHING;
}

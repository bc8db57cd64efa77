/* SPDX-License-Identifier: MIT */
/*
 * Clients are hostile, also when they have said HELLO. What bounds them: a number of clients of one address;
 * a number of all, the oldest silent one leaving for a new one; a lifetime; a budget of bytes for each, which
 * shrinks as they become more; and a rate for all of them together. Transfers, if they are allowed at all, are few,
 * and have what the others leave of the rate.
 */
#include "serve_client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../lib/base/base.h"

#define SILENT_NS (3 * AB_NS_PER_S) /* without a HELLO */
#define LIFETIME_NS (12 * AB_NS_PER_S)
#define BUDGET_LEAST_BYTES 60000U
#define BUDGETS_BYTES (64U * 1000 * 1000) /* of all clients */
#define LINES_PER_S 10U /* that are logged of clients: nobody may fill a disk by connecting */

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

/* "sent", or what a transfer did. */
static const char *client_deed(const struct client *c)
{
    if (!c->transfer)
        return "sent";
    return c->transfer->sends ? "transfer, sent" : "transfer, received";
}

/* One line for a client that has measured, on standard error. Those beyond LINES_PER_S are counted. */
static void client_log(struct server *s, const struct client *c)
{
    uint64_t now_ns = autobuf_now_ns(), bytes = c->transfer ? c->transfer->moved_bytes : c->cost_bytes;

    if (!c->greeted)
        return;
    if (now_ns - s->second_ns >= AB_NS_PER_S) {
        if (s->lines > LINES_PER_S)
            fprintf(stderr, "autobuf: %u more clients\n", s->lines - LINES_PER_S);
        s->second_ns = now_ns;
        s->lines = 0;
    }
    if (++s->lines <= LINES_PER_S)
        fprintf(stderr, "autobuf: %s: %s %.1f kB in %.2f s\n", c->name, client_deed(c), (double)bytes / 1e3,
                (double)(now_ns - c->begin_ns) / 1e9);
}

/* Closes it so that nothing of it is kept in this kernel. */
static void reset(int fd)
{
    struct linger now = {1, 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

void client_end(struct server *s, struct client *c, bool unsaid)
{
    client_log(s, c);
    client_unlink(s, c);
    autobuf_inband_close(c->inband);
    for (unsigned i = 0; c->transfer && i < TRANSFERS_MOST; i++)
        if (s->transfers[i] == c)
            s->transfers[i] = NULL;
    if (c->transfer)
        transfer_close(c->transfer);
    if (unsaid)
        reset(c->fd);
    else
        close(c->fd);
    free(c->transfer);
    free(c);
}

/* What counts as one address. For IPv6 it is the network of 64 bits, in which a host may take any address. */
static struct in6_addr origin_of(const struct sockaddr_storage *peer)
{
    const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)peer;
    struct in6_addr origin = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

    if (peer->ss_family != AF_INET6) {
        memcpy(origin.s6_addr + 12, &ipv4->sin_addr, sizeof ipv4->sin_addr);
        return origin;
    }
    origin = ((const struct sockaddr_in6 *)peer)->sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&origin))
        memset(origin.s6_addr + 8, 0, 8);
    return origin;
}

static bool is_crowd(const struct server *s, const struct in6_addr *origin)
{
    unsigned count = 0;

    for (const struct client *c = s->newest; c && count < s->per_address; c = c->older)
        count += IN6_ARE_ADDR_EQUAL(&c->origin, origin) ? 1U : 0U;
    return count >= s->per_address;
}

void client_make_room(struct server *s)
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
 * A half-close shows as the end of input, when input is wanted. EPOLLRDHUP would be reported again and again while
 * the client takes nothing of its answer.
 */
int client_watch(struct server *s, struct client *c, int operation, int events)
{
    struct epoll_event e = {.events = (uint32_t)events, .data.ptr = c}; /* poll's are epoll's */

    if (operation == EPOLL_CTL_MOD && e.events == c->events)
        return 0;
    c->events = e.events;
    return epoll_ctl(s->epoll, operation, c->fd, &e) < 0 ? -errno : 0;
}

bool is_overspent(const struct server *s, uint64_t now_ns)
{
    return s->paid_ns > now_ns;
}

void spend(struct server *s, uint64_t now_ns, uint64_t bytes)
{
    uint64_t least_ns = now_ns - CREDIT_NS, from_ns = s->paid_ns > least_ns ? s->paid_ns : least_ns;

    s->paid_ns = from_ns + bytes * 8 * AB_NS_PER_S / s->rate_bit_per_s;
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
    heard = transfer_hear(c->fd, c->line, &c->line_len);
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

bool client_step(struct server *s, struct client *c, uint32_t events)
{
    uint64_t now_ns = autobuf_now_ns(), cost_bytes;
    bool asks = false;
    int state;

    if (c->transfer || is_overspent(s, now_ns))
        return false; /* transfers have their own turn; another one is told again after the pause */
    if (!client_measures(s, c, &asks))
        return asks;
    state = autobuf_inband_step(c->inband, now_ns);
    cost_bytes = client_cost_bytes(c);
    spend(s, now_ns, cost_bytes - c->cost_bytes);
    c->cost_bytes = cost_bytes;
    c->greeted = autobuf_inband_greeted(c->inband);
    if (state < 0 || events & (EPOLLERR | EPOLLHUP) ||
        client_watch(s, c, EPOLL_CTL_MOD, autobuf_inband_events(c->inband)) < 0)
        client_end(s, c, state != 1 && state != -ENOTCONN);
    return false;
}

static int client_begin(struct server *s, int fd, const struct sockaddr_storage *peer, socklen_t peer_len,
                        const struct in6_addr *origin)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct client *c = calloc(1, sizeof *c);
    uint32_t share = BUDGETS_BYTES / (s->clients + 1);
    int error;

    if (!c)
        return -ENOMEM;
    options.budget_bytes = share < BUDGET_LEAST_BYTES ? BUDGET_LEAST_BYTES
                           : share > AUTOBUF_INBAND_BUDGET_BYTES     ? AUTOBUF_INBAND_BUDGET_BYTES
                                                      : share;
    c->fd = fd;
    c->origin = *origin;
    if (getnameinfo((const struct sockaddr *)peer, peer_len, c->name, sizeof c->name, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(c->name, sizeof c->name, "?");
    c->begin_ns = autobuf_now_ns();
    error = autobuf_inband_open(&c->inband, AUTOBUF_INBAND_RESPONDER, fd, &options);
    if (error == 0)
        error = client_watch(s, c, EPOLL_CTL_ADD, autobuf_inband_events(c->inband));
    if (error < 0) {
        autobuf_inband_close(c->inband);
        free(c);
        return error;
    }
    client_link(s, c);
    return 0;
}

void client_take(struct server *s, int fd, const struct sockaddr_storage *peer, socklen_t peer_len)
{
    struct in6_addr origin = origin_of(peer);

    if (is_crowd(s, &origin)) { /* before anybody else has to leave for it */
        reset(fd);
        return;
    }
    if (s->clients >= s->clients_most)
        client_make_room(s);
    if (client_begin(s, fd, peer, peer_len, &origin) < 0)
        close(fd);
}

uint64_t clients_end_old(struct server *s, uint64_t now_ns)
{
    uint64_t next_ns = AUTOBUF_NS_UNSET;

    for (struct client *c = s->oldest, *newer; c; c = newer) {
        uint64_t end_ns = c->begin_ns + (c->greeted ? LIFETIME_NS : SILENT_NS);

        newer = c->newer;
        if (c->transfer)
            continue; /* it ends by its own deadline */
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

/* SPDX-License-Identifier: MIT */
/*
 * Transfers of autobuf serve. All are stepped in each turn of its loop, with a bounded number of bytes. They are sent
 * what the rate leaves: a part of its credit stays for clients that measure.
 */
#include "serve_transfer.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define HEADROOM_NS (CREDIT_NS / 2) /* of the rate's credit, which transfers leave to others */
#define WRITES_PER_S 200U    /* that a transfer makes at least, at a low rate: its writes are then short */
#define PACKET_LEAST_BYTES 1500U
#define HEADERS_PART 24U /* of payload: 52 bytes of headers to 1448 are less */

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

void transfers_answer(struct server *s, struct client *c)
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

uint64_t transfers_step(struct server *s, uint64_t now_ns)
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

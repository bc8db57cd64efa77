/* SPDX-License-Identifier: MIT */
/* The clients of autobuf serve: their list, their bounds, their measurements, and the rate that they share. */
#ifndef SERVE_CLIENT_H
#define SERVE_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/autobuf.h>

#include "../lib/base/base.h"
#include "transfer.h"

#define LISTENERS_MOST 16
#define TRANSFERS_MOST 2 /* at once; of one address 1 */
#define CREDIT_NS (AB_NS_PER_S / 100) /* percent of the rate that may be made up for after a pause */
#define NAME_BYTES (INET6_ADDRSTRLEN + 8)

/* In a list, the oldest first. */
struct client {
    struct client *older, *newer;
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
    int epoll;
    int listeners[LISTENERS_MOST];
    unsigned listener_count;
    struct client *oldest, *newest;
    unsigned clients;
    unsigned clients_most;
    unsigned per_address;
    unsigned transfer_seconds;
    struct client *transfers[TRANSFERS_MOST]; /* NULL: a place that is free */
    unsigned turn; /* of these, who writes first */
    uint64_t rate_bit_per_s;
    uint64_t paid_ns; /* at this rate, what was sent by now takes until then */
    uint64_t second_ns; /* in which lines are counted: its begin */
    unsigned lines;     /* in it */
};

/*
 * Takes a connection as a client. Resets it if its address has as many clients as it may have. If there are as many as
 * there may be, another one leaves for it.
 */
void client_take(struct server *s, int fd, const struct sockaddr_storage *peer, socklen_t peer_len);

/* Ends the oldest that has not said HELLO, or else the oldest. There is one. */
void client_make_room(struct server *s);

/* After events of it. Returns whether it asks for a transfer. Ends no other client. */
bool client_step(struct server *s, struct client *c, uint32_t events);

/* epoll_ctl(2), for events of poll(2). 0, -errno. */
int client_watch(struct server *s, struct client *c, int operation, int events);

/*
 * Ends it. Resets the connection if something was left unsent, so that a hostile peer does not keep memory in
 * this kernel.
 */
void client_end(struct server *s, struct client *c, bool unsaid);

/* Ends those whose time is over. Returns when the next one's is; AUTOBUF_NS_UNSET: there is none. */
uint64_t clients_end_old(struct server *s, uint64_t now_ns);

/* Counts bytes that were sent against the rate. */
void spend(struct server *s, uint64_t now_ns, uint64_t bytes);

/* Was more sent than the rate allows by now? */
bool is_overspent(const struct server *s, uint64_t now_ns);

#endif

/* SPDX-License-Identifier: MIT */
/* The clients of autobuf serve, for the files that serve them. */
#ifndef SERVE_CLIENT_H
#define SERVE_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "clock.h"
#include "transfer.h"

#define LISTENERS_MOST 16
#define TRANSFERS_MOST 2 /* at once; of one address 1 */
#define CREDIT_NS (NS_PER_S / 100) /* percent of the rate that may be made up for after a pause */
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
 * Ends it. Resets the connection if something was left unsent, so that a hostile peer does not keep memory in
 * this kernel.
 */
void client_end(struct server *s, struct client *c, bool unsaid);

/* epoll_ctl(2), for events of poll(2). 0, -errno. */
int client_watch(struct server *s, struct client *c, int operation, int events);

/* Counts bytes that were sent against the rate. */
void spend(struct server *s, uint64_t now_ns, uint64_t bytes);

/* Answers a client whose first line asks for a transfer: begins it, or ends the client. May end another transfer. */
void transfers_answer(struct server *s, struct client *c);

/* Steps each transfer. Returns when to do it again at the latest. */
uint64_t transfers_step(struct server *s, uint64_t now_ns);

#endif

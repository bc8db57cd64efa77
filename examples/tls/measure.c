/* SPDX-License-Identifier: MIT */
/* The client: a line of the protocol, a measurement over the same connection, and a line again. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exchange.h"
#include "tlsline.h"

static int connect_to(int fd, const struct addrinfo *a)
{
    return connect(fd, a->ai_addr, a->ai_addrlen);
}

/* Says a line, and expects this answer. */
static int ask(struct link *l, const char *line, const char *want)
{
    int result = link_say(l, line, strlen(line));

    if (result == 0)
        result = link_line(l);
    if (result < 0)
        return result;
    if ((size_t)result != strlen(want) || memcmp(l->plain + l->begin, want, strlen(want)) != 0)
        return -EPROTO;
    link_take(l, (size_t)result);
    return 0;
}

/* What cannot be told is null. */
static void print_number(const char *key, uint64_t value, uint64_t unknown)
{
    if (value == unknown)
        printf("\"%s\":null,", key);
    else
        printf("\"%s\":%" PRIu64 ",", key, value);
}

static void print_path(const struct autobuf_path *p)
{
    putchar('{');
    print_number("tx_rate_bit_per_s", p->tx_rate_bit_per_s, 0);
    print_number("rx_rate_bit_per_s", p->rx_rate_bit_per_s, 0);
    printf("\"tx_at_least\":%s,", p->flags & AUTOBUF_PATH_TX_AT_LEAST ? "true" : "false");
    printf("\"rx_at_least\":%s,", p->flags & AUTOBUF_PATH_RX_AT_LEAST ? "true" : "false");
    print_number("rtt_min_ns", p->rtt_min_ns, AUTOBUF_NS_UNSET);
    printf("\"elapsed_ns\":%" PRIu64 "}\n", p->elapsed_ns);
}

static int measure_over(struct link *l)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_inband *initiator;
    int result =
        autobuf_inband_open_pure(&initiator, AUTOBUF_INBAND_INITIATOR, autobuf_now_ns(), NULL);

    if (result < 0)
        return result;
    result = exchange_run(l, initiator);
    if (result == 1)
        result = autobuf_inband_result(initiator, &path);
    autobuf_inband_close(initiator);
    if (result < 0 && result != AUTOBUF_E_FEW)
        return result;
    print_path(&path);
    return 0;
}

static int converse(struct link *l)
{
    int result = ask(l, "ECHO before\n", "ECHO before\n");

    if (result == 0)
        result = measure_over(l);
    link_restore(l);
    if (result == 0)
        result = ask(l, "ECHO after\n", "ECHO after\n");
    return result == 0 ? ask(l, "QUIT\n", "BYE\n") : result;
}

int measure(const char *host, const char *port)
{
    SSL_CTX *context = link_context(false);
    struct link link;
    int result = context ? open_address(host, port, 0, connect_to) : -ENOMEM;

    if (result >= 0)
        result = link_open(&link, context, result, false);
    if (result == 0) {
        result = converse(&link);
        link_close(&link);
    }
    SSL_CTX_free(context);
    return result;
}

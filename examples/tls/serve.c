/* SPDX-License-Identifier: MIT */
/*
 * The server: one client after the other. A responder gets a line of the exchange, and all that follows until the
 * exchange is over.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exchange.h"
#include "tlsline.h"

#define BACKLOG 16
#define PREFIX "AUTOBUF "

static bool begins(const char *line, size_t len, const char *with)
{
    return len >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

/* A line of its own protocol. 1: the client may go on; 0: it said QUIT; or -errno. */
static int answer(struct link *l, size_t len)
{
    const char *line = (const char *)l->plain + l->begin;
    int error;

    if (begins(line, len, "ECHO "))
        error = link_say(l, line, len);
    else if (begins(line, len, "QUIT\n") || begins(line, len, "QUIT\r\n"))
        return link_say(l, "BYE\n", 4);
    else
        error = link_say(l, "WHAT\n", 5);
    link_take(l, len);
    return error < 0 ? error : 1;
}

static int serve_lines(struct link *l, struct autobuf_inband *responder)
{
    int result;

    do {
        result = link_line(l);
        if (result < 0)
            return result;
        if (begins((const char *)l->plain + l->begin, (size_t)result, PREFIX))
            result = exchange_run(l, responder);
        else
            result = answer(l, (size_t)result);
    } while (result > 0);
    return result;
}

static int serve_client(SSL_CTX *context, int fd)
{
    struct autobuf_inband *responder;
    struct link link;
    int result = link_open(&link, context, fd, true);

    if (result < 0)
        return result;
    result =
        autobuf_inband_open_pure(&responder, AUTOBUF_INBAND_RESPONDER, autobuf_now_ns(), NULL);
    if (result == 0) {
        result = serve_lines(&link, responder);
        autobuf_inband_close(responder);
    }
    link_close(&link);
    return result;
}

static int listen_at(int fd, const struct addrinfo *a)
{
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bind(fd, a->ai_addr, a->ai_addrlen) < 0 ? -1 : listen(fd, BACKLOG);
}

int serve(const char *address, const char *port)
{
    SSL_CTX *context = link_context(true);
    int listener = context ? open_address(address, port, AI_PASSIVE, listen_at) : -ENOMEM;
    int result = listener < 0 ? listener : 0;

    while (result == 0) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), error;

        if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
            result = -errno;
        if (fd < 0)
            continue;
        error = serve_client(context, fd);
        if (error < 0)
            fprintf(stderr, "tlsline: a client: %s\n", autobuf_strerror(error));
    }
    if (listener >= 0)
        close(listener);
    SSL_CTX_free(context);
    return result;
}

/* SPDX-License-Identifier: MIT */
/*
 * A server of a line protocol (ECHO, QUIT) whose clients can measure the path over the same connection. A line that
 * begins with AUTOBUF goes to a responder, as all that follows until the exchange is over. One client at a time. usage:
 * lineserver PORT      and on another host: autobuf measure HOST:PORT
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#define IDLE_NS 60000000000U

struct client {
    int fd;
    struct autobuf_inband *responder;
    struct autobuf_inband_facts facts;
    uint64_t stamp_ns; /* when the last byte of text arrived */
    size_t len;        /* of text */
    char text[4096];
};

/* Waits for an event until a time, but for no longer than a client may be silent. */
static int wait_for(int fd, short events, uint64_t until_ns)
{
    uint64_t now_ns = autobuf_now_ns(), idle_ns = now_ns + IDLE_NS, end_ns = until_ns < idle_ns ? until_ns : idle_ns;
    struct pollfd p = {fd, events, 0};
    int ready = poll(&p, 1, end_ns > now_ns ? (int)((end_ns - now_ns) / 1000000 + 1) : 0);

    return ready == 0 && until_ns > idle_ns ? -ETIMEDOUT : ready;
}

static int send_all(struct client *c, const char *data, size_t len)
{
    int result = 0;

    while (result >= 0 && len > 0) {
        ssize_t put = send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (put < 0)
            result = errno == EAGAIN ? wait_for(c->fd, POLLOUT, AUTOBUF_NS_UNSET) : -errno;
        data += put > 0 ? put : 0;
        len -= put > 0 ? (size_t)put : 0;
    }
    return result < 0 ? result : 0;
}

/* Reads what arrives until a time, but no more than cap bytes of it. 0: nothing came. */
static int64_t fill(struct client *c, size_t cap, uint64_t until_ns)
{
    size_t room = sizeof c->text - c->len;
    int ready = cap > 0 && room == 0 ? -EMSGSIZE : wait_for(c->fd, cap > 0 ? POLLIN : 0, until_ns);
    int64_t got = 0;

    if (ready > 0 && cap > 0) {
        got = autobuf_inband_receive(c->fd, c->text + c->len, cap < room ? cap : room, &c->stamp_ns);
        if (got == 0)
            got = -ECONNRESET;
    }
    c->len += got > 0 ? (size_t)got : 0;
    return ready < 0 ? ready : got == -EAGAIN ? 0 : got;
}

static void take(struct client *c, size_t len)
{
    c->len -= len;
    memmove(c->text, c->text + len, c->len);
}

/* The exchange in band: all that arrives belongs to it until it is over. */
static int64_t exchange(struct client *c)
{
    int64_t result = 0;

    while (result >= 0) {
        const void *data;
        uint64_t now_ns;
        size_t len;

        if (autobuf_inband_greeted(c->responder) && autobuf_inband_facts(c->fd, &c->facts) == 0)
            autobuf_inband_tell(c->responder, &c->facts); /* input() decides on the next train */
        if (c->len > 0)
            result = autobuf_inband_input(c->responder, c->stamp_ns, c->text, c->len);
        if (result > 0)
            take(c, (size_t)result);
        now_ns = autobuf_now_ns(); /* before it is sent: the answer must not seem older */
        len = result < 0 ? 0 : autobuf_inband_output(c->responder, now_ns, &data);
        if (len > 0)
            result = send_all(c, data, len);
        if (len > 0 && result == 0)
            autobuf_inband_sent(c->responder, now_ns, len);
        if (result >= 0)
            result = autobuf_inband_finished(c->responder);
        if (result != 0)
            return result; /* 1: the connection is the protocol's again */
        if (c->len == 0)
            result = fill(c, autobuf_inband_wanted(c->responder), autobuf_inband_deadline_ns(c->responder));
    }
    return result;
}

/* Reads a line, and answers it. Below 0: the connection ends. */
static int64_t serve_line(struct client *c)
{
    const char *end;
    int64_t result = 0;
    size_t len;

    while (!(end = memchr(c->text, '\n', c->len)) && result >= 0)
        result = fill(c, sizeof c->text, AUTOBUF_NS_UNSET);
    if (result < 0)
        return result;
    if (strncmp(c->text, "AUTOBUF ", 8) == 0)
        return exchange(c);
    if (strncmp(c->text, "QUIT", 4) == 0)
        return -ECONNRESET;
    len = (size_t)(end - c->text) + 1;
    result = strncmp(c->text, "ECHO ", 5) == 0 ? send_all(c, c->text, len) : send_all(c, "WHAT\n", 5);
    take(c, len);
    return result;
}

static void serve(int fd)
{
    struct client c = {.fd = fd, .facts = AUTOBUF_INBAND_FACTS_INIT};
    int64_t result = autobuf_inband_prepare(fd);

    if (result >= 0)
        result = autobuf_inband_open_pure(&c.responder, AUTOBUF_INBAND_RESPONDER, autobuf_now_ns(), NULL);
    while (result >= 0)
        result = serve_line(&c);
    autobuf_inband_close(c.responder);
    if (result != -ECONNRESET)
        fprintf(stderr, "lineserver: a client: %s\n", autobuf_strerror((int)result));
}

int main(int argc, char **argv)
{
    struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    int fd, on = 1, listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (argc != 2)
        return 2;
    here.sin6_port = htons((uint16_t)atoi(argv[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, sizeof here) < 0 || listen(listener, 16) < 0) {
        perror("lineserver");
        return 1;
    }
    for (;;) {
        fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        serve(fd);
        close(fd);
    }
}

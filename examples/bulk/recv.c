/* SPDX-License-Identifier: MIT */
/* bulk recv: serves one transfer after another. */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream.h"

struct server {
    int listener;
    size_t count;
    struct stream streams[MAX_STREAMS];
};

static int listen_at(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    int on = 1, off = 0, fd = -1, error = EADDRNOTAVAIL;

    if (getaddrinfo(host, port, &hints, &list) != 0)
        return -EADDRNOTAVAIL;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            error = errno;
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (a->ai_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        /* Limits only: there is no peer to measure yet. */
        autobuf_tune(fd, NULL, 0, NULL, NULL);
        if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, MAX_STREAMS) < 0) {
            error = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd < 0 ? -error : fd;
}

static void take_connection(struct server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct stream *s = &server->streams[server->count];

    if (fd < 0)
        return;
    *s = (struct stream){.fd = fd, .phase = PHASE_REQUEST};
    stream_begin(s, autobuf_now_ns());
    server->count++;
}

/* The first of a transfer's streams measures, for them all. */
static bool leads(const struct server *server, const struct stream *s)
{
    for (size_t i = 0; i < server->count; i++) {
        const struct stream *other = &server->streams[i];

        if (other != s && other->flow && other->request.streams == s->request.streams &&
            stream_same_peer(other, s))
            return false;
    }
    return true;
}

/* Reads the line byte by byte, so that it takes no byte of the data. */
static int read_request(const struct server *server, struct stream *s)
{
    for (;;) {
        ssize_t got = recv(s->fd, s->text + s->text_len, 1, MSG_DONTWAIT);

        if (got < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (got == 0 || s->text_len + 1 >= LINE_BYTES)
            return -EPROTO;
        if (s->text[s->text_len++] == '\n')
            break;
    }
    s->text[s->text_len - 1] = '\0';
    if (!request_parse(s->text, &s->request))
        return -EPROTO;
    s->text_len = 0;
    s->phase = PHASE_DATA;
    s->sending = s->request.reverse;
    if (s->sending) {
        uint64_t begin = autobuf_now_ns(); /* measuring is part of the time to send */
        int error = stream_tune(s, NULL, 0, leads(server, s));

        if (error < 0)
            return error;
        stream_begin(s, begin);
    } else {
        s->request.limit_ns = 0;
        stream_begin(s, autobuf_now_ns());
    }
    return 0;
}

static int serve(struct server *server)
{
    struct pollfd fds[MAX_STREAMS + 1];
    uint64_t now;

    for (size_t i = 0; i < server->count; i++)
        fds[i] = (struct pollfd){server->streams[i].fd, stream_events(&server->streams[i]), 0};
    fds[server->count] = (struct pollfd){server->listener,
                                         server->count < MAX_STREAMS ? POLLIN : 0, 0};
    if (poll(fds, server->count + 1, server->count ? 10 : -1) < 0)
        return errno == EINTR ? 0 : -errno;
    now = autobuf_now_ns();
    if (fds[server->count].revents & POLLIN)
        take_connection(server); /* its own turn comes with the next poll() */
    for (size_t i = server->count; i-- > 0;) {
        struct stream *s = &server->streams[i];
        short revents = s->fd == fds[i].fd ? fds[i].revents : 0;
        int result = s->phase == PHASE_REQUEST && revents ? read_request(server, s)
                                                          : stream_step(s, revents, now);

        if (result < 0 || s->phase == PHASE_DONE) {
            stream_end(s);
            *s = server->streams[--server->count];
        }
    }
    stream_share(server->streams, server->count);
    return 0;
}

int run_recv(int argc, char **argv)
{
    static const struct option options[] = {
        {"bind", required_argument, NULL, 'b'}, {"port", required_argument, NULL, 'p'},
        {NULL, 0, NULL, 0}};
    static struct server server;
    const char *host = NULL, *port = "7500";
    int option, result = 0;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'b')
            host = optarg;
        else if (option == 'p')
            port = optarg;
        else
            return 2;
    }
    if (optind != argc)
        return 2;
    server.listener = listen_at(host ? host : "::", port);
    if (server.listener < 0 && !host)
        server.listener = listen_at("0.0.0.0", port); /* IPv6 is off */
    if (server.listener < 0) {
        fprintf(stderr, "bulk: cannot listen: %s\n", strerror(-server.listener));
        return 1;
    }
    while (result == 0)
        result = serve(&server);
    fprintf(stderr, "bulk: %s\n", strerror(-result));
    return 1;
}

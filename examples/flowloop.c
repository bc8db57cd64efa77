/* SPDX-License-Identifier: MIT */
/*
 * An application's own poll() loop that moves data, with a flow beside it: sends standard input over a connection that
 * is never blocked, and lets libautobuf manage it. At the end it says what the flow did.
 * usage: flowloop HOST PORT
 */
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

static char buf[262144];
static size_t begin, end; /* what is in buf, and not sent */

/* Rounded up: if poll() returned too early, the loop would only spin. */
static int milliseconds_until(uint64_t deadline_ns)
{
    uint64_t now_ns = autobuf_now_ns();

    if (deadline_ns == AUTOBUF_NS_UNSET)
        return -1;
    return deadline_ns <= now_ns ? 0 : (int)((deadline_ns - now_ns + 999999) / 1000000);
}

/* Opens the flow, then begins to connect. */
static int begin_connect(const char *host, const char *port, struct autobuf_flow **flow)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *peer;
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    int error, fd;

    error = getaddrinfo(host, port, &hints, &peer);
    if (error)
        errx(1, "%s, port %s: %s", host, port, gai_strerror(error));
    options.intent = AUTOBUF_INTENT_SENDS;
    fd = socket(peer->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && autobuf_flow_open(flow, fd, peer->ai_addr, peer->ai_addrlen, &options) < 0)
        *flow = NULL; /* the transfer goes on without it */
    if (fd >= 0 && connect(fd, peer->ai_addr, peer->ai_addrlen) < 0 && errno != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(peer);
    return fd;
}

/* Bytes that were sent until the end of standard input, or -1. */
static long long loop(int fd, struct autobuf_flow *flow)
{
    bool connected = false;
    long long sent = 0;
    ssize_t moved = 1;

    while (!connected || end > begin || moved != 0) {
        bool writes = !connected || end > begin; /* poll() passes over a descriptor of -1 */
        struct pollfd fds[2] = {{fd, writes ? POLLOUT : 0, 0}, {writes ? -1 : STDIN_FILENO, POLLIN, 0}};

        if (poll(fds, 2, milliseconds_until(autobuf_flow_deadline_ns(flow))) < 0 && errno != EINTR)
            return -1;
        autobuf_flow_step(flow, autobuf_now_ns()); /* does nothing before it is due */
        if (fds[0].revents && (!connected || fds[0].revents & (POLLERR | POLLHUP))) {
            connected = true;
            moved = getsockopt(fd, SOL_SOCKET, SO_ERROR, &errno, &(socklen_t){sizeof errno}) < 0 || errno ? -1 : 1;
        } else if (fds[0].revents) {
            moved = send(fd, buf + begin, end - begin, MSG_NOSIGNAL);
            begin += moved > 0 ? (size_t)moved : 0;
            sent += moved > 0 ? moved : 0;
        } else if (fds[1].revents) {
            begin = end = 0;
            moved = read(STDIN_FILENO, buf, sizeof buf);
            end += moved > 0 ? (size_t)moved : 0;
        }
        if (moved < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
    }
    return sent;
}

int main(int argc, char **argv)
{
    struct autobuf_live_state live = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_flow *flow = NULL;
    long long sent;
    int fd;

    if (argc != 3)
        return 2;
    fd = begin_connect(argv[1], argv[2], &flow);
    sent = fd < 0 ? -1 : loop(fd, flow);
    if (sent < 0)
        perror("flowloop");
    applied.live = &live;
    if (sent >= 0 && autobuf_flow_state(flow, &applied) == 0)
        printf("%lld bytes sent; limited by: %s; %s; %u changes\n", sent, autobuf_bottleneck_name(live.bottleneck),
               applied.measured > 0 ? "measured" : "not measured", applied.changes);
    autobuf_flow_close(flow);
    return sent < 0;
}

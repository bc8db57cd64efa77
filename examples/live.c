/* SPDX-License-Identifier: MIT */
/*
 * Manages a connection that is open already, as a program does that gets its sockets from another one: sends standard
 * input, and says when the bottleneck changes. With low-delay the sender is paced, so that no standing queue builds.
 * usage: live HOST PORT [low-delay]
 */
#include <err.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

/* A connection as any program opens it. libautobuf has no part in this. */
static int connect_plainly(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *peers, *peer;
    int error, fd = -1;

    error = getaddrinfo(host, port, &hints, &peers);
    if (error)
        errx(1, "%s, port %s: %s", host, port, gai_strerror(error));
    for (peer = peers; peer && fd < 0; peer = peer->ai_next) {
        fd = socket(peer->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, peer->ai_addr, peer->ai_addrlen) < 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(peers);
    return fd;
}

static void say_change(void *user, const struct autobuf_event *event)
{
    (void)user;
    printf("change: %s\n", event->text);
}

static void say_bottleneck(const struct autobuf_flow *flow, uint32_t *bottleneck)
{
    struct autobuf_live_state state = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.live = &state;
    if (autobuf_flow_state(flow, &applied) < 0 || state.bottleneck == *bottleneck)
        return;
    *bottleneck = state.bottleneck;
    printf("limited by: %s; %.1f Mbit/s; round trip %.1f ms\n", autobuf_bottleneck_name(state.bottleneck),
           (double)state.sent_bit_per_s / 1e6, state.rtt_ns == AUTOBUF_NS_UNSET ? 0 : (double)state.rtt_ns / 1e6);
}

/* flow is NULL if there is no handle: its calls then do nothing. */
static int send_all(int fd, struct autobuf_flow *flow)
{
    static char buf[65536];
    uint32_t bottleneck = AUTOBUF_BOTTLENECK_UNKNOWN;
    ssize_t got, put;

    while ((got = read(STDIN_FILENO, buf, sizeof buf)) > 0) {
        for (ssize_t done = 0; done < got; done += put) {
            put = send(fd, buf + done, (size_t)(got - done), MSG_NOSIGNAL);
            if (put < 0)
                return -1;
            autobuf_flow_step(flow, autobuf_now_ns()); /* does nothing before it is due */
            say_bottleneck(flow, &bottleneck);
        }
    }
    return got < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_flow *flow;
    int fd, result;

    if (argc != 3 && (argc != 4 || strcmp(argv[3], "low-delay") != 0))
        return 2;
    fd = connect_plainly(argv[1], argv[2]);
    if (fd < 0) {
        perror("live");
        return 1;
    }
    options.intent = AUTOBUF_INTENT_SENDS | (argc == 4 ? AUTOBUF_INTENT_LOW_DELAY : AUTOBUF_INTENT_THROUGHPUT);
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE;
    options.log = say_change;
    result = autobuf_flow_open(&flow, fd, NULL, 0, &options);
    if (result < 0) {
        fprintf(stderr, "live: not managed: %s\n", autobuf_strerror(result));
        flow = NULL;
    }
    result = send_all(fd, flow);
    if (result < 0)
        perror("live");
    autobuf_flow_close(flow);
    return result < 0;
}

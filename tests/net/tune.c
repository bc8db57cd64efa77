/* SPDX-License-Identifier: MIT */
/*
 * autobuf_tune() on a socket of its own, and what came of it, as one line of JSON:
 *
 *   tune [--connected] [--receives] [--bytes N] [--streams N] HOST PORT
 *
 * HOST is an address. --connected: connects first, or else before connect(), which does not follow. --receives:
 * the socket is said to receive; else to send.
 */
#include <getopt.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

static int report(int fd, int result, const struct autobuf_plan *plan, int measured, uint64_t elapsed_ns)
{
    int snd = 0, rcv = 0;
    socklen_t len = sizeof snd;

    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &snd, &len) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcv, &len) < 0)
        return 1;
    printf("{\"result\":%d,\"measured\":%d,\"reason\":\"%s\",\"rcv_reason\":\"%s\",\"snd_buf_bytes\":%d,"
           "\"rcv_buf_bytes\":%d,\"elapsed_ns\":%llu}\n",
           result, measured, autobuf_reason_name(plan->snd_reason), autobuf_reason_name(plan->rcv_reason),
           snd, rcv, (unsigned long long)elapsed_ns);
    return result < 0;
}

static int tune(const struct addrinfo *peer, const struct autobuf_options *options, int connected)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    int fd = socket(peer->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), result;
    uint64_t begin_ns;

    if (fd < 0 || (connected && connect(fd, peer->ai_addr, peer->ai_addrlen) < 0)) {
        perror("tune");
        return 1;
    }
    applied.plan = &plan;
    begin_ns = autobuf_now_ns();
    result = autobuf_tune(fd, connected ? NULL : peer->ai_addr, connected ? 0 : peer->ai_addrlen, options,
                          &applied);
    result = report(fd, result, &plan, applied.measured, autobuf_now_ns() - begin_ns);
    close(fd);
    return result;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"connected", no_argument, NULL, 'c'},
                                          {"receives", no_argument, NULL, 'r'},
                                          {"bytes", required_argument, NULL, 'b'},
                                          {"streams", required_argument, NULL, 's'},
                                          {NULL, 0, NULL, 0}};
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *peer;
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    int option, connected = 0, status;

    options.intent = AUTOBUF_INTENT_SENDS;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'c')
            connected = 1;
        else if (option == 'r')
            options.intent = AUTOBUF_INTENT_RECEIVES;
        else if (option == 'b')
            options.expected_bytes = strtoull(optarg, NULL, 10);
        else if (option == 's')
            options.streams = (uint32_t)strtoul(optarg, NULL, 10);
        else
            return 2;
    }
    if (optind + 2 != argc || getaddrinfo(argv[optind], argv[optind + 1], &hints, &peer) != 0)
        return 2;
    status = tune(peer, &options, connected);
    freeaddrinfo(peer);
    return status;
}

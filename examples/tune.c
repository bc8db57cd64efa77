/* SPDX-License-Identifier: MIT */
/*
 * Sends a file over a socket that autobuf_tune() has tuned before connect(), and says what was decided.
 * usage: tune HOST PORT FILE
 */
#include <err.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

/* All that a program has to add. The transfer goes on whatever the result is. */
static void tune(int fd, const struct addrinfo *peer, uint64_t file_bytes, struct autobuf_plan *plan)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    options.expected_bytes = file_bytes;
    options.intent = AUTOBUF_INTENT_SENDS;
    applied.plan = plan;
    autobuf_tune(fd, peer->ai_addr, peer->ai_addrlen, &options, &applied);
}

static int connect_tuned(const char *host, const char *port, uint64_t file_bytes, struct autobuf_plan *plan)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *peers, *peer;
    int error, fd = -1;

    error = getaddrinfo(host, port, &hints, &peers);
    if (error)
        errx(1, "%s, port %s: %s", host, port, gai_strerror(error));
    for (peer = peers; peer && fd < 0; peer = peer->ai_next) {
        fd = socket(peer->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        tune(fd, peer, file_bytes, plan);
        if (connect(fd, peer->ai_addr, peer->ai_addrlen) < 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(peers);
    return fd;
}

/* Bytes that were sent, or -1. */
static long long send_file(int fd, int file)
{
    static char buf[262144];
    long long sent = 0;
    ssize_t got, put;

    while ((got = read(file, buf, sizeof buf)) > 0) {
        for (ssize_t done = 0; done < got; done += put) {
            put = send(fd, buf + done, (size_t)(got - done), MSG_NOSIGNAL);
            if (put < 0)
                return -1;
        }
        sent += got;
    }
    return got < 0 ? -1 : sent;
}

int main(int argc, char **argv)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    char text[1024];
    struct stat status;
    long long sent;
    int file, fd;

    if (argc != 4)
        return 2;
    file = open(argv[3], O_RDONLY | O_CLOEXEC);
    fd = file < 0 || fstat(file, &status) < 0
             ? -1
             : connect_tuned(argv[1], argv[2], (uint64_t)status.st_size, &plan);
    sent = fd < 0 ? -1 : send_file(fd, file);
    if (sent < 0) {
        perror("tune");
        return 1;
    }
    autobuf_plan_explain(&plan, text, sizeof text);
    printf("%s%lld bytes sent\n", text, sent);
    return 0;
}

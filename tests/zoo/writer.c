/* SPDX-License-Identifier: MIT */
/*
 * A program without the library that sends zeroes as one of its kind does:
 *
 *   writer KIND HOST PORT SECONDS CONGESTION-CONTROL [SO_SNDBUF before|after|listener]
 *
 * KIND: poll: waits for POLLOUT, and writes 128 KB at most. late: the same, but writes 30 ms later, as if the processor
 * or a disk were busy. retry: writes without waiting, again after 5 ms. write8k, write1m: write() blocks. sendfile:
 * sendfile() blocks, of 2 MB. SO_SNDBUF: the program sets it before it connects, after it, or on a listener on HOST,
 * and accepts the first connection; 0: not set. Prints one line of JSON; the rate is that of acknowledged bytes.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "clock.h"

#define FILE_BYTES (2U << 20)
#define RETRY_MS 5
#define LATE_MS 30

static char zeroes[1U << 20];

static ssize_t by_poll(int fd)
{
    struct pollfd writable = {fd, POLLOUT, 0};
    ssize_t sent;

    poll(&writable, 1, 100);
    sent = send(fd, zeroes, 131072, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 && errno == EAGAIN ? 0 : sent;
}

static ssize_t by_retry(int fd)
{
    ssize_t sent = send(fd, zeroes, 131072, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent >= 0 || errno != EAGAIN)
        return sent;
    poll(NULL, 0, RETRY_MS);
    return 0;
}

static ssize_t by_late_poll(int fd)
{
    struct pollfd writable = {fd, POLLOUT, 0};
    ssize_t sent = send(fd, zeroes, 131072, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent >= 0 || errno != EAGAIN)
        return sent;
    poll(&writable, 1, 100);
    poll(NULL, 0, LATE_MS);
    return 0;
}

static ssize_t by_write_8k(int fd)
{
    return send(fd, zeroes, 8192, MSG_NOSIGNAL);
}

static ssize_t by_write_1m(int fd)
{
    return send(fd, zeroes, sizeof zeroes, MSG_NOSIGNAL);
}

static ssize_t by_sendfile(int fd)
{
    static int file = -1;
    off_t at = 0;

    if (file < 0) {
        file = memfd_create("file", MFD_CLOEXEC);
        for (unsigned i = 0; i < FILE_BYTES / sizeof zeroes; i++)
            if (write(file, zeroes, sizeof zeroes) != (ssize_t)sizeof zeroes)
                err(1, "memfd");
    }
    return sendfile(fd, file, &at, FILE_BYTES);
}

static const struct {
    const char *name;
    ssize_t (*send)(int fd);
} kinds[] = {
    {"poll", by_poll},         {"retry", by_retry},       {"late", by_late_poll},
    {"write8k", by_write_8k}, {"write1m", by_write_1m}, {"sendfile", by_sendfile},
};

static void lock(int fd, int bytes)
{
    if (bytes && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) < 0)
        err(1, "SO_SNDBUF");
}

static int accepted(int fd, const struct sockaddr_in *here)
{
    int one = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (const struct sockaddr *)here, sizeof *here) < 0 || listen(fd, 1) < 0)
        err(1, "listen");
    fd = accept(fd, NULL, NULL);
    if (fd < 0)
        err(1, "accept");
    return fd;
}

/* A connection as args, from HOST on, say. */
static int connection(char **args, int lock_bytes, const char *when)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(args[1]))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (inet_pton(AF_INET, args[0], &address.sin_addr) != 1)
        err(1, "%s", args[0]);
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, args[3], (socklen_t)strlen(args[3])) < 0)
        err(1, "%s", args[3]);
    if (strcmp(when, "after") != 0)
        lock(fd, lock_bytes);
    if (strcmp(when, "listener") == 0)
        return accepted(fd, &address);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        err(1, "connect");
    if (strcmp(when, "after") == 0)
        lock(fd, lock_bytes);
    return fd;
}

int main(int argc, char **argv)
{
    double begin_s = now_s(), elapsed_s;
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    ssize_t (*send_some)(int) = NULL;
    int fd;

    for (size_t i = 0; (argc == 6 || argc == 8) && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            send_some = kinds[i].send;
    if (!send_some) {
        fprintf(stderr, "usage: writer poll|retry|late|write8k|write1m|sendfile HOST PORT SECONDS CONGESTION-CONTROL "
                        "[SO_SNDBUF before|after|listener]\n");
        return 2;
    }
    fd = argc == 8 ? connection(argv + 2, atoi(argv[6]), argv[7]) : connection(argv + 2, 0, "before");
    if (argc == 8 && strcmp(argv[7], "listener") == 0)
        begin_s = now_s();
    while (now_s() - begin_s < atof(argv[4]))
        if (send_some(fd) < 0)
            err(1, "%s", argv[1]);
    elapsed_s = now_s() - begin_s;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        err(1, "TCP_INFO");
    printf("{\"acked_bytes\":%llu,\"elapsed_ns\":%.0f,\"rate_bit_per_s\":%.0f,\"retransmits\":%u}\n",
           (unsigned long long)info.tcpi_bytes_acked, elapsed_s * 1e9,
           (double)info.tcpi_bytes_acked * 8 / elapsed_s, info.tcpi_total_retrans);
    return 0;
}

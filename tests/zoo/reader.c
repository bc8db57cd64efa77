/* SPDX-License-Identifier: MIT */
/*
 * A program without the library that reads from one connection no faster than a disk, or a paused browser, would:
 *
 *   reader PORT BYTES-PER-SECOND|all SECONDS [SO_RCVBUF [HOST]]
 *
 * HOST: connects to this IPv4 address; otherwise accepts. 0 bytes: accepts, and reads nothing. all: waits in recv().
 * Prints one line of JSON; held_bytes is the most memory of data that waited to be read.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sock_diag.h>

#include "clock.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif
#define PIECE_BYTES 65536U
#define TURNS_PER_S 100U
#define SAVED_TURNS 3 /* most that it catches up after a time without data: a disk is no faster afterwards */

static char piece[PIECE_BYTES];

/* host NULL: accepts one. */
static int connection(uint16_t port, int rcvbuf, const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (rcvbuf && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof rcvbuf) < 0)
        err(1, "SO_RCVBUF");
    if (host) {
        if (inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
            connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
            err(1, "%s, port %u", host, port);
        return fd;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 1) < 0)
        err(1, "port %u", port);
    fd = accept(fd, NULL, NULL);
    if (fd < 0)
        err(1, "accept");
    return fd;
}

int main(int argc, char **argv)
{
    uint64_t read_bytes = 0, held_bytes = 0;
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    double begin_s, elapsed_s, before_s = 0, seconds, rate, may = 0;
    bool all;
    int fd;

    if (argc < 4 || argc > 6) {
        fprintf(stderr, "usage: reader PORT BYTES-PER-SECOND|all SECONDS [SO_RCVBUF [HOST]]\n");
        return 2;
    }
    all = strcmp(argv[2], "all") == 0;
    rate = atof(argv[2]);
    seconds = atof(argv[3]);
    fd = connection((uint16_t)atoi(argv[1]), argc > 4 ? atoi(argv[4]) : 0, argc > 5 ? argv[5] : NULL);
    begin_s = now_s();
    while ((elapsed_s = now_s() - begin_s) < seconds) {
        socklen_t len = sizeof memory;

        if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &len) < 0)
            err(1, "SO_MEMINFO");
        if (memory[SK_MEMINFO_RMEM_ALLOC] > held_bytes)
            held_bytes = memory[SK_MEMINFO_RMEM_ALLOC];
        if (all) {
            ssize_t got = recv(fd, piece, sizeof piece, 0);

            if (got <= 0)
                break;
            read_bytes += (uint64_t)got;
            continue;
        }
        may += rate * (elapsed_s - before_s);
        before_s = elapsed_s;
        while (may > 0) {
            ssize_t got = recv(fd, piece, sizeof piece, MSG_DONTWAIT);

            if (got <= 0)
                break;
            read_bytes += (uint64_t)got;
            may -= (double)got;
        }
        if (may > rate * SAVED_TURNS / TURNS_PER_S)
            may = rate * SAVED_TURNS / TURNS_PER_S;
        usleep(1000000 / TURNS_PER_S);
    }
    printf("{\"read_bytes\":%llu,\"rate_bit_per_s\":%.0f,\"rcv_buf_bytes\":%u,\"held_bytes\":%llu}\n",
           (unsigned long long)read_bytes, (double)read_bytes * 8 / elapsed_s, memory[SK_MEMINFO_RCVBUF],
           (unsigned long long)held_bytes);
    return 0;
}

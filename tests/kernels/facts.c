/* SPDX-License-Identifier: MIT */
/*
 * What this kernel does with the buffers of a socket, on loopback, and what the library takes its limits to be.
 * Prints one line of JSON.
 *
 *   lock           it has SO_BUF_LOCK
 *   clamp_at_once  SO_RCVBUF on a connection moves the window clamp by itself
 *   clamp_later    at the latest when data have come
 *   ratchet        what is left of an autotuned receive buffer, in thousandths of the most that it was, after a
 *                  reader was late again and again
 *   tcp_wmem_max_bytes, tcp_rmem_max_bytes, snd_settable_bytes, rcv_settable_bytes
 */
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/tcp.h>

#include <autobuf/autobuf.h>

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

static char data[100000];

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;

    return getsockopt(fd, level, name, &value, &len) < 0 ? -1 : value;
}

static int set(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

struct pair {
    int sends, receives;
};

static struct pair connection(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof to;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct pair made = {socket(AF_INET, SOCK_STREAM, 0), -1};

    if (bind(listener, (struct sockaddr *)&to, len) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&to, &len) < 0 ||
        connect(made.sends, (struct sockaddr *)&to, len) < 0)
        err(1, "connection");
    made.receives = accept(listener, NULL, NULL);
    if (made.receives < 0)
        err(1, "accept");
    close(listener);
    return made;
}

static void end(struct pair pair)
{
    close(pair.sends);
    close(pair.receives);
}

/* Moves so many bytes, the reader being never late. */
static void move(struct pair pair, size_t bytes)
{
    while (bytes > 0) {
        size_t part = bytes < 10000 ? bytes : 10000;

        if (send(pair.sends, data, part, MSG_NOSIGNAL) != (ssize_t)part)
            err(1, "send");
        if (recv(pair.receives, data, part, MSG_WAITALL) != (ssize_t)part)
            err(1, "recv");
        bytes -= part;
    }
}

static bool clamp_moves(bool later)
{
    struct pair pair = connection();
    int before = option(pair.receives, IPPROTO_TCP, TCP_WINDOW_CLAMP), after;

    if (set(pair.receives, SOL_SOCKET, SO_RCVBUF, 200000) < 0)
        err(1, "SO_RCVBUF");
    if (later)
        move(pair, 500000);
    after = option(pair.receives, IPPROTO_TCP, TCP_WINDOW_CLAMP);
    end(pair);
    return after > before;
}

/* Small packets fill the buffer while nobody reads; then they are read, and so again. */
static unsigned ratchet(void)
{
    struct pair pair = connection();
    int most = 0, now = 0;

    set(pair.sends, IPPROTO_TCP, TCP_NODELAY, 1);
    for (unsigned round = 0; round < 40; round++) {
        struct pollfd writable = {pair.sends, POLLOUT, 0};

        for (unsigned i = 0; i < 20000 && poll(&writable, 1, 20) > 0; i++)
            if (send(pair.sends, data, 700, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                break;
        while (recv(pair.receives, data, sizeof data, MSG_DONTWAIT) > 0)
            ;
        now = option(pair.receives, SOL_SOCKET, SO_RCVBUF);
        most = now > most ? now : most;
    }
    end(pair);
    return (unsigned)(1000.0 * now / most);
}

int main(void)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (autobuf_limits_host(&limits) < 0)
        err(1, "limits");
    printf("{\"lock\":%s,\"clamp_at_once\":%s,\"clamp_later\":%s,\"ratchet\":%u,"
           "\"tcp_wmem_max_bytes\":%llu,\"tcp_rmem_max_bytes\":%llu,"
           "\"snd_settable_bytes\":%llu,\"rcv_settable_bytes\":%llu}\n",
           option(fd, SOL_SOCKET, SO_BUF_LOCK) >= 0 ? "true" : "false", clamp_moves(false) ? "true" : "false",
           clamp_moves(true) ? "true" : "false", ratchet(), (unsigned long long)limits.tcp_wmem_max_bytes,
           (unsigned long long)limits.tcp_rmem_max_bytes, (unsigned long long)limits.snd_settable_bytes,
           (unsigned long long)limits.rcv_settable_bytes);
    close(fd);
    return 0;
}

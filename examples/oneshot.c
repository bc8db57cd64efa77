/* SPDX-License-Identifier: MIT */
/*
 * bwdelay() before connect(): fetches http://HOST/ over a socket that is as large as the path needs.
 * usage: oneshot HOST [PORT]
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

static int connect_tuned(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *peer;
    int64_t bytes = bwdelay(host);
    int fd, applied, error;

    if (bytes < 0)
        fprintf(stderr, "not measured: %s\n",
                bytes == -EACCES ? "neither ping sockets nor raw sockets are permitted"
                                 : autobuf_strerror((int)bytes));
    else
        fprintf(stderr, "the path holds %lld bytes\n", (long long)bytes);
    error = getaddrinfo(host, port, &hints, &peer);
    if (error) {
        fprintf(stderr, "oneshot: %s, port %s: %s\n", host, port, gai_strerror(error));
        return -1;
    }
    fd = socket(peer->ai_family, SOCK_STREAM, 0);
    if (fd >= 0 && bytes > 0) {
        applied = bwdelay_apply(fd, bytes);
        fprintf(stderr, "%s\n", applied < 0    ? autobuf_strerror(applied)
                                : applied == 0 ? "left to the kernel"
                                               : "buffer set");
    }
    if (fd < 0 || connect(fd, peer->ai_addr, peer->ai_addrlen) < 0) {
        fprintf(stderr, "oneshot: %s, port %s: %s\n", host, port, strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(peer);
    return fd;
}

int main(int argc, char **argv)
{
    char buf[65536];
    ssize_t got;
    int fd, len;

    if (argc < 2)
        return 2;
    fd = connect_tuned(argv[1], argc > 2 ? argv[2] : "80");
    if (fd < 0)
        return 1;
    len = snprintf(buf, sizeof buf, "GET / HTTP/1.0\r\nHost: %.255s\r\n\r\n", argv[1]);
    if (write(fd, buf, (size_t)len) != len)
        return 1;
    while ((got = read(fd, buf, sizeof buf)) > 0)
        fwrite(buf, 1, (size_t)got, stdout);
    close(fd);
    return got < 0 || fflush(stdout) != 0 || ferror(stdout);
}

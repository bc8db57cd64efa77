/* SPDX-License-Identifier: MIT */
/*
 * The two ends of an FTP control connection, without TLS, as a program has them that leaves reading and writing the
 * socket to the library:
 *
 *   ftp_control serve PORT             answers one client, line by line, until it goes
 *   ftp_control measure HOST PORT get|put
 *
 * Both print what the library says, a line each. HOST is an address.
 */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>
#include <autobuf/ftp.h>

static void print_line(void *user, const struct autobuf_event *event)
{
    (void)user;
    printf("%s\n", event->text);
    fflush(stdout);
}

static struct autobuf_ftp *open_session(uint32_t role, int fd)
{
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    struct autobuf_ftp *ftp = NULL;
    int error;

    options.log = print_line;
    error = autobuf_ftp_open(&ftp, role, fd, &options);
    if (error < 0)
        fprintf(stderr, "ftp_control: %s\n", autobuf_strerror(error));
    return ftp;
}

/* Reads a line byte by byte, because what follows it may be for the library. Returns its length; -1: the end. */
static int read_line(int fd, char *line, int cap)
{
    for (int len = 0; len < cap; len++) {
        if (recv(fd, line + len, 1, 0) != 1)
            return -1;
        if (line[len] == '\n')
            return len;
    }
    return -1;
}

static int serve_client(int fd)
{
    static const char unknown[] = "500 not a command of this server\r\n";
    struct autobuf_ftp *ftp = open_session(AUTOBUF_FTP_SERVER, fd);
    char line[512];
    int len, result = 0;

    while (ftp && result >= 0 && (len = read_line(fd, line, sizeof line)) >= 0) {
        result = autobuf_ftp_answer(ftp, line, (size_t)len);
        if (result == 0 && send(fd, unknown, strlen(unknown), MSG_NOSIGNAL) < 0)
            break;
    }
    autobuf_ftp_close(ftp);
    return result < 0;
}

static int serve(const struct addrinfo *at)
{
    int listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, status = 1, on = 1;

    if (listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(listener, at->ai_addr, at->ai_addrlen) == 0 && listen(listener, 1) == 0 &&
        (fd = accept(listener, NULL, NULL)) >= 0) {
        status = serve_client(fd);
        close(fd);
    }
    close(listener);
    return status;
}

static int measure(const struct addrinfo *server, uint32_t direction)
{
    int fd = socket(server->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), result = -1;
    struct autobuf_ftp *ftp = NULL;

    if (fd >= 0 && connect(fd, server->ai_addr, server->ai_addrlen) == 0)
        ftp = open_session(AUTOBUF_FTP_CLIENT, fd);
    if (ftp)
        result = autobuf_ftp_measure(ftp, AUTOBUF_FTP_BY_INBAND, direction, 0);
    autobuf_ftp_close(ftp);
    close(fd);
    return result < 0;
}

int main(int argc, char **argv)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *address;
    int serves = argc == 3 && strcmp(argv[1], "serve") == 0, status;

    if (!serves && (argc != 5 || strcmp(argv[1], "measure") != 0))
        return 2;
    if (getaddrinfo(serves ? NULL : argv[2], argv[serves ? 2 : 3], &hints, &address) != 0)
        return 2;
    status = serves ? serve(address)
                    : measure(address, strcmp(argv[4], "put") == 0 ? AUTOBUF_INTENT_SENDS : AUTOBUF_INTENT_RECEIVES);
    freeaddrinfo(address);
    return status;
}

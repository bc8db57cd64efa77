/* SPDX-License-Identifier: MIT */
/* What answers at the socket may be anything: its answer is bounded in size and time, and printed as plain text. */
#include "arguments.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "print.h"
#include "privilege.h"
#include "top_table.h"

#define ANSWER_NS (5 * AB_NS_PER_S)
#define ANSWER_BYTES 16000000U

/* A descriptor, -errno. */
static int open_socket(const char *file)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = ANSWER_NS / AB_NS_PER_S};
    int fd, error;

    if (strlen(file) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    strcpy(address.sun_path, file);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* SO_SNDTIMEO bounds connect() as well: it waits while the daemon has other clients. */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
        connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    error = errno == EAGAIN ? -ETIMEDOUT : -errno;
    close(fd);
    return error;
}

/* Reads to the end, into ANSWER_BYTES of text, with a NUL behind it. The length, -errno. */
static ssize_t read_answer(int fd, uint64_t until_ns, char *text)
{
    size_t length = 0;

    while (length < ANSWER_BYTES) {
        ssize_t got;

        if (autobuf_now_ns() >= until_ns)
            return -ETIMEDOUT;
        if (ab_wait(fd, POLLIN, until_ns) < 0)
            return -errno;
        got = recv(fd, text + length, ANSWER_BYTES - length, MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        if (got == 0) {
            text[length] = '\0';
            return (ssize_t)length;
        }
        length += got > 0 ? (size_t)got : 0;
    }
    return -EFBIG;
}

/* 0 and where the body is in the text; -errno. */
static int ask(const char *file, char *text, char **body)
{
    static const char request[] = "GET /flows HTTP/1.0\r\n\r\n";
    size_t length = strlen(request);
    uint64_t until_ns = autobuf_now_ns() + ANSWER_NS;
    int fd = open_socket(file), number;
    ssize_t all;

    if (fd < 0)
        return fd;
    all = send(fd, request, length, MSG_NOSIGNAL) == (ssize_t)length ? read_answer(fd, until_ns, text) : -EPIPE;
    close(fd);
    if (all < 0)
        return (int)all;
    if (strlen(text) != (size_t)all)
        return -EPROTO;
    number = top_body(text, body);
    return number == 200 ? 0 : number == 503 ? -EBUSY : -EPROTO;
}

static int fail(const char *file, int error)
{
    if (error == -ENOENT || error == -ECONNREFUSED)
        fprintf(stderr, "autobuf: %s: autobufd does not run here, or has no socket (status= in autobufd.conf): %s\n",
                file, strerror(-error));
    else if (error == -EPROTO)
        fprintf(stderr, "autobuf: %s: what answers there is not autobufd\n", file);
    else
        fprintf(stderr, "autobuf: %s: %s\n", file, strerror(-error));
    return error == -EACCES || error == -EPERM ? EXIT_NOT_PERMITTED : EXIT_NOTHING;
}

static int show_json(char *body)
{
    size_t length = strlen(body);

    if (body[0] != '{' || body[length - 1] != '\n' || strchr(body, '\n') != body + length - 1)
        return -EPROTO;
    fputs(body, stdout);
    return 0;
}

static int show_table(char *body)
{
    static struct top_table table;
    unsigned rows = 0, columns = 0;
    int error = top_parse(body, &table);

    if (error < 0)
        return error;
    if (isatty(STDOUT_FILENO))
        screen_size(&rows, &columns);
    top_print(stdout, &table, rows, columns);
    return 0;
}

static int show(const struct arguments *want)
{
    static char text[ANSWER_BYTES]; /* of which the kernel gives what is used */
    char *body;
    int error = ask(want->socket, text, &body);

    if (error < 0)
        return error;
    top_clean(body);
    return want->json ? show_json(body) : show_table(body);
}

int top_run(const struct arguments *want)
{
    uint64_t next_ns = autobuf_now_ns();
    /* Privilege that the file has by setuid or setcap is not given to the user who runs it. */
    int error = getauxval(AT_SECURE) ? drop_privileges() : 0;

    for (uint64_t i = 0; error == 0 && (!want->count || i < want->count); i++) {
        while (i && autobuf_now_ns() < next_ns)
            (void)ab_wait_any(NULL, 0, next_ns);
        if (i && !want->json && !isatty(STDOUT_FILENO))
            putchar('\n');
        next_ns = autobuf_now_ns() + want->interval_ns;
        error = show(want);
        if (fflush(stdout) == EOF)
            return EXIT_NOTHING;
    }
    return error < 0 ? fail(want->socket, error) : EXIT_RESULT;
}

/* SPDX-License-Identifier: MIT */
/* A file's permissions say who may connect; what comes from there is hostile all the same. */
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../lib/base/base.h"
#include "broker.h"

#define BACKLOG 16
#define FILE_MODE 0660 /* who talks to whom is not for all users */
#define HEAD_BYTES 256U
#define REFUSED_NS 100000000ULL /* until somebody who could not be accepted is tried again */
#define HELD_BYTES_MOST 8000000U /* of answers that are not taken yet; beyond it no further one is made */

/* ----------------------------------------------------------------- a socket in the file system */

/* 0: the place is free, or holds what nobody listens on any more; else why it must not be touched. */
static int check_place(const struct sockaddr_un *address, int type)
{
    struct stat found;
    int fd, error;

    if (lstat(address->sun_path, &found) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(found.st_mode))
        return -EEXIST;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    error = connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? errno : 0;
    close(fd);
    return error == ECONNREFUSED ? 0 : -EADDRINUSE;
}

/* Binds beside the place, with the right permissions from the beginning, and moves there. */
static int bind_beside(int fd, struct socket_file *file, int type, mode_t mode)
{
    struct sockaddr_un beside = {.sun_family = AF_UNIX};
    struct stat made;
    mode_t mask;
    int error = 0;

    if ((size_t)snprintf(beside.sun_path, sizeof beside.sun_path, "%s.%ld", file->name, (long)getpid()) >=
        sizeof beside.sun_path)
        return -ENAMETOOLONG;
    mask = umask(0777 & ~mode);
    if (bind(fd, (const struct sockaddr *)&beside, sizeof beside) < 0)
        error = -errno;
    umask(mask);
    if (error < 0)
        return error;
    if (lstat(beside.sun_path, &made) < 0 || (type == SOCK_STREAM && listen(fd, BACKLOG) < 0) ||
        rename(beside.sun_path, file->name) < 0) {
        error = -errno;
        unlink(beside.sun_path);
        return error;
    }
    file->device = made.st_dev;
    file->inode = made.st_ino;
    return 0;
}

int socket_file_open(struct socket_file *file, const char *name, int type, mode_t mode)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error, fd;

    if (strlen(name) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    strcpy(address.sun_path, name);
    strcpy(file->name, name);
    error = check_place(&address, type);
    if (error < 0)
        return error;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    error = bind_beside(fd, file, type, mode);
    if (error == 0)
        return fd;
    close(fd);
    return error;
}

void socket_file_remove(const struct socket_file *file)
{
    struct stat found;

    if (lstat(file->name, &found) == 0 && found.st_dev == file->device && found.st_ino == file->inode)
        unlink(file->name);
}

struct client {
    int fd; /* -1: a place that is free */
    uint64_t until_ns;
    char request[STATUS_REQUEST_BYTES];
    size_t got;
    char *answer; /* NULL: the request is not whole yet */
    size_t bytes, sent;
    bool made; /* in this step */
};

struct status {
    struct client clients[STATUS_CLIENTS];
    struct status_counts counts;
    status_page_fn *print;
    void *user;
    size_t held_bytes;
    uint64_t rest_until_ns;
    int listener;
    struct socket_file file;
};

/* -------------------------------------------------------------------------------- requests */

static bool is_whole(const char *text, size_t length)
{
    return memmem(text, length, "\r\n\r\n", 4) || memmem(text, length, "\n\n", 2);
}

int status_parse(const char *text, size_t length, enum status_page *page)
{
    static const char *const pages[] = {[STATUS_METRICS] = "/metrics", [STATUS_FLOWS] = "/flows"};
    char line[STATUS_REQUEST_BYTES], *rest = line;
    const char *method, *target;

    if (!is_whole(text, length))
        return length < STATUS_REQUEST_BYTES ? 0 : 400;
    length = (size_t)((const char *)memchr(text, '\n', length) - text); /* the first line alone counts */
    memcpy(line, text, length);
    line[length] = '\0';
    method = strsep(&rest, " ");
    target = strsep(&rest, " ");
    if (!method[0] || method[strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] || !target || target[0] != '/' || !rest ||
        strncmp(rest, "HTTP/1.", 7) != 0)
        return 400;
    if (strcmp(method, "GET") != 0)
        return 405;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(target, pages[i]) == 0) {
            *page = (enum status_page)i;
            return 200;
        }
    }
    return 404;
}

/* --------------------------------------------------------------------------------- answers */

static const char *reason_of(int number)
{
    return number == 200   ? "OK"
           : number == 404 ? "Not Found"
           : number == 405 ? "Method Not Allowed"
           : number == 503 ? "Service Unavailable"
                           : "Bad Request";
}

static const char *type_of(int number, enum status_page page)
{
    if (number == 200 && page == STATUS_FLOWS)
        return "application/json";
    if (number == 200 && page == STATUS_METRICS)
        return "text/plain; version=0.0.4; charset=utf-8";
    return "text/plain; charset=utf-8";
}

/* false: there is no memory. */
static bool make_answer(struct status *s, struct client *c, int number, enum status_page page)
{
    char head[HEAD_BYTES];
    FILE *out;
    bool failed;

    if (s->held_bytes > HELD_BYTES_MOST)
        number = 503;
    out = open_memstream(&c->answer, &c->bytes);
    if (!out)
        return false;
    fprintf(out, "%*s", (int)HEAD_BYTES, ""); /* the head, which is known once the rest is, ends there */
    if (number == 200)
        s->print(s->user, page, out);
    else
        fprintf(out, "%d %s; there are /metrics and /flows\n", number, reason_of(number));
    failed = ferror(out);
    if (fclose(out) == EOF || failed)
        return false;
    s->held_bytes += c->bytes;
    c->sent = HEAD_BYTES - (size_t)snprintf(head, sizeof head,
                                            "HTTP/1.0 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
                                            "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
                                            number, reason_of(number), type_of(number, page), c->bytes - HEAD_BYTES,
                                            number == 405 ? "Allow: GET\r\n" : "");
    memcpy(c->answer + c->sent, head, HEAD_BYTES - c->sent);
    return true;
}

/* --------------------------------------------------------------------------------- clients */

static void leave(struct status *s, struct client *c, bool answered)
{
    close(c->fd);
    if (c->sent) /* of a whole answer: it begins behind the first byte */
        s->held_bytes -= c->bytes;
    free(c->answer);
    *c = (struct client){.fd = -1};
    if (answered)
        s->counts.answered++;
    else
        s->counts.dropped++;
}

/* 1: the request is whole; 0: more is to come; -1: it never will. */
static int take_request(struct status *s, struct client *c)
{
    for (;;) {
        ssize_t got = read(c->fd, c->request + c->got, sizeof c->request - c->got);
        enum status_page page = STATUS_METRICS;
        int number;

        if (got < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (got == 0)
            return -1;
        c->got += (size_t)got;
        number = status_parse(c->request, c->got, &page);
        if (number)
            return make_answer(s, c, number, page) ? 1 : -1;
    }
}

/* 1: all was sent; 0: more is to be sent; -1: nobody takes it. */
static int give_answer(struct client *c)
{
    while (c->sent < c->bytes) {
        ssize_t sent = send(c->fd, c->answer + c->sent, c->bytes - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        c->sent += (size_t)sent;
    }
    return 1;
}

/* Did anything come, go or end? */
static bool serve(struct status *s, struct client *c, uint64_t now_ns)
{
    size_t got = c->got, sent = c->sent;
    bool had = c->answer;
    int result = had ? 1 : take_request(s, c);

    c->made = !had && c->answer;
    if (result > 0)
        result = give_answer(c);
    if (!result && now_ns < c->until_ns)
        return c->got != got || c->sent != sent;
    leave(s, c, result > 0);
    return true;
}

/* Did anybody come? */
static bool take_in(struct status *s, uint64_t now_ns, bool *refused)
{
    bool came = false;

    *refused = false;
    for (size_t i = 0; i < STATUS_CLIENTS; i++) {
        struct client *c = &s->clients[i];

        if (c->fd >= 0)
            continue;
        c->fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (c->fd < 0) {
            *refused = errno != EAGAIN;
            break;
        }
        c->until_ns = now_ns + STATUS_NS;
        came = true;
    }
    return came;
}

/* It rests after work only, as reported_step() does: a client that says nothing is none. */
void status_step(struct status *s, uint64_t now_ns)
{
    uint64_t began_ns = cost_cpu_ns();
    bool worked, refused;

    if (!s || now_ns < s->rest_until_ns)
        return;
    worked = take_in(s, now_ns, &refused);
    for (size_t i = 0; i < STATUS_CLIENTS; i++)
        if (s->clients[i].fd >= 0 && serve(s, &s->clients[i], now_ns))
            worked = true;
    if (worked || refused) /* whoever could not be accepted is still there, and would wake us at once */
        s->rest_until_ns = cost_after(now_ns, began_ns, refused ? REFUSED_NS : 0, &s->counts.cpu_ns);
    for (size_t i = 0; i < STATUS_CLIENTS; i++)
        if (s->clients[i].fd >= 0 && s->clients[i].made) /* a long answer is followed by a long rest */
            s->clients[i].until_ns = ab_max(s->clients[i].until_ns, s->rest_until_ns + STATUS_NS / 2);
}

size_t status_poll(const struct status *s, struct pollfd *fds, uint64_t now_ns, uint64_t *until_ns)
{
    size_t count = 0;
    bool room = false;

    if (!s)
        return 0;
    if (now_ns < s->rest_until_ns) {
        *until_ns = ab_min(*until_ns, s->rest_until_ns);
        return 0;
    }
    for (size_t i = 0; i < STATUS_CLIENTS; i++) {
        const struct client *c = &s->clients[i];

        if (c->fd < 0) {
            room = true;
            continue;
        }
        fds[count++] = (struct pollfd){c->fd, c->answer ? POLLOUT : POLLIN, 0};
        *until_ns = ab_min(*until_ns, c->until_ns);
    }
    if (room)
        fds[count++] = (struct pollfd){s->listener, POLLIN, 0};
    return count;
}

struct status_counts status_counts(const struct status *s)
{
    return s ? s->counts : (struct status_counts){0};
}

/* ------------------------------------------------------------------------------- the whole */

int status_open(struct status **status, const char *file, status_page_fn *print, void *user)
{
    struct status *s = calloc(1, sizeof *s);
    int error;

    *status = NULL;
    if (!s)
        return -ENOMEM;
    s->print = print;
    s->user = user;
    for (size_t i = 0; i < STATUS_CLIENTS; i++)
        s->clients[i].fd = -1;
    error = s->listener = socket_file_open(&s->file, file, SOCK_STREAM, FILE_MODE);
    if (error < 0)
        free(s);
    else
        *status = s;
    return error < 0 ? error : 0;
}

void status_close(struct status *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < STATUS_CLIENTS; i++)
        if (s->clients[i].fd >= 0)
            leave(s, &s->clients[i], false);
    socket_file_remove(&s->file);
    close(s->listener);
    free(s);
}

/* --------------------------------------------------------------------------------- systemd */

int notify_say(const char *where, const char *lines)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = where ? strlen(where) : 0;
    int fd, error = 0;

    if (length < 2 || length >= sizeof address.sun_path || (where[0] != '/' && where[0] != '@'))
        return 0;
    memcpy(address.sun_path, where, length);
    if (where[0] == '@') /* an abstract name begins with a NUL, and ends where it ends */
        address.sun_path[0] = '\0';
    length += offsetof(struct sockaddr_un, sun_path) + (where[0] == '/');
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&address, (socklen_t)length) < 0)
        error = -errno;
    close(fd);
    return error;
}

int notify_reloading(const char *where, uint64_t now_ns)
{
    char lines[64];

    snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_ns / 1000U);
    return notify_say(where, lines);
}

/* SPDX-License-Identifier: MIT */
/* What answers at the socket may be anything: its answer is bounded in size and time, and printed as plain text. */
#include "top.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "arguments.h"
#include "print.h"
#include "privilege.h"

#define ANSWER_NS (5 * AB_NS_PER_S)
#define ANSWER_BYTES 16000000U

void top_clean(char *text)
{
    for (; *text; text++)
        if ((*text < ' ' || *text > '~') && *text != '\n')
            *text = '?';
}

int top_body(char *answer, char **body)
{
    char *blank = strstr(answer, "\r\n\r\n");

    if (strncmp(answer, "HTTP/1.", 7) != 0 || strlen(answer) < 12 || answer[8] != ' ' || !blank)
        return -EPROTO;
    *body = blank + 4;
    return atoi(answer + 9);
}

/* A member of an object that is looked for, and where its value goes; what is null stays as it was. */
struct member {
    const char *name;
    enum { TEXT, NUMBER, FLAG, ROWS, FREE } kind;
    size_t offset;
};

#define IN_TABLE(kind, name) {#name, kind, offsetof(struct top_table, name)}
#define IN_ROW(kind, name) {#name, kind, offsetof(struct top_row, name)}

static const struct member of_table[] = {
    IN_TABLE(TEXT, version), {"managed", NUMBER, offsetof(struct top_table, managed)}, IN_TABLE(NUMBER, left_out),
    IN_TABLE(NUMBER, sockets), IN_TABLE(NUMBER, sweeps), {"flows", ROWS, 0}, {0},
};
static const struct member of_row[] = {
    IN_ROW(NUMBER, pid), IN_ROW(NUMBER, fd), IN_ROW(TEXT, program), IN_ROW(TEXT, peer), IN_ROW(TEXT, rule),
    IN_ROW(TEXT, limited), IN_ROW(TEXT, action), IN_ROW(NUMBER, action_age_ns), IN_ROW(FLAG, dry_run),
    IN_ROW(NUMBER, rtt_ns), IN_ROW(NUMBER, sent_bit_per_s), IN_ROW(NUMBER, received_bit_per_s),
    IN_ROW(NUMBER, snd_buf_bytes), IN_ROW(NUMBER, rcv_buf_bytes), {"available", FREE, 0}, {0},
};
static const struct member of_free[] = { /* the object in a row */
    IN_ROW(NUMBER, tx_low_bit_per_s), IN_ROW(NUMBER, tx_high_bit_per_s), {0},
};

static bool take(char **at, const char *word)
{
    if (strncmp(*at, word, strlen(word)) != 0)
        return false;
    *at += strlen(word);
    return true;
}

/* NULL: it is none. It loses its quotes and escapes where it stands. */
static char *take_text(char **at)
{
    char *from = *at, *to = *at, *text = *at;

    if (*from++ != '"')
        return NULL;
    for (; *from != '"'; from++) {
        if (*from == '\\')
            from++;
        if (!*from || *from == '\n')
            return NULL;
        *to++ = *from;
    }
    *to = '\0';
    *at = from + 1;
    return text;
}

/* A value that nobody looks for: up to what ends it. */
static bool pass(char **at)
{
    size_t depth = 0;

    while (**at && (depth || !strchr(",]}", **at))) {
        if (**at == '"') {
            if (!take_text(at))
                return false;
            continue;
        }
        depth += **at == '[' || **at == '{';
        depth -= **at == ']' || **at == '}';
        ++*at;
    }
    return **at;
}

static bool take_rows(char **at, struct top_table *table);
static bool take_object(char **at, const struct member *members, void *into);

static bool take_value(char **at, const struct member *m, void *into)
{
    char *place = (char *)into + m->offset, *text;

    if (!m->name)
        return pass(at);
    if (take(at, "null"))
        return true;
    switch (m->kind) {
    case TEXT:
        text = take_text(at);
        memcpy(place, &text, sizeof text);
        return text;
    case NUMBER:
        if (**at < '0' || **at > '9')
            return false;
        *(uint64_t *)(void *)place = strtoull(*at, at, 10);
        return true;
    case FLAG:
        return (*(bool *)place = take(at, "true")) || take(at, "false");
    case FREE:
        return take_object(at, of_free, into);
    default:
        return take_rows(at, into);
    }
}

static bool take_object(char **at, const struct member *members, void *into)
{
    if (!take(at, "{"))
        return false;
    do {
        const struct member *m = members;
        const char *name = take_text(at);

        if (!name || !take(at, ":"))
            return false;
        while (m->name && strcmp(m->name, name) != 0)
            m++;
        if (!take_value(at, m, into))
            return false;
    } while (take(at, ","));
    return take(at, "}");
}

static bool take_rows(char **at, struct top_table *table)
{
    table->count = 0;
    if (!take(at, "["))
        return false;
    if (take(at, "]"))
        return true;
    do {
        struct top_row *row = &table->rows[table->count];

        if (table->count == TOP_ROWS_MOST)
            return false;
        *row = (struct top_row){.program = "-", .peer = "-", .rule = "-", .limited = "-", .rtt_ns = UINT64_MAX};
        if (!take_object(at, of_row, row))
            return false;
        table->count++;
    } while (take(at, ","));
    return take(at, "]");
}

/* The larger of both directions; equal ones in an order that stays. */
static int by_rate(const void *a, const void *b)
{
    const struct top_row *x = a, *y = b;
    uint64_t x_rate = ab_max(x->sent_bit_per_s, x->received_bit_per_s);
    uint64_t y_rate = ab_max(y->sent_bit_per_s, y->received_bit_per_s);

    if (x_rate != y_rate)
        return x_rate < y_rate ? 1 : -1;
    if (x->pid != y->pid)
        return x->pid > y->pid ? 1 : -1;
    return (x->fd > y->fd) - (x->fd < y->fd);
}

int top_parse(char *text, struct top_table *table)
{
    table->version = NULL;
    table->managed = table->left_out = table->sockets = table->sweeps = table->count = 0;
    if (!take_object(&text, of_table, table) || !table->version || strcmp(text, "\n") != 0)
        return -EPROTO; /* also where the answer was cut off */
    qsort(table->rows, table->count, sizeof *table->rows, by_rate);
    return 0;
}

static void put_row(struct screen *s, const struct top_row *r)
{
    const char *low = r->tx_low_bit_per_s ? SCALED(r->tx_low_bit_per_s) : "";
    const char *high = r->tx_high_bit_per_s ? SCALED(r->tx_high_bit_per_s) : "";
    char owner[64], rtt[32] = "-", age[32] = "", range[2 * SCALED_BYTES];

    /* "180.0 M-230.0 M", ">180.0 M", "<230.0 M" */
    snprintf(range, sizeof range, "%s%s%s%s", !*high && *low ? ">" : *high && !*low ? "<" : "", low,
             (*low != 0) == (*high != 0) ? "-" : "", high);
    snprintf(owner, sizeof owner, "%.40s[%" PRIu64 "]:%" PRIu64, r->program, r->pid, r->fd);
    if (r->rtt_ns != UINT64_MAX)
        snprintf(rtt, sizeof rtt, "%.1f ms", (double)r->rtt_ns / 1e6);
    if (r->action)
        snprintf(age, sizeof age, "%" PRIu64 " s ago: ", (uint64_t)(r->action_age_ns / AB_NS_PER_S));
    screen_line(s, "%-24s %-24s %-14s %9s %9s %16s %9s %8s %8s  [%s] %s%s%s", owner, r->peer, r->limited,
                SCALED(r->sent_bit_per_s), SCALED(r->received_bit_per_s), range, rtt,
                SCALED(r->snd_buf_bytes), SCALED(r->rcv_buf_bytes), r->rule,
                r->dry_run ? "dry run: " : "", age, r->action ? r->action : "-");
}

void top_print(FILE *out, const struct top_table *table, unsigned rows, unsigned columns)
{
    struct screen s = screen_begin(out, rows, columns);

    screen_line(&s, "autobufd %s manages %" PRIu64 " of %" PRIu64 " sockets, %" PRIu64 " sweeps so far",
                table->version, table->managed, table->sockets, table->sweeps);
    screen_line(&s, "%-24s %-24s %-14s %9s %9s %16s %9s %8s %8s  %s", "PROGRAM[PID]:FD", "PEER", "LIMITED BY",
                "SENT/s", "RECV/s", "FREE/s", "RTT", "SNDBUF", "RCVBUF", "[RULE] LAST ACTION");
    for (size_t i = 0; i < table->count; i++)
        put_row(&s, &table->rows[i]);
    if (table->left_out)
        screen_line(&s, "%" PRIu64 " more", table->left_out);
    screen_end(&s);
}

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

static int show(const struct arguments *want)
{
    static char text[ANSWER_BYTES]; /* of which the kernel gives what is used */
    static struct top_table table;
    unsigned rows = 0, columns = 0;
    char *body;
    int error = ask(want->socket, text, &body);

    if (error < 0)
        return error;
    top_clean(body);
    if (want->json) { /* one object on one line */
        if (body[0] != '{' || body[strlen(body) - 1] != '\n' || strchr(body, '\n') != body + strlen(body) - 1)
            return -EPROTO;
        fputs(body, stdout);
        return 0;
    }
    error = top_parse(body, &table);
    if (error < 0)
        return error;
    if (isatty(STDOUT_FILENO))
        screen_size(&rows, &columns);
    top_print(stdout, &table, rows, columns);
    return 0;
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

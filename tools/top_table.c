/* SPDX-License-Identifier: MIT */
#include "top_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/base/base.h"
#include "print.h"


/* --------------------------------------------------------------------------------- reading */

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
    IN_TABLE(TEXT, version),   {"tended", NUMBER, offsetof(struct top_table, managed)}, IN_TABLE(NUMBER, left_out),
    IN_TABLE(NUMBER, sockets),
    IN_TABLE(NUMBER, sweeps), {"flows", ROWS, 0},       {0},
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

static bool take_number(char **at, uint64_t *value)
{
    if (**at < '0' || **at > '9')
        return false;
    *value = strtoull(*at, at, 10);
    return true;
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
        return take_number(at, (uint64_t *)(void *)place);
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
    uint64_t x_rate = x->sent_bit_per_s > x->received_bit_per_s ? x->sent_bit_per_s : x->received_bit_per_s;
    uint64_t y_rate = y->sent_bit_per_s > y->received_bit_per_s ? y->sent_bit_per_s : y->received_bit_per_s;

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

/* -------------------------------------------------------------------------------- printing */

/* "180.0 M-230.0 M", ">180.0 M", "<230.0 M". */
static const char *free_words(char text[2 * SCALED_BYTES], const struct top_row *r)
{
    const char *low = r->tx_low_bit_per_s ? SCALED(r->tx_low_bit_per_s) : "";
    const char *high = r->tx_high_bit_per_s ? SCALED(r->tx_high_bit_per_s) : "";

    snprintf(text, 2 * SCALED_BYTES, "%s%s%s%s", !*high && *low ? ">" : *high && !*low ? "<" : "", low,
             (*low != 0) == (*high != 0) ? "-" : "", high);
    return text;
}

static void put_row(struct screen *s, const struct top_row *r)
{
    char owner[64], rtt[32] = "-", age[32] = "", free_now[2 * SCALED_BYTES];

    snprintf(owner, sizeof owner, "%.40s[%" PRIu64 "]:%" PRIu64, r->program, r->pid, r->fd);
    if (r->rtt_ns != UINT64_MAX)
        snprintf(rtt, sizeof rtt, "%.1f ms", (double)r->rtt_ns / 1e6);
    if (r->action)
        snprintf(age, sizeof age, "%" PRIu64 " s ago: ", (uint64_t)(r->action_age_ns / AB_NS_PER_S));
    screen_line(s, "%-24s %-24s %-14s %9s %9s %16s %9s %8s %8s  [%s] %s%s%s", owner, r->peer, r->limited,
                SCALED(r->sent_bit_per_s), SCALED(r->received_bit_per_s), free_words(free_now, r), rtt,
                SCALED(r->snd_buf_bytes), SCALED(r->rcv_buf_bytes), r->rule,
                r->dry_run ? "dry run: " : "", age, r->action ? r->action : "-");
}

void top_print(FILE *out, const struct top_table *table, unsigned rows, unsigned columns)
{
    struct screen s = screen_begin(out, rows, columns);

    screen_line(&s, "autobufd %s looks after %" PRIu64 " of %" PRIu64 " sockets, %" PRIu64 " sweeps so far",
                table->version, table->managed, table->sockets, table->sweeps);
    screen_line(&s, "%-24s %-24s %-14s %9s %9s %16s %9s %8s %8s  %s", "PROGRAM[PID]:FD", "PEER", "LIMITED BY",
                "SENT/s", "RECV/s", "FREE/s", "RTT", "SNDBUF", "RCVBUF", "[RULE] LAST ACTION");
    for (size_t i = 0; i < table->count; i++)
        put_row(&s, &table->rows[i]);
    if (table->left_out)
        screen_line(&s, "%" PRIu64 " more", table->left_out);
    screen_end(&s);
}

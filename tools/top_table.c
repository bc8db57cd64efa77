/* SPDX-License-Identifier: MIT */
#include "top_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

#define FIELDS_OF_HEAD 8U
#define FIELDS_OF_ROW 18U
#define LINE_BYTES 1024U
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"

/* --------------------------------------------------------------------------------- reading */

void top_clean(char *text, size_t length, bool keep_tabs)
{
    for (size_t i = 0; i < length; i++)
        if ((text[i] < ' ' || text[i] > '~') && text[i] != '\n' && !(keep_tabs && text[i] == '\t'))
            text[i] = '?';
}

int top_body(char *answer, char **body)
{
    char *blank = strstr(answer, "\r\n\r\n");

    if (strncmp(answer, "HTTP/1.", 7) != 0 || strlen(answer) < 12 || answer[8] != ' ' || !blank)
        return -EPROTO;
    *body = blank + 4;
    return atoi(answer + 9);
}

/* Cuts a line at its tabs. Returns how many fields there are; of more than the table has, the rest is not looked at. */
static size_t cut(char *line, const char **fields, size_t cap)
{
    size_t count = 0;

    for (char *field; count < cap && (field = strsep(&line, "\t")) != NULL;)
        fields[count++] = field;
    return count;
}

/* false: it is none. */
static bool to_number(const char *text, uint64_t *value)
{
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    *value = strtoull(text, &end, 10);
    return !*end;
}

static bool parse_head(char *line, struct top_head *head)
{
    const char *f[FIELDS_OF_HEAD];

    if (cut(line, f, FIELDS_OF_HEAD) < FIELDS_OF_HEAD || strcmp(f[0], "autobufd") != 0 || strcmp(f[1], "1") != 0)
        return false;
    head->version = f[2];
    return to_number(f[3], &head->generation) && to_number(f[4], &head->tended) && to_number(f[5], &head->left_out) &&
           to_number(f[6], &head->sockets) && to_number(f[7], &head->sweeps);
}

static bool parse_row(char *line, struct top_row *row)
{
    const char *f[FIELDS_OF_ROW];

    if (cut(line, f, FIELDS_OF_ROW) < FIELDS_OF_ROW)
        return false;
    *row = (struct top_row){.program = f[2], .unit = f[3], .local = f[4], .peer = f[5], .mode = f[6], .rule = f[7],
                            .limited = f[8], .rtt_ns = UINT64_MAX, .action = f[16], .dry_run = strcmp(f[17], "dry") == 0};
    return to_number(f[0], &row->pid) && to_number(f[1], &row->fd) &&
           (strcmp(f[9], "-") == 0 || to_number(f[9], &row->rtt_ns)) && to_number(f[10], &row->sent_bit_per_s) &&
           to_number(f[11], &row->received_bit_per_s) && to_number(f[12], &row->snd_buf_bytes) &&
           to_number(f[13], &row->rcv_buf_bytes) && to_number(f[14], &row->changes) && to_number(f[15], &row->action_age_ms);
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
    char *line = strsep(&text, "\n");

    table->count = 0;
    if (!text || !parse_head(line, &table->head))
        return -EPROTO;
    while ((line = strsep(&text, "\n")) != NULL && (text || *line)) {
        if (!text || table->count == TOP_ROWS_MOST || !parse_row(line, &table->rows[table->count]))
            return -EPROTO; /* also where the answer was cut off in a line */
        table->count++;
    }
    qsort(table->rows, table->count, sizeof *table->rows, by_rate);
    return 0;
}

/* -------------------------------------------------------------------------------- printing */

struct screen {
    FILE *out;
    unsigned rows, columns; /* 0: no terminal */
    unsigned row;
};

static void put_line(struct screen *s, const char *line)
{
    if (!s->columns)
        fprintf(s->out, "%s\n", line);
    else if (s->row + 1 < s->rows)
        fprintf(s->out, "%.*s" CLEAR_LINE "\n", (int)s->columns, line);
    s->row++;
}

/* "386.0 M" */
static const char *short_number(char text[32], uint64_t value)
{
    scaled(text, 32, (double)value);
    return text;
}

static void put_row(struct screen *s, const struct top_row *r)
{
    char owner[64], line[LINE_BYTES], sent[32], received[32], snd[32], rcv[32], rtt[32] = "-", age[32] = "";

    snprintf(owner, sizeof owner, "%.40s[%" PRIu64 "]:%" PRIu64, r->program, r->pid, r->fd);
    if (r->rtt_ns != UINT64_MAX)
        snprintf(rtt, sizeof rtt, "%.1f ms", (double)r->rtt_ns / 1e6);
    if (strcmp(r->action, "-") != 0)
        snprintf(age, sizeof age, "%" PRIu64 " s ago: ", r->action_age_ms / 1000);
    snprintf(line, sizeof line, "%-24s %-24s %-14s %9s %9s %9s %8s %8s  [%s] %s%s%s", owner, r->peer, r->limited,
             short_number(sent, r->sent_bit_per_s), short_number(received, r->received_bit_per_s), rtt,
             short_number(snd, r->snd_buf_bytes), short_number(rcv, r->rcv_buf_bytes), r->rule, r->dry_run ? "dry run: " : "", age,
             r->action);
    put_line(s, line);
}

void top_print(FILE *out, const struct top_table *table, unsigned rows, unsigned columns)
{
    const struct top_head *head = &table->head;
    struct screen s = {out, rows, columns, 0};
    char line[LINE_BYTES];

    if (columns)
        fputs(HOME, out);
    snprintf(line, sizeof line, "autobufd %s looks after %" PRIu64 " of %" PRIu64 " sockets, %" PRIu64 " sweeps so far",
             head->version, head->tended, head->sockets, head->sweeps);
    put_line(&s, line);
    snprintf(line, sizeof line, "%-24s %-24s %-14s %9s %9s %9s %8s %8s  %s", "PROGRAM[PID]:FD", "PEER", "LIMITED BY", "SENT/s",
             "RECV/s", "RTT", "SNDBUF", "RCVBUF", "[RULE] LAST ACTION");
    put_line(&s, line);
    for (size_t i = 0; i < table->count; i++)
        put_row(&s, &table->rows[i]);
    if (head->left_out) {
        snprintf(line, sizeof line, "%" PRIu64 " more", head->left_out);
        put_line(&s, line);
    }
    if (columns)
        fputs(CLEAR_BELOW, out);
}

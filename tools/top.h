/* SPDX-License-Identifier: MIT */
/* The table of `autobuf top`: what autobufd answers, taken apart and printed. */
#ifndef TOP_H
#define TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TOP_ROWS_MOST 4096U

/* One connection. */
struct top_row {
    uint64_t pid, fd;
    const char *program, *peer, *rule, *limited;
    const char *action; /* NULL: none yet */
    uint64_t rtt_ns;    /* UINT64_MAX: unknown */
    uint64_t tx_low_bit_per_s, tx_high_bit_per_s; /* free; 0: unknown */
    uint64_t sent_bit_per_s, received_bit_per_s, snd_buf_bytes, rcv_buf_bytes, action_age_ns;
    bool dry_run;
};

struct top_table {
    const char *version;
    uint64_t managed, left_out, sockets, sweeps;
    struct top_row rows[TOP_ROWS_MOST];
    size_t count;
};

/* What is not printable becomes a question mark, lines excepted. */
void top_clean(char *text);

/* Finds the body of an HTTP answer. Returns the number in its first line, and *body; -EPROTO: it is no such answer. */
int top_body(char *answer, char **body);

/* Takes the JSON of /flows apart, which the table then points into; the fastest connection comes first. 0; -EPROTO. */
int top_parse(char *text, struct top_table *table);

/* As many lines as there are; rows and columns of the terminal, 0: it is none, and nothing is cut off. */
void top_print(FILE *out, const struct top_table *table, unsigned rows, unsigned columns);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What answers `autobuf top`. The first two bytes: rows and columns of the terminal, 0: it is
 * none; then 1: the answer's head is good. The rest is the answer, or its body. What is printed is
 * nothing but printable characters, and fits into the terminal.
 */
#include "fuzz.h"

#include <errno.h>

#include "top.h"

#define GOOD_HEAD "HTTP/1.0 200 OK\r\n\r\n"
#define SEQUENCES 3

static struct top_table table;

/* The bytes of what a terminal does not show; 0: this is none. */
static size_t unseen(const char *text)
{
    static const char *const sequences[SEQUENCES] = {"\033[H", "\033[K", "\033[J"};

    for (size_t i = 0; i < SEQUENCES; i++)
        if (strncmp(text, sequences[i], 3) == 0)
            return 3;
    return 0;
}

/* Returns the lines. */
static size_t check_lines(const char *text, unsigned columns)
{
    size_t lines = 0, width = 0;

    while (*text) {
        if (columns && unseen(text)) {
            text += unseen(text);
            continue;
        }
        CHECK(*text == '\n' || (*text >= ' ' && *text <= '~'));
        width = *text == '\n' ? 0 : width + 1;
        lines += *text++ == '\n';
        CHECK(!columns || width <= columns);
    }
    CHECK(!width);
    return lines;
}

static uint64_t rate_of(const struct top_row *row)
{
    return row->sent_bit_per_s > row->received_bit_per_s ? row->sent_bit_per_s
                                                         : row->received_bit_per_s;
}

static void check_printed(unsigned rows, unsigned columns)
{
    size_t bytes, all = 2 + table.count + !!table.left_out, lines;
    char *text;
    FILE *out = open_memstream(&text, &bytes);

    CHECK(out);
    top_print(out, &table, rows, columns);
    CHECK(fclose(out) == 0 && strlen(text) == bytes);
    lines = check_lines(text, columns);
    CHECK(lines == (columns && all > rows - 1 ? rows - 1 : all));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    unsigned rows = (unsigned)take(&in, 1) % 64, columns = (unsigned)take(&in, 1);
    size_t head = take(&in, 1) & 1 ? strlen(GOOD_HEAD) : 0;
    char *text = exact_copy(NULL, head + in.len + 1), *body;
    int number;

    memcpy(text, GOOD_HEAD, head);
    memcpy(text + head, in.data, in.len);
    number = strlen(text) == head + in.len ? top_body(text, &body) : -EPROTO;
    if (number == 200) {
        CHECK(body >= text && body <= text + head + in.len);
        top_clean(body);
        if (top_parse(body, &table) == 0) {
            CHECK(table.count <= TOP_ROWS_MOST);
            for (size_t i = 1; i < table.count; i++)
                CHECK(rate_of(&table.rows[i - 1]) >= rate_of(&table.rows[i]));
            check_printed(rows && columns ? rows : 0, rows && columns ? columns : 0);
        }
    }
    free(text);
    return 0;
}

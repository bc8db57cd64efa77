/* SPDX-License-Identifier: MIT */
/*
 * A line of the in-band exchange. First byte: how the rest is presented (bit 0: its first bytes are
 * the prefix; bit 1: the prefix is put before it; bit 2: it is a line's numbers, and text, to be
 * built; bit 3: the prefix fills its field, without a final zero).
 */
#include "fuzz.h"

#include <stdbool.h>

#include "inband/exchange.h"

#define LARGEST_NUMBER 9999999999999999999ULL /* that a line can hold */

static bool is_printable(char c)
{
    return c >= ' ' && c <= '~';
}

/* A prefix as a caller's struct holds it, of exactly so many bytes. */
static bool prefix_checks(const char *prefix, size_t field)
{
    size_t len = strnlen(prefix, field);
    bool valid = len > 0 && len < AB_PREFIX_BYTES && prefix[0] != ' ' && prefix[len - 1] != ' ';

    for (size_t i = 0; i < len; i++)
        valid &= is_printable(prefix[i]);
    CHECK(ab_line_prefix_valid(prefix) == valid);
    return valid;
}

static void check_same(const struct ab_line *a, const struct ab_line *b)
{
    CHECK(a->verb == b->verb && a->count == b->count);
    for (unsigned i = 0; i < a->count; i++)
        CHECK(a->numbers[i] == b->numbers[i]);
    for (unsigned i = 0; i < AB_KEYS; i++)
        CHECK(a->values[i] == b->values[i]);
}

static bool is_ours(const char *prefix, const char *text, size_t len)
{
    size_t bytes = strlen(prefix);

    return len > bytes && memcmp(text, prefix, bytes) == 0 && text[bytes] == ' ';
}

/* Into just as much room as it takes with a NUL, and one byte less. Returns its length. */
static size_t build(const struct ab_line *line, const char *prefix, const char *text, char *built)
{
    size_t len = ab_line_build(line, prefix, text, built, AB_LINE_BYTES);
    char *exact = exact_copy("", 0);

    CHECK(len < AB_LINE_BYTES);
    CHECK(ab_line_build(line, prefix, text, exact, 0) == 0);
    free(exact);
    if (len == 0)
        return 0;
    exact = exact_copy(built, len + 1);
    CHECK(ab_line_build(line, prefix, text, exact, len) == 0);
    CHECK(ab_line_build(line, prefix, text, exact, len + 1) == len);
    CHECK(memcmp(exact, built, len) == 0);
    free(exact);
    CHECK(len > 2 && built[len - 2] == '\r' && built[len - 1] == '\n');
    for (size_t i = 0; i < len - 2; i++)
        CHECK(is_printable(built[i]));
    CHECK(is_ours(prefix, built, len - 2));
    return len;
}

static void parse(const char *prefix, const char *text, size_t len)
{
    char *copy = exact_copy(text, len), built[AB_LINE_BYTES];
    struct ab_line line, again;
    bool ours = is_ours(prefix, copy, len);
    bool parsed = ab_line_parse(prefix, copy, len, &line);

    free(copy);
    CHECK(line.verb < AB_VERBS);
    CHECK(ours || !parsed);
    if (!parsed || line.verb == AB_NO_VERB)
        return;
    CHECK(line.count <= 2);
    len = build(&line, prefix, NULL, built);
    CHECK(len > 0); /* any reading fits into a line */
    CHECK(ab_line_parse(prefix, built, len - 2, &again));
    check_same(&line, &again);
    if (line.verb != AB_ERROR || line.count != 1)
        return;
    len = build(&line, prefix, "this is for people", built);
    CHECK(len > 0 && ab_line_parse(prefix, built, len - 2, &again));
    check_same(&line, &again);
}

/* What an error says to people: no number, and more than one line can hold. */
static void take_text(struct input *in, char *text, size_t cap)
{
    size_t len = 1;

    text[0] = '-';
    for (; len < in->len && len + 1 < cap && is_printable((char)in->data[len]); len++)
        text[len] = (char)in->data[len];
    text[len] = 0;
}

/* The other end can parse it, whatever it is; a number beyond what one can hold is the largest. */
static void build_any(const char *prefix, struct input *in)
{
    struct ab_line line = {.verb = 1 + (enum ab_verb)(take(in, 1) % AB_ERROR)}, again;
    unsigned keys = (unsigned)take(in, 2);
    char built[AB_LINE_BYTES], text[2 * AB_LINE_BYTES];
    bool error = line.verb == AB_ERROR;
    size_t len;

    line.count = error ? 1 : (unsigned)take(in, 1) % 3;
    for (unsigned i = 0; i < line.count; i++)
        line.numbers[i] = take_number(in);
    for (unsigned i = 0; i < AB_KEY_MAXRCV; i++) /* a line has no room for all of them */
        if (!error && keys >> i & 1)
            line.values[i] = take_number(in);
    if (error)
        take_text(in, text, sizeof text);
    len = build(&line, prefix, error ? text : NULL, built);
    if (len == 0) {
        CHECK(error && strlen(text) > AB_LINE_BYTES / 2);
        return;
    }
    CHECK(ab_line_parse(prefix, built, len - 2, &again));
    for (unsigned i = 0; i < line.count; i++)
        if (line.numbers[i] > LARGEST_NUMBER)
            line.numbers[i] = LARGEST_NUMBER;
    for (unsigned i = 0; i < AB_KEYS; i++)
        if (line.values[i] > LARGEST_NUMBER)
            line.values[i] = LARGEST_NUMBER;
    check_same(&line, &again);
}

/* A reply of an FTP server, and what can be built of it again. */
static void parse_as_ftp(const char *prefix, const char *text, size_t len)
{
    const struct ab_framing *ftp = &ab_framing_ftp;
    char *copy = exact_copy(text, len), built[AB_LINE_BYTES];
    struct ab_line line, again;
    bool good = ftp->answer.parse(prefix, copy, len, &line);

    free(copy);
    if (!good || line.verb == AB_NO_VERB || line.verb == AB_MORE)
        return;
    for (unsigned i = 0; line.verb == AB_SINK && i < AB_KEY_BYTES; i++)
        line.values[i] = 0; /* a reading has none of these, which would stand before it */
    len = ftp->answer.build(&line, prefix, "text", built, sizeof built);
    if (len == 0)
        return;
    CHECK(built[len - 2] == '\r' && built[len - 1] == '\n');
    CHECK(ftp->answer.parse(prefix, built, len - 2, &again) && again.verb == line.verb);
    CHECK(again.numbers[0] == line.numbers[0] || line.verb == AB_GO || line.verb == AB_SINK);
    CHECK(again.values[AB_KEY_RATE] == line.values[AB_KEY_RATE]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    unsigned how = (unsigned)take(&in, 1);
    size_t prefix_len = how & 1 ? (size_t)take(&in, 1) % 40 : 7;
    size_t field = how & 8 ? AB_PREFIX_BYTES : prefix_len + 1;
    char *prefix, *text, given[64] = "AUTOBUF";
    size_t begin;
    bool valid;

    if (how & 1) {
        memset(given, 0, sizeof given);
        for (size_t i = 0; i < prefix_len; i++)
            given[i] = (char)take(&in, 1);
    }
    prefix = exact_copy(given, field);
    valid = prefix_checks(prefix, field);
    if (valid && how & 4) {
        build_any(prefix, &in);
    } else if (valid) {
        begin = how & 2 ? strlen(prefix) + 1 : 0;
        text = calloc(1, begin + in.len + 1);
        CHECK(text);
        if (begin)
            sprintf(text, "%s ", prefix);
        if (in.len)
            memcpy(text + begin, in.data, in.len);
        parse(prefix, text, begin + in.len);
        parse_as_ftp(prefix, text, begin + in.len);
        free(text);
    }
    free(prefix);
    return 0;
}

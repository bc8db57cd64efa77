/* SPDX-License-Identifier: MIT */
#include "wad.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define WORD_BYTES 64U
#define SIZE_BYTES_MOST 0x3fffffffL

enum key { SRC_ADDR, SRC_PORT, DST_ADDR, DST_PORT, MODE, SNDBUF, RCVBUF, WADAI, WADMD, MAXSSTH, DIVIDE, FLOYD, KEYS };

static const char *const names[KEYS] = {"src_addr", "src_port", "dst_addr", "dst_port", "mode",   "sndbuf",
                                        "rcvbuf",   "wadai",    "wadmd",    "maxssth",  "divide", "floyd"};

/* Why a setting has no equivalent, and the value with which it asks for nothing. */
static const struct {
    enum key key;
    const char *nothing, *why;
} dropped[] = {
    {WADAI, "0", "Linux has no additive increase for one socket; cc= names a congestion control that grows faster"},
    {WADMD, "0", "Linux has no multiplicative decrease for one socket; cc= names a congestion control that falls less"},
    {MAXSSTH, "0", "limited slow start is no longer in Linux; cubic leaves slow start before it loses (HyStart)"},
};

struct conversion {
    struct lines lines; /* the first, for its calls hand it over */
    FILE *out;
    bool in_section;
    char values[KEYS][WORD_BYTES]; /* of this section; "": not given */
    unsigned given_at[KEYS];       /* in which line */
};

static struct conversion *conversion_of(struct lines *lines)
{
    return (struct conversion *)lines;
}

/* A whole number up to that; -1: it is none. */
static long number_of(const char *text, long most)
{
    char *end;
    long number = strtol(text, &end, 10);

    return text[0] >= '0' && text[0] <= '9' && !*end && number <= most ? number : -1;
}

static void wrong(struct conversion *c, enum key key, const char *right)
{
    lines_wrong_at(&c->lines, c->given_at[key], "%s: %s: it takes %s", names[key], c->values[key], right);
}

/* 0.0.0.0 is any. */
static void put_address(struct conversion *c, enum key key, const char *name)
{
    uint8_t address[16];
    const char *text = c->values[key];

    if (!text[0] || strcmp(text, "0.0.0.0") == 0 || strcmp(text, "::") == 0)
        return;
    if (inet_pton(AF_INET, text, address) != 1 && inet_pton(AF_INET6, text, address) != 1)
        wrong(c, key, "an address");
    else
        fprintf(c->out, "%s=%s\n", name, text);
}

/* 0 is any. */
static void put_port(struct conversion *c, enum key key, const char *name)
{
    long port = c->values[key][0] ? number_of(c->values[key], UINT16_MAX) : 0;

    if (port < 0)
        wrong(c, key, "a port");
    else if (port)
        fprintf(c->out, "%s=%ld\n", name, port);
}

/* What is given, and more than nothing. */
static long size_of(struct conversion *c, enum key key)
{
    long size = c->values[key][0] ? number_of(c->values[key], SIZE_BYTES_MOST) : 0;

    if (size < 0)
        wrong(c, key, "bytes, at most 1073741823");
    return size;
}

/* What the connections at a time share, instead of each having it. */
static void put_divide(struct conversion *c, long snd, long rcv)
{
    fputs("mode=auto\n", c->out);
    if (snd <= 0 && rcv <= 0)
        fputs("# divide 1: there is no size to share\n", c->out);
    else
        fprintf(c->out, "divide=%ld\n", snd > 0 ? snd : rcv);
    if (snd > 0 && rcv > 0 && snd != rcv)
        fprintf(c->out, "# rcvbuf %ld: one total for what is sent and for what is received\n", rcv);
}

/* Mode 1 overrides what a program has set, 2 takes sizes from measurements; else programs that set nothing are tuned. */
static void put_mode(struct conversion *c)
{
    long mode = c->values[MODE][0] ? number_of(c->values[MODE], 2) : 0;
    long divide = c->values[DIVIDE][0] ? number_of(c->values[DIVIDE], 1) : 0;
    long snd = size_of(c, SNDBUF), rcv = size_of(c, RCVBUF);

    if (mode < 0) {
        wrong(c, MODE, "0, 1 or 2");
    } else if (divide < 0) {
        wrong(c, DIVIDE, "0 or 1");
    } else if (divide) {
        put_divide(c, snd, rcv);
    } else if (mode == 1 && (snd > 0 || rcv > 0)) {
        fputs("mode=fixed\n", c->out);
        if (snd > 0)
            fprintf(c->out, "sndbuf=%ld\n", snd);
        if (rcv > 0)
            fprintf(c->out, "rcvbuf=%ld\n", rcv);
    } else {
        fprintf(c->out, "mode=%s\n", mode == 2 ? "path" : "auto");
        if (snd > 0)
            fprintf(c->out, "# sndbuf %ld: the kernel tunes now; what limits is enlarged as far as it pays\n", snd);
        if (rcv > 0)
            fprintf(c->out, "# rcvbuf %ld: the same\n", rcv);
    }
}

/* HighSpeed TCP is Floyd's table (RFC 3649). */
static void put_floyd(struct conversion *c)
{
    long floyd = c->values[FLOYD][0] ? number_of(c->values[FLOYD], 2) : 0;

    if (floyd < 0)
        wrong(c, FLOYD, "0, 1 or 2");
    else if (floyd)
        fprintf(c->out, "cc=highspeed\n# floyd %ld: HighSpeed TCP (RFC 3649), module tcp_highspeed\n", floyd);
}

static void end_section(struct conversion *c)
{
    if (!c->in_section)
        return;
    put_address(c, SRC_ADDR, "local");
    put_port(c, SRC_PORT, "local_port");
    put_address(c, DST_ADDR, "remote");
    put_port(c, DST_PORT, "remote_port");
    put_mode(c);
    put_floyd(c);
    for (size_t i = 0; i < COUNT(dropped); i++) {
        const char *value = c->values[dropped[i].key];

        if (value[0] && strcmp(value, dropped[i].nothing) != 0)
            fprintf(c->out, "# %s %s: %s\n", names[dropped[i].key], value, dropped[i].why);
    }
}

static void begin_section(struct lines *lines, const char *name)
{
    struct conversion *c = conversion_of(lines);

    end_section(c);
    memset(c->values, 0, sizeof c->values);
    fprintf(c->out, "%s[%s]\n", c->in_section ? "\n" : "", name);
    c->in_section = true;
}

static bool is_word(const char *value)
{
    for (; *value; value++)
        if (*value <= ' ' || *value > '~')
            return false;
    return true;
}

static void take(struct lines *lines, const char *name, const char *value)
{
    struct conversion *c = conversion_of(lines);

    if (!c->in_section) {
        lines_wrong(lines, "%s: belongs into a section", name);
        return;
    }
    for (size_t key = 0; key < KEYS; key++) {
        if (strcmp(names[key], name) != 0)
            continue;
        c->given_at[key] = lines->line;
        if (!value[0] || strlen(value) >= WORD_BYTES || !is_word(value))
            lines_wrong(lines, "%s: a value is a word of at most %u characters", name, WORD_BYTES - 1);
        else
            strcpy(c->values[key], value);
        return;
    }
    lines_wrong(lines, "%s: WAD has no such setting", name);
}

int wad_convert(FILE *in, FILE *out, config_wrong_fn *say, void *user)
{
    struct conversion c = {
        .lines = {.file = in, .section = begin_section, .setting = take, .wrong = say, .user = user},
    };
    char *text = NULL;
    size_t bytes = 0;
    int error = 0;

    c.out = open_memstream(&text, &bytes);
    if (!c.out)
        return -ENOMEM;
    lines_read(&c.lines);
    end_section(&c);
    if (ferror(c.out) | (fclose(c.out) != 0))
        error = -ENOMEM;
    else if (c.lines.mistakes)
        error = -EINVAL;
    else
        fwrite(text, 1, bytes, out);
    free(text);
    return error;
}

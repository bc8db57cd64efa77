/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../base/base.h"
#include "dress.h"

#define CODE_BYTES 3U
#define TRAIN_WORDS "AUTOBUF TRAIN"
#define HELLO_WORDS "AUTOBUF"

enum { SETS = 200, TELLS = 211, WANTS_MORE = 350, FAILS_FROM = 400, CODES = 600 };

static size_t ftp_build_ask(const struct ab_line *line, const char *prefix, const char *text,
                            char *buf, size_t cap)
{
    size_t len = strlen(prefix);

    if (line->verb != AB_HELLO)
        return ab_line_build(line, prefix, text, buf, cap);
    if (len + 2 > cap)
        return 0;
    memcpy(buf, prefix, len);
    memcpy(buf + len, "\r\n", 2);
    return len + 2;
}

static bool ftp_parse_ask(const char *prefix, const char *text, size_t len, struct ab_line *line)
{
    if (len != strlen(prefix) || memcmp(text, prefix, len) != 0) {
        if (ab_line_parse(prefix, text, len, line))
            return true;
        line->count = 0; /* a known command whose argument is not valid */
        return line->verb == AB_TRAIN || line->verb == AB_SINK || line->verb == AB_SET;
    }
    *line = (struct ab_line){.verb = AB_HELLO, .count = 1, .numbers = {1}};
    return true;
}

/* Builds what comes before the keys. Returns its length, below cap. */
static size_t build_head(const struct ab_line *line, const char *text, char *buf, size_t cap)
{
    unsigned long long first = line->numbers[0];
    int len = 0;

    switch (line->verb) {
    case AB_HELLO:
        len = snprintf(buf, cap, "%d " HELLO_WORDS " %llu", TELLS, first);
        break;
    case AB_TRAIN:
        len = snprintf(buf, cap, "%d-" TRAIN_WORDS " %llu", TELLS, first);
        break;
    case AB_GO:
        len = snprintf(buf, cap, "%d Send %llu bytes", WANTS_MORE, first);
        break;
    case AB_SINK:
        len = snprintf(buf, cap, "%d", TELLS);
        break;
    case AB_SET:
        len = snprintf(buf, cap, "%d AUTOBUF rcv=%llu snd=%llu", SETS, first,
                       (unsigned long long)line->numbers[1]);
        break;
    default:
        len = snprintf(buf, cap, "%llu %s", first, text ? text : "AUTOBUF");
        break;
    }
    return ab_min_size((size_t)len, cap - 1);
}

static size_t ftp_build_answer(const struct ab_line *line, const char *prefix, const char *text,
                               char *buf, size_t cap)
{
    char built[AB_LINE_BYTES];
    size_t len = build_head(line, text, built, sizeof built);

    (void)prefix;
    len += ab_line_build_pairs(line, line->verb == AB_SINK, built + len, sizeof built - len);
    if (len + 2 > cap || len + 2 >= sizeof built)
        return 0;
    memcpy(buf, built, len);
    memcpy(buf + len, "\r\n", 2);
    return len + 2;
}

static bool begins_with(const char *text, size_t len, const char *words)
{
    return len >= strlen(words) && memcmp(text, words, strlen(words)) == 0;
}

/* Parses what follows a code and its blank: the words of HELLO, SINK or SET. */
static bool parse_told(unsigned code, const char *text, size_t len, struct ab_line *line)
{
    size_t words = strlen(HELLO_WORDS);

    if (code == TELLS && begins_with(text, len, HELLO_WORDS " ")) {
        line->verb = AB_HELLO;
        return ab_line_parse_words(text + words, len - words, line);
    }
    if (code == TELLS && begins_with(text, len, "bytes=")) {
        line->verb = AB_SINK;
        return ab_line_parse_words(text - 1, len + 1, line);
    }
    if (code == SETS && begins_with(text, len, HELLO_WORDS " rcv=")) {
        bool good = ab_line_parse_words(text + words, len - words, line);

        line->verb = AB_SET;
        line->count = 2;
        line->numbers[0] = line->values[AB_KEY_RCV];
        line->numbers[1] = line->values[AB_KEY_SND];
        return good;
    }
    return false;
}

/* The code of three digits at the beginning of a reply's line; 0: there is none. */
static unsigned parse_code(const char *text, size_t len)
{
    unsigned code = 0;

    if (len < CODE_BYTES || (len > CODE_BYTES && text[3] != ' ' && text[3] != '-'))
        return 0;
    for (unsigned i = 0; i < CODE_BYTES; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        code = 10 * code + (unsigned)(text[i] - '0');
    }
    return code < CODES ? code : 0;
}

static bool ftp_parse_answer(const char *prefix, const char *text, size_t len, struct ab_line *line)
{
    unsigned code = parse_code(text, len);
    size_t words = strlen(TRAIN_WORDS);

    (void)prefix;
    *line = (struct ab_line){.verb = AB_MORE};
    if (code == 0)
        return true; /* a line within a reply of several lines */
    if (len > CODE_BYTES && text[3] == '-') {
        if (code != TELLS || !begins_with(text + 4, len - 4, TRAIN_WORDS " "))
            return true;
        line->verb = AB_TRAIN;
        return ab_line_parse_words(text + 4 + words, len - 4 - words, line);
    }
    line->verb = AB_ERROR;
    line->count = 1;
    line->numbers[0] = code;
    if (code >= FAILS_FROM)
        return true;
    *line = (struct ab_line){.verb = code == WANTS_MORE ? AB_GO : AB_NO_VERB};
    return code == WANTS_MORE || (len > CODE_BYTES + 1 && parse_told(code, text + 4, len - 4, line));
}

const struct ab_dress *ab_dress_ftp(void)
{
    static const struct ab_dress ftp = {
        .prefix = "SITE AUTOBUF",
        .ask = {ftp_build_ask, ftp_parse_ask},
        .answer = {ftp_build_answer, ftp_parse_answer},
        .reply_end = "211 AUTOBUF\r\n",
        .no_hello = "SITE AUTOBUF comes first",
        .unknown = "not a command of SITE AUTOBUF",
    };

    return &ftp;
}

/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <strings.h>

#include "exchange.h"

#define CODE_BYTES 3U
#define TRAIN_WORDS "AUTOBUF TRAIN"
#define HELLO_WORDS "AUTOBUF"

enum { REPLY_OK = 200, REPLY_STATUS = 211, REPLY_PENDING = 350, REPLY_ERRORS = 400, REPLY_END = 600 };

static size_t ftp_build_command(const struct ab_line *line, const char *prefix, const char *text, char *buf, size_t cap)
{
    struct ab_text built = {buf, cap, 0};

    if (line->verb != AB_HELLO)
        return ab_line_build(line, prefix, text, buf, cap);
    ab_add(&built, "%s", prefix);
    return ab_line_end(&built);
}

static bool ftp_parse_command(const char *prefix, const char *text, size_t len, struct ab_line *line)
{
    if (len != strlen(prefix) || memcmp(text, prefix, len) != 0) {
        if (ab_line_parse(prefix, text, len, line))
            return true;
        line->count = 0; /* a known command with a bad argument */
        return line->verb == AB_TRAIN || line->verb == AB_SINK || line->verb == AB_SET;
    }
    *line = (struct ab_line){.verb = AB_HELLO, .count = 1, .numbers = {1}};
    return true;
}

/* What comes before the keys. */
static void add_reply_head(const struct ab_line *line, const char *text, struct ab_text *to)
{
    unsigned long long first = line->numbers[0], second = line->numbers[1];

    switch (line->verb) {
    case AB_HELLO:
        ab_add(to, "%d " HELLO_WORDS " %llu", REPLY_STATUS, first);
        break;
    case AB_TRAIN:
        ab_add(to, "%d-" TRAIN_WORDS " %llu", REPLY_STATUS, first);
        break;
    case AB_GO:
        ab_add(to, "%d Send %llu bytes", REPLY_PENDING, first);
        break;
    case AB_SINK:
        ab_add(to, "%d", REPLY_STATUS);
        break;
    case AB_SET:
        ab_add(to, "%d AUTOBUF rcv=%llu snd=%llu", REPLY_OK, first, second);
        break;
    default:
        ab_add(to, "%llu %s", first, text ? text : "AUTOBUF");
        break;
    }
}

static size_t ftp_build_reply(const struct ab_line *line, const char *prefix, const char *text, char *buf, size_t cap)
{
    struct ab_text built = {buf, cap, 0};

    (void)prefix;
    add_reply_head(line, text, &built);
    ab_line_add_pairs(line, line->verb == AB_SINK, &built);
    return ab_line_end(&built);
}

static bool begins_with(const char *text, size_t len, const char *words)
{
    return len >= strlen(words) && memcmp(text, words, strlen(words)) == 0;
}

/* Parses the words of HELLO, SINK or SET after a code and its blank. */
static bool parse_reply_words(unsigned code, const char *text, size_t len, struct ab_line *line)
{
    size_t words = strlen(HELLO_WORDS);

    if (code == REPLY_STATUS && begins_with(text, len, HELLO_WORDS " ")) {
        line->verb = AB_HELLO;
        return ab_line_parse_words(text + words, len - words, line);
    }
    if (code == REPLY_STATUS && begins_with(text, len, "bytes=")) {
        line->verb = AB_SINK;
        return ab_line_parse_words(text - 1, len + 1, line);
    }
    if (code == REPLY_OK && begins_with(text, len, HELLO_WORDS " rcv=")) {
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
    return code < REPLY_END ? code : 0;
}

static bool ftp_parse_reply(const char *prefix, const char *text, size_t len, struct ab_line *line)
{
    unsigned code = parse_code(text, len);
    size_t words = strlen(TRAIN_WORDS);

    (void)prefix;
    *line = (struct ab_line){.verb = AB_MORE};
    if (code == 0)
        return true; /* a line within a reply of several lines */
    if (len > CODE_BYTES && text[3] == '-') {
        if (code != REPLY_STATUS || !begins_with(text + 4, len - 4, TRAIN_WORDS " "))
            return true;
        line->verb = AB_TRAIN;
        return ab_line_parse_words(text + 4 + words, len - 4 - words, line);
    }
    line->verb = AB_ERROR;
    line->count = 1;
    line->numbers[0] = code;
    if (code >= REPLY_ERRORS)
        return true;
    *line = (struct ab_line){.verb = code == REPLY_PENDING ? AB_GO : AB_NO_VERB};
    return code == REPLY_PENDING || (len > CODE_BYTES + 1 && parse_reply_words(code, text + 4, len - 4, line));
}

const struct ab_framing ab_framing_ftp = {
    .prefix = "SITE AUTOBUF",
    .ask = {ftp_build_command, ftp_parse_command},
    .answer = {ftp_build_reply, ftp_parse_reply},
    .reply_end = "211 AUTOBUF\r\n",
    .no_hello = "SITE AUTOBUF comes first",
    .unknown = "not a command of SITE AUTOBUF",
};

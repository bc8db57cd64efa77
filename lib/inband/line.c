/* SPDX-License-Identifier: MIT */
#include "exchange.h"

#include <string.h>
#include <strings.h>

#define DIGITS_MAX 19U /* such a number is below 2^64 */
#define NUMBER_MAX 9999999999999999999ULL

static const char *const verbs[AB_VERBS] = {"",    "HELLO", "TRAIN", "SINK", "RESULT",
                                            "SET", "ERROR", "GO",    "MORE"};
static const char *const keys[AB_KEYS] = {
    "train", "budget", "pace", "paced",   "bytes",  "nsec",   "rate", "low",
    "high",  "sure",   "atleast", "rtt", "maxrcv", "maxsnd", "rcv",  "snd",
    "unsure"};

/* A word of a line: the bytes up to the next blank. */
struct word {
    const char *text;
    size_t len;
};

static bool next_word(struct word *rest, struct word *word)
{
    const char *blank;

    if (rest->len == 0 || rest->text[0] != ' ')
        return false;
    word->text = rest->text + 1;
    word->len = rest->len - 1;
    blank = word->len ? memchr(word->text, ' ', word->len) : NULL;
    if (blank)
        word->len = (size_t)(blank - word->text);
    rest->text = word->text + word->len;
    rest->len -= word->len + 1;
    return word->len > 0;
}

static bool parse_digits(const char *text, size_t len, uint64_t *value)
{
    *value = 0;
    if (len == 0 || len > DIGITS_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *value = *value * 10 + (uint64_t)(text[i] - '0');
    }
    return true;
}

static bool is_word(const struct word *word, const char *text)
{
    return strlen(text) == word->len && memcmp(word->text, text, word->len) == 0;
}

/* Verbs may be in upper or lower case. */
static bool is_verb(const struct word *word, const char *text)
{
    return strlen(text) == word->len && strncasecmp(word->text, text, word->len) == 0;
}

static bool parse_pair(const struct word *word, struct ab_line *line)
{
    const char *equals = memchr(word->text, '=', word->len);
    struct word key = {word->text, equals ? (size_t)(equals - word->text) : 0};
    uint64_t value;

    if (!equals || !parse_digits(equals + 1, word->len - key.len - 1, &value))
        return false;
    for (unsigned i = 0; i < AB_KEYS; i++)
        if (is_word(&key, keys[i]))
            line->values[i] = value;
    return true;
}

/* Whether a line begins with the prefix and a blank. */
static bool is_ours(const char *prefix, const char *text, size_t len)
{
    size_t prefix_len = strlen(prefix);

    return len > prefix_len && memcmp(text, prefix, prefix_len) == 0 && text[prefix_len] == ' ';
}

bool ab_line_parse_words(const char *text, size_t len, struct ab_line *line)
{
    struct word rest = {text, len}, word;
    bool numbers = true;

    while (rest.len > 0) {
        uint64_t number;

        if (!next_word(&rest, &word))
            return false;
        if (numbers && parse_digits(word.text, word.len, &number)) {
            if (line->count < 2)
                line->numbers[line->count] = number;
            line->count++;
            continue;
        }
        numbers = false;
        if (line->verb == AB_ERROR)
            return line->count == 1; /* the rest is for people */
        if (!parse_pair(&word, line))
            return false;
    }
    return line->count <= 2;
}

bool ab_line_parse(const char *prefix, const char *text, size_t len, struct ab_line *line)
{
    struct word rest, word;

    memset(line, 0, sizeof *line);
    if (!is_ours(prefix, text, len))
        return false;
    rest = (struct word){text + strlen(prefix), len - strlen(prefix)};
    if (!next_word(&rest, &word))
        return false;
    for (unsigned i = 1; i <= AB_ERROR; i++)
        if (is_verb(&word, verbs[i]))
            line->verb = (enum ab_verb)i;
    return line->verb == AB_NO_VERB || ab_line_parse_words(rest.text, rest.len, line);
}

void ab_line_add_pairs(const struct ab_line *line, bool all, struct ab_text *to)
{
    for (unsigned i = 0; i < AB_KEYS; i++)
        if (line->values[i] || (all && (i == AB_KEY_BYTES || i == AB_KEY_NSEC)))
            ab_add(to, " %s=%llu", keys[i], (unsigned long long)ab_min(line->values[i], NUMBER_MAX));
}

size_t ab_line_end(struct ab_text *line)
{
    ab_add(line, "\r\n");
    return line->len < ab_min_size(line->cap, AB_LINE_BYTES) ? line->len : 0;
}

size_t ab_line_build(const struct ab_line *line, const char *prefix, const char *text, char *buf, size_t cap)
{
    struct ab_text built = {buf, cap, 0};

    ab_add(&built, "%s %s", prefix, verbs[line->verb]);
    for (unsigned i = 0; i < line->count; i++)
        ab_add(&built, " %llu", (unsigned long long)ab_min(line->numbers[i], NUMBER_MAX));
    ab_line_add_pairs(line, false, &built);
    if (text)
        ab_add(&built, " %s", text);
    return ab_line_end(&built);
}

bool ab_line_prefix_valid(const char *prefix)
{
    size_t len = strnlen(prefix, AB_PREFIX_BYTES);

    if (len == 0 || len == AB_PREFIX_BYTES || prefix[0] == ' ' || prefix[len - 1] == ' ')
        return false;
    for (size_t i = 0; i < len; i++)
        if (prefix[i] < ' ' || prefix[i] > '~')
            return false;
    return true;
}

const struct ab_framing ab_framing_text = {
    .prefix = "AUTOBUF",
    .ask = {ab_line_build, ab_line_parse},
    .answer = {ab_line_build, ab_line_parse},
    .no_hello = "HELLO comes first",
    .unknown = "not a line of this exchange",
};

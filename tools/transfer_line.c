/* SPDX-License-Identifier: MIT */
#include "transfer_line.h"

#include <autobuf/live.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VERSION 1
#define DIGITS_MOST 19
#define KEY_BYTES 15
#define NS_MOST 99000000000ULL /* longer than any transfer, or round trip of one */
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const verbs[] = {
    [TRANSFER_ASK] = TRANSFER_PREFIX, [TRANSFER_REPORT] = "AUTOBUF REPORT ", [TRANSFER_ERROR] = "AUTOBUF ERROR "};

static const struct {
    const char *name;
    uint64_t most;
} keys[TRANSFER_KEYS] = {
    [TRANSFER_RECEIVE] = {"receive", 1},
    [TRANSFER_TUNED] = {"tuned", 1},
    [TRANSFER_BYTES] = {"bytes", 1000000000000000ULL},
    [TRANSFER_NSEC] = {"nsec", NS_MOST},
    [TRANSFER_WINDOW] = {"window", 1ULL << 40},
    [TRANSFER_RTT_MIN] = {"rttmin", NS_MOST},
    [TRANSFER_RTT_MEAN] = {"rtt", NS_MOST},
    [TRANSFER_RESENT] = {"resent", 1000000000000ULL},
    [TRANSFER_BOTTLENECK] = {"limiter", AUTOBUF_BOTTLENECK_STALLED},
};

static const char *text_of(uint64_t code)
{
    switch (code) {
    case TRANSFER_BUSY:
        return "busy with other transfers";
    case TRANSFER_REFUSED:
        return "no transfers here: --transfer SECONDS allows them";
    default:
        return "TRANSFER takes a version and seconds";
    }
}

size_t transfer_line_format(const struct transfer_line *line, char text[TRANSFER_LINE_BYTES])
{
    char *at = text, *end = text + TRANSFER_LINE_BYTES;

    at += snprintf(at, (size_t)(end - at), "%s", verbs[line->verb]);
    if (line->verb == TRANSFER_ERROR)
        at += snprintf(at, (size_t)(end - at), "%" PRIu64 " %s", line->number % 1000, text_of(line->number));
    else
        at += snprintf(at, (size_t)(end - at), "%d", VERSION);
    if (line->verb == TRANSFER_ASK)
        at += snprintf(at, (size_t)(end - at), " %" PRIu64, line->number % 1000);
    for (unsigned i = 0; line->verb != TRANSFER_ERROR && i < TRANSFER_KEYS; i++) {
        uint64_t value = line->values[i] < keys[i].most ? line->values[i] : keys[i].most;

        if (value)
            at += snprintf(at, (size_t)(end - at), " %s=%" PRIu64, keys[i].name, value);
    }
    at += snprintf(at, (size_t)(end - at), "\r\n");
    return (size_t)(at - text);
}

/* What is left of a line. */
struct rest {
    const char *at, *end;
};

static bool take_number(struct rest *r, uint64_t *value)
{
    const char *begin = r->at;

    for (*value = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (r->at - begin == DIGITS_MOST)
            return false;
        *value = 10 * *value + (uint64_t)(*r->at - '0');
    }
    return r->at > begin;
}

static bool take_char(struct rest *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* key=number, into its place. *seen: the keys before it. */
static bool take_pair(struct rest *r, struct transfer_line *line, unsigned *seen)
{
    const char *key = r->at;
    uint64_t value;
    size_t len;

    while (r->at < r->end && *r->at >= 'a' && *r->at <= 'z')
        r->at++;
    len = (size_t)(r->at - key);
    if (len == 0 || len > KEY_BYTES || !take_char(r, '=') || !take_number(r, &value))
        return false;
    for (unsigned i = 0; i < TRANSFER_KEYS; i++) {
        if (strlen(keys[i].name) != len || memcmp(keys[i].name, key, len) != 0)
            continue;
        if (*seen & 1U << i || value > keys[i].most)
            return false;
        *seen |= 1U << i;
        line->values[i] = value;
    }
    return true;
}

bool transfer_line_parse(const char *text, size_t len, struct transfer_line *line)
{
    struct rest r = {text, text + len};
    unsigned seen = 0, verb = 0;
    uint64_t version;

    *line = (struct transfer_line){0};
    if (len == 0 || len > TRANSFER_LINE_BYTES || *--r.end != '\n')
        return false;
    if (r.end > r.at && r.end[-1] == '\r')
        r.end--;
    len = (size_t)(r.end - r.at);
    while (verb < COUNT(verbs) && (len < strlen(verbs[verb]) || memcmp(text, verbs[verb], strlen(verbs[verb])) != 0))
        verb++;
    if (verb == COUNT(verbs))
        return false;
    line->verb = (enum transfer_verb)verb;
    r.at += strlen(verbs[verb]);
    if (verb == TRANSFER_ERROR)
        return take_number(&r, &line->number) && line->number <= 999 && (r.at == r.end || *r.at == ' ');
    if (!take_number(&r, &version) || version < VERSION)
        return false;
    if (verb == TRANSFER_ASK && (!take_char(&r, ' ') || !take_number(&r, &line->number) || line->number < 1 ||
                                 line->number > TRANSFER_SECONDS_MOST))
        return false;
    while (r.at < r.end)
        if (!take_char(&r, ' ') || !take_pair(&r, line, &seen))
            return false;
    return true;
}

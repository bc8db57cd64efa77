/* SPDX-License-Identifier: MIT */
#include "transfer_line.h"

#include <autobuf/live.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Digits alone; NULL: there are none. */
static bool take_number(const char *text, uint64_t most, uint64_t *value)
{
    size_t digits = text ? strspn(text, "0123456789") : 0;

    *value = digits && digits <= DIGITS_MOST ? strtoull(text, NULL, 10) : UINT64_MAX;
    return digits && !text[digits] && *value <= most;
}

/* key=number, into its place. *seen: the keys before it. */
static bool take_pair(char *pair, struct transfer_line *line, unsigned *seen)
{
    size_t length = strspn(pair, "abcdefghijklmnopqrstuvwxyz");
    uint64_t value;

    if (length == 0 || length > KEY_BYTES || pair[length] != '=' ||
        !take_number(pair + length + 1, UINT64_MAX - 1, &value))
        return false;
    pair[length] = '\0';
    for (unsigned i = 0; i < TRANSFER_KEYS; i++) {
        if (strcmp(keys[i].name, pair) != 0)
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
    char copy[TRANSFER_LINE_BYTES], *rest = copy, *word;
    unsigned seen = 0, verb = 0;
    uint64_t version;

    *line = (struct transfer_line){0};
    if (len == 0 || len > sizeof copy || text[--len] != '\n' || memchr(text, '\0', len))
        return false;
    len -= len && text[len - 1] == '\r';
    memcpy(copy, text, len);
    copy[len] = '\0';
    while (verb < COUNT(verbs) && strncmp(copy, verbs[verb], strlen(verbs[verb])) != 0)
        verb++;
    if (verb == COUNT(verbs))
        return false;
    line->verb = (enum transfer_verb)verb;
    rest += strlen(verbs[verb]);
    word = strsep(&rest, " ");
    if (verb == TRANSFER_ERROR)
        return take_number(word, 999, &line->number);
    if (!take_number(word, UINT64_MAX - 1, &version) || version < VERSION)
        return false;
    if (verb == TRANSFER_ASK &&
        (!take_number(strsep(&rest, " "), TRANSFER_SECONDS_MOST, &line->number) || !line->number))
        return false;
    while ((word = strsep(&rest, " ")))
        if (!take_pair(word, line, &seen))
            return false;
    return true;
}

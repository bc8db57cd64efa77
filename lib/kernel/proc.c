/* SPDX-License-Identifier: MIT */
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define READ_TRIES 8 /* reading /proc does not block, so an interruption is rare */

size_t ab_proc_parse(const char *text, size_t len, uint64_t *numbers, size_t count)
{
    size_t found = 0, i = 0;

    while (found < count) {
        uint64_t value = 0;
        size_t begin;

        while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n'))
            i++;
        for (begin = i; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
                return found;
        }
        if (i == begin)
            return found;
        numbers[found++] = value;
    }
    return found;
}

/* The text after the word and its blanks; NULL: another word is there. */
static const char *past_word(const char *at, const char *end, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(end - at) <= len || memcmp(at, word, len) != 0 || at[len] != ' ')
        return NULL;
    for (at += len; at < end && *at == ' '; at++)
        ;
    return at;
}

bool ab_proc_find(const char *text, size_t len, const char *label, const char *name, uint64_t *number)
{
    const char *end = text + len, *line_end;

    for (const char *line = text; line < end; line = line_end + 1) {
        const char *at = past_word(line, end, label);

        line_end = memchr(line, '\n', (size_t)(end - line));
        if (!line_end)
            line_end = end;
        while (at && at < line_end && name) {
            const char *behind = past_word(at, line_end, name);

            if (behind) {
                at = behind;
                break;
            }
            at = memchr(at, ' ', (size_t)(line_end - at));
            at = at ? at + 1 : NULL;
        }
        if (at && at < line_end)
            return ab_proc_parse(at, (size_t)(line_end - at), number, 1) == 1;
        if (line_end == end)
            break;
    }
    return false;
}

/* Returns how many bytes were read, or a value below 1. */
static ssize_t read_text(const char *path, char *text, size_t cap)
{
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    for (int tries = 0; tries < READ_TRIES; tries++) {
        got = read(fd, text, cap);
        if (got >= 0 || errno != EINTR)
            break;
    }
    close(fd);
    return got;
}

size_t ab_proc_read(const char *path, uint64_t *numbers, size_t count)
{
    char text[128];
    ssize_t got = read_text(path, text, sizeof text);

    return got > 0 ? ab_proc_parse(text, (size_t)got, numbers, count) : 0;
}

bool ab_proc_read_named(const char *path, const char *label, const char *name, uint64_t *number)
{
    char text[512]; /* the number is near the beginning */
    ssize_t got = read_text(path, text, sizeof text);

    return got > 0 && ab_proc_find(text, (size_t)got, label, name, number);
}

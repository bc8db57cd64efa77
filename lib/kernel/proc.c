/* SPDX-License-Identifier: MIT */
#include "proc.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Without strtoull(), which is another function in newer releases of glibc. */
size_t ab_proc_parse(const char *text, uint64_t *numbers, size_t count)
{
    size_t found = 0;

    for (; found < count; found++) {
        uint64_t value = 0;

        text += strspn(text, " \t\n");
        if (!is_digit(*text))
            break;
        for (; is_digit(*text); text++)
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
                return found;
        numbers[found] = value;
    }
    return found;
}

/* The text after the word and its blanks; NULL: another word is there. */
static const char *past_word(const char *text, const char *word)
{
    size_t len = strlen(word);

    return strncmp(text, word, len) == 0 && text[len] == ' ' ? text + len + strspn(text + len, " \t") : NULL;
}

bool ab_proc_find(const char *text, const char *label, const char *name, uint64_t *number)
{
    const char *at, *behind;

    for (; !(at = past_word(text, label)); text++) {
        text = strchr(text, '\n');
        if (!text)
            return false;
    }
    for (; name; at++) {
        behind = past_word(at, name);
        if (behind)
            return is_digit(*behind) && ab_proc_parse(behind, number, 1) == 1;
        at += strcspn(at, " \n");
        if (*at != ' ')
            return false;
    }
    return is_digit(*at) && ab_proc_parse(at, number, 1) == 1;
}

void ab_proc_text(const char *path, char *text, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, cap - 1);

    text[got > 0 ? got : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

size_t ab_proc_read(const char *path, uint64_t *numbers, size_t count)
{
    char text[128];

    ab_proc_text(path, text, sizeof text);
    return ab_proc_parse(text, numbers, count);
}

bool ab_proc_read_named(const char *path, const char *label, const char *name, uint64_t *number)
{
    char text[512]; /* the number is near the beginning */

    ab_proc_text(path, text, sizeof text);
    return ab_proc_find(text, label, name, number);
}

/* SPDX-License-Identifier: MIT */
#include "self.h"

#include <string.h>

#include <autobuf/autobuf.h>

static bool is_word(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* Digits up to the word's end; 0: it is no number, or too large. */
static uint64_t number_of(const char *digits, size_t length)
{
    uint64_t number = 0;

    if (length > 18)
        return 0;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return 0;
        number = 10 * number + (uint64_t)(digits[i] - '0');
    }
    return number;
}

static void take_word(const char *text, size_t length, struct run_settings *settings)
{
    if (is_word(text, length, "intent=low-delay"))
        settings->intent = AUTOBUF_INTENT_LOW_DELAY;
    else if (is_word(text, length, "intent=scavenger"))
        settings->intent = AUTOBUF_INTENT_SCAVENGER;
    else if (is_word(text, length, "keep-sizes"))
        settings->keep_sizes = true;
    else if (is_word(text, length, "probe"))
        settings->probe = true;
    else if (is_word(text, length, "report"))
        settings->report = true;
    else if (length > 4 && memcmp(text, "max=", 4) == 0)
        settings->most_bytes = number_of(text + 4, length - 4);
}

void run_settings_read(const char *text, struct run_settings *settings)
{
    *settings = (struct run_settings){.intent = AUTOBUF_INTENT_THROUGHPUT};
    while (text && *text) {
        size_t length = strcspn(text, ",");

        take_word(text, length, settings);
        text += length;
        text += *text == ',';
    }
}

/* SPDX-License-Identifier: MIT */
#include "print.h"

#include <inttypes.h>
#include <string.h>

#define COLUMNS 79

static void json_key(FILE *out, const char *key)
{
    fprintf(out, "\"%s\":", key);
}

void json_number(FILE *out, const char *key, uint64_t value, bool absent)
{
    json_key(out, key);
    if (absent)
        fputs("null,", out);
    else
        fprintf(out, "%" PRIu64 ",", value);
}

void json_text(FILE *out, const char *value)
{
    fputc('"', out);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            fputc('\\', out);
        fputc(*value >= ' ' && *value <= '~' ? *value : '?', out);
    }
    fputc('"', out);
}

void json_string(FILE *out, const char *key, const char *value)
{
    json_key(out, key);
    if (value)
        json_text(out, value);
    else
        fputs("null", out);
    fputc(',', out);
}

void json_bool(FILE *out, const char *key, bool value)
{
    json_key(out, key);
    fputs(value ? "true," : "false,", out);
}

void scaled(char *text, size_t cap, double value)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    size_t i = 0;

    while (value >= 999.95 && i + 1 < sizeof prefixes / sizeof *prefixes) {
        value /= 1000;
        i++;
    }
    snprintf(text, cap, i ? "%.1f %s" : "%.0f %s", value, prefixes[i]);
}

void print_quantity(FILE *out, uint64_t value, const char *unit)
{
    char text[32];

    scaled(text, sizeof text, (double)value);
    fprintf(out, "%s%s", text, unit);
}

void print_folded(FILE *out, const char *text, int indent)
{
    size_t column = 0;

    while (*text) {
        size_t spaces = strspn(text, " "), word = strcspn(text + spaces, " \n");

        if (column > (size_t)indent && column + spaces + word > COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = (size_t)indent;
            text += spaces;
            spaces = 0;
        }
        fprintf(out, "%.*s", (int)(spaces + word), text);
        column += spaces + word;
        text += spaces + word;
        if (*text == '\n') {
            fputc('\n', out);
            column = 0;
            text++;
        }
    }
}

/* SPDX-License-Identifier: MIT */
#include "print.h"

#include <inttypes.h>

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

void json_string(FILE *out, const char *key, const char *value)
{
    json_key(out, key);
    if (value)
        fprintf(out, "\"%s\",", value);
    else
        fputs("null,", out);
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

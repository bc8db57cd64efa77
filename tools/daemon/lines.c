/* SPDX-License-Identifier: MIT */
/* libinih tells its handler no numbers of lines, so its reader counts them, and sees the sections itself. */
#include "lines.h"

#include <stdarg.h>
#include <string.h>

#include <ini.h>

#define LINE_CHARS 190U /* libinih's own line has 200 bytes */
#define BLANKS " \t\r\n\f\v"

static void say(struct lines *lines, unsigned line, const char *format, va_list arguments)
{
    char text[320];

    vsnprintf(text, sizeof text, format, arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    lines->mistakes++;
    lines->wrong(lines->user, line, text);
}

void lines_wrong(struct lines *lines, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(lines, lines->line, format, arguments);
    va_end(arguments);
}

void lines_wrong_at(struct lines *lines, unsigned line, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(lines, line, format, arguments);
    va_end(arguments);
}

/* libinih's handler. 1: go on. */
static int handle(void *user, const char *section, const char *name, const char *value)
{
    struct lines *lines = user;

    (void)section; /* whose lines the reader sees, also where two have one name */
    lines->waits = false;
    if (!lines->stop)
        lines->setting(lines, name, value);
    return 1;
}

static void begin_section(struct lines *lines, char *header)
{
    size_t length = strcspn(header + 1, "]");

    if (!header[1 + length])
        lines_wrong(lines, "a section's name ends with ]");
    else if (length == 0 || length >= LINES_NAME_BYTES)
        lines_wrong(lines, "a section has a name of 1 to %u characters", LINES_NAME_BYTES - 1);
    header[1 + (length < LINES_NAME_BYTES ? length : LINES_NAME_BYTES - 1)] = '\0';
    lines->section(lines, header + 1);
}

/* The next line, without its end; what is beyond room, and whether there is a zero in it. false: there is none. */
static bool next_line(struct lines *lines, char *out, size_t room, bool *too_long, bool *zero)
{
    size_t length = 0;
    int c;

    *too_long = *zero = false;
    while ((c = getc(lines->file)) != EOF && c != '\n') {
        *zero |= c == 0;
        *too_long |= length == room;
        if (length < room)
            out[length++] = (char)c;
    }
    out[length] = '\0';
    lines->line += c != EOF || length || *too_long;
    return c != EOF || length || *too_long;
}

/* libinih's reader. It hands on each line without blanks in front, which would continue the line before. */
static char *read_line(char *out, int room, void *user)
{
    struct lines *lines = user;
    size_t most = room - 3 < (int)LINE_CHARS ? (size_t)room - 3 : LINE_CHARS;
    bool too_long, zero;
    const char *text;

    if (lines->waits)
        lines_wrong(lines, "this is neither [name] nor name=value");
    lines->waits = false;
    if (lines->stop || !next_line(lines, out, most, &too_long, &zero))
        return NULL;
    text = out + strspn(out, BLANKS);
    if (lines->line == 1 && strncmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    if (too_long || zero) {
        lines_wrong(lines,
                    too_long ? "the line is longer than %u characters" : "there is a zero in the first %u characters",
                    (unsigned)most);
        text = "";
    }
    memmove(out, text, strlen(text) + 1);
    if (out[0] == '[') {
        begin_section(lines, out);
        out[0] = '\0';
    }
    lines->waits = out[0] && out[0] != ';' && out[0] != '#';
    strcat(out, "\n");
    return out;
}

void lines_read(struct lines *lines)
{
    ini_parse_stream(read_line, lines, handle, lines);
    if (ferror(lines->file))
        lines_wrong(lines, "the file cannot be read to its end");
}

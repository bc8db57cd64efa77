/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 4352U /* the name of a file, and what is the matter with it */

static void write_line(const char *line)
{
    fprintf(stderr, "autobufd: %s\n", line);
}

static struct {
    void (*to)(const char *line);
    bool waits;
    char lines[2 * LINE_BYTES]; /* that wait */
} own = {.to = write_line};

void log_to(void (*hear)(const char *line))
{
    own.to = hear;
}

static void write_waiting(void)
{
    char *rest = own.lines, *line;

    while ((line = strsep(&rest, "\n")))
        if (line[0])
            own.to(line);
    own.lines[0] = '\0';
}

void log_line(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    size_t used = strlen(own.lines);

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (!own.waits) {
        own.to(line);
        return;
    }
    if (used + strlen(line) + 2 > sizeof own.lines) /* before its time, rather than lost */
        write_waiting();
    used = strlen(own.lines);
    snprintf(own.lines + used, sizeof own.lines - used, "%s\n", line);
}

void log_wait(void)
{
    own.waits = true;
}

void log_go_on(void)
{
    own.waits = false;
    write_waiting();
}

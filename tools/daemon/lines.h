/* SPDX-License-Identifier: MIT */
/* Files of [sections] and settings, read by libinih, with the number of each line, from 1 on. */
#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stdio.h>

#define LINES_NAME_BYTES 50U /* of a section, with its NUL */

/* A line of a file, and what is to be said of it. */
struct lines {
    FILE *file;
    void (*section)(struct lines *lines, const char *name);
    void (*setting)(struct lines *lines, const char *name, const char *value);
    void (*wrong)(void *user, unsigned line, const char *text);
    void *user;     /* of wrong() */
    unsigned line;  /* that is read now */
    unsigned mistakes;
    bool stop;      /* set by a call: no more lines are read */
    bool waits;     /* its own: the line before was not blank, and its setting has not come */
};

/* Reads to the end, whatever is wrong. lines->mistakes says how often wrong() was called. */
void lines_read(struct lines *lines);

/* Says what is wrong with this line; what is not printable becomes a question mark. */
void lines_wrong(struct lines *lines, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same of another line. */
void lines_wrong_at(struct lines *lines, unsigned line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif

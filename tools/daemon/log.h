/* SPDX-License-Identifier: MIT */
/* The daemon's log: a line that says what was done, or why something cannot be. */
#ifndef LOG_H
#define LOG_H

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Lines wait until log_go_on(). Call it while a descriptor of a program is held: writing waits for whoever reads the
 * log, and a program's close() would wait with it.
 */
void log_wait(void);
void log_go_on(void);

/* From here on lines go there, and not to standard error. For tests. */
void log_to(void (*hear)(const char *line));

#endif

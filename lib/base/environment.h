/* SPDX-License-Identifier: MIT */
/*
 * AUTOBUF in the environment: "off", "log" or "log=FILE". It is read once, when the library is loaded: a later
 * getenv(3) would race with a setenv(3) of another thread. Setuid programs, and programs with file capabilities,
 * ignore it.
 */
#ifndef AB_ENVIRONMENT_H
#define AB_ENVIRONMENT_H

#include <stdbool.h>

/* Acts as if the variable had this value when the library was loaded; NULL: not set. For tests. */
void ab_environment_read(const char *value);

/* Whether a line is wanted at all. */
bool ab_environment_logs(void);

/*
 * Writes a line, given without its line feed, to standard error, if that still is what it was when the library was loaded,
 * and no connection, or appends it to the file that AUTOBUF names.
 */
void ab_environment_line(const char *text);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * AUTOBUF in the environment: "off", "log" or "log=FILE". Read once, when the library is loaded, for a later
 * getenv(3) would race with a setenv(3) of another thread. Setuid programs, and programs with file
 * capabilities, ignore it.
 */
#ifndef AB_ENVIRONMENT_H
#define AB_ENVIRONMENT_H

#include <stdbool.h>

/* As if the variable had this value when the library was loaded; NULL: none. For tests. */
void ab_environment_read(const char *value);

/* Whether a line is wanted at all. */
bool ab_environment_logs(void);

/* A line of a log, without its line feed: to standard error, or appended to the file that is named. */
void ab_environment_line(const char *text);

#endif

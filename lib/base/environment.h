/* SPDX-License-Identifier: MIT */
/*
 * AUTOBUF in the environment: "off", "log" or "log=FILE". It is read once, when the library is loaded: a later
 * getenv(3) would race with setenv(3) in another thread. Programs that are setuid or have file capabilities ignore it.
 */
#ifndef AB_ENVIRONMENT_H
#define AB_ENVIRONMENT_H

#include <stdbool.h>

/* As if the variable had this value when the library was loaded; NULL: unset. For tests. */
void ab_environment_read(const char *value);

bool ab_environment_logs(void);

/*
 * Appends a line, without line feed in text, to the file that AUTOBUF names, or writes it to standard error, if that is
 * the file of the loading, and no connection.
 */
void ab_environment_line(const char *text);

#endif

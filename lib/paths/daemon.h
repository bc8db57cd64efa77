/* SPDX-License-Identifier: MIT */
/* Reports of this program to autobufd(8). */
#ifndef AB_DAEMON_H
#define AB_DAEMON_H

#include <autobuf/paths.h>

/*
 * Reports an entry to the daemon of this host, unless AUTOBUF_PATHS names another store. Never waits. Returns 0: the
 * daemon has it; -ENOENT: AUTOBUF_PATHS is set, or there is no daemon; -EINVAL: the entry is not valid; errors of
 * socket(2) and sendto(2): nobody receives it, or not from this user.
 */
int ab_paths_report(const struct autobuf_paths_entry *entry);

/* Uses another socket of the daemon; NULL: the usual one. For tests. */
void ab_paths_report_to(const char *file);

#endif

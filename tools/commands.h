/* SPDX-License-Identifier: MIT */
/* Commands with a file of their own. Each prints on stdout, and what is wrong on stderr, if nothing else is said. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "arguments.h"

enum { EXIT_RESULT = 0, EXIT_NOTHING = 1, EXIT_USAGE = 2, EXIT_NOT_PERMITTED = 3 };

/* `autobuf paths`: what the path store holds, and what is put into it by hand. Returns an EXIT_*. */
int paths_run(const struct arguments *want);

/* `autobuf top`: the connections that autobufd manages, live. Returns an EXIT_*. */
int top_run(const struct arguments *want);

/* `autobuf run`: becomes the program. Returns only if that failed: an exit status, as env(1) has it. */
int run_program(const struct arguments *want);

/*
 * `autobuf serve`: answers measurements until a signal ends it, on the sockets that systemd(1) hands over, or on its
 * own. Only returns on failure, and does not say it: errors of socket(2), bind(2), listen(2), epoll_create1(2),
 * resolve().
 */
int serve_clients(const struct arguments *want);

/*
 * `autobuf watch`: watches until the process, or the one connection, ends, or until a signal asks to end: then 0. It
 * does not say its errors: of process_open(), process_borrow() and autobuf_flow_open(); -ENOTCONN: there never was a
 * connection.
 */
int watch_process(const struct arguments *want);

/*
 * `autobuf explain --check`: which lines of an earlier advice are in force, and what undoes the others. Compares the
 * lines of file (NULL: root/etc/sysctl.d/90-autobuf.conf) with what the kernel has, and prints each on out, as text or
 * JSON, with the reason if it is not in force. A larger buffer than the line says is in force, too. It changes nothing.
 * What is wrong with the file goes to err. Returns EXIT_RESULT: all lines are in force; EXIT_NOTHING: one is missing or
 * undone, or the file cannot be used. root: as in sysctls.h.
 */
int check_file(const char *root, const char *file, bool json, FILE *out, FILE *err);

#endif

/* SPDX-License-Identifier: MIT */
/* The command line: what each command takes, within which bounds, what its help says; and the commands themselves. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum command { NO_COMMAND, PROBE, EXPLAIN, WATCH, SERVE, MEASURE, PATHS, RUN, TOP };

enum paths_action { PATHS_LIST, PATHS_SHOW, PATHS_SET, PATHS_IMPORT, PATHS_EXPORT, PATHS_FORGET, PATHS_UNKNOWN };

#define MEASURE_PORT "7411" /* of serve, too */
#define TOP_SOCKET "/run/autobufd/status.sock"

struct arguments {
    enum command command;
    const char *operand; /* HOST, HOST:PORT, PID[:FD] or PROGRAM, as it was given; NULL: none */
    char **operands;     /* all of them, up to NULL */
    char host_name[256]; /* measure: the operand without its port */
    bool json, tune, as_user, sysctl, check, keep_sizes, probe, report, host, all, exported, keep_source, available;
    enum paths_action action;
    const char *store; /* a file; NULL: the host's or the user's own, as the library chooses */
    const char *from; /* set: a local prefix or an interface; show: an address or an interface; NULL: any */
    const char *log; /* a file; NULL: none */
    uint32_t intent; /* AUTOBUF_INTENT_* */
    uint32_t family; /* AF_INET, AF_INET6; AF_UNSPEC: either */
    const char *source; /* a device or an address; NULL: the kernel chooses */
    const char *socket; /* of autobufd */
    const char *bind, *port;
    /* of all numbers: 0: not given, and without a preset */
    uint64_t budget_bytes, expected_bytes, most_bytes, timeout_ns, rtt_ns, interval_ns, rate_bit_per_s;
    uint64_t streams, clients, per_address, transfer_seconds, hours, count, pid;
    int fd; /* -1: all of the process */
};

/*
 * Takes the command line apart. Prints help on out, and what is wrong, and with which option, on err. Returns -1: the
 * command is to be run; or the exit status.
 */
int arguments_parse(int argc, char **argv, struct arguments *a, FILE *out, FILE *err);

/* Commands. Each prints on stdout, and what is wrong on stderr, and returns an EXIT_*, if nothing else is said. */

enum { EXIT_RESULT = 0, EXIT_NOTHING = 1, EXIT_USAGE = 2, EXIT_NOT_PERMITTED = 3 };

/* `autobuf paths`: what the path store holds, and what is put into it by hand. */
int paths_run(const struct arguments *want);

/* `autobuf top`: the connections that autobufd manages, live. */
int top_run(const struct arguments *want);

/* `autobuf run`: becomes the program. Returns only if that failed: an exit status, as env(1) has it. */
int run_program(const struct arguments *want);

/* The file that execvp() would run; false: there is none. */
bool program_find(const char *name, char *path, size_t cap);

/*
 * Looks into a file, and says in a few words why an object that is preloaded cannot act in it; NULL: it can. A script
 * is what runs it. What cannot be read is exec()'s to refuse.
 */
const char *program_unreached(const char *path);

/*
 * `autobuf serve`: answers measurements until a signal ends it, on the sockets that systemd(1) hands over, or on its
 * own. Only returns on failure.
 */
int serve_clients(const struct arguments *want);

/* `autobuf explain --pid`: why the connections of a process are not faster. */
int explain_process(const struct arguments *want);

/* `autobuf watch`: watches until the process, or the one connection, ends, or until a signal asks to end. */
int watch_process(const struct arguments *want);

/*
 * `autobuf explain --check`: which lines of an earlier advice are in force, and what undoes the others. Compares the
 * lines of file (NULL: root/etc/sysctl.d/90-autobuf.conf) with what the kernel has, and prints each on out, as text or
 * JSON, with the reason if it is not in force. A larger buffer than the line says is in force, too. It changes nothing.
 * What is wrong with the file goes to err. EXIT_RESULT: all lines are in force; EXIT_NOTHING: one is missing or undone,
 * or the file cannot be used. root: as in sysctls.h.
 */
int check_file(const char *root, const char *file, bool json, FILE *out, FILE *err);

#endif

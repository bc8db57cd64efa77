/* SPDX-License-Identifier: MIT */
/* The command line: what each command takes, within which bounds, and what its help says. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum command { NO_COMMAND, PROBE, EXPLAIN, WATCH, SERVE, MEASURE, PATHS, RUN, TOP };

enum paths_action { PATHS_LIST, PATHS_SHOW, PATHS_SET, PATHS_IMPORT, PATHS_EXPORT, PATHS_FORGET, PATHS_UNKNOWN };

#define MEASURE_PORT "7411" /* of serve, too */
#define TOP_SOCKET "/run/autobufd/status.sock"

struct arguments {
    enum command command;
    const char *operand; /* HOST, HOST:PORT, PID[:FD] or PROGRAM, as it was given; NULL: none */
    char **operands;     /* all of them, up to NULL */
    char host_name[256]; /* measure: the operand without its port */
    bool json;
    bool tune;
    bool as_user;
    bool sysctl;
    bool check;
    bool keep_sizes;
    bool probe;
    bool report;
    bool host;
    bool all;
    bool exported;
    enum paths_action action;
    const char *store; /* a file; NULL: the host's or the user's own, as the library chooses */
    const char *from; /* set: a local prefix or an interface; show: an address or an interface; NULL: any */
    const char *log; /* a file; NULL: none */
    uint32_t intent; /* AUTOBUF_INTENT_* */
    uint32_t family; /* AF_INET, AF_INET6; AF_UNSPEC: either */
    bool keep_source;
    const char *source; /* a device or an address; NULL: the kernel chooses */
    const char *socket; /* of autobufd */
    const char *bind;
    const char *port;
    uint64_t budget_bytes; /* of all numbers: 0: not given, and without a preset */
    uint64_t timeout_ns;
    uint64_t rate_bit_per_s;
    uint64_t rtt_ns;
    uint64_t streams;
    uint64_t expected_bytes;
    uint64_t clients;
    uint64_t per_address;
    uint64_t transfer_seconds;
    uint64_t most_bytes;
    uint64_t hours;
    uint64_t interval_ns;
    uint64_t count;
    pid_t pid;
    int fd; /* -1: all of the process */
};

enum parsed {
    PARSED_COMMAND, /* run it */
    PARSED_ANSWERED, /* --help or --version: printed */
    PARSED_WRONG,   /* wrong usage: said on err */
};

/* Takes the command line apart. Prints help on out, and what is wrong, and with which option, on err. */
enum parsed arguments_parse(int argc, char **argv, struct arguments *a, FILE *out, FILE *err);

#endif

/* SPDX-License-Identifier: MIT */
/* The open TCP connections of a process, sampled one after the other, and what a flow sees of each. */
#ifndef CONNECTIONS_H
#define CONNECTIONS_H

#include <stdio.h>

#include <autobuf/autobuf.h>

#include "process.h"

#define CONNECTIONS_MOST 1024
#define CONGESTION_CONTROL_BYTES 16

struct connection {
    struct connections *of;
    int fd; /* there */
    struct autobuf_flow *flow; /* NULL: a place that is free */
    char local[PROCESS_ADDRESS_BYTES], peer[PROCESS_ADDRESS_BYTES];
    char congestion_control[CONGESTION_CONTROL_BYTES]; /* "": unknown */
    bool unscaled;
    struct autobuf_settings settings; /* when it began */
    struct autobuf_live_state state;
    struct autobuf_available available;
    uint64_t sent_bit_per_s, received_bit_per_s;   /* payload; as connection_rates() found them */
    uint64_t since_ns, sent_bytes, received_bytes; /* at its last call, or when the sampling began */
};

struct connections {
    struct process process;
    int fd;                     /* only this one; -1: all */
    uint32_t intent, flags;     /* of their flows */
    autobuf_log_fn *log;        /* what their flows tell; its user is the connection; NULL: nobody asks */
    void (*ended)(const struct connection *c);
    void *user;                 /* of these two */
    struct connection list[CONNECTIONS_MOST];
    size_t count;    /* of places that are not free */
    size_t left_out; /* connections beyond them */
    bool seen;       /* a connection */
    uint64_t scan_ns; /* when to look for new ones */
};

/*
 * Finds the process. Privilege that the file has by setuid or setcap is not given to the user who runs it. Errors of
 * process_open().
 */
int connections_open(struct connections *all, pid_t pid);

/*
 * Finds new connections, and takes the samples that are due; *next_ns: when to call it again, at the latest. 0, also if
 * there is none; -ESRCH: the process has ended; another error: it cannot go on.
 */
int connections_step(struct connections *all, uint64_t now_ns, uint64_t *next_ns);

/* Waits until then, or until the process ends, or the other descriptor (-1: none) is readable. true: go on. */
bool connections_wait(const struct connections *all, int other, uint64_t until_ns);

/* Finds its rates since the sampling began, or since the call before. */
void connection_rates(struct connection *c, uint64_t now_ns);

/* Its process and descriptor; all that is known of it: members of an object. A comma follows the former only. */
void connection_json_name(FILE *out, const struct connection *c);
void connection_json(FILE *out, const struct connection *c);

/* Puts back what the flows have set for their own time only. */
void connections_close(struct connections *all);

/* Says of a process, or PID:FD, why nothing can be told of its connections. Returns the exit status. */
int connections_fail(const char *process, int error);

#endif

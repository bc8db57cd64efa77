/* SPDX-License-Identifier: MIT */
/* Open connections of another process, live. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <autobuf/autobuf.h>

#include "arguments.h"
#include "process.h"

#define CONNECTIONS_MOST 64
#define CHANGES_SHOWN 5
#define CHANGE_BYTES 200

struct watch;

/* One connection, as it is shown. */
struct connection {
    struct watch *watch;
    int fd; /* there */
    struct autobuf_flow *flow; /* NULL: a place that is free */
    char local[PROCESS_ADDRESS_BYTES];
    char peer[PROCESS_ADDRESS_BYTES];
    struct autobuf_live_state state;
    uint64_t sent_bit_per_s; /* since the report before */
    uint64_t received_bit_per_s;
    uint64_t reported_ns;
    uint64_t sent_bytes;     /* at the report before */
    uint64_t received_bytes;
};

struct watch {
    struct arguments want;
    struct process process;
    struct connection connections[CONNECTIONS_MOST];
    size_t count;    /* of places that are not */
    size_t left_out; /* connections beyond what is watched */
    bool seen;       /* a connection */
    char changes[CHANGES_SHOWN][CHANGE_BYTES]; /* the newest last */
};

#endif

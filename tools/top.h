/* SPDX-License-Identifier: MIT */
/* `autobuf top`: the connections that autobufd looks after, live. */
#ifndef TOP_H
#define TOP_H

#include <stdbool.h>
#include <stdint.h>

#define TOP_SOCKET "/run/autobufd/status.sock"
#define TOP_INTERVAL_NS 1000000000ULL

struct top_request {
    const char *socket;
    bool json;
    uint64_t interval_ns;
    uint64_t count; /* how often; 0: until a signal */
};

/* Prints on stdout, and what is wrong on stderr. Returns 0; 1: the daemon does not answer; 3: not permitted. */
int top_run(const struct top_request *want);

#endif

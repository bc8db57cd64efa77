/* SPDX-License-Identifier: MIT */
/* `autobuf run`: a program under the preloaded object. */
#ifndef RUN_H
#define RUN_H

#include <stdbool.h>
#include <stdint.h>

struct running {
    char **arguments; /* of the program, up to NULL; the first one is its name */
    uint32_t intent;  /* AUTOBUF_INTENT_* */
    uint64_t most_bytes; /* 0: what the host allows */
    bool keep_sizes;
    bool probe;
    bool report;
    const char *log; /* a file; NULL: none */
};

/* Becomes the program. Returns only if that failed: an exit status, as env(1) has it. */
int run_program(const struct running *want);

#endif

/* SPDX-License-Identifier: MIT */
/* `autobuf paths`: what the path store holds, and what is put into it by hand. */
#ifndef PATHS_H
#define PATHS_H

#include <stdbool.h>
#include <stdint.h>

enum paths_action { PATHS_LIST, PATHS_SHOW, PATHS_SET, PATHS_IMPORT, PATHS_EXPORT, PATHS_FORGET, PATHS_UNKNOWN };

#define PATHS_IMPORT_HOURS 168U /* how long what is imported holds, if nobody says */

struct paths_request {
    enum paths_action action;
    const char *operand; /* a host, a prefix or a file; NULL: none */
    const char *store;   /* a file; NULL: the host's or the user's own, as the library chooses */
    bool host;           /* the host's, /var/lib/autobuf/paths */
    bool all;            /* PATHS_FORGET: all entries */
    bool exported;       /* PATHS_IMPORT: the file is what PATHS_EXPORT printed, and is trusted */
    bool json;
    const char *from;    /* PATHS_SET: a local prefix or an interface; PATHS_SHOW: an address or an interface; NULL: any */
    uint64_t rate_bit_per_s;
    uint64_t rtt_ns;
    uint64_t hours; /* how long it holds; 0: PATHS_SET for ever, PATHS_IMPORT PATHS_IMPORT_HOURS */
};

/* Prints on stdout, and what is wrong on stderr. Returns 0; 1: nothing is known, or it failed; 3: not permitted. */
int paths_run(const struct paths_request *want);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Measurements of paths that other programs made, read as entries of the path store.
 *
 *   iperf3        one object of `iperf3 -J`, of the client or of the server
 *   perfSONAR     documents of an archive, alone, in an array or as the archive answers a search ("hits"), and what
 *                 pScheduler hands to an archiver; tests "throughput" and "rtt" count
 *   autobuf       what `autobuf paths export` wrote, and nothing else, if the caller says that the text is that
 *
 * A text may hold several such values, one behind the other. What TCP reached is a lower bound of what the path can
 * carry, so rates of the first two are marked so: the highest of a path counts, and its least round-trip time.
 */
#ifndef IMPORT_H
#define IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#define IMPORT_MOST_BYTES (64U << 20) /* of a text, which may take forty times as much memory while it is read */
#define IMPORT_WHY_BYTES 200U

/* Why something was left out. The last two are of paths, the others of single results. */
enum import_reason {
    IMPORT_NOT_UNDERSTOOD, /* another kind of object, or a value is missing, of another type or out of range */
    IMPORT_OTHER_TEST,     /* it does not say how fast TCP is, and not how long a round trip takes */
    IMPORT_FAILED,         /* the test failed */
    IMPORT_NO_ADDRESS,     /* an end is known by its name alone */
    IMPORT_ELSEWHERE,      /* neither end is this host, or both are */
    IMPORT_OLD,            /* it would have expired */
    IMPORT_EXPORTED,       /* `autobuf paths export` may have written it, but nobody says so */
    IMPORT_NO_RATE,
    IMPORT_NO_RTT,
    IMPORT_REASONS
};

struct import_host {
    const struct autobuf_prefix *addresses; /* of this host, each with all its bits */
    size_t count;
    uint64_t now_s;
    uint64_t holds_s; /* how long after it was made a measurement of another program holds */
    bool exported;    /* whoever imports the text says that `autobuf paths export` wrote it: any prefix, for ever, set by hand */
};

struct imported {
    struct autobuf_paths_entry *entries; /* in the store's order, each key once */
    size_t count, room;
    uint64_t left_out[IMPORT_REASONS];
};

/*
 * Reads a text, which need not end with NUL. Returns 0; -EINVAL: it is no JSON, why says where; -E2BIG: it is longer
 * than IMPORT_MOST_BYTES; -ENOMEM; -ENOSYS: this was built without libjansson. The caller frees into->entries, also then.
 */
int import_read(const char *text, size_t bytes, const struct import_host *host, struct imported *into,
                char why[IMPORT_WHY_BYTES]);

#endif

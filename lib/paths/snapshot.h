/* SPDX-License-Identifier: MIT */
/* Lookups in the bytes of a path store. Pure. */
#ifndef AB_SNAPSHOT_H
#define AB_SNAPSHOT_H

#include "record.h"

struct ab_snapshot {
    const uint8_t *records; /* head.count of them */
    struct ab_paths_head head;
};

/* An unknown address has version 0. */
struct ab_snapshot_query {
    struct autobuf_prefix remote; /* of all its bits */
    struct autobuf_prefix local;
    const char *device; /* "": unknown */
    uint32_t intent;    /* AUTOBUF_INTENT_* */
    uint64_t now_s;
};

/* Takes in the bytes of a file, which must stay. Returns 0; AUTOBUF_E_DAMAGED; AUTOBUF_E_NEWER. */
int ab_snapshot_take(const uint8_t *bytes, uint64_t size, struct ab_snapshot *snapshot);

/* As ab_paths_at(), ab_paths_get() and autobuf_paths_find(). Safe for any bytes. */
int ab_snapshot_at(const struct ab_snapshot *snapshot, uint64_t at, struct autobuf_paths_entry *entry);
int ab_snapshot_get(const struct ab_snapshot *snapshot, const struct autobuf_paths_entry *key,
                    struct autobuf_paths_entry *entry);
int ab_snapshot_find(const struct ab_snapshot *snapshot, const struct ab_snapshot_query *query,
                     struct autobuf_paths_entry *entry);

#endif

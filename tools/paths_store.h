/* SPDX-License-Identifier: MIT */
/* Changes of a path store that has no database behind it. */
#ifndef PATHS_STORE_H
#define PATHS_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include <autobuf/autobuf.h>

/* How many entries of a file were left out, and why. */
struct paths_left_out {
    uint64_t better; /* known_stays() of what the store has */
    uint64_t full;   /* 64 others have the same remote prefix: those that the store has stay, and of the file's the first */
};

/* As database_import(). store: NULL for the user's own, which is made if there is none. */
int paths_store_import(const char *store, struct autobuf_paths_entry *entries, size_t *count, uint64_t now_s,
                       struct paths_left_out *left);

/* Removes all entries with this remote prefix, NULL: all. store: NULL for the user's own. */
int paths_store_forget(const char *store, const struct autobuf_prefix *prefix, uint64_t *forgotten);

/* The first entry that is not before this one by its key; UINT64_MAX: a damaged one is in the way. */
uint64_t paths_store_lower(const struct autobuf_paths *paths, const struct autobuf_paths_entry *key);

/* Whether there is an entry with this remote prefix. */
bool paths_store_has(const struct autobuf_paths *paths, const struct autobuf_prefix *prefix);

#endif

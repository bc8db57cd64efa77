/* SPDX-License-Identifier: MIT */
/* Which files the path store is, and all entries of one. */
#ifndef AB_STORE_H
#define AB_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <autobuf/paths.h>

/* Acts as if these environment variables had these values when the library was loaded; NULL: not set. For tests. */
void ab_store_environment(const char *paths, const char *cache_home, const char *home);

/* Whether AUTOBUF_PATHS names a store, or says that there is none. */
bool ab_store_is_named(void);

/*
 * Who may own a store besides this user: root; of the host's store whoever owns its folder, and could put any file there.
 * That folder is in /var/lib, where only root can have made it. A folder that others may write to says nothing.
 */
uid_t ab_store_keeper(const char *file);

/*
 * The name of the user's own store, or of the one that AUTOBUF_PATHS names; NULL: there is none, or a folder on the way to it,
 * from HOME or XDG_CACHE_HOME on, is not this user's, or others may write to it. Of root the folders above must be root's, too.
 */
const char *ab_paths_own(void);

/* How many entries there are, damaged or expired ones included. 0 for NULL. */
uint64_t ab_paths_count(const struct autobuf_paths *paths);

/* The at-th entry, from 0 on, in the store's order. Returns 0; -ENOENT: there is none, as in NULL; AUTOBUF_E_DAMAGED. */
int ab_paths_at(const struct autobuf_paths *paths, uint64_t at, struct autobuf_paths_entry *entry);

/* Whether an entry holds only from one local prefix or through one interface, so that a lookup wants to know them. */
bool ab_paths_are_local(const struct autobuf_paths *paths);

#endif

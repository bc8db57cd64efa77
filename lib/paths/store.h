/* SPDX-License-Identifier: MIT */
/* The files of path stores, and their entries. */
#ifndef AB_STORE_H
#define AB_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <autobuf/paths.h>

/* As if the environment had these values when the library was loaded; NULL: unset. For tests. */
void ab_store_environment(const char *paths, const char *cache_home, const char *home);

/* Whether AUTOBUF_PATHS names a store, or says that there is none. */
bool ab_store_is_named(void);

/*
 * Who may own a store besides this user: root; of the host's store the owner of its folder, who could put any file
 * there. Only root can have made that folder, in /var/lib. If others may write to it, its owner does not count.
 */
uid_t ab_store_keeper(const char *file);

/*
 * The name of the user's own store, or of the one in AUTOBUF_PATHS; NULL: there is none, or a folder of its path, from
 * HOME or XDG_CACHE_HOME on, is not this user's, or others may write to it. For root the folders above must be root's.
 */
const char *ab_paths_own(void);

/* How many entries there are, damaged or expired ones included. 0 for NULL. */
uint64_t ab_paths_count(const struct autobuf_paths *paths);

/* Entry number at, from 0 on, in the store's order. Returns 0; -ENOENT: none, as in NULL; AUTOBUF_E_DAMAGED. */
int ab_paths_at(const struct autobuf_paths *paths, uint64_t at, struct autobuf_paths_entry *entry);

/* Whether an entry is for one local prefix or interface only, so that a lookup needs them. */
bool ab_paths_are_local(const struct autobuf_paths *paths);

#endif

/* SPDX-License-Identifier: MIT */
/* The files of path stores, and their entries; their writer, one at a time; and what is reported to autobufd(8). */
#ifndef AB_STORE_H
#define AB_STORE_H

#include <sys/types.h>

#include "record.h"

/* As if the environment had these values when the library was loaded; NULL: unset. */
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

/* The entry that has the same key as another one. Returns as ab_paths_at(); -EINVAL: the other one is not valid. */
int ab_paths_get(const struct autobuf_paths *paths, const struct autobuf_paths_entry *key,
                 struct autobuf_paths_entry *entry);

/* Whether an entry is for one local prefix or interface only, so that a lookup needs them. */
bool ab_paths_are_local(const struct autobuf_paths *paths);

/* Writes a new store in place of an old one. */
struct ab_paths_writer;

/*
 * Waits until no other writer of that file is open, and opens one. Its folder must exist; file: NULL for the user's own
 * store, whose folder is made. Until ab_paths_commit() the file is the old store, which the caller may read to
 * keep its entries. flags: AUTOBUF_PATHS_TRY, AUTOBUF_PATHS_NO_SYNC.
 *
 * Returns 0; -EAGAIN: another writer is open, with AUTOBUF_PATHS_TRY; -EINVAL: the flags, or a name that is too long;
 * -ENOENT: the user has no own store; -EPERM: the lock is not this user's; -ENOMEM; or an error of open(2) or flock(2).
 */
int ab_paths_write(struct ab_paths_writer **writer, const char *file, uint32_t flags);

/*
 * Adds an entry. Entries come in the order of ab_paths_compare(), each key once, and at most 64 with the same remote
 * prefix. Returns 0; -EINVAL: the entry is not valid, or not behind the one before; -E2BIG: too many; or the error of
 * write(2), after which commit() returns it too.
 */
int ab_paths_add(struct ab_paths_writer *writer, const struct autobuf_paths_entry *entry);

/* Puts the new store in place of the old one, and frees the writer, also on failure: then the old one stays. */
int ab_paths_commit(struct ab_paths_writer *writer);

/*
 * Renames a damaged store, which may have what was set by hand, to FILE.damaged, unless an earlier one is there. 0;
 * AUTOBUF_E_DAMAGED: the file is no store, and stays.
 */
int ab_paths_set_aside(const char *file);

/* Frees the writer; the old store stays. NULL is allowed. */
void ab_paths_abort(struct ab_paths_writer *writer);

/*
 * Reports an entry to the daemon of this host, unless AUTOBUF_PATHS names another store. Never waits. Returns 0: the
 * daemon has it; -ENOENT: AUTOBUF_PATHS is set, or there is no daemon; -EINVAL: the entry is not valid; errors of
 * socket(2) and sendto(2): nobody receives it, or not from this user.
 */
int ab_paths_report(const struct autobuf_paths_entry *entry);

/* Uses another socket of the daemon; NULL: the usual one. For tests. */
void ab_paths_report_to(const char *file);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The database behind the host's path store: what the command and the daemon know of single hosts. The store, which
 * programs read, is published from it. It is one file of SQLite, STORE.db, whose owner alone reads it; without SQLite
 * (database_without.c) the store itself is all there is, and each call changes it at once.
 *
 * Each call is one transaction: once it has returned 0, its work survives the death of this process. Several processes
 * may use a database at the same time; each waits at most 5 s for the others' transactions. Calls return 0, or:
 *
 *   DATABASE_SET_ASIDE     done, but the database was damaged. It is STORE.db.damaged now, or -2 to -9 of that; a new one was begun with
 *                          what the store had
 *   AUTOBUF_E_NEWER        a later version made the database, or the store. It is left alone
 *   -EPERM, -ELOOP         the database or its folder belongs to another user (and not to root), others may write it, it is
 *                          no plain file; or a symbolic link
 *   -EINVAL, -E2BIG        the entry is not valid; or 64 others have its remote prefix
 *   -EBUSY, -EAGAIN        other processes were in the way for 5 s, or with DATABASE_TRY, are
 *   -EROFS, -EACCES, -ENOSPC and other errors of the file system. The store stays as it was
 */
#ifndef DATABASE_H
#define DATABASE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "paths_store.h"

#define DATABASE_SET_ASIDE 1

#define DATABASE_TRY 1U /* for database_open(): no call waits for other processes; -EAGAIN: one is in the way */

/*
 * How many entries remain when the store is published. Of more, those go that were learned when the clock was ahead, then
 * those that were learned first, but none set by hand.
 */
#ifndef DATABASE_MOST /* a test has a smaller one */
#define DATABASE_MOST 1048576U
#endif

struct database;

/*
 * Opens the database of a store, or makes it. Its folder must exist. What the store has that comes from elsewhere
 * (from a version without a database, or of a database that is no more) is taken in first, and the store published.
 */
int database_open(struct database **db, const char *store, unsigned flags);

/*
 * Adds what one connection or one measurement says of a path: merged with what is known by known_merge(). It happened
 * at entry->learned_s.
 */
int database_observe(struct database *db, const struct autobuf_paths_entry *entry);

/* Adds an entry that was set by hand, at entry->learned_s. One with the same key is replaced. */
int database_set(struct database *db, const struct autobuf_paths_entry *entry);

/*
 * Adds *count entries from a file, each key once and in the store's order. Those that are left out are counted in *left,
 * and removed from entries[].
 */
int database_import(struct database *db, struct autobuf_paths_entry *entries, size_t *count, uint64_t now_s,
                    struct paths_left_out *left);

/*
 * Removes all entries with this remote prefix, NULL: all. If the store has it only as what the hosts of a network have
 * in common (neighbours.h), those hosts go. *forgotten: how many went.
 */
int database_forget(struct database *db, const struct autobuf_prefix *prefix, uint64_t *forgotten);

/*
 * Removes what has expired, and writes the store. Waits until nobody else writes it, so that of several that publish
 * the last one writes all that the others have added. Hosts of a network that agree become one entry there.
 */
int database_publish(struct database *db, uint64_t now_s);

/* Which file an error of these calls is about: the store or its database. */
void database_blame(const char *store, int error, char file[PATH_MAX]);

/* NULL is allowed. */
void database_close(struct database *db);

#endif

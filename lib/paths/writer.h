/* SPDX-License-Identifier: MIT */
/* Writes a new path store in place of an old one. At most one writer of a file is open at a time. */
#ifndef AB_WRITER_H
#define AB_WRITER_H

#include "record.h"

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

/* Frees the writer; the old store stays. NULL is allowed. */
void ab_paths_abort(struct ab_paths_writer *writer);

#endif

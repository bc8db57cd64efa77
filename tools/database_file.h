/* SPDX-License-Identifier: MIT */
/* The file of a database: made, checked, opened, and set aside when it is damaged. */
#ifndef DATABASE_FILE_H
#define DATABASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include <sqlite3.h>

#include <autobuf/autobuf.h>

struct database_file {
    sqlite3 *sql; /* NULL: not open */
    char store[PATH_MAX];
    char name[PATH_MAX]; /* STORE.db */
    dev_t device;        /* of the file that is open */
    ino_t inode;
    unsigned flags; /* DATABASE_* */
    uint8_t id[AUTOBUF_PATHS_STAMP_BYTES]; /* by chance; the stamp of the stores that are published from this file */
};

/* Takes the lock of the store's writers. 0; errors of autobuf_paths_write(). */
int database_file_lock(const struct database_file *file, struct autobuf_paths_writer **writer);

/* An error of this project for a result of SQLite; sql may be NULL. */
int database_file_error(sqlite3 *sql, int result);

/* Returns 0 when SQLite has done a text that returns nothing. */
int database_file_run(sqlite3 *sql, const char *text);

/*
 * Opens the database of file->store, or makes one. Returns 0; AUTOBUF_E_DAMAGED: it is damaged, or none; AUTOBUF_E_NEWER;
 * -EPERM, -ELOOP; or another error. file->sql is NULL then.
 */
int database_file_open(struct database_file *file);

/* Whether another file has taken the name of the one that is open. */
bool database_file_is_replaced(const struct database_file *file);

/*
 * Renames what was closed to STORE.db.damaged, or if that is there to STORE.db.damaged-2, and so on up to 9, unless somebody
 * else has done so, and makes a new one in its place. Then it can be opened.
 */
int database_file_set_aside(struct database_file *file);

void database_file_close(struct database_file *file);

#endif

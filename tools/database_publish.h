/* SPDX-License-Identifier: MIT */
/* The path store as it is published from its database. */
#ifndef DATABASE_PUBLISH_H
#define DATABASE_PUBLISH_H

#include <sqlite3.h>

#include <autobuf/autobuf.h>

/*
 * Writes all rows in the store's order, hosts of a network that agree as one entry. Rows that are no valid entries are
 * left out. Returns 0, or an error of SQLite's or of the writer's.
 */
int database_publish_rows(sqlite3 *sql, struct autobuf_paths_writer *writer, uint64_t now_s);

#endif

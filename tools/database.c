/* SPDX-License-Identifier: MIT */
#include "database.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "database_file.h"
#include "database_publish.h"
#include "database_row.h"
#include "known.h"
#include "neighbours.h"
#include "paths_store.h"

#define SAME_REMOTE 64 /* entries with one remote prefix that a store takes */
#define TRIES 8        /* others that write the store without a database, one after the other */

/* The statements of which an import makes many. */
enum { LOOK_UP, COUNT, PUT, KEPT };

struct database {
    struct database_file file;
    sqlite3_stmt *kept[KEPT]; /* prepared when it is first needed; NULL: not yet */
};

/* What a call is to do; each act takes what it needs. */
struct order {
    const struct autobuf_paths_entry *entry;
    const struct autobuf_prefix *prefix;
    struct autobuf_paths_entry *entries;
    size_t *count;
    uint64_t now_s;
    uint64_t *forgotten;
    struct paths_left_out *left;
};

typedef int act_fn(struct database *db, const struct order *order);

/* -------------------------------------------------------------------------------- statements */

static int prepare(struct database *db, sqlite3_stmt **statement, const char *text)
{
    return database_file_error(db->file.sql, sqlite3_prepare_v2(db->file.sql, text, -1, statement, NULL));
}

/* Frees a statement that returns nothing, after its only step. bound: what binding its parameters returned. */
static int finish(struct database *db, sqlite3_stmt *statement, int bound)
{
    int error = database_file_error(db->file.sql, bound == SQLITE_OK ? sqlite3_step(statement) : bound);

    sqlite3_finalize(statement);
    return error;
}

#define OF_PREFIX "version=?1 AND bits=?2 AND address=?3"

static const char *const texts[KEPT] = {
    [LOOK_UP] = "SELECT " DATABASE_COLUMNS " FROM path WHERE " OF_PREFIX
                " AND device=?4 AND local_bits=?5 AND local_address=?6",
    [COUNT] = "SELECT count(*) FROM path WHERE " OF_PREFIX " AND (device, local_bits, local_address) <> (?4, ?5, ?6)"
              " AND (expires_s IS NULL OR expires_s>?7 OR method=?8)",
    [PUT] = "INSERT OR REPLACE INTO path(" DATABASE_COLUMNS
            ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
};

static int kept(struct database *db, int which)
{
    return db->kept[which] ? 0 : prepare(db, &db->kept[which], texts[which]);
}

static void close_file(struct database *db)
{
    for (int i = 0; i < KEPT; i++) {
        sqlite3_finalize(db->kept[i]);
        db->kept[i] = NULL;
    }
    database_file_close(&db->file);
}

/* What is known of a key, into *known. Returns 0; -ENOENT, also for a row that is no entry. */
static int look_up(struct database *db, const struct autobuf_paths_entry *key, struct autobuf_paths_entry *known)
{
    int error = kept(db, LOOK_UP), result;

    if (error < 0)
        return error;
    result = database_row_bind_key(db->kept[LOOK_UP], key);
    if (result == SQLITE_OK)
        result = sqlite3_step(db->kept[LOOK_UP]);
    error = database_file_error(db->file.sql, result);
    if (error == 0 && (result != SQLITE_ROW || database_row_read(db->kept[LOOK_UP], known) < 0))
        error = -ENOENT;
    (void)sqlite3_reset(db->kept[LOOK_UP]);
    return error;
}

/* Whether the store has room for one more with this remote prefix. */
static int check_room(struct database *db, const struct autobuf_paths_entry *entry)
{
    int error = kept(db, COUNT), result;

    if (error < 0)
        return error;
    result = database_row_bind_key(db->kept[COUNT], entry);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(db->kept[COUNT], 7, (sqlite3_int64)(entry->learned_s & INT64_MAX));
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(db->kept[COUNT], 8, AUTOBUF_METHOD_GIVEN);
    if (result == SQLITE_OK)
        result = sqlite3_step(db->kept[COUNT]);
    error = database_file_error(db->file.sql, result);
    if (result == SQLITE_ROW && sqlite3_column_int64(db->kept[COUNT], 0) >= SAME_REMOTE)
        error = -E2BIG;
    (void)sqlite3_reset(db->kept[COUNT]);
    return error;
}

static int put(struct database *db, const struct autobuf_paths_entry *entry)
{
    int error = check_room(db, entry), result;

    if (error == 0)
        error = kept(db, PUT);
    if (error < 0)
        return error;
    result = database_row_bind(db->kept[PUT], entry);
    if (result == SQLITE_OK)
        result = sqlite3_step(db->kept[PUT]);
    error = database_file_error(db->file.sql, result);
    (void)sqlite3_reset(db->kept[PUT]);
    return error;
}

/* Ends a transaction: done if error is 0, otherwise undone. */
static int end(struct database *db, int error)
{
    if (error == 0)
        error = database_file_run(db->file.sql, "COMMIT");
    if (error < 0)
        (void)database_file_run(db->file.sql, "ROLLBACK");
    return error;
}

/* For what somebody waits for: it is on the disk when this transaction ends. */
static int begin_safely(struct database *db)
{
    return database_file_run(db->file.sql, "PRAGMA synchronous=FULL; BEGIN IMMEDIATE");
}

/* For what is learned again if the host crashes: the disk gets it with the next transaction that waits. */
static int begin_quickly(struct database *db)
{
    return database_file_run(db->file.sql, "PRAGMA synchronous=NORMAL; BEGIN IMMEDIATE");
}

/* --------------------------------------------------------------------------- the published store */

/* Opens the store; NULL: there is none of which anything can be kept. */
static int open_store(struct database *db, struct autobuf_paths **paths)
{
    int error = autobuf_paths_open(paths, db->file.store);

    return error == -ENOENT || error == AUTOBUF_E_DAMAGED ? 0 : error;
}

static bool is_foreign(struct database *db, const struct autobuf_paths *paths)
{
    uint8_t stamp[AUTOBUF_PATHS_STAMP_BYTES];

    return autobuf_paths_stamp(paths, stamp) == 0 && memcmp(stamp, db->file.id, sizeof stamp) != 0;
}

/* Takes in what the database does not know, or not so well. */
static int take_in(struct database *db, const struct autobuf_paths *paths, uint64_t now_s)
{
    int error = begin_safely(db);

    if (error < 0)
        return error;
    for (uint64_t at = 0; at < autobuf_paths_count(paths) && error == 0; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT, known = AUTOBUF_PATHS_ENTRY_INIT;

        if (autobuf_paths_at(paths, at, &entry) < 0)
            continue;
        error = look_up(db, &entry, &known);
        if (error == -ENOENT || (error == 0 && !known_says_more(&known, &entry, now_s)))
            error = put(db, &entry);
        if (error == -E2BIG)
            error = 0;
    }
    return end(db, error);
}

/* How many rows there are beyond DATABASE_MOST. */
static int count_excess(struct database *db, int64_t *excess)
{
    sqlite3_stmt *statement;
    int error = prepare(db, &statement, "SELECT count(*) FROM path");
    int result;

    if (error < 0)
        return error;
    result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        *excess = sqlite3_column_int64(statement, 0) - DATABASE_MOST;
    sqlite3_finalize(statement);
    return database_file_error(db->file.sql, result);
}

/* Of rows beyond DATABASE_MOST those of a clock that was ahead, then those that were learned first; none that was set by hand. */
static int remove_oldest(struct database *db, uint64_t now_s)
{
    sqlite3_stmt *statement;
    int64_t excess = 0;
    int error = count_excess(db, &excess), result;

    if (error < 0 || excess <= 0)
        return error;
    error = prepare(db, &statement, "DELETE FROM path WHERE (" DATABASE_KEY ") IN (SELECT " DATABASE_KEY
                                    " FROM path WHERE method<>?1 ORDER BY learned_s<=?3, learned_s LIMIT ?2)");
    if (error < 0)
        return error;
    result = sqlite3_bind_int64(statement, 1, AUTOBUF_METHOD_GIVEN);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 2, excess);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 3, (sqlite3_int64)((now_s + KNOWN_AHEAD_S) & INT64_MAX));
    return finish(db, statement, result);
}

/*
 * A clock that jumps ahead finds rows expired that are not. So those go that had expired when another one was learned, a day or
 * more ago.
 */
static int remove_expired(struct database *db, uint64_t now_s)
{
    sqlite3_stmt *statement;
    int64_t past_s = (int64_t)(now_s & INT64_MAX) - KNOWN_AHEAD_S;
    int error = prepare(db, &statement, "DELETE FROM path WHERE expires_s<=(SELECT max(learned_s) FROM path WHERE learned_s<=?1)");

    return error == 0 ? finish(db, statement, sqlite3_bind_int64(statement, 1, past_s)) : error;
}

static int clean(struct database *db, uint64_t now_s)
{
    int error = begin_safely(db);

    if (error < 0)
        return error;
    error = remove_expired(db, now_s);
    return end(db, error == 0 ? remove_oldest(db, now_s) : error);
}

/* All that is committed by now goes into the store, for this process holds the lock of its writers. */
static int write_store(struct database *db, struct autobuf_paths_writer *writer, uint64_t now_s)
{
    int error = database_file_run(db->file.sql, "BEGIN");

    if (error == 0)
        error = end(db, database_publish_rows(db->file.sql, writer, now_s));
    if (error == 0)
        error = autobuf_paths_set_stamp(writer, db->file.id);
    if (error == 0)
        return autobuf_paths_commit(writer);
    autobuf_paths_abort(writer);
    return error;
}

/*
 * Takes the lock of the store's writers, with nothing in the store that comes from elsewhere. If there is something, it is
 * taken in and the store written first: were it taken in only, a later death of this process would take it in again.
 */
static int lock_own(struct database *db, struct autobuf_paths_writer **writer)
{
    uint64_t now_s = (uint64_t)time(NULL);

    for (unsigned i = 0; i < TRIES; i++) {
        struct autobuf_paths *paths = NULL;
        int error = database_file_lock(&db->file, writer);
        bool foreign;

        if (error < 0)
            return error;
        error = open_store(db, &paths);
        foreign = error == 0 && is_foreign(db, paths);
        if (foreign)
            error = take_in(db, paths, now_s);
        autobuf_paths_close(paths);
        if (error == 0 && !foreign)
            return 0;
        if (error == 0)
            error = write_store(db, *writer, now_s);
        else
            autobuf_paths_abort(*writer);
        if (error < 0)
            return error;
    }
    return -EBUSY;
}

/* --------------------------------------------------------------------------------------- acts */

/* Takes in what the store has of others. */
static int take_over(struct database *db)
{
    struct autobuf_paths *paths = NULL;
    struct autobuf_paths_writer *writer;
    int error = open_store(db, &paths);
    bool foreign = error == 0 && is_foreign(db, paths);

    autobuf_paths_close(paths);
    if (foreign) {
        error = lock_own(db, &writer);
        if (error == 0)
            autobuf_paths_abort(writer);
    }
    return error;
}

static int observe(struct database *db, const struct order *order)
{
    struct autobuf_paths_entry known = AUTOBUF_PATHS_ENTRY_INIT;
    int error = begin_quickly(db);

    if (error < 0)
        return error;
    error = look_up(db, order->entry, &known);
    if (error == 0)
        known_merge(&known, order->entry);
    else if (error == -ENOENT)
        known = *order->entry;
    return end(db, error == 0 || error == -ENOENT ? put(db, &known) : error);
}

static int set(struct database *db, const struct order *order)
{
    int error = begin_safely(db);

    return error == 0 ? end(db, put(db, order->entry)) : error;
}

/* What becomes of an entry of a file. */
enum fate { TAKEN, BETTER, FULL };

static int import_one(struct database *db, const struct autobuf_paths_entry *entry, uint64_t now_s, enum fate *fate)
{
    struct autobuf_paths_entry known = AUTOBUF_PATHS_ENTRY_INIT;
    int error = look_up(db, entry, &known);

    *fate = error == 0 && known_stays(&known, entry, now_s) ? BETTER : TAKEN;
    if (*fate == TAKEN && (error == 0 || error == -ENOENT))
        error = put(db, entry);
    if (error == -E2BIG)
        *fate = FULL;
    return error == -E2BIG ? 0 : error;
}

/* The counts and the entries change only with the transaction. */
static int import(struct database *db, const struct order *order)
{
    enum fate *fates = calloc(*order->count + 1, sizeof *fates);
    int error = fates ? begin_safely(db) : -ENOMEM;
    size_t taken = 0;

    if (error < 0) {
        free(fates);
        return error;
    }
    for (size_t i = 0; i < *order->count && error == 0; i++)
        error = import_one(db, order->entries + i, order->now_s, &fates[i]);
    error = end(db, error);
    for (size_t i = 0; i < *order->count && error == 0; i++) {
        if (fates[i] == TAKEN)
            order->entries[taken++] = order->entries[i];
        order->left->better += fates[i] == BETTER;
        order->left->full += fates[i] == FULL;
    }
    if (error == 0)
        *order->count = taken;
    free(fates);
    return error;
}

/* Ends a statement that removes rows, and counts them. */
static int finish_removal(struct database *db, sqlite3_stmt *statement, int bound, uint64_t *forgotten)
{
    int error = finish(db, statement, bound);

    if (error == 0)
        *forgotten += (uint64_t)sqlite3_changes(db->file.sql);
    return error;
}

/* All rows with this prefix, NULL: all. WHERE 1: so that SQLite counts them. */
static int remove_prefix(struct database *db, const struct autobuf_prefix *prefix, uint64_t *forgotten)
{
    sqlite3_stmt *statement;
    int error = prepare(db, &statement, prefix ? "DELETE FROM path WHERE " OF_PREFIX : "DELETE FROM path WHERE 1");

    if (error < 0)
        return error;
    return finish_removal(db, statement, prefix ? database_row_bind_prefix(statement, prefix) : SQLITE_OK, forgotten);
}

/* The hosts of which a network's entry was made. What was set by hand is not among them. */
static int remove_hosts(struct database *db, const struct autobuf_prefix *network, uint64_t *forgotten)
{
    uint32_t bytes = network->version == 4 ? 4 : 16;
    struct autobuf_prefix least = *network;
    uint8_t most[16];
    sqlite3_stmt *statement;
    int error = prepare(db, &statement, "DELETE FROM path WHERE version=?1 AND bits=?2 AND address>=?3 AND address<=?4 "
                                        "AND method<>?5");
    int result;

    if (error < 0)
        return error;
    least.bits = 8 * bytes;
    memcpy(most, network->address, sizeof most);
    memset(most + network->bits / 8, 0xff, bytes - network->bits / 8);
    result = database_row_bind_prefix(statement, &least);
    if (result == SQLITE_OK)
        result = sqlite3_bind_blob(statement, 4, most, (int)bytes, SQLITE_TRANSIENT);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 5, AUTOBUF_METHOD_GIVEN);
    return finish_removal(db, statement, result, forgotten);
}

/* Whether the store has an entry for a network, as neighbours.h makes them. */
static bool is_made(struct database *db, const struct autobuf_prefix *prefix)
{
    struct autobuf_prefix network;
    struct autobuf_paths *paths = NULL;
    bool made = neighbours_network(prefix, &network) && network.bits == prefix->bits && open_store(db, &paths) == 0 &&
                paths_store_has(paths, prefix);

    autobuf_paths_close(paths);
    return made;
}

static int forget(struct database *db, const struct order *order)
{
    struct autobuf_paths_writer *writer;
    int error = lock_own(db, &writer);

    if (error < 0)
        return error;
    *order->forgotten = 0;
    error = begin_safely(db);
    if (error == 0) {
        error = remove_prefix(db, order->prefix, order->forgotten);
        if (error == 0 && order->prefix && !*order->forgotten && is_made(db, order->prefix))
            error = remove_hosts(db, order->prefix, order->forgotten);
        error = end(db, error);
    }
    autobuf_paths_abort(writer);
    return error;
}

static int publish(struct database *db, const struct order *order)
{
    struct autobuf_paths_writer *writer;
    int error = lock_own(db, &writer);

    if (error < 0)
        return error;
    error = clean(db, order->now_s);
    if (error == 0)
        return write_store(db, writer, order->now_s);
    autobuf_paths_abort(writer);
    return error;
}

/* -------------------------------------------------------------------------------------- calls */

/* Opens the file, a new one if it is damaged, and takes in what the store has of others. */
static int reopen(struct database *db)
{
    int aside = 0;

    for (;;) {
        int error = database_file_open(&db->file);

        if (error == 0)
            error = take_over(db);
        if (error != AUTOBUF_E_DAMAGED || aside)
            return error == 0 ? aside : error;
        close_file(db);
        error = database_file_set_aside(&db->file);
        if (error < 0)
            return error;
        aside = DATABASE_SET_ASIDE;
    }
}

/* Acts, and if the database turns out to be damaged, once more on a new one. */
static int call(struct database *db, act_fn *act, const struct order *order)
{
    int aside = 0, error;

    if (database_file_is_replaced(&db->file)) {
        close_file(db);
        aside = reopen(db);
        if (aside < 0)
            return aside;
    }
    error = act(db, order);
    if (error == AUTOBUF_E_DAMAGED) {
        close_file(db);
        error = database_file_set_aside(&db->file);
        if (error == 0)
            error = reopen(db);
        aside = DATABASE_SET_ASIDE;
        if (error >= 0)
            error = act(db, order);
    }
    return error == 0 ? aside : error;
}

int database_open(struct database **out, const char *store, unsigned flags)
{
    struct database *db = calloc(1, sizeof *db);
    int error;

    *out = NULL;
    if (!db)
        return -ENOMEM;
    if (snprintf(db->file.store, sizeof db->file.store, "%s", store) >= (int)sizeof db->file.store) {
        free(db);
        return -ENAMETOOLONG;
    }
    db->file.flags = flags;
    error = reopen(db);
    if (error < 0) {
        database_close(db);
        return error;
    }
    *out = db;
    return error;
}

int database_observe(struct database *db, const struct autobuf_paths_entry *entry)
{
    int error = autobuf_paths_check(entry);

    return error == 0 ? call(db, observe, &(struct order){.entry = entry}) : error;
}

int database_set(struct database *db, const struct autobuf_paths_entry *entry)
{
    int error = autobuf_paths_check(entry);

    return error == 0 ? call(db, set, &(struct order){.entry = entry}) : error;
}

int database_import(struct database *db, struct autobuf_paths_entry *entries, size_t *count, uint64_t now_s,
                    struct paths_left_out *left)
{
    *left = (struct paths_left_out){0};
    for (size_t i = 0; i < *count; i++)
        if (autobuf_paths_check(entries + i) < 0)
            return -EINVAL;
    return call(db, import, &(struct order){.entries = entries, .count = count, .now_s = now_s, .left = left});
}

int database_forget(struct database *db, const struct autobuf_prefix *prefix, uint64_t *forgotten)
{
    *forgotten = 0;
    return call(db, forget, &(struct order){.prefix = prefix, .forgotten = forgotten});
}

int database_publish(struct database *db, uint64_t now_s)
{
    return call(db, publish, &(struct order){.now_s = now_s});
}

void database_blame(const char *store, int error, char file[PATH_MAX])
{
    struct autobuf_paths *paths = NULL;
    bool of_store = autobuf_paths_open(&paths, store) == error;

    autobuf_paths_close(paths);
    snprintf(file, PATH_MAX, of_store ? "%s" : "%s.db", store);
}

void database_close(struct database *db)
{
    if (!db)
        return;
    close_file(db);
    free(db);
}

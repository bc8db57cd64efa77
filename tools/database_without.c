/* SPDX-License-Identifier: MIT */
/* In place of database.c, where there is no SQLite: the store itself is all that is known. */
#include "database.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"
#include "paths_store.h"

struct database {
    char *store;
    unsigned flags; /* DATABASE_* */
};

int database_open(struct database **out, const char *store, unsigned flags)
{
    struct database *db = calloc(1, sizeof *db);

    *out = NULL;
    if (db)
        db->store = strdup(store);
    if (!db || !db->store) {
        free(db);
        return -ENOMEM;
    }
    db->flags = flags;
    *out = db;
    return 0;
}

/* What the store has with the key of an entry, into *known. */
static int look_up(const char *store, const struct autobuf_paths_entry *entry, struct autobuf_paths_entry *known)
{
    struct autobuf_paths *paths;
    int error = autobuf_paths_open(&paths, store);

    if (error == 0)
        error = autobuf_paths_at(paths, paths_store_lower(paths, entry), known);
    autobuf_paths_close(paths);
    return error < 0 || autobuf_paths_compare(known, entry) != 0 ? -ENOENT : 0;
}

int database_observe(struct database *db, const struct autobuf_paths_entry *entry)
{
    struct autobuf_paths_entry known = AUTOBUF_PATHS_ENTRY_INIT;
    int error = autobuf_paths_check(entry);

    if (error < 0)
        return error;
    if (look_up(db->store, entry, &known) == 0)
        known_merge(&known, entry);
    else
        known = *entry;
    return autobuf_paths_keep(db->store, &known, entry->learned_s, db->flags & DATABASE_TRY ? AUTOBUF_PATHS_TRY : 0);
}

int database_set(struct database *db, const struct autobuf_paths_entry *entry)
{
    return autobuf_paths_keep(db->store, entry, entry->learned_s, 0);
}

int database_import(struct database *db, struct autobuf_paths_entry *entries, size_t *count, uint64_t now_s,
                    struct paths_left_out *left)
{
    return paths_store_import(db->store, entries, count, now_s, left);
}

int database_forget(struct database *db, const struct autobuf_prefix *prefix, uint64_t *forgotten)
{
    int error = paths_store_forget(db->store, prefix, forgotten);

    return error == -ENOENT ? 0 : error; /* what is not there is forgotten */
}

int database_publish(struct database *db, uint64_t now_s)
{
    (void)db;
    (void)now_s;
    return 0;
}

void database_blame(const char *store, int error, char file[PATH_MAX])
{
    (void)error;
    snprintf(file, PATH_MAX, "%s", store);
}

void database_close(struct database *db)
{
    if (!db)
        return;
    free(db->store);
    free(db);
}

/* SPDX-License-Identifier: MIT */
#include "paths_store.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "known.h"

/* ------------------------------------------------------------------------------------ looking */

static bool is_of(const struct autobuf_paths_entry *entry, const struct autobuf_prefix *prefix)
{
    return entry->remote.version == prefix->version && entry->remote.bits == prefix->bits &&
           memcmp(entry->remote.address, prefix->address, sizeof prefix->address) == 0;
}

uint64_t paths_store_lower(const struct autobuf_paths *paths, const struct autobuf_paths_entry *key)
{
    uint64_t low = 0, high = autobuf_paths_count(paths);

    while (low < high) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
        uint64_t middle = low + (high - low) / 2;

        if (autobuf_paths_at(paths, middle, &entry) < 0)
            return UINT64_MAX;
        if (autobuf_paths_compare(&entry, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entry for all local sides is the last one with its prefix. */
bool paths_store_has(const struct autobuf_paths *paths, const struct autobuf_prefix *prefix)
{
    struct autobuf_paths_entry key = AUTOBUF_PATHS_ENTRY_INIT, entry = AUTOBUF_PATHS_ENTRY_INIT;
    uint64_t at;

    key.remote = *prefix;
    at = paths_store_lower(paths, &key);
    return (autobuf_paths_at(paths, at, &entry) == 0 && is_of(&entry, prefix)) ||
           (at && autobuf_paths_at(paths, at - 1, &entry) == 0 && is_of(&entry, prefix));
}

/* ---------------------------------------------------------------------------------- importing */

/* The entries of both in order. Those that are written stay in into[]. */
static int merge(struct autobuf_paths_writer *writer, const struct autobuf_paths *old,
                 struct autobuf_paths_entry *into, size_t *count, uint64_t now_s, uint64_t *better)
{
    uint64_t in_store = autobuf_paths_count(old);
    size_t next = 0, kept = 0;
    int error = 0;

    for (uint64_t at = 0; at < in_store && error == 0; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
        int order = -1;

        if (autobuf_paths_at(old, at, &entry) < 0 || entry.expires_s <= now_s)
            continue;
        while (error == 0 && next < *count && (order = autobuf_paths_compare(&entry, &into[next])) > 0) {
            error = autobuf_paths_add(writer, &into[next]);
            into[kept++] = into[next++];
        }
        if (error == 0 && next < *count && order == 0) {
            if (!known_stays(&entry, &into[next], now_s))
                into[kept++] = entry = into[next];
            else
                ++*better;
            next++;
        }
        if (error == 0)
            error = autobuf_paths_add(writer, &entry);
    }
    while (next < *count && error == 0) {
        error = autobuf_paths_add(writer, &into[next]);
        into[kept++] = into[next++];
    }
    *count = kept;
    return error;
}

/* The folders on the way to a file of the user's. Those that are there stay; open() tells what is wrong. */
static void make_folders(const char *file)
{
    char name[PATH_MAX];

    for (const char *slash = strchr(file + 1, '/'); slash && slash - file < PATH_MAX; slash = strchr(slash + 1, '/')) {
        memcpy(name, file, (size_t)(slash - file));
        name[slash - file] = '\0';
        (void)mkdir(name, 0700);
    }
}

int paths_store_import(const char *store, struct autobuf_paths_entry *entries, size_t *count, uint64_t now_s,
                       uint64_t *better)
{
    const char *name = store ? store : autobuf_paths_own();
    struct autobuf_paths_writer *writer = NULL;
    struct autobuf_paths *old = NULL;
    int error;

    *better = 0;
    if (!*count)
        return 0;
    if (!name)
        return -ENOENT;
    if (!store)
        make_folders(name);
    error = autobuf_paths_write(&writer, name, 0);
    if (error == 0)
        error = autobuf_paths_open(&old, name);
    if (writer && (error == -ENOENT || error == AUTOBUF_E_DAMAGED)) /* nothing of it can be kept */
        error = 0;
    if (error == 0)
        error = merge(writer, old, entries, count, now_s, better);
    autobuf_paths_close(old);
    if (error == 0)
        return autobuf_paths_commit(writer);
    autobuf_paths_abort(writer);
    return error;
}

/* --------------------------------------------------------------------------------- forgetting */

/* Copies the old store without what is to be forgotten, and counts that. */
static int copy_without(struct autobuf_paths_writer *writer, const struct autobuf_paths *old,
                        const struct autobuf_prefix *prefix, uint64_t *forgotten)
{
    int error = 0;

    for (uint64_t at = 0; at < autobuf_paths_count(old) && error == 0; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (autobuf_paths_at(old, at, &entry) < 0)
            continue;
        if (!prefix || is_of(&entry, prefix))
            ++*forgotten;
        else
            error = autobuf_paths_add(writer, &entry);
    }
    return error;
}

int paths_store_forget(const char *store, const struct autobuf_prefix *prefix, uint64_t *forgotten)
{
    const char *name = store ? store : autobuf_paths_own();
    struct autobuf_paths_writer *writer = NULL;
    struct autobuf_paths *old = NULL;
    int error = name ? autobuf_paths_write(&writer, name, 0) : -ENOENT;

    *forgotten = 0;
    if (error == 0)
        error = autobuf_paths_open(&old, name);
    if (error == 0)
        error = copy_without(writer, old, prefix, forgotten);
    autobuf_paths_close(old);
    if (error == 0 && (*forgotten || !prefix))
        return autobuf_paths_commit(writer);
    autobuf_paths_abort(writer);
    return error;
}

/* SPDX-License-Identifier: MIT */
#include "paths_store.h"

#include <errno.h>
#include <string.h>

#include "known.h"

#define SAME_REMOTE 64U /* entries with one remote prefix that a store takes */

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

/* A store that is made of an old one and of a file's entries, of which those that are written stay in fresh[]. */
struct merger {
    struct autobuf_paths_writer *writer;
    const struct autobuf_paths *old;
    uint64_t now_s;
    struct autobuf_paths_entry *fresh;
    size_t count, next, kept;
    struct paths_left_out *left;
    struct autobuf_prefix last; /* remote prefix that was written */
    unsigned same;              /* entries with it */
};

static int read_old(const struct merger *m, uint64_t at, struct autobuf_paths_entry *entry)
{
    int error = autobuf_paths_at(m->old, at, entry);

    return error == 0 && entry->expires_s <= m->now_s ? -ENOENT : error;
}

static int write_one(struct merger *m, const struct autobuf_paths_entry *entry)
{
    unsigned same = is_of(entry, &m->last) ? m->same + 1 : 1;
    int error = autobuf_paths_add(m->writer, entry);

    if (error == 0) {
        m->same = same;
        m->last = entry->remote;
    }
    return error;
}

/* Whether the store has room for one more with this remote prefix; the old ones from there on come behind it. */
static bool has_room(const struct merger *m, const struct autobuf_prefix *remote, uint64_t at)
{
    unsigned same = memcmp(remote, &m->last, sizeof *remote) == 0 ? m->same : 0;

    for (uint64_t end = at + SAME_REMOTE; at < end && same < SAME_REMOTE; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (read_old(m, at, &entry) < 0)
            continue;
        if (!is_of(&entry, remote))
            break;
        same++;
    }
    return same < SAME_REMOTE;
}

/* The next one of the file, before the old one there. */
static int write_fresh(struct merger *m, uint64_t at)
{
    const struct autobuf_paths_entry *entry = &m->fresh[m->next++];

    if (!has_room(m, &entry->remote, at)) {
        m->left->full++;
        return 0;
    }
    m->fresh[m->kept++] = *entry;
    return write_one(m, entry);
}

/* The entries of both in order. */
static int merge(struct merger *m)
{
    uint64_t in_store = autobuf_paths_count(m->old);
    int error = 0;

    for (uint64_t at = 0; at < in_store && error == 0; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
        int order = -1;

        if (read_old(m, at, &entry) < 0)
            continue;
        while (error == 0 && m->next < m->count && (order = autobuf_paths_compare(&entry, &m->fresh[m->next])) > 0)
            error = write_fresh(m, at);
        if (error == 0 && m->next < m->count && order == 0) {
            if (!known_stays(&entry, &m->fresh[m->next], m->now_s))
                m->fresh[m->kept++] = entry = m->fresh[m->next];
            else
                m->left->better++;
            m->next++;
        }
        if (error == 0)
            error = write_one(m, &entry);
        if (error == -EINVAL) /* not in its place, so of a damaged store */
            error = 0;
    }
    while (m->next < m->count && error == 0)
        error = write_fresh(m, in_store);
    return error;
}

int paths_store_import(const char *store, struct autobuf_paths_entry *entries, size_t *count, uint64_t now_s,
                       struct paths_left_out *left)
{
    const char *name = store ? store : autobuf_paths_own();
    struct merger m = {.now_s = now_s, .fresh = entries, .count = *count, .left = left};
    struct autobuf_paths_writer *writer = NULL;
    struct autobuf_paths *old = NULL;
    int error;

    *left = (struct paths_left_out){0};
    if (!*count)
        return 0;
    if (!name)
        return -ENOENT;
    error = autobuf_paths_write(&writer, store, 0);
    if (error == 0)
        error = autobuf_paths_open(&old, name);
    if (writer && (error == -ENOENT || error == AUTOBUF_E_DAMAGED)) /* nothing of it can be kept */
        error = 0;
    m.writer = writer;
    m.old = old;
    if (error == 0) {
        error = merge(&m);
        *count = m.kept;
    }
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
        if (error == -EINVAL)
            error = 0;
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

/* SPDX-License-Identifier: MIT */
/* autobuf_paths_keep(): one entry into a store. */
#include <errno.h>
#include <string.h>

#include "store.h"
#include "writer.h"

#define OWN_MAX 4096U /* entries of the user's own store: 750 KB */

/* A damaged store is replaced; one of a later version is not. */
static int open_old(struct autobuf_paths **old, const char *file)
{
    int error = autobuf_paths_open(old, file);

    return error == -ENOENT || error == AUTOBUF_E_DAMAGED ? 0 : error;
}

/* The entry that is dropped if there are too many, none that was set by hand. UINT64_MAX: none. */
static uint64_t oldest(const struct autobuf_paths *old, bool own, uint64_t now_s)
{
    uint64_t learned_s = UINT64_MAX, found = UINT64_MAX, count = ab_paths_count(old);

    for (uint64_t at = 0; own && count >= OWN_MAX && at < count; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (ab_paths_at(old, at, &entry) < 0 || entry.method == AUTOBUF_METHOD_GIVEN)
            continue;
        if (entry.learned_s > now_s + AB_PATHS_AHEAD_S) /* by a clock that was ahead */
            return at;
        if (entry.learned_s < learned_s) {
            learned_s = entry.learned_s;
            found = at;
        }
    }
    return found;
}

/*
 * The latest time at which an entry was learned at least a day ago; 0: none. If the clock jumps ahead, valid entries
 * seem expired; so only those are dropped that have expired by this time, too.
 */
static uint64_t certainly_past_s(const struct autobuf_paths *old, uint64_t now_s)
{
    uint64_t past_s = 0, count = ab_paths_count(old);

    for (uint64_t at = 0; at < count; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (ab_paths_at(old, at, &entry) == 0 && entry.learned_s < now_s && now_s - entry.learned_s >= AB_PATHS_AHEAD_S)
            past_s = ab_max(past_s, entry.learned_s);
    }
    return past_s;
}

/* A learned entry that may have expired makes room for a new one of the same remote prefix. */
static bool is_dropped(const struct autobuf_paths_entry *entry, const struct autobuf_paths_entry *fresh,
                       uint64_t past_s, uint64_t now_s)
{
    return entry->expires_s <= past_s || (entry->expires_s <= now_s && entry->method != AUTOBUF_METHOD_GIVEN &&
                                          ab_prefix_same(&entry->remote, &fresh->remote));
}

/* Leaves out an entry of a damaged store, which is out of order or there twice. */
static int add_old(struct ab_paths_writer *writer, const struct autobuf_paths_entry *entry)
{
    int error = ab_paths_add(writer, entry);

    return error == -EINVAL ? 0 : error;
}

/* Writes the old entries and the new one, which replaces none that was set by hand unless it was, too. */
static int merge(struct ab_paths_writer *writer, const struct autobuf_paths *old, uint64_t skip,
                 const struct autobuf_paths_entry *fresh, uint64_t now_s)
{
    uint64_t count = ab_paths_count(old), past_s = certainly_past_s(old, now_s);
    bool added = false;
    int error = 0;

    for (uint64_t at = 0; at < count && error == 0; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
        int order;

        if (at == skip || ab_paths_at(old, at, &entry) < 0 || is_dropped(&entry, fresh, past_s, now_s))
            continue; /* the clock may be behind */
        order = ab_paths_compare(fresh, &entry);
        if (!added && order <= 0) {
            bool stays = order == 0 && entry.method == AUTOBUF_METHOD_GIVEN && fresh->method != AUTOBUF_METHOD_GIVEN;

            error = ab_paths_add(writer, stays ? &entry : fresh);
            added = true;
        }
        if (order && error == 0)
            error = add_old(writer, &entry);
    }
    return added || error < 0 ? error : ab_paths_add(writer, fresh);
}

int autobuf_paths_keep(const char *file, const struct autobuf_paths_entry *theirs, uint64_t now_s, uint32_t flags)
{
    struct autobuf_paths_entry entry;
    struct ab_paths_writer *writer = NULL;
    struct autobuf_paths *old = NULL;
    const char *name = file ? file : ab_paths_own();
    int error;

    if (!ab_struct_in(&entry, sizeof entry, theirs))
        return -EINVAL;
    if (!name)
        return -ENOENT;
    error = ab_paths_write(&writer, file, flags);
    if (error == 0)
        error = open_old(&old, name);
    if (error == 0)
        error = merge(writer, old, oldest(old, !file, now_s), &entry, now_s);
    autobuf_paths_close(old);
    if (error == 0)
        return ab_paths_commit(writer);
    ab_paths_abort(writer);
    return error;
}

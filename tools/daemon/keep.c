/* SPDX-License-Identifier: MIT */
#include "keep.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "../../lib/base/address.h"
#include "../../lib/paths/store.h"
#include "../known.h"
#include "../paths_store.h"
#include "broker.h"
#include "log.h"

#define WRITE_NS AB_NS_PER_S /* between two writings, at least */

/* Where an entry belongs among those that wait, and whether one about the same path is there. */
static size_t waiting_at(const struct keep *keep, const struct autobuf_paths_entry *entry, bool *waits)
{
    size_t at = 0;
    int order = 1;

    while (at < keep->count && (order = ab_paths_compare(&keep->waiting[at], entry)) < 0)
        at++;
    *waits = at < keep->count && order == 0;
    return at;
}

static void insert(struct keep *keep, size_t at, const struct autobuf_paths_entry *entry)
{
    memmove(keep->waiting + at + 1, keep->waiting + at, (keep->count++ - at) * sizeof *keep->waiting);
    keep->waiting[at] = *entry;
}

void keep_learned(struct keep *keep, const struct autobuf_paths_entry *entry, size_t room)
{
    bool waits;
    size_t at = waiting_at(keep, entry, &waits);

    if (!keep->file[0])
        return;
    if (keep->offer)
        keep->offer(keep->offer_to, entry);
    if (waits)
        known_merge(&keep->waiting[at], entry);
    else if (keep->count < room && ab_paths_check(entry) == 0)
        insert(keep, at, entry);
    else
        keep->counts.lost++;
}

/* What the store knows of the same host, whatever a lookup would prefer. */
static bool find_host(const struct autobuf_paths *paths, const struct autobuf_paths_entry *entry, uint64_t now_s,
                      struct autobuf_paths_entry *known)
{
    return ab_paths_get(paths, entry, known) == 0 && known->expires_s > now_s && !known_is_ahead(known, now_s);
}

static bool find_network(const struct autobuf_paths *paths, const struct autobuf_paths_entry *entry, uint64_t now_s,
                         struct autobuf_paths_entry *known)
{
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    struct sockaddr_storage remote;

    query.remote_len = (socklen_t)ab_address_make(entry->remote.address, entry->remote.version == 4 ? 4 : 16, &remote);
    query.remote = (struct sockaddr *)&remote;
    query.now_s = now_s;
    return autobuf_paths_find(paths, &query, known) == 0;
}

/* Whether the store knows of the same host, learned at that time or later, or of its network, learned later. */
static bool store_is_as_new(const struct keep *keep, const struct autobuf_paths_entry *entry)
{
    struct autobuf_paths_entry known = AUTOBUF_PATHS_ENTRY_INIT;
    uint64_t now_s = (uint64_t)time(NULL);
    struct autobuf_paths *paths;
    bool as_new;

    if (autobuf_paths_open(&paths, keep->file) < 0)
        return false;
    if (find_host(paths, entry, now_s, &known))
        as_new = known.learned_s >= entry->learned_s;
    else
        as_new = find_network(paths, entry, now_s, &known) && known.learned_s > entry->learned_s;
    autobuf_paths_close(paths);
    return as_new;
}

bool keep_foreign(struct keep *keep, const struct autobuf_paths_entry *entry)
{
    bool waits;
    size_t at = waiting_at(keep, entry, &waits);

    if (!keep->file[0] || keep->count == KEEP_MOST || waits || ab_paths_check(entry) < 0 ||
        store_is_as_new(keep, entry))
        return false;
    insert(keep, at, entry);
    return true;
}

/* --------------------------------------------------------------------------------- writing */

static void say_failed(struct keep *keep, int error)
{
    keep->counts.failed++;
    if (!keep->said)
        log_line("%s: %s: what is learned is not kept", keep->file, autobuf_strerror(error));
    keep->said = true;
}

/* If another one writes, what waits goes on waiting. Everybody may read the store, whatever this process's umask is. */
static void write_all(struct keep *keep)
{
    struct paths_change change = {
        .how = CHANGE_OBSERVE, .fresh = keep->waiting, .count = keep->count, .networks = true};
    mode_t mask = umask(S_IWGRP | S_IWOTH);
    int error = paths_store_change(keep->file, &change, (uint64_t)time(NULL),
                                   AUTOBUF_PATHS_TRY | AUTOBUF_PATHS_NO_SYNC);

    umask(mask);
    if (error == -EAGAIN)
        return;
    keep->count = 0;
    keep->counts.lost += change.full;
    if (error < 0) {
        say_failed(keep, error);
        return;
    }
    keep->said = false;
    if (error == PATHS_SET_ASIDE)
        log_line("%s was damaged: it is %s.damaged now, and a new one is begun", keep->file, keep->file);
}

/* ------------------------------------------------------------------------------- the whole */

void keep_in(struct keep *keep, const char *file)
{
    if (strcmp(keep->file, file) == 0)
        return;
    keep_close(keep);
    keep->said = false;
    snprintf(keep->file, sizeof keep->file, "%s", file);
}

/* Backs off in proportion to the time that a write took. */
void keep_step(struct keep *keep, uint64_t now_ns)
{
    uint64_t began_ns;

    if (keep_deadline_ns(keep) > now_ns)
        return;
    began_ns = autobuf_now_ns();
    write_all(keep);
    keep->write_ns = now_ns + ab_max((autobuf_now_ns() - began_ns) * COST_PART, WRITE_NS);
}

uint64_t keep_deadline_ns(const struct keep *keep)
{
    return keep->count ? keep->write_ns : UINT64_MAX;
}

void keep_close(struct keep *keep)
{
    if (!keep->count)
        return;
    write_all(keep);
    if (keep->count)
        log_line("%s: %zu paths are lost: another process writes", keep->file, keep->count);
    keep->counts.lost += keep->count;
    keep->count = 0;
}

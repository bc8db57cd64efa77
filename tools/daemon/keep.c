/* SPDX-License-Identifier: MIT */
#include "keep.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <netinet/in.h>

#include "../known.h"
#include "../paths_store.h"
#include "cost.h"

#define NS_PER_S 1000000000ULL
#define WRITE_NS NS_PER_S /* between two writings, at least */

/* Of those that wait, the one about the same path; keep->count: there is none. */
static size_t waiting_at(const struct keep *keep, const struct autobuf_paths_entry *entry)
{
    size_t at = 0;

    while (at < keep->count && autobuf_paths_compare(&keep->waiting[at], entry) != 0)
        at++;
    return at;
}

static void take(struct keep *keep, const struct autobuf_paths_entry *entry, size_t room)
{
    size_t at = waiting_at(keep, entry);

    if (!keep->file[0])
        return;
    if (keep->offer)
        keep->offer(keep->offer_to, entry);
    if (at < keep->count)
        known_merge(&keep->waiting[at], entry);
    else if (at < room)
        keep->waiting[keep->count++] = *entry;
    else
        keep->counts.lost++;
}

void keep_learned(struct keep *keep, const struct autobuf_paths_entry *entry)
{
    take(keep, entry, KEEP_MOST);
}

void keep_handed(struct keep *keep, const struct autobuf_paths_entry *entry)
{
    take(keep, entry, KEEP_MOST / 2);
}

/* What the store knows of the same host, whatever a lookup would prefer. */
static bool find_host(const struct autobuf_paths *paths, const struct autobuf_paths_entry *entry, uint64_t now_s,
                      struct autobuf_paths_entry *known)
{
    return autobuf_paths_at(paths, paths_store_lower(paths, entry), known) == 0 && autobuf_paths_compare(known, entry) == 0 &&
           known->expires_s > now_s && !known_is_ahead(known, now_s);
}

static bool find_network(const struct autobuf_paths *paths, const struct autobuf_paths_entry *entry, uint64_t now_s,
                         struct autobuf_paths_entry *known)
{
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    memcpy(&v4.sin_addr, entry->remote.address, sizeof v4.sin_addr);
    memcpy(&v6.sin6_addr, entry->remote.address, sizeof v6.sin6_addr);
    query.remote = entry->remote.version == 4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    query.remote_len = entry->remote.version == 4 ? sizeof v4 : sizeof v6;
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
    size_t at = waiting_at(keep, entry);

    if (!keep->file[0] || at == KEEP_MOST || at < keep->count || store_is_as_new(keep, entry))
        return false;
    keep->waiting[keep->count++] = *entry;
    return true;
}

/* --------------------------------------------------------------------------------- writing */

static void say_failed(struct keep *keep, int error)
{
    char line[PATH_MAX + 160], file[PATH_MAX];

    keep->counts.failed++;
    database_blame(keep->file, error, file);
    snprintf(line, sizeof line, "%s: %s: what is learned is not kept", file, autobuf_strerror(error));
    if (!keep->said)
        keep->say(line);
    keep->said = true;
}

/* 0 for DATABASE_SET_ASIDE, which is said. */
static int said(struct keep *keep, int result)
{
    char line[2 * FILE_BYTES + 96];

    if (result != DATABASE_SET_ASIDE)
        return result;
    snprintf(line, sizeof line, "%s.db was damaged: it is the newest %s.db.damaged* now, and a new one is begun", keep->file, keep->file);
    keep->say(line);
    return 0;
}

/* Adds the first of what waits, which then waits no longer. One that the database does not take is lost. */
static int write_first(struct keep *keep)
{
    int error = said(keep, database_observe(keep->db, &keep->waiting[0]));

    if (error < 0 && error != -EINVAL && error != -E2BIG)
        return error;
    if (error < 0)
        keep->counts.lost++;
    else
        keep->unpublished = true;
    keep->count--;
    memmove(keep->waiting, keep->waiting + 1, keep->count * sizeof *keep->waiting);
    return 0;
}

static int write_waiting(struct keep *keep)
{
    int error = keep->db ? 0 : said(keep, database_open(&keep->db, keep->file, DATABASE_TRY));

    while (error == 0 && keep->count)
        error = write_first(keep);
    if (error == 0 && keep->unpublished)
        error = said(keep, database_publish(keep->db, (uint64_t)time(NULL)));
    if (error == 0)
        keep->unpublished = false;
    return error;
}

/* If another one writes, what waits goes on waiting. Everybody may read the store, whatever this process's umask is. */
static void write_all(struct keep *keep)
{
    mode_t mask = umask(S_IWGRP | S_IWOTH);
    int error = write_waiting(keep);

    umask(mask);
    if (error == -EAGAIN || error == -EBUSY)
        return;
    if (error < 0)
        say_failed(keep, error);
    else
        keep->said = false;
    keep->count = 0;
    keep->unpublished = false;
}

/* ------------------------------------------------------------------------------- the whole */

void keep_in(struct keep *keep, const char *file)
{
    if (strcmp(keep->file, file) == 0)
        return;
    keep_close(keep);
    keep->count = 0;
    keep->unpublished = keep->said = false;
    snprintf(keep->file, sizeof keep->file, "%s", file);
}

/* A disk that takes long rests long. */
void keep_step(struct keep *keep, uint64_t now_ns)
{
    uint64_t began_ns, rest_ns;

    if (keep_deadline_ns(keep) > now_ns)
        return;
    began_ns = autobuf_now_ns();
    write_all(keep);
    rest_ns = (autobuf_now_ns() - began_ns) * COST_PART;
    keep->write_ns = now_ns + (rest_ns > WRITE_NS ? rest_ns : WRITE_NS);
}

uint64_t keep_deadline_ns(const struct keep *keep)
{
    return keep->count || keep->unpublished ? keep->write_ns : UINT64_MAX;
}

void keep_close(struct keep *keep)
{
    if (keep->count || keep->unpublished)
        write_all(keep);
    database_close(keep->db);
    keep->db = NULL;
}

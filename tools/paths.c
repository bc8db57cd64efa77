/* SPDX-License-Identifier: MIT */
#include "commands.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "../lib/paths/store.h"
#include "paths_import.h"
#include "paths_print.h"
#include "paths_store.h"
#include "privilege.h"

#define HOST_FOLDER "/var/lib/autobuf"
#define HOST_STORE HOST_FOLDER "/paths"
#define S_PER_HOUR 3600U

static const char *store_of(const struct arguments *want)
{
    return want->host ? HOST_STORE : want->store;
}

static int fail(const struct arguments *want, int error)
{
    const char *store = store_of(want);

    if (error == -ENOENT && !store)
        fprintf(stderr, "autobuf: there is no path store%s\n",
                ab_paths_own() ? " yet" : ": AUTOBUF_PATHS=off, or HOME and XDG_CACHE_HOME "
                                               "are not this user's alone");
    else
        fprintf(stderr, "autobuf: %s: %s\n", store ? store : "the path store", autobuf_strerror(error));
    return error == -EPERM || error == -EACCES ? EXIT_NOT_PERMITTED : EXIT_NOTHING;
}

/* ----------------------------------------------------------------------------------- reading */

static int list(const struct arguments *want, const struct autobuf_paths *paths, uint64_t now_s)
{
    bool json = want->json || want->action == PATHS_EXPORT, first = true;
    uint64_t damaged = 0;

    if (json)
        fputs("{\"paths\":[", stdout);
    for (uint64_t at = 0; at < ab_paths_count(paths); at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (ab_paths_at(paths, at, &entry) < 0) {
            damaged++;
            continue;
        }
        if (want->action == PATHS_EXPORT && entry.expires_s <= now_s)
            continue;
        if (json && !first)
            putchar(',');
        paths_print(&entry, json, now_s);
        first = false;
    }
    if (json)
        fputs("]}\n", stdout);
    if (damaged)
        fprintf(stderr, "autobuf: %llu damaged entries are left out\n", (unsigned long long)damaged);
    return EXIT_RESULT;
}

/* One address of a name; NULL: it has none. wanted: AI_* flags. */
static struct addrinfo *address_of(const char *name, int wanted, int *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = wanted}, *found = NULL;

    *error = getaddrinfo(name, NULL, &hints, &found);
    return *error ? NULL : found;
}

/* What the library finds: of what the host's store does not know, also in the user's own, unless one store is named. */
static int find(const struct arguments *want, const struct autobuf_paths *paths, const struct autobuf_paths_query *query,
                struct autobuf_paths_entry *entry)
{
    int error = autobuf_paths_find(paths, query, entry);
    const char *name = error < 0 && !store_of(want) ? ab_paths_own() : NULL;
    struct autobuf_paths *own = NULL;

    if (name && autobuf_paths_open(&own, name) == 0)
        error = autobuf_paths_find(own, query, entry);
    autobuf_paths_close(own);
    return error;
}

/* What a program here would find for this peer, as far as the local side is known. */
static int show(const struct arguments *want, const struct autobuf_paths *paths, uint64_t now_s)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    int error, none;
    struct addrinfo *remote = address_of(want->operand, 0, &error);
    struct addrinfo *local = want->from ? address_of(want->from, AI_NUMERICHOST, &none) : NULL;

    if (!remote) {
        fprintf(stderr, "autobuf: %s: %s\n", want->operand, gai_strerror(error));
        if (local)
            freeaddrinfo(local);
        return EXIT_NOTHING;
    }
    query.remote = remote->ai_addr;
    query.remote_len = (uint32_t)remote->ai_addrlen;
    query.local = local ? local->ai_addr : NULL;
    query.local_len = local ? (uint32_t)local->ai_addrlen : 0;
    query.device = local ? NULL : want->from;
    query.now_s = now_s;
    error = find(want, paths, &query, &entry);
    freeaddrinfo(remote);
    if (local)
        freeaddrinfo(local);
    if (error < 0) {
        fprintf(stderr, "autobuf: %s: nothing is known of the path\n", want->operand);
        return EXIT_NOTHING;
    }
    paths_print(&entry, want->json, now_s);
    if (want->json)
        putchar('\n');
    return EXIT_RESULT;
}

static int look(const struct arguments *want, uint64_t now_s)
{
    struct autobuf_paths *paths;
    int error = autobuf_paths_open(&paths, store_of(want));

    if (error < 0)
        return fail(want, error);
    error = want->action == PATHS_SHOW ? show(want, paths, now_s) : list(want, paths, now_s);
    autobuf_paths_close(paths);
    return error;
}

/* ----------------------------------------------------------------------------------- writing */

/* A file of that name that is no store, or no more, is not written over: nobody may have meant it. */
static int check_named(const struct arguments *want)
{
    struct autobuf_paths *old = NULL;
    int error = want->store ? autobuf_paths_open(&old, want->store) : 0;

    autobuf_paths_close(old);
    return error == AUTOBUF_E_DAMAGED ? error : 0;
}

/* Makes the folder of the host's store, and becomes its owner: the daemon can go on with it. */
static int prepare_host(void)
{
    if (mkdir(HOST_FOLDER, 0755) < 0 && errno != EEXIST)
        return -errno;
    return become_owner(HOST_FOLDER);
}

static int change_store(const struct arguments *want, struct paths_change *change,
                        uint64_t now_s)
{
    int error = want->host ? prepare_host() : check_named(want);

    change->networks = want->host;
    if (error == 0)
        error = paths_store_change(store_of(want), change, now_s, 0);
    if (error == PATHS_SET_ASIDE) {
        const char *name = store_of(want) ? store_of(want) : ab_paths_own();

        fprintf(stderr,
                "autobuf: %s was damaged: it is %s.damaged now, and a new one was begun\n", name,
                name);
    }
    return error == PATHS_SET_ASIDE ? 0 : error;
}

static int set(const struct arguments *want, uint64_t now_s)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct paths_change change = {.how = CHANGE_SET, .fresh = &entry, .count = 1};
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int error = autobuf_prefix_parse(want->operand, &entry.remote);

    if (error < 0) {
        fprintf(stderr, "autobuf: %s: it is no address and no prefix, or bits behind the prefix are set\n", want->operand);
        return EXIT_NOTHING;
    }
    if (want->from && autobuf_prefix_parse(want->from, &entry.local) < 0 && strlen(want->from) >= sizeof entry.device) {
        fprintf(stderr, "autobuf: --from %s: it is no prefix, and too long for an interface\n", want->from);
        return EXIT_NOTHING;
    }
    if (want->from && !entry.local.version)
        snprintf(entry.device, sizeof entry.device, "%s", want->from);
    error = autobuf_path_given(&path, want->rate_bit_per_s, want->rtt_ns);
    if (error == 0)
        error = autobuf_paths_learn(&entry, &path);
    entry.learned_s = now_s;
    entry.expires_s = want->hours ? now_s + want->hours * S_PER_HOUR : UINT64_MAX;
    if (error == 0)
        error = change_store(want, &change, now_s);
    if (change.full)
        error = -E2BIG;
    return error < 0 ? fail(want, error) : EXIT_RESULT;
}

static void print_imported(const struct imported *from, bool json, uint64_t now_s)
{
    if (json)
        fputs("{\"paths\":[", stdout);
    for (size_t i = 0; i < from->count; i++) {
        if (json && i)
            putchar(',');
        paths_print(&from->entries[i], json, now_s);
    }
    if (json)
        fputs("]}\n", stdout);
}

static int import(const struct arguments *want, uint64_t now_s)
{
    struct imported from;
    struct paths_change change = {.how = CHANGE_IMPORT};
    int error;

    if (paths_import_read(want, &from) != EXIT_RESULT) {
        free(from.entries);
        return EXIT_NOTHING;
    }
    change.fresh = from.entries;
    change.count = from.count;
    error = change_store(want, &change, now_s);
    from.count = change.count;
    if (error < 0) {
        free(from.entries);
        return fail(want, error);
    }
    if (change.better)
        fprintf(stderr, "autobuf: %s: %llu left out: the store knows better\n", want->operand,
                (unsigned long long)change.better);
    if (change.full)
        fprintf(stderr,
                "autobuf: %s: %llu left out: the store has 64 others of the same prefix\n",
                want->operand, (unsigned long long)change.full);
    print_imported(&from, want->json, now_s);
    error = from.count ? EXIT_RESULT : EXIT_NOTHING;
    free(from.entries);
    return error;
}

static int forget(const struct arguments *want, uint64_t now_s)
{
    struct autobuf_prefix prefix = {.version = 0};
    struct paths_change change = {.forget_all = want->all, .forget = want->all ? NULL : &prefix};
    int error;

    if (!want->all && autobuf_prefix_parse(want->operand, &prefix) < 0) {
        fprintf(stderr, "autobuf: %s: it is no address and no prefix, or bits behind the prefix are set\n", want->operand);
        return EXIT_NOTHING;
    }
    error = change_store(want, &change, now_s);
    if (error < 0 && !(error == -ENOENT && want->host)) /* what is not there is forgotten */
        return fail(want, error);
    if (!change.forgotten && !want->all)
        fprintf(stderr, "autobuf: %s: it is not in the store\n", want->operand);
    return change.forgotten || want->all ? EXIT_RESULT : EXIT_NOTHING;
}

int paths_run(const struct arguments *want)
{
    uint64_t now_s = (uint64_t)time(NULL);
    int error = getuid() ? drop_privileges() : 0; /* for files, root needs what it has */

    if (error < 0)
        return fail(want, error);
    if (want->host) /* everybody may read that store, whatever the umask of who writes it is */
        umask(S_IWGRP | S_IWOTH);
    switch (want->action) {
    case PATHS_SET:
        return set(want, now_s);
    case PATHS_FORGET:
        return forget(want, now_s);
    case PATHS_IMPORT:
        return import(want, now_s);
    default:
        return look(want, now_s);
    }
}

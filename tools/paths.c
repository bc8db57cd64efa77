/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../lib/paths/store.h"
#include "array.h"
#include "paths_store.h"
#include "print.h"
#include "privilege.h"
#include "resolve.h"

#define HOST_FOLDER "/var/lib/autobuf"
#define HOST_STORE HOST_FOLDER "/paths"
#define S_PER_HOUR 3600U
#define IMPORT_HOURS 168U /* how long what is imported holds, if nobody says */
#define READER "autobuf-paths-import"

static const char *store_of(const struct arguments *want)
{
    return want->host ? HOST_STORE : want->store;
}

/* Of the two that are read if none is named, the one that this is the error of. */
static const char *store_with(int error)
{
    struct autobuf_paths *paths = NULL;
    bool host = !ab_store_is_named() && error != -ENOENT && autobuf_paths_open(&paths, HOST_STORE) == error;

    autobuf_paths_close(paths);
    return host ? HOST_STORE : ab_paths_own();
}

static int fail(const struct arguments *want, int error)
{
    const char *named = store_of(want), *store = named ? named : store_with(error);
    bool writes = want->action == PATHS_SET || want->action == PATHS_IMPORT;
    bool elsewhere = writes && !named && (error == -ENOENT || error == -EACCES || error == -EROFS);

    if (!store)
        fputs(
            "autobuf: there is no place for a path store: HOME and XDG_CACHE_HOME are unset or not this user's alone, "
            "or AUTOBUF_PATHS=off; --store FILE names one\n",
            stderr);
    else if (error == -ENOENT && !named && !writes)
        fputs("autobuf: there is no path store yet\n", stderr);
    else
        fprintf(stderr, "autobuf: %s: %s%s\n", store, autobuf_strerror(error),
                elsewhere ? "; --store FILE names another" : "");
    return error == -EPERM || error == -EACCES ? EXIT_NOT_PERMITTED : EXIT_NOTHING;
}

static void print_time(uint64_t at_s)
{
    time_t seconds = (time_t)at_s;
    struct tm utc;
    char text[32] = "never";

    if (at_s != UINT64_MAX && gmtime_r(&seconds, &utc))
        strftime(text, sizeof text, "%Y-%m-%d %H:%MZ", &utc);
    fputs(text, stdout);
}

static void print_rate(uint64_t bit_per_s, bool at_least)
{
    if (bit_per_s)
        printf("%s%sbit/s", at_least ? "at least " : "", SCALED(bit_per_s));
    else
        fputs("unknown", stdout);
}

static void print_rates(const struct autobuf_paths_entry *e)
{
    bool tx_at_least = e->flags & AUTOBUF_PATH_TX_AT_LEAST, rx_at_least = e->flags & AUTOBUF_PATH_RX_AT_LEAST;

    print_rate(e->tx_rate_bit_per_s, tx_at_least);
    if (e->rx_rate_bit_per_s == e->tx_rate_bit_per_s && rx_at_least == tx_at_least)
        return;
    fputs(" there, ", stdout);
    print_rate(e->rx_rate_bit_per_s, rx_at_least);
    fputs(" back", stdout);
}

static void print_line(const struct autobuf_paths_entry *e, const char *remote, const char *local, uint64_t now_s)
{
    printf("%s", remote);
    if (e->local.version)
        printf(" from %s", local);
    if (e->device[0])
        printf(" through %s", e->device);
    fputs(": ", stdout);
    print_rates(e);
    if (e->rtt_min_ns != AUTOBUF_NS_UNSET)
        printf(", %.3f ms", (double)e->rtt_min_ns / 1e6);
    printf(", %s on ", e->method == AUTOBUF_METHOD_GIVEN ? "given by hand"
                       : e->method                       ? autobuf_method_name(e->method)
                                                         : "unknown");
    print_time(e->learned_s);
    if (e->expires_s <= now_s) {
        fputs(", expired\n", stdout);
        return;
    }
    fputs(", expires ", stdout);
    print_time(e->expires_s);
    putchar('\n');
}

static void print_json(const struct autobuf_paths_entry *e, const char *remote, const char *local)
{
    putchar('{');
    json_string(stdout, "remote", remote);
    json_string(stdout, "local", e->local.version ? local : NULL);
    json_string(stdout, "device", e->device[0] ? e->device : NULL);
    json_string(stdout, "method", e->method ? autobuf_method_name(e->method) : "unknown");
    json_number(stdout, "rtt_min_ns", e->rtt_min_ns, e->rtt_min_ns == AUTOBUF_NS_UNSET);
    json_number(stdout, "rtt_median_ns", e->rtt_median_ns, e->rtt_median_ns == AUTOBUF_NS_UNSET);
    json_number(stdout, "tx_rate_bit_per_s", e->tx_rate_bit_per_s, !e->tx_rate_bit_per_s);
    json_number(stdout, "tx_rate_low_bit_per_s", e->tx_rate_low_bit_per_s, !e->tx_rate_low_bit_per_s);
    json_number(stdout, "tx_rate_high_bit_per_s", e->tx_rate_high_bit_per_s, !e->tx_rate_high_bit_per_s);
    json_number(stdout, "rx_rate_bit_per_s", e->rx_rate_bit_per_s, !e->rx_rate_bit_per_s);
    json_number(stdout, "rx_rate_low_bit_per_s", e->rx_rate_low_bit_per_s, !e->rx_rate_low_bit_per_s);
    json_number(stdout, "rx_rate_high_bit_per_s", e->rx_rate_high_bit_per_s, !e->rx_rate_high_bit_per_s);
    json_bool(stdout, "tx_at_least", e->flags & AUTOBUF_PATH_TX_AT_LEAST);
    json_bool(stdout, "rx_at_least", e->flags & AUTOBUF_PATH_RX_AT_LEAST);
    json_bool(stdout, "tx_echoed", e->flags & AUTOBUF_PATH_TX_ECHOED);
    json_bool(stdout, "rx_echoed", e->flags & AUTOBUF_PATH_RX_ECHOED);
    json_string(stdout, "tx_unsure", autobuf_unsure_name(e->tx_unsure));
    json_string(stdout, "rx_unsure", autobuf_unsure_name(e->rx_unsure));
    json_number(stdout, "packet_bytes", e->packet_bytes, !e->packet_bytes);
    json_number(stdout, "samples", e->samples, false);
    json_string(stdout, "bottleneck", autobuf_bottleneck_name(e->bottleneck));
    json_number(stdout, "learned_s", e->learned_s, false);
    json_number(stdout, "expires_s", e->expires_s, e->expires_s == UINT64_MAX);
    json_number(stdout, "tx_bdp_bytes", e->tx_bdp_bytes, !e->tx_bdp_bytes);
    printf("\"rx_bdp_bytes\":");
    if (e->rx_bdp_bytes)
        printf("%llu}", (unsigned long long)e->rx_bdp_bytes);
    else
        printf("null}");
}

static void print_entry(const struct autobuf_paths_entry *entry, bool json, uint64_t now_s)
{
    char remote[AUTOBUF_PREFIX_BYTES], local[AUTOBUF_PREFIX_BYTES];

    if (autobuf_prefix_print(&entry->remote, remote) < 0 || autobuf_prefix_print(&entry->local, local) < 0)
        return;
    if (json)
        print_json(entry, remote, local);
    else
        print_line(entry, remote, local, now_s);
}

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
        print_entry(&entry, json, now_s);
        first = false;
    }
    if (json)
        fputs("]}\n", stdout);
    if (damaged)
        fprintf(stderr, "autobuf: %llu damaged entries are left out\n", (unsigned long long)damaged);
    return EXIT_RESULT;
}

/* What the library finds: of what the host's store does not know, also in the user's own, unless one store is named. */
static int find(const struct arguments *want, const struct autobuf_paths *paths,
                const struct autobuf_paths_query *query, struct autobuf_paths_entry *entry)
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
    struct addrinfo *remote, *local = NULL;
    int error = resolve(want->operand, NULL, AF_UNSPEC, 0, &remote);

    if (error < 0) {
        fprintf(stderr, "autobuf: %s: %s\n", want->operand, resolve_strerror(error, want->operand, AF_UNSPEC));
        return EXIT_NOTHING;
    }
    if (want->from && resolve(want->from, NULL, AF_UNSPEC, AI_NUMERICHOST, &local) < 0)
        local = NULL;
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
    print_entry(&entry, want->json, now_s);
    if (want->json)
        putchar('\n');
    return EXIT_RESULT;
}

static int read_store(const struct arguments *want, uint64_t now_s)
{
    struct autobuf_paths *paths;
    int error = autobuf_paths_open(&paths, store_of(want));

    if (error < 0)
        return fail(want, error);
    error = want->action == PATHS_SHOW ? show(want, paths, now_s) : list(want, paths, now_s);
    autobuf_paths_close(paths);
    return error;
}

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

static int change_store(const struct arguments *want, struct paths_change *change, uint64_t now_s)
{
    int error = want->host ? prepare_host() : check_named(want);

    change->networks = want->host;
    if (error == 0)
        error = paths_store_change(store_of(want), change, now_s, 0);
    if (error == PATHS_SET_ASIDE) {
        const char *name = store_of(want) ? store_of(want) : ab_paths_own();

        fprintf(stderr, "autobuf: %s was damaged: it is %s.damaged now, and a new one was begun\n", name, name);
    }
    return error == PATHS_SET_ASIDE ? 0 : error;
}

static bool parse_prefix(const struct arguments *want, struct autobuf_prefix *prefix)
{
    bool good = autobuf_prefix_parse(want->operand, prefix) == 0;

    if (!good)
        fprintf(stderr, "autobuf: %s: it is no address and no prefix, or bits behind the prefix are set\n",
                want->operand);
    return good;
}

static int set(const struct arguments *want, uint64_t now_s)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct paths_change change = {.how = CHANGE_SET, .fresh = &entry, .count = 1};
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    uint8_t key[AB_PATHS_KEY_BYTES];
    int error;

    if (!parse_prefix(want, &entry.remote))
        return EXIT_NOTHING;
    if (want->from && autobuf_prefix_parse(want->from, &entry.local) < 0 &&
        ((size_t)snprintf(entry.device, sizeof entry.device, "%s", want->from) >= sizeof entry.device ||
         ab_paths_key(&entry, key) < 0)) {
        fprintf(stderr, "autobuf: --from %s: it is no prefix, and no name of an interface\n", want->from);
        return EXIT_NOTHING;
    }
    if (entry.local.version && entry.local.version != entry.remote.version) {
        fprintf(stderr, "autobuf: --from %s: one is IPv4, the other IPv6\n", want->from);
        return EXIT_NOTHING;
    }
    error = autobuf_path_given(&path, want->rate_bit_per_s, want->rtt_ns);
    if (error == 0)
        error = autobuf_paths_learn(&entry, &path);
    entry.learned_s = now_s;
    entry.expires_s = want->hours ? now_s + want->hours * S_PER_HOUR : UINT64_MAX;
    if (error == 0 && ab_paths_check(&entry) < 0) {
        fprintf(stderr, "autobuf: %s: a store takes no path that holds more than 1.1 TB\n", want->operand);
        return EXIT_NOTHING;
    }
    if (error == 0)
        error = change_store(want, &change, now_s);
    if (error == 0 && change.full) {
        fputs("autobuf: the store has 64 others of the same prefix\n", stderr);
        return EXIT_NOTHING;
    }
    return error < 0 ? fail(want, error) : EXIT_RESULT;
}

/* What it writes is to be read from *out. */
static int start_reader(const struct arguments *want, pid_t *child, FILE **out)
{
    char hours[40];
    char *operand = (char *)(uintptr_t)want->operand;
    char *arguments[] = {READER, want->exported ? "--exported" : hours, "--", operand, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], error;

    snprintf(hours, sizeof hours, "--hours=%llu", (unsigned long long)(want->hours ? want->hours : IMPORT_HOURS));
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *out = fdopen(ends[0], "r");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, nobody could tell how the reader ended */
    error = *out ? posix_spawnp(child, READER, &actions, NULL, arguments, environ) : ENOMEM;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error && *out)
        fclose(*out);
    return -error;
}

/* To its end, one message for each entry (autobuf_paths_entry_encode()). */
static int read_messages(FILE *from, struct paths_change *into)
{
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];
    size_t room = 0, bytes;

    while ((bytes = fread(message, 1, sizeof message, from)) > 0) {
        int error;

        if (!array_grow(&into->fresh, into->count, &room, sizeof *into->fresh))
            return -ENOMEM;
        into->fresh[into->count] = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
        error = ab_paths_entry_decode(message, (uint32_t)bytes, into->fresh + into->count++);
        if (error < 0)
            return error;
    }
    return ferror(from) ? -EIO : 0;
}

static int by_key(const void *a, const void *b)
{
    return ab_paths_compare(a, b);
}

/* Has want->operand read by what the Python package brings. The caller frees into->fresh, also after a failure. */
static int read_imported(const struct arguments *want, struct paths_change *into)
{
    FILE *from = NULL;
    pid_t child;
    int status = 0, error = start_reader(want, &child, &from);

    if (error < 0) {
        fprintf(stderr, "autobuf: " READER ": %s: the Python package has it (python3-autobuf, or python/ of the "
                        "sources, in PATH)\n", strerror(-error));
        return EXIT_NOTHING;
    }
    error = read_messages(from, into);
    fclose(from);
    if (waitpid(child, &status, 0) < 0)
        error = -errno;
    if (error < 0 || WIFSIGNALED(status))
        fprintf(stderr, "autobuf: " READER ": %s\n", error < 0 ? autobuf_strerror(error) : strsignal(WTERMSIG(status)));
    if (error < 0 || status != 0)
        return EXIT_NOTHING;
    if (into->count)
        qsort(into->fresh, into->count, sizeof *into->fresh, by_key);
    return EXIT_RESULT;
}

static int tell_imported(const struct arguments *want, const struct paths_change *change, uint64_t now_s)
{
    if (change->better)
        fprintf(stderr, "autobuf: %s: %llu left out: the store knows better\n", want->operand,
                (unsigned long long)change->better);
    if (change->full)
        fprintf(stderr, "autobuf: %s: %llu left out: the store has 64 others of the same prefix\n", want->operand,
                (unsigned long long)change->full);
    if (want->json)
        fputs("{\"paths\":[", stdout);
    for (size_t i = 0; i < change->count; i++) {
        if (want->json && i)
            putchar(',');
        print_entry(&change->fresh[i], want->json, now_s);
    }
    if (want->json)
        fputs("]}\n", stdout);
    return change->count ? EXIT_RESULT : EXIT_NOTHING;
}

static int import(const struct arguments *want, uint64_t now_s)
{
    struct paths_change change = {.how = CHANGE_IMPORT};
    int status = read_imported(want, &change);

    if (status == EXIT_RESULT) {
        int error = change_store(want, &change, now_s);

        status = error < 0 ? fail(want, error) : tell_imported(want, &change, now_s);
    }
    free(change.fresh);
    return status;
}

static int forget(const struct arguments *want, uint64_t now_s)
{
    struct autobuf_prefix prefix = {.version = 0};
    struct paths_change change = {.forget_all = want->all, .forget = want->all ? NULL : &prefix};
    int error;

    if (!want->all && !parse_prefix(want, &prefix))
        return EXIT_NOTHING;
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
        return read_store(want, now_s);
    }
}

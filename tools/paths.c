/* SPDX-License-Identifier: MIT */
#include "paths.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "print.h"
#include "privilege.h"

#define HOST_FOLDER "/var/lib/autobuf"
#define HOST_STORE HOST_FOLDER "/paths"
#define S_PER_HOUR 3600U

enum { DONE = 0, NOTHING = 1, NOT_PERMITTED = 3 };

static const char *store_of(const struct paths_request *want)
{
    return want->host ? HOST_STORE : want->store;
}

static int fail(const struct paths_request *want, int error)
{
    const char *store = store_of(want);

    if (error == -ENOENT && !store)
        fprintf(stderr, "autobuf: there is no path store yet\n");
    else
        fprintf(stderr, "autobuf: %s: %s\n", store ? store : "the path store", autobuf_strerror(error));
    return error == -EPERM || error == -EACCES ? NOT_PERMITTED : NOTHING;
}

/* ---------------------------------------------------------------------------------- printing */

static const char *method_name(uint32_t method)
{
    static const char *const names[] = {
        [AUTOBUF_METHOD_ICMP] = "icmp", [AUTOBUF_METHOD_GIVEN] = "given", [AUTOBUF_METHOD_INBAND] = "inband"};

    return method && method < sizeof names / sizeof *names ? names[method] : "unknown";
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

static void print_line(const struct autobuf_paths_entry *e, const char *remote, const char *local, uint64_t now_s)
{
    printf("%s", remote);
    if (e->local.version)
        printf(" from %s", local);
    if (e->device[0])
        printf(" through %s", e->device);
    printf(": %.1f Mbit/s", (double)e->tx_rate_bit_per_s / 1e6);
    if (e->rx_rate_bit_per_s != e->tx_rate_bit_per_s)
        printf(" there, %.1f Mbit/s back", (double)e->rx_rate_bit_per_s / 1e6);
    if (e->rtt_min_ns != AUTOBUF_NS_UNSET)
        printf(", %.3f ms", (double)e->rtt_min_ns / 1e6);
    printf(", %s of ", method_name(e->method));
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
    json_string(stdout, "method", method_name(e->method));
    json_number(stdout, "rtt_min_ns", e->rtt_min_ns, e->rtt_min_ns == AUTOBUF_NS_UNSET);
    json_number(stdout, "tx_rate_bit_per_s", e->tx_rate_bit_per_s, !e->tx_rate_bit_per_s);
    json_number(stdout, "tx_rate_low_bit_per_s", e->tx_rate_low_bit_per_s, !e->tx_rate_low_bit_per_s);
    json_number(stdout, "tx_rate_high_bit_per_s", e->tx_rate_high_bit_per_s, !e->tx_rate_high_bit_per_s);
    json_number(stdout, "rx_rate_bit_per_s", e->rx_rate_bit_per_s, !e->rx_rate_bit_per_s);
    json_number(stdout, "rx_rate_low_bit_per_s", e->rx_rate_low_bit_per_s, !e->rx_rate_low_bit_per_s);
    json_number(stdout, "rx_rate_high_bit_per_s", e->rx_rate_high_bit_per_s, !e->rx_rate_high_bit_per_s);
    json_number(stdout, "samples", e->samples, false);
    json_string(stdout, "limiter", autobuf_limiter_name(e->limiter));
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

/* ----------------------------------------------------------------------------------- reading */

static int list(const struct paths_request *want, const struct autobuf_paths *paths, uint64_t now_s)
{
    uint64_t damaged = 0;
    bool first = true;

    if (want->json)
        fputs("{\"paths\":[", stdout);
    for (uint64_t at = 0; at < autobuf_paths_count(paths); at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (autobuf_paths_at(paths, at, &entry) < 0) {
            damaged++;
            continue;
        }
        if (want->json && !first)
            putchar(',');
        print_entry(&entry, want->json, now_s);
        first = false;
    }
    if (want->json)
        fputs("]}\n", stdout);
    if (damaged)
        fprintf(stderr, "autobuf: %llu damaged entries are left out\n", (unsigned long long)damaged);
    return DONE;
}

/* One address of a name; NULL: it has none. wanted: AI_* flags. */
static struct addrinfo *address_of(const char *name, int wanted, int *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = wanted}, *found = NULL;

    *error = getaddrinfo(name, NULL, &hints, &found);
    return *error ? NULL : found;
}

/* What a program here would find for this peer, as far as the local side is known. */
static int show(const struct paths_request *want, const struct autobuf_paths *paths, uint64_t now_s)
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
        return NOTHING;
    }
    query.remote = remote->ai_addr;
    query.remote_len = (uint32_t)remote->ai_addrlen;
    query.local = local ? local->ai_addr : NULL;
    query.local_len = local ? (uint32_t)local->ai_addrlen : 0;
    query.device = local ? NULL : want->from;
    query.now_s = now_s;
    error = autobuf_paths_find(paths, &query, &entry);
    freeaddrinfo(remote);
    if (local)
        freeaddrinfo(local);
    if (error < 0) {
        fprintf(stderr, "autobuf: %s: nothing is known of the path\n", want->operand);
        return NOTHING;
    }
    print_entry(&entry, want->json, now_s);
    if (want->json)
        putchar('\n');
    return DONE;
}

static int look(const struct paths_request *want, uint64_t now_s)
{
    struct autobuf_paths *paths;
    int error = autobuf_paths_open(&paths, store_of(want));

    if (error < 0)
        return fail(want, error);
    error = want->action == PATHS_LIST ? list(want, paths, now_s) : show(want, paths, now_s);
    autobuf_paths_close(paths);
    return error;
}

/* ----------------------------------------------------------------------------------- writing */

static int set(const struct paths_request *want, uint64_t now_s)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int error = autobuf_prefix_parse(want->operand, &entry.remote);

    if (error < 0) {
        fprintf(stderr, "autobuf: %s: it is no address and no prefix, or bits behind the prefix are set\n", want->operand);
        return NOTHING;
    }
    if (want->from && autobuf_prefix_parse(want->from, &entry.local) < 0 && strlen(want->from) >= sizeof entry.device) {
        fprintf(stderr, "autobuf: --from %s: it is no prefix, and too long for an interface\n", want->from);
        return NOTHING;
    }
    if (want->from && !entry.local.version)
        snprintf(entry.device, sizeof entry.device, "%s", want->from);
    error = autobuf_path_given(&path, want->rate_bit_per_s, want->rtt_ns);
    if (error == 0)
        error = autobuf_paths_learn(&entry, &path);
    entry.learned_s = now_s;
    entry.expires_s = want->hours ? now_s + want->hours * S_PER_HOUR : UINT64_MAX;
    if (error == 0 && want->host && mkdir(HOST_FOLDER, 0755) < 0 && errno != EEXIST)
        error = -errno;
    if (error == 0)
        error = autobuf_paths_keep(store_of(want), &entry, now_s, 0);
    return error < 0 ? fail(want, error) : DONE;
}

static bool is_forgotten(const struct autobuf_paths_entry *entry, const struct autobuf_prefix *prefix, bool all)
{
    return all || (entry->remote.version == prefix->version && entry->remote.bits == prefix->bits &&
                   memcmp(entry->remote.address, prefix->address, sizeof prefix->address) == 0);
}

/* Copies the old store without what is to be forgotten, and counts that. */
static int copy_without(struct autobuf_paths_writer *writer, const struct autobuf_paths *old,
                        const struct autobuf_prefix *prefix, bool all, unsigned *forgotten)
{
    int error = 0;

    for (uint64_t at = 0; at < autobuf_paths_count(old) && error == 0; at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        if (autobuf_paths_at(old, at, &entry) < 0)
            continue;
        if (is_forgotten(&entry, prefix, all))
            ++*forgotten;
        else
            error = autobuf_paths_add(writer, &entry);
    }
    return error;
}

static int forget(const struct paths_request *want)
{
    const char *store = store_of(want) ? store_of(want) : autobuf_paths_own();
    struct autobuf_paths_writer *writer = NULL;
    struct autobuf_prefix prefix = {.version = 0};
    struct autobuf_paths *old = NULL;
    unsigned forgotten = 0;
    int error;

    if (!want->all && autobuf_prefix_parse(want->operand, &prefix) < 0) {
        fprintf(stderr, "autobuf: %s: it is no address and no prefix, or bits behind the prefix are set\n", want->operand);
        return NOTHING;
    }
    error = store ? autobuf_paths_write(&writer, store, 0) : -ENOENT;
    if (error == 0)
        error = autobuf_paths_open(&old, store);
    if (error == 0)
        error = copy_without(writer, old, &prefix, want->all, &forgotten);
    autobuf_paths_close(old);
    if (error == 0 && (forgotten || want->all))
        error = autobuf_paths_commit(writer);
    else
        autobuf_paths_abort(writer);
    if (error < 0)
        return fail(want, error);
    if (!forgotten && !want->all)
        fprintf(stderr, "autobuf: %s: it is not in the store\n", want->operand);
    return forgotten || want->all ? DONE : NOTHING;
}

int paths_run(const struct paths_request *want)
{
    uint64_t now_s = (uint64_t)time(NULL);
    int error = getuid() ? drop_privileges() : 0; /* for files, root needs what it has */

    if (error < 0)
        return fail(want, error);
    switch (want->action) {
    case PATHS_SET:
        return set(want, now_s);
    case PATHS_FORGET:
        return forget(want);
    default:
        return look(want, now_s);
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * What it costs to publish a path store of so many hosts from its database. Each prints a line of JSON; times are
 * nanoseconds:
 *
 *   database_cost fill FILE ENTRIES ROUTES       fills FILE.db. Hosts are in groups of 8 to a /24; ROUTES is how many
 *                                                different paths lead to those of one network: with 1 they agree
 *   database_cost publish FILE ENTRIES ROUTES    writes FILE from FILE.db; and FILE.alone, the same hosts, without it
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "database.h"

#define GROUP 8U     /* hosts of a network */
#define OBSERVED 200U

static struct autobuf_paths_entry host(uint32_t number, uint32_t routes)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    uint32_t address = htonl((number / GROUP << 8) + number % GROUP);

    entry.remote.version = 4;
    entry.remote.bits = 32;
    memcpy(entry.remote.address, &address, sizeof address);
    entry.method = AUTOBUF_METHOD_ICMP;
    entry.rtt_min_ns = 10000000ULL << number % routes;
    entry.tx_rate_bit_per_s = 1000000000;
    return entry;
}

/* Of this program alone: ru_maxrss knows also what was before exec(). */
static uint64_t most_memory_bytes(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    unsigned long long kilobytes = 0;
    char line[128];

    while (status && fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %llu", &kilobytes) != 1)
        ;
    if (status)
        fclose(status);
    return kilobytes * 1024;
}

static uint64_t cpu_ns(void)
{
    struct timespec used;

    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0 ? (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec : 0;
}

static int write_without(const char *store, uint32_t count, uint32_t routes)
{
    struct autobuf_paths_writer *writer;
    int error = autobuf_paths_write(&writer, store, 0);

    for (uint32_t i = 0; i < count && error == 0; i++) {
        struct autobuf_paths_entry entry = host(i, routes);

        error = autobuf_paths_add(writer, &entry);
    }
    return error == 0 ? autobuf_paths_commit(writer) : error;
}

/* One transaction for all, as `autobuf paths import` does it. */
static int fill(struct database *db, uint32_t count, uint32_t routes)
{
    struct autobuf_paths_entry *entries = calloc(count, sizeof *entries);
    struct paths_left_out left;
    size_t all = count;
    int error;

    if (!entries)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        entries[i] = host(i, routes);
    error = database_import(db, entries, &all, 1, &left);
    free(entries);
    return error;
}

static int observe(struct database *db, uint32_t count, uint32_t routes)
{
    int error = 0;

    for (uint32_t i = 0; i < OBSERVED && error == 0; i++) {
        struct autobuf_paths_entry entry = host(i * (count / OBSERVED + 1) % count, routes);

        error = database_observe(db, &entry);
    }
    return error;
}

static int run_fill(const char *file, uint32_t count, uint32_t routes)
{
    struct database *db;
    int error = database_open(&db, file, 0);
    uint64_t began = autobuf_now_ns(), import_ns;

    if (error == 0)
        error = fill(db, count, routes);
    import_ns = autobuf_now_ns() - began;
    began = autobuf_now_ns();
    if (error == 0)
        error = observe(db, count, routes);
    if (error == 0)
        printf("{\"import_ns\":%llu,\"observe_ns\":%llu}\n", (unsigned long long)import_ns,
               (unsigned long long)((autobuf_now_ns() - began) / OBSERVED));
    database_close(db);
    return error;
}

static int run_publish(const char *file, uint32_t count, uint32_t routes)
{
    uint64_t alone_cpu_ns = cpu_ns(), began, publish_ns, publish_cpu_ns;
    struct autobuf_paths *paths = NULL;
    struct database *db = NULL;
    char alone[4096];
    int error = snprintf(alone, sizeof alone, "%s.alone", file) < (int)sizeof alone ? write_without(alone, count, routes) : -1;

    alone_cpu_ns = cpu_ns() - alone_cpu_ns;
    if (error == 0)
        error = database_open(&db, file, 0);
    began = autobuf_now_ns();
    publish_cpu_ns = cpu_ns();
    if (error == 0)
        error = database_publish(db, 1);
    publish_ns = autobuf_now_ns() - began;
    publish_cpu_ns = cpu_ns() - publish_cpu_ns;
    database_close(db);
    if (error == 0)
        error = autobuf_paths_open(&paths, file);
    if (error == 0)
        printf("{\"entries\":%llu,\"publish_ns\":%llu,\"publish_cpu_ns\":%llu,\"alone_cpu_ns\":%llu,\"memory_bytes\":%llu}\n",
               (unsigned long long)autobuf_paths_count(paths), (unsigned long long)publish_ns, (unsigned long long)publish_cpu_ns,
               (unsigned long long)alone_cpu_ns, (unsigned long long)most_memory_bytes());
    autobuf_paths_close(paths);
    return error;
}

int main(int argc, char **argv)
{
    uint32_t count = argc == 5 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    uint32_t routes = argc == 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    int error;

    if (!count || !routes || (strcmp(argv[1], "fill") != 0 && strcmp(argv[1], "publish") != 0)) {
        fputs("usage: database_cost fill|publish FILE ENTRIES ROUTES\n", stderr);
        return 2;
    }
    error = strcmp(argv[1], "fill") == 0 ? run_fill(argv[2], count, routes) : run_publish(argv[2], count, routes);
    if (error != 0)
        fprintf(stderr, "database_cost: %s\n", autobuf_strerror(error));
    return error != 0;
}

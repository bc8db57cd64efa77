/* SPDX-License-Identifier: MIT */
/*
 * What it costs to change the host's path store: change_cost FILE ENTRIES ROUTES. Makes FILE, then
 * adds what the daemon learned of 64 hosts, as the daemon does. Prints a line of JSON; times are
 * nanoseconds.
 *
 * Hosts are in groups of 8 to a /24. ROUTES is how many different paths lead to those of one
 * network: with 1 they agree.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "paths/store.h"
#include "daemon/keep.h"
#include "paths_store.h"

#define GROUP 8U /* hosts of a network */

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

static uint64_t cpu_ns(void)
{
    struct timespec used;

    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0
               ? (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec
               : 0;
}

static int write_new(const char *store, uint32_t count, uint32_t routes)
{
    struct ab_paths_writer *writer;
    int error = ab_paths_write(&writer, store, 0);

    for (uint32_t i = 0; i < count && error == 0; i++) {
        struct autobuf_paths_entry entry = host(i, routes);

        error = ab_paths_add(writer, &entry);
    }
    return error == 0 ? ab_paths_commit(writer) : error;
}

static int observe(const char *store, uint32_t count, uint32_t routes)
{
    struct autobuf_paths_entry fresh[KEEP_MOST];
    struct paths_change change = {
        .how = CHANGE_OBSERVE, .fresh = fresh, .count = KEEP_MOST, .networks = true};

    for (uint32_t i = 0; i < KEEP_MOST; i++)
        fresh[i] = host((uint32_t)((uint64_t)i * count / KEEP_MOST), routes);
    return paths_store_change(store, &change, 1, AUTOBUF_PATHS_NO_SYNC);
}

int main(int argc, char **argv)
{
    uint32_t count = argc == 4 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    uint32_t routes = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    uint64_t new_cpu_ns = cpu_ns(), began, change_cpu_ns;
    struct autobuf_paths *paths = NULL;
    int error;

    if (count < KEEP_MOST || !routes) {
        fprintf(stderr, "usage: change_cost FILE ENTRIES ROUTES, of at least %u entries\n",
                KEEP_MOST);
        return 2;
    }
    error = write_new(argv[1], count, routes);
    new_cpu_ns = cpu_ns() - new_cpu_ns;
    began = autobuf_now_ns();
    change_cpu_ns = cpu_ns();
    if (error == 0)
        error = observe(argv[1], count, routes);
    change_cpu_ns = cpu_ns() - change_cpu_ns;
    began = autobuf_now_ns() - began;
    if (error == 0)
        error = autobuf_paths_open(&paths, argv[1]);
    if (error == 0)
        printf("{\"entries\":%llu,\"change_ns\":%llu,\"change_cpu_ns\":%llu,\"new_cpu_ns\":%llu}\n",
               (unsigned long long)ab_paths_count(paths), (unsigned long long)began,
               (unsigned long long)change_cpu_ns, (unsigned long long)new_cpu_ns);
    else
        fprintf(stderr, "change_cost: %s\n", autobuf_strerror(error));
    autobuf_paths_close(paths);
    return error != 0;
}

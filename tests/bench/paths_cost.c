/* SPDX-License-Identifier: MIT */
/*
 * What a path store of so many entries costs: paths_cost FILE ENTRIES. Prints a line of JSON. Times are nanoseconds.
 * Prefixes of /16, /24 and /32 are spread over all of IPv4, so a lookup searches three lengths.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "paths/store.h"

#define LOOKUPS 200000U
#define OPENINGS 1000U

static uint64_t times_ns[LOOKUPS];

static uint32_t random_address(void)
{
    static uint64_t state = 88172645463325252ULL;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The share that each length has: of /16 there are no more than 65,536. */
static int write_store(const char *file, uint64_t entries)
{
    struct ab_paths_writer *writer;
    int error = ab_paths_write(&writer, file, 0);
    uint64_t left = entries;

    for (uint32_t bits = 16; error == 0 && bits <= 32; bits += 8) {
        uint64_t all = 1ULL << bits, count = left / (bits == 16 ? 3 : bits == 24 ? 2 : 1);

        if (count > all)
            count = all;
        left -= count;
        for (uint64_t i = 0; i < count && error == 0; i++) {
            struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
            uint32_t address = htonl((uint32_t)(i * (all / count) << (32 - bits)));

            entry.remote.version = 4;
            entry.remote.bits = bits;
            memcpy(entry.remote.address, &address, sizeof address);
            entry.tx_rate_bit_per_s = 1000000000;
            error = ab_paths_add(writer, &entry);
        }
    }
    return error == 0 ? ab_paths_commit(writer) : error;
}

/* Returns 1 if something is known of the peer. */
static int look_up(const struct autobuf_paths *paths)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr = {random_address()}};
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

    query.remote = (const struct sockaddr *)&peer;
    query.remote_len = sizeof peer;
    return autobuf_paths_find(paths, &query, &entry) == 0;
}

/* As a program does that opens one connection: opens the store, looks up, closes it. And, to compare: a socket. */
static void time_openings(const char *file, uint64_t *store_ns, uint64_t *socket_ns)
{
    uint64_t began = autobuf_now_ns();

    for (unsigned i = 0; i < OPENINGS; i++) {
        struct autobuf_paths *paths;

        if (autobuf_paths_open(&paths, file) == 0)
            look_up(paths);
        autobuf_paths_close(paths);
    }
    *store_ns = (autobuf_now_ns() - began) / OPENINGS;
    began = autobuf_now_ns();
    for (unsigned i = 0; i < OPENINGS; i++)
        close(socket(AF_INET, SOCK_STREAM, 0));
    *socket_ns = (autobuf_now_ns() - began) / OPENINGS;
}

int main(int argc, char **argv)
{
    uint64_t began = autobuf_now_ns(), write_ns, store_ns, socket_ns;
    struct autobuf_paths *paths;
    unsigned found = 0;
    int error = argc == 3 ? write_store(argv[1], strtoull(argv[2], NULL, 10)) : -1;

    write_ns = autobuf_now_ns() - began;
    if (error == 0)
        error = autobuf_paths_open(&paths, argv[1]);
    if (error < 0) {
        fprintf(stderr, "paths_cost: %s\n", argc == 3 ? autobuf_strerror(error) : "usage: paths_cost FILE ENTRIES");
        return 1;
    }
    for (unsigned i = 0; i < LOOKUPS; i++) {
        began = autobuf_now_ns();
        found += (unsigned)look_up(paths);
        times_ns[i] = autobuf_now_ns() - began;
    }
    qsort(times_ns, LOOKUPS, sizeof *times_ns, by_size);
    time_openings(argv[1], &store_ns, &socket_ns);
    printf("{\"entries\":%llu,\"write_ns\":%llu,\"found\":%.3f,\"median_ns\":%llu,\"p99_ns\":%llu,\"most_ns\":%llu,"
           "\"open_ns\":%llu,\"socket_ns\":%llu}\n",
           (unsigned long long)ab_paths_count(paths), (unsigned long long)write_ns, (double)found / LOOKUPS,
           (unsigned long long)times_ns[LOOKUPS / 2], (unsigned long long)times_ns[LOOKUPS / 100 * 99],
           (unsigned long long)times_ns[LOOKUPS - 1], (unsigned long long)store_ns, (unsigned long long)socket_ns);
    autobuf_paths_close(paths);
    return 0;
}

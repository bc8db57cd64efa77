/* SPDX-License-Identifier: MIT */
#include "database_publish.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "database_file.h"
#include "database_row.h"
#include "neighbours.h"

/* The rows of one version of IP with prefixes of such lengths, in the store's order; when expired, only those set by hand. */
#define ROWS                                                                                                 \
    "SELECT " DATABASE_COLUMNS " FROM path WHERE version=?1 AND bits>=?2 AND bits<=?3 "                      \
    "AND (expires_s IS NULL OR expires_s>?4 OR method=?5) "                                                  \
    "ORDER BY version, bits, address, device='', local_bits DESC, local_address, device"

/* Such a row of that length and with an address from here to there, but of shorter prefixes than ?5 only one set by hand. */
#define CLAIM                                                                                                \
    "SELECT 1 FROM path WHERE version=?1 AND bits=?2 AND address>=?3 AND address<=?4 AND (bits>=?5 OR method=?6) " \
    "AND (expires_s IS NULL OR expires_s>?7 OR method=?6) LIMIT 1"

/* One version of IP. */
struct family {
    uint32_t version, network_bits, host_bits;
};

static const struct family families[] = {{4, NEIGHBOURS_BITS_V4, 32}, {6, NEIGHBOURS_BITS_V6, 128}};

struct publication {
    sqlite3 *sql;
    struct autobuf_paths_writer *writer;
    sqlite3_stmt *claim;
    uint64_t now_s;
    bool occurs[129]; /* which lengths of prefixes there are, of the version in work */
};

/* --------------------------------------------------------------------------------------- rows */

/* Rows one after the other. */
struct rows {
    sqlite3 *sql;
    sqlite3_stmt *statement;
    struct autobuf_paths_entry next; /* unless done */
    bool done;
};

/* Goes on to the next row that is an entry. */
static int step(struct rows *rows)
{
    int result;

    while ((result = sqlite3_step(rows->statement)) == SQLITE_ROW)
        if (database_row_read(rows->statement, &rows->next) == 0)
            return 0;
    rows->done = true;
    return database_file_error(rows->sql, result);
}

static int begin(struct rows *rows, const struct publication *p, uint32_t version, uint32_t least_bits, uint32_t most_bits)
{
    const uint64_t values[] = {version, least_bits, most_bits, p->now_s & INT64_MAX, AUTOBUF_METHOD_GIVEN};
    int result = sqlite3_prepare_v2(p->sql, ROWS, -1, &rows->statement, NULL);

    rows->sql = p->sql;
    rows->done = false;
    for (int at = 1; at <= 5 && result == SQLITE_OK; at++)
        result = sqlite3_bind_int64(rows->statement, at, (sqlite3_int64)values[at - 1]);
    return result == SQLITE_OK ? step(rows) : database_file_error(p->sql, result);
}

/* What a store does not take is left out: too many with one prefix, or more entries than it holds. */
static int add(struct autobuf_paths_writer *writer, const struct autobuf_paths_entry *entry)
{
    int error = autobuf_paths_add(writer, entry);

    return error == -E2BIG ? 0 : error;
}

static int copy(struct publication *p, uint32_t version, uint32_t least_bits, uint32_t most_bits)
{
    struct rows rows;
    int error = begin(&rows, p, version, least_bits, most_bits);

    while (error == 0 && !rows.done) {
        error = add(p->writer, &rows.next);
        if (error == 0)
            error = step(&rows);
    }
    sqlite3_finalize(rows.statement);
    return error;
}

/* ---------------------------------------------------------------------------------- neighbours */

/* The hosts of one network after the other. */
struct hosts {
    struct rows rows;
    struct autobuf_prefix prefix; /* of the network */
    size_t count;
    bool agree; /* then network and agrees[] are set */
    struct autobuf_paths_entry network;
    bool agrees[NEIGHBOURS_MOST];
    struct autobuf_paths_entry entries[NEIGHBOURS_MOST];
};

static void mask(uint8_t address[16], uint32_t bits, uint8_t fill)
{
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t left = bits > 8 * i ? bits - 8 * i : 0;
        uint8_t behind = (uint8_t)(left < 8 ? 0xffU >> left : 0);

        address[i] = (uint8_t)((address[i] & ~behind) | (fill & behind));
    }
}

/* Whether a row says something of all of this network by hand, or something of a part of it. */
static int is_claimed(struct publication *p, const struct family *family, const struct autobuf_prefix *network)
{
    int claimed = 0;

    for (uint32_t bits = 0; bits < family->host_bits && claimed == 0; bits++) {
        const uint64_t values[] = {family->version, bits, 0, 0, family->network_bits, AUTOBUF_METHOD_GIVEN,
                                   p->now_s & INT64_MAX};
        uint8_t least[16], most[16];
        int result = SQLITE_OK, bytes = (int)family->host_bits / 8;

        if (!p->occurs[bits])
            continue;
        memcpy(least, network->address, sizeof least);
        memcpy(most, network->address, sizeof most);
        mask(least, bits < network->bits ? bits : network->bits, 0);
        mask(most, bits < network->bits ? bits : network->bits, bits < network->bits ? 0 : 0xff);
        for (int at = 1; at <= 7 && result == SQLITE_OK; at++)
            result = at == 3 || at == 4 ? sqlite3_bind_blob(p->claim, at, at == 3 ? least : most, bytes, SQLITE_TRANSIENT)
                                        : sqlite3_bind_int64(p->claim, at, (sqlite3_int64)values[at - 1]);
        if (result == SQLITE_OK)
            result = sqlite3_step(p->claim);
        claimed = result == SQLITE_ROW ? 1 : database_file_error(p->sql, result);
        sqlite3_reset(p->claim);
    }
    return claimed;
}

static bool is_in(const struct autobuf_prefix *host, const struct autobuf_prefix *network)
{
    struct autobuf_prefix of;

    return neighbours_network(host, &of) && memcmp(of.address, network->address, sizeof of.address) == 0;
}

/* Gathers the hosts of the next network, of a very large one the first; what comes of it later agrees with nothing. */
static int next_network(struct publication *p, const struct family *family, struct hosts *hosts)
{
    bool again = hosts->count && is_in(&hosts->rows.next.remote, &hosts->prefix);
    int error = 0;

    hosts->count = 0;
    (void)neighbours_network(&hosts->rows.next.remote, &hosts->prefix);
    while (error == 0 && !hosts->rows.done && hosts->count < NEIGHBOURS_MOST && is_in(&hosts->rows.next.remote, &hosts->prefix)) {
        hosts->entries[hosts->count++] = hosts->rows.next;
        error = step(&hosts->rows);
    }
    hosts->agree = error == 0 && !again && neighbours_agree(hosts->entries, hosts->count, p->now_s, &hosts->network, hosts->agrees);
    if (hosts->agree) {
        error = is_claimed(p, family, &hosts->prefix);
        hosts->agree = error == 0;
    }
    return error > 0 ? 0 : error;
}

/* The rows of whole networks, and between them what hosts have in common. */
static int add_networks(struct publication *p, const struct family *family, struct hosts *hosts)
{
    struct rows rows;
    int error = begin(&rows, p, family->version, family->network_bits, family->network_bits);

    hosts->count = 0;
    while (error == 0 && !hosts->rows.done) {
        error = next_network(p, family, hosts);
        if (error < 0 || !hosts->agree)
            continue;
        while (error == 0 && !rows.done && autobuf_paths_compare(&rows.next, &hosts->network) < 0) {
            error = add(p->writer, &rows.next);
            if (error == 0)
                error = step(&rows);
        }
        if (error == 0)
            error = add(p->writer, &hosts->network);
    }
    while (error == 0 && !rows.done) {
        error = add(p->writer, &rows.next);
        if (error == 0)
            error = step(&rows);
    }
    sqlite3_finalize(rows.statement);
    return error;
}

/* The hosts of which their network's entry does not tell. */
static int add_hosts(struct publication *p, const struct family *family, struct hosts *hosts)
{
    int error = 0;

    hosts->count = 0;
    while (error == 0 && !hosts->rows.done) {
        error = next_network(p, family, hosts);
        for (size_t i = 0; i < hosts->count && error == 0; i++)
            if (!hosts->agree || !hosts->agrees[i])
                error = add(p->writer, hosts->entries + i);
    }
    return error;
}

static int each_host(struct publication *p, const struct family *family,
                     int (*act)(struct publication *p, const struct family *family, struct hosts *hosts))
{
    struct hosts *hosts = calloc(1, sizeof *hosts);
    int error = hosts ? begin(&hosts->rows, p, family->version, family->host_bits, family->host_bits) : -ENOMEM;

    if (error == 0)
        error = act(p, family, hosts);
    if (hosts)
        sqlite3_finalize(hosts->rows.statement);
    free(hosts);
    return error;
}

/* ----------------------------------------------------------------------------------- the whole */

static int find_lengths(struct publication *p, const struct family *family)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(p->sql, "SELECT 1 FROM path WHERE version=?1 AND bits=?2 LIMIT 1", -1, &statement, NULL);

    for (uint32_t bits = 0; bits < family->host_bits && result == SQLITE_OK; bits++) {
        result = sqlite3_bind_int64(statement, 1, family->version);
        if (result == SQLITE_OK)
            result = sqlite3_bind_int64(statement, 2, bits);
        if (result == SQLITE_OK)
            result = sqlite3_step(statement);
        p->occurs[bits] = result == SQLITE_ROW;
        if (result == SQLITE_ROW || result == SQLITE_DONE)
            result = sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return database_file_error(p->sql, result);
}

static int publish_family(struct publication *p, const struct family *family)
{
    int error = find_lengths(p, family);

    if (error == 0)
        error = copy(p, family->version, 0, family->network_bits - 1);
    if (error == 0)
        error = each_host(p, family, add_networks);
    if (error == 0)
        error = copy(p, family->version, family->network_bits + 1, family->host_bits - 1);
    return error == 0 ? each_host(p, family, add_hosts) : error;
}

int database_publish_rows(sqlite3 *sql, struct autobuf_paths_writer *writer, uint64_t now_s)
{
    struct publication p = {.sql = sql, .writer = writer, .now_s = now_s};
    int error = database_file_error(sql, sqlite3_prepare_v2(sql, CLAIM, -1, &p.claim, NULL));

    for (size_t i = 0; i < sizeof families / sizeof *families && error == 0; i++)
        error = publish_family(&p, families + i);
    sqlite3_finalize(p.claim);
    return error;
}

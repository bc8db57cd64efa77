/* SPDX-License-Identifier: MIT */
#include "database_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define NO_LOCAL_BITS (-1) /* an entry for all local addresses: behind all local prefixes */

static const size_t small[] = {
    offsetof(struct autobuf_paths_entry, method),       offsetof(struct autobuf_paths_entry, flags),
    offsetof(struct autobuf_paths_entry, limiter),      offsetof(struct autobuf_paths_entry, samples),
    offsetof(struct autobuf_paths_entry, packet_bytes), offsetof(struct autobuf_paths_entry, tx_unsure),
    offsetof(struct autobuf_paths_entry, rx_unsure),
};
#define SMALL ((int)(sizeof small / sizeof *small))

static const size_t large[] = {
    offsetof(struct autobuf_paths_entry, rtt_min_ns),
    offsetof(struct autobuf_paths_entry, rtt_median_ns),
    offsetof(struct autobuf_paths_entry, tx_rate_bit_per_s),
    offsetof(struct autobuf_paths_entry, tx_rate_low_bit_per_s),
    offsetof(struct autobuf_paths_entry, tx_rate_high_bit_per_s),
    offsetof(struct autobuf_paths_entry, rx_rate_bit_per_s),
    offsetof(struct autobuf_paths_entry, rx_rate_low_bit_per_s),
    offsetof(struct autobuf_paths_entry, rx_rate_high_bit_per_s),
    offsetof(struct autobuf_paths_entry, tx_bdp_bytes),
    offsetof(struct autobuf_paths_entry, rx_bdp_bytes),
    offsetof(struct autobuf_paths_entry, learned_s),
    offsetof(struct autobuf_paths_entry, expires_s),
};
#define LARGE ((int)(sizeof large / sizeof *large))

_Static_assert(DATABASE_KEY_COLUMNS + SMALL + LARGE == DATABASE_ALL_COLUMNS, "columns");

static int address_bytes(uint32_t version)
{
    return version == 4 ? 4 : version == 6 ? 16 : 0;
}

/* ------------------------------------------------------------------------------------ writing */

int database_row_bind_prefix(sqlite3_stmt *statement, const struct autobuf_prefix *remote)
{
    int result = sqlite3_bind_int64(statement, 1, remote->version);

    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 2, remote->bits);
    if (result == SQLITE_OK)
        result = sqlite3_bind_blob(statement, 3, remote->address, address_bytes(remote->version), SQLITE_TRANSIENT);
    return result;
}

int database_row_bind_key(sqlite3_stmt *statement, const struct autobuf_paths_entry *e)
{
    int result = database_row_bind_prefix(statement, &e->remote);

    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 4, e->device, (int)strnlen(e->device, sizeof e->device), SQLITE_TRANSIENT);
    if (result == SQLITE_OK)
        result = sqlite3_bind_int64(statement, 5, e->local.version ? (int)e->local.bits : NO_LOCAL_BITS);
    if (result == SQLITE_OK)
        result = sqlite3_bind_blob(statement, 6, e->local.address, address_bytes(e->local.version), SQLITE_TRANSIENT);
    return result;
}

int database_row_bind(sqlite3_stmt *statement, const struct autobuf_paths_entry *e)
{
    int result = database_row_bind_key(statement, e), at = DATABASE_KEY_COLUMNS + 1;

    for (int i = 0; i < SMALL && result == SQLITE_OK; i++) {
        uint32_t value;

        memcpy(&value, (const char *)e + small[i], sizeof value);
        result = sqlite3_bind_int64(statement, at++, value);
    }
    for (int i = 0; i < LARGE && result == SQLITE_OK; i++) {
        uint64_t value;

        memcpy(&value, (const char *)e + large[i], sizeof value);
        result = value > INT64_MAX ? sqlite3_bind_null(statement, at++)
                                   : sqlite3_bind_int64(statement, at++, (sqlite3_int64)value);
    }
    return result;
}

/* ------------------------------------------------------------------------------------ reading */

/* A column of bytes, exactly so many. */
static int read_bytes(sqlite3_stmt *statement, int column, uint8_t *into, int bytes)
{
    if (sqlite3_column_type(statement, column) != SQLITE_BLOB || sqlite3_column_bytes(statement, column) != bytes)
        return AUTOBUF_E_DAMAGED;
    if (bytes)
        memcpy(into, sqlite3_column_blob(statement, column), (size_t)bytes);
    return 0;
}

static int read_device(sqlite3_stmt *statement, int column, char device[AUTOBUF_INTERFACE_BYTES])
{
    const unsigned char *text = sqlite3_column_type(statement, column) == SQLITE_TEXT
                                    ? sqlite3_column_text(statement, column)
                                    : NULL;
    int bytes = text ? sqlite3_column_bytes(statement, column) : 0;

    if (!text || bytes >= (int)AUTOBUF_INTERFACE_BYTES || memchr(text, '\0', (size_t)bytes))
        return AUTOBUF_E_DAMAGED;
    memcpy(device, text, (size_t)bytes);
    return 0;
}

static int read_integer(sqlite3_stmt *statement, int column, int64_t least, int64_t most, int64_t *value)
{
    if (sqlite3_column_type(statement, column) != SQLITE_INTEGER)
        return AUTOBUF_E_DAMAGED;
    *value = sqlite3_column_int64(statement, column);
    return *value >= least && *value <= most ? 0 : AUTOBUF_E_DAMAGED;
}

static int read_key(sqlite3_stmt *statement, struct autobuf_paths_entry *e)
{
    int64_t version = 0, bits = 0, local_bits = 0;
    int error = read_integer(statement, 0, 4, 6, &version);

    if (error == 0)
        error = read_integer(statement, 1, 0, 128, &bits);
    if (error == 0)
        error = read_integer(statement, 4, NO_LOCAL_BITS, 128, &local_bits);
    e->remote.version = (uint32_t)version;
    e->remote.bits = (uint32_t)bits;
    e->local.version = local_bits < 0 ? 0 : e->remote.version;
    e->local.bits = local_bits < 0 ? 0 : (uint32_t)local_bits;
    if (error == 0)
        error = read_bytes(statement, 2, e->remote.address, address_bytes(e->remote.version));
    if (error == 0)
        error = read_device(statement, 3, e->device);
    return error == 0 ? read_bytes(statement, 5, e->local.address, address_bytes(e->local.version)) : error;
}

int database_row_read(sqlite3_stmt *statement, struct autobuf_paths_entry *entry)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
    int error = read_key(statement, &e), at = DATABASE_KEY_COLUMNS;

    for (int i = 0; i < SMALL && error == 0; i++) {
        int64_t value = 0;
        uint32_t narrow;

        error = read_integer(statement, at++, 0, UINT32_MAX, &value);
        narrow = (uint32_t)value;
        memcpy((char *)&e + small[i], &narrow, sizeof narrow);
    }
    for (int i = 0; i < LARGE && error == 0; i++, at++) {
        bool unset = sqlite3_column_type(statement, at) == SQLITE_NULL;
        uint64_t wide = UINT64_MAX;
        int64_t value = 0;

        if (!unset) {
            error = read_integer(statement, at, 0, INT64_MAX, &value);
            wide = (uint64_t)value;
        }
        memcpy((char *)&e + large[i], &wide, sizeof wide);
    }
    if (error < 0 || autobuf_paths_check(&e) < 0)
        return AUTOBUF_E_DAMAGED;
    *entry = e;
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* An entry of the path store as a row of SQLite. What a row holds is checked as it is read. */
#ifndef DATABASE_ROW_H
#define DATABASE_ROW_H

#include <sqlite3.h>

#include <autobuf/autobuf.h>

/* The columns, in the order in which they are bound and read. NULL as a number: not known, or never. */
#define DATABASE_KEY "version, bits, address, device, local_bits, local_address"
#define DATABASE_COLUMNS                                                                                     \
    DATABASE_KEY ", method, flags, limiter, samples, packet_bytes, tx_unsure, rx_unsure, "                  \
                 "rtt_min_ns, rtt_median_ns, tx_rate_bit_per_s, tx_rate_low_bit_per_s, "                    \
                 "tx_rate_high_bit_per_s, rx_rate_bit_per_s, rx_rate_low_bit_per_s, "                       \
                 "rx_rate_high_bit_per_s, tx_bdp_bytes, rx_bdp_bytes, learned_s, expires_s"
#define DATABASE_KEY_COLUMNS 6
#define DATABASE_ALL_COLUMNS 25

/* Binds a remote prefix to the first three parameters of a statement. Returns a result of SQLite. */
int database_row_bind_prefix(sqlite3_stmt *statement, const struct autobuf_prefix *remote);

/* Binds the key of an entry to the first six. */
int database_row_bind_key(sqlite3_stmt *statement, const struct autobuf_paths_entry *entry);

/* Binds all of an entry, which is valid. */
int database_row_bind(sqlite3_stmt *statement, const struct autobuf_paths_entry *entry);

/* Reads the row at which a statement is, of all columns. Returns 0; AUTOBUF_E_DAMAGED: it is no valid entry. */
int database_row_read(sqlite3_stmt *statement, struct autobuf_paths_entry *entry);

#endif

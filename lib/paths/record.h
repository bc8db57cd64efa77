/* SPDX-License-Identifier: MIT */
/*
 * The path store's file: a header, then records of one size, sorted by their keys. Numbers are little-endian. Pure.
 *
 *   header   0 magic   8 version   12 header's bytes   16 record's bytes   20 flags   24 count   32 lengths of remote
 *            prefixes that occur, one bit each: 8 bytes for IPv4, 24 for IPv6   64 zero   124 CRC-32
 *            of what is before
 *   record   0 key   52 method   56 flags   60 bottleneck   64 samples   68 packet's bytes   72 tx unsure   76 rx
 *   unsure
 *            80 the ten quantities from rtt_min_ns on, 8 bytes each   160 learned   168 expires   176 CRC-32 of what is
 *            before   180 zero
 *   key      0 IP version   1 bits of the remote prefix   2 remote address   18 0: with a device, 1: without
 *            19 255 for no local prefix, else 254 - its bits   20 local address   36 device
 *   message  0 magic   8 version   12 record's bytes   16 record: an entry on its way between programs
 *
 * So the keys of one remote prefix are together, and those that say more about the local side come first.
 */
#ifndef AB_RECORD_H
#define AB_RECORD_H

#include <string.h>

#include "../base/base.h"

#define AB_PATHS_HEADER_BYTES 128U
#define AB_PATHS_RECORD_BYTES 184U
#define AB_PATHS_KEY_BYTES 52U
#define AB_PATHS_REMOTE_BYTES 18U  /* of the key: the remote prefix */
#define AB_PATHS_AHEAD_S 86400U   /* learned later than this from now: by a clock that was ahead */
#define AB_PATHS_SAME_REMOTE 64U   /* most records with one remote prefix */
#define AB_PATHS_COUNT_MOST 16777216U

#define AB_PATHS_V4_LENGTHS 33U
#define AB_PATHS_V6_LENGTHS 129U

struct ab_paths_head {
    uint64_t count;
    uint32_t record_bytes; /* more in a later version */
    bool local;            /* some record has a local prefix or a device */
    uint8_t lengths[32];   /* as in the file */
};

void ab_paths_head_write(const struct ab_paths_head *head, uint8_t bytes[AB_PATHS_HEADER_BYTES]);

extern const uint8_t ab_paths_magic[8];

/*
 * Reads and checks the header of a file of size bytes, of which at least the header is there. Returns 0;
 * AUTOBUF_E_DAMAGED; AUTOBUF_E_NEWER.
 */
int ab_paths_head_read(const uint8_t *bytes, uint64_t size, struct ab_paths_head *head);

/* The bit of a prefix length in head.lengths. */
static inline uint32_t ab_paths_length_bit(uint32_t version, uint32_t bits)
{
    return (version == 4 ? 0 : 64) + bits;
}

/*
 * The order of two entries by their keys (remote, device, local): below 0, 0 or above 0, as memcmp(3). An entry that is
 * not valid comes behind all others.
 */
int ab_paths_compare(const struct autobuf_paths_entry *a, const struct autobuf_paths_entry *b);

/* Return 0; -EINVAL: the entry is not valid. */
int ab_paths_key(const struct autobuf_paths_entry *entry, uint8_t key[AB_PATHS_KEY_BYTES]);
int ab_paths_check(const struct autobuf_paths_entry *entry);
int ab_paths_record_write(const struct autobuf_paths_entry *entry, uint8_t bytes[AB_PATHS_RECORD_BYTES]);

/* Returns 0; AUTOBUF_E_DAMAGED. */
int ab_paths_record_read(const uint8_t bytes[AB_PATHS_RECORD_BYTES], struct autobuf_paths_entry *entry);

/*
 * Parses a message of autobuf_paths_entry_encode(), which may be any bytes. Checks its form only; whether to trust the
 * sender is up to the caller. Returns 0; AUTOBUF_E_DAMAGED; AUTOBUF_E_NEWER: of a later version.
 */
int ab_paths_entry_decode(const void *message, uint32_t bytes, struct autobuf_paths_entry *entry);

/* One direction of an entry. */
struct ab_paths_direction {
    uint64_t *rate_bit_per_s, *low_bit_per_s, *high_bit_per_s, *bdp_bytes;
    uint32_t *unsure;
    uint32_t at_least, echoed; /* its flags */
};

static inline struct ab_paths_direction ab_paths_direction(struct autobuf_paths_entry *e, bool tx)
{
    if (tx)
        return (struct ab_paths_direction){
            &e->tx_rate_bit_per_s, &e->tx_rate_low_bit_per_s, &e->tx_rate_high_bit_per_s, &e->tx_bdp_bytes,
            &e->tx_unsure, AUTOBUF_PATH_TX_AT_LEAST, AUTOBUF_PATH_TX_ECHOED};
    return (struct ab_paths_direction){
        &e->rx_rate_bit_per_s, &e->rx_rate_low_bit_per_s, &e->rx_rate_high_bit_per_s, &e->rx_bdp_bytes,
        &e->rx_unsure, AUTOBUF_PATH_RX_AT_LEAST, AUTOBUF_PATH_RX_ECHOED};
}

static inline bool ab_prefix_same(const struct autobuf_prefix *a, const struct autobuf_prefix *b)
{
    return a->version == b->version && a->bits == b->bits && memcmp(a->address, b->address, sizeof a->address) == 0;
}

/*
 * The prefix of a single address. An IPv4 address that is mapped into IPv6 becomes IPv4. Returns 0; the errors of
 * ab_address_copy().
 */
int ab_prefix_of(const struct sockaddr *addr, socklen_t addr_len, struct autobuf_prefix *prefix);

/* Sets the bits of an address behind its prefix to 0. bits: 0 to 128. */
void ab_prefix_mask(uint8_t address[16], uint32_t bits);

/* CRC-32 of IEEE 802.3, as in zlib and PNG. */
uint32_t ab_crc32(const uint8_t *bytes, size_t count);

/* Whether it is valid at this time. */
static inline bool ab_paths_entry_holds(const struct autobuf_paths_entry *entry, uint64_t now_s)
{
    bool ahead = entry->learned_s > AB_PATHS_AHEAD_S && entry->learned_s - AB_PATHS_AHEAD_S > now_s;

    return !now_s || (now_s < entry->expires_s && !ahead);
}

/* Lookups in the bytes of a path store: snapshot.c. */
struct ab_snapshot {
    const uint8_t *records; /* head.count of them */
    struct ab_paths_head head;
};

/* An unknown address has version 0. */
struct ab_snapshot_query {
    struct autobuf_prefix remote; /* of all its bits */
    struct autobuf_prefix local;
    const char *device; /* "": unknown */
    uint32_t intent;    /* AUTOBUF_INTENT_* */
    uint64_t now_s;
};

/* Takes in the bytes of a file, which must stay. Returns 0; AUTOBUF_E_DAMAGED; AUTOBUF_E_NEWER. */
int ab_snapshot_take(const uint8_t *bytes, uint64_t size, struct ab_snapshot *snapshot);

/* As ab_paths_at(), ab_paths_get() and autobuf_paths_find(). Safe for any bytes. */
int ab_snapshot_at(const struct ab_snapshot *snapshot, uint64_t at, struct autobuf_paths_entry *entry);
int ab_snapshot_get(const struct ab_snapshot *snapshot, const struct autobuf_paths_entry *key,
                    struct autobuf_paths_entry *entry);
int ab_snapshot_find(const struct ab_snapshot *snapshot, const struct ab_snapshot_query *query,
                     struct autobuf_paths_entry *entry);

#endif

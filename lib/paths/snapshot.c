/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <errno.h>
#include <string.h>

int ab_snapshot_take(const uint8_t *bytes, uint64_t size, struct ab_snapshot *snapshot)
{
    int error = size < AB_PATHS_HEADER_BYTES ? AUTOBUF_E_DAMAGED : ab_paths_head_read(bytes, size, &snapshot->head);

    snapshot->records = bytes + AB_PATHS_HEADER_BYTES;
    return error;
}

static const uint8_t *record_at(const struct ab_snapshot *snapshot, uint64_t at)
{
    return snapshot->records + at * snapshot->head.record_bytes;
}

int ab_snapshot_at(const struct ab_snapshot *snapshot, uint64_t at, struct autobuf_paths_entry *entry)
{
    return at < snapshot->head.count ? ab_paths_record_read(record_at(snapshot, at), entry) : -ENOENT;
}

/* The first record whose key is not before this one in its first bytes. */
static uint64_t lower_bound(const struct ab_snapshot *snapshot, const uint8_t *key, size_t bytes)
{
    uint64_t low = 0, high = snapshot->head.count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (memcmp(record_at(snapshot, middle), key, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int ab_snapshot_get(const struct ab_snapshot *snapshot, const struct autobuf_paths_entry *key,
                    struct autobuf_paths_entry *entry)
{
    uint8_t wanted[AB_PATHS_KEY_BYTES];
    int error = ab_paths_key(key, wanted);
    uint64_t at = error < 0 ? 0 : lower_bound(snapshot, wanted, sizeof wanted);

    if (error < 0 || at == snapshot->head.count || memcmp(record_at(snapshot, at), wanted, sizeof wanted) != 0)
        return error < 0 ? error : -ENOENT;
    return ab_paths_record_read(record_at(snapshot, at), entry);
}

static bool local_matches(const struct autobuf_paths_entry *entry, const struct ab_snapshot_query *query)
{
    uint8_t address[16];

    if (entry->device[0] && strcmp(entry->device, query->device) != 0)
        return false;
    if (!entry->local.version)
        return true;
    if (entry->local.version != query->local.version)
        return false;
    memcpy(address, query->local.address, sizeof address);
    ab_prefix_mask(address, entry->local.bits);
    return memcmp(address, entry->local.address, sizeof address) == 0;
}

/*
 * A learned entry may have one direction only, that of the connections that taught it. One that was set by hand is
 * complete. A direction of which the rate is unsure plans nothing: it counts as unknown, so that it is measured.
 */
static bool has_direction(const struct autobuf_paths_entry *entry, uint32_t intent)
{
    bool tx = entry->tx_bdp_bytes && !entry->tx_unsure, rx = entry->rx_bdp_bytes && !entry->rx_unsure;
    uint32_t sides = intent & (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES);

    if (!tx && !rx && (entry->tx_unsure || entry->rx_unsure))
        return false;
    return tx == rx || entry->method == AUTOBUF_METHOD_GIVEN ||
           sides != (tx ? AUTOBUF_INTENT_RECEIVES : AUTOBUF_INTENT_SENDS);
}

/* Of the records with this remote prefix, the first valid one that matches is the best one. */
static bool find_same_remote(const struct ab_snapshot *snapshot, const uint8_t remote[AB_PATHS_REMOTE_BYTES],
                             const struct ab_snapshot_query *query, struct autobuf_paths_entry *entry)
{
    uint64_t first = lower_bound(snapshot, remote, AB_PATHS_REMOTE_BYTES);

    for (uint64_t at = first; at < snapshot->head.count && at - first < AB_PATHS_SAME_REMOTE; at++) {
        const uint8_t *record = record_at(snapshot, at);

        if (memcmp(record, remote, AB_PATHS_REMOTE_BYTES) != 0)
            return false;
        if (ab_paths_record_read(record, entry) == 0 && ab_paths_entry_holds(entry, query->now_s) &&
            local_matches(entry, query) && has_direction(entry, query->intent))
            return true;
    }
    return false;
}

int ab_snapshot_find(const struct ab_snapshot *snapshot, const struct ab_snapshot_query *query,
                     struct autobuf_paths_entry *entry)
{
    uint32_t version = query->remote.version;
    uint8_t remote[AB_PATHS_REMOTE_BYTES];

    memcpy(remote + 2, query->remote.address, 16);
    remote[0] = (uint8_t)version;
    for (uint32_t length = version == 4 ? AB_PATHS_V4_LENGTHS : AB_PATHS_V6_LENGTHS; length--;) {
        uint32_t bit = ab_paths_length_bit(version, length);

        ab_prefix_mask(remote + 2, length);
        remote[1] = (uint8_t)length;
        if (snapshot->head.lengths[bit / 8] >> bit % 8 & 1 && find_same_remote(snapshot, remote, query, entry))
            return 0;
    }
    return -ENOENT;
}

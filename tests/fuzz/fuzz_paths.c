/* SPDX-License-Identifier: MIT */
/*
 * A path store. First byte: 1: the header's and the records' checksums are made to fit, as somebody would who writes
 * a bad store on purpose. The next 33: for whom a path is looked for. The rest is the file.
 */
#include "fuzz.h"

#include "paths/record.h"

static void seal(uint8_t *bytes, size_t at)
{
    uint32_t crc = ab_crc32(bytes, at);

    for (unsigned i = 0; i < 4; i++)
        bytes[at + i] = (uint8_t)(crc >> 8 * i);
}

static void seal_all(uint8_t *file, size_t len)
{
    if (len < AB_PATHS_HEADER_BYTES)
        return;
    seal(file, 124);
    for (size_t at = AB_PATHS_HEADER_BYTES; at + AB_PATHS_RECORD_BYTES <= len; at += AB_PATHS_RECORD_BYTES)
        seal(file + at, 176);
}

/* What is found is sound, matches, and says the same once it is written again. */
static void check_found(const struct ab_snapshot_query *query, const struct autobuf_paths_entry *entry)
{
    uint8_t address[16], record[AB_PATHS_RECORD_BYTES];
    struct autobuf_paths_entry again;

    memcpy(address, query->remote.address, sizeof address);
    ab_prefix_mask(address, entry->remote.bits);
    CHECK(entry->remote.version == query->remote.version);
    CHECK(!query->now_s || query->now_s < entry->expires_s); /* 0: whatever the time is */
    CHECK(memcmp(address, entry->remote.address, sizeof address) == 0);
    CHECK(ab_paths_record_write(entry, record) == 0 && ab_paths_record_read(record, &again) == 0);
    CHECK(ab_paths_compare(entry, &again) == 0 && again.rtt_min_ns == entry->rtt_min_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    bool sealed = take(&in, 1) & 1;
    struct ab_snapshot_query query = {.device = take(&in, 1) & 1 ? "eth0" : "", .now_s = take(&in, 1)};
    struct autobuf_paths_entry entry;
    struct ab_snapshot snapshot;
    uint8_t *file;

    query.remote.version = take(&in, 1) & 1 ? 4 : 6;
    query.local.version = query.remote.version;
    for (unsigned i = 0; i < (query.remote.version == 4 ? 4U : 16U); i++) {
        query.remote.address[i] = (uint8_t)take(&in, 1);
        query.local.address[i] = (uint8_t)take(&in, 1);
    }
    file = exact_copy(in.data, in.len);
    if (sealed)
        seal_all(file, in.len);
    if (ab_snapshot_take(file, in.len, &snapshot) == 0) {
        for (uint64_t at = 0; at < ab_min(snapshot.head.count, 64); at++)
            CHECK(ab_snapshot_at(&snapshot, at, &entry) == 0 || entry.size == sizeof entry);
        if (ab_snapshot_find(&snapshot, &query, &entry) == 0)
            check_found(&query, &entry);
    }
    free(file);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "paths/record.h"

#define NOW 1000U

/* In the order of their keys. rtt_min_ns tells which one it is: its number here. */
static const struct {
    const char *remote, *local, *device;
    uint64_t expires_s;
} store[] = {
    {"0.0.0.0/0", "10.0.0.0/8", "", UINT64_MAX},     /* 0 */
    {"192.0.0.0/8", NULL, "", UINT64_MAX},           /* 1 */
    {"192.0.2.0/24", NULL, "eth0", UINT64_MAX},      /* 2 */
    {"192.0.2.0/24", "10.0.0.1", "", UINT64_MAX},    /* 3 */
    {"192.0.2.0/24", "10.0.0.0/8", "", UINT64_MAX},  /* 4 */
    {"192.0.2.0/24", NULL, "", NOW + 1},             /* 5 */
    {"192.0.3.0/24", NULL, "", NOW},                 /* 6: has just expired */
    {"192.0.2.9", NULL, "", UINT64_MAX},             /* 7 */
    {"2001:db8::/32", NULL, "", UINT64_MAX},         /* 8 */
    {"2001:db8::1", NULL, "", UINT64_MAX},           /* 9 */
};

struct file {
    uint8_t bytes[AB_PATHS_HEADER_BYTES + COUNT(store) * AB_PATHS_RECORD_BYTES];
    struct ab_snapshot snapshot;
};

static uint8_t *record(struct file *file, size_t at)
{
    return file->bytes + AB_PATHS_HEADER_BYTES + at * AB_PATHS_RECORD_BYTES;
}

static void make(struct file *file)
{
    struct ab_paths_head head = {.count = COUNT(store), .record_bytes = AB_PATHS_RECORD_BYTES, .local = true};

    for (size_t i = 0; i < COUNT(store); i++) {
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
        uint32_t bit;

        assert_int_equal(autobuf_prefix_parse(store[i].remote, &e.remote), 0);
        if (store[i].local)
            assert_int_equal(autobuf_prefix_parse(store[i].local, &e.local), 0);
        strcpy(e.device, store[i].device);
        e.rtt_min_ns = i;
        e.expires_s = store[i].expires_s;
        assert_int_equal(ab_paths_record_write(&e, record(file, i)), 0);
        bit = ab_paths_length_bit(e.remote.version, e.remote.bits);
        head.lengths[bit / 8] |= (uint8_t)(1U << bit % 8);
    }
    ab_paths_head_write(&head, file->bytes);
    assert_int_equal(ab_snapshot_take(file->bytes, sizeof file->bytes, &file->snapshot), 0);
}

static int find(const struct file *file, const char *remote, const char *local, const char *device)
{
    struct ab_snapshot_query query = {.device = device, .now_s = NOW};
    struct autobuf_paths_entry entry;
    int error;

    assert_int_equal(autobuf_prefix_parse(remote, &query.remote), 0);
    if (local)
        assert_int_equal(autobuf_prefix_parse(local, &query.local), 0);
    error = ab_snapshot_find(&file->snapshot, &query, &entry);
    return error < 0 ? error : (int)entry.rtt_min_ns;
}

static void the_longest_prefix_and_the_nearest_local_side(void **state)
{
    static const struct {
        const char *remote, *local, *device;
        int expected;
    } rows[] = {
        {"192.0.2.1", NULL, "", 5},
        {"192.0.2.1", "10.0.0.1", "eth0", 2},
        {"192.0.2.1", "10.0.0.1", "eth1", 3},
        {"192.0.2.1", "10.9.0.1", "", 4},
        {"192.0.2.1", "11.0.0.1", "", 5},
        {"192.0.2.9", "10.0.0.1", "eth0", 7},
        {"192.0.3.1", NULL, "", 1}, /* the longer prefix has expired */
        {"192.1.0.1", "10.0.0.1", "", 1},
        {"193.0.0.1", "10.0.0.1", "", 0},
        {"193.0.0.1", NULL, "", -ENOENT},
        {"193.0.0.1", "11.0.0.1", "", -ENOENT},
        {"2001:db8::1", NULL, "", 9},
        {"2001:db8::2", NULL, "", 8},
        {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::9", "eth0", 8},
        {"2001:db9::1", NULL, "", -ENOENT},
        {"c000:0201::", NULL, "", -ENOENT}, /* the bytes of 192.0.2.1 */
    };
    struct file file;

    (void)state;
    make(&file);
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK_EQUAL(rows[i].remote, find(&file, rows[i].remote, rows[i].local, rows[i].device), rows[i].expected);
}

static void a_damaged_entry_is_as_if_it_were_not_there(void **state)
{
    struct autobuf_paths_entry entry;
    struct file file;

    (void)state;
    make(&file);
    record(&file, 7)[100] ^= 1;
    assert_int_equal(find(&file, "192.0.2.9", NULL, ""), 5);
    assert_int_equal(ab_snapshot_at(&file.snapshot, 7, &entry), AUTOBUF_E_DAMAGED);
    assert_int_equal(ab_snapshot_at(&file.snapshot, 6, &entry), 0);
    assert_int_equal(entry.rtt_min_ns, 6);
    assert_int_equal(ab_snapshot_at(&file.snapshot, COUNT(store), &entry), -ENOENT);
    record(&file, 5)[100] ^= 1;
    assert_int_equal(find(&file, "192.0.2.9", NULL, ""), 1);
}

static void a_later_minor_version_may_have_longer_records(void **state)
{
    enum { LONGER = AB_PATHS_RECORD_BYTES + 24 };
    uint8_t bytes[AB_PATHS_HEADER_BYTES + COUNT(store) * LONGER] = {0};
    struct file file, *from = &file;
    uint32_t crc;

    (void)state;
    make(&file);
    memcpy(bytes, file.bytes, AB_PATHS_HEADER_BYTES);
    bytes[16] = LONGER;
    crc = ab_crc32(bytes, 124);
    for (unsigned i = 0; i < 4; i++)
        bytes[124 + i] = (uint8_t)(crc >> 8 * i);
    for (size_t i = 0; i < COUNT(store); i++)
        memcpy(bytes + AB_PATHS_HEADER_BYTES + i * LONGER, record(from, i), AB_PATHS_RECORD_BYTES);
    assert_int_equal(ab_snapshot_take(bytes, sizeof bytes, &file.snapshot), 0);
    assert_int_equal(find(&file, "2001:db8::1", NULL, ""), 9);
    assert_int_equal(find(&file, "192.0.2.1", "10.0.0.1", "eth1"), 3);
}

static void an_empty_store_finds_nothing(void **state)
{
    struct ab_paths_head head = {.count = 0};
    struct file file;

    (void)state;
    ab_paths_head_write(&head, file.bytes);
    assert_int_equal(ab_snapshot_take(file.bytes, AB_PATHS_HEADER_BYTES, &file.snapshot), 0);
    assert_int_equal(find(&file, "192.0.2.1", NULL, ""), -ENOENT);
    for (size_t size = 0; size < AB_PATHS_HEADER_BYTES; size++)
        assert_int_equal(ab_snapshot_take(file.bytes, size, &file.snapshot), AUTOBUF_E_DAMAGED);
}

/* Against a search that looks at each entry: random prefixes, all lengths. */
static void as_a_search_through_all(void **state)
{
    enum { ENTRIES = 400, QUERIES = 4000 };
    static uint8_t bytes[AB_PATHS_HEADER_BYTES + ENTRIES * AB_PATHS_RECORD_BYTES];
    static struct autobuf_paths_entry entries[ENTRIES];
    struct ab_paths_head head = {.count = 0};
    struct ab_snapshot snapshot;
    uint64_t seed = 88172645463325252ULL;
    unsigned hits = 0;

    (void)state;
    for (size_t i = 0; i < ENTRIES; i++) {
        struct autobuf_prefix *remote = &entries[i].remote;

        entries[i] = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
        remote->version = i % 2 ? 4 : 6;
        remote->bits = (uint32_t)(unit_random(&seed) % (remote->version == 4 ? 33 : 129));
        for (unsigned k = 0; k < (remote->version == 4 ? 4U : 16U); k++)
            remote->address[k] = (uint8_t)(unit_random(&seed) % 4); /* so that prefixes lie within prefixes */
        ab_prefix_mask(remote->address, remote->bits);
    }
    qsort(entries, ENTRIES, sizeof *entries,
          (int (*)(const void *, const void *))(void (*)(void))ab_paths_compare);
    for (size_t i = 0; i < ENTRIES; i++) {
        uint32_t bit = ab_paths_length_bit(entries[i].remote.version, entries[i].remote.bits);

        if (head.count && ab_paths_compare(&entries[i - 1], &entries[i]) == 0)
            continue;
        assert_int_equal(ab_paths_record_write(&entries[i],
                                               bytes + AB_PATHS_HEADER_BYTES + head.count * AB_PATHS_RECORD_BYTES), 0);
        head.lengths[bit / 8] |= (uint8_t)(1U << bit % 8);
        head.count++;
    }
    ab_paths_head_write(&head, bytes);
    assert_int_equal(ab_snapshot_take(bytes, AB_PATHS_HEADER_BYTES + head.count * AB_PATHS_RECORD_BYTES, &snapshot), 0);
    for (unsigned i = 0; i < QUERIES; i++) {
        struct ab_snapshot_query query = {.device = "", .remote = {.version = i % 2 ? 4 : 6}};
        struct autobuf_paths_entry found;
        int64_t best = -1;

        query.remote.bits = query.remote.version == 4 ? 32 : 128;
        for (unsigned k = 0; k < query.remote.bits / 8; k++)
            query.remote.address[k] = (uint8_t)(unit_random(&seed) % 4);
        for (size_t k = 0; k < ENTRIES; k++) {
            uint8_t masked[16];

            memcpy(masked, query.remote.address, sizeof masked);
            ab_prefix_mask(masked, entries[k].remote.bits);
            if (entries[k].remote.version == query.remote.version &&
                memcmp(masked, entries[k].remote.address, sizeof masked) == 0 && (int64_t)entries[k].remote.bits > best)
                best = entries[k].remote.bits;
        }
        hits += best >= 0;
        assert_int_equal(ab_snapshot_find(&snapshot, &query, &found), best < 0 ? -ENOENT : 0);
        if (best >= 0)
            assert_int_equal(found.remote.bits, best);
    }
    assert_true(hits > QUERIES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_prefix_and_the_nearest_local_side),
        cmocka_unit_test(a_damaged_entry_is_as_if_it_were_not_there),
        cmocka_unit_test(a_later_minor_version_may_have_longer_records),
        cmocka_unit_test(an_empty_store_finds_nothing),
        cmocka_unit_test(as_a_search_through_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

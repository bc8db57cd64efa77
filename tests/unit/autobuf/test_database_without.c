/* SPDX-License-Identifier: MIT */
/* tools/database_without.c and paths_store.c: the same calls where there is no SQLite, on the store itself. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "database.h"
#include "paths_store.h"

#include "stores.h"

static void each_call_changes_the_store(void **state)
{
    struct autobuf_paths_entry entries[] = {entry_of("192.0.2.1", 1, 100), entry_of("192.0.2.4", 4, 100), entry_of("192.0.2.9", 9, 100)};
    struct autobuf_paths_entry e = entry_of("192.0.2.4", 20, 100);
    struct database *db;
    size_t count = COUNT(entries);
    struct paths_left_out left;
    uint64_t number;

    (void)state;
    assert_int_equal(database_open(&db, store, 0), 0);
    assert_int_equal(database_forget(db, &e.remote, &number), 0);
    assert_int_equal(number, 0);
    assert_int_equal(database_observe(db, &e), 0);
    e.rtt_min_ns = 10 * MS;
    assert_int_equal(database_observe(db, &e), 0);
    e.rtt_min_ns = 30 * MS;
    assert_int_equal(database_observe(db, &e), 0);
    assert_string_equal(stored(), "192.0.2.4 10");
    for (size_t i = 0; i < count; i++)
        entries[i].method = AUTOBUF_METHOD_IMPORTED;
    assert_int_equal(database_import(db, entries, &count, NOW_S, &left), 0);
    assert_int_equal(count, 2);
    assert_int_equal(left.better, 1);
    assert_string_equal(stored(), "192.0.2.1 1, 192.0.2.4 10, 192.0.2.9 9");
    assert_int_equal(database_set(db, &e), 0);
    assert_int_equal(database_forget(db, &entries[0].remote, &number), 0);
    assert_int_equal(number, 1);
    assert_int_equal(database_publish(db, NOW_S), 0);
    assert_string_equal(stored(), "192.0.2.4 30, 192.0.2.9 9");
    e.tx_rate_bit_per_s = UINT64_MAX;
    assert_int_equal(database_observe(db, &e), -EINVAL);
    assert_int_equal(database_set(db, &e), -EINVAL);
    assert_int_equal(database_forget(db, NULL, &number), 0);
    assert_int_equal(number, 2);
    assert_string_equal(stored(), "");
    database_close(db);
    database_close(NULL);
}

/* Makes it an entry for one interface, such as "n07". */
static void name(struct autobuf_paths_entry *e, const char *kind, unsigned n)
{
    snprintf(e->device, sizeof e->device, "%s%02u", kind, n);
}

/* A file with more of one prefix than a store takes: what the store has stays, also what comes later in its order. */
static void of_one_prefix_no_more_than_fit(void **state)
{
    static struct autobuf_paths_entry entries[72];
    struct autobuf_paths_entry e = entry_of("192.0.2.4", 20, 100);
    size_t count = COUNT(entries);
    struct paths_left_out left;

    (void)state;
    for (unsigned n = 0; n < 62; n++) {
        name(&e, "n", n);
        e.expires_s = n == 30 ? NOW_S : UINT64_MAX; /* has just expired: there is room for three */
        assert_int_equal(autobuf_paths_keep(store, &e, NOW_S - 1, 0), 0);
    }
    entries[0] = entry_of("192.0.2.1", 1, 100);
    entries[71] = entry_of("192.0.2.9", 9, 100);
    for (unsigned n = 1; n < 71; n++) { /* one before all others, one that the store has, the rest behind */
        entries[n] = entry_of("192.0.2.4", 4, 100);
        name(&entries[n], n == 1 ? "a" : n == 2 ? "n" : "z", n);
    }
    assert_int_equal(paths_store_import(store, entries, &count, NOW_S, &left), 0);
    assert_int_equal(left.better, 0);
    assert_int_equal(left.full, 66);
    assert_int_equal(count, 6);
    assert_string_equal(entries[4].device, "z04");
    assert_int_equal(entries[5].rtt_min_ns, 9 * MS);
    assert_memory_equal(stored(), "192.0.2.1 1, 192.0.2.4 4, 192.0.2.4 20", 38);
    assert_non_null(strstr(stored(), "192.0.2.4 20, 192.0.2.4 4, 192.0.2.4 4, 192.0.2.9 9"));
    count = 70; /* all of one prefix, into a new one */
    for (unsigned n = 0; n < 70; n++) {
        entries[n] = entry_of("192.0.2.4", 4, 100);
        name(&entries[n], "z", n);
    }
    assert_int_equal(unlink(store), 0);
    assert_int_equal(paths_store_import(store, entries, &count, NOW_S, &left), 0);
    assert_int_equal(left.full, 6);
    assert_int_equal(count, 64);
}

/* The first two entries of a store change places. */
static void swap_two(void)
{
    uint8_t records[2][184], swapped[2][184];
    FILE *file = fopen(store, "r+");

    assert_non_null(file);
    assert_int_equal(fseek(file, 128, SEEK_SET), 0);
    assert_int_equal(fread(records, sizeof records, 1, file), 1);
    memcpy(swapped[0], records[1], sizeof swapped[0]);
    memcpy(swapped[1], records[0], sizeof swapped[1]);
    assert_int_equal(fseek(file, 128, SEEK_SET), 0);
    assert_int_equal(fwrite(swapped, sizeof swapped, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static void what_is_out_of_order_is_left_out(void **state)
{
    struct autobuf_paths_entry first = entry_of("192.0.2.1", 1, 100);
    struct autobuf_paths_entry second = entry_of("192.0.2.4", 4, 100);
    struct autobuf_paths_entry more[] = {entry_of("192.0.2.3", 3, 100),
                                         entry_of("192.0.2.9", 9, 100)};
    struct paths_left_out left;
    uint64_t number;

    (void)state;
    for (unsigned imported = 0; imported < 2; imported++) {
        size_t count = COUNT(more);

        assert_int_equal(autobuf_paths_keep(store, &first, NOW_S, 0), 0);
        assert_int_equal(autobuf_paths_keep(store, &second, NOW_S, 0), 0);
        swap_two();
        if (imported) {
            assert_int_equal(paths_store_import(store, more, &count, NOW_S, &left), 0);
            assert_int_equal(count, 2);
            assert_string_equal(stored(), "192.0.2.3 3, 192.0.2.4 4, 192.0.2.9 9");
        } else {
            assert_int_equal(paths_store_forget(store, &more[0].remote, &number), 0);
            assert_int_equal(number, 0);
            assert_int_equal(paths_store_forget(store, &second.remote, &number), 0);
            assert_int_equal(number, 1);
            assert_string_equal(stored(), "192.0.2.1 1");
        }
        assert_int_equal(unlink(store), 0);
    }
}

/* Entries of the same prefix, for several local sides, and neighbours. */
static void what_is_in_a_store(void **state)
{
    static const char *const prefixes[] = {"192.0.2.0/25", "192.0.2.0/24", "192.0.2.0/26", "2001:db8::/32"};
    struct autobuf_paths_entry local = entry_of("192.0.2.0/25", 1, 100), all = entry_of("2001:db8::/32", 2, 100);
    struct autobuf_paths *paths;

    (void)state;
    strcpy(local.device, "eth0");
    assert_int_equal(autobuf_paths_keep(store, &local, NOW_S, 0), 0);
    strcpy(local.device, "eth1");
    assert_int_equal(autobuf_paths_keep(store, &local, NOW_S, 0), 0);
    assert_int_equal(autobuf_paths_keep(store, &all, NOW_S, 0), 0);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        struct autobuf_prefix prefix;

        assert_int_equal(autobuf_prefix_parse(prefixes[i], &prefix), 0);
        CHECK_EQUAL(prefixes[i], paths_store_has(paths, &prefix), i == 0 || i == 3);
    }
    assert_int_equal(paths_store_lower(paths, &local), 1);
    assert_int_equal(paths_store_lower(paths, &all), 2);
    autobuf_paths_close(paths);
}

static void errors_of_the_store(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.1", 1, 100);
    char about[PATH_MAX];
    struct database *db;
    uint64_t number;

    (void)state;
    assert_int_equal(database_open(&db, store, 0), 0);
    assert_int_equal(database_set(db, &e), 0);
    assert_int_equal(chmod(store, 0666), 0);
    assert_int_equal(database_set(db, &e), -EPERM);
    assert_int_equal(database_forget(db, NULL, &number), -EPERM);
    database_blame(store, -EPERM, about);
    assert_string_equal(about, store);
    database_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILES(each_call_changes_the_store),
        FILES(of_one_prefix_no_more_than_fit),
        FILES(what_is_out_of_order_is_left_out),
        FILES(what_is_in_a_store),
        FILES(errors_of_the_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

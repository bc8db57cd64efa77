/* SPDX-License-Identifier: MIT */
/* tools/daemon/keep.c: what becomes of what was learned. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "paths/store.h"
#include "daemon/keep.h"
#include "daemon/log.h"

#define BOTH (AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST)

static char folder[] = "/tmp/test_keep.XXXXXX", file[sizeof folder + 8];
static unsigned said;
static const char *expected = "what is learned is not kept";

static void say(const char *line)
{
    assert_non_null(strstr(line, expected));
    said++;
}

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/paths", folder);
    return 0;
}

static void forget(void)
{
    char aside[sizeof file + 16];

    snprintf(aside, sizeof aside, "%s.damaged", file);
    unlink(file);
    unlink(aside);
}

static int end(void **state)
{
    char lock[sizeof file + 8];

    (void)state;
    snprintf(lock, sizeof lock, "%s.lock", file);
    forget();
    unlink(lock);
    return rmdir(folder);
}

static void count_offer(void *user, const struct autobuf_paths_entry *entry)
{
    (void)entry;
    ++*(unsigned *)user;
}

static struct autobuf_paths_entry entry(uint32_t method, uint64_t tx, uint64_t rx, uint64_t rtt_ns, uint64_t holds_s)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse("192.0.2.1", &e.remote), 0);
    e.method = method;
    if (method == AUTOBUF_METHOD_PASSIVE || method == AUTOBUF_METHOD_IMPORTED)
        e.flags = (tx ? AUTOBUF_PATH_TX_AT_LEAST : 0) | (rx ? AUTOBUF_PATH_RX_AT_LEAST : 0);
    e.tx_rate_bit_per_s = tx;
    e.rx_rate_bit_per_s = rx;
    e.rtt_min_ns = rtt_ns;
    e.learned_s = (uint64_t)time(NULL);
    e.expires_s = e.learned_s + holds_s;
    return e;
}

static struct autobuf_paths_entry kept(void)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;

    assert_int_equal(autobuf_paths_open(&paths, file), 0);
    assert_int_equal(ab_paths_count(paths), 1);
    assert_int_equal(ab_paths_at(paths, 0, &e), 0);
    autobuf_paths_close(paths);
    return e;
}

#define PASSIVE AUTOBUF_METHOD_PASSIVE
#define ICMP AUTOBUF_METHOD_ICMP
#define GIVEN AUTOBUF_METHOD_GIVEN

static const struct {
    const char *name;
    struct {
        uint32_t method;
        uint64_t tx, rx, rtt_ns, holds_s;
    } first, second;
    uint32_t method;
    uint64_t tx, rx, rtt_ns, holds_s;
    uint32_t flags;
} rows[] = {
    {"each direction by itself", {PASSIVE, 100, 0, 9, 1000}, {PASSIVE, 0, 50, 8, 2000}, PASSIVE, 100, 50, 8, 1000,
     BOTH},
    {"a slower one does not count", {PASSIVE, 100, 0, 8, 1000}, {PASSIVE, 50, 0, 9, 2000}, PASSIVE, 100, 0, 8, 1000, 1},
    {"one that is about as fast confirms", {PASSIVE, 100, 0, 9, 1000}, {PASSIVE, 90, 0, 9, 2000}, PASSIVE, 100, 0, 9,
     2000, 1},
    {"a faster one counts", {PASSIVE, 100, 0, 9, 1000}, {PASSIVE, 200, 0, 9, 2000}, PASSIVE, 200, 0, 9, 2000, 1},
    {"an imported one is as good", {AUTOBUF_METHOD_IMPORTED, 100, 0, 9, 1000}, {PASSIVE, 50, 0, 9, 2000},
     AUTOBUF_METHOD_IMPORTED, 100, 0, 9, 1000, 1},
    {"a measurement stays", {ICMP, 100, 100, 9, 1000}, {PASSIVE, 90, 0, 8, 2000}, ICMP, 100, 100, 8, 1000, 0},
    {"also against a faster bound", {ICMP, 100, 100, 9, 1000}, {PASSIVE, 200, 0, 8, 2000}, ICMP, 100, 100, 8, 1000, 0},
    {"a measurement counts", {PASSIVE, 100, 0, 9, 1000}, {ICMP, 120, 120, 9, 2000}, ICMP, 120, 120, 9, 2000, 0},
    {"what somebody has set stays", {GIVEN, 10, 10, 9, 1000}, {PASSIVE, 100, 0, 8, 2000}, GIVEN, 10, 10, 9, 1000, 0},
    {"also against a measurement", {GIVEN, 10, 10, 9, 1000}, {ICMP, 100, 100, 8, 2000}, GIVEN, 10, 10, 9, 1000, 0},
};

/* together: before anything was written. */
static void check_rows(int together)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct keep keep = {0};
        struct autobuf_paths_entry first = entry(rows[i].first.method, rows[i].first.tx, rows[i].first.rx,
                                                 rows[i].first.rtt_ns, rows[i].first.holds_s),
                                   second = entry(rows[i].second.method, rows[i].second.tx, rows[i].second.rx,
                                                  rows[i].second.rtt_ns, rows[i].second.holds_s),
                                   e;

        forget();
        keep_in(&keep, file);
        keep_learned(&keep, &first, KEEP_MOST);
        if (!together)
            keep_close(&keep);
        keep_learned(&keep, &second, KEEP_MOST);
        keep_close(&keep);
        e = kept();
        CHECK_EQUAL(rows[i].name, e.method, rows[i].method);
        CHECK_EQUAL(rows[i].name, e.tx_rate_bit_per_s, rows[i].tx);
        CHECK_EQUAL(rows[i].name, e.rx_rate_bit_per_s, rows[i].rx);
        CHECK_EQUAL(rows[i].name, e.rtt_min_ns, rows[i].rtt_ns);
        CHECK_EQUAL(rows[i].name, e.flags, rows[i].flags);
        CHECK_EQUAL(rows[i].name, e.expires_s,
                    (rows[i].holds_s == 1000 ? first.learned_s : second.learned_s) + rows[i].holds_s);
    }
}

static void what_is_known_and_what_is_new(void **state)
{
    (void)state;
    check_rows(0);
    check_rows(1);
}

static void it_is_written_at_most_once_a_second(void **state)
{
    struct autobuf_paths_entry e = entry(PASSIVE, 100, 0, 9, 1000);
    struct keep keep = {0};

    (void)state;
    forget();
    keep_learned(&keep, &e, KEEP_MOST); /* it has no file yet */
    assert_int_equal(keep_deadline_ns(&keep), UINT64_MAX);
    keep_in(&keep, file);
    keep_learned(&keep, &e, KEEP_MOST);
    assert_int_equal(access(file, F_OK), -1);
    assert_int_equal(keep_deadline_ns(&keep), 0);
    keep_step(&keep, 5000000000);
    assert_int_equal(kept().tx_rate_bit_per_s, 100);
    assert_int_equal(keep_deadline_ns(&keep), UINT64_MAX);
    e.tx_rate_bit_per_s = 200;
    keep_learned(&keep, &e, KEEP_MOST);
    assert_true(keep_deadline_ns(&keep) >= 6000000000);
    keep_step(&keep, 5999999999);
    assert_int_equal(kept().tx_rate_bit_per_s, 100);
    keep_step(&keep, keep_deadline_ns(&keep));
    assert_int_equal(kept().tx_rate_bit_per_s, 200);
    keep_close(&keep);
}

static void everybody_may_read_it(void **state)
{
    struct autobuf_paths_entry e = entry(PASSIVE, 100, 0, 9, 1000);
    struct keep keep = {0};
    mode_t mask = umask(0077);
    struct stat found;

    (void)state;
    forget();
    keep_in(&keep, file);
    keep_learned(&keep, &e, KEEP_MOST);
    keep_close(&keep);
    assert_int_equal(umask(mask), 0077);
    assert_int_equal(stat(file, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0644);
}

static void there_is_room_for_so_many(void **state)
{
    struct keep keep = {0};

    (void)state;
    keep_in(&keep, file);
    for (unsigned i = 0; i < KEEP_MOST + 3; i++) {
        struct autobuf_paths_entry e = entry(PASSIVE, 100, 0, 9, 1000);

        e.remote.address[2] = (uint8_t)i;
        keep_learned(&keep, &e, KEEP_MOST);
    }
    assert_int_equal(keep.count, KEEP_MOST);
    assert_int_equal(keep.counts.lost, 3);
    keep.count = 0;
}

static void programs_leave_room_for_others(void **state)
{
    struct autobuf_paths_entry own = entry(PASSIVE, 100, 0, 9, 1000);
    struct keep keep = {0};

    (void)state;
    keep_in(&keep, file);
    own.remote.address[2] = 200;
    for (unsigned i = 0; i < KEEP_MOST; i++) {
        struct autobuf_paths_entry e = entry(PASSIVE, 100, 0, 9, 1000);

        e.remote.address[2] = (uint8_t)(i + 1);
        keep_learned(&keep, &e, KEEP_REPORTED);
    }
    assert_int_equal(keep.count, KEEP_MOST / 2);
    assert_int_equal(keep.counts.lost, KEEP_MOST / 2);
    keep_learned(&keep, &own, KEEP_MOST);
    assert_int_equal(keep.count, KEEP_MOST / 2 + 1);
    keep.count = 0;
}

/* It waits for another writer without waiting. */
static void another_one_writes(void **state)
{
    struct autobuf_paths_entry e = entry(PASSIVE, 100, 0, 9, 1000);
    struct ab_paths_writer *other;
    struct keep keep = {0};

    (void)state;
    forget();
    said = 0;
    keep_in(&keep, file);
    keep_learned(&keep, &e, KEEP_MOST);
    assert_int_equal(ab_paths_write(&other, file, 0), 0);
    keep_step(&keep, 1000000000);
    assert_int_equal(keep.count, 1);
    ab_paths_abort(other);
    keep_step(&keep, keep_deadline_ns(&keep));
    assert_int_equal(keep.count, 0);
    assert_int_equal(kept().tx_rate_bit_per_s, 100);
    assert_int_equal(said, 0);
    keep_close(&keep);
}

static void a_store_that_cannot_be_written_is_said_once(void **state)
{
    static const char *const names[] = {"/proc/paths", "/no/such/folder/paths"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct autobuf_paths_entry e = entry(PASSIVE, 100, 0, 9, 1000);
        struct keep keep = {0};

        said = 0;
        keep_in(&keep, names[i]);
        for (uint64_t n = 1; n <= 3; n++) {
            keep_learned(&keep, &e, KEEP_MOST);
            keep_step(&keep, keep_deadline_ns(&keep));
            CHECK_EQUAL(names[i], keep.count, 0);
            CHECK_EQUAL(names[i], keep.counts.failed, n);
        }
        CHECK_EQUAL(names[i], said, 1);
    }
}

/* What is damaged is set aside, and said. */
static void a_damaged_store(void **state)
{
    struct autobuf_paths_entry e = entry(PASSIVE, 100, 0, 9, 1000);
    struct keep keep = {0};
    FILE *f = fopen(file, "w");

    (void)state;
    assert_non_null(f);
    fputs("AUTOBUFP, and no more", f);
    assert_int_equal(fclose(f), 0);
    said = 0;
    expected = "paths was damaged: it is ";
    keep_in(&keep, file);
    keep_learned(&keep, &e, KEEP_MOST);
    keep_close(&keep);
    expected = "what is learned is not kept";
    assert_int_equal(said, 1);
    assert_int_equal(keep.counts.failed, 0);
    assert_int_equal(kept().tx_rate_bit_per_s, 100);
}

/* What waits is in order, whatever came first; what no store takes is lost, and harms nothing. */
static void many_are_written_at_once(void **state)
{
    static const unsigned last[] = {7, 3, 9, 1, 8};
    struct keep keep = {0};
    struct autobuf_paths_entry e = entry(PASSIVE, 100, 0, 9, 1000);
    struct autobuf_paths *paths;

    (void)state;
    forget();
    said = 0;
    keep_in(&keep, file);
    for (size_t i = 0; i < 2 * COUNT(last); i++) {
        e.remote.address[2] = (uint8_t)last[i % COUNT(last)];
        keep_learned(&keep, &e, KEEP_MOST);
    }
    e.remote.address[2] = 2;
    e.tx_rate_bit_per_s = UINT64_MAX;
    keep_learned(&keep, &e, KEEP_MOST);
    assert_false(keep_foreign(&keep, &e));
    assert_int_equal(keep.counts.lost, 1);
    keep_close(&keep);
    assert_int_equal(said, 0);
    assert_int_equal(autobuf_paths_open(&paths, file), 0);
    assert_int_equal(ab_paths_count(paths), COUNT(last));
    autobuf_paths_close(paths);
}

/* What another host has learned counts if it did later than this one, and is offered to nobody. */
static void what_other_hosts_learned(void **state)
{
    static const struct {
        const char *name;
        uint32_t method;
        int later_s, stored, taken;
        uint64_t tx;
    } rows_of_others[] = {
        {"later", ICMP, 1, 1, 1, 200},          {"at the same time", ICMP, 0, 1, 0, 100},
        {"earlier", ICMP, -1, 1, 0, 100},
        {"not written yet", ICMP, 1, 0, 0, 100}, {"of what somebody has set", GIVEN, 1, 1, 1, 100},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows_of_others); i++) {
        struct autobuf_paths_entry own = entry(rows_of_others[i].method, 100, 100, 9, 1000),
                                   other = entry(ICMP, 200, 200, 9, 1000);
        unsigned offered = 0;
        struct keep keep = {.offer = count_offer, .offer_to = &offered};

        forget();
        other.learned_s += (uint64_t)rows_of_others[i].later_s;
        assert_false(keep_foreign(&keep, &other)); /* nothing is kept yet */
        keep_in(&keep, file);
        keep_learned(&keep, &own, KEEP_MOST);
        if (rows_of_others[i].stored)
            keep_close(&keep);
        CHECK_EQUAL(rows_of_others[i].name, keep_foreign(&keep, &other), rows_of_others[i].taken);
        keep_close(&keep);
        CHECK_EQUAL(rows_of_others[i].name, kept().tx_rate_bit_per_s, rows_of_others[i].tx);
        CHECK_EQUAL(rows_of_others[i].name, offered, 1);
    }
}

static void what_other_hosts_learned_of_a_known_network(void **state)
{
    struct autobuf_paths_entry network = entry(GIVEN, 100, 100, 9, 1000), other = entry(ICMP, 200, 200, 9, 1000);
    struct keep keep = {0};

    (void)state;
    forget();
    assert_int_equal(autobuf_prefix_parse("192.0.2.0/24", &network.remote), 0);
    keep_in(&keep, file);
    keep_learned(&keep, &network, KEEP_MOST);
    keep_close(&keep);
    other.learned_s = network.learned_s - 1;
    assert_false(keep_foreign(&keep, &other));
    other.learned_s = network.learned_s;
    assert_true(keep_foreign(&keep, &other));
}

/* The host's own entry is what counts, not the network's. */
static void what_other_hosts_learned_of_a_host_in_a_network_set_by_hand(void **state)
{
    struct autobuf_paths_entry network = entry(GIVEN, 100, 100, 9, 1000), own = entry(ICMP, 100, 100, 9, 1000),
                               other = own;
    struct keep keep = {0};

    (void)state;
    forget();
    assert_int_equal(autobuf_prefix_parse("192.0.2.0/24", &network.remote), 0);
    network.learned_s -= 100;
    keep_in(&keep, file);
    keep_learned(&keep, &network, KEEP_MOST);
    keep_learned(&keep, &own, KEEP_MOST);
    keep_close(&keep);
    assert_false(keep_foreign(&keep, &other));
    other.learned_s = own.learned_s + 1;
    assert_true(keep_foreign(&keep, &other));
    keep_close(&keep);
}

/* Neither of the host nor of its network: no lookup takes that. */
static void a_clock_that_was_ahead_keeps_nobody_out(void **state)
{
    static const char *const prefixes[] = {"192.0.2.1", "192.0.2.0/24"};

    (void)state;
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        struct autobuf_paths_entry ahead = entry(ICMP, 100, 100, 9, 1000), other = entry(ICMP, 200, 200, 9, 1000);
        struct keep keep = {0};

        forget();
        ahead.learned_s += 172800;
        ahead.expires_s += 172800;
        assert_int_equal(autobuf_prefix_parse(prefixes[i], &ahead.remote), 0);
        keep_in(&keep, file);
        keep_learned(&keep, &ahead, KEEP_MOST);
        keep_close(&keep);
        CHECK(prefixes[i], keep_foreign(&keep, &other));
        keep_close(&keep);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_and_what_is_new),
        cmocka_unit_test(it_is_written_at_most_once_a_second),
        cmocka_unit_test(everybody_may_read_it),
        cmocka_unit_test(there_is_room_for_so_many),
        cmocka_unit_test(programs_leave_room_for_others),
        cmocka_unit_test(another_one_writes),
        cmocka_unit_test(a_store_that_cannot_be_written_is_said_once),
        cmocka_unit_test(a_damaged_store),
        cmocka_unit_test(many_are_written_at_once),
        cmocka_unit_test(what_other_hosts_learned),
        cmocka_unit_test(what_other_hosts_learned_of_a_known_network),
        cmocka_unit_test(what_other_hosts_learned_of_a_host_in_a_network_set_by_hand),
        cmocka_unit_test(a_clock_that_was_ahead_keeps_nobody_out),
    };

    log_to(say);
    return cmocka_run_group_tests(tests, begin, end);
}

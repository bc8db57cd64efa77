/* SPDX-License-Identifier: MIT */
/* tools/database*.c: the database behind a path store, what is published from it, and what may happen to it. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "database.h"

#include "stores.h"

#define OTHER_USER 65534

static char file[128]; /* the database */

static int begin_with_database(void **state)
{
    int error = begin(state);

    snprintf(file, sizeof file, "%s.db", store);
    return error;
}

static struct database *opened(int expected)
{
    struct database *db;

    assert_int_equal(database_open(&db, store, 0), expected);
    assert_true((db != NULL) == (expected >= 0));
    return db;
}

static void publish(struct database *db)
{
    assert_int_equal(database_publish(db, NOW_S), 0);
}

static void set(struct database *db, const char *prefix, unsigned rtt_ms)
{
    struct autobuf_paths_entry e = entry_of(prefix, rtt_ms, 100);

    assert_int_equal(database_set(db, &e), 0);
}

static void forget(struct database *db, const char *prefix, uint64_t expected)
{
    struct autobuf_prefix parsed;
    uint64_t forgotten;

    assert_int_equal(autobuf_prefix_parse(prefix, &parsed), 0);
    assert_int_equal(database_forget(db, &parsed, &forgotten), 0);
    assert_int_equal(forgotten, expected);
}

/* As another program does that knows of no database. It is taken in by the host's clock. */
static void keep(const char *prefix, unsigned rtt_ms)
{
    struct autobuf_paths_entry e = entry_of(prefix, rtt_ms, 100);

    e.expires_s = UINT64_MAX;
    assert_int_equal(autobuf_paths_keep(store, &e, NOW_S, 0), 0);
}

/* What the administrator could do, or somebody worse. */
static void sql(const char *text)
{
    sqlite3 *raw;

    assert_int_equal(sqlite3_open(file, &raw), SQLITE_OK);
    if (sqlite3_exec(raw, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(raw));
    sqlite3_close(raw);
}

static bool is_there(const char *suffix)
{
    char name[160];

    snprintf(name, sizeof name, "%s%s", file, suffix);
    return access(name, F_OK) == 0;
}

/* -------------------------------------------------------------------------------- what it does */

static void what_is_set_is_published_in_order(void **state)
{
    struct database *db = opened(0);
    struct stat made;

    (void)state;
    set(db, "2001:db8::1", 1);
    set(db, "192.0.2.1", 2);
    set(db, "192.0.0.0/16", 3);
    set(db, "192.0.2.1", 4);
    set(db, "192.0.2.128/25", 5);
    set(db, "2001:db8::/32", 6);
    assert_int_not_equal(access(store, F_OK), 0);
    publish(db);
    assert_string_equal(stored(), "192.0.0.0/16 3, 192.0.2.128/25 5, 192.0.2.1 4, 2001:db8::/32 6, 2001:db8::1 1");
    forget(db, "192.0.2.1", 1);
    forget(db, "192.0.2.1", 0);
    forget(db, "192.0.2.2", 0);
    publish(db);
    assert_string_equal(stored(), "192.0.0.0/16 3, 192.0.2.128/25 5, 2001:db8::/32 6, 2001:db8::1 1");
    database_close(db);
    assert_int_equal(stat(file, &made), 0);
    assert_int_equal(made.st_mode & 07777, 0600);
    database_close(NULL);
}

static void all_of_an_entry_comes_back(void **state)
{
    struct autobuf_paths_entry e = entry_of("2001:db8:1:2::/63", 1, 100), found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;
    struct database *db = opened(0);

    (void)state;
    memset((char *)&e + offsetof(struct autobuf_paths_entry, flags), 3, 6 * sizeof e.flags);
    e.packet_bytes = 1400;
    e.rtt_median_ns = 12;
    e.tx_rate_low_bit_per_s = 13;
    e.tx_rate_high_bit_per_s = 14;
    e.rx_rate_low_bit_per_s = 15;
    e.rx_rate_high_bit_per_s = 1000000000000000;
    e.tx_bdp_bytes = 17;
    e.rx_bdp_bytes = 18;
    e.expires_s = UINT64_MAX;
    strcpy(e.device, "enp0s31f6.4094x");
    assert_int_equal(autobuf_prefix_parse("2001:db8::/126", &e.local), 0);
    assert_int_equal(database_set(db, &e), 0);
    publish(db);
    database_close(db);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(autobuf_paths_at(paths, 0, &found), 0);
    assert_memory_equal(&found, &e, sizeof e);
    autobuf_paths_close(paths);
}

/* In the order in which a lookup wants them. */
static void local_sides_are_in_order(void **state)
{
    static const char *const locals[] = {"", "10.0.0.0/8", "eth1", "10.1.0.0/16", "eth0", "0.0.0.0/0", "10.0.0.1"};
    struct database *db = opened(0);
    struct autobuf_paths *paths;

    (void)state;
    for (size_t i = 0; i < COUNT(locals); i++) {
        struct autobuf_paths_entry e = entry_of("192.0.2.1", (unsigned)i, 100);

        if (autobuf_prefix_parse(locals[i], &e.local) < 0)
            strcpy(e.device, locals[i]);
        assert_int_equal(database_set(db, &e), 0);
    }
    publish(db);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(autobuf_paths_count(paths), COUNT(locals));
    autobuf_paths_close(paths);
    database_close(db);
}

static void what_no_store_takes_is_refused(void **state)
{
    struct autobuf_paths_entry bad = entry_of("192.0.2.1", 1, 100), many = entry_of("192.0.2.9", 1, 100);
    struct database *db = opened(0);

    (void)state;
    bad.tx_rate_bit_per_s = UINT64_MAX;
    assert_int_equal(database_set(db, &bad), -EINVAL);
    assert_int_equal(database_observe(db, &bad), -EINVAL);
    for (unsigned i = 0; i < 64; i++) {
        snprintf(many.device, sizeof many.device, "eth%u", i);
        assert_int_equal(database_observe(db, &many), 0);
        assert_int_equal(database_observe(db, &many), 0);
    }
    strcpy(many.device, "eth64");
    assert_int_equal(database_observe(db, &many), -E2BIG);
    assert_int_equal(database_set(db, &many), -E2BIG);
    publish(db);
    database_close(db);
}

static void what_is_observed_is_merged(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.1", 20, 100);
    struct database *db = opened(0);

    (void)state;
    assert_int_equal(database_observe(db, &e), 0);
    e.rtt_min_ns = 10 * MS;
    assert_int_equal(database_observe(db, &e), 0);
    e.rtt_min_ns = 30 * MS;
    assert_int_equal(database_observe(db, &e), 0);
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 10");
    e.method = AUTOBUF_METHOD_GIVEN;
    e.expires_s = UINT64_MAX;
    assert_int_equal(database_set(db, &e), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    e.rtt_min_ns = 5 * MS;
    assert_int_equal(database_observe(db, &e), 0);
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 30");
    database_close(db);
}

static void an_import_replaces_what_says_less(void **state)
{
    struct autobuf_paths_entry entries[] = {entry_of("192.0.2.1", 1, 9), entry_of("192.0.2.2", 2, 9), entry_of("192.0.2.3", 3, 9)};
    struct autobuf_paths_entry known = entry_of("192.0.2.2", 4, 9);
    struct database *db = opened(0);
    size_t count = COUNT(entries);
    struct paths_left_out left;

    (void)state;
    for (size_t i = 0; i < count; i++)
        entries[i].method = AUTOBUF_METHOD_IMPORTED;
    assert_int_equal(database_set(db, &known), 0);
    assert_int_equal(database_import(db, entries, &count, NOW_S, &left), 0);
    assert_int_equal(count, 2);
    assert_int_equal(left.better, 1);
    assert_int_equal(entries[1].rtt_min_ns, 3 * MS);
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 1, 192.0.2.2 4, 192.0.2.3 3");
    count = 1;
    entries[0].tx_rate_bit_per_s = UINT64_MAX;
    assert_int_equal(database_import(db, entries, &count, NOW_S, &left), -EINVAL);
    database_close(db);
}

/* More of one prefix than a store takes, with some that it has already: the others come in. */
static void of_one_prefix_no_more_than_fit(void **state)
{
    struct autobuf_paths_entry entries[] = {entry_of("192.0.2.1", 1, 9), entry_of("192.0.2.2", 2, 9), entry_of("192.0.2.2", 3, 9),
                                            entry_of("192.0.2.3", 4, 9)};
    struct autobuf_paths_entry known = entry_of("192.0.2.2", 9, 9);
    struct database *db = opened(0);
    size_t count = COUNT(entries);
    struct paths_left_out left;

    (void)state;
    known.method = AUTOBUF_METHOD_IMPORTED;
    for (unsigned i = 0; i < 64; i++) {
        snprintf(known.device, sizeof known.device, "eth%u", i);
        assert_int_equal(database_set(db, &known), 0);
    }
    strcpy(entries[1].device, "eth7");
    strcpy(entries[2].device, "eth77");
    assert_int_equal(database_import(db, entries, &count, NOW_S, &left), 0);
    assert_int_equal(count, 3);
    assert_int_equal(left.better, 0);
    assert_int_equal(left.full, 1);
    assert_int_equal(entries[1].rtt_min_ns, 2 * MS);
    assert_int_equal(entries[2].rtt_min_ns, 4 * MS);
    publish(db);
    assert_memory_equal(stored(), "192.0.2.1 1, 192.0.2.2 9", 24);
    assert_non_null(strstr(stored(), "192.0.2.2 2"));
    assert_null(strstr(stored(), "192.0.2.2 3"));
    assert_non_null(strstr(stored(), "192.0.2.3 4"));
    database_close(db);
}

static void observe_at(struct database *db, const char *prefix, unsigned rtt_ms, uint64_t now_s)
{
    struct autobuf_paths_entry e = entry_of(prefix, rtt_ms, 100);

    e.learned_s = now_s;
    e.expires_s = now_s + DAY_S;
    assert_int_equal(database_observe(db, &e), 0);
}

/* It is not published, and goes a day after something was learned that is later than its end. */
static void what_has_expired_goes(void **state)
{
    struct database *db = opened(0);

    (void)state;
    set(db, "192.0.2.1", 1);
    assert_int_equal(database_publish(db, NOW_S + DAY_S - 1), 0);
    assert_string_equal(stored(), "192.0.2.1 1");
    assert_int_equal(database_publish(db, NOW_S + DAY_S), 0);
    assert_string_equal(stored(), "");
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 1");
    observe_at(db, "198.51.100.1", 2, NOW_S + DAY_S);
    assert_int_equal(database_publish(db, NOW_S + 2 * DAY_S - 1), 0);
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 1, 198.51.100.1 2");
    assert_int_equal(database_publish(db, NOW_S + 2 * DAY_S), 0);
    publish(db);
    assert_string_equal(stored(), "198.51.100.1 2");
    database_close(db);
}

/* All that was set by hand is in the store all the while; what was learned is there again when the clock is. */
static void a_clock_that_is_ahead_deletes_nothing(void **state)
{
    struct autobuf_paths_entry given = entry_of("192.0.2.1", 1, 100), imported = entry_of("192.0.2.1", 9, 100);
    const uint64_t ahead_s = NOW_S + 730 * (uint64_t)DAY_S;
    struct database *db = opened(0);
    struct paths_left_out left;
    size_t count = 1;

    (void)state;
    given.method = AUTOBUF_METHOD_GIVEN;
    assert_int_equal(database_set(db, &given), 0);
    observe_at(db, "192.0.2.2", 2, NOW_S);
    for (unsigned minutes = 0; minutes < 3; minutes++) {
        observe_at(db, "192.0.2.1", 7, ahead_s + 60 * minutes);
        observe_at(db, "198.51.100.1", 7, ahead_s + 60 * minutes);
        assert_int_equal(database_publish(db, ahead_s + 60 * minutes), 0);
        assert_string_equal(stored(), "192.0.2.1 1, 198.51.100.1 7");
    }
    imported.learned_s = ahead_s;
    imported.expires_s = ahead_s + DAY_S;
    assert_int_equal(database_import(db, &imported, &count, ahead_s, &left), 0);
    assert_true(count == 0 && left.better == 1);
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 1, 192.0.2.2 2, 198.51.100.1 7");
    database_close(db);
}

/* Of one prefix a store takes so many; those that are not published do not count. */
static void what_has_expired_makes_room(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.1", 1, 100);
    struct database *db = opened(0);

    (void)state;
    for (unsigned i = 0; i < 65; i++) {
        snprintf(e.device, sizeof e.device, "eth%u", i);
        if (i == 64)
            assert_int_equal(database_observe(db, &e), -E2BIG);
        e.learned_s = NOW_S + (i == 64) * DAY_S;
        assert_int_equal(database_observe(db, &e), 0);
    }
    database_close(db);
}

/* What is learned of a network of which all has expired is as if nothing had been known. */
static void what_has_expired_claims_no_network(void **state)
{
    static const char *const hosts[] = {"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"};
    struct database *db = opened(0);

    (void)state;
    set(db, "192.0.2.0/28", 1);
    for (unsigned i = 0; i < COUNT(hosts); i++)
        observe_at(db, hosts[i], 10, NOW_S + DAY_S);
    assert_int_equal(database_publish(db, NOW_S + DAY_S - 1), 0);
    assert_string_equal(stored(), "192.0.2.0/28 1, 192.0.2.1 10, 192.0.2.2 10, 192.0.2.3 10, 192.0.2.4 10");
    assert_int_equal(database_publish(db, NOW_S + DAY_S), 0);
    assert_string_equal(stored(), "192.0.2.0/24 10");
    database_close(db);
}

/* An entry for a prefix, learned when the clock was days ahead of now_s: no lookup takes it. */
static struct autobuf_paths_entry ahead_of(const char *prefix, uint64_t now_s)
{
    struct autobuf_paths_entry e = entry_of(prefix, 5, 100);

    e.learned_s = now_s + 9 * DAY_S;
    e.expires_s = now_s + 10 * DAY_S;
    return e;
}

static void a_clock_that_was_ahead_keeps_no_file_out(void **state)
{
    struct autobuf_paths_entry ahead = ahead_of("192.0.2.1", NOW_S), imported = entry_of("192.0.2.1", 1, 9);
    struct database *db = opened(0);
    size_t count = 1;
    struct paths_left_out left;

    (void)state;
    imported.method = AUTOBUF_METHOD_IMPORTED;
    assert_int_equal(database_observe(db, &ahead), 0);
    assert_int_equal(database_import(db, &imported, &count, NOW_S, &left), 0);
    assert_int_equal(count, 1);
    assert_int_equal(left.better, 0);
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 1");
    database_close(db);
}

/* The clock is the one that the call reads. */
static void a_clock_that_was_ahead_keeps_no_store_out(void **state)
{
    struct autobuf_paths_entry ahead = ahead_of("192.0.2.1", (uint64_t)time(NULL));
    struct database *db = opened(0);

    (void)state;
    assert_int_equal(database_observe(db, &ahead), 0);
    publish(db);
    keep("192.0.2.1", 1);
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 1");
    database_close(db);
}

static void what_a_clock_ahead_says_goes_first(void **state)
{
    struct autobuf_paths_entry ahead = ahead_of("192.0.2.1", NOW_S);
    struct database *db = opened(0);
    struct autobuf_paths *paths;
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    (void)state;
    assert_int_equal(database_observe(db, &ahead), 0);
    sql("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<5999) INSERT INTO path SELECT "
        "4, 32, cast(char(1+i%127, 1+i/127%127, 1+i/16129%127) || char(1) AS BLOB), '', -1, x'', 1,0,0,1,1500,0,0, "
        "10000000,10000000, 100000000*(1+i%2),1,1,1,1,1, 1,1, 1700000000, NULL FROM n");
    publish(db);
    database_close(db);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(autobuf_paths_count(paths), DATABASE_MOST);
    for (uint64_t at = 0; at < DATABASE_MOST; at++) {
        assert_int_equal(autobuf_paths_at(paths, at, &e), 0);
        assert_int_equal(e.learned_s, NOW_S);
    }
    autobuf_paths_close(paths);
}

/* --------------------------------------------------------------------------------- neighbours */

static void hosts_that_agree_are_one_entry(void **state)
{
    struct database *db = opened(0);
    uint64_t forgotten;

    (void)state;
    for (unsigned n = 1; n <= 5; n++) {
        char text[AUTOBUF_PREFIX_BYTES];

        snprintf(text, sizeof text, "192.0.2.%u", n);
        set(db, text, n == 3 ? 90 : 10);
        snprintf(text, sizeof text, "2001:db8::%u", n);
        set(db, text, 20);
    }
    set(db, "198.51.100.1", 7);
    publish(db);
    assert_string_equal(stored(), "192.0.2.0/24 10, 192.0.2.3 90, 198.51.100.1 7, 2001:db8::/64 20");
    forget(db, "192.0.2.1", 1);
    publish(db);
    assert_string_equal(stored(), "192.0.2.2 10, 192.0.2.3 90, 192.0.2.4 10, 192.0.2.5 10, 198.51.100.1 7, 2001:db8::/64 20");
    forget(db, "192.0.2.0/24", 0); /* it is not in the store now, so no hosts go with it */
    forget(db, "2001:db8::/64", 5);
    forget(db, "2001:db8::/64", 0);
    publish(db);
    assert_string_equal(stored(), "192.0.2.2 10, 192.0.2.3 90, 192.0.2.4 10, 192.0.2.5 10, 198.51.100.1 7");
    assert_int_equal(database_forget(db, NULL, &forgotten), 0);
    assert_int_equal(forgotten, 5);
    publish(db);
    assert_string_equal(stored(), "");
    database_close(db);
}

/* What is set for the network, for one around it, or a part of it: then its hosts stay hosts. */
static void what_is_said_of_a_network_stays(void **state)
{
    static const struct {
        const char *name, *prefix;
        uint32_t method;
        bool one;
    } rows[] = {
        {"the network", "192.0.2.0/24", AUTOBUF_METHOD_ICMP, false},
        {"one around it, by hand", "192.0.0.0/16", AUTOBUF_METHOD_GIVEN, false},
        {"all, by hand", "0.0.0.0/0", AUTOBUF_METHOD_GIVEN, false},
        {"one around it, measured", "192.0.0.0/16", AUTOBUF_METHOD_ICMP, true},
        {"a part", "192.0.2.128/25", AUTOBUF_METHOD_ICMP, false},
        {"the last two addresses", "192.0.2.254/31", AUTOBUF_METHOD_ICMP, false},
        {"the next network", "192.0.3.0/24", AUTOBUF_METHOD_GIVEN, true},
        {"a part of the one before", "192.0.1.254/31", AUTOBUF_METHOD_GIVEN, true},
        {"one elsewhere, by hand", "192.1.0.0/16", AUTOBUF_METHOD_GIVEN, true},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_paths_entry e = entry_of(rows[i].prefix, 99, 100);
        struct database *db;

        assert_int_equal(end(state) || begin_with_database(state), 0);
        db = opened(0);
        for (unsigned n = 1; n <= 4; n++) {
            char text[AUTOBUF_PREFIX_BYTES];

            snprintf(text, sizeof text, "192.0.2.%u", n);
            set(db, text, 10);
        }
        e.method = rows[i].method;
        assert_int_equal(database_set(db, &e), 0);
        publish(db);
        database_close(db);
        CHECK_EQUAL(rows[i].name, strstr(stored(), "192.0.2.0/24 10") != NULL, rows[i].one);
        CHECK_EQUAL(rows[i].name, strstr(stored(), "192.0.2.4 10") != NULL, !rows[i].one);
        CHECK(rows[i].name, strstr(stored(), " 99") != NULL);
    }
}

/* What is found for a host, in ms; 0: nothing. */
static unsigned found_ms(const char *host)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    struct sockaddr_in peer = {.sin_family = AF_INET};
    struct autobuf_paths *paths;
    int error;

    assert_int_equal(inet_pton(AF_INET, host, &peer.sin_addr), 1);
    query.remote = (struct sockaddr *)&peer;
    query.remote_len = sizeof peer;
    query.now_s = NOW_S;
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    error = autobuf_paths_find(paths, &query, &e);
    autobuf_paths_close(paths);
    return error < 0 ? 0 : (unsigned)(e.rtt_min_ns / MS);
}

/* The network's entry would be of that time, too. */
static void a_clock_that_was_ahead_spoils_no_network(void **state)
{
    struct autobuf_paths_entry ahead = ahead_of("192.0.2.5", NOW_S);
    struct database *db = opened(0);

    (void)state;
    ahead.rtt_min_ns = 10 * MS;
    assert_int_equal(database_observe(db, &ahead), 0);
    for (unsigned n = 1; n <= 4; n++) {
        char text[AUTOBUF_PREFIX_BYTES];

        snprintf(text, sizeof text, "192.0.2.%u", n);
        set(db, text, 10);
    }
    publish(db);
    assert_string_equal(stored(), "192.0.2.0/24 10, 192.0.2.5 10");
    assert_int_equal(found_ms("192.0.2.1"), 10);
    assert_int_equal(found_ms("192.0.2.5"), 10);
    database_close(db);
}

/* Of more hosts than are looked at those that come later stay hosts; none is lost. */
static void a_very_large_network(void **state)
{
    struct database *db = opened(0);
    struct autobuf_paths *paths;

    (void)state;
    for (unsigned n = 0; n < 5000; n++) {
        struct autobuf_paths_entry e = entry_of("2001:db8::", 10, 100);

        e.remote.address[14] = (uint8_t)(n >> 8);
        e.remote.address[15] = (uint8_t)n;
        assert_int_equal(database_observe(db, &e), 0);
    }
    publish(db);
    database_close(db);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(autobuf_paths_count(paths), 1 + 5000 - 4096);
    autobuf_paths_close(paths);
}

/* ----------------------------------------------------------------------------- stores of others */

static void what_a_store_has_is_taken_in_once(void **state)
{
    struct database *db;

    (void)state;
    keep("192.0.2.1", 1);
    keep("192.0.2.2", 2);
    db = opened(0);
    forget(db, "192.0.2.1", 1);
    publish(db);
    assert_string_equal(stored(), "192.0.2.2 2");
    database_close(db);
    db = opened(0);
    publish(db);
    assert_string_equal(stored(), "192.0.2.2 2");
    keep("192.0.2.3", 3); /* while the database is open */
    forget(db, "192.0.2.3", 1);
    publish(db);
    assert_string_equal(stored(), "192.0.2.2 2");
    keep("192.0.2.4", 4);
    publish(db);
    assert_string_equal(stored(), "192.0.2.2 2, 192.0.2.4 4");
    database_close(db);
}

/* One that dies before it publishes has forgotten nevertheless. */
static void what_was_forgotten_does_not_come_back(void **state)
{
    struct database *db;

    (void)state;
    keep("192.0.2.1", 1);
    db = opened(0);
    forget(db, "192.0.2.1", 1);
    database_close(db);
    assert_string_equal(stored(), "192.0.2.1 1");
    db = opened(0);
    publish(db);
    assert_string_equal(stored(), "");
    database_close(db);
}

static void what_is_known_better_stays(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.1", 1, 100);
    struct database *db = opened(0);

    (void)state;
    e.method = AUTOBUF_METHOD_GIVEN;
    assert_int_equal(database_set(db, &e), 0);
    publish(db);
    keep("192.0.2.1", 2);
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 1");
    database_close(db);
}

/* ------------------------------------------------------------------------------------- faults */

static void overwrite(const char *name, off_t at, size_t bytes)
{
    char noise[4096];
    int fd = open(name, O_WRONLY);

    memset(noise, 0xa5, sizeof noise);
    assert_int_equal(pwrite(fd, noise, bytes, at), bytes);
    close(fd);
}

static void a_damaged_database_is_set_aside(void **state)
{
    static const struct {
        const char *name, *text; /* what is done: a statement, or */
        off_t at;                /* noise from here on */
        size_t bytes;
    } rows[] = {
        {"no database", NULL, 0, 100},
        {"the first page", NULL, 100, 3000},
        {"a table that is not there", "DROP TABLE id", 0, 0},
        {"no id", "DELETE FROM id", 0, 0},
        {"an id that is none", "UPDATE id SET id=x'00'", 0, 0},
        {"an id that is huge", "UPDATE id SET id=zeroblob(100000)", 0, 0},
        {"another program's", "PRAGMA application_id=1", 0, 0},
        {"no version", "PRAGMA user_version=0", 0, 0},
        {"a view", "ALTER TABLE path RENAME TO p; CREATE VIEW path AS SELECT * FROM p", 0, 0},
        {"a trigger", "CREATE TRIGGER t AFTER INSERT ON path BEGIN DELETE FROM path; END", 0, 0},
        {"a table more", "CREATE TABLE more(x)", 0, 0},
        {"a generated column", "ALTER TABLE path ADD COLUMN g AS (hex(address))", 0, 0},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct database *db;

        assert_int_equal(end(state) || begin_with_database(state), 0);
        db = opened(0);
        set(db, "192.0.2.1", 1);
        publish(db);
        database_close(db);
        if (rows[i].text)
            sql(rows[i].text);
        else
            overwrite(file, rows[i].at, rows[i].bytes);
        CHECK_EQUAL(rows[i].name, database_open(&db, store, 0), DATABASE_SET_ASIDE);
        CHECK(rows[i].name, is_there(".damaged"));
        set(db, "192.0.2.2", 2);
        publish(db);
        database_close(db);
        assert_string_equal(stored(), "192.0.2.1 1, 192.0.2.2 2");
        database_close(opened(0));
    }
}

/* What the first ones were told by hand may be in none of the later ones. */
static void damaged_ones_are_kept(void **state)
{
    static const char *const ends[] = {".damaged", ".damaged-2", ".damaged-3", ".damaged-8", ".damaged-9"};
    struct stat kept;

    (void)state;
    for (off_t bytes = 1; bytes <= 12; bytes++) {
        database_close(opened(0));
        assert_int_equal(truncate(file, bytes), 0);
        database_close(opened(DATABASE_SET_ASIDE));
    }
    for (size_t i = 0; i < COUNT(ends); i++) {
        char name[sizeof file + 16];

        snprintf(name, sizeof name, "%s%s", file, ends[i]);
        assert_int_equal(stat(name, &kept), 0);
        CHECK_EQUAL(ends[i], kept.st_size, i < 3 ? i + 1 : i == 3 ? 8 : 12);
    }
    assert_false(is_there(".damaged-10"));
}

/* Damage that shows only when a page is read. Another process that has it open goes on with the new one. */
static void damage_shows_later(void **state)
{
    struct database *db = opened(0), *other;
    struct stat size;

    (void)state;
    for (unsigned n = 0; n < 200; n++) {
        struct autobuf_paths_entry e = entry_of("10.0.0.0", 10, 100);

        e.remote.address[1] = (uint8_t)n;
        assert_int_equal(database_observe(db, &e), 0);
    }
    publish(db);
    database_close(db);
    sql("PRAGMA wal_checkpoint(TRUNCATE)");
    other = opened(0);
    db = opened(0);
    assert_int_equal(stat(file, &size), 0);
    assert_true(size.st_size > 5 * 4096);
    for (off_t at = 3 * 4096; at < size.st_size; at += 4096)
        overwrite(file, at, 4096);
    assert_int_equal(database_publish(db, NOW_S), DATABASE_SET_ASIDE);
    assert_true(is_there(".damaged") && is_there(".damaged-wal"));
    assert_string_equal(strstr(stored(), "10.199.0.0"), "10.199.0.0 10");
    set(other, "192.0.2.1", 1);
    set(db, "192.0.2.2", 2);
    publish(other);
    assert_non_null(strstr(stored(), "192.0.2.2 2"));
    assert_non_null(strstr(stored(), "192.0.2.1 1"));
    database_close(db);
    database_close(other);
    db = opened(0);
    publish(db);
    assert_non_null(strstr(stored(), "192.0.2.2 2"));
    database_close(db);
}

/* Each row is hostile in its own way; none is published, none stops the others. */
static void rows_are_checked_as_they_are_read(void **state)
{
    static const char *const rows[] = {
        "address='text'", "address=x'00'", "address=x''", "address=zeroblob(3000)", "bits=33", "bits=24.5",
        "bits=-1", "device=x'00'", "device='a name with blanks'", "device='0123456789abcdef'", "device=7", "local_bits=33",
        "local_bits='x'", "local_address=x'0a000000'", "local_bits=8", "method='icmp'", "flags=-1", "samples=4294967296",
        "packet_bytes=65536", "rtt_min_ns='long'", "rtt_min_ns=-1", "rtt_min_ns=9e99", "tx_rate_bit_per_s=9223372036854775807",
        "tx_rate_bit_per_s=NULL", "rx_bdp_bytes=1099511627777", "learned_s=x'00'", "expires_s='never'", "version=5",
        "version='4'", "local_address='text'", "limiter=NULL", "device=char(0)",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[256];
        struct database *db;

        assert_int_equal(end(state) || begin_with_database(state), 0);
        db = opened(0);
        set(db, "192.0.2.1", 1);
        set(db, "192.0.2.2", 2);
        set(db, "192.0.2.3", 3);
        snprintf(text, sizeof text, "UPDATE path SET %s WHERE address=x'c0000202'", rows[i]);
        sql(text);
        CHECK_EQUAL(rows[i], database_publish(db, NOW_S), 0);
        if (strcmp(stored(), "192.0.2.1 1, 192.0.2.3 3") != 0)
            fail_msg("%s: %s", rows[i], stored());
        set(db, "192.0.2.2", 4);
        publish(db);
        assert_string_equal(stored(), "192.0.2.1 1, 192.0.2.2 4, 192.0.2.3 3");
        database_close(db);
    }
}

static void a_newer_one_is_left_alone(void **state)
{
    struct database *db = opened(0);
    struct stat before, after;

    (void)state;
    set(db, "192.0.2.1", 1);
    publish(db);
    database_close(db);
    sql("PRAGMA user_version=2; CREATE TABLE future(x); PRAGMA wal_checkpoint(TRUNCATE)");
    assert_int_equal(stat(file, &before), 0);
    assert_null(opened(AUTOBUF_E_NEWER));
    assert_int_equal(stat(file, &after), 0);
    assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
    assert_false(is_there(".damaged"));
    assert_string_equal(stored(), "192.0.2.1 1");
}

static void only_an_own_file_is_opened(void **state)
{
    static const char *const names[] = {"", "-wal", "-shm", "-journal"};
    struct database *db = opened(0);
    char name[160], elsewhere[160];

    (void)state;
    set(db, "192.0.2.1", 1);
    publish(db);
    database_close(db);
    sql("PRAGMA journal_mode=DELETE"); /* so that there is one file alone */
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    for (size_t i = 0; i < COUNT(names); i++) {
        struct stat was;

        snprintf(name, sizeof name, "%s%s", file, names[i]);
        if (i)
            close(open(name, O_WRONLY | O_CREAT, 0600));
        assert_int_equal(chmod(name, 0620), 0);
        assert_null(opened(-EPERM));
        assert_int_equal(chmod(name, 0602), 0);
        assert_null(opened(-EPERM));
        assert_int_equal(chmod(name, 0600), 0);
        if (geteuid() == 0) {
            assert_int_equal(chown(name, OTHER_USER, OTHER_USER), 0);
            assert_null(opened(-EPERM));
            assert_int_equal(chown(name, 0, 0), 0);
        }
        assert_int_equal(rename(name, elsewhere), 0);
        assert_int_equal(symlink(elsewhere, name), 0);
        assert_null(opened(-ELOOP));
        assert_int_equal(lstat(name, &was), 0);
        assert_true(S_ISLNK(was.st_mode));
        assert_int_equal(unlink(name), 0);
        assert_int_equal(mkfifo(name, 0600), 0);
        assert_null(opened(-EPERM));
        assert_int_equal(unlink(name), 0);
        if (i == 0)
            assert_int_equal(rename(elsewhere, name), 0);
    }
    assert_string_equal(stored(), "192.0.2.1 1");
    database_close(opened(0));

    assert_int_equal(chmod(folder, 0720), 0);
    assert_null(opened(-EPERM));
    assert_int_equal(chmod(folder, 0702), 0);
    assert_null(opened(-EPERM));
    assert_int_equal(chmod(folder, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(folder, OTHER_USER, OTHER_USER), 0);
        assert_null(opened(-EPERM));
        assert_int_equal(unlink(file), 0);
        assert_null(opened(-EPERM)); /* and none is made */
        assert_int_equal(access(file, F_OK), -1);
        assert_int_equal(chown(folder, 0, 0), 0);
    }
    database_close(opened(0));
}

static void a_store_of_others_is_not_replaced(void **state)
{
    struct database *db = opened(0);

    (void)state;
    set(db, "192.0.2.1", 1);
    publish(db);
    assert_int_equal(chmod(store, 0666), 0);
    assert_int_equal(database_publish(db, NOW_S), -EPERM);
    assert_int_equal(chmod(store, 0644), 0);
    overwrite(store, 100, 28); /* a damaged one is replaced */
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 1");
    database_close(db);
}

/* Who keeps a transaction open stands in the way of others for a time, and loses nobody's work. */
static void nobody_waits_for_ever(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.1", 1, 100);
    struct database *db = opened(0);
    sqlite3 *raw;

    (void)state;
    assert_int_equal(sqlite3_open(file, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(database_set(db, &e), -EBUSY);
    assert_int_equal(sqlite3_exec(raw, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(raw);
    assert_int_equal(database_set(db, &e), 0);
    publish(db);
    assert_string_equal(stored(), "192.0.2.1 1");
    database_close(db);
}

static void what_an_error_is_about(void **state)
{
    char about[PATH_MAX];

    (void)state;
    database_close(opened(0));
    keep("192.0.2.1", 1);
    assert_int_equal(chmod(store, 0666), 0);
    database_blame(store, -EPERM, about);
    assert_string_equal(about, store);
    database_blame(store, AUTOBUF_E_NEWER, about);
    assert_string_equal(about, file);
}

static void as_many_as_a_database_keeps(void **state)
{
    struct database *db = opened(0);
    struct autobuf_paths *paths;
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    (void)state;
    sql("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<6000) INSERT INTO path SELECT "
        "4, 32, cast(char(1+i%127, 1+i/127%127, 1+i/16129%127) || char(1) AS BLOB), '', -1, x'', 1+(i%7=0),0,0,1,1500,0,0, "
        "10000000,10000000, 100000000*(1+i%2),1,1,1,1,1, 1,1, 1700000000+i, NULL FROM n");
    set(db, "192.0.2.1", 1); /* learned at 1700000000, as the first one, which was set by hand */
    publish(db);
    database_close(db);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(autobuf_paths_count(paths), DATABASE_MOST);
    assert_int_equal(autobuf_paths_at(paths, 0, &e), 0);
    assert_int_equal(e.method, AUTOBUF_METHOD_GIVEN);
    autobuf_paths_close(paths);
}

/* -------------------------------------------------------------------- many, and killed ones */

#define EACH 24U

static struct autobuf_paths_entry numbered(unsigned n)
{
    struct autobuf_paths_entry e = entry_of(n % 2 ? "2001:db8::" : "10.0.0.1", 1 + n, 100);

    e.remote.address[n % 2 ? 6 : 1] = (uint8_t)(n >> 8);
    e.remote.address[n % 2 ? 7 : 2] = (uint8_t)n;
    return e;
}

/* Each notes how many entries it knows to be committed. One that is to be killed never ends by itself. */
static void observe_all(unsigned writer, volatile unsigned *done)
{
    struct database *db;

    if (database_open(&db, store, 0) != 0)
        _exit(2);
    for (unsigned i = 0; i < EACH || is_killed(writer); i++) {
        struct autobuf_paths_entry e = numbered(writer * EACH + i % EACH);
        int error = database_observe(db, &e);

        if (error == 0 && i < EACH)
            *done = i + 1; /* killed from here on, the next publication has it */
        if (error != 0 || database_publish(db, NOW_S) != 0)
            _exit(1);
    }
    database_close(db);
    _exit(0);
}

static void assert_sound(void)
{
    sqlite3_stmt *statement;
    sqlite3 *raw;

    assert_int_equal(sqlite3_open(file, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(raw, "PRAGMA integrity_check", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(raw);
}

static void whoever_is_killed_nothing_is_lost_or_damaged(void **state)
{
    struct autobuf_paths_entry found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;
    volatile unsigned *done;
    struct database *db;

    (void)state;
    db = opened(0);
    publish(db);
    database_close(db);
    done = half_are_killed(observe_all, EACH / 2);
    assert_sound();
    db = opened(0);
    publish(db);
    database_close(db);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    for (unsigned i = 0; i < WRITERS; i++)
        for (unsigned k = 0; k < done[i]; k++) {
            struct autobuf_paths_entry e = numbered(i * EACH + k);

            assert_int_equal(find_entry(paths, &e, NOW_S, 0, &found), 0);
            assert_int_equal(found.rtt_min_ns, e.rtt_min_ns);
        }
    autobuf_paths_close(paths);
    munmap((void *)(uintptr_t)done, 4096);
}

/* Many begin at once, of whom one makes the database. */
static void many_make_it_at_once(void **state)
{
    pid_t makers[WRITERS];
    struct database *db;

    (void)state;
    keep("198.51.100.1", 1);
    for (unsigned i = 0; i < WRITERS; i++)
        if ((makers[i] = fork()) == 0) {
            struct autobuf_paths_entry e = numbered(i);

            _exit(database_open(&db, store, 0) || database_set(db, &e) || database_publish(db, NOW_S));
        }
    for (unsigned i = 0; i < WRITERS; i++)
        assert_ended(makers[i], false);
    db = opened(0);
    publish(db);
    database_close(db);
    assert_non_null(strstr(stored(), "198.51.100.1 1"));
    assert_non_null(strstr(stored(), "10.0.6.1 7"));
    assert_sound();
}

int main(void)
{
#define DATABASE(test) cmocka_unit_test_setup_teardown(test, begin_with_database, end)
    const struct CMUnitTest tests[] = {
        DATABASE(what_is_set_is_published_in_order),
        DATABASE(all_of_an_entry_comes_back),
        DATABASE(local_sides_are_in_order),
        DATABASE(what_no_store_takes_is_refused),
        DATABASE(what_is_observed_is_merged),
        DATABASE(an_import_replaces_what_says_less),
        DATABASE(of_one_prefix_no_more_than_fit),
        DATABASE(what_has_expired_goes),
        DATABASE(a_clock_that_is_ahead_deletes_nothing),
        DATABASE(what_has_expired_makes_room),
        DATABASE(what_has_expired_claims_no_network),
        DATABASE(a_clock_that_was_ahead_keeps_no_file_out),
        DATABASE(a_clock_that_was_ahead_keeps_no_store_out),
        DATABASE(what_a_clock_ahead_says_goes_first),
        DATABASE(hosts_that_agree_are_one_entry),
        DATABASE(what_is_said_of_a_network_stays),
        DATABASE(a_clock_that_was_ahead_spoils_no_network),
        DATABASE(a_very_large_network),
        DATABASE(what_a_store_has_is_taken_in_once),
        DATABASE(what_was_forgotten_does_not_come_back),
        DATABASE(what_is_known_better_stays),
        DATABASE(a_damaged_database_is_set_aside),
        DATABASE(damaged_ones_are_kept),
        DATABASE(damage_shows_later),
        DATABASE(rows_are_checked_as_they_are_read),
        DATABASE(a_newer_one_is_left_alone),
        DATABASE(only_an_own_file_is_opened),
        DATABASE(a_store_of_others_is_not_replaced),
        DATABASE(nobody_waits_for_ever),
        DATABASE(what_an_error_is_about),
        DATABASE(as_many_as_a_database_keeps),
        DATABASE(whoever_is_killed_nothing_is_lost_or_damaged),
        DATABASE(many_make_it_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

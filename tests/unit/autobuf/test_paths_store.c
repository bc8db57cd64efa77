/* SPDX-License-Identifier: MIT */
/*
 * tools/paths_store.c: what becomes of a store that is changed, of hosts that agree, and what may
 * happen to it.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths/store.h"
#include "paths/record.h"
#include "paths_store.h"

#include "stores.h"

/* One entry into the host's store, at that time. */
static int change(enum paths_how how, struct autobuf_paths_entry e, uint64_t now_s)
{
    struct paths_change one = {.how = how, .fresh = &e, .count = 1, .networks = true};
    int error = paths_store_change(store, &one, now_s, AUTOBUF_PATHS_NO_SYNC);

    return error == 0 && one.full ? -E2BIG : error;
}

static void set(const char *prefix, unsigned rtt_ms)
{
    assert_int_equal(change(CHANGE_SET, entry_of(prefix, rtt_ms, 100), NOW_S), 0);
}

static void observe(struct autobuf_paths_entry e)
{
    assert_int_equal(change(CHANGE_OBSERVE, e, NOW_S), 0);
}

static void observe_at(const char *prefix, unsigned rtt_ms, uint64_t now_s)
{
    struct autobuf_paths_entry e = entry_of(prefix, rtt_ms, 100);

    e.learned_s = now_s;
    e.expires_s = now_s + DAY_S;
    assert_int_equal(change(CHANGE_OBSERVE, e, now_s), 0);
}

static void import(struct autobuf_paths_entry *entries, size_t *count, uint64_t now_s,
                   struct paths_change *done)
{
    *done = (struct paths_change){
        .how = CHANGE_IMPORT, .fresh = entries, .count = *count, .networks = true};
    assert_int_equal(paths_store_change(store, done, now_s, 0), 0);
    *count = done->count;
}

static void forget(const char *prefix, uint64_t expected)
{
    struct autobuf_prefix parsed;
    struct paths_change none = {.forget = &parsed, .networks = true};

    assert_int_equal(autobuf_prefix_parse(prefix, &parsed), 0);
    assert_int_equal(paths_store_change(store, &none, NOW_S, 0), 0);
    assert_int_equal(none.forgotten, expected);
}

/* As a program does that knows nothing of networks. */
static void keep(const char *prefix, unsigned rtt_ms)
{
    struct autobuf_paths_entry e = entry_of(prefix, rtt_ms, 100);

    assert_int_equal(autobuf_paths_keep(store, &e, NOW_S, 0), 0);
}

static uint64_t count_all(void)
{
    struct autobuf_paths *paths;
    uint64_t count;

    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    count = ab_paths_count(paths);
    autobuf_paths_close(paths);
    return count;
}

/* -------------------------------------------------------------------------------- what it does */

static void what_is_set_is_there_in_order(void **state)
{
    struct autobuf_prefix prefix;
    struct paths_change none = {.forget = &prefix};

    (void)state;
    assert_int_equal(autobuf_prefix_parse("192.0.2.1", &prefix), 0);
    assert_int_equal(paths_store_change(store, &none, NOW_S, 0), -ENOENT);
    assert_int_equal(paths_store_change(store, &(struct paths_change){.networks = true}, NOW_S, 0),
                     0);
    assert_int_not_equal(access(store, F_OK), 0);
    set("2001:db8::1", 1);
    set("192.0.2.1", 2);
    set("192.0.0.0/16", 3);
    set("192.0.2.1", 4);
    set("192.0.2.128/25", 5);
    set("2001:db8::/32", 6);
    assert_string_equal(
        stored(), "192.0.0.0/16 3, 192.0.2.128/25 5, 192.0.2.1 4, 2001:db8::/32 6, 2001:db8::1 1");
    forget("192.0.2.1", 1);
    forget("192.0.2.1", 0);
    forget("192.0.2.2", 0);
    assert_string_equal(stored(),
                        "192.0.0.0/16 3, 192.0.2.128/25 5, 2001:db8::/32 6, 2001:db8::1 1");
    none = (struct paths_change){.forget_all = true};
    assert_int_equal(paths_store_change(store, &none, NOW_S, 0), 0);
    assert_int_equal(none.forgotten, 4);
    assert_string_equal(stored(), "");
}

/* In the order in which a lookup wants them, and all of one prefix are forgotten. */
static void local_sides_are_in_order(void **state)
{
    static const char *const locals[] = {"",     "10.0.0.0/8", "eth1",    "10.1.0.0/16",
                                         "eth0", "0.0.0.0/0",  "10.0.0.1"};

    (void)state;
    for (size_t i = 0; i < COUNT(locals); i++) {
        struct autobuf_paths_entry e = entry_of("192.0.2.1", (unsigned)i, 100);

        if (autobuf_prefix_parse(locals[i], &e.local) < 0)
            strcpy(e.device, locals[i]);
        assert_int_equal(change(CHANGE_SET, e, NOW_S), 0);
    }
    assert_string_equal(stored(), "192.0.2.1 4, 192.0.2.1 2, 192.0.2.1 6, 192.0.2.1 3, 192.0.2.1 "
                                  "1, 192.0.2.1 5, 192.0.2.1 0");
    forget("192.0.2.1", COUNT(locals));
}

static void what_no_store_takes_is_refused(void **state)
{
    struct autobuf_paths_entry bad = entry_of("192.0.2.1", 1, 100),
                               many = entry_of("192.0.2.9", 1, 100);

    (void)state;
    bad.tx_rate_bit_per_s = UINT64_MAX;
    for (enum paths_how how = CHANGE_OBSERVE; how <= CHANGE_IMPORT; how++)
        assert_int_equal(change(how, bad, NOW_S), -EINVAL);
    for (unsigned i = 0; i < 64; i++) {
        snprintf(many.device, sizeof many.device, "eth%u", i);
        observe(many);
        observe(many);
    }
    strcpy(many.device, "eth64");
    assert_int_equal(change(CHANGE_OBSERVE, many, NOW_S), -E2BIG);
    assert_int_equal(change(CHANGE_SET, many, NOW_S), -E2BIG);
    assert_int_equal(count_all(), 64);
}

static void what_is_observed_is_merged(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.1", 20, 100);

    (void)state;
    observe(e);
    e.rtt_min_ns = 10 * MS;
    observe(e);
    e.rtt_min_ns = 30 * MS;
    observe(e);
    assert_string_equal(stored(), "192.0.2.1 10");
    e.method = AUTOBUF_METHOD_GIVEN;
    e.expires_s = UINT64_MAX;
    assert_int_equal(change(CHANGE_SET, e, NOW_S), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    e.rtt_min_ns = 5 * MS;
    observe(e);
    assert_string_equal(stored(), "192.0.2.1 30");
}

static void an_import_replaces_what_says_less(void **state)
{
    struct autobuf_paths_entry entries[] = {
        entry_of("192.0.2.1", 1, 9), entry_of("192.0.2.2", 2, 9), entry_of("192.0.2.3", 3, 9)};
    size_t count = COUNT(entries);
    struct paths_change done;

    (void)state;
    for (size_t i = 0; i < count; i++)
        entries[i].method = AUTOBUF_METHOD_IMPORTED;
    set("192.0.2.2", 4);
    import(entries, &count, NOW_S, &done);
    assert_int_equal(count, 2);
    assert_int_equal(done.better, 1);
    assert_int_equal(entries[1].rtt_min_ns, 3 * MS);
    assert_string_equal(stored(), "192.0.2.1 1, 192.0.2.2 4, 192.0.2.3 3");
}

/* Makes it an entry for one interface, such as "n07". */
static void name(struct autobuf_paths_entry *e, const char *kind, unsigned n)
{
    snprintf(e->device, sizeof e->device, "%s%02u", kind, n);
}

/*
 * A file with more of one prefix than a store takes: what the store has stays, also what comes
 * later in its order.
 */
static void of_one_prefix_no_more_than_fit(void **state)
{
    static struct autobuf_paths_entry entries[72];
    struct autobuf_paths_entry e = entry_of("192.0.2.4", 20, 100);
    size_t count = COUNT(entries);
    struct paths_change done;

    (void)state;
    for (unsigned n = 0; n < 62; n++) {
        name(&e, "n", n);
        e.expires_s = n == 30 ? NOW_S : UINT64_MAX; /* has just expired: there is room for three */
        assert_int_equal(autobuf_paths_keep(store, &e, NOW_S - 1, 0), 0);
    }
    entries[0] = entry_of("192.0.2.1", 1, 100);
    entries[71] = entry_of("192.0.2.9", 9, 100);
    /* One before all others, one that the store has, the rest behind. */
    for (unsigned n = 1; n < 71; n++) {
        entries[n] = entry_of("192.0.2.4", 4, 100);
        name(&entries[n], n == 1 ? "a" : n == 2 ? "n" : "z", n);
    }
    import(entries, &count, NOW_S, &done);
    assert_int_equal(done.better, 0);
    assert_int_equal(done.full, 66);
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
    import(entries, &count, NOW_S, &done);
    assert_int_equal(done.full, 6);
    assert_int_equal(count, 64);
}

/* The entry of a key, among several with the same prefix and others. */
static void where_a_key_is(void **state)
{
    struct autobuf_paths_entry local = entry_of("192.0.2.0/25", 1, 100);
    struct autobuf_paths_entry all = entry_of("2001:db8::/32", 2, 100),
                               behind = entry_of("2001:db8::1", 3, 100);
    struct autobuf_paths_entry found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;

    (void)state;
    strcpy(local.device, "eth0");
    observe(local);
    strcpy(local.device, "eth1");
    observe(local);
    observe(all);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(ab_paths_get(paths, &local, &found), 0);
    assert_string_equal(found.device, "eth1");
    assert_int_equal(ab_paths_get(paths, &all, &found), 0);
    assert_int_equal(ab_paths_compare(&found, &all), 0);
    assert_int_equal(ab_paths_get(paths, &behind, &found), -ENOENT);
    strcpy(local.device, "eth2");
    assert_int_equal(ab_paths_get(paths, &local, &found), -ENOENT);
    strcpy(local.device, "no/name");
    assert_int_equal(ab_paths_get(paths, &local, &found), -EINVAL);
    assert_int_equal(ab_paths_get(NULL, &all, &found), -ENOENT);
    autobuf_paths_close(paths);
}

/* -------------------------------------------------------------------------------------- clocks */

/* It goes a day after something was learned that is later than its end. */
static void what_has_expired_goes(void **state)
{
    (void)state;
    set("192.0.2.1", 1);
    observe_at("198.51.100.1", 2, NOW_S + DAY_S);
    observe_at("198.51.100.2", 3, NOW_S + 2 * DAY_S - 1);
    assert_string_equal(stored(), "192.0.2.1 1, 198.51.100.1 2, 198.51.100.2 3");
    observe_at("198.51.100.2", 3, NOW_S + 2 * DAY_S);
    assert_string_equal(stored(), "198.51.100.1 2, 198.51.100.2 3");
}

/* What was learned is there again when the clock is. */
static void a_clock_that_is_ahead_deletes_nothing(void **state)
{
    struct autobuf_paths_entry given = entry_of("192.0.2.1", 1, 100),
                               imported = entry_of("192.0.2.1", 9, 100);
    const uint64_t ahead_s = NOW_S + 730 * (uint64_t)DAY_S;
    struct paths_change done;
    size_t count = 1;

    (void)state;
    given.method = AUTOBUF_METHOD_GIVEN;
    assert_int_equal(change(CHANGE_SET, given, NOW_S), 0);
    observe_at("192.0.2.2", 2, NOW_S);
    for (unsigned minutes = 0; minutes < 3; minutes++) {
        observe_at("192.0.2.1", 7, ahead_s + 60 * minutes);
        observe_at("198.51.100.1", 7, ahead_s + 60 * minutes);
        assert_string_equal(stored(), "192.0.2.1 1, 192.0.2.2 2, 198.51.100.1 7");
    }
    imported.learned_s = ahead_s;
    imported.expires_s = ahead_s + DAY_S;
    import(&imported, &count, ahead_s, &done);
    assert_true(count == 0 && done.better == 1);
    observe_at("192.0.2.2", 2, NOW_S);
    assert_string_equal(stored(), "192.0.2.1 1, 192.0.2.2 2, 198.51.100.1 7");
}

/* Of one prefix a store takes so many; those that are not used any more do not count. */
static void what_has_expired_makes_room(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.1", 1, 100);

    (void)state;
    for (unsigned i = 0; i < 65; i++) {
        snprintf(e.device, sizeof e.device, "eth%u", i);
        if (i == 64)
            assert_int_equal(change(CHANGE_OBSERVE, e, NOW_S + DAY_S - 1), -E2BIG);
        e.learned_s = NOW_S + (i == 64) * DAY_S;
        assert_int_equal(change(CHANGE_OBSERVE, e, e.learned_s), 0);
    }
}

/* What is learned of a network of which all has expired is as if nothing had been known. */
static void what_has_expired_claims_no_network(void **state)
{
    static const char *const hosts[] = {"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"};
    struct autobuf_paths_entry e;

    (void)state;
    set("192.0.2.0/28", 1);
    set("192.0.2.0/24", 2);
    for (unsigned i = 0; i < COUNT(hosts); i++) {
        e = entry_of(hosts[i], 10, 100);
        e.expires_s += DAY_S;
        assert_int_equal(change(CHANGE_OBSERVE, e, NOW_S + DAY_S - 1), 0);
    }
    assert_string_equal(
        stored(),
        "192.0.2.0/24 2, 192.0.2.0/28 1, 192.0.2.1 10, 192.0.2.2 10, 192.0.2.3 10, 192.0.2.4 10");
    assert_int_equal(change(CHANGE_OBSERVE, e, NOW_S + DAY_S), 0);
    assert_string_equal(
        stored(),
        "192.0.2.0/24 10, 192.0.2.0/28 1, 192.0.2.1 10, 192.0.2.2 10, 192.0.2.3 10, 192.0.2.4 10");
}

/* Nor do hosts agree, or not, that are not used any more. */
static void what_has_expired_agrees_with_nothing(void **state)
{
    (void)state;
    set("192.0.2.1", 10);
    set("192.0.2.2", 10);
    set("192.0.2.3", 10);
    set("192.0.2.4", 10);
    observe_at("198.51.100.1", 2, NOW_S + DAY_S);
    assert_string_equal(stored(),
                        "192.0.2.1 10, 192.0.2.2 10, 192.0.2.3 10, 192.0.2.4 10, 198.51.100.1 2");
    observe_at("198.51.100.1", 2, NOW_S + DAY_S - 1);
    assert_memory_equal(stored(), "192.0.2.0/24 10", 15);
}

/* An entry for a prefix, learned when the clock was days ahead of NOW_S: no lookup takes it. */
static struct autobuf_paths_entry ahead_of(const char *prefix)
{
    struct autobuf_paths_entry e = entry_of(prefix, 5, 100);

    e.learned_s = NOW_S + 9 * DAY_S;
    e.expires_s = NOW_S + 10 * DAY_S;
    return e;
}

static void a_clock_that_was_ahead_keeps_no_file_out(void **state)
{
    struct autobuf_paths_entry imported = entry_of("192.0.2.1", 1, 9);
    size_t count = 1;
    struct paths_change done;

    (void)state;
    imported.method = AUTOBUF_METHOD_IMPORTED;
    observe(ahead_of("192.0.2.1"));
    import(&imported, &count, NOW_S, &done);
    assert_int_equal(count, 1);
    assert_int_equal(done.better, 0);
    assert_string_equal(stored(), "192.0.2.1 1");
}

static int by_key(const void *a, const void *b)
{
    return ab_paths_compare(a, b);
}

/*
 * As many as a store keeps and more, each a second after the other if they are older, and each in a
 * network of its own.
 */
static void import_many(size_t count, bool older, bool by_hand)
{
    struct autobuf_paths_entry *entries = calloc(count, sizeof *entries);
    struct paths_change done;

    assert_non_null(entries);
    for (unsigned i = 0; i < count; i++) {
        entries[i] = entry_of("0.0.0.1", 10, 100);
        entries[i].remote.address[0] = (uint8_t)(1 + i % 127);
        entries[i].remote.address[1] = (uint8_t)(1 + i / 127);
        entries[i].learned_s += older ? i : 0;
        entries[i].method = by_hand && i % 7 == 0 ? AUTOBUF_METHOD_GIVEN : AUTOBUF_METHOD_ICMP;
    }
    qsort(entries, count, sizeof *entries, by_key);
    import(entries, &count, NOW_S, &done);
    free(entries);
}

static void what_a_clock_ahead_says_goes_first(void **state)
{
    struct autobuf_paths *paths;

    (void)state;
    observe(ahead_of("192.0.2.1"));
    import_many(PATHS_STORE_MOST, false, false);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(ab_paths_count(paths), PATHS_STORE_MOST);
    for (uint64_t at = 0; at < PATHS_STORE_MOST; at++) {
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

        assert_int_equal(ab_paths_at(paths, at, &e), 0);
        assert_int_equal(e.learned_s, NOW_S);
    }
    autobuf_paths_close(paths);
}

/* Learned at NOW_S are 192.0.2.1 and the first of the others, which was set by hand. */
static void as_many_as_a_store_keeps(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.1", 1, 100),
                               first = entry_of("1.1.0.1", 1, 100);
    struct autobuf_paths_entry second = entry_of("2.1.0.1", 1, 100),
                               found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;

    (void)state;
    import_many(PATHS_STORE_MOST + 1, true, true);
    assert_int_equal(count_all(), PATHS_STORE_MOST);
    observe(e);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(ab_paths_count(paths), PATHS_STORE_MOST);
    assert_int_equal(find_entry(paths, &first, NOW_S, 0, &found), 0);
    assert_int_equal(found.method, AUTOBUF_METHOD_GIVEN);
    assert_int_equal(find_entry(paths, &second, NOW_S, 0, &found), -ENOENT);
    assert_int_equal(find_entry(paths, &e, NOW_S, 0, &found), -ENOENT);
    autobuf_paths_close(paths);
}

/* --------------------------------------------------------------------------------- neighbours */

static void hosts_that_agree_are_one_entry_more(void **state)
{
    struct paths_change all = {.forget_all = true, .networks = true};

    (void)state;
    for (unsigned n = 1; n <= 5; n++) {
        char text[AUTOBUF_PREFIX_BYTES];

        snprintf(text, sizeof text, "192.0.2.%u", n);
        set(text, n == 3 ? 90 : 10);
        snprintf(text, sizeof text, "2001:db8::%u", n);
        set(text, 20);
    }
    set("198.51.100.1", 7);
#define V6                                                                                         \
    "2001:db8::/64 20, 2001:db8::1 20, 2001:db8::2 20, 2001:db8::3 20, 2001:db8::4 20, "           \
    "2001:db8::5 20"
#define OTHERS "192.0.2.2 10, 192.0.2.3 90, 192.0.2.4 10, 192.0.2.5 10, 198.51.100.1 7"
    assert_string_equal(stored(), "192.0.2.0/24 10, 192.0.2.1 10, " OTHERS ", " V6);
    keep("203.0.113.1", 3); /* by one that makes no networks */
    set("203.0.113.1", 4);
    forget("203.0.113.1", 1);
    assert_string_equal(stored(), "192.0.2.0/24 10, 192.0.2.1 10, " OTHERS ", " V6);
    forget("192.0.2.1", 1);
    assert_string_equal(stored(), OTHERS ", " V6);
    forget("192.0.2.0/24", 0); /* it is not in the store now, so no hosts go with it */
    forget("2001:db8::/64", 5);
    forget("2001:db8::/64", 0);
    assert_string_equal(stored(), OTHERS);
    assert_int_equal(paths_store_change(store, &all, NOW_S, 0), 0);
    assert_int_equal(all.forgotten, 5);
    assert_string_equal(stored(), "");
}

/* What was set by hand is not among the hosts of which a network was made. */
static void what_was_set_by_hand_in_a_network_stays(void **state)
{
    struct autobuf_paths_entry given = entry_of("192.0.2.9", 9, 100);

    (void)state;
    set("192.0.2.1", 10);
    set("192.0.2.2", 10);
    set("192.0.2.3", 10);
    set("192.0.2.4", 10);
    given.method = AUTOBUF_METHOD_GIVEN;
    assert_int_equal(change(CHANGE_SET, given, NOW_S), 0);
    assert_string_equal(
        stored(),
        "192.0.2.0/24 10, 192.0.2.1 10, 192.0.2.2 10, 192.0.2.3 10, 192.0.2.4 10, 192.0.2.9 9");
    forget("192.0.2.0/24", 4);
    assert_string_equal(stored(), "192.0.2.9 9");
}

/*
 * In a user's store, or one that is named, no networks are made, and one that is there is an entry
 * as any.
 */
static void a_store_without_networks(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.5", 10, 100);
    struct paths_change one = {.how = CHANGE_SET, .fresh = &e, .count = 1},
                        none = {.forget = &e.remote};

    (void)state;
    set("192.0.2.1", 10);
    set("192.0.2.2", 10);
    set("192.0.2.3", 10);
    assert_int_equal(paths_store_change(store, &one, NOW_S, 0), 0);
    assert_string_equal(stored(), "192.0.2.1 10, 192.0.2.2 10, 192.0.2.3 10, 192.0.2.5 10");
    set("192.0.2.4", 10);
    assert_int_equal(autobuf_prefix_parse("192.0.2.0/24", &e.remote), 0);
    assert_int_equal(paths_store_change(store, &none, NOW_S, 0), 0);
    assert_int_equal(none.forgotten, 1);
    assert_string_equal(stored(),
                        "192.0.2.1 10, 192.0.2.2 10, 192.0.2.3 10, 192.0.2.4 10, 192.0.2.5 10");
}

/*
 * What is set for the network, for one around it, or a part of it: then nothing is made of its
 * hosts.
 */
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

        assert_int_equal(end(state) || begin(state), 0);
        set("192.0.0.0/25", 30);
        for (unsigned n = 1; n <= 4; n++) {
            char text[AUTOBUF_PREFIX_BYTES];

            snprintf(text, sizeof text, "192.0.1.%u", n); /* which agree, too, and come first */
            set(text, 20);
            snprintf(text, sizeof text, "192.0.2.%u", n);
            set(text, 10);
        }
        e.method = rows[i].method;
        assert_int_equal(change(CHANGE_SET, e, NOW_S), 0);
        CHECK_EQUAL(rows[i].name, strstr(stored(), "192.0.2.0/24 10") != NULL, rows[i].one);
        CHECK(rows[i].name, strstr(stored(), "192.0.2.4 10") != NULL);
        CHECK(rows[i].name, strstr(stored(), " 99") != NULL);
    }
}

/* The network's entry would be of that time, too. */
static void a_clock_that_was_ahead_spoils_no_network(void **state)
{
    struct autobuf_paths_entry ahead = ahead_of("192.0.2.5"),
                               neighbour = entry_of("192.0.2.6", 1, 1);
    struct autobuf_paths_entry found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;

    (void)state;
    ahead.rtt_min_ns = 11 * MS;
    observe(ahead);
    for (unsigned n = 1; n <= 4; n++) {
        char text[AUTOBUF_PREFIX_BYTES];

        snprintf(text, sizeof text, "192.0.2.%u", n);
        set(text, 10);
    }
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(find_entry(paths, &ahead, NOW_S, 0, &found), 0);
    assert_int_equal(found.rtt_min_ns, 10 * MS);
    assert_int_equal(find_entry(paths, &neighbour, NOW_S, 0, &found), 0);
    assert_int_equal(found.flags, AUTOBUF_PATH_NEIGHBOURS);
    autobuf_paths_close(paths);
}

/* Of more hosts than are looked at all stay, and they are still one entry more. */
static void a_very_large_network(void **state)
{
    static struct autobuf_paths_entry entries[5000];
    size_t count = COUNT(entries);
    struct paths_change done;

    (void)state;
    for (unsigned n = 0; n < COUNT(entries); n++) {
        entries[n] = entry_of("2001:db8::", 10, 100);
        entries[n].remote.address[14] = (uint8_t)(n >> 8);
        entries[n].remote.address[15] = (uint8_t)n;
    }
    import(entries, &count, NOW_S, &done);
    assert_int_equal(count_all(), 1 + 5000);
}

/* ------------------------------------------------------------------------------------- faults */

static bool is_there(const char *suffix)
{
    char other[sizeof store + 16];

    snprintf(other, sizeof other, "%s%s", store, suffix);
    return access(other, F_OK) == 0;
}

/* The first one stays: the later ones do not know what was set by hand before. */
static void a_damaged_store_is_set_aside(void **state)
{
    struct paths_change all = {.forget_all = true};
    char aside[sizeof store + 16];
    struct stat found;

    (void)state;
    snprintf(aside, sizeof aside, "%s.damaged", store);
    for (off_t bytes = 1; bytes <= 3; bytes++) {
        set("192.0.2.1", 1);
        assert_int_equal(truncate(store, bytes), 0);
        assert_int_equal(paths_store_change(store, &all, NOW_S, 0), AUTOBUF_E_DAMAGED);
        assert_int_equal(change(CHANGE_SET, entry_of("192.0.2.2", 2, 9), NOW_S), PATHS_SET_ASIDE);
        assert_string_equal(stored(), "192.0.2.2 2");
        assert_int_equal(stat(aside, &found), 0);
        assert_int_equal(found.st_size, 1);
    }
}

/* Its checksum says so. The others stay. */
static void a_damaged_entry_is_left_out(void **state)
{
    int fd;

    (void)state;
    set("192.0.2.1", 1);
    set("192.0.2.2", 2);
    set("192.0.2.3", 3);
    fd = open(store, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, AB_PATHS_HEADER_BYTES + AB_PATHS_RECORD_BYTES + 90), 1);
    close(fd);
    set("192.0.2.4", 4);
    assert_string_equal(stored(), "192.0.2.1 1, 192.0.2.3 3, 192.0.2.4 4");
}

static void a_store_that_is_left_alone(void **state)
{
    struct paths_change all = {.forget_all = true};
    uint8_t header[AB_PATHS_HEADER_BYTES];
    struct ab_paths_head head = {.count = 0};
    struct stat found;
    uint32_t crc;
    int fd;

    (void)state;
    set("192.0.2.1", 1);
    assert_int_equal(chmod(store, 0666), 0);
    assert_int_equal(change(CHANGE_SET, entry_of("192.0.2.2", 2, 9), NOW_S), -EPERM);
    assert_int_equal(paths_store_change(store, &all, NOW_S, 0), -EPERM);
    assert_int_equal(chmod(store, 0644), 0);
    assert_string_equal(stored(), "192.0.2.1 1");
    ab_paths_head_write(&head, header);
    header[8] = 2; /* a later version's */
    crc = ab_crc32(header, 124);
    for (unsigned i = 0; i < 4; i++)
        header[124 + i] = (uint8_t)(crc >> 8 * i);
    fd = open(store, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, header, sizeof header), sizeof header);
    close(fd);
    assert_int_equal(change(CHANGE_SET, entry_of("192.0.2.2", 2, 9), NOW_S), AUTOBUF_E_NEWER);
    assert_int_equal(paths_store_change(store, &all, NOW_S, 0), AUTOBUF_E_NEWER);
    assert_int_equal(stat(store, &found), 0);
    assert_int_equal(found.st_size, sizeof header);
    assert_false(is_there(".damaged"));
    assert_false(is_there(".new"));
}

/* Nothing of what is to be changed is lost then. */
static void who_need_not_wait_does_not(void **state)
{
    struct autobuf_paths_entry e = entry_of("192.0.2.1", 1, 100);
    struct paths_change one = {.how = CHANGE_OBSERVE, .fresh = &e, .count = 1};
    struct ab_paths_writer *other;

    (void)state;
    assert_int_equal(ab_paths_write(&other, store, 0), 0);
    assert_int_equal(paths_store_change(store, &one, NOW_S, AUTOBUF_PATHS_TRY), -EAGAIN);
    assert_int_equal(one.count, 1);
    ab_paths_abort(other);
    assert_int_equal(paths_store_change(store, &one, NOW_S, AUTOBUF_PATHS_TRY), 0);
    assert_string_equal(stored(), "192.0.2.1 1");
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

/*
 * Each notes how many of its entries are in the store. One that is to be killed never ends by
 * itself.
 */
static void observe_all(unsigned writer, volatile unsigned *done)
{
    for (unsigned i = 0; i < EACH || is_killed(writer); i++) {
        if (change(CHANGE_OBSERVE, numbered(writer * EACH + i % EACH), NOW_S) != 0)
            _exit(1);
        if (i < EACH)
            *done = i + 1;
    }
    _exit(0);
}

static void whoever_is_killed_nothing_is_lost_or_damaged(void **state)
{
    struct autobuf_paths_entry found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;
    volatile unsigned *done;

    (void)state;
    set("198.51.100.1", 1);
    done = half_are_killed(observe_all, EACH / 2);
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

/* The first two entries of a store change places. */
static void swap_two(void)
{
    uint8_t records[2][AB_PATHS_RECORD_BYTES], swapped[2][AB_PATHS_RECORD_BYTES];
    FILE *file = fopen(store, "r+");

    assert_non_null(file);
    assert_int_equal(fseek(file, AB_PATHS_HEADER_BYTES, SEEK_SET), 0);
    assert_int_equal(fread(records, sizeof records, 1, file), 1);
    memcpy(swapped[0], records[1], sizeof swapped[0]);
    memcpy(swapped[1], records[0], sizeof swapped[1]);
    assert_int_equal(fseek(file, AB_PATHS_HEADER_BYTES, SEEK_SET), 0);
    assert_int_equal(fwrite(swapped, sizeof swapped, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

/* Of two that have changed places one stays, and the store can be written. */
static void what_is_out_of_order_is_left_out(void **state)
{
    (void)state;
    keep("192.0.2.1", 1);
    keep("198.51.100.4", 4);
    swap_two();
    set("203.0.113.9", 9);
    assert_int_equal(count_all(), 2);
    forget("203.0.113.9/32", 1);
    assert_int_equal(count_all(), 1);
}

static void what_is_given_twice_or_out_of_order_is_refused(void **state)
{
    (void)state;
    for (unsigned last = 8; last <= 9; last++) {
        struct autobuf_paths_entry both[] = {entry_of("192.0.2.9", 9, 100), entry_of("192.0.2.9", 9, 100)};
        struct paths_change change = {.how = CHANGE_IMPORT, .fresh = both, .count = 2};

        both[1].remote.address[3] = (uint8_t)last;
        assert_int_equal(paths_store_change(store, &change, NOW_S, 0), -EINVAL);
    }
    assert_int_equal(access(store, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILES(what_is_set_is_there_in_order),
        FILES(what_is_out_of_order_is_left_out),
        FILES(what_is_given_twice_or_out_of_order_is_refused),
        FILES(local_sides_are_in_order),
        FILES(what_no_store_takes_is_refused),
        FILES(what_is_observed_is_merged),
        FILES(an_import_replaces_what_says_less),
        FILES(of_one_prefix_no_more_than_fit),
        FILES(where_a_key_is),
        FILES(what_has_expired_goes),
        FILES(a_clock_that_is_ahead_deletes_nothing),
        FILES(what_has_expired_makes_room),
        FILES(what_has_expired_claims_no_network),
        FILES(what_has_expired_agrees_with_nothing),
        FILES(a_clock_that_was_ahead_keeps_no_file_out),
        FILES(what_a_clock_ahead_says_goes_first),
        FILES(as_many_as_a_store_keeps),
        FILES(hosts_that_agree_are_one_entry_more),
        FILES(what_was_set_by_hand_in_a_network_stays),
        FILES(a_store_without_networks),
        FILES(what_is_said_of_a_network_stays),
        FILES(a_clock_that_was_ahead_spoils_no_network),
        FILES(a_very_large_network),
        FILES(a_damaged_store_is_set_aside),
        FILES(a_damaged_entry_is_left_out),
        FILES(a_store_that_is_left_alone),
        FILES(who_need_not_wait_does_not),
        FILES(whoever_is_killed_nothing_is_lost_or_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* tools/daemon/lessons.c: what many connections that end at once teach; what one teaches: test_learn.c. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/learn.h"
#include "daemon/managed.h"
#include "paths/store.h"

#define CONNECTIONS (3 * KEEP_MOST + 5)
#define NS_PER_S 1000000000ULL

bool __wrap_learn_end(const struct learn *learn, const struct ab_tcpinfo *final, const struct autobuf_prefix *remote,
                      struct autobuf_paths_entry *entry);

/* Each teaches. */
bool __wrap_learn_end(const struct learn *learn, const struct ab_tcpinfo *final, const struct autobuf_prefix *remote,
                      struct autobuf_paths_entry *entry)
{
    (void)learn;
    (void)final;
    *entry = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
    entry->method = AUTOBUF_METHOD_PASSIVE;
    entry->remote = *remote;
    entry->samples = 9;
    entry->packet_bytes = 1500;
    entry->rtt_min_ns = 10000000;
    entry->tx_rate_bit_per_s = entry->tx_rate_low_bit_per_s = entry->tx_rate_high_bit_per_s = 100000000;
    entry->tx_bdp_bytes = 125000;
    return true;
}

static uint64_t kept(const char *file)
{
    struct autobuf_paths *paths;
    uint64_t hosts = 0;

    assert_int_equal(autobuf_paths_open(&paths, file), 0);
    for (uint64_t at = 0; at < ab_paths_count(paths); at++) {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;

        assert_int_equal(ab_paths_at(paths, at, &entry), 0);
        hosts += entry.remote.bits == 32;
    }
    autobuf_paths_close(paths);
    return hosts;
}

/* steps: it goes on after they have ended; else it ends then. */
static void check(unsigned steps)
{
    char folder[] = "/tmp/test_lessons.XXXXXX", name[sizeof folder + 16];
    int copy = socket(AF_INET, SOCK_STREAM, 0);
    struct lessons lessons;
    struct keep keep = {0};

    assert_non_null(mkdtemp(folder));
    snprintf(name, sizeof name, "%s/paths", folder);
    keep_in(&keep, name);
    lessons_open(&lessons, &keep);
    if (lessons.group >= 0)
        close(lessons.group);
    lessons.group = -1; /* nobody waits for the kernel's last word */
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        struct endpoint remote = {.version = 4, .address = {192, 0, 2, (uint8_t)(i + 1)}};
        struct lesson *lesson = lessons_begin(&lessons, i, &remote, 0, copy);

        assert_non_null(lesson);
        lessons_end(&lessons, lesson, NS_PER_S);
    }
    for (unsigned i = 1; i <= steps; i++) {
        lessons_step(&lessons, (100 * i + 1) * NS_PER_S);
        keep_step(&keep, (100 * i + 1) * NS_PER_S);
    }
    if (steps)
        assert_int_equal(kept(name), CONNECTIONS);
    lessons_close(&lessons);
    keep_close(&keep);
    assert_int_equal(kept(name), CONNECTIONS);
    assert_int_equal(keep.counts.lost, 0);
    close(copy);
    unlink(name);
    snprintf(name, sizeof name, "%s/paths.lock", folder);
    unlink(name);
    assert_int_equal(rmdir(folder), 0);
}

static void more_than_wait_for_the_store(void **state)
{
    (void)state;
    check(CONNECTIONS / KEEP_MOST + 1);
}

static void more_than_wait_for_the_store_at_its_end(void **state)
{
    (void)state;
    check(0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_than_wait_for_the_store),
        cmocka_unit_test(more_than_wait_for_the_store_at_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

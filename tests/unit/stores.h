/* SPDX-License-Identifier: MIT */
/* A path store in a folder of its own: what is in it, and writers and readers of it of whom half are killed. */
#ifndef STORES_H
#define STORES_H

#include "unit.h"

#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "paths/store.h"

#define NOW_S 1700000000U
#define DAY_S 86400U
#define MS 1000000U
#define MBIT 1000000U

static char folder[64], store[96];

static inline int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_store.XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(store, sizeof store, "%s/paths", folder);
    return 0;
}

static inline int end(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf -- '%s'", folder);
    return system(command);
}

#define FILES(test) cmocka_unit_test_setup_teardown(test, begin, end)

/* An entry for a prefix, measured at NOW_S for a day. */
static inline struct autobuf_paths_entry entry_of(const char *prefix, unsigned rtt_ms, unsigned rate_mbit)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse(prefix, &e.remote), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    e.samples = 1;
    e.rtt_min_ns = rtt_ms * MS;
    e.tx_rate_bit_per_s = e.rx_rate_bit_per_s = (uint64_t)rate_mbit * MBIT;
    e.learned_s = NOW_S;
    e.expires_s = NOW_S + DAY_S;
    return e;
}

/* The store's entries as "PREFIX RTT-IN-MS, ...". */
static inline const char *stored(void)
{
    static char text[4096];
    struct autobuf_paths *paths;
    size_t length = 0;

    text[0] = '\0';
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    for (uint64_t at = 0; at < ab_paths_count(paths); at++) {
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
        char prefix[AUTOBUF_PREFIX_BYTES];

        assert_int_equal(ab_paths_at(paths, at, &e), 0);
        assert_int_equal(autobuf_prefix_print(&e.remote, prefix), 0);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s %u", at ? ", " : "", prefix,
                                   (unsigned)(e.rtt_min_ns / MS));
        assert_true(length < sizeof text);
    }
    autobuf_paths_close(paths);
    return text;
}

/* Looks up the first address of an entry's prefix. Returns what autobuf_paths_find() does. */
static inline int find_entry(const struct autobuf_paths *paths, const struct autobuf_paths_entry *of, uint64_t now_s,
                             uint32_t intent, struct autobuf_paths_entry *found)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = 99};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = 99};
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;

    memcpy(&v4.sin_addr, of->remote.address, 4);
    memcpy(&v6.sin6_addr, of->remote.address, 16);
    query.remote = of->remote.version == 4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    query.remote_len = of->remote.version == 4 ? sizeof v4 : sizeof v6;
    query.now_s = now_s;
    query.intent = intent;
    return autobuf_paths_find(paths, &query, found);
}

/* -------------------------------------------------------------------- many, and killed ones */

#define WRITERS 8U
#define READERS 64U

static inline bool is_killed(unsigned process)
{
    return process % 2 == 0;
}

static inline void assert_ended(pid_t pid, bool killed)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
}

/* Whatever happens, there is a sound store, and it does not lose what it had. */
static inline void read_until_stopped(const volatile unsigned *stop)
{
    uint64_t count = 0;

    (void)setpriority(PRIO_PROCESS, 0, 19); /* the writers, who wait for each other, get their turns before so many */
    do {
        struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
        struct autobuf_paths *paths;

        if (autobuf_paths_open(&paths, store) < 0 || ab_paths_count(paths) < count)
            _exit(1);
        count = ab_paths_count(paths);
        for (uint64_t at = 0; at < count; at++)
            if (ab_paths_at(paths, at, &entry) < 0)
                _exit(1);
        autobuf_paths_close(paths);
    } while (!*stop);
    _exit(0);
}

/*
 * Runs all writers beside readers, and kills half of both: a writer once it has noted in its *done so many entries, the
 * middle of its work. The store exists already. write_all() ends by _exit(), and in a writer that is to be killed
 * never.
 * Returns what each writer has noted; free it by munmap(), of a page.
 */
static inline volatile unsigned *half_are_killed(void (*write_all)(unsigned writer, volatile unsigned *done),
                                                 unsigned middle)
{
    volatile unsigned *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t writers[WRITERS], readers[READERS];

    assert_true(shared != MAP_FAILED);
    for (unsigned i = 0; i < WRITERS; i++)
        if ((writers[i] = fork()) == 0)
            write_all(i, &shared[i]);
    for (unsigned i = 0; i < READERS; i++)
        if ((readers[i] = fork()) == 0)
            read_until_stopped(&shared[WRITERS]);
    for (unsigned i = 0; i < WRITERS; i++) {
        while (is_killed(i) && shared[i] < middle)
            sched_yield();
        if (is_killed(i))
            kill(writers[i], SIGKILL);
    }
    for (unsigned i = 0; i < READERS; i++)
        if (is_killed(i))
            kill(readers[i], SIGKILL);
    for (unsigned i = 0; i < WRITERS; i++)
        assert_ended(writers[i], is_killed(i));
    shared[WRITERS] = 1;
    for (unsigned i = 0; i < READERS; i++)
        assert_ended(readers[i], is_killed(i));
    return shared;
}

#endif

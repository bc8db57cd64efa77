/* SPDX-License-Identifier: MIT */
/* The path store's files: written, read, trusted or not, and what writers that are killed leave. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "paths/record.h"
#include "paths/store.h"
#include "stores.h"

#define NOW 1000000U
#define OTHER_USER 65534

/* The library's calls, interposed by the linker: the next one of these fails. */
static enum { NONE, FSYNC, CLOSE, RENAME } failing;

int __real_fsync(int fd);
int __real_close(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_fsync(int fd);
int __wrap_close(int fd);
int __wrap_rename(const char *from, const char *to);

/* What the call returned, or an error if it is to fail. */
static int fail_if(int call, int result)
{
    if (failing != (unsigned)call)
        return result;
    failing = NONE;
    errno = EDQUOT;
    return -1;
}

int __wrap_fsync(int fd)
{
    return fail_if(FSYNC, __real_fsync(fd));
}

/* The descriptor is closed also if there is an error, as of the kernel's. */
int __wrap_close(int fd)
{
    return fail_if(CLOSE, __real_close(fd));
}

int __wrap_rename(const char *from, const char *to)
{
    return failing == RENAME ? fail_if(RENAME, 0) : __real_rename(from, to);
}

/* Number n of many: a /32 or, if it is odd, a /128. rtt_min_ns is n. */
static struct autobuf_paths_entry numbered(unsigned n)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    e.remote.version = n % 2 ? 6 : 4;
    e.remote.bits = n % 2 ? 128 : 32;
    e.remote.address[0] = n % 2 ? 0x20 : 10;
    for (unsigned i = 0; i < 3; i++)
        e.remote.address[1 + i] = (uint8_t)(n >> (16 - 8 * i));
    e.rtt_min_ns = n;
    e.learned_s = NOW - 10;
    e.expires_s = NOW + 10;
    return e;
}

static int find(const struct autobuf_paths *paths, const struct autobuf_paths_entry *of,
                struct autobuf_paths_entry *found)
{
    assert_int_equal(find_entry(paths, of, NOW, 128, found), -EINVAL); /* there is no such intent */
    return find_entry(paths, of, NOW, 0, found);
}

static void write_numbered(unsigned count)
{
    struct ab_paths_writer *writer;

    assert_int_equal(ab_paths_write(&writer, store, 0), 0);
    for (unsigned odd = 0; odd < 2; odd++)
        for (unsigned n = odd; n < count; n += 2) {
            struct autobuf_paths_entry e = numbered(n);

            assert_int_equal(ab_paths_add(writer, &e), 0);
        }
    assert_int_equal(ab_paths_commit(writer), 0);
}

static bool is_there(const char *suffix)
{
    char name[128];

    snprintf(name, sizeof name, "%s%s", store, suffix);
    return access(name, F_OK) == 0;
}

/* A small one is copied, a large one mapped. */
static void what_is_written_is_found(void **state)
{
    static const unsigned counts[] = {0, 1, 2, 255, 256, 257, 3000};

    (void)state;
    for (size_t i = 0; i < COUNT(counts); i++) {
        struct autobuf_paths_entry found = AUTOBUF_PATHS_ENTRY_INIT, absent = numbered(counts[i] + 2);
        struct autobuf_paths *paths;

        write_numbered(counts[i]);
        assert_false(is_there(".new"));
        assert_int_equal(autobuf_paths_open(&paths, store), 0);
        assert_int_equal(ab_paths_count(paths), counts[i]);
        assert_int_equal(ab_paths_are_local(paths), 0);
        for (unsigned n = 0; n < counts[i]; n++) {
            struct autobuf_paths_entry e = numbered(n);

            assert_int_equal(find(paths, &e, &found), 0);
            assert_memory_equal(&found, &e, sizeof e);
        }
        assert_int_equal(find(paths, &absent, &found), -ENOENT);
        autobuf_paths_close(paths);
    }
}

static void a_reader_keeps_the_store_that_it_opened(void **state)
{
    struct autobuf_paths_entry found = AUTOBUF_PATHS_ENTRY_INIT, e = numbered(1999);
    struct autobuf_paths *paths;

    (void)state;
    write_numbered(2000);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    write_numbered(1);
    assert_int_equal(find(paths, &e, &found), 0);
    autobuf_paths_close(paths);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(ab_paths_count(paths), 1);
    autobuf_paths_close(paths);
}

static void a_writer_that_gives_up_leaves_the_old_one(void **state)
{
    struct autobuf_paths_entry e = numbered(4);
    struct ab_paths_writer *writer;
    struct autobuf_paths *paths;

    (void)state;
    write_numbered(1);
    assert_int_equal(ab_paths_write(&writer, store, 0), 0);
    assert_int_equal(ab_paths_add(writer, &e), 0);
    ab_paths_abort(writer);
    assert_false(is_there(".new"));
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(ab_paths_count(paths), 1);
    autobuf_paths_close(paths);
    ab_paths_abort(NULL);
    autobuf_paths_close(NULL);
}

static void entries_come_in_order_and_once(void **state)
{
    struct autobuf_paths_entry first = numbered(2), second = numbered(4), bad = numbered(6), many = numbered(8);
    struct ab_paths_writer *writer;

    (void)state;
    bad.remote.bits = 31; /* of ...6 it is ...6, but the last bit of 7 is set */
    bad.remote.address[3] = 7;
    assert_int_equal(ab_paths_write(&writer, store, 0), 0);
    assert_int_equal(ab_paths_add(writer, &second), 0);
    assert_int_equal(ab_paths_add(writer, &second), -EINVAL);
    assert_int_equal(ab_paths_add(writer, &first), -EINVAL);
    assert_int_equal(ab_paths_add(writer, &bad), -EINVAL);
    for (unsigned i = 0; i < AB_PATHS_SAME_REMOTE; i++) {
        snprintf(many.device, sizeof many.device, "eth%02u", i);
        assert_int_equal(ab_paths_add(writer, &many), 0);
    }
    snprintf(many.device, sizeof many.device, "eth99");
    assert_int_equal(ab_paths_add(writer, &many), -E2BIG);
    assert_int_equal(ab_paths_commit(writer), 0);
}

static void what_a_store_takes_is_told_before(void **state)
{
    struct autobuf_paths_entry e = numbered(2);

    (void)state;
    assert_int_equal(ab_paths_check(&e), 0);
    e.tx_rate_bit_per_s = 1000000000000001;
    assert_int_equal(ab_paths_check(&e), -EINVAL);
    e = numbered(2);
    e.remote.bits = 16;
    assert_int_equal(ab_paths_check(&e), -EINVAL);
}

static void one_writer_at_a_time(void **state)
{
    struct ab_paths_writer *writer, *other;

    (void)state;
    assert_int_equal(ab_paths_write(&writer, store, 0), 0);
    assert_int_equal(ab_paths_write(&other, store, AUTOBUF_PATHS_TRY), -EAGAIN);
    assert_null(other);
    ab_paths_abort(writer);
    assert_int_equal(ab_paths_write(&other, store, AUTOBUF_PATHS_TRY), 0);
    ab_paths_abort(other);
    assert_int_equal(ab_paths_write(&other, store, 4), -EINVAL);
    assert_int_equal(ab_paths_write(&other, "/nowhere/paths", 0), -ENOENT);
}

/* How many entries a store has. NULL: the one that is used. */
static uint64_t count_of(const char *name)
{
    struct autobuf_paths *paths;
    uint64_t count;

    assert_int_equal(autobuf_paths_open(&paths, name), 0);
    count = ab_paths_count(paths);
    autobuf_paths_close(paths);
    return count;
}

/* Only with the last of these calls does the new store take the old one's place. */
static void an_error_at_the_end_leaves_the_old_one(void **state)
{
    static const char *const names[] = {[FSYNC] = "fsync", [CLOSE] = "close", [RENAME] = "rename"};

    (void)state;
    write_numbered(3);
    for (unsigned call = FSYNC; call <= RENAME; call++) {
        struct autobuf_paths_entry e = numbered(4);
        struct ab_paths_writer *writer;

        assert_int_equal(ab_paths_write(&writer, store, 0), 0);
        assert_int_equal(ab_paths_add(writer, &e), 0);
        failing = call;
        CHECK_EQUAL(names[call], ab_paths_commit(writer), -EDQUOT);
        CHECK_EQUAL(names[call], failing, NONE);
        CHECK_EQUAL(names[call], count_of(store), 3);
        CHECK(names[call], !is_there(".new"));
        assert_int_equal(ab_paths_write(&writer, store, AUTOBUF_PATHS_TRY), 0);
        ab_paths_abort(writer);
    }
    write_numbered(2);
    assert_int_equal(count_of(store), 2);
}

/* It has the lock's descriptor, too, and lives on. */
static void a_child_does_not_hold_the_lock(void **state)
{
    (void)state;
    for (unsigned committed = 0; committed < 2; committed++) {
        struct ab_paths_writer *writer, *other;
        int ended = 0, error;
        pid_t child;

        assert_int_equal(ab_paths_write(&writer, store, 0), 0);
        child = fork();
        assert_int_not_equal(child, -1);
        if (!child)
            for (;;)
                pause();
        if (committed)
            ended = ab_paths_commit(writer);
        else
            ab_paths_abort(writer);
        error = ab_paths_write(&other, store, AUTOBUF_PATHS_TRY);
        ab_paths_abort(other);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_int_equal(ended, 0);
        assert_int_equal(error, 0);
    }
}

/* --------------------------------------------------------------------------------- trust */

static int opened(void)
{
    struct autobuf_paths *paths;
    int error = autobuf_paths_open(&paths, store);

    autobuf_paths_close(paths);
    return error;
}

static void only_a_file_that_nobody_else_writes_is_read(void **state)
{
    (void)state;
    assert_int_equal(opened(), -ENOENT);
    write_numbered(3);
    assert_int_equal(chmod(store, 0644), 0);
    assert_int_equal(opened(), 0);
    assert_int_equal(chmod(store, 0664), 0);
    assert_int_equal(opened(), -EPERM);
    assert_int_equal(chmod(store, 0646), 0);
    assert_int_equal(opened(), -EPERM);
    assert_int_equal(chmod(store, 0600), 0);
    assert_int_equal(opened(), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(store, OTHER_USER, OTHER_USER), 0);
        assert_int_equal(opened(), -EPERM);
    }
}

static void nothing_that_blocks_is_read(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(store, 0600), 0);
    assert_int_equal(opened(), -EPERM);
    assert_int_equal(unlink(store), 0);
    assert_int_equal(mkdir(store, 0700), 0);
    assert_int_equal(opened(), -EPERM);
}

static void a_damaged_file_is_told(void **state)
{
    static const off_t sizes[] = {0, 1, AB_PATHS_HEADER_BYTES - 1, AB_PATHS_HEADER_BYTES, AB_PATHS_HEADER_BYTES + 100};

    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        write_numbered(3);
        assert_int_equal(truncate(store, sizes[i]), 0);
        assert_int_equal(opened(), AUTOBUF_E_DAMAGED);
    }
    write_numbered(3);
    assert_int_equal(truncate(store, 1 << 20), 0);
    assert_int_equal(opened(), AUTOBUF_E_DAMAGED);
}

/* A file that shrinks after it was opened must not kill its readers, if it is an ordinary one of a user. */
static void a_small_store_that_is_cut_hurts_no_reader(void **state)
{
    struct autobuf_paths_entry found = AUTOBUF_PATHS_ENTRY_INIT, e = numbered(99);
    struct autobuf_paths *paths;

    (void)state;
    write_numbered(300);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    assert_int_equal(truncate(store, 0), 0);
    assert_int_equal(find(paths, &e, &found), 0);
    autobuf_paths_close(paths);
}

static void another_users_lock_is_not_taken(void **state)
{
    struct ab_paths_writer *writer;
    char lock[128];

    (void)state;
    snprintf(lock, sizeof lock, "%s.lock", store);
    assert_int_equal(symlink("/dev/null", lock), 0);
    assert_int_equal(ab_paths_write(&writer, store, 0), -ELOOP);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(mkfifo(lock, 0600), 0);
    assert_int_equal(ab_paths_write(&writer, store, 0), -EPERM);
    assert_int_equal(unlink(lock), 0);
    write_numbered(1);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(link(store, lock), 0); /* which root would give away */
    assert_int_equal(ab_paths_write(&writer, store, 0), -EPERM);
    assert_int_equal(unlink(lock), 0);
}

static void what_is_in_its_way_is_replaced(void **state)
{
    char fresh[128];

    (void)state;
    snprintf(fresh, sizeof fresh, "%s.new", store);
    assert_int_equal(mkfifo(fresh, 0600), 0);
    write_numbered(3);
    assert_int_equal(access(fresh, F_OK), -1);
}

/* -------------------------------------------------------------------------- the user's own */

static void where_the_own_store_is(void **state)
{
    static const struct {
        const char *paths, *cache, *home, *expected;
    } rows[] = {
        {NULL, NULL, NULL, NULL},
        {NULL, NULL, "/home/a", "/home/a/.cache/autobuf/paths"},
        {NULL, "/c", "/home/a", "/c/autobuf/paths"},
        {NULL, "", "/home/a", "/home/a/.cache/autobuf/paths"},
        {NULL, "relative", "/home/a", "/home/a/.cache/autobuf/paths"},
        {NULL, NULL, "relative", NULL},
        {"off", "/c", "/home/a", NULL},
        {"/my/paths", "/c", "/home/a", "/my/paths"},
        {"", "/c", NULL, "/c/autobuf/paths"},
    };
    char *huge = calloc(1, 2 * PATH_MAX);

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *own;

        ab_store_environment(rows[i].paths, rows[i].cache, rows[i].home);
        own = ab_paths_own();
        CHECK("own", !own == !rows[i].expected);
        if (own)
            assert_string_equal(own, rows[i].expected);
    }
    assert_non_null(huge);
    memset(huge, '/', 2 * PATH_MAX - 1);
    ab_store_environment(huge, NULL, NULL);
    assert_null(ab_paths_own());
    free(huge);
}

enum fault { OURS, THEIRS, OPEN_TO_OTHERS, OPEN_TO_OUR_GROUP, OPEN_TO_A_GROUP, OUR_LINK, THEIR_LINK, A_FILE, MISSING };

static void break_way(const char *part, enum fault fault)
{
    char elsewhere[128];

    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    if (fault == THEIRS)
        assert_int_equal(chown(part, OTHER_USER, OTHER_USER), 0);
    if (fault == OPEN_TO_OTHERS)
        assert_int_equal(chmod(part, 0702), 0);
    if (fault == OPEN_TO_A_GROUP)
        assert_int_equal(chown(part, geteuid(), OTHER_USER), 0);
    if (fault == OPEN_TO_OUR_GROUP || fault == OPEN_TO_A_GROUP)
        assert_int_equal(chmod(part, 0770), 0);
    if (fault < OUR_LINK)
        return;
    assert_int_equal(rename(part, elsewhere), 0);
    if (fault == A_FILE)
        assert_int_equal(close(open(part, O_WRONLY | O_CREAT, 0600)), 0);
    if (fault == OUR_LINK || fault == THEIR_LINK)
        assert_int_equal(symlink(elsewhere, part), 0);
    if (fault == THEIR_LINK)
        assert_int_equal(lchown(part, OTHER_USER, OTHER_USER), 0);
}

/* As after sudo -E: nothing is read from there, and nothing made. */
static void a_way_that_is_another_user_s(void **state)
{
    static const struct {
        const char *part; /* below folder */
        enum fault fault;
        bool by_home, by_cache; /* what is kept with HOME, or XDG_CACHE_HOME */
    } rows[] = {
        {"/u/home/.cache/autobuf", OURS, true, true},
        {"/u/home/.cache/autobuf", THEIRS, false, false},
        {"/u/home/.cache/autobuf", OPEN_TO_OTHERS, false, false},
        {"/u/home/.cache/autobuf", OPEN_TO_OUR_GROUP, true, true}, /* a umask of 002 */
        {"/u/home/.cache/autobuf", OPEN_TO_A_GROUP, false, false},
        {"/u/home/.cache/autobuf", OUR_LINK, true, true},
        {"/u/home/.cache/autobuf", THEIR_LINK, false, false},
        {"/u/home/.cache/autobuf", A_FILE, false, false},
        {"/u/home/.cache/autobuf", MISSING, true, true},
        {"/u/home/.cache", THEIRS, false, false},
        {"/u/home/.cache", OPEN_TO_OTHERS, false, false},
        {"/u/home/.cache", THEIR_LINK, false, false},
        {"/u/home/.cache", MISSING, true, true},
        {"/u/home", THEIRS, false, false}, /* for root also above XDG_CACHE_HOME */
        {"/u/home", OPEN_TO_OTHERS, false, true},
        {"/u/home", THEIR_LINK, false, false},
        {"/u", THEIRS, false, false},
        {"/u", THEIR_LINK, false, false},
        {"/u", OPEN_TO_OTHERS, true, true},
    };
    static const char *const parts[] = {
        "/u", "/u/home", "/u/home/.cache", "/u/home/.cache/autobuf"};
    struct autobuf_paths_entry e = numbered(5);
    char name[128], home[128], cache[128];

    (void)state;
    if (geteuid() != 0)
        SKIP("not permitted to give a folder away");
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        bool by_cache = i % 2, kept = by_cache ? rows[i / 2].by_cache : rows[i / 2].by_home;

        snprintf(home, sizeof home, "%s/u/home", folder);
        snprintf(cache, sizeof cache, "%s/u/home/.cache", folder);
        for (size_t at = 0; at < COUNT(parts); at++) {
            snprintf(name, sizeof name, "%s%s", folder, parts[at]);
            assert_int_equal(mkdir(name, 0700), 0);
        }
        ab_store_environment(NULL, by_cache ? cache : NULL, home);
        assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, 0), 0);
        snprintf(name, sizeof name, "%s%s", folder, rows[i / 2].part);
        break_way(name, rows[i / 2].fault);
        CHECK_EQUAL(rows[i / 2].part, autobuf_paths_keep(NULL, &e, NOW, 0), kept ? 0 : -ENOENT);
        CHECK(rows[i / 2].part, !ab_paths_own() == !kept);
        if (kept)
            assert_int_equal(count_of(NULL), 1);
        else {
            struct autobuf_paths *paths;

            CHECK_EQUAL(rows[i / 2].part, autobuf_paths_open(&paths, NULL), -ENOENT);
        }
        assert_int_equal(end(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
    ab_store_environment("off", NULL, NULL);
}

/* HOME of a user whose home nobody has made is not made. */
static void a_home_that_is_missing(void **state)
{
    struct autobuf_paths_entry e = numbered(5);
    char home[128];

    (void)state;
    snprintf(home, sizeof home, "%s/home", folder);
    ab_store_environment(NULL, NULL, home);
    assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, 0), -ENOENT);
    assert_int_equal(access(home, F_OK), -1);
}

static void what_is_kept_is_found(void **state)
{
    struct autobuf_paths_entry e = numbered(5), found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;

    (void)state;
    ab_store_environment(NULL, folder, NULL); /* its folder "autobuf" is not there yet */
    for (unsigned n = 20; n--;) {
        e = numbered(n);
        assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, 0), 0);
    }
    assert_int_equal(count_of(NULL), 20);
    e = numbered(7);
    e.tx_rate_bit_per_s = 12345;
    assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, AUTOBUF_PATHS_NO_SYNC), 0);
    assert_int_equal(count_of(NULL), 20);
    assert_int_equal(autobuf_paths_open(&paths, NULL), 0);
    assert_int_equal(find(paths, &e, &found), 0);
    assert_int_equal(found.tx_rate_bit_per_s, 12345);
    autobuf_paths_close(paths);
    e.remote.version = 0;
    assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, 0), -EINVAL);
    assert_int_equal(count_of(NULL), 20);
    ab_store_environment("off", NULL, NULL);
    e = numbered(1);
    assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, 0), -ENOENT);
    assert_int_equal(autobuf_paths_open(&paths, NULL), -ENOENT);
}

static void the_oldest_goes_when_there_are_too_many(void **state)
{
    struct autobuf_paths_entry e = numbered(9000), found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;

    (void)state;
    ab_store_environment(store, NULL, NULL);
    write_numbered(4095);
    e.learned_s = 1;
    assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, 0), 0);
    assert_int_equal(count_of(NULL), 4096);
    assert_int_equal(autobuf_paths_open(&paths, NULL), 0);
    assert_int_equal(ab_paths_at(paths, 0, &found), 0);
    autobuf_paths_close(paths);
    assert_int_equal(autobuf_paths_keep(NULL, &found, NOW, 0), 0); /* replaces one */
    assert_int_equal(count_of(NULL), 4096);
    e = numbered(9001);
    assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, 0), 0);
    assert_int_equal(count_of(NULL), 4096);
    assert_int_equal(autobuf_paths_open(&paths, NULL), 0);
    assert_int_equal(find(paths, &e, &found), 0);
    e = numbered(9000);
    assert_int_equal(find(paths, &e, &found), -ENOENT);
    autobuf_paths_close(paths);
    assert_int_equal(autobuf_paths_keep(store, &e, NOW, 0), 0); /* any other store may be larger */
    assert_int_equal(count_of(NULL), 4097);
}

/* Whoever has set an entry knows something that no connection tells again. */
static void what_was_set_by_hand_does_not_go(void **state)
{
    struct autobuf_paths_entry e = numbered(9000), found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;

    (void)state;
    ab_store_environment(store, NULL, NULL);
    write_numbered(4095);
    e.method = AUTOBUF_METHOD_GIVEN;
    e.learned_s = 1;
    assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, 0), 0);
    e.learned_s = NOW + 2 * AB_PATHS_AHEAD_S;
    e.remote.address[3]++;
    assert_int_equal(autobuf_paths_keep(NULL, &e, NOW, 0), 0); /* by a clock that was ahead, too */
    for (unsigned n = 9011; n < 9020; n += 2) {
        struct autobuf_paths_entry seen = numbered(n);

        assert_int_equal(autobuf_paths_keep(NULL, &seen, NOW, 0), 0);
    }
    assert_int_equal(count_of(NULL), 4096);
    assert_int_equal(autobuf_paths_open(&paths, NULL), 0);
    for (uint64_t at = 0, given = 0; at < 4096; at++) {
        assert_int_equal(ab_paths_at(paths, at, &found), 0);
        given += found.method == AUTOBUF_METHOD_GIVEN;
        if (at == 4095)
            assert_int_equal(given, 2);
    }
    autobuf_paths_close(paths);
}

/* Learned at a time, for ten seconds. */
static void keep_at(unsigned n, uint64_t now_s)
{
    struct autobuf_paths_entry e = numbered(n);

    e.learned_s = now_s;
    e.expires_s = now_s + 10;
    assert_int_equal(autobuf_paths_keep(store, &e, now_s, 0), 0);
}

/* Whether there is an entry of this number, and it holds at a time. */
static bool holds_at(unsigned n, uint64_t now_s)
{
    struct autobuf_paths_entry e = numbered(n), found = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths *paths;
    int error;

    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    error = find_entry(paths, &e, now_s, 0, &found);
    autobuf_paths_close(paths);
    assert_true(error == 0 || error == -ENOENT);
    return error == 0;
}

/* One that jumps ahead finds all expired. */
static void a_clock_that_is_ahead_deletes_nothing(void **state)
{
    const uint64_t ahead_s = NOW + 730 * (uint64_t)AB_PATHS_AHEAD_S;
    struct autobuf_paths_entry given = numbered(1);

    (void)state;
    given.method = AUTOBUF_METHOD_GIVEN;
    given.expires_s = NOW + 100;
    assert_int_equal(autobuf_paths_keep(store, &given, NOW, 0), 0);
    keep_at(2, NOW);
    keep_at(3, ahead_s);
    keep_at(1, ahead_s); /* does not replace what was set by hand, */
    keep_at(5, ahead_s + 60);
    keep_at(4, NOW + 1);
    assert_int_equal(count_of(store), 5);
    assert_true(holds_at(1, NOW + 1) && holds_at(2, NOW + 1) && !holds_at(1, ahead_s));
    keep_at(2, NOW + 2); /* but what was learned, */
    given.expires_s = NOW + 50;
    assert_int_equal(autobuf_paths_keep(store, &given, NOW, 0), 0); /* as does who sets it again */
    assert_true(holds_at(2, NOW + 11) && !holds_at(1, NOW + 50));
}

/* Its end is past for sure once something was learned after it, and that was a day ago. */
static void what_has_expired_for_sure_goes(void **state)
{
    struct autobuf_paths_entry given = numbered(1);

    (void)state;
    given.method = AUTOBUF_METHOD_GIVEN;
    given.expires_s = NOW + 100;
    assert_int_equal(autobuf_paths_keep(store, &given, NOW, 0), 0);
    keep_at(2, NOW + 99);
    keep_at(3, NOW + 100);
    keep_at(4, NOW + 99 + AB_PATHS_AHEAD_S);
    assert_int_equal(count_of(store), 4);
    keep_at(5, NOW + 100 + AB_PATHS_AHEAD_S);
    assert_int_equal(count_of(store), 4); /* 2 and 3, perhaps not expired yet, 4 and 5 */
    keep_at(1, NOW + 101 + AB_PATHS_AHEAD_S);
    assert_true(holds_at(1, NOW + 102 + AB_PATHS_AHEAD_S));
}

/* Of one prefix no more than so many fit. */
static void what_has_expired_makes_room(void **state)
{
    struct autobuf_paths_entry e = numbered(2);

    (void)state;
    for (unsigned n = 0; n < 3 * AB_PATHS_SAME_REMOTE; n++) {
        snprintf(e.device, sizeof e.device, "eth%u", n);
        e.learned_s = NOW + n;
        e.expires_s = e.learned_s + AB_PATHS_SAME_REMOTE;
        assert_int_equal(autobuf_paths_keep(store, &e, e.learned_s, 0), 0);
    }
    assert_int_equal(count_of(store), AB_PATHS_SAME_REMOTE);
}

/* A program that does not wait for the disk may lose what it has learned, and nothing else. */
static void what_was_set_by_hand_is_safe_on_the_disk(void **state)
{
    struct autobuf_paths_entry e = numbered(2);

    (void)state;
    failing = FSYNC;
    assert_int_equal(autobuf_paths_keep(store, &e, NOW, AUTOBUF_PATHS_NO_SYNC), 0);
    assert_int_equal(failing, FSYNC); /* it was not called */
    failing = NONE;
    e.remote.address[3]++;
    e.method = AUTOBUF_METHOD_GIVEN;
    assert_int_equal(autobuf_paths_keep(store, &e, NOW, 0), 0);
    failing = FSYNC;
    e = numbered(4);
    assert_int_equal(autobuf_paths_keep(store, &e, NOW, AUTOBUF_PATHS_NO_SYNC), -EDQUOT);
    assert_int_equal(failing, NONE);
    assert_int_equal(count_of(store), 2);
}

static void a_damaged_store_is_replaced_and_a_later_one_is_not(void **state)
{
    struct autobuf_paths_entry e = numbered(1);
    uint8_t header[AB_PATHS_HEADER_BYTES];
    struct ab_paths_head head = {.count = 0};
    uint32_t crc;
    int fd;

    (void)state;
    write_numbered(9);
    assert_int_equal(truncate(store, 500), 0);
    assert_int_equal(autobuf_paths_keep(store, &e, NOW, 0), 0);
    assert_int_equal(opened(), 0);
    ab_paths_head_write(&head, header);
    header[8] = 2;
    crc = ab_crc32(header, 124);
    for (unsigned i = 0; i < 4; i++)
        header[124 + i] = (uint8_t)(crc >> 8 * i);
    fd = open(store, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, header, sizeof header), sizeof header);
    close(fd);
    assert_int_equal(autobuf_paths_keep(store, &e, NOW, 0), AUTOBUF_E_NEWER);
    assert_int_equal(opened(), AUTOBUF_E_NEWER);
}

static void write_file(const char *file, const char *text, size_t bytes)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, text, bytes), bytes);
    close(fd);
}

/* AUTOBUF_PATHS may name anything. */
static void what_is_no_store_stays(void **state)
{
    char text[300], now[sizeof text];
    struct autobuf_paths_entry e = numbered(1);
    int fd;

    (void)state;
    memset(text, ',', sizeof text);
    for (size_t bytes = 1; bytes <= sizeof text; bytes += 299) {
        write_file(store, text, bytes);
        assert_int_equal(autobuf_paths_keep(store, &e, NOW, 0), AUTOBUF_E_DAMAGED);
        fd = open(store, O_RDONLY);
        assert_int_equal(read(fd, now, sizeof now), bytes);
        close(fd);
        assert_memory_equal(now, text, bytes);
    }
    memset(text, 0, sizeof text);
    write_file(store, text, sizeof text);
    assert_int_equal(autobuf_paths_keep(store, &e, NOW, 0), 0);
}

/* What was set by hand may be in it. */
static void the_first_damaged_store_is_set_aside(void **state)
{
    struct autobuf_paths_entry e = numbered(1);
    char aside[128];
    struct stat is;

    (void)state;
    snprintf(aside, sizeof aside, "%s.damaged", store);
    for (off_t bytes = 500; bytes >= 400; bytes -= 100) {
        write_numbered(9);
        assert_int_equal(truncate(store, bytes), 0);
        assert_int_equal(autobuf_paths_keep(store, &e, NOW, 0), 0);
        assert_int_equal(stat(aside, &is), 0);
        assert_int_equal(is.st_size, 500);
    }
    assert_int_equal(unlink(aside), 0);
}

/* A call that can keep nothing changes nothing. */
static void an_entry_that_is_none_sets_no_store_aside(void **state)
{
    struct autobuf_paths_entry none = AUTOBUF_PATHS_ENTRY_INIT;
    struct stat is;

    (void)state;
    write_numbered(9);
    assert_int_equal(truncate(store, 500), 0);
    assert_int_equal(autobuf_paths_keep(store, &none, NOW, 0), -EINVAL);
    assert_int_equal(stat(store, &is), 0);
    assert_int_equal(is.st_size, 500);
}

/* An entry is before others that belong before it, and there twice. */
static void what_is_out_of_order_is_left_out(void **state)
{
    uint8_t records[4][AB_PATHS_RECORD_BYTES];
    struct autobuf_paths_entry e = numbered(4);
    int fd;

    (void)state;
    write_numbered(8); /* 0, 2, 4 and 6 come first */
    fd = open(store, O_RDWR);
    assert_int_equal(pread(fd, records, sizeof records, AB_PATHS_HEADER_BYTES), sizeof records);
    memcpy(records[0], records[3], sizeof records[0]);
    assert_int_equal(pwrite(fd, records, sizeof records, AB_PATHS_HEADER_BYTES), sizeof records);
    close(fd);
    assert_int_equal(autobuf_paths_keep(store, &e, NOW, 0), 0);
    assert_int_equal(count_of(store), 6); /* 4, 6 and the odd ones */
}

/* -------------------------------------------------------------------- many, and killed ones */

#define EACH 40U

/* Each writer counts its entries that are certainly in the store. One that will be killed never ends by itself. */
static void keep_all(unsigned writer, volatile unsigned *done)
{
    for (unsigned i = 0; i < EACH || is_killed(writer); i++) {
        struct autobuf_paths_entry e = numbered(writer * EACH + i % EACH);

        if (autobuf_paths_keep(store, &e, NOW, AUTOBUF_PATHS_NO_SYNC) < 0)
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
    write_numbered(0);
    done = half_are_killed(keep_all, EACH / 2);
    assert_int_equal(autobuf_paths_open(&paths, store), 0);
    for (unsigned i = 0; i < WRITERS; i++)
        for (unsigned k = 0; k < done[i]; k++) {
            struct autobuf_paths_entry e = numbered(i * EACH + k);

            assert_int_equal(find(paths, &e, &found), 0);
        }
    autobuf_paths_close(paths);
    munmap((void *)(uintptr_t)done, 4096);
}

static char report_folder[32], report_file[sizeof report_folder + 8]; /* of the daemon's socket */

static int begin_report(void **state)
{
    (void)state;
    strcpy(report_folder, "/tmp/test_report.XXXXXX");
    if (!mkdtemp(report_folder))
        return -1;
    snprintf(report_file, sizeof report_file, "%s/socket", report_folder);
    ab_paths_report_to(report_file);
    ab_store_environment(NULL, NULL, "/home/nobody");
    return 0;
}

static int end_report(void **state)
{
    (void)state;
    ab_paths_report_to(NULL);
    return rmdir(report_folder);
}

static struct autobuf_paths_entry entry(void)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse("192.0.2.1", &e.remote), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    e.tx_rate_bit_per_s = 100000000;
    e.rtt_min_ns = 40000000;
    return e;
}

static int listen_here(int type)
{
    struct sockaddr_un here = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);

    strcpy(here.sun_path, report_file);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    return fd;
}

static void a_daemon_takes_it(void **state)
{
    struct autobuf_paths_entry e = entry(), found = AUTOBUF_PATHS_ENTRY_INIT;
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES + 1];
    int daemon = listen_here(SOCK_DGRAM), result = 0;

    (void)state;
    assert_int_equal(ab_paths_report(&e), 0);
    assert_int_equal(recv(daemon, message, sizeof message, 0), AUTOBUF_PATHS_MESSAGE_BYTES);
    assert_int_equal(ab_paths_entry_decode(message, AUTOBUF_PATHS_MESSAGE_BYTES, &found), 0);
    assert_memory_equal(&found, &e, sizeof e);
    for (unsigned i = 0; i < 100000 && result == 0; i++) /* it does not come to read */
        result = ab_paths_report(&e);
    assert_int_equal(result, -EAGAIN);
    e.remote.version = 0;
    assert_int_equal(ab_paths_report(&e), -EINVAL);
    close(daemon);
    unlink(report_file);
}

static void nobody_takes_it(void **state)
{
    struct autobuf_paths_entry e = entry();
    int other;

    (void)state;
    assert_int_equal(ab_paths_report(&e), -ENOENT);
    close(listen_here(SOCK_DGRAM)); /* its daemon was killed */
    assert_int_equal(ab_paths_report(&e), -ECONNREFUSED);
    unlink(report_file);
    other = listen_here(SOCK_STREAM);
    assert_true(ab_paths_report(&e) < 0);
    close(other);
    unlink(report_file);
}

static void another_store_is_named(void **state)
{
    struct autobuf_paths_entry e = entry();
    int daemon = listen_here(SOCK_DGRAM);
    char byte;

    (void)state;
    for (int off = 0; off < 2; off++) {
        ab_store_environment(off ? "off" : "/tmp/none", NULL, NULL);
        assert_int_equal(ab_paths_report(&e), -ENOENT);
        assert_int_equal(recv(daemon, &byte, 1, 0), -1);
    }
    ab_store_environment(NULL, NULL, NULL);
    close(daemon);
    unlink(report_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILES(what_is_written_is_found),
        FILES(a_reader_keeps_the_store_that_it_opened),
        FILES(a_writer_that_gives_up_leaves_the_old_one),
        FILES(entries_come_in_order_and_once),
        cmocka_unit_test(what_a_store_takes_is_told_before),
        FILES(one_writer_at_a_time),
        FILES(an_error_at_the_end_leaves_the_old_one),
        FILES(a_child_does_not_hold_the_lock),
        FILES(only_a_file_that_nobody_else_writes_is_read),
        FILES(nothing_that_blocks_is_read),
        FILES(a_damaged_file_is_told),
        FILES(a_small_store_that_is_cut_hurts_no_reader),
        FILES(another_users_lock_is_not_taken),
        FILES(what_is_in_its_way_is_replaced),
        cmocka_unit_test(where_the_own_store_is),
        FILES(a_way_that_is_another_user_s),
        FILES(a_home_that_is_missing),
        FILES(what_is_kept_is_found),
        FILES(the_oldest_goes_when_there_are_too_many),
        FILES(what_was_set_by_hand_does_not_go),
        FILES(a_clock_that_is_ahead_deletes_nothing),
        FILES(what_has_expired_for_sure_goes),
        FILES(what_has_expired_makes_room),
        FILES(what_was_set_by_hand_is_safe_on_the_disk),
        FILES(a_damaged_store_is_replaced_and_a_later_one_is_not),
        FILES(what_is_no_store_stays),
        FILES(the_first_damaged_store_is_set_aside),
        FILES(an_entry_that_is_none_sets_no_store_aside),
        FILES(what_is_out_of_order_is_left_out),
        FILES(whoever_is_killed_nothing_is_lost_or_damaged),
        cmocka_unit_test_setup_teardown(a_daemon_takes_it, begin_report, end_report),
        cmocka_unit_test_setup_teardown(nobody_takes_it, begin_report, end_report),
        cmocka_unit_test_setup_teardown(another_store_is_named, begin_report, end_report),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

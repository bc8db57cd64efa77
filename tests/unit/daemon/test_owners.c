/* SPDX-License-Identifier: MIT */
/* tools/daemon/owners.c, on this process and whatever else runs here. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/owners.h"

#define SOCKETS 40
#define SEARCHES_MOST 1000000U

static int sockets[SOCKETS];

static struct wanted wanted_of(int fd, size_t index)
{
    struct stat is;

    assert_int_equal(fstat(fd, &is), 0);
    return (struct wanted){.inode = (uint32_t)is.st_ino, .user = geteuid(), .index = index};
}

static int open_all(void **state)
{
    (void)state;
    for (int i = 0; i < SOCKETS; i++)
        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return sockets[SOCKETS - 1] < 0 ? -1 : 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < SOCKETS; i++)
        close(sockets[i]);
    return 0;
}

static void check_found(const struct wanted *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(wanted[i].owner.pid, getpid());
        assert_int_equal(wanted[i].owner.fd, sockets[wanted[i].index]);
    }
}

static void all_at_once(void **state)
{
    struct wanted wanted[SOCKETS];
    struct owners owners = {0};

    (void)state;
    for (size_t i = 0; i < SOCKETS; i++)
        wanted[i] = wanted_of(sockets[SOCKETS - 1 - i], SOCKETS - 1 - i);
    owners_find(&owners, wanted, SOCKETS, SIZE_MAX);
    check_found(wanted, SOCKETS);
    free(owners.processes);
}

/*
 * The one that was opened last, by searches that see less than this process has open: each goes on where the last one
 * ended.
 */
static void a_few_at_a_time(void **state)
{
    struct wanted last = wanted_of(sockets[SOCKETS - 1], SOCKETS - 1);
    struct owners owners = {0};
    unsigned searches = 0;

    (void)state;
    while (!last.owner.pid) {
        owners_find(&owners, &last, 1, SOCKETS / 4);
        assert_in_range(++searches, 1, SEARCHES_MOST);
    }
    check_found(&last, 1);
    assert_in_range(searches, 4, SEARCHES_MOST);
    free(owners.processes);
}

static void what_nobody_has(void **state)
{
    struct wanted none = {.inode = UINT32_MAX, .user = geteuid()};
    struct owners owners = {0};
    unsigned searches = 0;

    (void)state;
    owners_find(&owners, &none, 1, SIZE_MAX);
    assert_int_equal(owners.wholes, OWNERS_NONE); /* it has seen all */
    for (unsigned seen = owners.wholes; owners.wholes == seen; searches++) {
        owners_find(&owners, &none, 1, SOCKETS);
        assert_int_equal(none.owner.pid, 0);
        assert_in_range(searches, 0, SEARCHES_MOST);
    }
    /* all of them have, but what came meanwhile they may have missed */
    assert_int_equal(owners.wholes, OWNERS_NONE + 1);
    assert_in_range(searches, 3, SEARCHES_MOST);
    free(owners.processes);
}

/* ------------------------------------------------------------- processes with many descriptors */

#define CROWDS 8
#define EACH 900
#define SOMEBODY 12345 /* has no process of his own */
#define NOBODY 65534

/* Has so many descriptors, and then a socket, until the other end of the pipe is closed. */
static void be_crowd(uid_t user, int descriptors, int told, int end)
{
    struct stat is;

    if (setuid(user) < 0)
        _exit(1);
    for (int i = 0; i < descriptors; i++)
        if (dup(told) < 0)
            _exit(1);
    if (fstat(socket(AF_INET, SOCK_STREAM, 0), &is) < 0 || write(told, &is.st_ino, sizeof is.st_ino) < 0)
        _exit(1);
    _exit(read(end, &is, 1) < 0);
}

/* Returns what keeps the child. */
static int crowd(uid_t user, int descriptors, pid_t *child, ino_t *inode)
{
    int told[2], keep[2];

    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(keep), 0);
    *child = fork();
    if (*child == 0) {
        close(keep[1]);
        be_crowd(user, descriptors, told[1], keep[0]);
    }
    close(told[1]);
    close(keep[0]);
    assert_int_equal(read(told[0], inode, sizeof *inode), sizeof *inode);
    close(told[0]);
    return keep[1];
}

/* How many searches find the socket of a process that came after others with many descriptors. */
static unsigned searches_for(uid_t others, int descriptors)
{
    struct owners owners = {0};
    struct wanted wanted;
    int kept[CROWDS + 1];
    unsigned searches;
    ino_t inode;
    pid_t last;

    if (geteuid() != 0)
        SKIP("needs other users");
    for (int i = 0; i < CROWDS; i++)
        kept[i] = crowd(others, EACH, &last, &inode);
    kept[CROWDS] = crowd(SOMEBODY, descriptors, &last, &inode);
    wanted = (struct wanted){.inode = (uint32_t)inode, .user = SOMEBODY};
    while (!wanted.owner.pid && owners.searches < 100)
        owners_find(&owners, &wanted, 1, 4000);
    assert_int_equal(wanted.owner.pid, last);
    for (int i = CROWDS; i >= 0; i--) /* each has what keeps those before it */
        close(kept[i]);
    while (wait(NULL) > 0)
        ;
    searches = owners.searches;
    free(owners.processes);
    return searches;
}

static void descriptors_of_others_are_in_nobody_s_way(void **state)
{
    (void)state;
    assert_int_equal(searches_for(NOBODY, 0), 1);
    assert_int_equal(searches_for(NOBODY, EACH), 1);
}

/* Half of 4,000, of which half are the first few of each, and the rest is the others' turn by turn. */
static void large_processes_of_the_same_user_come_later(void **state)
{
    (void)state;
    assert_int_equal(searches_for(SOMEBODY, 0), 1);
    assert_in_range(searches_for(SOMEBODY, EACH), 2, 2 + CROWDS);
}

/* However many newer ones come, of which a search takes up a part. */
static void older_ones_have_their_turn(void **state)
{
    struct wanted wanted[400];
    struct lap lap = {0, 0};
    uint32_t newest = 1000;
    size_t count = 0;

    (void)state;
    while (count < 100)
        wanted[count++] = (struct wanted){.inode = 7 + (uint32_t)count};
    lap.next_inode = 500; /* an earlier search has come so far */
    for (unsigned searches = 0; wanted[0].inode < 1000; searches++) {
        size_t first = lap_first(&lap, wanted, count), taken = count - first < 20 ? count - first : 20;

        assert_true(searches < 12);
        lap.next_inode = wanted[first + taken - 1].inode + 1;
        memmove(&wanted[first], &wanted[first + taken], (count - first - taken) * sizeof *wanted);
        count -= taken;
        for (unsigned i = 0; i < 30; i++)
            wanted[count++] = (struct wanted){.inode = newest++};
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(a_few_at_a_time),
        cmocka_unit_test(what_nobody_has),
        cmocka_unit_test(descriptors_of_others_are_in_nobody_s_way),
        cmocka_unit_test(large_processes_of_the_same_user_come_later),
        cmocka_unit_test(older_ones_have_their_turn),
    };

    return cmocka_run_group_tests_name("owners", tests, open_all, close_all);
}

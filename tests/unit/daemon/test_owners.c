/* SPDX-License-Identifier: MIT */
/* tools/daemon/owners.c, on this process and whatever else runs here. */
#include "unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/owners.h"

#define SOCKETS 40
#define SEARCHES_MOST 1000000U

static int sockets[SOCKETS];

static struct wanted wanted_of(int fd, size_t index)
{
    struct stat is;

    assert_int_equal(fstat(fd, &is), 0);
    return (struct wanted){.inode = (uint32_t)is.st_ino, .index = index};
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
        assert_int_equal(wanted[i].pid, getpid());
        assert_int_equal(wanted[i].fd, sockets[wanted[i].index]);
    }
}

static void all_at_once(void **state)
{
    struct wanted wanted[SOCKETS];
    struct owners owners = {0};

    (void)state;
    for (size_t i = 0; i < SOCKETS; i++)
        wanted[i] = wanted_of(sockets[SOCKETS - 1 - i], SOCKETS - 1 - i);
    assert_true(owners_find(&owners, wanted, SOCKETS, SIZE_MAX));
    check_found(wanted, SOCKETS);
}

/* The one that was opened last, by searches that see less than this process has open: each goes on where the last one ended. */
static void a_few_at_a_time(void **state)
{
    struct wanted last = wanted_of(sockets[SOCKETS - 1], SOCKETS - 1);
    struct owners owners = {0};
    unsigned searches = 1;

    (void)state;
    while (!owners_find(&owners, &last, 1, SOCKETS / 4)) {
        assert_int_equal(last.pid, 0);
        assert_in_range(++searches, 2, SEARCHES_MOST);
    }
    check_found(&last, 1);
    assert_in_range(searches, SOCKETS / (SOCKETS / 8), SEARCHES_MOST);
}

static void what_nobody_has(void **state)
{
    struct wanted none = {.inode = UINT32_MAX};
    struct owners owners = {0};

    (void)state;
    assert_true(owners_find(&owners, &none, 1, SIZE_MAX));
    assert_int_equal(none.pid, 0);
    for (int i = 0; i < 3 * SOCKETS; i++)
        assert_false(owners_find(&owners, &none, 1, SOCKETS / 4)); /* it has not seen all */
    assert_int_equal(none.pid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(a_few_at_a_time),
        cmocka_unit_test(what_nobody_has),
    };

    return cmocka_run_group_tests_name("owners", tests, open_all, close_all);
}

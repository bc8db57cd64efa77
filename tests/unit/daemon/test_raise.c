/* SPDX-License-Identifier: MIT */
/* tools/daemon/broker.c: limits of autotuning, in a network namespace of its own. */
#include "unit.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "daemon/broker.h"
#include "kernel/proc.h"

#define MOST (64U << 20)

static const char *const files[] = {"/proc/sys/net/ipv4/tcp_wmem", "/proc/sys/net/ipv4/tcp_rmem"};

static void is(unsigned side, const uint64_t expected[3])
{
    uint64_t now[3];

    assert_int_equal(ab_proc_read(files[side], now, 3), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(now[i], expected[i]);
}

static void somebody_sets(unsigned side, unsigned most)
{
    FILE *file = fopen(files[side], "w");

    assert_non_null(file);
    fprintf(file, "4096 16384 %u\n", most);
    assert_int_equal(fclose(file), 0);
}

static void by_a_doubling_and_back(void **state)
{
    (void)state;
    if (unshare(CLONE_NEWNET) < 0)
        SKIP("may not make a network namespace");
    for (unsigned side = 0; side < RAISE_SIDES; side++) {
        struct raised raised = {0};

        somebody_sets(side, 4000000);
        assert_int_equal(raise_to(&raised, side, 0, MOST), 0);
        assert_int_equal(raise_to(&raised, side, 8000001, MOST), -EINVAL);
        assert_int_equal(raise_to(&raised, side, 4000000, MOST), -EINVAL);
        assert_int_equal(raise_to(&raised, side, 5000000, 4000000), -EINVAL);
        is(side, (uint64_t[]){4096, 16384, 4000000});
        assert_int_equal(raise_to(&raised, side, 6000000, 5000000), 0); /* no further than the most */
        is(side, (uint64_t[]){4096, 16384, 5000000});
        assert_int_equal(raise_to(&raised, side, 0, MOST), 0);
        assert_int_equal(raise_to(&raised, side, 8000000, MOST), 0);
        is(side, (uint64_t[]){4096, 16384, 8000000});
        assert_int_equal(raise_to(&raised, side, 10000000, MOST), 0);
        assert_true(raised.was_bytes == 4000000 && raised.ours_bytes == 10000000);
        assert_int_equal(raise_to(&raised, side, 0, MOST), 0);
        is(side, (uint64_t[]){4096, 16384, 4000000});
        assert_int_equal(raised.ours_bytes, 0);
    }
}

static void what_somebody_else_has_changed_is_theirs(void **state)
{
    struct raised raised = {0};

    (void)state;
    if (unshare(CLONE_NEWNET) < 0)
        SKIP("may not make a network namespace");
    somebody_sets(0, 4000000);
    assert_int_equal(raise_to(&raised, 0, 8000000, MOST), 0);
    somebody_sets(0, 6000000);
    assert_int_equal(raise_to(&raised, 0, 12000000, MOST), -EBUSY);
    assert_int_equal(raise_to(&raised, 0, 0, MOST), -EBUSY);
    is(0, (uint64_t[]){4096, 16384, 6000000});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_a_doubling_and_back),
        cmocka_unit_test(what_somebody_else_has_changed_is_theirs),
    };

    return cmocka_run_group_tests_name("raise", tests, NULL, NULL);
}

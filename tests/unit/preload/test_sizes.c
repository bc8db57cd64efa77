/* SPDX-License-Identifier: MIT */
/* Sizes that a program sets, against what this kernel makes of them. */
#include "unit.h"

#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "preload/sizes.h"

static uint64_t kernel_keeps(int option, int value)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), sk_bytes = 0;
    socklen_t length = sizeof sk_bytes;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, option, &value, sizeof value), 0);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, option, &sk_bytes, &length), 0);
    close(fd);
    return (uint64_t)sk_bytes;
}

static void as_the_kernel_keeps_it(void **state)
{
    static const int values[] = {INT_MIN, -1,   0,    1,     1151,   1152,   1153,    2303,    2304,   2305,
                                 4607,    4608, 4609, 65536, 212992, 300000, 4194304, 5000000, INT_MAX};
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;

    (void)state;
    assert_int_equal(autobuf_limits_host(&limits), 0);
    for (size_t i = 0; i < COUNT(values); i++) {
        char row[32];

        snprintf(row, sizeof row, "%d", values[i]);
        CHECK_EQUAL(row, run_size_stored(&limits, AUTOBUF_LOCK_SND, values[i]), kernel_keeps(SO_SNDBUF, values[i]));
        CHECK_EQUAL(row, run_size_stored(&limits, AUTOBUF_LOCK_RCV, values[i]), kernel_keeps(SO_RCVBUF, values[i]));
    }
}

static void small_is_what_autotuning_exceeds(void **state)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;

    (void)state;
    limits.tcp_wmem_max_bytes = 4000000;
    limits.tcp_rmem_max_bytes = 6000000;
    limits.tcp_rmem_default_bytes = 131072;
    limits.flags = AUTOBUF_LIMITS_RCV_AUTOTUNING;
    assert_int_equal(run_size_reach(&limits, AUTOBUF_LOCK_SND), 4000000);
    assert_int_equal(run_size_reach(&limits, AUTOBUF_LOCK_RCV), 6000000);
    limits.flags = 0; /* tcp_moderate_rcvbuf=0: a buffer stays as it is at first */
    assert_int_equal(run_size_reach(&limits, AUTOBUF_LOCK_RCV), 131072);
}

/* 20 Gbit/s are 2.5 bytes a nanosecond, and a window is half of the buffer. */
static void enough_is_relative_to_the_round_trip(void **state)
{
    static const struct {
        const char *name;
        uint64_t sk_bytes, rtt_ns;
        bool enough;
    } rows[] = {
        {"loopback", 131072, 20000, true},          {"a switch", 131072, 30000, false},
        {"just enough", 500002, 100000, true},      {"just not", 500000, 100000, false},
        {"unknown", 1U << 30, AUTOBUF_NS_UNSET, false}, {"none", 1U << 30, 0, false},
        {"far", 1U << 30, 10000001, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK_EQUAL(rows[i].name, run_size_is_enough(rows[i].sk_bytes, rows[i].rtt_ns), rows[i].enough);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_kernel_keeps_it),
        cmocka_unit_test(small_is_what_autotuning_exceeds),
        cmocka_unit_test(enough_is_relative_to_the_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

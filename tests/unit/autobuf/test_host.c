/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "host.h"

static void the_third_of_three_values(void **state)
{
    static const struct {
        const char *line, *name;
        long long third;
    } rows[] = {
        {"net.ipv4.tcp_rmem = 4096 131072 16777216\n", "net.ipv4.tcp_rmem", 16777216},
        {"net.ipv4.tcp_rmem=4096 131072 16777216", "net.ipv4.tcp_rmem", 16777216},
        {"  -net/ipv4/tcp_rmem\t=\t4096\t131072\t6291456 # old", "net.ipv4.tcp_rmem", 6291456},
        {"net.ipv4.tcp_rmem = \"4096 131072 1\"", "net.ipv4.tcp_rmem", 1},
        {"net.ipv4.tcp_rmem_more = 1 2 3", "net.ipv4.tcp_rmem", -1},
        {"#net.ipv4.tcp_rmem = 1 2 3", "net.ipv4.tcp_rmem", -1},
        {"net.ipv4.tcp_wmem = 1 2 3", "net.ipv4.tcp_rmem", -1},
        {"net.ipv4.tcp_rmem = 1 2", "net.ipv4.tcp_rmem", -1},
        {"net.ipv4.tcp_rmem", "net.ipv4.tcp_rmem", -1},
        {"net.ipv4.tcp_rmem = x", "net.ipv4.tcp_rmem", -1},
        {"", "net.ipv4.tcp_rmem", -1},
        {"\xff\xfe", "net.ipv4.tcp_rmem", -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK_EQUAL(rows[i].line, host_third_of(rows[i].line, rows[i].name), rows[i].third);
}

static void a_value_that_no_file_sets(void **state)
{
    struct setting found = {"something", 1};

    (void)state;
    host_find_setting("net.ipv4.tcp_rmem", 123456789012345, &found);
    assert_string_equal(found.file, "");
    assert_int_equal(found.third_bytes, UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_third_of_three_values),
        cmocka_unit_test(a_value_that_no_file_sets),
    };

    return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* tools/daemon/table.c: the table against an array of all numbers; of what moves, what counts is the rate. */
#include "unit.h"

#include <string.h>
#include <sys/socket.h>

#include "daemon/table.h"
#include "sockets.h"

#define NUMBERS 2000U

static void as_an_array(void **state)
{
    static uint8_t held[NUMBERS + 1]; /* 0: not in it; else the round in which it was seen */
    struct table table = {0};
    uint64_t random = 88172645463325252ULL;
    size_t count = 0;

    (void)state;
    assert_null(table_find(&table, 1));
    for (uint32_t round = 1; round <= 60; round++) {
        uint64_t wanted = unit_random(&random) % NUMBERS;

        for (uint64_t i = 0; i < wanted; i++) {
            uint64_t number = unit_random(&random) % NUMBERS + 1;
            struct known *known = table_make(&table, number << 32 | 7);

            assert_non_null(known);
            assert_int_equal(known->cookie, number << 32 | 7);
            assert_int_equal(known->mark.bytes, held[number] ? number : 0); /* it is the same one, or empty */
            count += !held[number];
            known->mark.bytes = number;
            known->round = held[number] = (uint8_t)round;
        }
        assert_int_equal(table.count, count);
        assert_true(2 * table.count <= table.room);
        table_forget(&table, round);
        count = 0;
        for (uint64_t number = 1; number <= NUMBERS; number++) {
            const struct known *known = table_find(&table, number << 32 | 7);

            if (held[number] && held[number] + 1U < round) /* two sweeps have not seen it */
                held[number] = 0;
            assert_int_equal(known != NULL, held[number] != 0);
            count += held[number] != 0;
        }
        assert_int_equal(table.count, count);
        assert_true(table.room <= 256 || 16 * table.count >= table.room || table.count * 8 >= table.room / 2);
    }
    table_free(&table);
    assert_null(table_find(&table, 7));
}

/* So many sockets a host may have, and more; the memory for them has a bound. */
static void there_is_a_bound(void **state)
{
    struct table table = {0};
    uint64_t number = 1;

    (void)state;
    while (table_make(&table, number))
        number++;
    assert_in_range(table.count, 200000, 300000);
    assert_int_equal(table.count, number - 1);
    assert_non_null(table_make(&table, 1)); /* which is known */
    table_forget(&table, 2);
    assert_non_null(table_make(&table, number));
    table_free(&table);
}

/* A dump may miss a socket. If it were forgotten, it would be taken up a second time. */
static void one_that_is_looked_after_stays(void **state)
{
    struct table table = {0};

    (void)state;
    assert_non_null(table_make(&table, 1));
    table_find(&table, 1)->state = KNOWN_TENDED;
    assert_non_null(table_make(&table, 2));
    table_forget(&table, 5);
    assert_non_null(table_find(&table, 1));
    assert_null(table_find(&table, 2));
    assert_int_equal(table.count, 1);
    table_find(&table, 1)->state = KNOWN_WAITS;
    table_forget(&table, 6);
    assert_null(table_find(&table, 1));
    table_free(&table);
}

static void one_that_a_dump_has_missed_stays(void **state)
{
    struct table table = {0};

    (void)state;
    table_make(&table, 1)->round = 4;
    table_forget(&table, 4);
    table_forget(&table, 5);
    assert_non_null(table_find(&table, 1));
    table_forget(&table, 6);
    assert_null(table_find(&table, 1));
    table_free(&table);
}

static uint64_t reads(uint64_t (*read)(FILE *), const char *text)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    uint64_t bytes;

    assert_non_null(file);
    bytes = read(file);
    fclose(file);
    return bytes;
}

static void texts_of_proc(void **state)
{
    (void)state;
    assert_int_equal(
        reads(traffic_read_v4,
              "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets InMcastOctets OutOctets Y\nIpExt: 7 1000 5 30 9\n"),
        1030);
    assert_true(reads(traffic_read_v4, "TcpExt: InOctets OutOctets\nTcpExt: 1 2\n") == UINT64_MAX);
    assert_true(reads(traffic_read_v4, "IpExt: X InOctets OutOctets\nIpExt: 7 1000\n") == UINT64_MAX);
    assert_true(reads(traffic_read_v4, "IpExt: X InOctets OutOctets\n") == UINT64_MAX);
    assert_int_equal(
        reads(traffic_read_v6, "Ip6InReceives \t 9\nIp6InOctets \t 40\nIp6OutOctets \t 2\nIp6InMcastOctets \t 7\n"),
        42);
    assert_true(reads(traffic_read_v6, "Ip6InOctets \t 40\n") == UINT64_MAX);
    assert_true(reads(traffic_read_v6, "\n") == UINT64_MAX);
}

static void what_a_connection_moves_is_in_it(void **state)
{
    struct connection c = tcp_connection();
    uint64_t before = traffic_bytes();
    static char data[100000];

    (void)state;
    assert_int_equal(send(c.client, data, sizeof data, 0), sizeof data);
    assert_int_equal(recv(c.accepted, data, sizeof data, MSG_WAITALL), sizeof data);
    if (before == UINT64_MAX)
        SKIP("no /proc/net/netstat");
    assert_true(traffic_bytes() - before >= 2 * sizeof data); /* out and in */
    close_connection(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_an_array),
        cmocka_unit_test(there_is_a_bound),
        cmocka_unit_test(one_that_is_looked_after_stays),
        cmocka_unit_test(one_that_a_dump_has_missed_stays),
        cmocka_unit_test(texts_of_proc),
        cmocka_unit_test(what_a_connection_moves_is_in_it),
    };

    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}

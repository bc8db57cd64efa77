/* SPDX-License-Identifier: MIT */
/* tools/daemon/traffic.c on texts, and on this machine. */
#include "unit.h"

#include <string.h>
#include <sys/socket.h>

#include "daemon/traffic.h"
#include "sockets.h"

static uint64_t reads(uint64_t (*read)(FILE *), const char *text)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    uint64_t bytes;

    assert_non_null(file);
    bytes = read(file);
    fclose(file);
    return bytes;
}

static void texts(void **state)
{
    (void)state;
    assert_int_equal(reads(traffic_read_v4, "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets InMcastOctets OutOctets Y\nIpExt: 7 1000 5 30 9\n"), 1030);
    assert_true(reads(traffic_read_v4, "TcpExt: InOctets OutOctets\nTcpExt: 1 2\n") == UINT64_MAX);
    assert_true(reads(traffic_read_v4, "IpExt: X InOctets OutOctets\nIpExt: 7 1000\n") == UINT64_MAX);
    assert_true(reads(traffic_read_v4, "IpExt: X InOctets OutOctets\n") == UINT64_MAX);
    assert_int_equal(reads(traffic_read_v6, "Ip6InReceives \t 9\nIp6InOctets \t 40\nIp6OutOctets \t 2\nIp6InMcastOctets \t 7\n"), 42);
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
        cmocka_unit_test(texts),
        cmocka_unit_test(what_a_connection_moves_is_in_it),
    };

    return cmocka_run_group_tests_name("traffic", tests, NULL, NULL);
}

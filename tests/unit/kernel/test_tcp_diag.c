/* SPDX-License-Identifier: MIT */
/* What the kernel lists of connections, and tells of those that have ended. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "kernel/socket.h"
#include "kernel/tcp_diag.h"
#include "sockets.h"

#define SENT_BYTES 5000U

struct heard {
    uint64_t cookie; /* that is waited for */
    struct ab_tcp_diag told;
    struct ab_tcpinfo info;
    unsigned count;
};

static void take(void *user, const struct ab_tcp_diag *told)
{
    struct heard *heard = user;

    if (told->cookie != heard->cookie)
        return;
    heard->told = *told;
    assert_true(!told->info || ab_tcpinfo_parse(told->info, told->info_bytes, &heard->info));
    heard->count++;
}

static struct heard wait_for(int fd)
{
    struct heard heard = {.count = 0};

    assert_int_equal(ab_socket_cookie(fd, &heard.cookie), 0);
    return heard;
}

/* A socket of IPv6 at either end, and packets of IPv4. */
static struct connection dual_connection(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6}, mapped;
    socklen_t length = sizeof mapped;
    struct connection c = {socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0),
                           socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), -1};

    if (c.listener < 0 || inet_pton(AF_INET6, "::ffff:127.0.0.1", &any.sin6_addr) != 1 ||
        bind(c.listener, (struct sockaddr *)&any, sizeof any) < 0)
        skip();
    assert_int_equal(listen(c.listener, 1), 0);
    assert_int_equal(getsockname(c.listener, (struct sockaddr *)&mapped, &length), 0);
    assert_int_equal(connect(c.client, (struct sockaddr *)&mapped, length), 0);
    c.accepted = accept(c.listener, NULL, NULL);
    assert_true(c.accepted >= 0);
    return c;
}

static void check_ends(struct connection c)
{
    struct heard heard = wait_for(c.client);
    char bytes[SENT_BYTES] = {0};
    struct ab_tcpinfo open;
    time_t until = time(NULL) + 20;
    int group = ab_tcp_diag_open_ended();

    if (group < 0)
        SKIP("this kernel does not tell of closed sockets here");
    assert_int_equal(send(c.client, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(recv(c.accepted, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    assert_int_equal(ab_socket_info(c.accepted, &open), 0);
    assert_int_equal(open.received_bytes, SENT_BYTES);
    assert_int_equal(ab_socket_info(c.listener, &open), 0);
    close_connection(&c);
    while (!heard.count && time(NULL) < until)
        (void)ab_tcp_diag_ended(group, 512, take, &heard);
    close(group);
    assert_int_equal(heard.count, 1);
    assert_true(heard.told.info && heard.info.acked_bytes >= SENT_BYTES); /* a FIN counts as one */
    assert_true(heard.info.rtt_min_ns > 0 && heard.info.rtt_min_ns < 10000000000ULL);
}

static void a_connection_that_ends(void **state)
{
    (void)state;
    check_ends(tcp_connection());
}

static void a_connection_of_ipv6_sockets(void **state)
{
    (void)state;
    check_ends(dual_connection());
}

static void what_is_no_connection(void **state)
{
    struct ab_tcpinfo info;

    (void)state;
    assert_true(ab_socket_info(closed_fd(), &info) < 0);
}

/* Each is in the list of its state, with what it is asked for; one is told of twice if others come and go. */
static void a_list(void **state)
{
    const uint8_t sizes = 1U << (INET_DIAG_SKMEMINFO - 1), infos = 1U << (INET_DIAG_INFO - 1);
    struct connection c = tcp_connection();
    struct heard client = wait_for(c.client), listener = wait_for(c.listener);
    int fd = ab_tcp_diag_open();

    (void)state;
    if (fd < 0 || ab_tcp_diag_list(fd, 1U << AB_TCP_ESTABLISHED, sizes | infos, 1000, take, &client) == -EOPNOTSUPP)
        SKIP("this kernel lists no sockets");
    assert_true(client.count > 0);
    assert_int_equal(client.told.snd_buf_bytes, option_of(c.client, SO_SNDBUF));
    assert_int_equal(client.told.rcv_buf_bytes, option_of(c.client, SO_RCVBUF));
    assert_int_equal(client.told.socket.idiag_uid, getuid());
    assert_int_equal(client.info.state, AB_TCP_ESTABLISHED);
    assert_int_equal(ab_tcp_diag_list(fd, 1U << AB_TCP_ESTABLISHED, sizes, 1000, take, &listener), 0);
    assert_int_equal(listener.count, 0);
    assert_int_equal(ab_tcp_diag_list(fd, 1U << AB_TCP_LISTEN, sizes, 1000, take, &listener), 0);
    assert_true(listener.count > 0 && !listener.told.info && listener.told.snd_buf_bytes > 0);
    assert_int_equal(ab_tcp_diag_list(fd, 1U << AB_TCP_LISTEN, sizes, 0, take, &listener), -E2BIG);
    close(fd);
    close_connection(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_ends),
        cmocka_unit_test(a_connection_of_ipv6_sockets),
        cmocka_unit_test(what_is_no_connection),
        cmocka_unit_test(a_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

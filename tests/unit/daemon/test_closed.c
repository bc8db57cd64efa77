/* SPDX-License-Identifier: MIT */
/* tools/daemon/closed.c: what the kernel tells of connections that have ended. */
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/closed.h"
#include "sockets.h"

#define SO_COOKIE_NUMBER 57
#define SENT_BYTES 5000U

struct heard {
    uint64_t cookie; /* that is waited for */
    struct learn_final final;
    unsigned count;
};

static void take(void *user, uint64_t cookie, const struct learn_final *final)
{
    struct heard *heard = user;

    if (cookie != heard->cookie)
        return;
    heard->final = *final;
    heard->count++;
}

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;

    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_COOKIE_NUMBER, &cookie, &length), 0);
    return cookie;
}

/* A socket of IPv6 at either end, and packets of IPv4. */
static struct connection dual_connection(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6}, mapped;
    socklen_t length = sizeof mapped;
    struct connection c = {socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), -1};

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
    struct heard heard = {.cookie = cookie_of(c.client)};
    char bytes[SENT_BYTES] = {0};
    struct learn_final open = {0};
    time_t until = time(NULL) + 20;
    int group = closed_open();

    if (group < 0)
        SKIP("this kernel does not tell of closed sockets here");
    assert_int_equal(send(c.client, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(recv(c.accepted, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    assert_int_equal(closed_read(c.accepted, &open), 0);
    assert_int_equal(open.received_bytes, SENT_BYTES);
    assert_int_equal(closed_read(c.listener, &open), 0);
    close_connection(&c);
    while (!heard.count && time(NULL) < until)
        (void)closed_take(group, take, &heard);
    close(group);
    assert_int_equal(heard.count, 1);
    assert_true(heard.final.sent_bytes >= SENT_BYTES); /* a FIN counts as one */
    assert_true(heard.final.rtt_min_ns > 0 && heard.final.rtt_min_ns < 10000000000ULL);
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
    struct learn_final final;

    (void)state;
    assert_true(closed_read(closed_fd(), &final) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_ends),
        cmocka_unit_test(a_connection_of_ipv6_sockets),
        cmocka_unit_test(what_is_no_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

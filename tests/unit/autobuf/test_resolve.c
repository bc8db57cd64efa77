/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "resolve.h"

/* Numeric addresses and devices ask no name server. */
static void why_there_is_no_address(void **state)
{
    const struct {
        const char *host;
        int family;
        const char *why;
    } rows[] = {
        {"::1", AF_INET, "-4 asks for IPv4"},
        {"127.0.0.1", AF_INET6, "-6 asks for IPv6"},
        {"fe80::1%no-such-device", AF_UNSPEC, "no such network device"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct addrinfo *list = NULL;
        int error = resolve(rows[i].host, NULL, rows[i].family, 0, &list);

        assert_true(error < 0);
        assert_non_null(strstr(resolve_strerror(error, rows[i].host, rows[i].family), rows[i].why));
    }
}

static void addresses_are_found(void **state)
{
    struct addrinfo *list = NULL;

    (void)state;
    assert_int_equal(resolve("127.0.0.1", "7411", AF_UNSPEC, 0, &list), 0);
    assert_int_equal(list->ai_family, AF_INET);
    assert_int_equal(list->ai_socktype, SOCK_STREAM);
    freeaddrinfo(list);
}

static void other_errors_are_said_as_elsewhere(void **state)
{
    (void)state;
    assert_string_equal(resolve_strerror(-ECONNREFUSED, "192.0.2.1", AF_UNSPEC), autobuf_strerror(-ECONNREFUSED));
    assert_string_equal(resolve_strerror(AUTOBUF_E_NOREPLY, NULL, AF_UNSPEC), autobuf_strerror(AUTOBUF_E_NOREPLY));
    assert_string_equal(resolve_strerror(-EINVAL, "192.0.2.1", AF_UNSPEC), autobuf_strerror(-EINVAL));
    assert_non_null(strstr(resolve_strerror(-EINVAL, "fe80::1", AF_UNSPEC), "%eth0"));
}

static void addresses_devices_and_neither(void **state)
{
    struct source s;

    (void)state;
    assert_int_equal(source_parse("127.0.0.1", &s), 0);
    assert_int_equal(s.address.ss_family, AF_INET);
    assert_int_equal(s.len, sizeof(struct sockaddr_in));
    assert_int_equal(source_parse("::1", &s), 0);
    assert_int_equal(s.address.ss_family, AF_INET6);
    assert_int_equal(source_parse("lo", &s), 0);
    assert_int_equal(s.len, 0);
    assert_string_equal(s.device, "lo");
    assert_int_equal(source_parse("no-such-device", &s), -ENODEV);
    assert_int_equal(source_parse("a-name-that-no-device-can-have", &s), -ENODEV);
    assert_int_equal(source_parse("", &s), -ENODEV);
}

static void a_socket_is_bound(void **state)
{
    struct sockaddr_in own = {0}, to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof own;
    struct source s;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(source_parse("127.0.0.5", &s), 0);
    assert_int_equal(source_bind(fd, &s), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &len), 0);
    assert_int_equal(own.sin_addr.s_addr, inet_addr("127.0.0.5"));
    assert_int_equal(source_bind(fd, &s), -EINVAL); /* it is bound */
    close(fd);
    assert_int_equal(source_towards((struct sockaddr *)&to, sizeof to, &s), 0);
    assert_int_equal(((struct sockaddr_in *)&s.address)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(((struct sockaddr_in *)&s.address)->sin_port, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(why_there_is_no_address),
        cmocka_unit_test(addresses_are_found),
        cmocka_unit_test(other_errors_are_said_as_elsewhere),
        cmocka_unit_test(addresses_devices_and_neither),
        cmocka_unit_test(a_socket_is_bound),
    };

    return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}

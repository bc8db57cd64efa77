/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(why_there_is_no_address),
        cmocka_unit_test(addresses_are_found),
        cmocka_unit_test(other_errors_are_said_as_elsewhere),
    };

    return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}

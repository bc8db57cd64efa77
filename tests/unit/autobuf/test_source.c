/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "source.h"

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
        cmocka_unit_test(addresses_devices_and_neither),
        cmocka_unit_test(a_socket_is_bound),
    };

    return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}

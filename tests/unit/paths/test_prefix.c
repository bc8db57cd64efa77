/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include <autobuf/autobuf.h>

#include "paths/record.h"

static void prefixes_are_read_and_written(void **state)
{
    static const struct {
        const char *text, *again; /* NULL: it is none */
    } rows[] = {
        {"192.0.2.0/24", "192.0.2.0/24"}, {"192.0.2.1", "192.0.2.1"}, {"192.0.2.1/32", "192.0.2.1"},
        {"0.0.0.0/0", "0.0.0.0/0"}, {"::/0", "::/0"}, {"2001:db8::/32", "2001:db8::/32"},
        {"2001:DB8::1/128", "2001:db8::1"},
        {"::ffff:192.0.2.1", "192.0.2.1"}, {"::ffff:192.0.2.0/120", "192.0.2.0/24"}, {"::ffff:0:0/96", "0.0.0.0/0"},
        {"::fffe:0:0/96", "::fffe:0:0/96"}, {"::fffe:0:0/95", "::fffe:0:0/95"}, {"::ffff:192.0.2.1/120", NULL},
        {"192.0.2.1/24", NULL}, {"192.0.2.0/33", NULL}, {"2001:db8::/129", NULL}, {"192.0.2/24", NULL}, {"", NULL},
        {"/0", NULL}, {"::/", NULL}, {"::/ 0", NULL}, {"::/+0", NULL}, {"::/00", NULL}, {"::/1000", NULL},
        {"any", NULL},
        {"192.0.2.0/24 ", NULL}, {"fe80::1%eth0", NULL},
        {"1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd", NULL},
    };
    struct autobuf_prefix prefix = {.version = 0};
    char text[AUTOBUF_PREFIX_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_EQUAL(rows[i].text, autobuf_prefix_parse(rows[i].text, &prefix), rows[i].again ? 0 : -EINVAL);
        if (!rows[i].again)
            continue;
        CHECK_EQUAL(rows[i].text, autobuf_prefix_print(&prefix, text), 0);
        assert_string_equal(text, rows[i].again);
    }
    prefix = (struct autobuf_prefix){.version = 0};
    assert_int_equal(autobuf_prefix_print(&prefix, text), 0);
    assert_string_equal(text, "any");
    prefix.version = 5;
    assert_int_equal(autobuf_prefix_print(&prefix, text), -EINVAL);
}

static void an_address_is_a_prefix(void **state)
{
    static const struct {
        const char *address, *prefix;
        int error;
    } rows[] = {
        {"2001:db8::1", "2001:db8::1", 0}, {"::ffff:192.0.2.1", "192.0.2.1", 0}, {"::", "::", 0},
        {"::1", "any", -EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sockaddr_in6 address = {.sin6_family = AF_INET6};
        socklen_t length = rows[i].error ? 3 : sizeof address;
        struct autobuf_prefix prefix;
        char text[AUTOBUF_PREFIX_BYTES];

        assert_int_equal(inet_pton(AF_INET6, rows[i].address, &address.sin6_addr), 1);
        CHECK_EQUAL(rows[i].address, ab_prefix_of((struct sockaddr *)&address, length, &prefix), rows[i].error);
        assert_int_equal(autobuf_prefix_print(&prefix, text), 0);
        assert_string_equal(text, rows[i].prefix);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_read_and_written),
        cmocka_unit_test(an_address_is_a_prefix),
    };

    return cmocka_run_group_tests_name("prefix", tests, NULL, NULL);
}

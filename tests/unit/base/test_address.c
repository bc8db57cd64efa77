/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/address.h"

static struct sockaddr_storage address(int family, const char *text, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_storage a;

    memset(&a, 0, sizeof a);
    if (family == AF_INET) {
        assert_int_equal(inet_pton(AF_INET, text, &v4.sin_addr), 1);
        memcpy(&a, &v4, sizeof v4);
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
        v6.sin6_scope_id = 3;
        memcpy(&a, &v6, sizeof v6);
    }
    return a;
}

static socklen_t length(int family)
{
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static const struct copy_row {
    int family;
    const char *text;
    int copied_family;
    const char *copied;
} copy_rows[] = {
    {AF_INET, "192.0.2.1", AF_INET, "192.0.2.1"},
    {AF_INET, "0.0.0.0", AF_INET, "0.0.0.0"},
    {AF_INET6, "2001:db8::1", AF_INET6, "2001:db8::1"},
    {AF_INET6, "fe80::1", AF_INET6, "fe80::1"},
    {AF_INET6, "::", AF_INET6, "::"},
    {AF_INET6, "::1", AF_INET6, "::1"},
    {AF_INET6, "::ffff:192.0.2.1", AF_INET, "192.0.2.1"},
    {AF_INET6, "::ffff:0.0.0.0", AF_INET, "0.0.0.0"},
    {AF_INET6, "64:ff9b::192.0.2.1", AF_INET6, "64:ff9b::192.0.2.1"}, /* NAT64 is no mapping */
};

static void copies_without_the_port(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(copy_rows); i++) {
        const struct copy_row *row = &copy_rows[i];
        struct sockaddr_storage from = address(row->family, row->text, 7411), copy;
        struct sockaddr_storage expected = address(row->copied_family, row->copied, 0);

        memset(&copy, 0x77, sizeof copy);
        CHECK_EQUAL(row->text,
                    ab_address_copy((struct sockaddr *)&from, length(row->family), &copy),
                    length(row->copied_family));
        CHECK(row->text, memcmp(&copy, &expected, sizeof copy) == 0); /* the scope included */
    }
}

static void short_lengths_are_refused(void **state)
{
    static const int families[] = {AF_INET, AF_INET6};

    (void)state;
    for (size_t i = 0; i < COUNT(families); i++) {
        struct sockaddr_storage copy;
        struct sockaddr_storage from =
            address(families[i], families[i] == AF_INET ? "192.0.2.1" : "2001:db8::1", 0);

        for (socklen_t len = 0; len <= sizeof from; len++) {
            int expected = len < length(families[i]) ? -EINVAL : (int)length(families[i]);

            assert_int_equal(ab_address_copy((struct sockaddr *)&from, len, &copy), expected);
        }
    }
}

static void other_families_are_refused(void **state)
{
    struct sockaddr_storage from, copy;

    (void)state;
    memset(&from, 0, sizeof from);
    from.ss_family = AF_UNIX;
    assert_int_equal(ab_address_copy((struct sockaddr *)&from, sizeof from, &copy), -EAFNOSUPPORT);
    from.ss_family = AF_UNSPEC;
    assert_int_equal(ab_address_copy((struct sockaddr *)&from, sizeof from, &copy), -EAFNOSUPPORT);
    assert_int_equal(ab_address_copy(NULL, sizeof from, &copy), -EINVAL);
}

static void same_and_any(void **state)
{
    static const struct {
        const char *name;
        int family_a, family_b;
        const char *a, *b;
        bool same, any_a;
    } rows[] = {
        {"IPv4, the same", AF_INET, AF_INET, "192.0.2.1", "192.0.2.1", true, false},
        {"IPv4, another", AF_INET, AF_INET, "192.0.2.1", "192.0.2.2", false, false},
        {"IPv4, any", AF_INET, AF_INET, "0.0.0.0", "192.0.2.2", false, true},
        {"IPv6, the same", AF_INET6, AF_INET6, "2001:db8::1", "2001:db8::1", true, false},
        {"IPv6, another at its end", AF_INET6, AF_INET6, "2001:db8::1", "2001:db8::2", false,
         false},
        {"IPv6, another at its start", AF_INET6, AF_INET6, "2001:db8::1", "2001:db9::1", false,
         false},
        {"IPv6, any", AF_INET6, AF_INET6, "::", "::", true, true},
        {"IPv6, nearly any", AF_INET6, AF_INET6, "::1", "::", false, false},
        {"two families", AF_INET, AF_INET6, "0.0.0.0", "::", false, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sockaddr_storage a = address(rows[i].family_a, rows[i].a, 1);
        struct sockaddr_storage b = address(rows[i].family_b, rows[i].b, 2);

        CHECK_EQUAL(rows[i].name, ab_address_same(&a, &b), rows[i].same);
        CHECK_EQUAL(rows[i].name, ab_address_same(&b, &a), rows[i].same);
        CHECK_EQUAL(rows[i].name, ab_address_is_any(&a), rows[i].any_a);
    }
    for (uint32_t scope = 0; scope <= 2; scope++) { /* one address on two links */
        struct sockaddr_storage a = address(AF_INET6, "fe80::1", 0), b = a;

        ((struct sockaddr_in6 *)&a)->sin6_scope_id = 1;
        ((struct sockaddr_in6 *)&b)->sin6_scope_id = scope;
        assert_int_equal(ab_address_same(&a, &b), scope < 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_without_the_port),
        cmocka_unit_test(short_lengths_are_refused),
        cmocka_unit_test(other_families_are_refused),
        cmocka_unit_test(same_and_any),
    };

    return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}

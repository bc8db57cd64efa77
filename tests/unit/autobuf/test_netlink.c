/* SPDX-License-Identifier: MIT */
/* tools/netlink.c: requests as the kernel wants them, and attributes of its answers, whole or broken. */
#include "unit.h"

#include <string.h>

#include "netlink.h"

#define SKIP_BYTES 6 /* of something else before the attributes: they begin at 8 */

/* A request with a number, a nest with a number in it, and a byte. */
static void build(struct request *r)
{
    struct {
        struct rtattr head;
        uint32_t value;
    } inner = {{sizeof inner, 3}, 99};
    const uint32_t number = 7;
    const uint8_t byte = 5;

    memcpy(netlink_begin(r, RTM_GETQDISC, NLM_F_DUMP, SKIP_BYTES), "sixsix", SKIP_BYTES);
    netlink_add(r, 1, &number, sizeof number);
    netlink_add(r, 2 | NLA_F_NESTED, &inner, sizeof inner);
    netlink_add(r, 4, &byte, sizeof byte);
}

static int64_t number_of(const struct rtattr *a)
{
    int64_t value = -1;

    netlink_number(a, &value);
    return value;
}

static void attributes_are_found(void **state)
{
    struct request r;
    const struct rtattr *nest;

    (void)state;
    build(&r);
    assert_int_equal(r.header.nlmsg_type, RTM_GETQDISC);
    assert_int_equal(r.header.nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP);
    assert_int_equal(r.header.nlmsg_len, NLMSG_LENGTH(8) + RTA_SPACE(4) + RTA_SPACE(8) + RTA_SPACE(1));
    assert_int_equal(number_of(netlink_attribute(&r.header, SKIP_BYTES, 1)), 7);
    nest = netlink_attribute(&r.header, SKIP_BYTES, 2); /* whatever its flags */
    assert_non_null(nest);
    assert_int_equal(number_of(netlink_nested(nest, 3)), 99);
    assert_null(netlink_nested(nest, 1));
    assert_null(netlink_attribute(&r.header, SKIP_BYTES, 3)); /* it is in the nest only */
    assert_int_equal(number_of(netlink_attribute(&r.header, SKIP_BYTES, 4)), -1); /* too short */
    assert_int_equal(number_of(NULL), -1);
}

/* Nothing is found beyond the end of a message, wherever it is cut, and the first attribute only if it is whole. */
static void messages_that_are_cut(void **state)
{
    struct request whole;

    (void)state;
    build(&whole);
    for (uint32_t length = NLMSG_LENGTH(0); length < whole.header.nlmsg_len; length++) {
        struct request r = whole;

        memset((char *)&r + length, 0xff, sizeof r - length);
        r.header.nlmsg_len = length;
        if (netlink_attribute(&r.header, SKIP_BYTES, 4))
            assert_true(length >= whole.header.nlmsg_len - RTA_SPACE(1) + RTA_LENGTH(1));
        assert_int_equal(number_of(netlink_attribute(&r.header, SKIP_BYTES, 1)),
                         length >= NLMSG_LENGTH(8) + RTA_LENGTH(4) ? 7 : -1);
    }
}

/* An attribute that says that it is shorter than its own header would be met for ever. */
static void attributes_that_lie(void **state)
{
    static const uint16_t lengths[] = {0, 1, 3, 200, UINT16_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct request r;
        struct rtattr *first;

        build(&r);
        first = (struct rtattr *)((char *)&r + NLMSG_LENGTH(8));
        first->rta_len = lengths[i];
        assert_null(netlink_attribute(&r.header, SKIP_BYTES, 1));
        assert_null(netlink_attribute(&r.header, SKIP_BYTES, 4));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_found),
        cmocka_unit_test(messages_that_are_cut),
        cmocka_unit_test(attributes_that_lie),
    };

    return cmocka_run_group_tests_name("autobuf_netlink", tests, NULL, NULL);
}

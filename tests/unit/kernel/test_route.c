/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include <linux/rtnetlink.h>

#include "base/address.h"
#include "kernel/route.h"

static struct sockaddr_storage host(const uint8_t *bytes, size_t count)
{
    struct sockaddr_storage made;

    assert_true(ab_address_make(bytes, count, &made) > 0);
    return made;
}

/* The loopback interface is there in each network namespace; it may be down, and then has no route. */
static void the_way_to_this_host_is_the_loopback_interface(void **state)
{
    static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
    struct sockaddr_storage four = host(v4, 4), six = host(v6, 16);
    struct ab_route route;
    int result = ab_route_to(&four, NULL, 0, &route);

    (void)state;
    if (result == -ENETUNREACH)
        SKIP("the loopback interface is down");
    assert_int_equal(result, 0);
    assert_int_equal(route.family, AF_INET);
    assert_int_equal(route.device, if_nametoindex("lo"));
    assert_int_equal(route.source_bytes, 4);
    assert_memory_equal(route.source, v4, 4);
    if (ab_route_to(&six, NULL, 0, &route) == 0) {
        assert_int_equal(route.family, AF_INET6);
        assert_int_equal(route.device, if_nametoindex("lo"));
    }
}

/* A link-local address has a route on each link, so the caller has to name the link. */
static void the_way_is_by_the_interface_that_is_asked_for(void **state)
{
    static const uint8_t v4[4] = {127, 0, 0, 1}, link_local[16] = {0xfe, 0x80, [15] = 1};
    struct sockaddr_storage four = host(v4, 4), link = host(link_local, 16);
    uint32_t loopback = if_nametoindex("lo");
    struct ab_route route;
    int result = ab_route_to(&four, NULL, loopback, &route);

    (void)state;
    if (result == -ENETUNREACH)
        SKIP("the loopback interface is down");
    assert_int_equal(result, 0);
    assert_int_equal(route.device, loopback);
    assert_int_equal(ab_route_to(&four, NULL, INT32_MAX, &route), -ENODEV);
    if (ab_route_to(&link, NULL, loopback, &route) == 0)
        assert_int_equal(route.device, loopback);
}

static void only_whole_answers_count(void **state)
{
    static const struct {
        uint8_t family;
        size_t len;
        uint32_t device, source_bytes;
    } rows[] = {
        {AF_INET, sizeof(struct rtmsg) + 16, 7, 4}, {AF_INET, sizeof(struct rtmsg) + 8, 7, 0},
        {AF_INET, sizeof(struct rtmsg) + 7, 0, 0},  {AF_INET, sizeof(struct rtmsg), 0, 0},
        {AF_INET6, sizeof(struct rtmsg) + 16, 7, 0}, /* 4 bytes are no address of IPv6 */
    };
    struct {
        struct rtmsg message;
        struct rtattr device;
        uint32_t index;
        struct rtattr source;
        uint8_t address[4];
    } answer = {.device = {.rta_len = 8, .rta_type = RTA_OIF}, .index = 7,
                .source = {.rta_len = 8, .rta_type = RTA_PREFSRC}, .address = {10, 0, 0, 1}};
    struct ab_route route;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        route = (struct ab_route){.family = AF_UNSPEC};
        answer.message.rtm_family = rows[i].family;
        ab_route_note(&route, (const uint8_t *)&answer, rows[i].len);
        CHECK_EQUAL("a row", route.family, rows[i].family);
        CHECK_EQUAL("a row", route.device, rows[i].device);
        CHECK_EQUAL("a row", route.source_bytes, rows[i].source_bytes);
    }
    route = (struct ab_route){.family = AF_UNSPEC};
    ab_route_note(&route, (const uint8_t *)&answer, sizeof(struct rtmsg) - 1);
    assert_int_equal(route.family, AF_UNSPEC);
    answer.message.rtm_family = AF_BRIDGE;
    ab_route_note(&route, (const uint8_t *)&answer, sizeof answer);
    assert_int_equal(route.family, AF_UNSPEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_way_to_this_host_is_the_loopback_interface),
        cmocka_unit_test(the_way_is_by_the_interface_that_is_asked_for),
        cmocka_unit_test(only_whole_answers_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

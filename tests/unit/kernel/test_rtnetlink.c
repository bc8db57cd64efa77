/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/address.h"
#include "kernel/netlink.h"
#include "kernel/rtnetlink.h"

#define NAME_BYTES 16

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

/* As `ip route change ... congctl reno window 9000` makes it. */
static void a_route_has_metrics(void **state)
{
    struct {
        struct rtmsg message;
        struct rtattr metrics, name;
        char text[16];
        struct rtattr window;
        uint32_t bytes;
    } answer = {.message.rtm_family = AF_INET, .metrics = {.rta_len = sizeof answer - sizeof answer.message,
                                                           .rta_type = RTA_METRICS},
                .name = {.rta_len = sizeof answer.name + 5, .rta_type = RTAX_CC_ALGO}, .text = "reno",
                .window = {.rta_len = 8, .rta_type = RTAX_WINDOW}, .bytes = 9000};
    struct ab_route route = {.family = AF_UNSPEC};

    (void)state;
    memcpy(answer.text + 8, &answer.window, 8); /* aligned by four, behind "reno" and its zero */
    answer.metrics.rta_len = (unsigned short)(sizeof answer.metrics + sizeof answer.name + 8 + 8);
    ab_route_note(&route, (const uint8_t *)&answer, sizeof answer.message + answer.metrics.rta_len);
    assert_string_equal(route.congestion_control, "reno");
    assert_int_equal(route.window_bytes, 9000);
    route = (struct ab_route){.family = AF_UNSPEC};
    answer.name.rta_len = sizeof answer.name + 16; /* a name that is too long, for this struct */
    ab_route_note(&route, (const uint8_t *)&answer, sizeof answer.message + answer.metrics.rta_len);
    assert_string_equal(route.congestion_control, "");
}

static int parse(const void *answers, size_t len, bool *paces)
{
    return ab_netlink_parse(answers, len, RTM_NEWQDISC, ab_qdisc_note_fq, paces);
}

/* A message as the kernel sends it: one attribute that is none of ours, then the kind. */
struct message {
    struct nlmsghdr header;
    struct tcmsg body;
    struct rtattr other;
    uint32_t value;
    struct rtattr kind;
    char name[NAME_BYTES];
};

static struct message message_of(const char *name, uint16_t type)
{
    struct message m = {
        .header = {.nlmsg_len = sizeof m, .nlmsg_type = type},
        .body = {.tcm_ifindex = 2},
        .other = {.rta_len = sizeof m.other + sizeof m.value, .rta_type = TCA_STATS},
        .kind = {.rta_len = sizeof m.kind + NAME_BYTES, .rta_type = TCA_KIND},
    };

    strncpy(m.name, name, sizeof m.name - 1);
    m.kind.rta_len = (unsigned short)(sizeof m.kind + strlen(name) + 1);
    return m;
}

static void test_kinds(void **state)
{
    static const struct {
        const char *name;
        bool paces;
    } rows[] = {{"fq", true},     {"fq_codel", false}, {"f", false}, {"noqueue", false},
                {"mq", false},    {"tbf", false},      {"", false},  {"xfq", false},
                {"pfifo_fast", false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct message both[2] = {message_of("noqueue", RTM_NEWQDISC),
                                  message_of(rows[i].name, RTM_NEWQDISC)};
        bool paces = false;

        CHECK_EQUAL(rows[i].name, parse(both, sizeof both, &paces), 0);
        CHECK_EQUAL(rows[i].name, paces, rows[i].paces);
    }
}

static void test_ends(void **state)
{
    struct message both[2] = {message_of("fq", RTM_NEWQDISC), message_of("", NLMSG_DONE)};
    bool paces = false;

    (void)state;
    assert_int_equal(parse(both, sizeof both, &paces), 1);
    assert_true(paces);
    paces = false;
    both[0] = message_of("fq", RTM_NEWLINK); /* not what was asked for */
    assert_int_equal(parse(both, sizeof both, &paces), 1);
    assert_false(paces);
    both[0] = message_of("fq", NLMSG_ERROR);
    assert_int_equal(parse(both, sizeof both, &paces), -EPROTO);
    assert_int_equal(parse(both, 0, &paces), 0);
}

/* Cut anywhere, and with any length in any place: nothing is read beyond the end. */
static void test_broken(void **state)
{
    struct message m = message_of("fq", RTM_NEWQDISC);
    bool paces;

    (void)state;
    for (size_t len = 1; len < sizeof m; len++) {
        void *cut = malloc(len);

        memcpy(cut, &m, len);
        assert_int_equal(parse(cut, len, &paces), -EPROTO);
        free(cut);
    }
    for (unsigned len = 0; len < 200; len++) {
        struct message *copy = malloc(sizeof m);

        *copy = m;
        copy->other.rta_len = (unsigned short)len;
        parse(copy, sizeof m, &paces);
        *copy = m;
        copy->kind.rta_len = (unsigned short)len;
        parse(copy, sizeof m, &paces);
        *copy = m;
        copy->header.nlmsg_len = len;
        assert_true(len == sizeof m || parse(copy, sizeof m, &paces) == -EPROTO ||
                    len > sizeof copy->header);
        free(copy);
    }
}

static void test_this_host(void **state)
{
    int paces = ab_qdisc_has_fq();

    (void)state;
    assert_true(paces == 0 || paces == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_way_to_this_host_is_the_loopback_interface),
        cmocka_unit_test(the_way_is_by_the_interface_that_is_asked_for),
        cmocka_unit_test(only_whole_answers_count),
        cmocka_unit_test(a_route_has_metrics),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_this_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

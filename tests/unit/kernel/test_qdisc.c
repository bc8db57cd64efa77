/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "kernel/netlink.h"
#include "kernel/qdisc.h"

#define NAME_BYTES 16

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
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_this_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Parses the kernel's answers over netlink: lists, attributes, and bytes that are neither. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "kernel/netlink.h"

#define WANTED 36U /* a type of messages */
#define BYTES_MOST 64U

/* What each() was handed. */
struct heard {
    unsigned count;
    uint8_t first[8]; /* of each message's body, its first byte */
    size_t len[8];
};

static void hear(void *user, const uint8_t *body, size_t len)
{
    struct heard *h = user;

    assert_true(h->count < COUNT(h->len));
    h->first[h->count] = len ? body[0] : 0;
    h->len[h->count++] = len;
}

/* A message at some place of an answer, which need not be aligned; returns where the next one begins. */
static size_t put_message(uint8_t *answer, size_t at, uint32_t told_bytes, uint16_t type, uint8_t byte,
                          size_t body_bytes)
{
    struct nlmsghdr h = {.nlmsg_len = told_bytes, .nlmsg_type = type};

    memcpy(answer + at, &h, sizeof h);
    memset(answer + at + sizeof h, byte, body_bytes);
    return at + ab_netlink_aligned(sizeof h + body_bytes);
}

#define LEN(body) ((uint32_t)sizeof(struct nlmsghdr) + (body))

/* A list that the kernel breaks off ends with the reason. */
static void test_ends(void **state)
{
    static const struct {
        uint8_t byte;
        size_t bytes;
        int result;
    } rows[] = {{0, 4, 1}, {0xff, 4, -1}, {0xff, 8, -1}, {0xff, 3, 1}, {0xff, 0, 1}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t answer[LEN(8)];
        struct heard h = {0};

        put_message(answer, 0, LEN((uint32_t)rows[i].bytes), NLMSG_DONE, rows[i].byte, rows[i].bytes);
        assert_int_equal(ab_netlink_parse(answer, LEN(rows[i].bytes), WANTED, hear, &h), rows[i].result);
        assert_int_equal(h.count, 0);
    }
}

/* Up to three messages in one answer: 8, 5 and 0 bytes of body. */
static void test_messages(void **state)
{
    static const struct {
        const char *name;
        uint32_t told[3]; /* lengths */
        uint16_t types[3];
        int result;
        unsigned count;
        uint8_t first[3];
        size_t len[3];
    } rows[] = {
        {"all are wanted", {LEN(8), LEN(5), LEN(0)}, {WANTED, WANTED, WANTED}, 0, 3, {1, 2, 0}, {8, 5, 0}},
        {"the end of the list", {LEN(8), LEN(5), LEN(0)}, {WANTED, WANTED, NLMSG_DONE}, 1, 2, {1, 2}, {8, 5}},
        {"nothing behind the end counts", {LEN(8), LEN(5), LEN(0)}, {WANTED, NLMSG_DONE, WANTED}, 1, 1, {1}, {8}},
        {"others between", {LEN(8), LEN(5), LEN(0)}, {WANTED + 1, WANTED, NLMSG_NOOP}, 0, 1, {2}, {5}},
        {"an error", {LEN(8), LEN(5), LEN(0)}, {WANTED, NLMSG_ERROR, WANTED}, -EPROTO, 1, {1}, {8}},
        {"a length of nothing", {0, LEN(5), LEN(0)}, {WANTED, WANTED, WANTED}, -EPROTO, 0, {0}, {0}},
        {"shorter than its header", {LEN(8), LEN(5) - 6, LEN(0)}, {WANTED, WANTED, WANTED}, -EPROTO, 1, {1}, {8}},
        {"longer than the answer", {LEN(8), LEN(5), LEN(1)}, {WANTED, WANTED, WANTED}, -EPROTO, 2, {1, 2}, {8, 5}},
        {"as long as it goes", {LEN(8), UINT32_MAX, LEN(0)}, {WANTED, WANTED, WANTED}, -EPROTO, 1, {1}, {8}},
        {"0 when it is aligned", {LEN(8), UINT32_MAX - 2, LEN(0)}, {WANTED, WANTED, WANTED}, -EPROTO, 1, {1}, {8}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        static const size_t bodies[] = {8, 5, 0};
        size_t at = 0;
        uint8_t *answer = malloc(LEN(8) + LEN(8) + LEN(0)); /* exactly: a sanitizer sees any byte beyond */
        struct heard h = {0};

        for (unsigned k = 0; k < 3; k++)
            at = put_message(answer, at, rows[i].told[k], rows[i].types[k], (uint8_t)(k + 1), bodies[k]);
        CHECK_EQUAL(rows[i].name, ab_netlink_parse(answer, at, WANTED, hear, &h), rows[i].result);
        CHECK_EQUAL(rows[i].name, h.count, rows[i].count);
        for (unsigned k = 0; k < h.count; k++) {
            CHECK_EQUAL(rows[i].name, h.first[k], rows[i].first[k]);
            CHECK_EQUAL(rows[i].name, h.len[k], rows[i].len[k]);
        }
        free(answer);
    }
}

/* Cut at each byte: what is whole is handed on, the rest is an error, and nothing is read beyond the end. */
static void test_cut(void **state)
{
    uint8_t whole[LEN(8) + LEN(8)];
    size_t end = put_message(whole, 0, LEN(8), WANTED, 1, 8);

    (void)state;
    put_message(whole, end, LEN(8), WANTED, 2, 8);
    for (size_t len = 0; len <= sizeof whole; len++) {
        uint8_t *cut = malloc(len ? len : 1);
        struct heard h = {0};
        bool whole_messages = len == 0 || len == end || len == sizeof whole;

        memcpy(cut, whole, len);
        assert_int_equal(ab_netlink_parse(cut, len, WANTED, hear, &h), whole_messages ? 0 : -EPROTO);
        assert_int_equal(h.count, len / end);
        free(cut);
    }
}

/* An answer at an odd address is read as any other. */
static void test_unaligned(void **state)
{
    uint8_t answer[1 + LEN(8)];
    struct heard h = {0};

    (void)state;
    put_message(answer, 1, LEN(8), WANTED, 9, 8);
    assert_int_equal(ab_netlink_parse(answer + 1, LEN(8), WANTED, hear, &h), 0);
    assert_true(h.count == 1 && h.first[0] == 9 && h.len[0] == 8);
}

/* Two attributes, of 5 and of 4 bytes, and which of them is found. */
static void test_attributes(void **state)
{
    static const struct {
        const char *name;
        uint16_t told[2]; /* lengths */
        uint16_t types[2];
        size_t len; /* of all */
        size_t least_bytes;
        int found; /* the first byte of its value; 0: none */
    } rows[] = {
        {"the first", {9, 8}, {7, 8}, 20, 5, 1},
        {"the second", {9, 8}, {8, 7}, 20, 4, 2},
        {"whatever its flags", {9, 8}, {8, 7 | NLA_F_NESTED}, 20, 4, 2},
        {"the first of two", {9, 8}, {7, 7}, 20, 4, 1},
        {"the first is too short", {8, 8}, {7, 7}, 20, 5, 0},
        {"the first is too short, the second is not", {6, 8}, {7, 7}, 16, 4, 2},
        {"less than is asked for", {9, 8}, {8, 7}, 20, 5, 0},
        {"none", {9, 8}, {8, 9}, 20, 0, 0},
        {"no value, and none is asked for", {4, 8}, {7, 9}, 4, 0, -1},
        {"a length of nothing", {0, 8}, {8, 7}, 20, 4, 0},
        {"shorter than its head", {3, 8}, {7, 7}, 20, 0, 0},
        {"longer than all", {21, 8}, {7, 7}, 20, 4, 0},
        {"far longer", {65535, 8}, {8, 7}, 20, 4, 0},
        {"the second is cut", {9, 8}, {8, 7}, 19, 4, 0},
        {"its head is cut", {9, 8}, {8, 7}, 15, 0, 0},
        {"nothing at all", {9, 8}, {7, 8}, 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t *bytes = malloc(rows[i].len ? rows[i].len : 1), whole[BYTES_MOST];
        size_t at = 0, value_bytes[] = {5, 4};
        const uint8_t *found;
        size_t found_bytes = 0;

        memset(whole, 0x22, sizeof whole);
        for (unsigned k = 0; k < 2; k++) {
            struct rtattr a = {.rta_len = rows[i].told[k], .rta_type = rows[i].types[k]};

            memcpy(whole + at, &a, sizeof a);
            memset(whole + at + sizeof a, (int)k + 1, value_bytes[k]);
            at += ab_netlink_aligned(rows[i].told[0] == 6 ? 6 : sizeof a + value_bytes[k]);
        }
        memcpy(bytes, whole, rows[i].len);
        found = ab_netlink_attribute(bytes, rows[i].len, 7, rows[i].least_bytes, &found_bytes);
        if (rows[i].found < 0)
            CHECK(rows[i].name, found == bytes + sizeof(struct rtattr));
        else
            CHECK_EQUAL(rows[i].name, found ? *found : 0, rows[i].found);
        if (found)
            CHECK_EQUAL(rows[i].name, found_bytes,
                        rows[i].told[found != bytes + sizeof(struct rtattr)] - sizeof(struct rtattr));
        free(bytes);
    }
}

static void test_numbers(void **state)
{
    const struct {
        struct rtattr head;
        uint8_t bytes[4];
        struct rtattr next;
        uint8_t value[4];
    } all = {{sizeof(struct rtattr) + 3, 1}, {1, 1, 1}, {sizeof(struct rtattr) + 4, 2}, {2, 2, 2, 2}};
    uint32_t number = 5;

    (void)state;
    ab_netlink_number((const uint8_t *)&all, sizeof all, 1, &number); /* too short */
    ab_netlink_number((const uint8_t *)&all, sizeof all, 3, &number);
    assert_int_equal(number, 5);
    ab_netlink_number((const uint8_t *)&all, sizeof all, 2, &number);
    assert_int_equal(number, 0x02020202);
}

/* The kernel itself: the loopback device is in its list; a bound on the answers holds; errors are told. */
static void test_kernel(void **state)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg body;
    } ask = {.header = {.nlmsg_len = sizeof ask,
                        .nlmsg_type = RTM_GETLINK,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
    struct heard h = {0};

    (void)state;
    assert_int_equal(ab_netlink_ask(NETLINK_ROUTE, &ask, sizeof ask, 64, RTM_NEWADDR, hear, &h), 1);
    assert_int_equal(h.count, 0); /* links were asked for, and links are no addresses */
    assert_int_equal(ab_netlink_ask(NETLINK_ROUTE, &ask, sizeof ask, 0, RTM_NEWADDR, hear, &h), -E2BIG);
    assert_int_equal(ab_netlink_ask(4711, &ask, sizeof ask, 64, RTM_NEWADDR, hear, &h), -EPROTONOSUPPORT);
    ask.header.nlmsg_type = RTM_DELLINK; /* of no device: the kernel answers with an error */
    ask.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    assert_int_equal(ab_netlink_ask(NETLINK_ROUTE, &ask, sizeof ask, 64, RTM_NEWLINK, hear, &h), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),   cmocka_unit_test(test_ends),       cmocka_unit_test(test_cut),
        cmocka_unit_test(test_unaligned),  cmocka_unit_test(test_attributes), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

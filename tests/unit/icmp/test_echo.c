/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <string.h>

#include "icmp/schedule.h"

#define GUARD 0x5a

static const struct ab_echo echo4 = {
    false, 0xbeef, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
static const struct ab_echo echo6 = {
    true, 0xcafe, {255, 0, 255, 0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144}};

static const struct family_row {
    const char *name;
    const struct ab_echo *echo;
    uint8_t request, reply;
} families[] = {
    {"ICMP", &echo4, 8, 0},       /* RFC 792 */
    {"ICMPv6", &echo6, 128, 129}, /* RFC 4443 */
};

static const size_t lengths[] = {24, 25, 26, 27, 56, 100, 101, 576, 1001, 1479, 1480};
static const uint16_t sequences[] = {0, 1, 255, 256, 0x1234, 65535};

/* A reply as the peer makes it: the request with another type. */
static void make_reply(const struct family_row *f, uint16_t sequence, uint8_t *buf, size_t len)
{
    ab_echo_build(f->echo, sequence, buf, len);
    buf[0] = f->reply;
}

static void request_has_the_standard_s_layout(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(families) * COUNT(lengths); i++) {
        const struct family_row *f = &families[i % COUNT(families)];
        size_t len = lengths[i / COUNT(families)];
        uint8_t buf[AB_ECHO_MAX_BYTES + 1];

        memset(buf, GUARD, sizeof buf);
        ab_echo_build(f->echo, 0x1234, buf, len);
        CHECK_EQUAL(f->name, buf[0], f->request);
        CHECK_EQUAL(f->name, buf[1], 0);
        CHECK_EQUAL(f->name, buf[4] << 8 | buf[5], f->echo->ident);
        CHECK_EQUAL(f->name, buf[6] << 8 | buf[7], 0x1234);
        CHECK(f->name, memcmp(buf + 8, f->echo->token, AB_TOKEN_BYTES) == 0);
        for (size_t k = len; k < sizeof buf; k++)
            CHECK_EQUAL(f->name, buf[k], GUARD);
    }
}

/* RFC 1071: the ones' complement sum over a message with a right checksum is all ones. */
static uint32_t folded_sum(const uint8_t *buf, size_t len)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < len; i++) {
        sum += i % 2 ? buf[i] : (uint32_t)buf[i] << 8;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

static void ipv4_checksum_verifies(void **state)
{
    uint8_t buf[AB_ECHO_MAX_BYTES];

    (void)state;
    for (size_t len = AB_ECHO_PARSE_BYTES; len <= sizeof buf; len++) {
        ab_echo_build(&echo4, (uint16_t)(len * 40503), buf, len);
        assert_int_equal(folded_sum(buf, len), 0xffff);
        buf[len / 2] ^= 1;
        assert_int_not_equal(folded_sum(buf, len), 0xffff);
    }
}

static void ipv6_checksum_is_left_to_the_kernel(void **state)
{
    uint8_t buf[AB_ECHO_MAX_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        memset(buf, GUARD, sizeof buf);
        ab_echo_build(&echo6, 7, buf, lengths[i]);
        assert_int_equal(buf[2] | buf[3], 0);
    }
}

/* A link that compresses would read too high a rate: no value may fill the message. */
static void filler_does_not_compress(void **state)
{
    unsigned seen[256] = {0}, pairs = 0;
    uint8_t buf[AB_ECHO_MAX_BYTES];

    (void)state;
    ab_echo_build(&echo4, 0, buf, sizeof buf);
    for (size_t i = AB_ECHO_PARSE_BYTES; i < sizeof buf; i++)
        seen[buf[i]]++;
    for (size_t i = 0; i < COUNT(seen); i++)
        assert_true(seen[i] < 25); /* 5.7 are expected */
    for (size_t i = AB_ECHO_PARSE_BYTES; i + 8 <= sizeof buf; i++) {
        for (size_t k = i + 1; k + 8 <= sizeof buf; k++)
            pairs += memcmp(buf + i, buf + k, 8) == 0;
    }
    assert_int_equal(pairs, 0); /* no run of eight bytes comes twice */
}

static void reply_is_recognised(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(families) * COUNT(lengths) * COUNT(sequences); i++) {
        const struct family_row *f = &families[i % COUNT(families)];
        size_t len = lengths[i / COUNT(families) % COUNT(lengths)];
        uint16_t sequence = sequences[i / COUNT(families) / COUNT(lengths)], found = 4711;
        uint8_t buf[AB_ECHO_MAX_BYTES];

        make_reply(f, sequence, buf, len);
        buf[4] ^= 0xff; /* a NAT may change the identifier, and the checksum with it */
        buf[2] ^= 0xff;
        CHECK(f->name, ab_echo_parse(f->echo, buf, len, &found));
        CHECK_EQUAL(f->name, found, sequence);
    }
}

static void truncated_reply_is_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(families); i++) {
        const struct family_row *f = &families[i];
        uint8_t buf[64];
        uint16_t found;

        make_reply(f, 3, buf, sizeof buf);
        for (size_t len = 0; len <= sizeof buf; len++)
            CHECK_EQUAL(f->name, ab_echo_parse(f->echo, buf, len, &found),
                        len >= AB_ECHO_PARSE_BYTES);
    }
}

static void foreign_token_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(families) * AB_TOKEN_BYTES * 8; i++) {
        const struct family_row *f = &families[i % COUNT(families)];
        size_t bit = i / COUNT(families);
        uint8_t buf[64];
        uint16_t found;

        make_reply(f, 3, buf, sizeof buf);
        buf[AB_ECHO_HEADER_BYTES + bit / 8] ^= (uint8_t)(1U << bit % 8);
        CHECK(f->name, !ab_echo_parse(f->echo, buf, sizeof buf, &found));
    }
}

/* What a router quotes of a request: with the whole token it is ours, with less it is nobody's. */
static void quoted_request_needs_the_token(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(families); i++) {
        const struct family_row *f = &families[i];
        uint8_t buf[64];
        uint16_t found;

        ab_echo_build(f->echo, 3, buf, sizeof buf);
        for (size_t len = 0; len <= sizeof buf; len++)
            CHECK_EQUAL(f->name, ab_echo_quotes(f->echo, buf, len, &found),
                        len >= AB_ECHO_PARSE_BYTES);
        CHECK_EQUAL(f->name, found, 3);
        buf[AB_ECHO_HEADER_BYTES + 15] ^= 1;
        CHECK(f->name, !ab_echo_quotes(f->echo, buf, sizeof buf, &found));
        make_reply(f, 3, buf, sizeof buf); /* an answer is no request */
        CHECK(f->name, !ab_echo_quotes(f->echo, buf, sizeof buf, &found));
    }
}

static void other_types_and_codes_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(families); i++) {
        const struct family_row *f = &families[i];
        uint8_t buf[64];
        uint16_t found;

        make_reply(f, 3, buf, sizeof buf);
        for (unsigned type = 0; type < 256; type++) {
            buf[0] = (uint8_t)type; /* its own request, and the other family's reply, among them */
            CHECK_EQUAL(f->name, ab_echo_parse(f->echo, buf, sizeof buf, &found),
                        type == f->reply);
        }
        buf[0] = f->reply;
        for (unsigned code = 0; code < 256; code++) {
            buf[1] = (uint8_t)code;
            CHECK_EQUAL(f->name, ab_echo_parse(f->echo, buf, sizeof buf, &found), code == 0);
        }
    }
}

static void ipv4_header_rows(void **state)
{
    static const struct {
        const char *name;
        uint8_t first;
        size_t len, result;
    } rows[] = {
        {"plain", 0x45, 84, 20},
        {"plain, nothing behind it", 0x45, 20, 20},
        {"4 bytes of options", 0x46, 84, 24},
        {"40 bytes of options", 0x4f, 84, 60},
        {"options to the last byte", 0x4f, 60, 60},
        {"options beyond the end", 0x4f, 59, 0},
        {"options beyond the end, short", 0x46, 23, 0},
        {"header length 0", 0x40, 84, 0},
        {"header length 16", 0x44, 84, 0},
        {"truncated", 0x45, 19, 0},
        {"one byte", 0x45, 1, 0},
        {"nothing", 0x45, 0, 0},
        {"IPv6", 0x65, 84, 0},
        {"version 0", 0x05, 84, 0},
    };
    uint8_t buf[84] = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        buf[0] = rows[i].first;
        CHECK_EQUAL(rows[i].name, ab_echo_ipv4_header_bytes(buf, rows[i].len), rows[i].result);
    }
}

/* Whatever the first byte says: inside the buffer, and no less than the shortest header. */
static void ipv4_header_stays_in_bounds(void **state)
{
    uint8_t buf[80] = {0};

    (void)state;
    for (unsigned first = 0; first < 256; first++) {
        buf[0] = (uint8_t)first;
        for (size_t len = 0; len <= sizeof buf; len++) {
            size_t bytes = ab_echo_ipv4_header_bytes(buf, len);

            assert_true(bytes <= len);
            assert_true(bytes == 0 || (bytes >= 20 && first >> 4 == 4));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_has_the_standard_s_layout),
        cmocka_unit_test(ipv4_checksum_verifies),
        cmocka_unit_test(ipv6_checksum_is_left_to_the_kernel),
        cmocka_unit_test(filler_does_not_compress),
        cmocka_unit_test(reply_is_recognised),
        cmocka_unit_test(truncated_reply_is_none),
        cmocka_unit_test(foreign_token_is_refused),
        cmocka_unit_test(quoted_request_needs_the_token),
        cmocka_unit_test(other_types_and_codes_are_refused),
        cmocka_unit_test(ipv4_header_rows),
        cmocka_unit_test(ipv4_header_stays_in_bounds),
    };

    return cmocka_run_group_tests_name("icmp", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * What comes out of an ICMP socket. First byte: how the rest is presented (bit 0: IPv6; bit 1: the
 * token is put where it belongs, which no fuzzer would guess; bit 2: behind an IPv4 header).
 */
#include "fuzz.h"

#include "icmp/schedule.h"

static const struct ab_echo echoes[2] = {
    {false, 1, "0123456789abcde"},
    {true, 1, "0123456789abcde"},
};

static void parse(const struct ab_echo *echo, const uint8_t *data, size_t len)
{
    uint8_t *message = exact_copy(data, len);
    uint16_t sequence = 0xeeee;

    if (ab_echo_parse(echo, message, len, &sequence)) {
        CHECK(len >= AB_ECHO_PARSE_BYTES);
        CHECK(message[0] == (echo->ipv6 ? 129 : 0) && message[1] == 0);
        CHECK(memcmp(message + AB_ECHO_HEADER_BYTES, echo->token, AB_TOKEN_BYTES) == 0);
        CHECK(sequence == (message[6] << 8 | message[7]));
    } else {
        CHECK(sequence == 0xeeee);
    }
    free(message);
}

/* The request that an ICMP error quotes. */
static void parse_quoted(const struct ab_echo *echo, const uint8_t *data, size_t len)
{
    uint8_t *message = exact_copy(data, len);
    uint16_t sequence = 0xeeee;

    if (ab_echo_quotes(echo, message, len, &sequence)) {
        CHECK(len >= AB_ECHO_PARSE_BYTES);
        CHECK(message[0] == (echo->ipv6 ? 128 : 8) && message[1] == 0);
        CHECK(memcmp(message + AB_ECHO_HEADER_BYTES, echo->token, AB_TOKEN_BYTES) == 0);
        CHECK(sequence == (message[6] << 8 | message[7]));
    } else {
        CHECK(sequence == 0xeeee);
    }
    free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    unsigned how = (unsigned)take(&in, 1);
    const struct ab_echo *echo = &echoes[how & 1];
    uint8_t *packet = exact_copy(in.data, in.len);
    size_t header = ab_echo_ipv4_header_bytes(packet, in.len);

    CHECK(header == 0 || (header >= 20 && header <= 60 && header <= in.len && packet[0] >> 4 == 4));
    if (!(how & 4))
        header = 0;
    if (how & 2 && in.len >= header + AB_ECHO_PARSE_BYTES)
        memcpy(packet + header + AB_ECHO_HEADER_BYTES, echo->token, AB_TOKEN_BYTES);
    parse(echo, packet + header, in.len - header);
    parse_quoted(echo, packet + header, in.len - header);
    free(packet);
    return 0;
}

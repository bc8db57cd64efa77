/* SPDX-License-Identifier: MIT */
#include "schedule.h"

#include <string.h>

enum { ECHO_REQUEST4 = 8, ECHO_REPLY4 = 0, ECHO_REQUEST6 = 128, ECHO_REPLY6 = 129 };

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* RFC 1071. */
static uint16_t internet_checksum(const uint8_t *buf, size_t len)
{
    uint32_t sum = 0;

    for (size_t i = 0; i + 1 < len; i += 2)
        sum += (uint32_t)buf[i] << 8 | buf[i + 1];
    if (len % 2)
        sum += (uint32_t)buf[len - 1] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

void ab_echo_build(const struct ab_echo *echo, uint16_t sequence, uint8_t *buf, size_t len)
{
    uint32_t filler = 0x9e3779b9U;

    memset(buf, 0, AB_ECHO_HEADER_BYTES);
    buf[0] = echo->ipv6 ? ECHO_REQUEST6 : ECHO_REQUEST4;
    put16(buf + 4, echo->ident);
    put16(buf + 6, sequence);
    memcpy(buf + AB_ECHO_HEADER_BYTES, echo->token, AB_TOKEN_BYTES);
    for (size_t i = AB_ECHO_PARSE_BYTES; i < len; i++) {
        filler ^= filler << 13; /* xorshift32 */
        filler ^= filler >> 17;
        filler ^= filler << 5;
        buf[i] = (uint8_t)filler;
    }
    if (!echo->ipv6)
        put16(buf + 2, internet_checksum(buf, len));
}

static bool is_of_this_run(const struct ab_echo *echo, uint8_t type, const uint8_t *buf, size_t len, uint16_t *sequence)
{
    if (len < AB_ECHO_PARSE_BYTES || buf[0] != type || buf[1] != 0 ||
        memcmp(buf + AB_ECHO_HEADER_BYTES, echo->token, AB_TOKEN_BYTES) != 0)
        return false;
    *sequence = (uint16_t)(buf[6] << 8 | buf[7]);
    return true;
}

bool ab_echo_parse(const struct ab_echo *echo, const uint8_t *buf, size_t len, uint16_t *sequence)
{
    return is_of_this_run(echo, echo->ipv6 ? ECHO_REPLY6 : ECHO_REPLY4, buf, len, sequence);
}

bool ab_echo_quotes(const struct ab_echo *echo, const uint8_t *buf, size_t len, uint16_t *sequence)
{
    return is_of_this_run(echo, echo->ipv6 ? ECHO_REQUEST6 : ECHO_REQUEST4, buf, len, sequence);
}

size_t ab_echo_ipv4_header_bytes(const uint8_t *buf, size_t len)
{
    size_t bytes;

    if (len < 20 || buf[0] >> 4 != 4)
        return 0;
    bytes = (size_t)(buf[0] & 15) * 4;
    return bytes >= 20 && bytes <= len ? bytes : 0;
}

/* SPDX-License-Identifier: MIT */
/* ICMP echo messages, built and parsed. Pure: bytes in, bytes out. RFC 792, RFC 4443. */
#ifndef AB_ECHO_H
#define AB_ECHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AB_ECHO_HEADER_BYTES 8U
#define AB_TOKEN_BYTES 16U
#define AB_ECHO_PARSE_BYTES (AB_ECHO_HEADER_BYTES + AB_TOKEN_BYTES) /* header and token */
#define AB_ECHO_MAX_BYTES 1480U

struct ab_echo {
    bool ipv6;
    uint16_t ident; /* a ping socket overwrites it, and shows only its own replies */
    uint8_t token[AB_TOKEN_BYTES];
};

/*
 * Writes an echo request of len bytes (AB_ECHO_PARSE_BYTES to AB_ECHO_MAX_BYTES): header, token, and
 * filler that does not compress. The ICMPv6 checksum is left zero, for the kernel.
 */
void ab_echo_build(const struct ab_echo *echo, uint16_t sequence, uint8_t *buf, size_t len);

/*
 * Says whether the len bytes at buf begin an echo reply with this run's token, and stores its number in *sequence.
 * It does not compare the identifier: the token is longer, and a NAT may change the identifier.
 */
bool ab_echo_parse(const struct ab_echo *echo, const uint8_t *buf, size_t len, uint16_t *sequence);

/*
 * The same for an echo request of this run that an ICMP error quotes. An error without the token does not count,
 * because a host off the path can forge it. (RFC 792 asks routers to quote 8 bytes; RFC 1812, 4.3.2.3, as many as
 * fit.)
 */
bool ab_echo_quotes(const struct ab_echo *echo, const uint8_t *buf, size_t len, uint16_t *sequence);

/* Length of the IPv4 header before a message that was read from a raw socket; 0: the header is not valid. */
size_t ab_echo_ipv4_header_bytes(const uint8_t *buf, size_t len);

#endif

/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "../base/address.h"

#define MAPPED_BITS 96 /* ::ffff:0:0/96 (RFC 4291) */

int ab_prefix_of(const struct sockaddr *addr, socklen_t addr_len, struct autobuf_prefix *prefix)
{
    struct sockaddr_storage copy;
    const void *bytes;
    size_t count;
    int length = ab_address_copy(addr, addr_len, &copy);

    *prefix = (struct autobuf_prefix){.version = 0};
    if (length < 0)
        return length;
    bytes = ab_address_bytes(&copy, &count);
    memcpy(prefix->address, bytes, count);
    prefix->version = copy.ss_family == AF_INET ? 4 : 6;
    prefix->bits = (uint32_t)(8 * count);
    return 0;
}

/* Up to three digits. */
static int parse_bits(const char *text, uint32_t most, uint32_t *bits)
{
    size_t length = strlen(text);

    if (length < 1 || length > 3 || strspn(text, "0123456789") != length || (length > 1 && text[0] == '0'))
        return -EINVAL;
    *bits = 0;
    for (; *text; text++)
        *bits = 10 * *bits + (uint32_t)(*text - '0');
    return *bits <= most ? 0 : -EINVAL;
}

int autobuf_prefix_parse(const char *text, struct autobuf_prefix *prefix)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct autobuf_prefix parsed = {.version = 6, .bits = 128};
    uint8_t masked[16];
    char address[AUTOBUF_PREFIX_BYTES];
    const char *slash;
    size_t length;

    if (!text || !prefix)
        return -EINVAL;
    slash = strchr(text, '/');
    length = slash ? (size_t)(slash - text) : strlen(text);
    if (length >= sizeof address)
        return -EINVAL;
    memcpy(address, text, length);
    address[length] = '\0';
    if (inet_pton(AF_INET6, address, parsed.address) != 1) {
        parsed = (struct autobuf_prefix){.version = 4, .bits = 32};
        if (inet_pton(AF_INET, address, parsed.address) != 1)
            return -EINVAL;
    }
    if (slash && parse_bits(slash + 1, parsed.bits, &parsed.bits) < 0)
        return -EINVAL;
    memcpy(masked, parsed.address, sizeof masked);
    ab_prefix_mask(masked, parsed.bits);
    if (memcmp(masked, parsed.address, sizeof masked) != 0)
        return -EINVAL;
    if (parsed.version == 6 && parsed.bits >= MAPPED_BITS && memcmp(parsed.address, mapped, sizeof mapped) == 0) {
        parsed.version = 4; /* as of sockets and lookups */
        parsed.bits -= MAPPED_BITS;
        memmove(parsed.address, parsed.address + sizeof mapped, 4);
        memset(parsed.address + 4, 0, sizeof parsed.address - 4);
    }
    *prefix = parsed;
    return 0;
}

int autobuf_prefix_print(const struct autobuf_prefix *prefix, char *text)
{
    char address[INET6_ADDRSTRLEN];
    uint32_t all = prefix && prefix->version == 4 ? 32 : 128;

    if (!prefix || !text || (prefix->version && prefix->version != 4 && prefix->version != 6) || prefix->bits > all)
        return -EINVAL;
    if (!prefix->version) {
        memcpy(text, "any", sizeof "any");
        return 0;
    }
    if (!inet_ntop(prefix->version == 4 ? AF_INET : AF_INET6, prefix->address, address, sizeof address))
        return -EINVAL;
    if (prefix->bits == all)
        snprintf(text, AUTOBUF_PREFIX_BYTES, "%s", address);
    else
        snprintf(text, AUTOBUF_PREFIX_BYTES, "%s/%u", address, prefix->bits);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "address.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

int ab_address_copy(const struct sockaddr *addr, socklen_t addr_len, struct sockaddr_storage *copy)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;
    sa_family_t family;

    if (!addr || addr_len < offsetof(struct sockaddr, sa_family) + sizeof family)
        return -EINVAL;
    memcpy(&family, &addr->sa_family, sizeof family);
    memset(copy, 0, sizeof *copy);
    if (family == AF_INET) {
        if (addr_len < sizeof v4)
            return -EINVAL;
        memcpy(&v4, addr, sizeof v4);
        return ab_address_make((const uint8_t *)&v4.sin_addr, sizeof v4.sin_addr, copy);
    }
    if (family != AF_INET6)
        return -EAFNOSUPPORT;
    if (addr_len < sizeof v6)
        return -EINVAL;
    memcpy(&v6, addr, sizeof v6);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
        return ab_address_make(&v6.sin6_addr.s6_addr[12], sizeof v4.sin_addr, copy);
    v6.sin6_port = 0;
    memcpy(copy, &v6, sizeof v6);
    return sizeof v6;
}

int ab_address_make(const uint8_t *bytes, size_t count, struct sockaddr_storage *made)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    memset(made, 0, sizeof *made);
    if (count == sizeof v4.sin_addr) {
        memcpy(&v4.sin_addr, bytes, sizeof v4.sin_addr);
        memcpy(made, &v4, sizeof v4);
        return sizeof v4;
    }
    memcpy(&v6.sin6_addr, bytes, sizeof v6.sin6_addr);
    memcpy(made, &v6, sizeof v6);
    return sizeof v6;
}

const void *ab_address_bytes(const struct sockaddr_storage *address, size_t *count)
{
    bool v4 = address->ss_family == AF_INET;

    *count = v4 ? sizeof(struct in_addr) : address->ss_family == AF_INET6 ? sizeof(struct in6_addr) : 0;
    return v4 ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
              : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
}

bool ab_address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    uint32_t x_scope, y_scope;
    size_t count, others;
    const void *x = ab_address_bytes(a, &count), *y = ab_address_bytes(b, &others);

    if (!count || count != others || memcmp(x, y, count) != 0)
        return false;
    if (a->ss_family != AF_INET6)
        return true;
    x_scope = ((const struct sockaddr_in6 *)a)->sin6_scope_id;
    y_scope = ((const struct sockaddr_in6 *)b)->sin6_scope_id;
    return !x_scope || !y_scope || x_scope == y_scope;
}

bool ab_address_is_any(const struct sockaddr_storage *a)
{
    static const uint8_t any[sizeof(struct in6_addr)];
    size_t count;
    const void *bytes = ab_address_bytes(a, &count);

    return count && memcmp(bytes, any, count) == 0;
}

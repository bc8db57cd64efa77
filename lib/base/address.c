/* SPDX-License-Identifier: MIT */
#include "address.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

static int copy_unmapped(const struct sockaddr_in6 *from, struct sockaddr_storage *copy)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    memcpy(&v4.sin_addr, &from->sin6_addr.s6_addr[12], sizeof v4.sin_addr);
    memcpy(copy, &v4, sizeof v4);
    return sizeof v4;
}

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
        v4.sin_port = 0;
        memcpy(copy, &v4, sizeof v4);
        return sizeof v4;
    }
    if (family != AF_INET6)
        return -EAFNOSUPPORT;
    if (addr_len < sizeof v6)
        return -EINVAL;
    memcpy(&v6, addr, sizeof v6);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
        return copy_unmapped(&v6, copy);
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

bool ab_address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->ss_family == AF_INET6 &&
           IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)a)->sin6_addr,
                              &((const struct sockaddr_in6 *)b)->sin6_addr);
}

bool ab_address_is_any(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == htonl(INADDR_ANY);
    return a->ss_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

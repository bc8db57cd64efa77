/* SPDX-License-Identifier: MIT */
#include "resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <autobuf/autobuf.h>

#define RESOLVE_ERROR (-8192) /* plus an EAI_*, which is negative: below the library's own errors */

int resolve(const char *host, const char *port, int family, int flags, struct addrinfo **list)
{
    struct addrinfo hints = {.ai_family = family, .ai_flags = flags, .ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(host, port, &hints, list);

    if (error == EAI_SYSTEM)
        return -errno;
    return error ? RESOLVE_ERROR + error : 0;
}

static bool is_address(int family, const char *host)
{
    struct in6_addr address;

    return host && inet_pton(family, host, &address) == 1;
}

static bool is_link_local(const char *host)
{
    struct in6_addr address;

    return host && inet_pton(AF_INET6, host, &address) == 1 && IN6_IS_ADDR_LINKLOCAL(&address);
}

static const char *why_no_address(const char *host, int family)
{
    if (family == AF_INET && is_address(AF_INET6, host))
        return "this is an IPv6 address, and -4 asks for IPv4";
    if (family == AF_INET6 && is_address(AF_INET, host))
        return "this is an IPv4 address, and -6 asks for IPv6";
    if (host && strchr(host, '%'))
        return "this host has no such network device";
    if (family != AF_UNSPEC)
        return family == AF_INET ? "the name has no IPv4 address" : "the name has no IPv6 address";
    return autobuf_strerror(AUTOBUF_E_RESOLVE);
}

const char *resolve_strerror(int error, const char *host, int family)
{
    if (error == -EINVAL && is_link_local(host))
        return "a link-local address needs its device, as in fe80::1%eth0";
    if (error >= RESOLVE_ERROR)
        return autobuf_strerror(error);
    switch (error - RESOLVE_ERROR) {
    case EAI_AGAIN:
        return "no name server answered";
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return why_no_address(host, family);
    default:
        return gai_strerror(error - RESOLVE_ERROR);
    }
}

/* SPDX-License-Identifier: MIT */
#include "resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "../lib/base/address.h"

#define RESOLVE_ERROR (-8192) /* plus an EAI_*, which is negative: below the library's own errors */
#define DISCARD_PORT 9 /* nothing is sent there: connect(2) wants a port */

int resolve(const char *host, const char *port, int family, int flags, struct addrinfo **list)
{
    struct addrinfo hints = {.ai_family = family, .ai_flags = flags, .ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(host, port, &hints, list);

    if (error == EAI_SYSTEM)
        return -errno;
    return error ? RESOLVE_ERROR + error : 0;
}

static bool is_address(int family, const char *host, struct in6_addr *address)
{
    return host && inet_pton(family, host, address) == 1;
}

static const char *why_no_address(const char *host, int family)
{
    struct in6_addr address;

    if (family == AF_INET && is_address(AF_INET6, host, &address))
        return "this is an IPv6 address, and -4 asks for IPv4";
    if (family == AF_INET6 && is_address(AF_INET, host, &address))
        return "this is an IPv4 address, and -6 asks for IPv6";
    if (host && strchr(host, '%'))
        return "this host has no such network device";
    if (family != AF_UNSPEC)
        return family == AF_INET ? "the name has no IPv4 address" : "the name has no IPv6 address";
    return autobuf_strerror(AUTOBUF_E_RESOLVE);
}

const char *resolve_strerror(int error, const char *host, int family)
{
    struct in6_addr address;

    if (error == -EINVAL && is_address(AF_INET6, host, &address) && IN6_IS_ADDR_LINKLOCAL(&address))
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

/* At the same place in both families. */
static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    ((struct sockaddr_in *)address)->sin_port = htons(port);
}

socklen_t source_address(const char *text, struct sockaddr_storage *address)
{
    uint8_t bytes[16];
    size_t count = inet_pton(AF_INET, text, bytes) == 1 ? 4 : inet_pton(AF_INET6, text, bytes) == 1 ? 16 : 0;

    return count ? (socklen_t)ab_address_make(bytes, count, address) : 0;
}

int source_parse(const char *text, struct source *source)
{
    memset(source, 0, sizeof *source);
    source->len = source_address(text, &source->address);
    if (source->len)
        return 0;
    if (strlen(text) >= sizeof source->device || if_nametoindex(text) == 0)
        return -ENODEV;
    strcpy(source->device, text);
    return 0;
}

int source_towards(const struct sockaddr *peer, socklen_t peer_len, struct source *source)
{
    struct sockaddr_storage to = {0};
    int fd = socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), error = 0;

    if (fd < 0)
        return -errno;
    peer_len = peer_len < sizeof to ? peer_len : sizeof to;
    memcpy(&to, peer, peer_len);
    set_port(&to, DISCARD_PORT);
    source->len = sizeof source->address;
    if ((source->device[0] && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, source->device, sizeof source->device) < 0) ||
        connect(fd, (struct sockaddr *)&to, peer_len) < 0 ||
        getsockname(fd, (struct sockaddr *)&source->address, &source->len) < 0)
        error = -errno;
    set_port(&source->address, 0);
    close(fd);
    return error;
}

int source_bind(int fd, const struct source *source)
{
    if (source->device[0] &&
        setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, source->device, sizeof source->device) < 0)
        return -errno;
    if (source->len && bind(fd, (const struct sockaddr *)&source->address, source->len) < 0)
        return -errno;
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "source.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../lib/base/address.h"

#define DISCARD_PORT 9 /* nothing is sent there: connect(2) wants a port */

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

    memset(source, 0, sizeof *source);
    if (fd < 0)
        return -errno;
    peer_len = peer_len < sizeof to ? peer_len : sizeof to;
    memcpy(&to, peer, peer_len);
    set_port(&to, DISCARD_PORT);
    source->len = sizeof source->address;
    if (connect(fd, (struct sockaddr *)&to, peer_len) < 0 ||
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

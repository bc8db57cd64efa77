/* SPDX-License-Identifier: MIT */
#include "source.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DISCARD_PORT 9 /* nothing is sent there: connect(2) wants a port */

/* At the same place in both families. */
static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    ((struct sockaddr_in *)address)->sin_port = htons(port);
}

int source_parse(const char *text, struct source *source)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&source->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&source->address;

    memset(source, 0, sizeof *source);
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        source->len = sizeof *v4;
    } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        source->len = sizeof *v6;
    } else if (strlen(text) < sizeof source->device && if_nametoindex(text) != 0) {
        snprintf(source->device, sizeof source->device, "%s", text);
    } else {
        return -ENODEV;
    }
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

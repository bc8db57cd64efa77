/* SPDX-License-Identifier: MIT */
#include "notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void notify_open(struct notify *notify, const char *where)
{
    size_t length = where ? strlen(where) : 0;

    *notify = (struct notify){.address = {.sun_family = AF_UNIX}};
    if (length < 2 || length >= sizeof notify->address.sun_path || (where[0] != '/' && where[0] != '@'))
        return;
    memcpy(notify->address.sun_path, where, length);
    if (where[0] == '@') /* an abstract name begins with a NUL, and ends where it ends */
        notify->address.sun_path[0] = '\0';
    notify->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (where[0] == '/'));
}

int notify_say(const struct notify *notify, const char *lines)
{
    ssize_t sent;
    int fd, error = 0;

    if (!notify->length)
        return 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    sent = sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&notify->address, notify->length);
    if (sent < 0)
        error = -errno;
    close(fd);
    return error;
}

int notify_reloading(const struct notify *notify, uint64_t now_ns)
{
    char lines[64];

    snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_ns / 1000U);
    return notify_say(notify, lines);
}

/* SPDX-License-Identifier: MIT */
/* What systemd is told of the daemon's state: the protocol of sd_notify(3), without its library. */
#ifndef NOTIFY_H
#define NOTIFY_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    struct sockaddr_un address;
    socklen_t length; /* 0: nobody asks */
};

/* where: the value of NOTIFY_SOCKET: a path, or @ and a name; NULL, or anything else: nobody asks. */
void notify_open(struct notify *notify, const char *where);

/* Sends lines such as "READY=1\nSTATUS=...". Never waits. 0, also if nobody asks; errors of socket(2) and sendto(2). */
int notify_say(const struct notify *notify, const char *lines);

/* "RELOADING=1" with the time on the monotonic clock that systemd wants beside it. */
int notify_reloading(const struct notify *notify, uint64_t now_ns);

#endif

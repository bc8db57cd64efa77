/* SPDX-License-Identifier: MIT */
/* The daemon's state for others: its socket, and what systemd is told. */
#ifndef TELL_H
#define TELL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "managed.h"
#include "status.h"

/* What systemd is told: the protocol of sd_notify(3), without its library. */
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

struct tell {
    const struct manager *manager;
    const struct report_learning *learning;
    const struct config *config;
    struct status *status; /* NULL: none */
    char file[FILE_BYTES];
    uint64_t rejected, line_ns; /* line_ns: when systemd is told again how many connections there are */
    uint32_t generation;
    size_t told; /* connections, when it was told last */
    struct notify notify;
};

/* manager and learning must live until tell_close(). */
void tell_open(struct tell *tell, const struct manager *manager, const struct report_learning *learning);

/* New rules hold: opens, moves or closes the socket as they say, and tells systemd that the daemon is ready. */
void tell_rules(struct tell *tell, const struct config *config);

/* New rules were wrong, and the old ones stay. */
void tell_rejected(struct tell *tell);

/* As status_step(). */
void tell_step(struct tell *tell, uint64_t now_ns);

void tell_close(struct tell *tell);

#endif

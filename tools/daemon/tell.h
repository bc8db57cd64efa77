/* SPDX-License-Identifier: MIT */
/* The daemon's state for others: its socket, and what systemd is told. */
#ifndef TELL_H
#define TELL_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "care.h"
#include "notify.h"
#include "status.h"

struct tell {
    const struct care *care;
    const struct report_learning *learning;
    care_say_fn *say;
    const struct config *config;
    struct status *status; /* NULL: none */
    char file[FILE_BYTES];
    uint64_t rejected, line_ns; /* line_ns: when systemd is told again how many connections there are */
    uint32_t generation;
    size_t told; /* connections, when it was told last */
    struct notify notify;
};

/* care and learning must live until tell_close(). */
void tell_open(struct tell *tell, const struct care *care, const struct report_learning *learning, care_say_fn *say);

/* New rules hold: opens, moves or closes the socket as they say, and tells systemd that the daemon is ready. */
void tell_rules(struct tell *tell, const struct config *config);

/* Rules are read again now; they were wrong, and the old ones stay. */
void tell_reloading(struct tell *tell, uint64_t now_ns);
void tell_rejected(struct tell *tell);

/* As in status.h. */
size_t tell_poll(const struct tell *tell, struct pollfd *fds, uint64_t now_ns);
uint64_t tell_deadline_ns(const struct tell *tell, uint64_t now_ns);
void tell_step(struct tell *tell, uint64_t now_ns);

void tell_close(struct tell *tell);

#endif

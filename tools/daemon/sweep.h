/* SPDX-License-Identifier: MIT */
/* All TCP sockets of this network namespace, as sock_diag(7) tells them. */
#ifndef SWEEP_H
#define SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "rules.h"

/* One socket that listens or is connected. */
struct seen {
    struct endpoint local, remote; /* remote.version 0: it listens */
    uint64_t cookie;               /* SO_COOKIE */
    uint64_t moved_bytes;          /* acknowledged and received since it was connected */
    uint32_t inode;                /* 0: no process has it open any more */
    uint32_t user;
    uint32_t snd_buf_bytes;        /* stored; 0: not told */
    uint32_t rcv_buf_bytes;
    bool half_closed;             /* at this end, or both are about to be, or no program has it */
};

/* As far as rules know it from outside its process. */
static inline struct subject sweep_subject(const struct seen *seen)
{
    return (struct subject){.local = seen->local, .remote = seen->remote, .user = seen->user};
}

typedef void sweep_fn(void *user, const struct seen *seen);

/* Opens what sweep() needs. A descriptor; errors of socket(2). */
int sweep_open(void);

/*
 * Hands over each socket. After a failure the descriptor is of no more use. Returns 0; -EPROTO, -ETIMEDOUT: the kernel's
 * answer ended early; -EOPNOTSUPP: it knows no sock_diag for TCP; other errors of send(2) and recv(2).
 */
int sweep(int fd, sweep_fn *take, void *user);

#endif

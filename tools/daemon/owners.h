/* SPDX-License-Identifier: MIT */
/* Which process has a socket open, and as which descriptor: /proc alone says so. */
#ifndef OWNERS_H
#define OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define UNIT_BYTES 64U
#define OWNERS_RECENT 16U

/* A socket whose owner is looked for. */
struct wanted {
    uint32_t inode;
    pid_t pid; /* 0: not found */
    int fd;
    size_t index; /* the caller's */
};

struct owners {
    pid_t recent[OWNERS_RECENT]; /* processes that owned sockets lately: they are asked first */
    unsigned next;
    long at;       /* where in /proc the next search goes on, */
    pid_t at_pid;  /* with this process */
    long at_fd;    /* from there on; 0: from the beginning */
};

/*
 * Looks for the owner of each. *wanted become sorted by inode. Looks at about so many descriptors at most; the next search
 * goes on from there. Returns whether all are found, or have no owner that can be seen: else nothing is known of those
 * that were not found.
 */
bool owners_find(struct owners *owners, struct wanted *wanted, size_t count, size_t most);

/* The systemd unit of a process: the last part of its control group, such as "nginx.service"; "": none. */
void owners_unit(pid_t pid, char unit[UNIT_BYTES]);

#endif

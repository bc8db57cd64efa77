/* SPDX-License-Identifier: MIT */
/* Which process has a socket open, and as which descriptor: /proc alone says so. */
#ifndef OWNERS_H
#define OWNERS_H

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

/* Processes that owned sockets lately: they are asked first. */
struct owners {
    pid_t recent[OWNERS_RECENT];
    unsigned next;
};

/* Looks for the owner of each. *wanted become sorted by inode. Returns how many are found. */
size_t owners_find(struct owners *owners, struct wanted *wanted, size_t count);

/* The systemd unit of a process: the last part of its control group, such as "nginx.service"; "": none. */
void owners_unit(pid_t pid, char unit[UNIT_BYTES]);

#endif

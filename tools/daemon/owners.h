/* SPDX-License-Identifier: MIT */
/* Which process has a socket open, and as which descriptor: /proc alone says so. */
#ifndef OWNERS_H
#define OWNERS_H

#include "../process.h"

#define UNIT_BYTES 64U
#define OWNERS_NONE 2U

/* A socket, and where it is open. */
struct owner {
    uint64_t cookie;
    pid_t pid; /* 0: not found */
    int fd;    /* there */
    char program[PROCESS_NAME_BYTES];
    char unit[UNIT_BYTES]; /* of systemd: the last part of its control group, such as "nginx.service"; "": none */
};

/* A socket whose owner is looked for. */
struct wanted {
    uint32_t inode;
    uid_t user; /* whose processes are asked first */
    size_t index; /* the caller's */
    struct owner owner;
};

/* What is known of a process. */
struct owners_process {
    pid_t pid;
    uid_t user;
    long at; /* where in its folder the next search goes on, beyond the first few descriptors; 0: from their end */
    /* the newest searches that saw it, looked at its first descriptors, began with them */
    uint32_t listed, sampled, begun;
    uint32_t dug;    /* when it was gone on with: a number that grows */
    uint32_t whole;  /* it was asked from its first descriptor to its last since all were */
    uint32_t found;  /* the newest search that found something of it; 0: none did */
    bool recent;     /* that is not long ago */
};

struct owners {
    struct owners_process *processes;
    size_t count, room;
    uint32_t searches, digs;
    uint32_t wholes; /* what none of the processes has is not found while this grows by OWNERS_NONE */
};

/*
 * Looks for the owner of each. *wanted become sorted by inode. Looks at about so many descriptors at most; the next
 * search goes on from there. Half of them are of the users of the wanted sockets, half of others; each user has as many
 * as any other.
 */
void owners_find(struct owners *owners, struct wanted *wanted, size_t count, size_t most);

/* What is taken up of those that are wanted, a part at a time, by inode. All zero before. */
struct lap {
    uint32_t next_inode; /* where the next part begins */
    uint32_t last_inode; /* the highest when the lap began: newer ones, which are higher, wait for another lap */
};

/* The first of the next part. They are sorted by inode, and there is one. */
size_t lap_first(struct lap *lap, const struct wanted *wanted, size_t count);

/* The unit of a process, as struct owner has it. */
void owners_unit(pid_t pid, char unit[UNIT_BYTES]);

#endif

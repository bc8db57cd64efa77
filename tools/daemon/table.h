/* SPDX-License-Identifier: MIT */
/*
 * All TCP sockets of this network namespace, how much they move, and what the daemon remembers of each: a hash table by
 * cookie.
 */
#ifndef TABLE_H
#define TABLE_H

#include "bulk_mark.h"
#include "config.h"

/* One socket that listens or is connected. */
struct seen {
    struct subject who;            /* program and unit: NULL */
    uint64_t cookie;               /* SO_COOKIE */
    uint64_t moved_bytes;          /* acknowledged and received since it was connected */
    uint32_t inode;                /* 0: no process has it open any more */
    uint32_t snd_buf_bytes;        /* sk_sndbuf; 0: not told */
    uint32_t rcv_buf_bytes;
    bool half_closed;              /* at this end, or both are about to be, or no program has it */
};

typedef void sweep_fn(void *user, const struct seen *seen);

/* Hands over each socket. fd: of ab_tcp_diag_open(), whose errors are those of ab_tcp_diag_list(). */
int sweep(int fd, sweep_fn *take, void *user);

/* Octets of IPv4 in /proc/net/netstat, and of IPv6 in /proc/net/snmp6. UINT64_MAX: unknown. */
uint64_t traffic_read_v4(FILE *netstat);
uint64_t traffic_read_v6(FILE *snmp6);

/*
 * Both together, since the namespace was made; without IPv6 those of IPv4. If that is little, no connection can have
 * moved much. UINT64_MAX: unknown.
 */
uint64_t traffic_bytes(void);

enum known_state {
    KNOWN_NEW,     /* it has just come into the table */
    KNOWN_WAITS,   /* until it carries bulk data, or is a listener whose sizes were changed */
    KNOWN_WANTED,  /* its owner is looked for */
    KNOWN_TENDED,  /* it is managed */
    KNOWN_LEFT,    /* nothing more is done with it */
};

struct known {
    uint64_t cookie;     /* 0: a place that is free */
    struct bulk_mark mark;
    uint64_t next_bytes; /* left alone until so much has moved */
    uint32_t snd_buf_bytes, rcv_buf_bytes; /* of a listener, when it was last looked at */
    uint32_t round;      /* the newest sweep that saw it */
    uint32_t wholes;     /* struct owners' when its owner began to be looked for */
    uint32_t state;      /* enum known_state */
};

struct table {
    struct known *places;
    size_t room; /* a power of two; 0: none yet */
    size_t count;
};

/* What is known of a socket; NULL: nothing. It may move when another one comes in. */
struct known *table_find(const struct table *table, uint64_t cookie);

/* The same, and takes it in if it is new. NULL: there is no memory, or too many are known. */
struct known *table_make(struct table *table, uint64_t cookie);

/* Forgets all that neither the sweep of this number nor the one before has seen, but for those that are managed. */
void table_forget(struct table *table, uint32_t round);

void table_free(struct table *table);

#endif

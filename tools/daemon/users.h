/* SPDX-License-Identifier: MIT */
/* What each user of this host has of what there is only so much of: managed connections, and forced buffers. */
#ifndef USERS_H
#define USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USERS_NOBODY UINT32_MAX /* (uid_t)-1, which no user has */

struct user {
    uint32_t user;
    bool told_connections, told_forced; /* said that this is the user's share */
    uint64_t connections;  /* managed */
    uint64_t forced_bytes; /* sk_sndbuf and sk_rcvbuf */
    uint64_t count_bytes;  /* of the count that goes on */
};

struct users {
    struct user *users; /* by number */
    size_t count, room;
    uint64_t forced_bytes; /* of all, also of nobody and of those for whom there was no memory */
    uint64_t count_bytes;
};

/*
 * How much more a user may take who holds so much, of a total of which all together hold so much: as much as leaves free at least
 * what that user then has. One alone gets half, the next one a quarter, and some is left for whoever comes later.
 */
uint64_t users_left(uint64_t total, uint64_t held, uint64_t own);

/* The user, who is taken in if need be. It may move when another one comes in. NULL: there is no memory. */
struct user *users_find(struct users *users, uint32_t user);

/*
 * Counts what is forced anew: begin, each connection's buffers, end. In between, and after a count that was not ended, the last
 * one holds. The end forgets users who have nothing any more.
 */
void users_begin(struct users *users);
void users_count(struct users *users, uint32_t user, uint64_t forced_bytes);
void users_end(struct users *users);

/* So much more was forced after the last count. */
void users_force(struct users *users, uint32_t user, uint64_t forced_bytes);

void users_free(struct users *users);

#endif

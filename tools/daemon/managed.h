/* SPDX-License-Identifier: MIT */
/*
 * What manager.h manages, from inside: one connection, all of them, and what each part says, keeps and puts back.
 *
 *   managed.c   what users have; what is said, kept and paced
 *   sharing.c  a rule's divide=
 *   raising.c  raise=
 *   manager.c  a connection's beginning, samples, its end, and the whole
 */
#ifndef MANAGED_H
#define MANAGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "account.h"
#include "act.h"
#include "lessons.h"
#include "manager.h"

#ifndef MANAGED_MOST /* tests have fewer */
#define MANAGED_MOST 16384U /* about 160 MB, of the 256 that the unit allows */
#endif

/* What each user of this host has of what there is only so much of: managed connections, and forced buffers. */
#define USERS_NOBODY UINT32_MAX /* (uid_t)-1, which no user has */

struct user {
    uint64_t user;
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
 * How much more a user may take who holds so much, of a total of which all together hold so much: as much as leaves
 * free at least what that user then has. One alone gets half, the next one a quarter, and some is left for whoever
 * comes later.
 */
uint64_t users_left(uint64_t total, uint64_t held, uint64_t own);

/* The user, who is taken in if need be. It may move when another one comes in. NULL: there is no memory. */
struct user *users_find(struct users *users, uint32_t user);

/*
 * Counts what is forced anew: begin, each connection's buffers, end. In between, and after a count that was not ended,
 * the last one holds. The end forgets users who have nothing any more.
 */
void users_begin(struct users *users);
void users_count(struct users *users, uint32_t user, uint64_t forced_bytes);
void users_end(struct users *users);

/* So much more was forced after the last count. */
void users_force(struct users *users, uint32_t user, uint64_t forced_bytes);

void users_free(struct users *users);

/* A managed connection. */
struct managed {
    struct autobuf_flow *flow;
    struct lesson *lesson; /* NULL: it teaches nothing */
    const struct rule *rule;
    struct owner owner;
    struct noted was; /* before it was changed */
    struct subject subject; /* program and unit: NULL; they are those of its owner */
    char action[REPORT_TEXT_BYTES]; /* the newest; "": none yet */
    uint64_t action_ns;
    uint64_t moved_bytes, moved_ns; /* it had moved so much by then, and has moved nothing since */
    /* of its rule's divide=; 0: none yet. told_bytes UINT64_MAX: told that it cannot be set */
    uint64_t share_bytes, told_bytes;
    uint64_t window_bytes;            /* that it uses, smoothed */
    uint64_t share_ns;                /* not changed again before */
    bool paces;                       /* its flow does, or its share: own_byte_per_s is known */
    uint64_t own_byte_per_s;          /* the most that the program allows, */
    uint64_t left_byte_per_s;         /* and the rate that the last sample left */
};

struct manager {
    struct state *state;
    struct table *table;
    struct report_counts *counts;
    struct lessons *lessons;
    const struct config *config;
    bool dry_run;
    struct autobuf_limits limits; /* of this host. forced_bytes: for the user whose socket is acted on, */
    struct users users;           /* who may not have all that is left */
    struct managed *managed;
    size_t count, room;
    uint64_t now_ns, samples_ns, limits_ns, divide_ns, lessons_ns; /* when each is due */
    bool divides; /* a rule does */
    bool left[RAISE_SIDES]; /* a limit of autotuning that is not raised any more */
    bool raises[RAISE_SIDES];
    struct raised earlier[RAISE_SIDES]; /* by a daemon that was killed, and so was its broker: --undo puts it back */
    bool refused; /* said that a process may not be touched */
    bool unkept;  /* said that nothing can be kept */
    struct account account; /* of what is acted on now */
    bool anew;           /* its program has changed it since it was kept */
};

/* Reads this host's limits. 0; errors of autobuf_limits_host(). */
int managed_read_limits(struct manager *manager);

/* Whether this side's limit of autotuning is raised where that helps: then nothing is forced beyond it. */
bool raising_is_on(const struct manager *manager, unsigned side);

/* Raises what a managed connection's buffers end at. */
void raising_sample(struct manager *manager, const struct managed *t, int copy, const struct autobuf_live_state *state);

/* Puts back what was raised. */
void raising_end(struct manager *manager);

/* Whether nothing may be set for this rule. */
bool managed_is_dry(const struct manager *manager, const struct rule *rule);

/* From here on what is said, and what may be forced, is about this socket of this user. */
void managed_is_about(struct manager *manager, int copy, const struct owner *owner, const struct rule *rule,
                      uint32_t user);

/* Counts what was forced on this user's socket since it had these sizes. */
void managed_note_forced(struct manager *manager, int copy, uint32_t user, uint64_t snd_buf_bytes,
                         uint64_t rcv_buf_bytes);

/* What was just said is the newest that was done with it. */
void managed_keep_action(const struct manager *manager, struct managed *t);

/* Something was set on the socket: keeps how it was, or else puts that back, and returns false. */
bool managed_keep(struct manager *manager, int copy, const struct noted *was);

/* The newest sample. */
struct autobuf_live_state managed_state(const struct managed *t);
struct autobuf_available managed_available(const struct managed *t);

/*
 * A pace is for the time of the flow, or of the share, only: so that it is known if this process is killed. 0: there is
 * none.
 */
void managed_note_pace(struct manager *manager, struct managed *t, uint64_t left_byte_per_s);

/* A pace that we did not leave is the program's, and none is ours any more. */
void managed_note_own_pace(struct manager *manager, struct managed *t, int copy);

/* Of rules with divide=: divides the total of each among its connections anew. sharing.c. */
void sharing_divide(struct manager *manager);

/* Puts back what was set because a total is divided. A rate that is not what was left is the program's. */
void sharing_put_back(struct managed *t, int copy);

#endif

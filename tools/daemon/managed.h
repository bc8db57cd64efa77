/* SPDX-License-Identifier: MIT */
/*
 * The TCP connections of this host, managed: sweep() sees them all, owners.c finds whose they are, and each one that
 * carries bulk data becomes a flow, begun by its rule, sampled when that is due, divided, ended.
 *
 *   care.c     sweeps, what the kernel tells, searches for owners, and the whole
 *   manager.c  a connection's beginning, samples and end
 *   sharing.c  a rule's divide=, of which divide.c has the arithmetic
 *   raising.c  raise=
 *   lessons.c  what connections teach of their paths
 *   managed.c  what users have; what is said, kept and paced
 */
#ifndef MANAGED_H
#define MANAGED_H

#include "act.h"
#include "bulk.h"
#include "keep.h"
#include "table.h"
#include "withhold.h"

#ifndef MANAGED_MOST /* tests have fewer */
#define MANAGED_MOST 16384U /* about 160 MB, of the 256 that the unit allows */
#endif

/* ------------------------------------------------------------------------------------------ users */

/* What each user of this host has of what there is only so much of: managed connections, and forced buffers. */
#define USERS_NOBODY UINT32_MAX /* (uid_t)-1, which no user has */

struct user {
    uint64_t user;
    bool told_connections, told_forced; /* said that this is the user's share */
    uint64_t connections;  /* managed */
    uint64_t forced_bytes; /* sk_sndbuf and sk_rcvbuf */
    uint64_t count_bytes;  /* of the count that goes on */
    uint32_t searches, turns; /* of the newest search that took up sockets of this user, and how often it did */
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

/* ---------------------------------------------------------------------------------------- lessons */

#define LESSON_BUCKETS 1024U /* a power of two */

/* The connections that are managed, as far as they teach something of their paths: learn.h says what. */
struct lessons {
    struct keep *keep;
    struct lesson *buckets[LESSON_BUCKETS];
    size_t ended; /* that wait for the kernel */
    int group;    /* of what the kernel tells of connections that ended; below 0: it tells nothing */
};

struct lesson; /* of one connection */

/* What is learned goes to *keep, which must live as long. */
void lessons_open(struct lessons *lessons, struct keep *keep);

/*
 * A connection is managed from now on, of which this descriptor is borrowed. autotuning_bytes: the receive window that
 * autotuning gives by itself, 0: it is off. NULL: nothing is kept, there is no memory, or its packets may go another
 * way than others' to that host (SO_BINDTODEVICE, SO_MARK).
 */
struct lesson *lessons_begin(struct lessons *lessons, uint64_t cookie, const struct endpoint *remote,
                             uint64_t autotuning_bytes, int copy);

/* Its descriptor is borrowed, and this was seen. NULL is allowed. */
void lessons_sample(struct lesson *lesson, int copy, const struct autobuf_live_state *state, uint64_t now_ns);

/*
 * It is not managed any more, and the lesson belongs to *lessons again: what it teaches is learned as soon as the
 * kernel tells of its end, which is after the last FIN, or if it does not tell in time. NULL is allowed.
 */
void lessons_end(struct lessons *lessons, struct lesson *lesson, uint64_t now_ns);

/* Takes in what the kernel has told. To be called now and then; no more than 512 connections at once. */
void lessons_step(struct lessons *lessons, uint64_t now_ns);

/* Learns from what has ended. Every lesson must have ended. */
void lessons_close(struct lessons *lessons);

/* ------------------------------------------------------------------------------------------ advice */

#define ADVICE_PEERS 8U

/* What a limit of autotuning held back while nothing was raised: the fastest connection of each of so many peers. */
struct advice {
    struct advised {
        char peer[PROCESS_ADDRESS_BYTES], program[PROCESS_NAME_BYTES];
        uint64_t bit_per_s, rtt_ns;
    } peers[ADVICE_PEERS];
    size_t count;
};

/* ------------------------------------------------------------------------------------ connections */

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
    struct state *state; /* NULL: it is not open */
    struct withhold *withhold; /* NULL: none */
    struct bulk *bulk;         /* NULL: none */
    struct table table;
    struct report_counts counts;
    struct lessons lessons;
    const struct config *config;
    struct autobuf_limits limits; /* of this host. forced_bytes: for the user whose socket is acted on, */
    struct users users;           /* who may not have all that is left */
    struct managed *managed;
    size_t count, room;
    uint64_t now_ns, samples_ns, limits_ns, divide_ns, lessons_ns; /* when each is due */
    bool divides; /* a rule does */
    bool left[RAISE_SIDES]; /* a limit of autotuning that is not raised any more */
    bool raises[RAISE_SIDES];
    struct advice advice[RAISE_SIDES]; /* of a dry run */
    struct raised earlier[RAISE_SIDES]; /* by a daemon that was killed, and so was its broker: --undo puts it back */
    bool refused; /* said that a process may not be touched */
    bool unkept;  /* said that nothing can be kept */
    bool full;    /* said that TCP holds too much for any forced buffer */
    struct account account; /* of what is acted on now */
    bool anew;           /* its program has changed it since it was kept */
    /* of sweeps, and searches for owners: care.c */
    struct wanted *wanted; /* of this round, and what each of them looked like */
    struct seen *candidates;
    size_t wanted_count, wanted_room, candidate_count, candidate_room;
    struct lap lap; /* of those that are wanted */
    uint32_t searches;
    uint64_t sweep_ns, search_ns, events_ns; /* when each is due */
    uint64_t quiet_ns;            /* the next sweep, if little moves until then */
    uint64_t traffic_bytes;       /* at the last one */
    uint32_t round;
    uint32_t wholes; /* struct owners', at the newest search */
    size_t seen_count; /* in this round */
    int sock_diag;
};

/* Reads this host's limits. 0; errors of autobuf_limits_host(). */
int managed_read_limits(struct manager *manager);

/* From here on what is said, and what may be forced, is about this socket of this user. */
void managed_is_about(struct manager *manager, int copy, const struct owner *owner, const struct rule *rule,
                      uint32_t user);

/* Counts what was forced on this user's socket since it had these sizes. */
void managed_note_forced(struct manager *manager, int copy, uint32_t user, uint64_t snd_buf_bytes,
                         uint64_t rcv_buf_bytes);

/* Tells what was just done with a connection, which is then the newest. */
void managed_tell(struct manager *manager, struct managed *t);

/* Something was set on the socket: keeps how it was, or else puts that back, and returns false. */
bool managed_keep(struct manager *manager, int copy, const struct noted *was);

/* The newest sample. */
struct autobuf_live_state managed_state(const struct managed *t);

/*
 * A pace is for the time of the flow, or of the share, only: so that it is known if this process is killed. 0: there is
 * none.
 */
void managed_note_pace(struct manager *manager, struct managed *t, uint64_t left_byte_per_s);

/* A pace that we did not leave is the program's, and none is ours any more. */
void managed_note_own_pace(struct manager *manager, struct managed *t, int copy);

/* Whether this side's limit of autotuning is raised where that helps: then nothing is forced beyond it. */
bool raising_is_on(const struct manager *manager, unsigned side);

/* Raises what a managed connection's buffers end at. */
void raising_sample(struct manager *manager, const struct managed *t, int copy, const struct autobuf_live_state *state);

/* Prints the lines for a file of sysctl.d(5) that a dry run has found reasons for, and the reasons. */
void raising_advise(const struct manager *manager, FILE *out);

/* Puts back what was raised. */
void raising_end(struct manager *manager);

/* Of rules with divide=: divides the total of each among its connections anew. */
void sharing_divide(struct manager *manager);

/* Puts back what was set because a total is divided. A rate that is not what was left is the program's. */
void sharing_put_back(struct managed *t, int copy);

/* ---------------------------------------- a total of window bytes, shared by the connections of one rule */

#define DIVIDE_LEAST_BYTES 32768U /* of a connection, however many there are */

/*
 * Max-min fair shares: no connection gets more than it demands, and those that demand more than an equal share of what
 * is left get that. No share is less than DIVIDE_LEAST_BYTES, so the shares of very many add up to more. Writes count
 * shares.
 */
void divide_shares(uint64_t total_bytes, const uint64_t *demands, uint64_t *shares, size_t count);

/*
 * What a connection would use if nothing but the path, and its program's own pace, limited it: most_bytes are in flight
 * by that. UINT64_MAX: all that it gets.
 */
uint64_t divide_demand(uint64_t window_bytes, uint32_t bottleneck, uint64_t share_bytes, uint64_t most_bytes);

/* What a pace has in flight. UINT64_MAX: no pace, or no round-trip time. */
uint64_t divide_paced(uint64_t byte_per_s, uint64_t rtt_ns);

/*
 * The pace, in bytes a second, of a connection that sends: it has its share in flight at this round-trip time, but is
 * no higher than most. A buffer would not hold it: the kernel compares with that only where a write begins a new
 * packet, not where it goes on in one that is not sent whole, as by Nagle's rule. 0: the pace that it has is about
 * right.
 */
uint64_t divide_pace(uint64_t share_bytes, uint64_t rtt_ns, uint64_t most_byte_per_s, uint64_t now_byte_per_s);

/*
 * The send buffer, as setsockopt() takes it, no larger than most, for the share and for what waits, of one whose
 * program has set a smaller one. 0: it is large enough, or can be no larger.
 */
uint64_t divide_request(uint64_t share_bytes, uint64_t most_bytes, uint64_t snd_buf_bytes);

/* ---------------------------------------------------------------------------------------- manager */

/*
 * Nothing is managed yet. All zero before. How sockets were is kept in *state; what connections teach goes to *keep;
 * they must live as long.
 */
void manager_open(struct manager *manager, struct state *state, struct keep *keep);

/* From now on these rules hold. *config must live until manager_end(). 0; errors of autobuf_limits_host(). */
int manager_rules(struct manager *manager, const struct config *config, uint64_t now_ns);

/*
 * What each user has forced: users_begin() before a sweep, sees() for each socket of it, ends() after one that told of
 * all. That says once of a user, and counts, that the user has the share of one user, of this or of managed
 * connections.
 */
void manager_sees(struct manager *manager, const struct seen *seen);
void manager_sweep_ends(struct manager *manager);

/* Manages a socket whose owner is known, if there is a rule for it. Its state in the table says what came of it. */
void manager_begin(struct manager *manager, const struct seen *seen, const struct owner *owner);

/* Does what is due. */
void manager_step(struct manager *manager, uint64_t now_ns);

/* When to call manager_step() next; UINT64_MAX: nothing is managed. */
uint64_t manager_deadline_ns(const struct manager *manager);

/* A connection that is managed, from 0 on: a report_flow_fn of a struct manager. */
void manager_flow(const void *manager, size_t at, struct report_flow *flow);

/* Ends the care of all, not the connections: what was set for its time only, a pace or a share, is put back. */
void manager_end(struct manager *manager);

/* The same, and frees what it has. */
void manager_close(struct manager *manager);

/* ------------------------------------------------------------------------------------------- care */

/*
 * Opens one that is all zero. Nothing is done yet. What is changed is kept in *state, what connections teach in *keep,
 * *withhold (NULL: none) has the same rules, and *bulk (NULL: none) tells of connections; all must live as long. 0;
 * errors of ab_tcp_diag_open().
 */
int care_open(struct manager *manager, struct state *state, struct keep *keep, struct withhold *withhold,
              struct bulk *bulk);

/* Ends the care of every connection, until rules are given again. */
void care_forget(struct manager *manager);

/* As manager_rules(), and each socket is judged anew. */
int care_rules(struct manager *manager, const struct config *config);

/* Does what is due. Returns 0, or why nothing can be seen any more: errors of sweep(). */
int care_step(struct manager *manager, uint64_t now_ns);

/* When to call care_step() next, if care_fd() does not become readable before. */
uint64_t care_deadline_ns(const struct manager *manager);

/* To be waited for. -1: nothing, for now. */
int care_fd(const struct manager *manager, uint64_t now_ns);

/* As manager_close(). Also of one that was not opened. */
void care_close(struct manager *manager);

#endif

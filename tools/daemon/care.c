/* SPDX-License-Identifier: MIT */
#include "care.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/base/base.h"
#include "../../lib/kernel/tcp_diag.h"
#include "../array.h"
#include "broker.h"
#include "log.h"
#include "table.h"
#include "manager.h"

#define SEARCH_MOST 16384U        /* descriptors that one search looks at: 30 ms, however many a process has */
#define TRAFFIC_BYTES 131072U /* of all connections, in and out: with less, none has become bulk since the last sweep */
#define TAKING_NS (5 * AB_NS_PER_MS) /* for those whose owners a search has found */
#define LISTENER_NS AB_NS_PER_S      /* between two looks at a listener, whose program may change it all the time */
/* one that nobody owns is left alone until it has moved twice as much, and so much more */
#define UNOWNED_BYTES 16777216U

struct care {
    struct state *state;
    struct withhold *withhold;
    const struct config *config;
    struct table table;
    struct manager *manager;
    struct wanted *wanted; /* of this round, and what each of them looked like */
    struct seen *candidates;
    size_t wanted_count, wanted_room, candidate_room;
    uint32_t next_inode; /* of those that are wanted, where the next search goes on */
    uint64_t now_ns, sweep_ns, search_ns; /* when each is due */
    uint64_t quiet_ns;                    /* the next sweep, if little moves until then */
    uint64_t traffic_bytes;               /* at the last one */
    uint32_t round;
    uint32_t wholes; /* struct owners', at the newest search */
    size_t seen_count; /* in this round */
    int sock_diag;
    struct report_counts counts;
};

/* ------------------------------------------------------------------------------- sweeping */

/* By a daemon that was killed, or lost sight of it. What it left may be too slow to be ever bulk. */
static bool is_left_paced(const struct care *care, const struct seen *seen, const struct known *known)
{
    const struct noted *kept = seen->moved_bytes >= known->next_bytes ? state_find(care->state, seen->cookie) : NULL;

    return kept && kept->own_byte_per_s;
}

/* Looks for its owner, if a rule may act on it, or a pace is to be taken from it. */
static void want(struct care *care, const struct seen *seen, struct known *known)
{
    struct subject subject = seen_subject(seen);

    if (!rules_may_act(care->config, &subject) && !is_left_paced(care, seen, known)) {
        known->state = KNOWN_LEFT;
        return;
    }
    if (known->state != KNOWN_WANTED)
        known->wholes = care->wholes;
    known->state = KNOWN_WANTED;
    if (!seen->inode ||
        !array_grow(&care->candidates, care->wanted_count, &care->candidate_room, sizeof *care->candidates) ||
        !array_grow(&care->wanted, care->wanted_count, &care->wanted_room, sizeof *care->wanted))
        return;
    care->candidates[care->wanted_count] = *seen;
    care->wanted[care->wanted_count] = (struct wanted){.inode = seen->inode, .user = seen->user,
                                                       .index = care->wanted_count,
                                                       .owner.cookie = seen->cookie};
    care->wanted_count++;
}

/* A listener is looked at once, and again when its sizes have changed. That they were set is not seen from outside. */
static bool has_new_sizes(const struct care *care, const struct seen *seen, struct known *known)
{
    if ((seen->snd_buf_bytes == known->snd_buf_bytes && seen->rcv_buf_bytes == known->rcv_buf_bytes) ||
        (known->snd_buf_bytes && care->now_ns - known->mark.ns < LISTENER_NS))
        return false;
    known->mark.ns = care->now_ns;
    return true;
}

static void take(void *user, const struct seen *seen)
{
    struct care *care = user;
    /* else what is kept of it would be dropped */
    bool found_only = seen->half_closed && !state_find(care->state, seen->cookie);
    struct known *known = found_only ? table_find(&care->table, seen->cookie) : table_make(&care->table, seen->cookie);
    bool wanted = false;

    manager_sees(care->manager, seen);
    if (!known || known->round == care->round) /* a dump may tell of a socket twice */
        return;
    known->round = care->round;
    care->seen_count++;
    if (seen->half_closed) /* what was done with it is not forgotten */
        return;
    if (known->state == KNOWN_NEW) {
        known->state = KNOWN_WAITS;
        known->mark.ns = care->now_ns;
        known->mark.bytes = care->round == 1 ? seen->moved_bytes : 0; /* else it is younger than a sweep */
    }
    if (known->state == KNOWN_WAITS && seen->remote.version)
        wanted =
            (bulk_since(&known->mark, seen->moved_bytes, care->now_ns) && seen->moved_bytes >= known->next_bytes) ||
            is_left_paced(care, seen, known);
    else if (known->state == KNOWN_WAITS)
        wanted = has_new_sizes(care, seen, known);
    if (wanted || known->state == KNOWN_WANTED)
        want(care, seen, known);
}

/* If no process has it: it is the kernel's own, or its owner cannot be seen from here. */
static void give_up(struct care *care, const struct seen *seen)
{
    struct known *known = table_find(&care->table, seen->cookie);

    if (!known || care->wholes - known->wholes < OWNERS_NONE)
        return;
    care->counts.refused[REPORT_NO_OWNER]++;
    known->state = KNOWN_WAITS;
    known->next_bytes = 2 * seen->moved_bytes + UNOWNED_BYTES;
    known->snd_buf_bytes = seen->snd_buf_bytes;
    known->rcv_buf_bytes = seen->rcv_buf_bytes;
}

/* The first that is wanted from this number on: they are in the order of their numbers. */
static size_t first_from(const struct care *care, uint32_t inode)
{
    size_t at = 0;

    while (at < care->wanted_count && care->wanted[at].inode < inode)
        at++;
    return at;
}

/* Those whose owners are not found yet, or were found when the time was up, are looked for once more. */
static void keep_wanted(struct care *care)
{
    size_t kept = 0;

    for (size_t i = 0; i < care->wanted_count; i++) {
        const struct wanted *one = &care->wanted[i];
        const struct known *known = table_find(&care->table, care->candidates[one->index].cookie);

        if (known && known->state == KNOWN_WANTED)
            care->wanted[kept++] = (struct wanted){.inode = one->inode, .user = one->user, .index = one->index};
    }
    care->wanted_count = kept;
}

static void search(struct care *care)
{
    uint64_t began_ns = cost_cpu_ns(), taken_ns;
    size_t first;

    if (!care->wanted_count || care->now_ns < care->search_ns)
        return;
    care->wholes = broker_find(care->wanted, care->wanted_count, SEARCH_MOST);
    first = first_from(care, care->next_inode);
    taken_ns = cost_cpu_ns();
    for (size_t i = 0; i < care->wanted_count; i++) {
        const struct wanted *one = &care->wanted[(first + i) % care->wanted_count];

        care->next_inode = one->inode;
        if (cost_cpu_ns() - taken_ns > TAKING_NS)
            break;
        if (one->owner.pid)
            manager_begin(care->manager, &care->candidates[one->index], &one->owner);
        else
            give_up(care, &care->candidates[one->index]);
    }
    keep_wanted(care);
    care->search_ns = cost_after(care->now_ns, began_ns, 0, &care->counts.searches_cpu_ns);
}

static bool is_known(void *user, uint64_t cookie)
{
    const struct care *care = user;

    return table_find(&care->table, cookie);
}

/* What is kept of sockets that two sweeps have not seen goes. If it fails now, it is tried again later. */
static void retain(struct care *care)
{
    if (care->round > 1 && state_is_long(care->state))
        (void)state_retain(care->state, is_known, care);
}

/*
 * While little moves, sweeps come half as often as they may. What that saves is there when something moves: then the
 * next sweep comes at once, however many sockets it has to look at.
 */
static bool is_due(struct care *care)
{
    if (care->now_ns < care->sweep_ns)
        return false;
    if (care->now_ns >= care->quiet_ns || traffic_bytes() - care->traffic_bytes >= TRAFFIC_BYTES)
        return true;
    care->sweep_ns = care->now_ns + care->config->interval_ms * AB_NS_PER_MS;
    return false;
}

static void rest(struct care *care, uint64_t began_ns)
{
    uint64_t soon_ns = care->now_ns + care->config->interval_ms * AB_NS_PER_MS;
    uint64_t rested_ns = cost_after(care->now_ns, began_ns, soon_ns - care->now_ns, &care->counts.sweeps_cpu_ns);
    bool saved = care->now_ns >= care->quiet_ns;

    care->quiet_ns = rested_ns == soon_ns ? soon_ns : 2 * rested_ns - care->now_ns;
    care->sweep_ns = saved ? soon_ns : rested_ns;
    if (care->round == 1) /* only the next one tells what moves of all that was there before */
        care->sweep_ns = care->quiet_ns = soon_ns;
}

static int see(struct care *care)
{
    uint64_t began_ns = cost_cpu_ns();
    int error;

    care->round++;
    care->traffic_bytes = traffic_bytes();
    care->wanted_count = care->seen_count = 0;
    manager_sweep_begins(care->manager);
    error = care->sock_diag < 0 ? care->sock_diag : sweep(care->sock_diag, take, care);
    if (error == 0) {
        table_forget(&care->table, care->round);
        manager_sweep_ends(care->manager);
        care->counts.sockets = care->seen_count;
        care->counts.withheld = withhold_count(care->withhold);
        retain(care);
    } else { /* what is left of that answer must not be taken for the next one */
        if (care->sock_diag >= 0)
            close(care->sock_diag);
        care->sock_diag = ab_tcp_diag_open();
    }
    rest(care, began_ns);
    care->counts.sweeps++;
    care->counts.failed_sweeps += error < 0;
    return error;
}

/* --------------------------------------------------------------------------------- the whole */

int care_open(struct care **care, struct state *state, struct keep *keep, struct withhold *withhold)
{
    struct care *c = calloc(1, sizeof *c);
    int error;

    *care = NULL;
    if (!c)
        return -ENOMEM;
    c->state = state;
    c->withhold = withhold;
    c->counts.withhold = withhold;
    c->sock_diag = ab_tcp_diag_open();
    error = c->sock_diag < 0 ? c->sock_diag : manager_open(&c->manager, state, &c->table, &c->counts, keep);
    if (error < 0)
        care_close(c);
    else
        *care = c;
    return error;
}

void care_forget(struct care *care)
{
    care->wanted_count = 0;
    if (care->manager)
        manager_end(care->manager);
    table_free(&care->table);
    care->config = NULL;
}

/* Says what cannot be done in full, where nothing is done before a connection's SYN. */
static void say_limits_of_rules(const struct care *care)
{
    for (size_t i = care->withhold ? WITHHOLD_RULES : 0; i < care->config->count; i++) {
        const struct rule *rule = &care->config->rules[i];

        if (rule->rcv_bytes)
            log_line("[%s]: rcvbuf holds in full for what a listening socket accepts later; on other "
                     "connections as far as the window scale of their SYN allows", rule->name);
    }
}

int care_rules(struct care *care, const struct config *config, bool dry_run)
{
    int error;

    care->round = 0;
    care->config = config;
    care->sweep_ns = care->quiet_ns = 0;
    error = manager_rules(care->manager, config, dry_run, care->now_ns);
    withhold_limits(care->withhold, manager_limits(care->manager));
    withhold_rules(care->withhold, config, dry_run);
    say_limits_of_rules(care);
    return error;
}

int care_step(struct care *care, uint64_t now_ns)
{
    int error;

    care->now_ns = now_ns;
    manager_step(care->manager, now_ns);
    withhold_limits(care->withhold, manager_limits(care->manager));
    error = is_due(care) ? see(care) : 0;
    if (error == 0)
        search(care);
    return error;
}

uint64_t care_deadline_ns(const struct care *care)
{
    uint64_t next_ns = ab_min(manager_deadline_ns(care->manager), care->sweep_ns);

    return care->wanted_count ? ab_min(next_ns, care->search_ns) : next_ns;
}

const struct report_counts *care_counts(const struct care *care)
{
    return &care->counts;
}

const struct manager *care_manager(const struct care *care)
{
    return care->manager;
}

void care_close(struct care *care)
{
    if (!care)
        return;
    care_forget(care);
    manager_close(care->manager);
    free(care->wanted);
    free(care->candidates);
    if (care->sock_diag >= 0)
        close(care->sock_diag);
    free(care);
}

/* SPDX-License-Identifier: MIT */
#include "managed.h"

#include <stdlib.h>
#include <unistd.h>

#include "../../lib/base/base.h"
#include "../../lib/kernel/tcp_diag.h"
#include "../array.h"
#include "log.h"

#define SEARCH_MOST 16384U        /* descriptors that one search looks at: 30 ms, however many a process has */
#define TRAFFIC_BYTES 131072U /* of all connections, in and out: with less, none has become bulk since the last sweep */
#define EVENTS_MOST 1024U /* that are taken at once */
/* between two readings of what the kernel tells of bulk data, at least */
#define EVENTS_NS (10 * AB_NS_PER_MS)
/* between two sweeps where the kernel tells of bulk data, at least: they find what it did not tell, and listeners */
#define SELDOM_NS AB_NS_PER_S
#define TAKING_NS (5 * AB_NS_PER_MS) /* for those whose owners a search has found */
#define TURNS 8U /* that each user has in it before anybody has more */
#define LISTENER_NS AB_NS_PER_S      /* between two looks at a listener, whose program may change it all the time */
/* one that nobody owns is left alone until it has moved twice as much, and so much more */
#define UNOWNED_BYTES 16777216U

/* ------------------------------------------------------------------------------- sweeping */

/* By a daemon that was killed, or lost sight of it. What it left may be too slow to be ever bulk. */
static bool is_left_slow(const struct manager *m, const struct seen *seen, const struct known *known)
{
    const struct noted *kept = seen->moved_bytes >= known->next_bytes ? state_find(m->state, seen->cookie) : NULL;

    return kept && kept->own_byte_per_s;
}

/* Looks for its owner, if a rule may act on it, or a pace is to be taken from it. */
static void want(struct manager *m, const struct seen *seen, struct known *known)
{
    if (!rules_may_act(m->config, &seen->who) && !is_left_slow(m, seen, known)) {
        known->state = KNOWN_LEFT;
        return;
    }
    if (known->state != KNOWN_WANTED)
        known->wholes = m->wholes;
    known->state = KNOWN_WANTED;
    if (!seen->inode ||
        !array_grow(&m->candidates, m->candidate_count, &m->candidate_room, sizeof *m->candidates) ||
        !array_grow(&m->wanted, m->wanted_count, &m->wanted_room, sizeof *m->wanted))
        return;
    m->candidates[m->candidate_count] = *seen;
    m->wanted[m->wanted_count++] = (struct wanted){.inode = seen->inode, .user = seen->who.user,
                                                   .index = m->candidate_count++, .owner.cookie = seen->cookie};
}

/* A listener is looked at once, and again when its sizes have changed. That they were set is not seen from outside. */
static bool has_new_sizes(const struct manager *m, const struct seen *seen, struct known *known)
{
    if ((seen->snd_buf_bytes == known->snd_buf_bytes && seen->rcv_buf_bytes == known->rcv_buf_bytes) ||
        (known->snd_buf_bytes && m->now_ns - known->mark.ns < LISTENER_NS))
        return false;
    known->mark.ns = m->now_ns;
    return true;
}

static void take(void *user, const struct seen *seen)
{
    struct manager *m = user;
    /* else what is kept of it would be dropped */
    bool found_only = seen->half_closed && !state_find(m->state, seen->cookie);
    struct known *known = found_only ? table_find(&m->table, seen->cookie) : table_make(&m->table, seen->cookie);
    bool wanted = false;

    if (known && known->round == m->round) /* a dump may tell of a socket twice */
        return;
    manager_sees(m, seen);
    if (!known)
        return;
    known->round = m->round;
    m->seen_count++;
    if (seen->half_closed) /* what was done with it is not forgotten */
        return;
    if (known->state == KNOWN_NEW) {
        known->state = KNOWN_WAITS;
        known->mark.ns = m->now_ns;
        known->mark.bytes = m->round == 1 ? seen->moved_bytes : 0; /* else it is younger than a sweep */
    }
    if (known->state == KNOWN_WAITS && seen->who.remote.version)
        wanted =
            (bulk_since(&known->mark, seen->moved_bytes, m->now_ns) && seen->moved_bytes >= known->next_bytes) ||
            is_left_slow(m, seen, known);
    else if (known->state == KNOWN_WAITS)
        wanted = has_new_sizes(m, seen, known);
    if (wanted || known->state == KNOWN_WANTED)
        want(m, seen, known);
}

/* The kernel tells that it moves bulk data. */
static void take_told(void *user, const struct seen *seen)
{
    struct manager *m = user;
    struct known *known = table_make(&m->table, seen->cookie);

    if (!known || known->state > KNOWN_WAITS || seen->moved_bytes < known->next_bytes)
        return;
    if (known->state == KNOWN_NEW) {
        known->state = KNOWN_WAITS;
        known->round = m->round;
        known->mark = (struct bulk_mark){seen->moved_bytes, m->now_ns};
    }
    want(m, seen, known);
}

static void hear(struct manager *m)
{
    uint64_t began_ns = cost_cpu_ns();

    if (m->now_ns >= m->events_ns && bulk_read(m->bulk, EVENTS_MOST, take_told, m))
        m->events_ns = cost_after(m->now_ns, began_ns, EVENTS_NS, &m->counts.sweeps_cpu_ns);
}

/* If no process has it: it is the kernel's own, or its owner cannot be seen from here. */
static void give_up(struct manager *m, const struct seen *seen)
{
    struct known *known = table_find(&m->table, seen->cookie);

    if (!known || m->wholes - known->wholes < OWNERS_NONE)
        return;
    m->counts.refused[REPORT_NO_OWNER]++;
    known->state = KNOWN_WAITS;
    known->next_bytes = 2 * seen->moved_bytes + UNOWNED_BYTES;
    known->snd_buf_bytes = seen->snd_buf_bytes;
    known->rcv_buf_bytes = seen->rcv_buf_bytes;
}

/* Those whose owners are not found yet, or were found when the time was up, are looked for once more. */
static void keep_wanted(struct manager *m)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->wanted_count; i++) {
        const struct wanted *one = &m->wanted[i];
        const struct known *known = table_find(&m->table, m->candidates[one->index].cookie);

        if (known && known->state == KNOWN_WANTED)
            m->wanted[kept++] = (struct wanted){.inode = one->inode, .user = one->user, .index = one->index};
    }
    m->wanted_count = kept;
}

/* Takes it up, or gives it up if no process has it, unless that was done earlier in this search. */
static void take_turn(struct manager *m, const struct wanted *one)
{
    const struct seen *seen = &m->candidates[one->index];
    const struct known *known = table_find(&m->table, seen->cookie);

    if (!known || known->state != KNOWN_WANTED)
        return;
    if (one->owner.pid)
        manager_begin(m, seen, &one->owner);
    else
        give_up(m, seen);
}

/* Whether its user has had fewer than TURNS in this search. */
static bool is_users_turn(struct manager *m, const struct wanted *one)
{
    struct user *user = users_find(&m->users, one->user);

    if (!user)
        return true;
    if (user->searches != m->searches) {
        user->searches = m->searches;
        user->turns = 0;
    }
    return user->turns++ < TURNS;
}

/* First some of each user, then the others, in laps. */
static void take_up(struct manager *m, size_t count)
{
    size_t first = lap_first(&m->lap, m->wanted, count);
    uint64_t taken_ns = cost_cpu_ns();

    m->searches++;
    for (size_t i = 0; i < count; i++) {
        if (!is_users_turn(m, &m->wanted[(first + i) % count]))
            continue;
        take_turn(m, &m->wanted[(first + i) % count]);
        if (cost_cpu_ns() - taken_ns > TAKING_NS)
            return;
    }
    for (size_t i = first; i < count && cost_cpu_ns() - taken_ns <= TAKING_NS; i++) {
        take_turn(m, &m->wanted[i]);
        m->lap.next_inode = m->wanted[i].inode + 1;
    }
}

static void search(struct manager *m)
{
    uint64_t began_ns = cost_cpu_ns();
    size_t count = ab_min(m->wanted_count, WANTED_MOST);

    if (!count || m->now_ns < m->search_ns)
        return;
    m->wholes = broker_find(m->wanted, count, SEARCH_MOST);
    take_up(m, count); /* they are in the order of inodes now */
    keep_wanted(m);
    m->search_ns = cost_after(m->now_ns, began_ns, 0, &m->counts.searches_cpu_ns);
}

static bool is_known(void *user, uint64_t cookie)
{
    const struct manager *m = user;

    return table_find(&m->table, cookie);
}

/* The first sweep tells what there is, the second what of it moves. */
static uint64_t interval_ns(const struct manager *m)
{
    uint64_t wished_ns = m->config->interval_ms * AB_NS_PER_MS;

    return m->bulk && m->round > 1 ? ab_max(wished_ns, SELDOM_NS) : wished_ns;
}

/*
 * While little moves, sweeps come half as often as they may. What that saves is there when something moves: then the
 * next sweep comes at once, however many sockets it has to look at.
 */
static bool is_due(struct manager *m)
{
    if (m->now_ns < m->sweep_ns)
        return false;
    if (m->now_ns >= m->quiet_ns || traffic_bytes() - m->traffic_bytes >= TRAFFIC_BYTES)
        return true;
    m->sweep_ns = m->now_ns + interval_ns(m);
    return false;
}

static void rest(struct manager *m, uint64_t began_ns)
{
    uint64_t soon_ns = m->now_ns + interval_ns(m);
    uint64_t rested_ns = cost_after(m->now_ns, began_ns, soon_ns - m->now_ns, &m->counts.sweeps_cpu_ns);
    bool saved = m->now_ns >= m->quiet_ns;

    m->quiet_ns = rested_ns == soon_ns ? soon_ns : 2 * rested_ns - m->now_ns;
    m->sweep_ns = saved ? soon_ns : rested_ns;
    if (m->round == 1) /* only the next one tells what moves of all that was there before */
        m->sweep_ns = m->quiet_ns = soon_ns;
}

static int see(struct manager *m)
{
    uint64_t began_ns = cost_cpu_ns();
    int error;

    m->round++;
    m->traffic_bytes = traffic_bytes();
    m->wanted_count = m->candidate_count = m->seen_count = 0;
    users_begin(&m->users);
    error = m->sock_diag < 0 ? m->sock_diag : sweep(m->sock_diag, take, m);
    if (error == 0) {
        table_forget(&m->table, m->round);
        manager_sweep_ends(m);
        m->counts.sockets = m->seen_count;
        m->counts.withheld = withhold_count(m->withhold);
        /* What is kept of sockets that two sweeps have not seen goes. If it fails now, it is tried again later. */
        if (m->round > 1 && state_is_long(m->state))
            (void)state_retain(m->state, is_known, m);
    } else { /* what is left of that answer must not be taken for the next one */
        if (m->sock_diag >= 0)
            close(m->sock_diag);
        m->sock_diag = ab_tcp_diag_open();
    }
    rest(m, began_ns);
    m->counts.sweeps++;
    m->counts.failed_sweeps += error < 0;
    return error;
}

/* --------------------------------------------------------------------------------- the whole */

int care_open(struct manager *m, struct state *state, struct keep *keep, struct withhold *withhold, struct bulk *bulk)
{
    manager_open(m, state, keep);
    m->withhold = withhold;
    m->bulk = bulk;
    m->counts.withhold = withhold;
    m->sock_diag = ab_tcp_diag_open();
    return m->sock_diag < 0 ? m->sock_diag : 0;
}

void care_forget(struct manager *m)
{
    m->wanted_count = m->candidate_count = 0;
    manager_end(m);
    table_free(&m->table);
}

int care_rules(struct manager *m, const struct config *config)
{
    int error = manager_rules(m, config, m->now_ns);

    m->round = 0;
    m->sweep_ns = m->quiet_ns = 0;
    withhold_limits(m->withhold, &m->limits);
    withhold_rules(m->withhold, config);
    for (size_t i = m->withhold ? WITHHOLD_RULES : 0; i < config->count; i++) /* nothing is done before their SYN */
        if (config->rules[i].rcv_bytes)
            log_line("[%s]: rcvbuf holds in full for what a listening socket accepts later; on other "
                     "connections as far as the window scale of their SYN allows", config->rules[i].name);
    return error;
}

int care_step(struct manager *m, uint64_t now_ns)
{
    int error;

    manager_step(m, now_ns);
    withhold_limits(m->withhold, &m->limits);
    error = is_due(m) ? see(m) : 0;
    hear(m);
    if (error == 0)
        search(m);
    return error;
}

int care_fd(const struct manager *m, uint64_t now_ns)
{
    return now_ns < m->events_ns ? -1 : bulk_fd(m->bulk);
}

uint64_t care_deadline_ns(const struct manager *m)
{
    uint64_t next_ns = ab_min(manager_deadline_ns(m), m->sweep_ns);

    if (m->events_ns > m->now_ns)
        next_ns = ab_min(next_ns, m->events_ns);
    return m->wanted_count ? ab_min(next_ns, m->search_ns) : next_ns;
}

void care_close(struct manager *m)
{
    if (!m->state)
        return;
    care_forget(m);
    manager_close(m);
    free(m->wanted);
    free(m->candidates);
    if (m->sock_diag >= 0)
        close(m->sock_diag);
}

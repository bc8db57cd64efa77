/* SPDX-License-Identifier: MIT */
#include "tending.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../lib/base/base.h"
#include "../../lib/kernel/forced.h"
#include "cost.h"
#include "sharing.h"
#include "tended.h"

#define IDLE_NS (300 * AB_NS_PER_S) /* one that moves nothing for so long is let go until it carries bulk data again */

#define LOOKS_NS (10 * AB_NS_PER_MS) /* between two rounds of looks, at least */
#define LIMITS_NS (10 * AB_NS_PER_S) /* between two readings of this host's limits */
#define LESSONS_NS (100 * AB_NS_PER_MS) /* between two readings of what the kernel tells of closed connections, at least */

/* ---------------------------------------------------------------------------------- looking */

/* The flow puts its pace back if it has the socket: copy is not negative. */
static void end(struct tending *tending, size_t at, enum known_state state, int copy)
{
    struct tended *t = &tending->tended[at];
    struct known *known = table_find(tending->table, t->place.cookie);

    if (copy >= 0 && t->rule->divide_bytes && !tended_is_dry(tending, t->rule)) /* nobody sees to it any more that shares are right */
        sharing_put_back(t, copy);
    autobuf_flow_close(t->flow);
    /* One that could not be put back stays kept. One that is what the program, or a rule, allows need not be. */
    if (t->paces && copy >= 0 && (act_pace(copy) != t->left_byte_per_s || t->left_byte_per_s == t->own_byte_per_s))
        state_not_paced(tending->state, t->place.cookie);
    lessons_end(tending->lessons, t->lesson, tending->now_ns);
    users_find(&tending->users, t->subject.user)->connections--; /* whoever has one is kept */
    if (known)
        known->state = state;
    *t = tending->tended[--tending->count];
}

/* Not where a total is divided: whoever comes next would get its share, and it would have one of its own again. */
static bool is_idle(const struct tending *tending, struct tended *t, const struct autobuf_live_state *state)
{
    uint64_t moved_bytes = state->sent_bytes + state->received_bytes;

    if (moved_bytes != t->moved_bytes) {
        t->moved_bytes = moved_bytes;
        t->moved_ns = tending->now_ns;
    }
    return !t->rule->divide_bytes && tending->now_ns - t->moved_ns >= IDLE_NS;
}

/* A flow that its owner has closed, or handed on to another process: the next sweep will tell. */
static void look(struct tending *tending, size_t at)
{
    struct tended *t = &tending->tended[at];
    struct autobuf_live_state before = tended_state(t), state;
    int copy = broker_borrow(&t->place), result;
    bool kept;

    if (copy == -EMFILE || copy == -ENFILE || copy == -ENOMEM) /* ours: the next round tries again */
        return;
    if (copy < 0) {
        end(tending, at, KNOWN_WAITS, copy);
        return;
    }
    tended_is_about(tending, copy, &t->place, t->rule, t->subject.user);
    tended_note_own_pace(tending, t, copy);
    result = autobuf_flow_move(t->flow, copy);
    if (result == 0)
        result = autobuf_flow_step(t->flow, tending->now_ns);
    state = tended_state(t);
    if (result > 0)
        tended_note_forced(tending, copy, t->subject.user, before.snd_buf_bytes, before.rcv_buf_bytes);
    if (result >= 0)
        lessons_look(t->lesson, copy, &state, tending->now_ns);
    kept = result <= 0 || tended_keep(tending, copy, &t->was);
    if (kept && !t->rule->divide_bytes)
        tended_note_pace(tending, t, state.pacing_bit_per_s ? act_pace(copy) : 0);
    if (!kept) {
        end(tending, at, KNOWN_LEFT, copy);
    } else if (result > 0 && tending->account.text[0]) {
        account_tell(&tending->account);
        tended_keep_action(tending, t);
    } else if (process_is_over(result) || is_idle(tending, t, &state)) {
        end(tending, at, KNOWN_WAITS, copy);
    }
    process_give_back(copy);
    account_say(&tending->account);
}

static void look_all(struct tending *tending)
{
    uint64_t began_ns = cost_cpu_ns();

    for (size_t i = tending->count; i > 0; i--)
        if (autobuf_flow_deadline_ns(tending->tended[i - 1].flow) <= tending->now_ns)
            look(tending, i - 1);
    tending->looks_ns = cost_after(tending->now_ns, began_ns, LOOKS_NS, &tending->counts->looks_cpu_ns);
}

/* ---------------------------------------------------------------------------------- shares */

/* Nothing is said of a user a second time while the user has something. */
static void check_share(struct tending *tending, struct user *one)
{
    const struct users *users = &tending->users;
    const struct autobuf_limits *l = &tending->limits;
    uint64_t most_bytes = act_forced_most(l);
    uint64_t bytes = users_left(most_bytes, users->forced_bytes, one->forced_bytes); /* too few for any forced buffer? */
    bool forced = one->forced_bytes && l->flags & AUTOBUF_LIMITS_FORCE && !act_forced_bytes(l, bytes, bytes);
    bool connections = one->connections && !users_left(TENDED_MOST, tending->count, one->connections);
    char line[192];

    tending->counts->full_forced += forced;
    tending->counts->full_connections += connections;
    if (connections && !one->told_connections) {
        snprintf(line, sizeof line, "user %u has %llu of %u managed connections, and may have no more", (unsigned)one->user,
                 (unsigned long long)one->connections, TENDED_MOST);
        tending->account.say(line);
    }
    if (forced && !one->told_forced) {
        snprintf(line, sizeof line, "user %u has forced buffers of %.1f MB, of %.1f MB for all, and may have no more", (unsigned)one->user,
                 (double)one->forced_bytes / 1e6, (double)most_bytes / 1e6);
        tending->account.say(line);
    }
    one->told_connections |= connections;
    one->told_forced |= forced;
}

void tending_sweep_begins(struct tending *tending)
{
    users_begin(&tending->users);
}

void tending_sees(struct tending *tending, const struct seen *seen)
{
    if (seen->remote.version) /* of what no program has open any more the kernel may not tell whose it was */
        users_count(&tending->users, seen->inode ? seen->user : USERS_NOBODY,
                    act_forced_bytes(&tending->limits, seen->snd_buf_bytes, seen->rcv_buf_bytes));
}

void tending_sweep_ends(struct tending *tending)
{
    struct report_counts *counts = tending->counts;

    users_end(&tending->users);
    counts->tended_most = TENDED_MOST;
    counts->forced_bytes = tending->users.forced_bytes;
    counts->forced_most_bytes = tending->limits.flags & AUTOBUF_LIMITS_FORCE ? act_forced_most(&tending->limits) : 0;
    counts->full_connections = counts->full_forced = 0;
    for (size_t i = 0; i < tending->users.count; i++)
        check_share(tending, &tending->users.users[i]);
}

/* ------------------------------------------------------------------------------- the whole */

static int read_limits(struct tending *tending)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    int error = autobuf_limits_host(&limits);

    /* Half of it is the library's own bound. */
    limits.tcp_mem_bytes = limits.tcp_mem_bytes / 100 * 2 * tending->config->budget_percent;
    if (error == 0)
        tending->limits = limits;
    tending->limits_ns = tending->now_ns + LIMITS_NS;
    return error;
}

void tending_end(struct tending *tending)
{
    while (tending->count) {
        struct tended *t = &tending->tended[tending->count - 1];
        int copy = broker_borrow(&t->place);

        if (copy >= 0)
            (void)autobuf_flow_move(t->flow, copy);
        end(tending, tending->count - 1, KNOWN_WAITS, copy);
        if (copy >= 0)
            process_give_back(copy);
    }
}

int tending_open(struct tending **tending, struct state *state, struct table *table, struct report_counts *counts,
                 struct keep *keep, tending_say_fn *say)
{
    struct tending *made = calloc(1, sizeof *made);

    *tending = made;
    if (!made)
        return -ENOMEM;
    made->account = (struct account){.say = say, .counts = counts};
    made->state = state;
    made->table = table;
    made->counts = counts;
    ab_forced_keep(&made->limits.forced_bytes);
    return lessons_open(&made->lessons, keep);
}

int tending_rules(struct tending *tending, const struct config *config, bool dry_run, uint64_t now_ns)
{
    tending->now_ns = now_ns;
    tending->refused = false;
    tending->config = config;
    tending->dry_run = dry_run;
    tending->divides = false;
    for (size_t i = 0; i < config->count; i++)
        tending->divides = tending->divides || config->rules[i].divide_bytes;
    return read_limits(tending);
}

void tending_step(struct tending *tending, uint64_t now_ns)
{
    tending->now_ns = now_ns;
    if (now_ns >= tending->limits_ns)
        (void)read_limits(tending); /* else the old ones hold */
    if (tending->count && now_ns >= tending->looks_ns)
        look_all(tending);
    if (tending->divides && tending->count && now_ns >= tending->divide_ns)
        sharing_divide(tending);
    if (now_ns >= tending->lessons_ns) { /* whoever sweeps comes by often enough */
        lessons_step(tending->lessons, now_ns);
        tending->lessons_ns = now_ns + LESSONS_NS;
    }
}

uint64_t tending_deadline_ns(const struct tending *tending)
{
    uint64_t look_ns = UINT64_MAX;

    for (size_t i = 0; i < tending->count; i++) {
        uint64_t due_ns = autobuf_flow_deadline_ns(tending->tended[i].flow);

        look_ns = due_ns < look_ns ? due_ns : look_ns;
    }
    if (look_ns < tending->looks_ns)
        look_ns = tending->looks_ns;
    return tending->divides && tending->count && tending->divide_ns < look_ns ? tending->divide_ns : look_ns;
}

size_t tending_count(const struct tending *tending)
{
    return tending->count;
}

void tending_flow(const struct tending *tending, size_t at, struct report_flow *flow)
{
    const struct tended *t = &tending->tended[at];

    *flow = (struct report_flow){.pid = t->place.pid, .fd = t->place.fd, .user = t->subject.user, .program = t->place.program,
                                 .unit = t->place.unit, .rule = t->rule, .dry_run = tended_is_dry(tending, t->rule), .action = t->action,
                                 .action_ns = t->action_ns, .live = tended_state(t)};
    report_address(&t->subject.local, flow->local);
    report_address(&t->subject.remote, flow->peer);
}

void tending_close(struct tending *tending)
{
    if (!tending)
        return;
    tending_end(tending);
    ab_forced_keep(NULL);
    lessons_close(tending->lessons);
    free(tending->tended);
    free(tending->demands);
    free(tending->shares);
    free(tending->sharers);
    users_free(&tending->users);
    free(tending);
}

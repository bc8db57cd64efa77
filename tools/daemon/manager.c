/* SPDX-License-Identifier: MIT */
#include "managed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/kernel/limits.h"
#include "../../lib/kernel/socket.h"
#include "../../lib/paths/store.h"
#include "../array.h"
#include "../print.h"
#include "log.h"

#define NEAR_BYTES 16777216U /* one whose peer is near is left alone until so much more has moved */

/* one whose user has his share of managed connections is left alone until so much more has moved */
#define FULL_BYTES 67108864U
#define IDLE_NS (300 * AB_NS_PER_S) /* one that moves nothing for so long is let go until it carries bulk data again */

#define SAMPLES_NS (10 * AB_NS_PER_MS) /* between two rounds of samples, at least */
/* between two readings of what the kernel tells of closed connections, at least */
#define LESSONS_NS (100 * AB_NS_PER_MS)

/* ------------------------------------------------------------------ what was there before */

/*
 * A listener that has other sizes than we left it with was changed by its program, so from now on that is how it was.
 * Of a side that has the size that we left, what is kept stays, and so it does of a pace and a congestion control that
 * are ours.
 */
static void note_program(struct manager *manager, const struct known *known, const struct rule *rule, struct noted *was)
{
    const struct noted *kept = state_find(manager->state, was->cookie);
    struct autobuf_settings *s = &was->settings;

    manager->anew = true;
    if (kept && kept->control[0] && strcmp(was->control, rule->congestion_control) == 0)
        memcpy(was->control, kept->control, sizeof was->control);
    if (kept && rule->pace_bit_per_s && s->pacing_byte_per_s == rule->pace_bit_per_s / 8)
        s->pacing_byte_per_s = kept->settings.pacing_byte_per_s;
    if (kept && s->snd_buf_bytes == known->snd_buf_bytes) {
        s->snd_buf_bytes = kept->settings.snd_buf_bytes;
        s->locks = (s->locks & ~AUTOBUF_LOCK_SND) | (kept->settings.locks & AUTOBUF_LOCK_SND);
    }
    if (kept && s->rcv_buf_bytes == known->rcv_buf_bytes) {
        s->rcv_buf_bytes = kept->settings.rcv_buf_bytes;
        s->locks = (s->locks & ~AUTOBUF_LOCK_RCV) | (kept->settings.locks & AUTOBUF_LOCK_RCV);
    }
}

/*
 * An earlier daemon that was killed, or other rules, may have left a connection's share: a size that locks what was not
 * locked, or a window clamp.
 */
static void forget_share(const struct noted *kept, struct autobuf_settings *was)
{
    uint32_t left = kept ? was->locks & ~kept->settings.locks : 0;

    if (left & AUTOBUF_LOCK_SND)
        was->snd_buf_bytes = kept->settings.snd_buf_bytes;
    if (left & AUTOBUF_LOCK_RCV)
        was->rcv_buf_bytes = kept->settings.rcv_buf_bytes;
    was->locks &= ~left;
    if (kept && kept->settings.rcv_clamp_bytes > was->rcv_clamp_bytes)
        was->rcv_clamp_bytes = kept->settings.rcv_clamp_bytes;
}

/*
 * The pace that a daemon left that was killed, or that lost sight of the connection, is none of the program's. One that
 * is not lower than what the program allowed is: no flow sets that. Nor is the window to which it held a peer.
 */
static void forget_rate(struct manager *manager, uint64_t cookie, int copy)
{
    const struct noted *kept = state_find(manager->state, cookie);

    if (kept && kept->own_byte_per_s &&
        (act_pace(copy) >= kept->own_byte_per_s || act_set_pace(copy, kept->own_byte_per_s) > 0))
        state_paced(manager->state, cookie, 0);
    if (kept)
        (void)act_open_window(copy, &kept->settings);
}

/* ------------------------------------------------------------------------------- the flow */

/* As a rule says; and where the limit of autotuning is raised, nothing is forced beyond it. */
static uint64_t most_bytes(const struct manager *manager, const struct rule *rule)
{
    uint64_t most = rule->most_bytes ? rule->most_bytes : UINT64_MAX;

    if (raising_is_on(manager, 0))
        most = ab_min(most, manager->limits.tcp_wmem_max_bytes / 2);
    if (raising_is_on(manager, 1))
        most = ab_min(most, manager->limits.tcp_rmem_max_bytes / 2);
    return most == UINT64_MAX ? 0 : most;
}

static struct autobuf_options options_of(struct manager *manager, const struct rule *rule)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    options.intent = rule->intent;
    options.flags = AUTOBUF_FLOW_SILENT | (rule->mode == MODE_PATH ? 0 : AUTOBUF_FLOW_NO_STORE) |
                    (rule->dry_run || rule->divide_bytes ? AUTOBUF_FLOW_OBSERVE : 0);
    options.limits = &manager->limits;
    options.most_bytes = most_bytes(manager, rule);
    options.log = account_part;
    options.log_user = &manager->account;
    return options;
}

/* What the rule does must not be what limits it. */
static bool teaches(const struct rule *rule)
{
    return !rule->divide_bytes && !rule->pace_bit_per_s && !rule->intent;
}

/* The receive window that autotuning gives at least: half of its limit. 0: autotuning is off. */
static uint64_t autotuning_bytes(const struct autobuf_limits *limits)
{
    return limits->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING ? limits->tcp_rmem_max_bytes / 2 : 0;
}

/* What we leave a socket with. Before anybody is told of it, for whoever hears it may change it at once. */
static void remember_sizes(struct known *known, int copy)
{
    uint64_t snd_bytes, rcv_bytes;

    if (ab_socket_sizes(copy, &snd_bytes, &rcv_bytes) < 0)
        return;
    known->snd_buf_bytes = (uint32_t)snd_bytes;
    known->rcv_buf_bytes = (uint32_t)rcv_bytes;
}

/* Opens the flow of a borrowed socket. The state that the socket has from now on. */
static enum known_state open_flow(struct manager *manager, const struct seen *seen, struct known *known,
                                  const struct rule *rule, const struct owner *owner, const struct noted *was, int copy)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_options options = options_of(manager, rule);
    struct managed t = {.rule = rule, .owner = *owner, .was = *was, .subject = seen->who,
                        .moved_ns = manager->now_ns};
    int error = -ENOMEM;

    if (array_grow(&manager->managed, manager->count, &manager->room, sizeof *manager->managed))
        error = autobuf_flow_open(&t.flow, copy, NULL, 0, &options);
    remember_sizes(known, copy);
    if (error < 0) {
        account_failed(&manager->account, error);
        return KNOWN_LEFT;
    }
    error = autobuf_flow_state(t.flow, &applied);
    if (applied.changes)
        managed_note_forced(manager, copy, seen->who.user, was->settings.snd_buf_bytes, was->settings.rcv_buf_bytes);
    if (applied.changes && !managed_keep(manager, copy, was)) {
        autobuf_flow_close(t.flow);
        return KNOWN_LEFT;
    }
    if (error == 0 && (applied.changes || rule->dry_run) && manager->account.text[0])
        managed_tell(manager, &t);
    if (seen->who.remote.version == 0) {
        autobuf_flow_close(t.flow);
        return KNOWN_WAITS;
    }
    if (teaches(rule))
        t.lesson = lessons_begin(&manager->lessons, owner->cookie, &seen->who.remote,
                                 autotuning_bytes(&manager->limits), copy);
    users_find(&manager->users, seen->who.user)->connections++; /* is_full() has found it */
    manager->counts.taken_up++;
    manager->managed[manager->count++] = t;
    return KNOWN_TENDED;
}

/* ------------------------------------------------------------------------------ taking up */

/* One user with as many connections as there may be would keep all others out. */
static bool is_full(struct manager *manager, uint32_t user)
{
    const struct user *one = users_find(&manager->users, user);

    return !one || !users_left(MANAGED_MOST, manager->count, one->connections);
}

/* Until it has moved so much. */
static enum known_state refuse(struct manager *manager, struct known *known, enum report_refusal why,
                               uint64_t next_bytes)
{
    known->next_bytes = next_bytes;
    manager->counts.refused[why]++;
    return KNOWN_WAITS;
}

/* What is done with a socket that is borrowed. */
static enum known_state take_up(struct manager *manager, const struct seen *seen, struct known *known,
                                const struct rule *rule, const struct owner *owner, int copy)
{
    struct account *account = &manager->account;
    struct noted was;
    int result;

    if (!rule->dry_run)
        forget_rate(manager, seen->cookie, copy);
    if (rule->mode != MODE_FIXED && !rule->pace_bit_per_s && !rule->congestion_control[0] && !rule->divide_bytes &&
        seen->who.remote.version && act_is_near(copy, &manager->limits, rule->intent))
        return refuse(manager, known, REPORT_NEAR, seen->moved_bytes + NEAR_BYTES);
    if (seen->who.remote.version && rule->mode != MODE_FIXED && is_full(manager, seen->who.user))
        return refuse(manager, known, REPORT_FULL, seen->moved_bytes + FULL_BYTES);
    result = act_read(account, &was);
    if (result < 0) {
        account_failed(account, result);
        return KNOWN_LEFT;
    }
    if (seen->who.remote.version)
        forget_share(state_find(manager->state, owner->cookie), &was.settings);
    if (!seen->who.remote.version && known->snd_buf_bytes) /* else an earlier daemon or other rules may have left it */
        note_program(manager, known, rule, &was);
    result = act_fixed(account, &manager->limits);
    if (result > 0 && !rule->dry_run)
        managed_note_forced(manager, copy, seen->who.user, was.settings.snd_buf_bytes, was.settings.rcv_buf_bytes);
    if (result && !managed_keep(manager, copy, &was)) /* also one that failed can have set a part */
        return KNOWN_LEFT;
    account_tell(account);
    if (result < 0)
        account_failed(account, result);
    account->text[0] = '\0';
    return rule->mode == MODE_FIXED ? KNOWN_LEFT : open_flow(manager, seen, known, rule, owner, &was, copy);
}

static void say_refused(struct manager *manager, int error, pid_t pid)
{
    if (!manager->refused)
        log_line("process %d may not be touched (%s): without CAP_SYS_PTRACE only processes of the daemon's own "
                 "user can be reached, and with kernel.yama.ptrace_scope=3 none; others are left alone, too",
                 (int)pid, strerror(-error));
    manager->refused = true;
}

void manager_begin(struct manager *manager, const struct seen *seen, const struct owner *owner)
{
    struct known *known = table_find(&manager->table, seen->cookie);
    struct subject subject = seen->who;
    const struct rule *rule;
    int copy;

    if (!known)
        return;
    if (autobuf_is_off()) {
        known->state = KNOWN_LEFT;
        return;
    }
    copy = broker_borrow(owner);
    if (copy == -EPERM || copy == -EACCES) {
        say_refused(manager, copy, owner->pid);
        known->state = KNOWN_LEFT;
        manager->counts.refused[REPORT_NOT_PERMITTED]++;
    } else if (copy < 0) {
        manager->counts.refused[REPORT_GONE]++;
        known->state = KNOWN_WAITS; /* it was closed, or handed on, in between */
    }
    if (copy < 0)
        return;
    subject.program = owner->program;
    subject.unit = owner->unit;
    rule = rules_find(manager->config, &subject);
    if (rule && rule->mode != MODE_OFF) {
        managed_is_about(manager, copy, owner, rule, seen->who.user);
        known->state = take_up(manager, seen, known, rule, owner, copy);
    } else {
        if (!manager->config->dry_run && !(rule && rule->dry_run))
            forget_rate(manager, seen->cookie, copy);
        known->state = KNOWN_LEFT;
    }
    process_give_back(copy);
    log_go_on();
}

/* --------------------------------------------------------------------------------- sampling */

/* The flow puts its pace back if it has the socket: copy is not negative. */
static void end(struct manager *manager, size_t at, enum known_state state, int copy)
{
    struct managed *t = &manager->managed[at];
    struct known *known = table_find(&manager->table, t->owner.cookie);

    /* nobody sees to it any more that shares are right */
    if (copy >= 0 && t->rule->divide_bytes && !t->rule->dry_run)
        sharing_put_back(t, copy);
    autobuf_flow_close(t->flow);
    /* One that could not be put back stays kept. One that is what the program, or a rule, allows need not be. */
    if (t->paces && copy >= 0 && (act_pace(copy) != t->left_byte_per_s || t->left_byte_per_s == t->own_byte_per_s))
        state_paced(manager->state, t->owner.cookie, 0);
    lessons_end(&manager->lessons, t->lesson, manager->now_ns);
    users_find(&manager->users, t->subject.user)->connections--; /* whoever has one is kept */
    if (known)
        known->state = state;
    *t = manager->managed[--manager->count];
}

/* Not where a total is divided: whoever comes next would get its share, and it would have one of its own again. */
static bool is_idle(const struct manager *manager, struct managed *t, const struct autobuf_live_state *state)
{
    uint64_t moved_bytes = state->sent_bytes + state->received_bytes;

    if (moved_bytes != t->moved_bytes) {
        t->moved_bytes = moved_bytes;
        t->moved_ns = manager->now_ns;
    }
    return !t->rule->divide_bytes && manager->now_ns - t->moved_ns >= IDLE_NS;
}

/* A flow that its owner has closed, or handed on to another process: the next sweep will tell. */
static void sample(struct manager *manager, size_t at)
{
    struct managed *t = &manager->managed[at];
    struct autobuf_live_state before = managed_state(t), state;
    int copy = broker_borrow(&t->owner), result;
    bool kept;

    if (copy == -EMFILE || copy == -ENFILE || copy == -ENOMEM) /* ours: the next round tries again */
        return;
    if (copy < 0) {
        end(manager, at, KNOWN_WAITS, copy);
        return;
    }
    managed_is_about(manager, copy, &t->owner, t->rule, t->subject.user);
    managed_note_own_pace(manager, t, copy);
    result = autobuf_flow_move(t->flow, copy);
    if (result == 0)
        result = autobuf_flow_step(t->flow, manager->now_ns);
    state = managed_state(t);
    if (result > 0)
        managed_note_forced(manager, copy, t->subject.user, before.snd_buf_bytes, before.rcv_buf_bytes);
    if (result >= 0) {
        lessons_sample(t->lesson, copy, &state, manager->now_ns);
        raising_sample(manager, t, copy, &state);
    }
    kept = result <= 0 || managed_keep(manager, copy, &t->was);
    if (kept && !t->rule->divide_bytes) /* a scavenger that receives may be held by its window alone, and so slow */
        managed_note_pace(manager, t,
                          state.pacing_bit_per_s || t->rule->intent & AUTOBUF_INTENT_SCAVENGER ? act_pace(copy) : 0);
    if (!kept) {
        end(manager, at, KNOWN_LEFT, copy);
    } else if (result > 0 && manager->account.text[0]) {
        managed_tell(manager, t);
    } else if (process_is_over(result) || is_idle(manager, t, &state)) {
        end(manager, at, KNOWN_WAITS, copy);
    }
    process_give_back(copy);
    log_go_on();
}

static void sample_all(struct manager *manager)
{
    uint64_t began_ns = cost_cpu_ns();

    for (size_t i = manager->count; i > 0; i--)
        if (autobuf_flow_deadline_ns(manager->managed[i - 1].flow) <= manager->now_ns)
            sample(manager, i - 1);
    manager->samples_ns = cost_after(manager->now_ns, began_ns, SAMPLES_NS, &manager->counts.sampling_cpu_ns);
}

/* ---------------------------------------------------------------------------------- shares */

/* Nothing is said of a user a second time while the user has something. */
static void check_share(struct manager *manager, struct user *one)
{
    const struct users *users = &manager->users;
    const struct autobuf_limits *l = &manager->limits;
    uint64_t most_bytes = act_forced_most(l);
    /* too few for any forced buffer? */
    uint64_t bytes = users_left(most_bytes, users->forced_bytes, one->forced_bytes);
    bool forced = one->forced_bytes && l->flags & AUTOBUF_LIMITS_FORCE && !act_forced_bytes(l, bytes, bytes);
    bool connections = one->connections && !users_left(MANAGED_MOST, manager->count, one->connections);

    manager->counts.full_forced += forced;
    manager->counts.full_connections += connections;
    if (connections && !one->told_connections)
        log_line("user %u has %llu of %u managed connections, and may have no more", (unsigned)one->user,
                 (unsigned long long)one->connections, MANAGED_MOST);
    if (forced && !one->told_forced)
        log_line("user %u has forced buffers of %sB, of %sB for all, and may have no more", (unsigned)one->user,
                 SCALED(one->forced_bytes), SCALED(most_bytes));
    one->told_connections |= connections;
    one->told_forced |= forced;
}

void manager_sees(struct manager *manager, const struct seen *seen)
{
    if (seen->who.remote.version) /* of what no program has open any more the kernel may not tell whose it was */
        users_count(&manager->users, seen->inode ? seen->who.user : USERS_NOBODY,
                    act_forced_bytes(&manager->limits, seen->snd_buf_bytes, seen->rcv_buf_bytes));
}

/* Orphans hold memory too, of connections that are nobody's any more. Said again after half of it was free. */
static void check_memory(struct manager *manager)
{
    const struct autobuf_limits *l = &manager->limits;
    uint64_t most_bytes = act_forced_most(l), left_bytes = most_bytes - ab_min(most_bytes, l->tcp_used_bytes);
    bool full = l->flags & AUTOBUF_LIMITS_FORCE && !act_forced_bytes(l, left_bytes, left_bytes);

    if (full && !manager->full)
        log_line("TCP holds %sB: beyond %sB no buffer is forced", SCALED(l->tcp_used_bytes), SCALED(most_bytes));
    manager->full = full || (manager->full && l->tcp_used_bytes > most_bytes / 2);
}

void manager_sweep_ends(struct manager *manager)
{
    struct report_counts *counts = &manager->counts;

    check_memory(manager);
    users_end(&manager->users);
    counts->managed_most = MANAGED_MOST;
    counts->forced_bytes = manager->users.forced_bytes;
    counts->forced_most_bytes = manager->limits.flags & AUTOBUF_LIMITS_FORCE ? act_forced_most(&manager->limits) : 0;
    counts->full_connections = counts->full_forced = 0;
    for (size_t i = 0; i < manager->users.count; i++)
        check_share(manager, &manager->users.users[i]);
}

/* ------------------------------------------------------------------------------- the whole */

void manager_end(struct manager *manager)
{
    while (manager->count) {
        struct managed *t = &manager->managed[manager->count - 1];
        int copy = broker_borrow(&t->owner);

        if (copy >= 0)
            (void)autobuf_flow_move(t->flow, copy);
        end(manager, manager->count - 1, KNOWN_WAITS, copy);
        if (copy >= 0)
            process_give_back(copy);
    }
}

void manager_open(struct manager *manager, struct state *state, struct keep *keep)
{
    manager->state = state;
    manager->account.counts = &manager->counts;
    ab_forced_keep(&manager->limits.forced_bytes);
    lessons_open(&manager->lessons, keep);
}

/* The store of the rules is the one that flows look into; instead of the usual one the environment can name another. */
static void look_in(const char *file)
{
    bool usual = strcmp(file, STORE_FILE) == 0;

    ab_store_environment(usual     ? secure_getenv("AUTOBUF_PATHS")
                         : file[0] ? file
                                   : "off",
                         secure_getenv("XDG_CACHE_HOME"), secure_getenv("HOME"));
}

int manager_rules(struct manager *manager, const struct config *config, uint64_t now_ns)
{
    manager->now_ns = now_ns;
    manager->refused = false;
    manager->config = config;
    look_in(config->store_file);
    manager->divides = false;
    memset(manager->left, 0, sizeof manager->left);
    for (size_t i = 0; i < config->count; i++)
        manager->divides = manager->divides || config->rules[i].divide_bytes;
    return managed_read_limits(manager);
}

void manager_step(struct manager *manager, uint64_t now_ns)
{
    manager->now_ns = now_ns;
    if (now_ns >= manager->limits_ns)
        (void)managed_read_limits(manager); /* else the old ones hold */
    if (manager->count && now_ns >= manager->samples_ns)
        sample_all(manager);
    if (manager->divides && manager->count && now_ns >= manager->divide_ns)
        sharing_divide(manager);
    if (now_ns >= manager->lessons_ns) { /* whoever sweeps comes by often enough */
        lessons_step(&manager->lessons, now_ns);
        manager->lessons_ns = now_ns + LESSONS_NS;
    }
}

uint64_t manager_deadline_ns(const struct manager *manager)
{
    uint64_t sample_ns = UINT64_MAX;

    for (size_t i = 0; i < manager->count; i++)
        sample_ns = ab_min(sample_ns, autobuf_flow_deadline_ns(manager->managed[i].flow));
    sample_ns = ab_max(sample_ns, manager->samples_ns);
    if (manager->lessons.ended)
        sample_ns = ab_min(sample_ns, manager->lessons_ns);
    return manager->divides && manager->count ? ab_min(sample_ns, manager->divide_ns) : sample_ns;
}

void manager_flow(const void *user, size_t at, struct report_flow *flow)
{
    const struct manager *manager = user;
    const struct managed *t = &manager->managed[at];
    const struct endpoint *local = &t->subject.local, *remote = &t->subject.remote;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    *flow = (struct report_flow){.owner = &t->owner, .user = t->subject.user, .rule = t->rule, .action = t->action,
                                 .action_ns = t->action_ns, .live = AUTOBUF_LIVE_STATE_INIT,
                                 .available = AUTOBUF_AVAILABLE_INIT};
    applied.live = &flow->live;
    applied.available = &flow->available;
    (void)autobuf_flow_state(t->flow, &applied);
    process_address(local->version, local->address, local->port, flow->local);
    process_address(remote->version, remote->address, remote->port, flow->peer);
}

void manager_close(struct manager *manager)
{
    manager_end(manager);
    raising_end(manager);
    ab_forced_keep(NULL);
    lessons_close(&manager->lessons);
    free(manager->managed);
    users_free(&manager->users);
}

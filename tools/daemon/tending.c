/* SPDX-License-Identifier: MIT */
#include "tending.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../lib/base/address.h"
#include "../../lib/base/base.h"
#include "../../lib/kernel/limits.h"
#include "../../lib/kernel/socket.h"
#include "broker.h"
#include "log.h"
#include "tended.h"

#define NEAR_BYTES 16777216U /* one whose peer is near is left alone until so much more has moved */

#define FULL_BYTES 67108864U /* one whose user has his share of managed connections is left alone until so much more has moved */
#define IDLE_NS (300 * AB_NS_PER_S) /* one that moves nothing for so long is let go until it carries bulk data again */

#define SAMPLES_NS (10 * AB_NS_PER_MS) /* between two rounds of samples, at least */
#define LIMITS_NS (10 * AB_NS_PER_S) /* between two readings of this host's limits */
#define LESSONS_NS (100 * AB_NS_PER_MS) /* between two readings of what the kernel tells of closed connections, at least */

/* ------------------------------------------------------------------ what was there before */

/*
 * A listener that has other sizes than we left it with was changed by its program, so from now on that is how it was. Of a
 * side that has the size that we left, what is kept stays, and so it does of a pace and a congestion control that are ours.
 */
static void note_program(struct tending *tending, const struct known *known, const struct rule *rule, struct noted *was)
{
    const struct noted *kept = state_find(tending->state, was->cookie);
    struct autobuf_settings *s = &was->settings;

    tending->anew = true;
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
 * An earlier daemon that was killed, or other rules, may have left a connection's share: a size that locks what was not locked, or a
 * window clamp.
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
 * The pace that a daemon left that was killed, or that lost sight of the connection, is none of the program's. One that is not
 * lower than what the program allowed is: no flow sets that.
 */
static void forget_pace(struct tending *tending, uint64_t cookie, int copy)
{
    const struct noted *kept = state_find(tending->state, cookie);

    if (kept && kept->own_byte_per_s && (act_pace(copy) >= kept->own_byte_per_s || act_set_pace(copy, kept->own_byte_per_s) > 0))
        state_paced(tending->state, cookie, 0);
}

/* ------------------------------------------------------------------------------- the flow */

static struct autobuf_options options_of(struct tending *tending, const struct rule *rule)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    options.intent = rule->intent;
    options.flags = AUTOBUF_FLOW_SILENT | (rule->mode == MODE_PATH ? 0 : AUTOBUF_FLOW_NO_STORE) |
                    (tended_is_dry(tending, rule) || rule->divide_bytes ? AUTOBUF_FLOW_LOOK_ONLY : 0);
    options.limits = &tending->limits;
    options.most_bytes = rule->most_bytes;
    options.log = account_part;
    options.log_user = &tending->account;
    return options;
}

/* What the rule does must not be what limits it. */
static bool teaches(const struct rule *rule)
{
    return !rule->divide_bytes && !rule->pace_bit_per_s && !(rule->intent & AUTOBUF_INTENT_LOW_DELAY);
}

/* The receive window that autotuning gives at least: half of its limit. 0: autotuning is off. */
static uint64_t autotuning_bytes(const struct autobuf_limits *limits)
{
    return limits->flags & AUTOBUF_LIMITS_RCV_AUTOTUNING ? limits->tcp_rmem_max_bytes / 2 : 0;
}

/* What a store of the daemon's own knows of a connection's path; the library looks into the usual ones. */
static bool recall(struct tending *tending, const struct rule *rule, const struct seen *seen, struct autobuf_path *path)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    const char *file = tending->config->store_file;
    struct sockaddr_storage remote, local;
    struct autobuf_paths *paths;
    bool sends;
    int error;

    if (rule->mode != MODE_PATH || !seen->remote.version || !file[0] || strcmp(file, STORE_FILE) == 0 ||
        autobuf_paths_open(&paths, file) < 0)
        return false;
    query.remote_len = (socklen_t)ab_address_make(seen->remote.address, seen->remote.version == 4 ? 4 : 16, &remote);
    query.remote = (struct sockaddr *)&remote;
    query.local_len = (socklen_t)ab_address_make(seen->local.address, seen->local.version == 4 ? 4 : 16, &local);
    query.local = (struct sockaddr *)&local;
    query.intent = rule->intent;
    query.now_s = (uint64_t)time(NULL);
    error = autobuf_paths_find(paths, &query, &entry);
    autobuf_paths_close(paths);
    if (error < 0 || autobuf_paths_path(&entry, path) < 0)
        return false;
    sends = entry.tx_rate_bit_per_s;
    account_part(&tending->account, &(struct autobuf_event){.what = AUTOBUF_EVENT_KNOWN, .rtt_ns = entry.rtt_min_ns,
                                                            .side = sends ? AUTOBUF_LOCK_SND : AUTOBUF_LOCK_RCV,
                                                            .after_bit_per_s = sends ? entry.tx_rate_bit_per_s : entry.rx_rate_bit_per_s});
    return true;
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

static bool has_room(struct tending *tending)
{
    size_t room = tending->room ? 2 * tending->room : 64;
    struct tended *more;

    if (tending->count < tending->room)
        return true;
    more = realloc(tending->tended, room * sizeof *more);
    if (!more)
        return false;
    tending->tended = more;
    tending->room = room;
    return true;
}

/* Opens the flow of a borrowed socket. The state that the socket has from now on. */
static enum known_state open_flow(struct tending *tending, const struct seen *seen, struct known *known, const struct rule *rule,
                                  const struct owner *owner, const struct noted *was, int copy)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_options options = options_of(tending, rule);
    struct tended t = {.rule = rule, .owner = *owner, .was = *was, .subject = seen_subject(seen), .moved_ns = tending->now_ns};
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int error;

    if (recall(tending, rule, seen, &path))
        options.path = &path;
    error = has_room(tending) ? autobuf_flow_open(&t.flow, copy, NULL, 0, &options) : -ENOMEM;
    remember_sizes(known, copy);
    if (error < 0) {
        account_failed(&tending->account, error);
        return KNOWN_LEFT;
    }
    error = autobuf_flow_state(t.flow, &applied);
    if (applied.changes)
        tended_note_forced(tending, copy, seen->user, was->settings.snd_buf_bytes, was->settings.rcv_buf_bytes);
    if (applied.changes && !tended_keep(tending, copy, was)) {
        autobuf_flow_close(t.flow);
        return KNOWN_LEFT;
    }
    if (error == 0 && (applied.changes || tended_is_dry(tending, rule)) && tending->account.text[0]) {
        account_tell(&tending->account);
        tended_keep_action(tending, &t);
    }
    if (seen->remote.version == 0) {
        autobuf_flow_close(t.flow);
        return KNOWN_WAITS;
    }
    if (teaches(rule))
        t.lesson = lessons_begin(tending->lessons, owner->cookie, &seen->remote, autotuning_bytes(&tending->limits), copy);
    users_find(&tending->users, seen->user)->connections++; /* is_full() has found it */
    tending->counts->taken_up++;
    tending->tended[tending->count++] = t;
    return KNOWN_TENDED;
}

/* ------------------------------------------------------------------------------ taking up */

/* One user with as many connections as there may be would keep all others out. */
static bool is_full(struct tending *tending, uint32_t user)
{
    const struct user *one = users_find(&tending->users, user);

    return !one || !users_left(TENDED_MOST, tending->count, one->connections);
}

/* Until it has moved so much. */
static enum known_state refuse(struct tending *tending, struct known *known, enum report_refusal why, uint64_t next_bytes)
{
    known->next_bytes = next_bytes;
    tending->counts->refused[why]++;
    return KNOWN_WAITS;
}

/* What is done with a socket that is borrowed. */
static enum known_state take_up(struct tending *tending, const struct seen *seen, struct known *known,
                                const struct rule *rule, const struct owner *owner, int copy)
{
    struct autobuf_limits limits = tending->limits;
    struct act act = {.rule = rule, .limits = &limits, .dry_run = tended_is_dry(tending, rule), .say = account_line,
                      .user = &tending->account};
    struct noted was;
    int result;

    if (!act.dry_run)
        forget_pace(tending, seen->cookie, copy);
    limits.request_most_bytes = rule->most_bytes;
    if (rule->mode != MODE_FIXED && !rule->pace_bit_per_s && !rule->congestion_control[0] && !rule->divide_bytes && seen->remote.version &&
        act_is_near(copy, &limits, rule->intent)) {
        return refuse(tending, known, REPORT_NEAR, seen->moved_bytes + NEAR_BYTES);
    }
    if (seen->remote.version && rule->mode != MODE_FIXED && is_full(tending, seen->user)) {
        return refuse(tending, known, REPORT_FULL, seen->moved_bytes + FULL_BYTES);
    }
    result = act_read(&act, copy, owner->cookie, &was);
    if (result < 0) {
        account_failed(&tending->account, result);
        return KNOWN_LEFT;
    }
    if (seen->remote.version)
        forget_share(state_find(tending->state, owner->cookie), &was.settings);
    if (!seen->remote.version && known->snd_buf_bytes) /* else it may be what an earlier daemon, or other rules, left */
        note_program(tending, known, rule, &was);
    result = act_fixed(&act, copy);
    if (result > 0 && !act.dry_run)
        tended_note_forced(tending, copy, seen->user, was.settings.snd_buf_bytes, was.settings.rcv_buf_bytes);
    if (result && !tended_keep(tending, copy, &was)) /* also one that failed can have set a part */
        return KNOWN_LEFT;
    account_tell(&tending->account);
    if (result < 0)
        account_failed(&tending->account, result);
    tending->account.text[0] = '\0';
    return rule->mode == MODE_FIXED ? KNOWN_LEFT : open_flow(tending, seen, known, rule, owner, &was, copy);
}

static void say_refused(struct tending *tending, int error, pid_t pid)
{
    if (!tending->refused)
        log_line("process %d may not be touched (%s): without CAP_SYS_PTRACE only processes of the daemon's own "
                 "user can be reached, and with kernel.yama.ptrace_scope=3 none; others are left alone, too",
                 (int)pid, strerror(-error));
    tending->refused = true;
}

void tending_begin(struct tending *tending, const struct seen *seen, const struct owner *owner)
{
    struct known *known = table_find(tending->table, seen->cookie);
    struct subject subject = seen_subject(seen);
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
        say_refused(tending, copy, owner->pid);
        known->state = KNOWN_LEFT;
        tending->counts->refused[REPORT_NOT_PERMITTED]++;
    } else if (copy < 0) {
        tending->counts->refused[REPORT_GONE]++;
        known->state = KNOWN_WAITS; /* it was closed, or handed on, in between */
    }
    if (copy < 0)
        return;
    subject.program = owner->program;
    subject.unit = owner->unit;
    rule = rules_find(tending->config, &subject);
    if (rule && rule->mode != MODE_OFF) {
        tended_is_about(tending, copy, owner, rule, seen->user);
        known->state = take_up(tending, seen, known, rule, owner, copy);
    } else {
        if (!tending->dry_run && !tending->config->dry_run && !(rule && rule->dry_run))
            forget_pace(tending, seen->cookie, copy);
        known->state = KNOWN_LEFT;
    }
    process_give_back(copy);
    log_go_on();
}

/* --------------------------------------------------------------------------------- sampling */

/* The flow puts its pace back if it has the socket: copy is not negative. */
static void end(struct tending *tending, size_t at, enum known_state state, int copy)
{
    struct tended *t = &tending->tended[at];
    struct known *known = table_find(tending->table, t->owner.cookie);

    if (copy >= 0 && t->rule->divide_bytes && !tended_is_dry(tending, t->rule)) /* nobody sees to it any more that shares are right */
        sharing_put_back(t, copy);
    autobuf_flow_close(t->flow);
    /* One that could not be put back stays kept. One that is what the program, or a rule, allows need not be. */
    if (t->paces && copy >= 0 && (act_pace(copy) != t->left_byte_per_s || t->left_byte_per_s == t->own_byte_per_s))
        state_paced(tending->state, t->owner.cookie, 0);
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
static void sample(struct tending *tending, size_t at)
{
    struct tended *t = &tending->tended[at];
    struct autobuf_live_state before = tended_state(t), state;
    int copy = broker_borrow(&t->owner), result;
    bool kept;

    if (copy == -EMFILE || copy == -ENFILE || copy == -ENOMEM) /* ours: the next round tries again */
        return;
    if (copy < 0) {
        end(tending, at, KNOWN_WAITS, copy);
        return;
    }
    tended_is_about(tending, copy, &t->owner, t->rule, t->subject.user);
    tended_note_own_pace(tending, t, copy);
    result = autobuf_flow_move(t->flow, copy);
    if (result == 0)
        result = autobuf_flow_step(t->flow, tending->now_ns);
    state = tended_state(t);
    if (result > 0)
        tended_note_forced(tending, copy, t->subject.user, before.snd_buf_bytes, before.rcv_buf_bytes);
    if (result >= 0)
        lessons_sample(t->lesson, copy, &state, tending->now_ns);
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
    log_go_on();
}

static void sample_all(struct tending *tending)
{
    uint64_t began_ns = cost_cpu_ns();

    for (size_t i = tending->count; i > 0; i--)
        if (autobuf_flow_deadline_ns(tending->tended[i - 1].flow) <= tending->now_ns)
            sample(tending, i - 1);
    tending->samples_ns = cost_after(tending->now_ns, began_ns, SAMPLES_NS, &tending->counts->looks_cpu_ns);
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

    tending->counts->full_forced += forced;
    tending->counts->full_connections += connections;
    if (connections && !one->told_connections)
        log_line("user %u has %llu of %u managed connections, and may have no more", (unsigned)one->user,
                 (unsigned long long)one->connections, TENDED_MOST);
    if (forced && !one->told_forced)
        log_line("user %u has forced buffers of %.1f MB, of %.1f MB for all, and may have no more", (unsigned)one->user,
                 (double)one->forced_bytes / 1e6, (double)most_bytes / 1e6);
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
        int copy = broker_borrow(&t->owner);

        if (copy >= 0)
            (void)autobuf_flow_move(t->flow, copy);
        end(tending, tending->count - 1, KNOWN_WAITS, copy);
        if (copy >= 0)
            process_give_back(copy);
    }
}

int tending_open(struct tending **tending, struct state *state, struct table *table, struct report_counts *counts,
                 struct keep *keep)
{
    struct tending *made = calloc(1, sizeof *made);

    *tending = made;
    if (!made)
        return -ENOMEM;
    made->account = (struct account){.counts = counts};
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
    if (tending->count && now_ns >= tending->samples_ns)
        sample_all(tending);
    if (tending->divides && tending->count && now_ns >= tending->divide_ns)
        sharing_divide(tending);
    if (now_ns >= tending->lessons_ns) { /* whoever sweeps comes by often enough */
        lessons_step(tending->lessons, now_ns);
        tending->lessons_ns = now_ns + LESSONS_NS;
    }
}

uint64_t tending_deadline_ns(const struct tending *tending)
{
    uint64_t sample_ns = UINT64_MAX;

    for (size_t i = 0; i < tending->count; i++) {
        uint64_t due_ns = autobuf_flow_deadline_ns(tending->tended[i].flow);

        sample_ns = ab_min(sample_ns, due_ns);
    }
    sample_ns = ab_max(sample_ns, tending->samples_ns);
    return tending->divides && tending->count ? ab_min(sample_ns, tending->divide_ns) : sample_ns;
}

size_t tending_count(const struct tending *tending)
{
    return tending->count;
}

void tending_flow(const void *user, size_t at, struct report_flow *flow)
{
    const struct tending *tending = user;
    const struct tended *t = &tending->tended[at];

    *flow = (struct report_flow){.pid = t->owner.pid, .fd = t->owner.fd, .user = t->subject.user, .program = t->owner.program,
                                 .unit = t->owner.unit, .rule = t->rule, .dry_run = tended_is_dry(tending, t->rule), .action = t->action,
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
    users_free(&tending->users);
    free(tending);
}

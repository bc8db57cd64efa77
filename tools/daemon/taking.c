/* SPDX-License-Identifier: MIT */
#include "tended.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NEAR_BYTES 16777216U /* one whose peer is near is left alone until so much more has moved */

#define FULL_BYTES 67108864U /* one whose user has his share of managed connections is left alone until so much more has moved */

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

    if (kept && kept->paced && (act_pace(copy) >= kept->own_byte_per_s || act_set_pace(copy, kept->own_byte_per_s) > 0))
        state_not_paced(tending->state, cookie);
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

static uint32_t sockaddr_of(const struct endpoint *end, struct sockaddr_in6 *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    *address = (struct sockaddr_in6){.sin6_family = AF_INET6};
    memcpy(&address->sin6_addr, end->address, 16);
    if (end->version != 4)
        return sizeof *address;
    memcpy(&v4.sin_addr, end->address, 4);
    memcpy(address, &v4, sizeof v4);
    return sizeof v4;
}

/* What a store of the daemon's own knows of a connection's path; the library looks into the usual ones. */
static bool recall(struct tending *tending, const struct rule *rule, const struct seen *seen, struct autobuf_path *path)
{
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_paths_query query = AUTOBUF_PATHS_QUERY_INIT;
    const char *file = tending->config->store_file;
    struct sockaddr_in6 remote, local;
    struct autobuf_paths *paths;
    bool sends;
    int error;

    if (rule->mode != MODE_PATH || !seen->remote.version || !file[0] || strcmp(file, STORE_FILE) == 0 ||
        autobuf_paths_open(&paths, file) < 0)
        return false;
    query.remote_len = sockaddr_of(&seen->remote, &remote);
    query.remote = (struct sockaddr *)&remote;
    query.local_len = sockaddr_of(&seen->local, &local);
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
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (autobuf_socket_state(copy, &now) < 0)
        return;
    known->snd_buf_bytes = (uint32_t)now.snd_buf_bytes;
    known->rcv_buf_bytes = (uint32_t)now.rcv_buf_bytes;
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
                                  const struct place *place, const struct noted *was, int copy)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_options options = options_of(tending, rule);
    struct tended t = {.rule = rule, .place = *place, .was = *was, .subject = seen_subject(seen), .moved_ns = tending->now_ns};
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
        t.lesson = lessons_begin(tending->lessons, place->cookie, &seen->remote, autotuning_bytes(&tending->limits), copy);
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

/* What is done with a socket that is borrowed. */
static enum known_state take_up(struct tending *tending, const struct seen *seen, struct known *known,
                                const struct rule *rule, const struct place *place, int copy)
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
        known->next_bytes = seen->moved_bytes + NEAR_BYTES;
        tending->counts->refused[REPORT_NEAR]++;
        return KNOWN_WAITS;
    }
    if (seen->remote.version && rule->mode != MODE_FIXED && is_full(tending, seen->user)) {
        known->next_bytes = seen->moved_bytes + FULL_BYTES;
        tending->counts->refused[REPORT_FULL]++;
        return KNOWN_WAITS;
    }
    result = act_read(&act, copy, place->cookie, &was);
    if (result < 0) {
        account_failed(&tending->account, result);
        return KNOWN_LEFT;
    }
    if (seen->remote.version)
        forget_share(state_find(tending->state, place->cookie), &was.settings);
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
    return rule->mode == MODE_FIXED ? KNOWN_LEFT : open_flow(tending, seen, known, rule, place, &was, copy);
}

static void say_refused(struct tending *tending, int error, pid_t pid)
{
    char line[256];

    if (tending->refused)
        return;
    tending->refused = true;
    snprintf(line, sizeof line,
             "process %d may not be touched (%s): without CAP_SYS_PTRACE only processes of the daemon's own user can "
             "be reached, and with kernel.yama.ptrace_scope=3 none; others are left alone, too",
             (int)pid, strerror(-error));
    tending->account.say(line);
}

void tending_begin(struct tending *tending, const struct seen *seen, const struct place *place)
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
    copy = broker_borrow(place);
    if (copy == -EPERM || copy == -EACCES) {
        say_refused(tending, copy, place->pid);
        known->state = KNOWN_LEFT;
        tending->counts->refused[REPORT_NOT_PERMITTED]++;
    } else if (copy < 0) {
        tending->counts->refused[REPORT_GONE]++;
        known->state = KNOWN_WAITS; /* it was closed, or handed on, in between */
    }
    if (copy < 0)
        return;
    subject.program = place->program;
    subject.unit = place->unit;
    rule = rules_find(tending->config, &subject);
    if (rule && rule->mode != MODE_OFF) {
        tended_is_about(tending, copy, place, rule, seen->user);
        known->state = take_up(tending, seen, known, rule, place, copy);
    } else {
        if (!tending->dry_run && !tending->config->dry_run && !(rule && rule->dry_run))
            forget_pace(tending, seen->cookie, copy);
        known->state = KNOWN_LEFT;
    }
    process_give_back(copy);
    account_say(&tending->account);
}

/* SPDX-License-Identifier: MIT */
#include "tending.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <netinet/in.h>

#include "account.h"
#include "act.h"
#include "cost.h"
#include "divide.h"
#include "lessons.h"

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

#define NEAR_BYTES 16777216U /* one whose peer is near is left alone until so much more has moved */

#define TENDED_MOST 16384U /* about 50 MB, of the 128 that the unit allows; the others wait until so much more has moved: */
#define FULL_BYTES 67108864U

#define IDLE_NS (300 * NS_PER_S) /* one that moves nothing for so long is let go until it carries bulk data again */

#define LOOKS_NS (10 * NS_PER_MS) /* between two rounds of looks, at least */
#define LIMITS_NS (10 * NS_PER_S) /* between two readings of this host's limits */
#define LESSONS_NS (100 * NS_PER_MS) /* between two readings of what the kernel tells of closed connections, at least */
#define DIVIDE_NS (50 * NS_PER_MS) /* between two rounds of dividing, at least */
#define FAILED_NS NS_PER_S /* before a share that cannot be set is tried again */

/* A socket that is looked after. */
struct tended {
    struct autobuf_flow *flow;
    struct lesson *lesson; /* NULL: it teaches nothing */
    const struct rule *rule;
    struct place place;
    struct noted was; /* before it was changed */
    struct subject subject; /* program and unit: NULL; they are these: */
    char program[PROCESS_NAME_BYTES], unit[UNIT_BYTES];
    char action[REPORT_TEXT_BYTES]; /* the newest; "": none yet */
    uint64_t action_ns;
    uint64_t moved_bytes, moved_ns; /* it had moved so much by then, and has moved nothing since */
    uint64_t share_bytes, told_bytes; /* of its rule's divide=; 0: none yet. told_bytes UINT64_MAX: told that it cannot be set */
    uint64_t window_bytes;            /* that it uses, smoothed */
    uint64_t share_ns;                /* not changed again before */
    bool paces;                       /* its flow does, or its share: own_byte_per_s is known */
    uint64_t own_byte_per_s;          /* the most that the program allows, */
    uint64_t left_byte_per_s;         /* and the pace that the last look left */
};

struct tending {
    struct state *state;
    struct table *table;
    struct report_counts *counts;
    struct lessons *lessons;
    const struct config *config;
    bool dry_run;
    struct autobuf_limits limits;
    struct tended *tended;
    size_t count, room;
    uint64_t *demands, *shares; /* of those of one rule, which are at these places in tended */
    size_t *sharers, shares_room;
    uint64_t now_ns, looks_ns, limits_ns, divide_ns, lessons_ns; /* when each is due */
    bool divides; /* a rule does */
    bool refused; /* said that a process may not be touched */
    bool unkept;  /* said that nothing can be kept */
    struct account account; /* of what is acted on now */
    const char *unit;    /* its process's */
    bool anew;           /* its program has changed it since it was kept */
};

/* ---------------------------------------------------------------------------------- saying */

static bool is_dry(const struct tending *tending, const struct rule *rule)
{
    return tending->dry_run || tending->config->dry_run || rule->dry_run;
}

/* From here on what is said is about this socket. */
static void is_about(struct tending *tending, const struct loan *loan, const struct place *place, const struct rule *rule)
{
    account_about(&tending->account, loan, place, rule, is_dry(tending, rule));
    tending->anew = false;
}

static void keep_action(const struct tending *tending, struct tended *t)
{
    snprintf(t->action, sizeof t->action, "%.*s", (int)sizeof t->action - 1, tending->account.text);
    t->action_ns = tending->now_ns;
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

/* ---------------------------------------------------------------------------------- keeping */

/* Something was set on the socket: keeps how it was, or else puts that back. */
static bool keep(struct tending *tending, int copy, const struct noted *was)
{
    int error = tending->account.dry_run ? 0 : state_keep(tending->state, was, tending->anew);
    char line[256];

    if (error == 0)
        return true;
    (void)act_restore(copy, was);
    snprintf(line, sizeof line, "%s: %s: what a socket was like cannot be kept, so it is put back and left alone",
             tending->state->file, strerror(-error));
    if (!tending->unkept)
        account_later(&tending->account, line);
    tending->unkept = true;
    return false;
}

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

/* ---------------------------------------------------------------------------------- looking */

/* What was set because a total is divided. A pace that is not what was left is the program's. */
static void put_share_back(struct tended *t, int copy)
{
    (void)act_restore_sizes(copy, &t->was);
    if (t->paces && act_pace(copy) == t->left_byte_per_s)
        (void)act_set_pace(copy, t->own_byte_per_s);
}

/* The flow puts its pace back if it has the socket, which loan says. */
static void end(struct tending *tending, size_t at, enum known_state state, const struct loan *loan)
{
    struct tended *t = &tending->tended[at];
    struct known *known = table_find(tending->table, t->place.cookie);

    if (loan && t->rule->divide_bytes && !is_dry(tending, t->rule)) /* nobody sees to it any more that shares are right */
        put_share_back(t, loan->copy);
    autobuf_flow_close(t->flow);
    /* One that could not be put back stays kept. One that is what the program, or a rule, allows need not be. */
    if (t->paces && loan && (act_pace(loan->copy) != t->left_byte_per_s || t->left_byte_per_s == t->own_byte_per_s))
        state_not_paced(tending->state, t->place.cookie);
    lessons_end(tending->lessons, t->lesson, tending->now_ns);
    if (known)
        known->state = state;
    *t = tending->tended[--tending->count];
}

static bool has_ended(int error)
{
    return error == -EBADF || error == -ENOTSOCK || error == -ESTALE || error == -ENOTCONN || error == -ESRCH ||
           error == -EOPNOTSUPP;
}

static struct autobuf_live_state state_of(const struct tended *t)
{
    struct autobuf_live_state state = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.live = &state;
    (void)autobuf_flow_state(t->flow, &applied); /* else nothing was seen yet */
    return state;
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

/* What the program allows, also where a rule's pace= was set before the flow, or the share, had one. */
static uint64_t program_pace(const struct tending *tending, const struct tended *t)
{
    const struct noted *kept = state_find(tending->state, t->place.cookie);

    return kept && t->rule->pace_bit_per_s && t->own_byte_per_s == t->rule->pace_bit_per_s / 8 ? kept->settings.pacing_byte_per_s
                                                                                                : t->own_byte_per_s;
}

/* A pace is for the time of the flow, or of the share, only: so that it is known if this process is killed. 0: there is none. */
static void note_pace(struct tending *tending, struct tended *t, uint64_t left_byte_per_s)
{
    bool paced = t->paces;

    if (is_dry(tending, t->rule))
        return;
    t->paces = left_byte_per_s > 0;
    t->left_byte_per_s = left_byte_per_s;
    if (t->paces)
        state_paced(tending->state, t->place.cookie, program_pace(tending, t));
    else if (paced)
        state_not_paced(tending->state, t->place.cookie);
}

/* A pace that we did not leave is the program's, and none is ours any more. */
static void note_own_pace(struct tending *tending, struct tended *t, int copy)
{
    uint64_t now = act_pace(copy);

    if (!now || (t->paces && now == t->left_byte_per_s))
        return;
    t->own_byte_per_s = now;
    note_pace(tending, t, 0);
}

/* A flow that its owner has closed, or handed on to another process: the next sweep will tell. */
static void look(struct tending *tending, size_t at)
{
    struct tended *t = &tending->tended[at];
    struct autobuf_live_state state;
    struct loan loan;
    int result = act_borrow(&t->place, &loan);
    bool kept;

    if (result == -EMFILE || result == -ENFILE || result == -ENOMEM) /* ours: the next round tries again */
        return;
    if (result < 0) {
        end(tending, at, KNOWN_WAITS, NULL);
        return;
    }
    is_about(tending, &loan, &t->place, t->rule);
    note_own_pace(tending, t, loan.copy);
    result = autobuf_flow_move(t->flow, loan.copy);
    if (result == 0)
        result = autobuf_flow_step(t->flow, tending->now_ns);
    state = state_of(t);
    if (result >= 0)
        lessons_look(t->lesson, loan.copy, &state, tending->now_ns);
    kept = result <= 0 || keep(tending, loan.copy, &t->was);
    if (kept && !t->rule->divide_bytes)
        note_pace(tending, t, state.pacing_bit_per_s ? act_pace(loan.copy) : 0);
    if (!kept) {
        end(tending, at, KNOWN_LEFT, &loan);
    } else if (result > 0 && tending->account.text[0]) {
        account_tell(&tending->account);
        keep_action(tending, t);
    } else if (has_ended(result) || is_idle(tending, t, &state)) {
        end(tending, at, KNOWN_WAITS, &loan);
    }
    act_give_back(&loan);
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

/* -------------------------------------------------------------------------------- dividing */

static bool has_room_for_shares(struct tending *tending)
{
    size_t room = tending->room;
    uint64_t *demands, *shares;
    size_t *sharers;

    if (tending->count <= tending->shares_room)
        return true;
    demands = realloc(tending->demands, room * sizeof *demands);
    tending->demands = demands ? demands : tending->demands;
    shares = realloc(tending->shares, room * sizeof *shares);
    tending->shares = shares ? shares : tending->shares;
    sharers = realloc(tending->sharers, room * sizeof *sharers);
    tending->sharers = sharers ? sharers : tending->sharers;
    if (!demands || !shares || !sharers)
        return false;
    tending->shares_room = room;
    return true;
}

/* What it uses now: in flight, or what arrives in a round trip. */
static void measure_window(struct tended *t, const struct autobuf_live_state *state)
{
    uint64_t window_bytes = state->in_flight_bytes;

    if (act_receives(state))
        window_bytes = state->rtt_ns == AUTOBUF_NS_UNSET
                           ? 0
                           : (uint64_t)((double)state->received_bit_per_s / 8 * ((double)state->rtt_ns / (double)NS_PER_S));
    t->window_bytes = t->window_bytes ? (3 * t->window_bytes + window_bytes) / 4 : window_bytes;
}

/* Said when it has become twice or half of what was said. */
static void tell_share(struct tending *tending, struct tended *t, size_t count)
{
    uint64_t was = t->told_bytes == UINT64_MAX ? 0 : t->told_bytes;
    char text[128];

    if (was && t->share_bytes / 2 < was && was / 2 < t->share_bytes)
        return;
    t->told_bytes = t->share_bytes;
    snprintf(text, sizeof text, "window of %.2f MB: its share of divide=%.2f MB among %zu", (double)t->share_bytes / 1e6,
             (double)t->rule->divide_bytes / 1e6, count);
    tending->account.text[0] = '\0';
    account_line(&tending->account, text);
    account_tell(&tending->account);
    keep_action(tending, t);
}

static void set_share(struct tending *tending, struct tended *t, size_t count)
{
    struct act act = {.rule = t->rule, .limits = &tending->limits, .dry_run = is_dry(tending, t->rule), .say = account_line,
                      .user = &tending->account};
    struct autobuf_live_state state = state_of(t);
    struct share share;
    struct loan loan;
    int result;

    if (act_borrow(&t->place, &loan) < 0)
        return; /* its next look ends it */
    is_about(tending, &loan, &t->place, t->rule);
    note_own_pace(tending, t, loan.copy);
    share = (struct share){.bytes = t->share_bytes, .own_byte_per_s = t->own_byte_per_s, .paced = t->paces,
                           .locked = t->was.settings.locks & AUTOBUF_LOCK_SND};
    result = act_share(&act, loan.copy, &state, &share);
    if (result > 0 && !keep(tending, loan.copy, &t->was)) {
        (void)act_set_pace(loan.copy, t->own_byte_per_s); /* which may be newer than what was put back */
        t->share_ns = UINT64_MAX;
    } else if (share.set_byte_per_s) {
        note_pace(tending, t, share.set_byte_per_s == t->own_byte_per_s ? 0 : share.set_byte_per_s);
    }
    if (t->share_ns != UINT64_MAX)
        t->share_ns = tending->now_ns + (state.rtt_ns == AUTOBUF_NS_UNSET ? 0 : 2 * state.rtt_ns);
    if (result < 0) {
        t->share_ns = tending->now_ns + FAILED_NS;
        if (t->told_bytes != UINT64_MAX) /* once */
            account_failed(&tending->account, result);
        t->told_bytes = UINT64_MAX;
    } else if (t->share_ns != UINT64_MAX) {
        tell_share(tending, t, count);
    }
    act_give_back(&loan);
    account_say(&tending->account);
}

/* From this one on, all of its rule. */
static void divide_rule(struct tending *tending, size_t first)
{
    const struct rule *rule = tending->tended[first].rule;
    size_t count = 0;

    for (size_t i = first; i < tending->count; i++) {
        struct tended *t = &tending->tended[i];
        struct autobuf_live_state state;
        uint64_t most_bytes;

        if (t->rule != rule)
            continue;
        state = state_of(t);
        measure_window(t, &state);
        most_bytes = act_receives(&state) || !t->own_byte_per_s ? UINT64_MAX : divide_paced(t->own_byte_per_s, state.rtt_ns);
        tending->demands[count] = t->share_bytes ? divide_demand(t->window_bytes, state.limiter, t->share_bytes, most_bytes) : UINT64_MAX;
        tending->sharers[count++] = i;
    }
    divide_shares(rule->divide_bytes, tending->demands, tending->shares, count);
    for (size_t k = 0; k < count; k++) {
        struct tended *t = &tending->tended[tending->sharers[k]];

        t->share_bytes = tending->shares[k];
        if (tending->now_ns >= t->share_ns)
            set_share(tending, t, count);
    }
}

static bool is_first_of_rule(const struct tending *tending, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (tending->tended[i].rule == tending->tended[at].rule)
            return false;
    return true;
}

static void divide_all(struct tending *tending)
{
    uint64_t began_ns = cost_cpu_ns();

    if (has_room_for_shares(tending))
        for (size_t i = 0; i < tending->count; i++)
            if (tending->tended[i].rule->divide_bytes && is_first_of_rule(tending, i))
                divide_rule(tending, i);
    tending->divide_ns = cost_after(tending->now_ns, began_ns, DIVIDE_NS, &tending->counts->looks_cpu_ns);
}

/* ------------------------------------------------------------------------------- beginning */

static struct autobuf_options options_of(struct tending *tending, const struct rule *rule, struct autobuf_limits *limits)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    *limits = tending->limits;
    /* Half of it is the library's own bound. */
    limits->tcp_mem_bytes = limits->tcp_mem_bytes / 100 * 2 * tending->config->budget_percent;
    limits->request_most_bytes = rule->most_bytes;
    options.intent = rule->intent;
    options.flags = AUTOBUF_FLOW_SILENT | (rule->mode == MODE_PATH ? 0 : AUTOBUF_FLOW_NO_STORE) |
                    (is_dry(tending, rule) || rule->divide_bytes ? AUTOBUF_FLOW_LOOK_ONLY : 0);
    options.limits = limits;
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
    char text[64];
    int error;

    if (rule->mode != MODE_PATH || !seen->remote.version || !file[0] || strcmp(file, STORE_FILE) == 0 ||
        autobuf_paths_open(&paths, file) < 0)
        return false;
    query.remote_len = sockaddr_of(&seen->remote, &remote);
    query.remote = (struct sockaddr *)&remote;
    query.local_len = sockaddr_of(&seen->local, &local);
    query.local = (struct sockaddr *)&local;
    query.now_s = (uint64_t)time(NULL);
    error = autobuf_paths_find(paths, &query, &entry);
    autobuf_paths_close(paths);
    if (error < 0 || autobuf_paths_path(&entry, path) < 0)
        return false;
    snprintf(text, sizeof text, "the path store knows it: %.1f Mbit/s%s, %.3f ms",
             (double)(entry.tx_rate_bit_per_s ? entry.tx_rate_bit_per_s : entry.rx_rate_bit_per_s) / 1e6,
             entry.tx_rate_bit_per_s ? "" : " back", (double)entry.rtt_min_ns / 1e6);
    account_part(&tending->account, text);
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

/* Opens the flow of a borrowed socket. The state that the socket has from now on. */
static enum known_state open_flow(struct tending *tending, const struct seen *seen, struct known *known, const struct rule *rule,
                                  const struct place *place, const struct noted *was, int copy)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    struct autobuf_limits limits;
    struct autobuf_options options = options_of(tending, rule, &limits);
    struct tended t = {.rule = rule, .place = *place, .was = *was, .subject = sweep_subject(seen), .moved_ns = tending->now_ns};
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
    applied.plan = &plan;
    error = autobuf_flow_state(t.flow, &applied);
    if (applied.changes && !keep(tending, copy, was)) {
        autobuf_flow_close(t.flow);
        return KNOWN_LEFT;
    }
    if (error == 0 && (applied.changes || is_dry(tending, rule)) && tending->account.text[0]) {
        account_tell(&tending->account);
        keep_action(tending, &t);
    }
    if (seen->remote.version == 0) {
        autobuf_flow_close(t.flow);
        return KNOWN_WAITS;
    }
    snprintf(t.program, sizeof t.program, "%s", tending->account.process->name);
    snprintf(t.unit, sizeof t.unit, "%s", tending->unit);
    if (teaches(rule))
        t.lesson = lessons_begin(tending->lessons, place->cookie, &seen->remote, plan.rcv_kernel_bytes, copy);
    tending->counts->taken_up++;
    tending->tended[tending->count++] = t;
    return KNOWN_TENDED;
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

/* What is done with a socket that is borrowed. */
static enum known_state take_up(struct tending *tending, const struct seen *seen, struct known *known,
                                const struct rule *rule, const struct place *place, int copy)
{
    struct autobuf_limits limits = tending->limits;
    struct act act = {.rule = rule, .limits = &limits, .dry_run = is_dry(tending, rule), .say = account_line,
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
    if (seen->remote.version && rule->mode != MODE_FIXED && tending->count >= TENDED_MOST) {
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
    if (result && !keep(tending, copy, &was)) /* also one that failed can have set a part */
        return KNOWN_LEFT;
    account_tell(&tending->account);
    if (result < 0)
        account_failed(&tending->account, result);
    tending->account.text[0] = '\0';
    return rule->mode == MODE_FIXED ? KNOWN_LEFT : open_flow(tending, seen, known, rule, place, &was, copy);
}

void tending_begin(struct tending *tending, const struct seen *seen, const struct wanted *wanted)
{
    struct place place = {.cookie = seen->cookie, .pid = wanted->pid, .fd = wanted->fd};
    struct known *known = table_find(tending->table, seen->cookie);
    struct subject subject = sweep_subject(seen);
    const struct rule *rule;
    struct loan loan;
    char unit[UNIT_BYTES];
    int error;

    if (!known)
        return;
    if (autobuf_is_off()) {
        known->state = KNOWN_LEFT;
        return;
    }
    error = act_borrow(&place, &loan);
    if (error == -EPERM || error == -EACCES) {
        say_refused(tending, error, place.pid);
        known->state = KNOWN_LEFT;
        tending->counts->refused[REPORT_NOT_PERMITTED]++;
    } else if (error < 0) {
        tending->counts->refused[REPORT_GONE]++;
        known->state = KNOWN_WAITS; /* it was closed, or handed on, in between */
    }
    if (error < 0)
        return;
    owners_unit(place.pid, unit);
    subject.program = loan.process.name;
    subject.unit = unit;
    rule = rules_find(tending->config, &subject);
    if (rule && rule->mode != MODE_OFF) {
        is_about(tending, &loan, &place, rule);
        tending->unit = unit;
        known->state = take_up(tending, seen, known, rule, &place, loan.copy);
    } else {
        if (!tending->dry_run && !tending->config->dry_run && !(rule && rule->dry_run))
            forget_pace(tending, seen->cookie, loan.copy);
        known->state = KNOWN_LEFT;
    }
    act_give_back(&loan);
    account_say(&tending->account);
}

/* ------------------------------------------------------------------------------- the whole */

static int read_limits(struct tending *tending)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    int error = autobuf_limits_host(&limits);

    if (error == 0)
        tending->limits = limits;
    tending->limits_ns = tending->now_ns + LIMITS_NS;
    return error;
}

void tending_end(struct tending *tending)
{
    while (tending->count) {
        struct tended *t = &tending->tended[tending->count - 1];
        struct loan loan;
        bool borrowed = act_borrow(&t->place, &loan) == 0;

        if (borrowed)
            (void)autobuf_flow_move(t->flow, loan.copy);
        end(tending, tending->count - 1, KNOWN_WAITS, borrowed ? &loan : NULL);
        if (borrowed)
            act_give_back(&loan);
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
        divide_all(tending);
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

    *flow = (struct report_flow){.pid = t->place.pid, .fd = t->place.fd, .user = t->subject.user, .program = t->program,
                                 .unit = t->unit, .rule = t->rule, .dry_run = is_dry(tending, t->rule), .action = t->action,
                                 .action_ns = t->action_ns, .live = state_of(t)};
    report_address(&t->subject.local, flow->local);
    report_address(&t->subject.remote, flow->peer);
}

void tending_close(struct tending *tending)
{
    if (!tending)
        return;
    tending_end(tending);
    lessons_close(tending->lessons);
    free(tending->tended);
    free(tending->demands);
    free(tending->shares);
    free(tending->sharers);
    free(tending);
}

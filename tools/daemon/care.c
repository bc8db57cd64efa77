/* SPDX-License-Identifier: MIT */
#include "care.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "act.h"
#include "cost.h"
#include "divide.h"
#include "owners.h"
#include "sweep.h"
#include "table.h"

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

/* A connection is looked after once it has moved so much in at most a second: slower ones need no larger window. */
#define BULK_BYTES 65536U
#define BULK_NS NS_PER_S
#define NEAR_BYTES 16777216U /* one whose peer is near, or that nobody owns, is left alone for so much more */

#define LOOKS_NS (10 * NS_PER_MS) /* between two rounds of looks, at least */
#define LIMITS_NS (10 * NS_PER_S) /* between two readings of this host's limits */
#define DIVIDE_NS (50 * NS_PER_MS) /* between two rounds of dividing, at least */

/* A socket that is looked after. */
struct tended {
    struct autobuf_flow *flow;
    const struct rule *rule;
    struct place place;
    struct noted was; /* before it was changed */
    struct subject subject; /* program and unit: NULL; they are these: */
    char program[PROCESS_NAME_BYTES], unit[UNIT_BYTES];
    char action[REPORT_TEXT_BYTES]; /* the newest; "": none yet */
    uint64_t action_ns;
    uint64_t share_bytes, told_bytes; /* of its rule's divide=; 0: none yet */
    uint64_t window_bytes;            /* that it uses, smoothed */
    uint64_t share_ns;                /* not changed again before */
};

struct care {
    care_say_fn *say;
    struct state *state;
    const struct config *config;
    bool dry_run;
    struct autobuf_limits limits;
    struct table table;
    struct owners owners;
    struct tended *tended;
    size_t tended_count, tended_room;
    struct wanted *wanted; /* of this round, and what each of them looked like */
    struct seen *candidates;
    size_t wanted_count, wanted_room;
    uint64_t *demands, *shares; /* of those of one rule, which are at these places in tended */
    size_t *sharers, shares_room;
    uint64_t now_ns, sweep_ns, looks_ns, search_ns, limits_ns, divide_ns; /* when each is due */
    uint32_t round;
    int sock_diag;
    bool divides;      /* a rule does */
    bool refused;      /* said that a process may not be touched */
    bool unkept;       /* said that nothing can be kept */
    const struct process *process; /* of what is acted on now, and its socket, for what is said of it */
    const struct place *place;
    const struct rule *rule;
    const char *unit;
    int copy;
    char said[384]; /* by its flow */
    struct report_counts counts;
};

/* When to do again what has taken processor time since then, which is added to its sum. */
static uint64_t after(const struct care *care, uint64_t began_cpu_ns, uint64_t least_ns, uint64_t *sum_ns)
{
    uint64_t took_ns = cost_cpu_ns() - began_cpu_ns, rest_ns = took_ns * COST_PART;

    *sum_ns += took_ns;
    return care->now_ns + (rest_ns > least_ns ? rest_ns : least_ns);
}

/* ---------------------------------------------------------------------------------- saying */

static bool is_dry(const struct care *care, const struct rule *rule)
{
    return care->dry_run || care->config->dry_run || rule->dry_run;
}

static void tell(void *user, const char *text)
{
    struct care *care = user;
    char local[PROCESS_ADDRESS_BYTES], peer[PROCESS_ADDRESS_BYTES], line[768];

    process_addresses(care->copy, local, peer);
    snprintf(line, sizeof line, "%s[%d]:%d %s -> %s: [%s] %s%s", care->process->name, (int)care->place->pid,
             care->place->fd, local, peer, care->rule->name, is_dry(care, care->rule) ? "dry run: " : "", text);
    care->say(line);
}

/* Something was set, or in a dry run would be. */
static void tell_done(void *user, const char *text)
{
    struct care *care = user;

    if (!is_dry(care, care->rule))
        report_count(&care->counts, text);
    tell(care, text);
}

static void tell_failed(struct care *care, int error)
{
    care->counts.failed_actions++;
    tell(care, autobuf_strerror(error));
}

static void keep_action(const struct care *care, struct tended *t)
{
    snprintf(t->action, sizeof t->action, "%.*s", (int)sizeof t->action - 1, care->said);
    t->action_ns = care->now_ns;
}

/* What a flow says is told only if it then sets something. */
static void keep_text(void *user, const char *text)
{
    struct care *care = user;
    size_t used = strlen(care->said);

    snprintf(care->said + used, sizeof care->said - used, "%s%s", used ? "; " : "", text);
}

/* From here on what is said is about this socket. */
static void is_about(struct care *care, const struct loan *loan, const struct place *place, const struct rule *rule)
{
    care->process = &loan->process;
    care->place = place;
    care->rule = rule;
    care->copy = loan->copy;
    care->said[0] = '\0';
}

static void say_refused(struct care *care, int error, pid_t pid)
{
    char line[256];

    if (care->refused)
        return;
    care->refused = true;
    snprintf(line, sizeof line,
             "process %d may not be touched (%s): without CAP_SYS_PTRACE only processes of the daemon's own user can "
             "be reached, and with kernel.yama.ptrace_scope=3 none; others are left alone, too",
             (int)pid, strerror(-error));
    care->say(line);
}

/* ---------------------------------------------------------------------------------- keeping */

/* Something was set on the socket: keeps how it was, or else puts that back. */
static bool keep(struct care *care, int copy, const struct noted *was, bool anew)
{
    int error = is_dry(care, care->rule) ? 0 : state_keep(care->state, was, anew);
    char line[256];

    if (error == 0)
        return true;
    (void)act_restore(copy, was);
    snprintf(line, sizeof line, "%s: %s: what a socket was like cannot be kept, so it is put back and left alone",
             care->state->file, strerror(-error));
    if (!care->unkept)
        care->say(line);
    care->unkept = true;
    return false;
}

/* ---------------------------------------------------------------------------------- tending */

static void end(struct care *care, size_t at, enum known_state state)
{
    struct tended *t = &care->tended[at];
    struct known *known = table_find(&care->table, t->place.cookie);

    autobuf_flow_close(t->flow);
    if (known)
        known->state = state;
    *t = care->tended[--care->tended_count];
}

static bool has_ended(int error)
{
    return error == -EBADF || error == -ENOTSOCK || error == -ESTALE || error == -ENOTCONN || error == -ESRCH ||
           error == -EOPNOTSUPP;
}

/* A flow that its owner has closed, or handed on to another process: the next sweep will tell. */
static void look(struct care *care, size_t at)
{
    struct tended *t = &care->tended[at];
    struct loan loan;
    int result = act_borrow(&t->place, &loan);

    if (result < 0) {
        end(care, at, KNOWN_WAITS);
        return;
    }
    is_about(care, &loan, &t->place, t->rule);
    result = autobuf_flow_move(t->flow, loan.copy);
    if (result == 0)
        result = autobuf_flow_step(t->flow, care->now_ns);
    if (result > 0 && care->said[0]) {
        tell_done(care, care->said);
        keep_action(care, t);
    }
    if (result > 0 && !keep(care, loan.copy, &t->was, false))
        end(care, at, KNOWN_LEFT);
    else if (has_ended(result))
        end(care, at, KNOWN_WAITS);
    act_give_back(&loan);
}

static void look_all(struct care *care)
{
    uint64_t began_ns = cost_cpu_ns();

    for (size_t i = care->tended_count; i > 0; i--)
        if (autobuf_flow_deadline_ns(care->tended[i - 1].flow) <= care->now_ns)
            look(care, i - 1);
    care->looks_ns = after(care, began_ns, LOOKS_NS, &care->counts.looks_cpu_ns);
}

static bool has_room(struct care *care)
{
    size_t room = care->tended_room ? 2 * care->tended_room : 64;
    struct tended *more;

    if (care->tended_count < care->tended_room)
        return true;
    more = realloc(care->tended, room * sizeof *more);
    if (!more)
        return false;
    care->tended = more;
    care->tended_room = room;
    return true;
}

/* -------------------------------------------------------------------------------- dividing */

static bool has_room_for_shares(struct care *care)
{
    size_t room = care->tended_room;
    uint64_t *demands, *shares;
    size_t *sharers;

    if (care->tended_count <= care->shares_room)
        return true;
    demands = realloc(care->demands, room * sizeof *demands);
    care->demands = demands ? demands : care->demands;
    shares = realloc(care->shares, room * sizeof *shares);
    care->shares = shares ? shares : care->shares;
    sharers = realloc(care->sharers, room * sizeof *sharers);
    care->sharers = sharers ? sharers : care->sharers;
    if (!demands || !shares || !sharers)
        return false;
    care->shares_room = room;
    return true;
}

static struct autobuf_live_state state_of(const struct tended *t)
{
    struct autobuf_live_state state = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.live = &state;
    (void)autobuf_flow_state(t->flow, &applied); /* else nothing was seen yet */
    return state;
}

/* What it uses now: in flight, or what arrives in a round trip. */
static void measure_window(struct tended *t, const struct autobuf_live_state *state)
{
    uint64_t window_bytes = state->in_flight_bytes;

    if (state->received_bit_per_s > state->sent_bit_per_s)
        window_bytes = state->rtt_ns == AUTOBUF_NS_UNSET
                           ? 0
                           : (uint64_t)((double)state->received_bit_per_s / 8 * ((double)state->rtt_ns / (double)NS_PER_S));
    t->window_bytes = t->window_bytes ? (3 * t->window_bytes + window_bytes) / 4 : window_bytes;
}

/* Said when it has become twice or half of what was said. */
static void tell_share(struct care *care, struct tended *t, size_t count)
{
    uint64_t was = t->told_bytes;
    char text[128];

    if (was && t->share_bytes / 2 < was && was / 2 < t->share_bytes)
        return;
    t->told_bytes = t->share_bytes;
    snprintf(text, sizeof text, "window of %.2f MB: its share of divide=%.2f MB among %zu", (double)t->share_bytes / 1e6,
             (double)t->rule->divide_bytes / 1e6, count);
    snprintf(care->said, sizeof care->said, "%s", text);
    tell_done(care, text);
    keep_action(care, t);
}

static void share(struct care *care, struct tended *t, size_t count)
{
    struct act act = {.rule = t->rule, .limits = &care->limits, .dry_run = is_dry(care, t->rule), .say = tell_done, .user = care};
    struct autobuf_live_state state = state_of(t);
    struct loan loan;

    if (act_borrow(&t->place, &loan) < 0)
        return; /* its next look ends it */
    is_about(care, &loan, &t->place, t->rule);
    if (act_share(&act, loan.copy, &state, t->window_bytes, t->share_bytes) > 0 && !keep(care, loan.copy, &t->was, false))
        t->share_ns = UINT64_MAX;
    else
        t->share_ns = care->now_ns + (state.rtt_ns == AUTOBUF_NS_UNSET ? 0 : 2 * state.rtt_ns);
    tell_share(care, t, count);
    act_give_back(&loan);
}

/* From this one on, all of its rule. */
static void divide_rule(struct care *care, size_t first)
{
    const struct rule *rule = care->tended[first].rule;
    size_t count = 0;

    for (size_t i = first; i < care->tended_count; i++) {
        struct tended *t = &care->tended[i];
        struct autobuf_live_state state;

        if (t->rule != rule)
            continue;
        state = state_of(t);
        measure_window(t, &state);
        care->demands[count] = t->share_bytes ? divide_demand(t->window_bytes, state.limiter, t->share_bytes) : UINT64_MAX;
        care->sharers[count++] = i;
    }
    divide_shares(rule->divide_bytes, care->demands, care->shares, count);
    for (size_t k = 0; k < count; k++) {
        struct tended *t = &care->tended[care->sharers[k]];

        t->share_bytes = care->shares[k];
        if (care->now_ns >= t->share_ns)
            share(care, t, count);
    }
}

static bool is_first_of_rule(const struct care *care, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (care->tended[i].rule == care->tended[at].rule)
            return false;
    return true;
}

static void divide_all(struct care *care)
{
    uint64_t began_ns = cost_cpu_ns();

    if (has_room_for_shares(care))
        for (size_t i = 0; i < care->tended_count; i++)
            if (care->tended[i].rule->divide_bytes && is_first_of_rule(care, i))
                divide_rule(care, i);
    care->divide_ns = after(care, began_ns, DIVIDE_NS, &care->counts.looks_cpu_ns);
}

/* ------------------------------------------------------------------------------- beginning */

static struct subject subject_of(const struct seen *seen)
{
    return (struct subject){.local = seen->local, .remote = seen->remote, .user = seen->user};
}

static struct autobuf_options options_of(struct care *care, const struct rule *rule, struct autobuf_limits *limits)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    *limits = care->limits;
    /* Half of it is the library's own bound. */
    limits->tcp_mem_bytes = limits->tcp_mem_bytes / 100 * 2 * care->config->budget_percent;
    limits->request_most_bytes = rule->most_bytes;
    options.intent = rule->intent;
    options.flags = AUTOBUF_FLOW_SILENT | (rule->mode == MODE_PATH ? 0 : AUTOBUF_FLOW_NO_STORE) |
                    (is_dry(care, rule) || rule->divide_bytes ? AUTOBUF_FLOW_LOOK_ONLY : 0);
    options.limits = limits;
    options.most_bytes = rule->most_bytes;
    options.log = keep_text;
    options.log_user = care;
    return options;
}

/* Opens the flow of a borrowed socket. The state that the socket has from now on. */
static enum known_state open_flow(struct care *care, const struct seen *seen, const struct rule *rule,
                                  const struct place *place, const struct noted *was, int copy)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_limits limits;
    struct autobuf_options options = options_of(care, rule, &limits);
    struct tended t = {.rule = rule, .place = *place, .was = *was, .subject = subject_of(seen)};
    int error = has_room(care) ? autobuf_flow_open(&t.flow, copy, NULL, 0, &options) : -ENOMEM;

    if (error < 0) {
        tell_failed(care, error);
        return KNOWN_LEFT;
    }
    if (autobuf_flow_state(t.flow, &applied) == 0 && (applied.changes || is_dry(care, rule)) && care->said[0]) {
        tell_done(care, care->said);
        keep_action(care, &t);
    }
    if (applied.changes && !keep(care, copy, was, seen->remote.version == 0)) {
        autobuf_flow_close(t.flow);
        return KNOWN_LEFT;
    }
    if (seen->remote.version == 0) {
        autobuf_flow_close(t.flow);
        return KNOWN_WAITS;
    }
    snprintf(t.program, sizeof t.program, "%s", care->process->name);
    snprintf(t.unit, sizeof t.unit, "%s", care->unit);
    care->counts.taken_up++;
    care->tended[care->tended_count++] = t;
    return KNOWN_TENDED;
}

/* What is done with a socket that is borrowed. */
static enum known_state take_up(struct care *care, const struct seen *seen, struct known *known,
                                const struct rule *rule, const struct place *place, int copy)
{
    struct autobuf_limits limits = care->limits;
    struct act act = {.rule = rule, .limits = &limits, .dry_run = is_dry(care, rule), .say = tell_done, .user = care};
    struct noted was;
    int result;

    limits.request_most_bytes = rule->most_bytes;
    if (rule->mode != MODE_FIXED && !rule->pace_bit_per_s && !rule->congestion_control[0] && !rule->divide_bytes && seen->remote.version &&
        act_is_near(copy, &limits, rule->intent)) {
        known->next_bytes = seen->moved_bytes + NEAR_BYTES;
        care->counts.refused[REPORT_NEAR]++;
        return KNOWN_WAITS;
    }
    result = act_read(&act, copy, place->cookie, &was);
    if (result < 0) {
        tell_failed(care, result);
        return KNOWN_LEFT;
    }
    result = act_fixed(&act, copy);
    if (result < 0)
        tell_failed(care, result);
    if (result && !keep(care, copy, &was, seen->remote.version == 0)) /* also one that failed can have set a part */
        return KNOWN_LEFT;
    return rule->mode == MODE_FIXED ? KNOWN_LEFT : open_flow(care, seen, rule, place, &was, copy);
}

static void remember_sizes(struct known *known, int copy)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (autobuf_socket_state(copy, &now) < 0)
        return;
    known->snd_buf_bytes = (uint32_t)now.snd_buf_bytes;
    known->rcv_buf_bytes = (uint32_t)now.rcv_buf_bytes;
}

/* The owner is known. */
static void begin(struct care *care, const struct seen *seen, const struct wanted *wanted)
{
    struct place place = {.cookie = seen->cookie, .pid = wanted->pid, .fd = wanted->fd};
    struct known *known = table_find(&care->table, seen->cookie);
    struct subject subject = subject_of(seen);
    const struct rule *rule;
    struct loan loan;
    char unit[UNIT_BYTES];
    int error;

    if (!known)
        return;
    error = act_borrow(&place, &loan);
    if (error == -EPERM || error == -EACCES) {
        say_refused(care, error, place.pid);
        known->state = KNOWN_LEFT;
        care->counts.refused[REPORT_NOT_PERMITTED]++;
    } else if (error < 0) {
        care->counts.refused[REPORT_GONE]++;
        known->state = KNOWN_WAITS; /* it was closed, or handed on, in between */
    }
    if (error < 0)
        return;
    owners_unit(place.pid, unit);
    subject.program = loan.process.name;
    subject.unit = unit;
    rule = rules_find(care->config, &subject);
    if (rule && rule->mode != MODE_OFF) {
        is_about(care, &loan, &place, rule);
        care->unit = unit;
        known->state = take_up(care, seen, known, rule, &place, loan.copy);
    } else {
        known->state = KNOWN_LEFT;
    }
    remember_sizes(known, loan.copy);
    act_give_back(&loan);
}

/* ------------------------------------------------------------------------------- sweeping */

static bool want_room(struct care *care)
{
    size_t room = care->wanted_room ? 2 * care->wanted_room : 64;
    struct wanted *wanted;
    struct seen *candidates;

    if (care->wanted_count < care->wanted_room)
        return true;
    wanted = realloc(care->wanted, room * sizeof *wanted);
    if (wanted)
        care->wanted = wanted;
    candidates = wanted ? realloc(care->candidates, room * sizeof *candidates) : NULL;
    if (!candidates)
        return false;
    care->candidates = candidates;
    care->wanted_room = room;
    return true;
}

/* Looks for its owner, if a rule may act on it. */
static void want(struct care *care, const struct seen *seen, struct known *known)
{
    struct subject subject = subject_of(seen);

    if (!rules_may_act(care->config, &subject)) {
        known->state = KNOWN_LEFT;
        return;
    }
    known->state = KNOWN_WANTED;
    if (!seen->inode || !want_room(care))
        return;
    care->candidates[care->wanted_count] = *seen;
    care->wanted[care->wanted_count] = (struct wanted){.inode = seen->inode, .index = care->wanted_count};
    care->wanted_count++;
}

/* A listener is looked at once, and again when its sizes have changed. That they were set is not seen from outside. */
static bool has_new_sizes(const struct seen *seen, const struct known *known)
{
    return seen->snd_buf_bytes != known->snd_buf_bytes || seen->rcv_buf_bytes != known->rcv_buf_bytes;
}

/* Whether it has carried bulk data since the last mark. */
static bool is_bulk(const struct care *care, const struct seen *seen, struct known *known)
{
    uint64_t moved_bytes = seen->moved_bytes - known->mark_bytes, took_ns = care->now_ns - known->marked_ns;
    bool bulk = moved_bytes >= BULK_BYTES && took_ns <= BULK_NS && seen->moved_bytes >= known->next_bytes;

    if (moved_bytes >= BULK_BYTES || took_ns > BULK_NS) {
        known->mark_bytes = seen->moved_bytes;
        known->marked_ns = care->now_ns;
    }
    return bulk;
}

static void take(void *user, const struct seen *seen)
{
    struct care *care = user;
    struct known *known = table_make(&care->table, seen->cookie);
    bool wanted = false;

    if (!known)
        return;
    known->round = care->round;
    if (known->state == KNOWN_NEW) {
        known->state = KNOWN_WAITS;
        known->marked_ns = care->now_ns;
        known->mark_bytes = care->round == 1 ? seen->moved_bytes : 0; /* else it is younger than a sweep */
    }
    if (known->state == KNOWN_WAITS)
        wanted = seen->remote.version ? is_bulk(care, seen, known) : has_new_sizes(seen, known);
    if (wanted || known->state == KNOWN_WANTED)
        want(care, seen, known);
}

/* No process has it: it is the kernel's own, or its owner cannot be seen from here. */
static void give_up(struct care *care, const struct seen *seen)
{
    struct known *known = table_find(&care->table, seen->cookie);

    if (!known)
        return;
    care->counts.refused[REPORT_NO_OWNER]++;
    known->state = KNOWN_WAITS;
    known->next_bytes = seen->moved_bytes + NEAR_BYTES;
    known->snd_buf_bytes = seen->snd_buf_bytes;
    known->rcv_buf_bytes = seen->rcv_buf_bytes;
}

/* What is wanted while no search is due is wanted by the next sweep, too. */
static void search(struct care *care)
{
    uint64_t began_ns = cost_cpu_ns();

    if (!care->wanted_count || care->now_ns < care->search_ns)
        return;
    owners_find(&care->owners, care->wanted, care->wanted_count);
    care->search_ns = after(care, began_ns, 0, &care->counts.searches_cpu_ns);
    for (size_t i = 0; i < care->wanted_count; i++) {
        const struct seen *seen = &care->candidates[care->wanted[i].index];

        if (care->wanted[i].pid)
            begin(care, seen, &care->wanted[i]);
        else
            give_up(care, seen);
    }
}

static bool is_known(void *user, uint64_t cookie)
{
    const struct care *care = user;

    return table_find(&care->table, cookie);
}

/* What is kept of sockets that are no more goes. If it fails now, it is tried again later. */
static void retain(struct care *care)
{
    if (state_is_long(care->state))
        (void)state_retain(care->state, is_known, care);
}

static int see(struct care *care)
{
    uint64_t began_ns = cost_cpu_ns();
    int error;

    care->round++;
    care->wanted_count = 0;
    error = care->sock_diag < 0 ? care->sock_diag : sweep(care->sock_diag, take, care);
    if (error == 0) {
        table_forget(&care->table, care->round);
        care->counts.sockets = care->table.count;
        retain(care);
    } else { /* what is left of that answer must not be taken for the next one */
        if (care->sock_diag >= 0)
            close(care->sock_diag);
        care->sock_diag = sweep_open();
    }
    care->sweep_ns = after(care, began_ns, care->config->interval_ms * NS_PER_MS, &care->counts.sweeps_cpu_ns);
    care->counts.sweeps++;
    care->counts.failed_sweeps += error < 0;
    if (error == 0)
        search(care);
    return error;
}

/* --------------------------------------------------------------------------------- the whole */

int care_open(struct care **care, struct state *state, care_say_fn *say)
{
    struct care *c = calloc(1, sizeof *c);

    *care = NULL;
    if (!c)
        return -ENOMEM;
    c->say = say;
    c->state = state;
    c->sock_diag = sweep_open();
    if (c->sock_diag < 0) {
        int error = c->sock_diag;

        free(c);
        return error;
    }
    *care = c;
    return 0;
}

static int read_limits(struct care *care)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    int error = autobuf_limits_host(&limits);

    if (error == 0)
        care->limits = limits;
    care->limits_ns = care->now_ns + LIMITS_NS;
    return error;
}

static void end_all(struct care *care)
{
    while (care->tended_count) {
        struct tended *t = &care->tended[care->tended_count - 1];
        struct loan loan;
        bool borrowed = act_borrow(&t->place, &loan) == 0;

        if (borrowed)
            (void)autobuf_flow_move(t->flow, loan.copy);
        if (borrowed && t->share_bytes && !is_dry(care, t->rule)) /* nobody sees to it any more that shares are right */
            (void)act_restore_sizes(loan.copy, &t->was);
        end(care, care->tended_count - 1, KNOWN_WAITS); /* puts the pace back */
        if (borrowed)
            act_give_back(&loan);
    }
}

void care_forget(struct care *care)
{
    end_all(care);
    table_free(&care->table);
    care->config = NULL;
}

/* Says what cannot be done in full: nothing of another program's connection can be set before its SYN. */
static void say_limits_of_rules(const struct care *care)
{
    for (size_t i = 0; i < care->config->count; i++) {
        const struct rule *rule = &care->config->rules[i];
        char line[RULE_NAME_BYTES + 192];

        if (!rule->rcv_bytes)
            continue;
        snprintf(line, sizeof line, "[%s]: rcvbuf holds in full for what a listening socket accepts later; on other "
                 "connections as far as the window scale of their SYN allows", rule->name);
        care->say(line);
    }
}

int care_rules(struct care *care, const struct config *config, bool dry_run)
{
    care->round = 0;
    care->refused = false;
    care->config = config;
    care->dry_run = dry_run;
    care->sweep_ns = 0;
    care->divides = false;
    for (size_t i = 0; i < config->count; i++)
        care->divides = care->divides || config->rules[i].divide_bytes;
    say_limits_of_rules(care);
    return read_limits(care);
}

int care_step(struct care *care, uint64_t now_ns)
{
    care->now_ns = now_ns;
    if (now_ns >= care->limits_ns)
        (void)read_limits(care); /* else the old ones hold */
    if (care->tended_count && now_ns >= care->looks_ns)
        look_all(care);
    if (care->divides && care->tended_count && now_ns >= care->divide_ns)
        divide_all(care);
    return now_ns >= care->sweep_ns ? see(care) : 0;
}

uint64_t care_deadline_ns(const struct care *care)
{
    uint64_t look_ns = UINT64_MAX;

    for (size_t i = 0; i < care->tended_count; i++) {
        uint64_t due_ns = autobuf_flow_deadline_ns(care->tended[i].flow);

        look_ns = due_ns < look_ns ? due_ns : look_ns;
    }
    if (look_ns < care->looks_ns)
        look_ns = care->looks_ns;
    if (care->divides && care->tended_count && care->divide_ns < look_ns)
        look_ns = care->divide_ns;
    return look_ns < care->sweep_ns ? look_ns : care->sweep_ns;
}

const struct report_counts *care_counts(const struct care *care)
{
    return &care->counts;
}

size_t care_tended(const struct care *care)
{
    return care->tended_count;
}

void care_flow(const struct care *care, size_t at, struct report_flow *flow)
{
    const struct tended *t = &care->tended[at];

    *flow = (struct report_flow){.pid = t->place.pid, .fd = t->place.fd, .user = t->subject.user, .program = t->program,
                                 .unit = t->unit, .rule = t->rule, .dry_run = is_dry(care, t->rule), .action = t->action,
                                 .action_ns = t->action_ns, .live = state_of(t)};
    report_address(&t->subject.local, flow->local);
    report_address(&t->subject.remote, flow->peer);
}

void care_close(struct care *care)
{
    if (!care)
        return;
    care_forget(care);
    free(care->tended);
    free(care->wanted);
    free(care->candidates);
    free(care->demands);
    free(care->shares);
    free(care->sharers);
    if (care->sock_diag >= 0)
        close(care->sock_diag);
    free(care);
}

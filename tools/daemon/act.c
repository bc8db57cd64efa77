/* SPDX-License-Identifier: MIT */
#include "act.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../../lib/base/option.h"
#include "../../lib/kernel/limits.h"
#include "log.h"

/* On a path so short that half of autotuning's window allows this rate nothing is to be gained. */
#define NEAR_BIT_PER_S 20000000000ULL
#define NEAR_NS_MOST 10000000U

#define REQUEST_MOST_BYTES 0x3fffffffU /* the kernel doubles it, in an int */

#define ONE_SHARE 8U /* of the memory at which TCP's pressure begins one forced buffer holds one part in so many, */
#define FORCED_SHARE 2U /* and all of them, with what TCP holds */

#define CUT "..." /* of what is said */

/* ------------------------------------------------------------------------------ what is said */

static void say(struct account *account, const char *text)
{
    char local[PROCESS_ADDRESS_BYTES], peer[PROCESS_ADDRESS_BYTES];

    process_addresses(account->copy, local, peer);
    log_line("%s[%d]:%d %s -> %s: [%s] %s%s", account->owner->program, (int)account->owner->pid, account->owner->fd,
             local, peer, account->rule->name, account->rule->dry_run ? "dry run: " : "", text);
}

void account_about(struct account *account, int copy, const struct owner *owner, const struct rule *rule)
{
    log_wait();
    *account = (struct account){.counts = account->counts, .owner = owner, .rule = rule, .copy = copy};
}

/* Of events that only say what is known, and of plans that leave a side as it is: none. */
static unsigned kind_of(const struct autobuf_event *event)
{
    static const enum report_kind kinds[] = {
        [AUTOBUF_EVENT_SET] = REPORT_BUFFERS,         [AUTOBUF_EVENT_RESIZED] = REPORT_BUFFERS,
        [AUTOBUF_EVENT_GIVEN_BACK] = REPORT_GIVEN_BACK, [AUTOBUF_EVENT_PACED] = REPORT_PACE,
        [AUTOBUF_EVENT_UNSENT] = REPORT_OTHER,         [AUTOBUF_EVENT_WINDOW] = REPORT_OTHER,
    };

    if (event->what == ACT_CONTROL)
        return event->error ? 0 : 1U << REPORT_CONTROL;
    return event->what > AUTOBUF_EVENT_LEFT && event->what <= AUTOBUF_EVENT_WINDOW ? 1U << kinds[event->what] : 0;
}

/* Adds to it as much as there is room for, and cuts the rest off behind a word. */
static void append(char text[REPORT_TEXT_BYTES], const char *between, const char *more)
{
    size_t used = strlen(text);
    char *end = text + REPORT_TEXT_BYTES - sizeof CUT, *word;

    if (used + 1 >= sizeof CUT && strcmp(text + used + 1 - sizeof CUT, CUT) == 0)
        return;
    if (snprintf(text + used, REPORT_TEXT_BYTES - used, "%s%s", used ? between : "", more) <
        (int)(REPORT_TEXT_BYTES - used))
        return;
    *end = '\0';
    word = strrchr(text, ' ');
    strcpy(word ? word : end, CUT);
}

static void add(struct account *account, const char *between, const struct autobuf_event *event)
{
    char text[AB_LOG_BYTES];

    if (!event->text)
        ab_event_say(event, text, sizeof text);
    append(account->text, between, event->text ? event->text : text);
    account->kinds |= kind_of(event);
    account->failed += event->what == ACT_CONTROL && event->error;
}

void account_part(void *account, const struct autobuf_event *event)
{
    add(account, "; ", event);
}

void account_line(void *account, const struct autobuf_event *event)
{
    add(account, "\n", event);
}

void account_tell(struct account *account)
{
    char lines[sizeof account->text], *rest = lines, *line;

    memcpy(lines, account->text, sizeof lines);
    while ((line = strsep(&rest, "\n")))
        if (line[0])
            say(account, line);
    for (unsigned kind = 0; !account->rule->dry_run && kind < REPORT_KINDS; kind++)
        account->counts->actions[kind] += account->kinds >> kind & 1;
    account->counts->failed_actions += account->rule->dry_run ? 0 : account->failed;
    account->kinds = account->failed = 0;
}

void account_failed(struct account *account, int error)
{
    account->counts->failed_actions++;
    say(account, autobuf_strerror(error));
}

/* ------------------------------------------------------------------------------ what is done */

uint64_t act_forced_most(const struct autobuf_limits *limits)
{
    return limits->tcp_mem_bytes / FORCED_SHARE;
}

uint64_t act_forced_bytes(const struct autobuf_limits *limits, uint64_t snd_buf_bytes, uint64_t rcv_buf_bytes)
{
    return ab_forced_of(snd_buf_bytes, rcv_buf_bytes, ab_unforced_sndbuf(limits), ab_unforced_rcvbuf(limits));
}

bool act_is_near(int copy, const struct autobuf_limits *limits, uint32_t intent)
{
    uint64_t window_bytes = ab_min(limits->tcp_wmem_max_bytes, limits->tcp_rmem_max_bytes) / 2;
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;

    if (intent != AUTOBUF_INTENT_THROUGHPUT || autobuf_socket_state(copy, &now) < 0 || now.locks || !now.rtt_min_ns ||
        now.rtt_min_ns > NEAR_NS_MOST)
        return false;
    return 8 * window_bytes > NEAR_BIT_PER_S / 1000000U * now.rtt_min_ns / 1000U;
}

static void say_set(struct account *account, uint32_t event, const char *what, uint64_t value)
{
    char text[96];

    snprintf(text, sizeof text, "sets %s %llu", what, (unsigned long long)value);
    account_line(account, &(struct autobuf_event){.what = event, .text = text});
}

uint64_t act_most_bytes(const struct autobuf_limits *l, const struct autobuf_socket *now, bool snd,
                        uint64_t beside_bytes)
{
    uint64_t settable_bytes = snd ? l->snd_settable_bytes : l->rcv_settable_bytes;
    uint64_t now_bytes = snd ? now->snd_buf_bytes : now->rcv_buf_bytes;
    uint64_t own = now_bytes > (snd ? ab_unforced_sndbuf(l) : ab_unforced_rcvbuf(l)) ? now_bytes : 0;
    uint64_t held = ab_max(l->tcp_used_bytes, l->forced_bytes - ab_min(l->forced_bytes, own));
    uint64_t all = act_forced_most(l), taken = ab_min(all, held);

    if (!(l->flags & AUTOBUF_LIMITS_FORCE) || now->stage == AUTOBUF_STAGE_LISTENING)
        return settable_bytes;
    taken += ab_min(all - taken, beside_bytes);
    return ab_max(settable_bytes, ab_min(ab_min(l->tcp_mem_bytes / ONE_SHARE, all - taken) / 2, REQUEST_MOST_BYTES));
}

void act_bound_requests(const struct autobuf_limits *limits, const struct autobuf_socket *now,
                        struct autobuf_plan *plan)
{
    uint64_t beside_bytes = 0;

    plan->snd_request_bytes = ab_min(plan->snd_request_bytes, act_most_bytes(limits, now, true, 0));
    if (plan->snd_request_bytes > limits->snd_settable_bytes) {
        plan->flags |= AUTOBUF_PLAN_SND_FORCE;
        beside_bytes = 2 * plan->snd_request_bytes;
    }
    plan->rcv_request_bytes = ab_min(plan->rcv_request_bytes, act_most_bytes(limits, now, false, beside_bytes));
    if (plan->rcv_request_bytes > limits->rcv_settable_bytes)
        plan->flags |= AUTOBUF_PLAN_RCV_FORCE;
}

/* What a rule of mode fixed asks for, as far as this host allows it. */
static struct autobuf_plan plan_fixed(const struct rule *rule, const struct autobuf_limits *limits,
                                      const struct autobuf_socket *now)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    plan.snd_pacing_bit_per_s = rule->pace_bit_per_s;
    plan.snd_request_bytes = rule->snd_bytes;
    plan.rcv_request_bytes = rule->rcv_bytes;
    act_bound_requests(limits, now, &plan);
    if (now->stage == AUTOBUF_STAGE_CONNECTED) { /* its window opens only together with its clamp, and never shrinks */
        plan.rcv_clamp_bytes = plan.rcv_request_bytes;
        if (2 * plan.rcv_request_bytes < now->rcv_buf_bytes)
            plan.rcv_request_bytes = plan.rcv_clamp_bytes = 0;
    }
    return plan;
}

static void say_plan(struct account *account, const struct autobuf_plan *plan)
{
    if (plan->snd_request_bytes)
        say_set(account, AUTOBUF_EVENT_SET, plan->flags & AUTOBUF_PLAN_SND_FORCE ? "SO_SNDBUFFORCE" : "SO_SNDBUF",
                plan->snd_request_bytes);
    if (plan->rcv_request_bytes)
        say_set(account, AUTOBUF_EVENT_SET, plan->flags & AUTOBUF_PLAN_RCV_FORCE ? "SO_RCVBUFFORCE" : "SO_RCVBUF",
                plan->rcv_request_bytes);
    if (plan->snd_pacing_bit_per_s)
        say_set(account, AUTOBUF_EVENT_PACED, "a pace of bit/s:", plan->snd_pacing_bit_per_s);
}

/* The congestion control. */
static void read_control(int copy, char control[BROKER_CONTROL_BYTES])
{
    socklen_t length = BROKER_CONTROL_BYTES - 1;

    memset(control, 0, BROKER_CONTROL_BYTES);
    if (getsockopt(copy, IPPROTO_TCP, TCP_CONGESTION, control, &length) < 0)
        control[0] = '\0';
}

/* One that is refused, or not there, is said; all else is done. Returns 1: it was set. */
static int set_control(struct account *account)
{
    const char *wanted = account->rule->congestion_control;
    char now[BROKER_CONTROL_BYTES], text[96];
    int error = 0;

    read_control(account->copy, now);
    if (!wanted[0] || strcmp(now, wanted) == 0)
        return 0;
    if (!account->rule->dry_run &&
        setsockopt(account->copy, IPPROTO_TCP, TCP_CONGESTION, wanted, (socklen_t)strlen(wanted)) < 0)
        error = errno;
    if (error)
        snprintf(text, sizeof text, "congestion control %s: %s", wanted, strerror(error));
    else
        snprintf(text, sizeof text, "sets congestion control %s, was %s", wanted, now);
    account_line(account, &(struct autobuf_event){.what = ACT_CONTROL, .error = -error, .text = text});
    return !error;
}

int act_fixed(struct account *account, const struct autobuf_limits *limits)
{
    struct autobuf_socket now = AUTOBUF_SOCKET_INIT;
    int control = set_control(account), result = autobuf_socket_state(account->copy, &now);
    struct autobuf_plan plan;

    if (result < 0)
        return result;
    plan = plan_fixed(account->rule, limits, &now);
    result = account->rule->dry_run ? 1 : autobuf_apply(account->copy, &plan);
    if (result > 0)
        say_plan(account, &plan);
    return result ? result : control;
}

int act_read(const struct account *account, struct noted *noted)
{
    *noted = (struct noted){.cookie = account->owner->cookie, .settings = AUTOBUF_SETTINGS_INIT};
    if (account->rule->congestion_control[0])
        read_control(account->copy, noted->control);
    return autobuf_settings_read(account->copy, &noted->settings);
}

void act_bound(const struct autobuf_limits *l, const struct autobuf_settings *now, struct autobuf_settings *was)
{
    uint64_t forced_bytes = l->tcp_mem_bytes / ONE_SHARE; /* what one forced buffer may have */

    was->snd_buf_bytes =
        ab_min(was->snd_buf_bytes, ab_max(ab_max(now->snd_buf_bytes, ab_unforced_sndbuf(l)), forced_bytes));
    was->rcv_buf_bytes =
        ab_min(was->rcv_buf_bytes, ab_max(ab_max(now->rcv_buf_bytes, ab_unforced_rcvbuf(l)), forced_bytes));
}

int act_restore(int copy, const struct noted *noted)
{
    int error = autobuf_settings_restore(copy, &noted->settings);
    char now[BROKER_CONTROL_BYTES];

    read_control(copy, now);
    if (!noted->control[0] || strcmp(now, noted->control) == 0)
        return error;
    if (setsockopt(copy, IPPROTO_TCP, TCP_CONGESTION, noted->control, (socklen_t)strlen(noted->control)) < 0 &&
        error == 0)
        error = -errno;
    return error;
}

uint64_t act_pace(int copy)
{
    uint64_t value = 0;

    if (ab_get_pacing(copy, &value) < 0)
        return 0;
    return value ? value : UINT64_MAX;
}

int act_set_pace(int copy, uint64_t byte_per_s)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    plan.snd_pacing_bit_per_s = byte_per_s > UINT64_MAX / 8 ? UINT64_MAX : 8 * byte_per_s;
    return autobuf_apply(copy, &plan);
}

int act_open_window(int copy, const struct autobuf_settings *kept)
{
    struct autobuf_settings now = AUTOBUF_SETTINGS_INIT;
    int error = autobuf_settings_read(copy, &now);

    if (error < 0 || kept->locks & AUTOBUF_LOCK_RCV || !(now.locks & AUTOBUF_LOCK_RCV) ||
        now.rcv_clamp_bytes >= now.rcv_buf_bytes / 2)
        return error;
    now.locks &= ~AUTOBUF_LOCK_RCV;
    now.rcv_buf_bytes = kept->rcv_buf_bytes; /* it may have grown since */
    now.rcv_clamp_bytes = kept->rcv_clamp_bytes;
    return autobuf_settings_restore(copy, &now);
}

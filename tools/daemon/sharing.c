/* SPDX-License-Identifier: MIT */
#include "managed.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../lib/base/base.h"
#include "../print.h"
#include "log.h"

#define DIVIDE_NS (50 * AB_NS_PER_MS) /* between two rounds of dividing, at least */
#define FAILED_NS AB_NS_PER_S /* before a share that cannot be set is tried again */

static bool receives(const struct autobuf_live_state *state)
{
    return state->received_bit_per_s > state->sent_bit_per_s;
}

/* What it uses now: in flight, or what arrives in a round trip. */
static void measure_window(struct managed *t, const struct autobuf_live_state *state)
{
    uint64_t window_bytes = state->in_flight_bytes;

    if (receives(state))
        window_bytes =
            state->rtt_ns == AUTOBUF_NS_UNSET
                ? 0
                : (uint64_t)((double)state->received_bit_per_s / 8 * ((double)state->rtt_ns / (double)AB_NS_PER_S));
    t->window_bytes = t->window_bytes ? (3 * t->window_bytes + window_bytes) / 4 : window_bytes;
}

/* Said when it has become twice or half of what was said. */
static void tell_share(struct manager *manager, struct managed *t, size_t count)
{
    uint64_t was = t->told_bytes == UINT64_MAX ? 0 : t->told_bytes;
    char text[128];

    if (was && t->share_bytes / 2 < was && was / 2 < t->share_bytes)
        return;
    t->told_bytes = t->share_bytes;
    snprintf(text, sizeof text, "window of %sB: its share of divide=%sB among %zu", SCALED(t->share_bytes),
             SCALED(t->rule->divide_bytes), count);
    manager->account.text[0] = '\0';
    account_line(&manager->account, &(struct autobuf_event){.what = AUTOBUF_EVENT_UNSENT, .text = text});
    managed_tell(manager, t);
}

/*
 * Brings the window of a connection to its share: of one that receives by its clamp, which autotuning raises again, so
 * it is set each time; of one that sends by its pace. One that is paced stays so, whatever it does now. 1: it set
 * something; 0: it is right; errors of autobuf_apply(). *pace_byte_per_s: the pace that it was given now; 0: none.
 */
static int apply_share(const struct manager *manager, const struct managed *t, int copy,
                       const struct autobuf_live_state *state, uint64_t *pace_byte_per_s)
{
    const struct autobuf_limits *limits = &manager->limits;
    bool sends = !receives(state) && state->sent_bit_per_s;
    struct autobuf_socket now = {.stage = AUTOBUF_STAGE_CONNECTED, .snd_buf_bytes = state->snd_buf_bytes};
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    uint64_t pace = 0;
    int result;

    if (receives(state))
        plan.rcv_clamp_bytes = t->share_bytes;
    if (sends && t->was.settings.locks & AUTOBUF_LOCK_SND) /* its program has set its send buffer */
        plan.snd_request_bytes =
            divide_request(t->share_bytes, act_most_bytes(limits, &now, true, 0), state->snd_buf_bytes);
    if ((sends || t->paces) && state->rtt_ns != AUTOBUF_NS_UNSET)
        pace = divide_pace(t->share_bytes, state->rtt_ns, t->own_byte_per_s, act_pace(copy));
    plan.snd_pacing_bit_per_s = 8 * pace;
    act_bound_requests(limits, &now, &plan);
    result = t->rule->dry_run ? 0 : autobuf_apply(copy, &plan);
    *pace_byte_per_s = result > 0 ? pace : 0;
    return result;
}

static void set_share(struct manager *manager, struct managed *t, size_t count)
{
    struct autobuf_live_state state = managed_state(t);
    int copy = broker_borrow(&t->owner), result;
    uint64_t pace_byte_per_s;

    if (copy < 0)
        return; /* its next sample ends it */
    managed_is_about(manager, copy, &t->owner, t->rule, t->subject.user);
    managed_note_own_pace(manager, t, copy);
    result = apply_share(manager, t, copy, &state, &pace_byte_per_s);
    if (result > 0)
        managed_note_forced(manager, copy, t->subject.user, state.snd_buf_bytes, state.rcv_buf_bytes);
    if (result > 0 && !managed_keep(manager, copy, &t->was)) {
        (void)act_set_pace(copy, t->own_byte_per_s); /* which may be newer than what was put back */
        t->share_ns = UINT64_MAX;
    } else if (pace_byte_per_s) {
        managed_note_pace(manager, t, pace_byte_per_s == t->own_byte_per_s ? 0 : pace_byte_per_s);
    }
    if (t->share_ns != UINT64_MAX)
        t->share_ns = manager->now_ns + (state.rtt_ns == AUTOBUF_NS_UNSET ? 0 : 2 * state.rtt_ns);
    if (result < 0) {
        t->share_ns = manager->now_ns + FAILED_NS;
        if (t->told_bytes != UINT64_MAX) /* once */
            account_failed(&manager->account, result);
        t->told_bytes = UINT64_MAX;
    } else if (t->share_ns != UINT64_MAX) {
        tell_share(manager, t, count);
    }
    process_give_back(copy);
    log_go_on();
}

/* From this one on, all of its rule. Without memory each keeps its share. */
static void divide_rule(struct manager *manager, size_t first)
{
    const struct rule *rule = manager->managed[first].rule;
    uint64_t *demands = calloc(2 * manager->count, sizeof *demands),
             *shares = demands ? demands + manager->count : NULL;
    size_t count = 0, at = 0;

    for (size_t i = first; demands && i < manager->count; i++) {
        struct managed *t = &manager->managed[i];
        struct autobuf_live_state state;
        uint64_t most_bytes;

        if (t->rule != rule)
            continue;
        state = managed_state(t);
        measure_window(t, &state);
        most_bytes =
            receives(&state) || !t->own_byte_per_s ? UINT64_MAX : divide_paced(t->own_byte_per_s, state.rtt_ns);
        demands[count++] =
            t->share_bytes ? divide_demand(t->window_bytes, state.bottleneck, t->share_bytes, most_bytes) : UINT64_MAX;
    }
    divide_shares(rule->divide_bytes, demands, shares, count);
    for (size_t i = first; at < count; i++) {
        struct managed *t = &manager->managed[i];

        if (t->rule != rule)
            continue;
        t->share_bytes = shares[at++];
        if (manager->now_ns >= t->share_ns)
            set_share(manager, t, count);
    }
    free(demands);
}

static bool is_first_of_rule(const struct manager *manager, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (manager->managed[i].rule == manager->managed[at].rule)
            return false;
    return true;
}

void sharing_divide(struct manager *manager)
{
    uint64_t began_ns = cost_cpu_ns();

    for (size_t i = 0; i < manager->count; i++)
        if (manager->managed[i].rule->divide_bytes && is_first_of_rule(manager, i))
            divide_rule(manager, i);
    manager->divide_ns = cost_after(manager->now_ns, began_ns, DIVIDE_NS, &manager->counts.sampling_cpu_ns);
}

/* Buffers, locks and the clamp, and not the pace that the socket has now. */
static void restore_sizes(const struct managed *t, int copy)
{
    struct autobuf_settings now = AUTOBUF_SETTINGS_INIT, sizes = t->was.settings;

    if (autobuf_settings_read(copy, &now) < 0)
        return;
    sizes.pacing_byte_per_s = now.pacing_byte_per_s;
    (void)autobuf_settings_restore(copy, &sizes);
}

void sharing_put_back(struct managed *t, int copy)
{
    restore_sizes(t, copy);
    if (t->paces && act_pace(copy) == t->left_byte_per_s)
        (void)act_set_pace(copy, t->own_byte_per_s);
}

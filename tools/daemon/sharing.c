/* SPDX-License-Identifier: MIT */
#include "tended.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../lib/base/base.h"
#include "broker.h"
#include "divide.h"
#include "log.h"

#define DIVIDE_NS (50 * AB_NS_PER_MS) /* between two rounds of dividing, at least */
#define FAILED_NS AB_NS_PER_S /* before a share that cannot be set is tried again */

/* What it uses now: in flight, or what arrives in a round trip. */
static void measure_window(struct tended *t, const struct autobuf_live_state *state)
{
    uint64_t window_bytes = state->in_flight_bytes;

    if (act_receives(state))
        window_bytes = state->rtt_ns == AUTOBUF_NS_UNSET
                           ? 0
                           : (uint64_t)((double)state->received_bit_per_s / 8 * ((double)state->rtt_ns / (double)AB_NS_PER_S));
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
    account_line(&tending->account, &(struct autobuf_event){.what = AUTOBUF_EVENT_UNSENT, .text = text});
    account_tell(&tending->account);
    tended_keep_action(tending, t);
}

static void set_share(struct tending *tending, struct tended *t, size_t count)
{
    struct act act = {.rule = t->rule, .limits = &tending->limits, .dry_run = tended_is_dry(tending, t->rule), .say = account_line,
                      .user = &tending->account};
    struct autobuf_live_state state = tended_state(t);
    struct share share;
    int copy = broker_borrow(&t->owner), result;

    if (copy < 0)
        return; /* its next sample ends it */
    tended_is_about(tending, copy, &t->owner, t->rule, t->subject.user);
    tended_note_own_pace(tending, t, copy);
    share = (struct share){.bytes = t->share_bytes, .own_byte_per_s = t->own_byte_per_s, .paced = t->paces,
                           .locked = t->was.settings.locks & AUTOBUF_LOCK_SND};
    result = act_share(&act, copy, &state, &share);
    if (result > 0)
        tended_note_forced(tending, copy, t->subject.user, state.snd_buf_bytes, state.rcv_buf_bytes);
    if (result > 0 && !tended_keep(tending, copy, &t->was)) {
        (void)act_set_pace(copy, t->own_byte_per_s); /* which may be newer than what was put back */
        t->share_ns = UINT64_MAX;
    } else if (share.set_byte_per_s) {
        tended_note_pace(tending, t, share.set_byte_per_s == t->own_byte_per_s ? 0 : share.set_byte_per_s);
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
    process_give_back(copy);
    log_go_on();
}

/* From this one on, all of its rule. Without memory each keeps its share. */
static void divide_rule(struct tending *tending, size_t first)
{
    const struct rule *rule = tending->tended[first].rule;
    uint64_t *demands = calloc(2 * tending->count, sizeof *demands), *shares = demands ? demands + tending->count : NULL;
    size_t count = 0, at = 0;

    for (size_t i = first; demands && i < tending->count; i++) {
        struct tended *t = &tending->tended[i];
        struct autobuf_live_state state;
        uint64_t most_bytes;

        if (t->rule != rule)
            continue;
        state = tended_state(t);
        measure_window(t, &state);
        most_bytes = act_receives(&state) || !t->own_byte_per_s ? UINT64_MAX : divide_paced(t->own_byte_per_s, state.rtt_ns);
        demands[count++] = t->share_bytes ? divide_demand(t->window_bytes, state.limiter, t->share_bytes, most_bytes) : UINT64_MAX;
    }
    divide_shares(rule->divide_bytes, demands, shares, count);
    for (size_t i = first; at < count; i++) {
        struct tended *t = &tending->tended[i];

        if (t->rule != rule)
            continue;
        t->share_bytes = shares[at++];
        if (tending->now_ns >= t->share_ns)
            set_share(tending, t, count);
    }
    free(demands);
}

static bool is_first_of_rule(const struct tending *tending, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (tending->tended[i].rule == tending->tended[at].rule)
            return false;
    return true;
}

void sharing_divide(struct tending *tending)
{
    uint64_t began_ns = cost_cpu_ns();

    for (size_t i = 0; i < tending->count; i++)
        if (tending->tended[i].rule->divide_bytes && is_first_of_rule(tending, i))
            divide_rule(tending, i);
    tending->divide_ns = cost_after(tending->now_ns, began_ns, DIVIDE_NS, &tending->counts->looks_cpu_ns);
}

void sharing_put_back(struct tended *t, int copy)
{
    (void)act_restore_sizes(copy, &t->was);
    if (t->paces && act_pace(copy) == t->left_byte_per_s)
        (void)act_set_pace(copy, t->own_byte_per_s);
}

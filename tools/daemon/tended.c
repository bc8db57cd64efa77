/* SPDX-License-Identifier: MIT */
#include "tended.h"
#include "log.h"

#include <stdio.h>
#include <string.h>

#include "../../lib/kernel/socket.h"

bool tended_is_dry(const struct tending *tending, const struct rule *rule)
{
    return tending->dry_run || tending->config->dry_run || rule->dry_run;
}

/* What the user may not have counts as forced. */
static void share_forced(struct tending *tending, uint32_t user)
{
    const struct user *one = users_find(&tending->users, user);
    uint64_t most_bytes = act_forced_most(&tending->limits);

    tending->limits.forced_bytes = most_bytes - (one ? users_left(most_bytes, tending->users.forced_bytes, one->forced_bytes) : 0);
}

void tended_is_about(struct tending *tending, int copy, const struct owner *owner, const struct rule *rule, uint32_t user)
{
    account_about(&tending->account, copy, owner, rule, tended_is_dry(tending, rule));
    tending->anew = false;
    share_forced(tending, user);
}

void tended_note_forced(struct tending *tending, int copy, uint32_t user, uint64_t snd_buf_bytes, uint64_t rcv_buf_bytes)
{
    uint64_t was_bytes = act_forced_bytes(&tending->limits, snd_buf_bytes, rcv_buf_bytes), is_bytes, snd_bytes, rcv_bytes;

    if (ab_socket_sizes(copy, &snd_bytes, &rcv_bytes) < 0)
        return;
    is_bytes = act_forced_bytes(&tending->limits, snd_bytes, rcv_bytes);
    users_force(&tending->users, user, is_bytes > was_bytes ? is_bytes - was_bytes : 0);
}

void tended_keep_action(const struct tending *tending, struct tended *t)
{
    snprintf(t->action, sizeof t->action, "%.*s", (int)sizeof t->action - 1, tending->account.text);
    t->action_ns = tending->now_ns;
}

bool tended_keep(struct tending *tending, int copy, const struct noted *was)
{
    int error = tending->account.dry_run ? 0 : state_keep(tending->state, was, tending->anew);

    if (error == 0)
        return true;
    (void)act_restore(copy, was);
    if (!tending->unkept)
        log_line("%s: %s: what a socket was like cannot be kept, so it is put back and left alone",
                 tending->state->file, strerror(-error));
    tending->unkept = true;
    return false;
}

struct autobuf_live_state tended_state(const struct tended *t)
{
    struct autobuf_live_state state = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.live = &state;
    (void)autobuf_flow_state(t->flow, &applied);
    return state;
}

/* What the program allows, also where a rule's pace= was set before the flow, or the share, had one. */
static uint64_t program_pace(const struct tending *tending, const struct tended *t)
{
    const struct noted *kept = state_find(tending->state, t->owner.cookie);

    return kept && t->rule->pace_bit_per_s && t->own_byte_per_s == t->rule->pace_bit_per_s / 8 ? kept->settings.pacing_byte_per_s
                                                                                                : t->own_byte_per_s;
}

void tended_note_pace(struct tending *tending, struct tended *t, uint64_t left_byte_per_s)
{
    bool paced = t->paces;

    if (tended_is_dry(tending, t->rule))
        return;
    t->paces = left_byte_per_s > 0;
    t->left_byte_per_s = left_byte_per_s;
    if (t->paces || paced)
        state_paced(tending->state, t->owner.cookie, t->paces ? program_pace(tending, t) : 0);
}

void tended_note_own_pace(struct tending *tending, struct tended *t, int copy)
{
    uint64_t now = act_pace(copy);

    if (!now || (t->paces && now == t->left_byte_per_s))
        return;
    t->own_byte_per_s = now;
    tended_note_pace(tending, t, 0);
}

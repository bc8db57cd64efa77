/* SPDX-License-Identifier: MIT */
#include "managed.h"

#include <string.h>

#include "../../lib/kernel/socket.h"
#include "../array.h"
#include "log.h"

#define LIMITS_NS (10 * AB_NS_PER_S) /* between two readings of this host's limits */

/* ------------------------------------------------------------------------------------ users */

uint64_t users_left(uint64_t total, uint64_t held, uint64_t own)
{
    uint64_t rest = total - ab_min(total, held);

    return rest > own ? (rest - own) / 2 : 0;
}

struct user *users_find(struct users *users, uint32_t user)
{
    size_t at = array_place(users->users, users->count, sizeof *users->users, user);

    if (at < users->count && users->users[at].user == user)
        return &users->users[at];
    if (!array_grow(&users->users, users->count, &users->room, sizeof *users->users))
        return NULL;
    memmove(&users->users[at + 1], &users->users[at], (users->count++ - at) * sizeof *users->users);
    users->users[at] = (struct user){.user = user};
    return &users->users[at];
}

/* NULL: it counts for nobody. */
static struct user *holder(struct users *users, uint32_t user, uint64_t forced_bytes)
{
    return forced_bytes && user != USERS_NOBODY ? users_find(users, user) : NULL;
}

void users_begin(struct users *users)
{
    users->count_bytes = 0;
    for (size_t i = 0; i < users->count; i++)
        users->users[i].count_bytes = 0;
}

void users_count(struct users *users, uint32_t user, uint64_t forced_bytes)
{
    struct user *one = holder(users, user, forced_bytes);

    users->count_bytes += forced_bytes;
    if (one)
        one->count_bytes += forced_bytes;
}

void users_end(struct users *users)
{
    size_t kept = 0;

    users->forced_bytes = users->count_bytes;
    for (size_t i = 0; i < users->count; i++) {
        struct user *one = &users->users[i];

        one->forced_bytes = one->count_bytes;
        if (one->forced_bytes || one->connections)
            users->users[kept++] = *one;
    }
    users->count = kept;
}

void users_force(struct users *users, uint32_t user, uint64_t forced_bytes)
{
    struct user *one = holder(users, user, forced_bytes);

    users->forced_bytes += forced_bytes;
    if (one)
        one->forced_bytes += forced_bytes;
}

void users_free(struct users *users)
{
    free(users->users);
    *users = (struct users){0};
}

/* ------------------------------------------------------------------------------ connections */

/* What the user may not have counts as forced. */
static void share_forced(struct manager *manager, uint32_t user)
{
    const struct user *one = users_find(&manager->users, user);
    uint64_t most_bytes = act_forced_most(&manager->limits);

    manager->limits.forced_bytes =
        most_bytes - (one ? users_left(most_bytes, manager->users.forced_bytes, one->forced_bytes) : 0);
}

void managed_is_about(struct manager *manager, int copy, const struct owner *owner, const struct rule *rule,
                      uint32_t user)
{
    account_about(&manager->account, copy, owner, rule);
    manager->anew = false;
    share_forced(manager, user);
}

void managed_note_forced(struct manager *manager, int copy, uint32_t user, uint64_t snd_buf_bytes,
                         uint64_t rcv_buf_bytes)
{
    uint64_t was_bytes = act_forced_bytes(&manager->limits, snd_buf_bytes, rcv_buf_bytes), is_bytes, snd_bytes,
             rcv_bytes;

    if (ab_socket_sizes(copy, &snd_bytes, &rcv_bytes) < 0)
        return;
    is_bytes = act_forced_bytes(&manager->limits, snd_bytes, rcv_bytes);
    users_force(&manager->users, user, is_bytes > was_bytes ? is_bytes - was_bytes : 0);
}

void managed_tell(struct manager *manager, struct managed *t)
{
    account_tell(&manager->account);
    memcpy(t->action, manager->account.text, sizeof t->action);
    t->action_ns = manager->now_ns;
}

bool managed_keep(struct manager *manager, int copy, const struct noted *was)
{
    int error = manager->account.rule->dry_run ? 0 : state_keep(manager->state, was, manager->anew);

    if (error == 0)
        return true;
    (void)act_restore(copy, was);
    if (!manager->unkept)
        log_line("%s: %s: what a socket was like cannot be kept, so it is put back and left alone",
                 manager->state->file, strerror(-error));
    manager->unkept = true;
    return false;
}

struct autobuf_live_state managed_state(const struct managed *t)
{
    struct autobuf_live_state state = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.live = &state;
    (void)autobuf_flow_state(t->flow, &applied);
    return state;
}

/* What the program allows, also where a rule's pace= was set before the flow, or the share, had one. */
static uint64_t program_pace(const struct manager *manager, const struct managed *t)
{
    const struct noted *kept = state_find(manager->state, t->owner.cookie);

    return kept && t->rule->pace_bit_per_s && t->own_byte_per_s == t->rule->pace_bit_per_s / 8
               ? kept->settings.pacing_byte_per_s
               : t->own_byte_per_s;
}

void managed_note_pace(struct manager *manager, struct managed *t, uint64_t left_byte_per_s)
{
    bool paced = t->paces;

    if (t->rule->dry_run)
        return;
    t->paces = left_byte_per_s > 0;
    t->left_byte_per_s = left_byte_per_s;
    if (t->paces || paced)
        state_paced(manager->state, t->owner.cookie, t->paces ? program_pace(manager, t) : 0);
}

void managed_note_own_pace(struct manager *manager, struct managed *t, int copy)
{
    uint64_t now = act_pace(copy);

    if (!now || (t->paces && now == t->left_byte_per_s))
        return;
    t->own_byte_per_s = now;
    managed_note_pace(manager, t, 0);
}

int managed_read_limits(struct manager *manager)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    int error = autobuf_limits_host(&limits);

    /* Half of it is the library's own bound. */
    limits.tcp_mem_bytes = limits.tcp_mem_bytes / 100 * 2 * manager->config->budget_percent;
    if (error == 0)
        manager->limits = limits;
    manager->limits_ns = manager->now_ns + LIMITS_NS;
    return error;
}

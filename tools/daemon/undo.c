/* SPDX-License-Identifier: MIT */
/* Puts sockets back as they were before the daemon changed them. */
#include "act.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/base/base.h"
#include "../../lib/kernel/tcp_diag.h"
#include "log.h"
#include "table.h"

struct undoing {
    struct state *state;
    struct autobuf_limits limits;
    bool dry_run;
    struct wanted *wanted; /* for each socket that was changed: inode 0: it is not there any more */
    bool *failed, *again;  /* the same, in the order of the state; again: whoever was found had given it up by then */
};

/* What several processes have can be given up by the one that was found, also more than once. */
#define ROUNDS 3U

static void take(void *user, const struct seen *seen)
{
    struct undoing *u = user;
    const struct noted *noted = seen->inode ? state_find(u->state, seen->cookie) : NULL;
    size_t at = noted ? (size_t)(noted - u->state->noted) : 0;

    if (noted)
        u->wanted[at] = (struct wanted){.inode = seen->inode, .user = seen->who.user, .index = at,
                                        .owner.cookie = seen->cookie};
}

/* The kernel's answer may tell of a socket twice, and may miss one while others come and go: it is asked twice. */
static int list(struct undoing *u)
{
    int fd = ab_tcp_diag_open(), error = fd < 0 ? fd : sweep(fd, take, u);

    if (error == 0)
        error = sweep(fd, take, u);
    if (fd >= 0)
        close(fd);
    return error;
}

static void say_of(const struct undoing *u, int copy, const struct owner *owner, int error)
{
    char local[PROCESS_ADDRESS_BYTES], peer[PROCESS_ADDRESS_BYTES];

    process_addresses(copy, local, peer);
    log_line("%s[%d]:%d %s -> %s: %s%s%s", owner->program, (int)owner->pid, owner->fd, local, peer,
             u->dry_run ? "dry run: " : "", error < 0 ? "cannot be put back: " : "put back as it was",
             error < 0 ? autobuf_strerror(error) : "");
}

/*
 * A pace that a daemon left that was killed is replaced by what the program had allowed by then, which may be newer
 * than the rest. One that is not lower than that is the program's: no flow sets it.
 */
static int restore(const struct undoing *u, int copy, const struct noted *noted)
{
    struct autobuf_settings now = AUTOBUF_SETTINGS_INIT;
    struct noted was = *noted;
    int error = autobuf_settings_read(copy, &now);

    if (error < 0)
        return error;
    if (noted->own_byte_per_s)
        was.settings.pacing_byte_per_s = ab_max(act_pace(copy), noted->own_byte_per_s);
    act_bound(&u->limits, &now, &was.settings);
    return act_restore(copy, &was);
}

static void put_back(struct undoing *u, const struct wanted *wanted)
{
    const struct owner *owner = &wanted->owner;
    int copy = owner->pid ? broker_borrow(owner) : -ENOENT, error = 0;

    if (copy < 0) {
        u->failed[wanted->index] = true;
        u->again[wanted->index] = process_is_over(copy);
        if (u->again[wanted->index])
            return;
        if (owner->pid)
            log_line("process %d may not be touched: %s", (int)owner->pid, strerror(-copy));
        else
            log_line("a socket (inode %u) cannot be put back: its process is not found", wanted->inode);
        return;
    }
    if (!u->dry_run)
        error = restore(u, copy, state_find(u->state, owner->cookie));
    u->failed[wanted->index] = error < 0;
    say_of(u, copy, owner, error);
    process_give_back(copy);
}

/* Whether a socket is left whose owner has to be found again. */
static bool put_back_listed(struct undoing *u)
{
    size_t count = 0;
    bool left = false;

    for (size_t i = 0; i < u->state->count; i++) {
        if (u->wanted[i].inode && u->again[i])
            u->wanted[count++] = u->wanted[i];
        u->failed[i] = u->failed[i] && !u->again[i];
        u->again[i] = false;
    }
    (void)broker_find(u->wanted, count, SIZE_MAX);
    for (size_t i = 0; i < count; i++)
        put_back(u, &u->wanted[i]);
    for (size_t i = 0; i < u->state->count; i++)
        left = left || u->again[i];
    return left;
}

static int put_back_all(struct undoing *u)
{
    bool left = true;
    int error = 0;

    memset(u->again, true, u->state->count);
    for (unsigned round = 0; left && error == 0 && round < ROUNDS; round++) {
        memset(u->wanted, 0, u->state->count * sizeof *u->wanted);
        error = list(u);
        left = error == 0 && put_back_listed(u);
    }
    return error;
}

/* state_retain() asks in the order of the state. */
static bool has_failed(void *user, uint64_t cookie)
{
    const bool **next = user;

    (void)cookie;
    return *(*next)++;
}

/* Which also a broker that was killed leaves. */
static bool lower(struct state *state, unsigned side, bool dry_run)
{
    struct raised *raised = &state->raised[side];
    int error = 0;

    if (!raised->ours_bytes)
        return true;
    if (!dry_run)
        error = raise_to(raised, side, 0, 0);
    log_line("%s: %s%s%s", raise_names[side], dry_run ? "dry run: " : "",
             error < 0 ? "cannot be put back: " : "put back as it was",
             error == -EBUSY ? "somebody has changed it since"
             : error < 0     ? strerror(-error)
                             : "");
    if (error == -EBUSY)
        raised->ours_bytes = 0;
    return error == 0 || error == -EBUSY;
}

int undo(struct state *state, bool dry_run)
{
    size_t count = state->count;
    struct undoing u = {.state = state, .limits = AUTOBUF_LIMITS_INIT, .dry_run = dry_run};
    int failed = 0, error = autobuf_is_off() ? -ECANCELED : autobuf_limits_host(&u.limits);
    const bool *next;

    if (error < 0)
        return error;
    u.wanted = calloc(count + 1, sizeof *u.wanted);
    next = u.failed = calloc(2 * count + 1, sizeof *u.failed);
    u.again = u.failed ? u.failed + count : NULL;
    error = u.wanted && u.failed ? put_back_all(&u) : -ENOMEM;
    if (error == 0) {
        for (unsigned side = 0; side < RAISE_SIDES; side++)
            failed += !lower(state, side, dry_run);
        for (size_t i = 0; i < count; i++)
            failed += u.failed[i];
        if (!dry_run)
            error = state_retain(state, has_failed, &next);
    }
    free(u.wanted);
    free(u.failed);
    return error < 0 ? error : failed;
}

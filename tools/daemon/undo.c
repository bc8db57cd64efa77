/* SPDX-License-Identifier: MIT */
#include "undo.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "../../lib/kernel/tcp_diag.h"
#include "act.h"
#include "log.h"
#include "table.h"

/* A socket that was changed. */
struct changed {
    uint64_t cookie;
    uint32_t inode; /* 0: it is not there any more */
    uint32_t user;
    bool failed;
};

struct undoing {
    struct state *state;
    struct autobuf_limits limits;
    bool dry_run;
    struct changed *changed; /* in the order of their cookies, as in the state */
    size_t count;
};

static int by_cookie(const void *a, const void *b)
{
    uint64_t x = ((const struct changed *)a)->cookie, y = ((const struct changed *)b)->cookie;

    return (x > y) - (x < y);
}

static struct changed *find(const struct undoing *u, uint64_t cookie)
{
    struct changed key = {.cookie = cookie};

    return bsearch(&key, u->changed, u->count, sizeof key, by_cookie);
}

static void take(void *user, const struct seen *seen)
{
    struct changed *changed = find(user, seen->cookie);

    if (!changed || !seen->inode)
        return;
    changed->inode = seen->inode;
    changed->user = seen->user;
}

/* The kernel's answer may tell of a socket twice, and may miss one while others come and go: it is asked twice. */
static int look_around(struct undoing *u)
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
 * A pace that a daemon left that was killed is replaced by what the program had allowed by then, which may be newer than the rest.
 * One that is not lower than that is the program's: no flow sets it.
 */
static int restore(const struct undoing *u, int copy, const struct noted *noted)
{
    struct autobuf_settings now = AUTOBUF_SETTINGS_INIT;
    struct noted was = *noted;
    uint64_t pace = noted->paced ? act_pace(copy) : 0;
    int error = autobuf_settings_read(copy, &now);

    if (error < 0)
        return error;
    if (noted->paced)
        was.settings.pacing_byte_per_s =
            pace > noted->own_byte_per_s ? pace : noted->own_byte_per_s;
    act_bound(&u->limits, &now, &was.settings);
    return act_restore(copy, &was);
}

static void put_back(struct undoing *u, const struct wanted *wanted)
{
    struct changed *changed = &u->changed[wanted->index];
    const struct owner *owner = &wanted->owner;
    int copy = owner->pid ? broker_borrow(owner) : -ENOENT, error = 0;

    if (copy < 0) {
        changed->failed = !process_is_over(copy);
        if (!changed->failed)
            return;
        if (owner->pid)
            log_line("process %d may not be touched: %s", (int)owner->pid, strerror(-copy));
        else
            log_line("a socket (inode %u) cannot be put back: its process is not found", changed->inode);
        return;
    }
    if (!u->dry_run)
        error = restore(u, copy, state_find(u->state, owner->cookie));
    changed->failed = error < 0;
    say_of(u, copy, owner, error);
    process_give_back(copy);
}

static int put_back_all(struct undoing *u)
{
    struct wanted *wanted = calloc(u->count + 1, sizeof *wanted);
    size_t count = 0;

    if (!wanted)
        return -ENOMEM;
    for (size_t i = 0; i < u->count; i++)
        if (u->changed[i].inode)
            wanted[count++] = (struct wanted){.inode = u->changed[i].inode, .user = u->changed[i].user, .index = i,
                                              .owner.cookie = u->changed[i].cookie};
    (void)broker_find(wanted, count, SIZE_MAX);
    for (size_t i = 0; i < count; i++)
        put_back(u, &wanted[i]);
    free(wanted);
    return 0;
}

static bool has_failed(void *user, uint64_t cookie)
{
    const struct changed *changed = find(user, cookie);

    return changed && changed->failed;
}

int undo(struct state *state, bool dry_run)
{
    struct undoing u = {
        .state = state, .limits = AUTOBUF_LIMITS_INIT, .dry_run = dry_run};
    int failed = 0, error = autobuf_is_off() ? -ECANCELED : autobuf_limits_host(&u.limits);

    if (error < 0)
        return error;
    u.changed = calloc(state->count + 1, sizeof *u.changed);
    for (; u.changed && u.count < state->count; u.count++)
        u.changed[u.count].cookie = state->noted[u.count].cookie;
    error = u.changed ? look_around(&u) : -ENOMEM;
    if (error == 0)
        error = put_back_all(&u);
    if (error == 0 && !dry_run)
        error = state_retain(state, has_failed, &u);
    for (size_t i = 0; i < u.count; i++)
        failed += u.changed[i].failed;
    free(u.changed);
    return error < 0 ? error : failed;
}

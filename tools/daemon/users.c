/* SPDX-License-Identifier: MIT */
#include "users.h"

#include <stdlib.h>
#include <string.h>

uint64_t users_left(uint64_t total, uint64_t held, uint64_t own)
{
    uint64_t rest = total > held ? total - held : 0;

    return rest > own ? (rest - own) / 2 : 0;
}

/* Where the user is, or belongs. */
static size_t place_of(const struct users *users, uint32_t user)
{
    size_t low = 0, high = users->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (users->users[middle].user < user)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct user *users_find(struct users *users, uint32_t user)
{
    size_t at = place_of(users, user), room = users->room ? 2 * users->room : 16;
    struct user *more;

    if (at < users->count && users->users[at].user == user)
        return &users->users[at];
    if (users->count == users->room) {
        more = realloc(users->users, room * sizeof *more);
        if (!more)
            return NULL;
        users->users = more;
        users->room = room;
    }
    memmove(&users->users[at + 1], &users->users[at], (users->count - at) * sizeof *users->users);
    users->count++;
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

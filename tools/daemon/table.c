/* SPDX-License-Identifier: MIT */
#include "table.h"

#include <stdlib.h>

#define LEAST_ROOM 256U
#define MOST 262144U /* 25 MB, and twice that while it is made anew */

static size_t home_of(const struct table *table, uint64_t cookie)
{
    return (size_t)(cookie * 0x9e3779b97f4a7c15ULL >> 20) & (table->room - 1); /* Fibonacci hashing */
}

static size_t place_of(const struct table *table, uint64_t cookie)
{
    size_t at = home_of(table, cookie);

    while (table->places[at].cookie && table->places[at].cookie != cookie)
        at = (at + 1) & (table->room - 1);
    return at;
}

struct known *table_find(const struct table *table, uint64_t cookie)
{
    struct known *known = table->room ? &table->places[place_of(table, cookie)] : NULL;

    return known && known->cookie ? known : NULL;
}

/*
 * A dump may miss a socket while others come and go: what one sweep has not seen the next one may. One that is looked after stays
 * in any case: it would be taken up twice. Its look ends it.
 */
static int stays(const struct known *known, uint32_t round)
{
    return round - known->round <= 1 || known->state == KNOWN_TENDED;
}

/* Moves all that is to be kept to a table of another size. 0, -1. */
static int rebuild(struct table *table, size_t room, uint32_t round, int forget)
{
    struct table next = {.places = calloc(room, sizeof *next.places), .room = room};

    if (!next.places)
        return -1;
    for (size_t i = 0; i < table->room; i++) {
        const struct known *known = &table->places[i];

        if (!known->cookie || (forget && !stays(known, round)))
            continue;
        next.places[place_of(&next, known->cookie)] = *known;
        next.count++;
    }
    free(table->places);
    *table = next;
    return 0;
}

struct known *table_make(struct table *table, uint64_t cookie)
{
    struct known *known = table_find(table, cookie);

    if (known)
        return known;
    if (table->count >= MOST)
        return NULL;
    if (2 * (table->count + 1) > table->room && rebuild(table, table->room ? 2 * table->room : LEAST_ROOM, 0, 0) < 0)
        return NULL;
    known = &table->places[place_of(table, cookie)];
    *known = (struct known){.cookie = cookie};
    table->count++;
    return known;
}

void table_forget(struct table *table, uint32_t round)
{
    size_t kept = 0, room = table->room;

    for (size_t i = 0; i < table->room; i++)
        kept += table->places[i].cookie && stays(&table->places[i], round);
    if (kept == table->count)
        return;
    while (room > LEAST_ROOM && 8 * kept < room)
        room /= 2;
    rebuild(table, room, round, 1); /* without memory they stay until the next sweep */
}

void table_free(struct table *table)
{
    free(table->places);
    *table = (struct table){0};
}

/* SPDX-License-Identifier: MIT */
#include "paths_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/paths/store.h"
#include "array.h"
#include "known.h"

#define FRESH (1U << 31)
#define GONE UINT32_MAX

#define LENGTHS 129U

enum { IPV4, IPV6, FAMILIES };
static const uint32_t versions[] = {4, 6}, host_bits[] = {32, 128};

/* The entries of the new store, in its order. */
struct view {
    struct paths_change *change;
    const struct autobuf_paths *old;
    uint64_t now_s;
    uint64_t past_s; /* something was learned then, a day or more ago: it is surely past */
    uint32_t *refs;  /* places in the old store, or with FRESH in change->fresh[]; or GONE */
    size_t count;    /* of refs[] */
    size_t first[FAMILIES][LENGTHS]; /* the first one of each prefix length; SIZE_MAX: none */
    size_t next, taken;              /* of change->fresh[] */
    bool forget_hosts;
    struct autobuf_prefix last; /* the last remote prefix */
    unsigned same;              /* entries with it */
};

/* What is not used any more; of what was set by hand, nothing. */
static bool has_expired(const struct view *v, const struct autobuf_paths_entry *entry)
{
    return entry->expires_s <= v->now_s && entry->method != AUTOBUF_METHOD_GIVEN;
}

/* Whether the old store has an entry there that may stay. What has expired makes room for new ones of its prefix. */
static bool read_old(const struct view *v, uint64_t at, struct autobuf_paths_entry *entry)
{
    const struct autobuf_paths_entry *fresh = v->change->fresh;

    *entry = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
    if (ab_paths_at(v->old, at, entry) < 0)
        return false;
    return !has_expired(v, entry) ||
           !((v->next < v->change->count && ab_prefix_same(&fresh[v->next].remote, &entry->remote)) ||
             (v->next && ab_prefix_same(&fresh[v->next - 1].remote, &entry->remote)));
}

/* Whether an entry of the old store is left out; one that was made of hosts will be made anew, or not. */
static bool is_left_out(struct view *v, const struct autobuf_paths_entry *entry)
{
    const struct autobuf_prefix *forget = v->change->forget;
    struct autobuf_prefix network;
    bool named = forget && ab_prefix_same(&entry->remote, forget);

    if (v->change->networks && neighbours_made(entry)) {
        v->forget_hosts |= named; /* which come later in the store */
        return true;
    }
    if (v->forget_hosts && entry->method != AUTOBUF_METHOD_GIVEN &&
        entry->remote.bits == host_bits[forget->version != 4])
        named = neighbours_network(&entry->remote, &network) && ab_prefix_same(&network, forget);
    if (!named && !v->change->forget_all)
        return false;
    v->change->forgotten++;
    return true;
}

static void take(struct view *v, uint32_t ref, const struct autobuf_paths_entry *entry)
{
    size_t *first = &v->first[entry->remote.version != 4][entry->remote.bits];

    if (*first == SIZE_MAX)
        *first = v->count;
    v->same = ab_prefix_same(&entry->remote, &v->last) ? v->same + 1 : 1;
    v->last = entry->remote;
    if (v->now_s >= AB_PATHS_AHEAD_S && entry->learned_s <= v->now_s - AB_PATHS_AHEAD_S)
        v->past_s = ab_max(entry->learned_s, v->past_s);
    v->refs[v->count++] = ref;
}

static void take_fresh(struct view *v, const struct autobuf_paths_entry *entry)
{
    v->change->fresh[v->taken] = *entry;
    take(v, FRESH | (uint32_t)v->taken++, entry);
}

/* Whether the store has room for one more with this remote prefix; the old ones from there on come behind it. */
static bool has_room(const struct view *v, const struct autobuf_prefix *remote, uint64_t at)
{
    unsigned same = ab_prefix_same(remote, &v->last) ? v->same : 0;

    for (uint64_t end = at + AB_PATHS_SAME_REMOTE; at < end && same < AB_PATHS_SAME_REMOTE; at++) {
        struct autobuf_paths_entry entry;

        if (!read_old(v, at, &entry))
            continue;
        if (!ab_prefix_same(&entry.remote, remote))
            break;
        same++;
    }
    return same < AB_PATHS_SAME_REMOTE;
}

/* The next new one, whose key the old store has. */
static void combine(struct view *v, uint64_t at, struct autobuf_paths_entry *old)
{
    const struct autobuf_paths_entry *fresh = &v->change->fresh[v->next++];

    if (v->change->how == CHANGE_IMPORT && known_stays(old, fresh, v->now_s)) {
        v->change->better++;
        take(v, (uint32_t)at, old);
        return;
    }
    if (v->change->how == CHANGE_OBSERVE)
        known_merge(old, fresh);
    else
        *old = *fresh;
    take_fresh(v, old);
}

/* The next new one, which comes before the old one there. */
static void insert(struct view *v, uint64_t at)
{
    struct autobuf_paths_entry fresh = v->change->fresh[v->next++];

    if (has_room(v, &fresh.remote, at))
        take_fresh(v, &fresh);
    else
        v->change->full++;
}

static int merge(struct view *v)
{
    uint64_t in_old = ab_paths_count(v->old), at = 0;

    v->refs = calloc(in_old + v->change->count + 1, sizeof *v->refs);
    if (!v->refs)
        return -ENOMEM;
    memset(v->first, 0xff, sizeof v->first);
    while (at < in_old || v->next < v->change->count) {
        struct autobuf_paths_entry old;
        int order = v->next < v->change->count ? 1 : -1;

        if (at < in_old && (!read_old(v, at, &old) || is_left_out(v, &old))) {
            at++;
            continue;
        }
        if (at < in_old && order > 0)
            order = ab_paths_compare(&old, &v->change->fresh[v->next]);
        if (order > 0)
            insert(v, at);
        else if (order == 0)
            combine(v, at++, &old);
        else
            take(v, (uint32_t)at++, &old);
    }
    return 0;
}

/* Reads an entry of the new store, unless it goes. */
static bool read_at(const struct view *v, size_t at, struct autobuf_paths_entry *entry)
{
    uint32_t ref = v->refs[at];

    *entry = (struct autobuf_paths_entry)AUTOBUF_PATHS_ENTRY_INIT;
    if (ref == GONE || (!(ref & FRESH) && ab_paths_at(v->old, ref, entry) < 0))
        return false;
    if (ref & FRESH)
        *entry = v->change->fresh[ref & ~FRESH];
    return entry->expires_s > v->past_s;
}

struct age {
    uint64_t learned_s; /* 0: when the clock was ahead */
    size_t at;
};

static int drop_oldest(struct view *v)
{
    size_t stay = 0, old = 0;
    struct age *ages;

    if (v->count <= PATHS_STORE_MOST)
        return 0;
    ages = calloc(v->count, sizeof *ages);
    if (!ages)
        return -ENOMEM;
    for (size_t at = 0; at < v->count; at++) {
        struct autobuf_paths_entry entry;

        if (!read_at(v, at, &entry))
            continue;
        stay++;
        if (entry.method != AUTOBUF_METHOD_GIVEN)
            ages[old++] = (struct age){known_is_ahead(&entry, v->now_s) ? 0 : entry.learned_s, at};
    }
    qsort(ages, old, sizeof *ages, array_by_value);
    for (size_t i = 0; i < old && stay > PATHS_STORE_MOST; i++, stay--)
        v->refs[ages[i].at] = GONE;
    free(ages);
    return 0;
}

/* What is made of the hosts of one network after the other. */
struct networks {
    struct view *view;
    unsigned family;        /* FAMILIES: it is done */
    size_t at;              /* the next host */
    size_t claims[LENGTHS]; /* of each prefix length the first one that is not before the network */
    struct autobuf_paths_entry next; /* unless done */
    struct autobuf_paths_entry hosts[NEIGHBOURS_MOST];
    bool agrees[NEIGHBOURS_MOST];
};

static void begin_family(struct networks *n, unsigned family)
{
    n->family = family;
    if (family == FAMILIES)
        return;
    memcpy(n->claims, n->view->first[family], sizeof n->claims);
    n->at = n->claims[host_bits[family]];
}

/* Whether an entry of this length says something of all of the network by hand, or something of a part of it. */
static bool is_claimed_by(struct networks *n, uint32_t bits, const struct autobuf_prefix *network)
{
    struct autobuf_prefix around = *network;
    struct autobuf_paths_entry entry;

    for (uint32_t bit = bits; bit < network->bits; bit++)
        around.address[bit / 8] &= (uint8_t)~(0x80U >> bit % 8);
    for (size_t at = n->claims[bits]; at < n->view->count; at++) {
        int order;

        if (!read_at(n->view, at, &entry))
            continue;
        if (entry.remote.version != network->version || entry.remote.bits != bits)
            return false;
        order = memcmp(entry.remote.address, around.address, network->bits / 8);
        if (order > 0)
            return false;
        if (order < 0)
            n->claims[bits] = at + 1;
        else if (bits < network->bits ? entry.method == AUTOBUF_METHOD_GIVEN : !has_expired(n->view, &entry))
            return true;
    }
    return false;
}

static bool is_claimed(struct networks *n, const struct autobuf_prefix *network)
{
    for (uint32_t bits = 0; bits < host_bits[n->family]; bits++)
        if (is_claimed_by(n, bits, network))
            return true;
    return false;
}

/* Gathers the hosts of the next network, of a very large one the first. Returns how many. */
static size_t next_hosts(struct networks *n)
{
    struct autobuf_prefix first = {.version = 0}, network;
    struct autobuf_paths_entry entry;
    size_t count = 0;

    for (; n->at < n->view->count; n->at++) {
        if (!read_at(n->view, n->at, &entry))
            continue;
        if (entry.remote.version != versions[n->family])
            break;
        (void)neighbours_network(&entry.remote, &network);
        if (count && !ab_prefix_same(&network, &first))
            break;
        if (count == NEIGHBOURS_MOST || has_expired(n->view, &entry))
            continue;
        first = network;
        n->hosts[count++] = entry;
    }
    return count;
}

static void next_network(struct networks *n)
{
    while (n->family < FAMILIES) {
        size_t count = next_hosts(n);

        if (!count)
            begin_family(n, n->family + 1);
        else if (neighbours_agree(n->hosts, count, n->view->now_s, &n->next, n->agrees) &&
                 !is_claimed(n, &n->next.remote))
            return;
    }
}

/* Leaves out what a store does not take: more with one prefix, or at all, or what a damaged one had out of order. */
static int add(struct ab_paths_writer *writer, const struct autobuf_paths_entry *entry)
{
    int error = ab_paths_add(writer, entry);

    return error == -E2BIG || error == -EINVAL ? 0 : error;
}

/* All entries, and before the hosts what is made of them; an expired one may have its key. */
static int write_entries(struct view *v, struct networks *n, struct ab_paths_writer *writer)
{
    struct autobuf_paths_entry entry;
    int error = 0;

    for (size_t at = 0; at < v->count && error == 0; at++) {
        int order = 1;

        if (!read_at(v, at, &entry))
            continue;
        while (n->family < FAMILIES && error == 0 && order && (order = ab_paths_compare(&n->next, &entry)) <= 0) {
            error = add(writer, &n->next);
            next_network(n);
        }
        if (order && error == 0)
            error = add(writer, &entry);
    }
    return error;
}

static int write_new(struct view *v, struct ab_paths_writer *writer)
{
    struct networks *n = calloc(1, sizeof *n);
    int error;

    if (!n)
        return -ENOMEM;
    n->view = v;
    begin_family(n, v->change->networks ? 0 : FAMILIES);
    next_network(n);
    error = write_entries(v, n, writer);
    free(n);
    return error;
}

/* NULL: there is none yet, or none of which anything can be kept. */
static int open_old(struct autobuf_paths **old, const char *name, bool forgets, bool *aside)
{
    int error = autobuf_paths_open(old, name);

    *aside = error == AUTOBUF_E_DAMAGED && !forgets && ab_paths_set_aside(name) == 0;
    return *aside || (error == -ENOENT && !forgets) ? 0 : error;
}

int paths_store_change(const char *store, struct paths_change *change, uint64_t now_s, uint32_t flags)
{
    bool forgets = change->forget || change->forget_all, aside = false;
    const char *name = store ? store : ab_paths_own();
    struct view v = {.change = change, .now_s = now_s};
    struct ab_paths_writer *writer = NULL;
    struct autobuf_paths *old = NULL;
    int error = name ? 0 : -ENOENT;

    for (size_t i = 0; i < change->count && error == 0; i++)
        error = i && ab_paths_compare(&change->fresh[i - 1], &change->fresh[i]) >= 0
                    ? -EINVAL
                    : ab_paths_check(&change->fresh[i]);
    if (error < 0 || (!change->count && !forgets))
        return error;
    error = ab_paths_write(&writer, forgets ? name : store, flags);
    if (error == 0)
        error = open_old(&old, name, forgets, &aside);
    v.old = old;
    if (error == 0)
        error = merge(&v);
    if (error == 0)
        error = drop_oldest(&v);
    if (error == 0)
        error = write_new(&v, writer);
    change->count = error == 0 ? v.taken : change->count;
    free(v.refs);
    autobuf_paths_close(old);
    if (error < 0 || (change->forget && !change->forgotten)) {
        ab_paths_abort(writer);
        return error;
    }
    error = ab_paths_commit(writer);
    return error == 0 && aside ? PATHS_SET_ASIDE : error;
}

/* SPDX-License-Identifier: MIT */
/* Changes of a path store: a new one is made of the old one and of what is to change, by one writer at a time. */
#ifndef PATHS_STORE_H
#define PATHS_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include <autobuf/autobuf.h>

#define PATHS_SET_ASIDE 1

/*
 * How many entries remain. Of more, those go that were learned when the clock was ahead, then those
 * that were learned first, but none set by hand.
 */
#ifndef PATHS_STORE_MOST /* a test has a smaller one */
#define PATHS_STORE_MOST 1048576U
#endif

/* What becomes of a new entry if the store has one with its key. */
enum paths_how {
    CHANGE_OBSERVE, /* both are merged by known_merge() */
    CHANGE_SET,     /* the new one replaces it */
    CHANGE_IMPORT,  /* the new one replaces it, unless known_stays() */
};

/* What is to become of a store. All zero: nothing. */
struct paths_change {
    enum paths_how how;
    struct autobuf_paths_entry *fresh; /* in the store's order, each key once */
    size_t count; /* of fresh[]; afterwards its first ones are those that were written, as merged */
    const struct autobuf_prefix *forget; /* all entries with this remote prefix go */
    bool forget_all;
    bool networks; /* make entries of hosts that agree (known.h), and forget them together */
    /* What came of it. */
    uint64_t better;    /* of fresh[]: known_stays() of what the store has */
    uint64_t full;      /* of fresh[]: behind 64 old and new ones of the same remote prefix */
    uint64_t forgotten; /* without entries that were made of hosts */
};

/*
 * Writes the store anew. What surely has expired goes: a clock that jumps ahead for a while removes nothing. store:
 * NULL for the user's own, whose folder is made. flags: as of ab_paths_write(). Returns 0, or:
 *
 *   PATHS_SET_ASIDE     done, but the store was damaged. It is STORE.damaged now, unless there is one, and a new one
 *                       was begun
 *   AUTOBUF_E_DAMAGED   the same, if something is to be forgotten: nothing was changed
 *   AUTOBUF_E_NEWER     a later version made the store. It is left alone
 *   -ENOENT             the user has no own store, or there is none in which to forget
 *   -EINVAL             a new entry is not valid, or not in its place
 *   -ENOMEM, and errors of ab_paths_write(), _open() and _commit(). The store stays as it was
 */
int paths_store_change(const char *store, struct paths_change *change, uint64_t now_s, uint32_t flags);

#endif

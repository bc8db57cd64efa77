/* SPDX-License-Identifier: MIT */
/* Whether a connection carries bulk data. Pure: bytes and times in. */
#ifndef BULK_H
#define BULK_H

#include <stdbool.h>
#include <stdint.h>

/* What a connection had moved, and when. */
struct bulk_mark {
    uint64_t bytes, ns;
};

/*
 * Whether it has moved 64 KB since the mark, at 64 KB a second or more: slower ones need no larger window. However long ago the
 * mark is, it is moved on once it is a second old, or 64 KB have moved.
 */
bool bulk_since(struct bulk_mark *mark, uint64_t moved_bytes, uint64_t now_ns);

#endif

/* SPDX-License-Identifier: MIT */
/* When a connection moves bulk data, as the daemon and its part in the kernel judge it, and how the latter tells. */
#ifndef BULK_MARK_H
#define BULK_MARK_H

#include "withhold_table.h"

#define BULK_BYTES 65536U
#define BULK_NS 1000000000ULL
#define BULK_EVENTS_BYTES 262144U /* of 2,000 events; those that find no room are found by a sweep */

/* What a connection had moved, and when. */
struct bulk_mark {
    __u64 bytes, ns;
};

/* A connection that has begun to move bulk data. */
struct bulk_event {
    __u64 cookie; /* SO_COOKIE */
    __u64 moved_bytes; /* acknowledged and received */
    struct withhold_end local, remote;
    __u32 inode, user;
    __u32 snd_buf_bytes, rcv_buf_bytes; /* sk_sndbuf and sk_rcvbuf */
};

/*
 * Whether it has moved 64 KB since the mark, at 64 KB a second or more: slower ones need no larger window. However long
 * ago the mark is, it is moved on once it is a second old, or 64 KB have moved.
 */
WITHHOLD_INLINE int bulk_since(struct bulk_mark *mark, __u64 moved_bytes, __u64 now_ns)
{
    __u64 bytes = moved_bytes - mark->bytes, took_ns = now_ns - mark->ns;
    int is_another = moved_bytes < mark->bytes; /* of the same socket */
    int bulk = !is_another && bytes >= BULK_BYTES && took_ns / bytes <= BULK_NS / BULK_BYTES;

    if (is_another || bytes >= BULK_BYTES || took_ns > BULK_NS) {
        mark->bytes = moved_bytes;
        mark->ns = now_ns;
    }
    return bulk;
}

#endif

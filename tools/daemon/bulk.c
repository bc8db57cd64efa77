/* SPDX-License-Identifier: MIT */
#include "bulk.h"

#define BULK_BYTES 65536U
#define BULK_NS 1000000000ULL

bool bulk_since(struct bulk_mark *mark, uint64_t moved_bytes, uint64_t now_ns)
{
    uint64_t bytes = moved_bytes - mark->bytes, took_ns = now_ns - mark->ns;
    bool is_another = moved_bytes < mark->bytes; /* of the same socket */
    bool bulk = !is_another && bytes >= BULK_BYTES && took_ns / bytes <= BULK_NS / BULK_BYTES;

    if (is_another || bytes >= BULK_BYTES || took_ns > BULK_NS)
        *mark = (struct bulk_mark){moved_bytes, now_ns};
    return bulk;
}

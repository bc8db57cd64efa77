/* SPDX-License-Identifier: MIT */
/*
 * An entry as a message. Numbers are little-endian. Pure.
 *
 *   0 magic   8 version   12 record's bytes   16 record, as in the store's file (record.h)
 */
#include <errno.h>
#include <string.h>

#include "record.h"

#define HEAD_BYTES 16U

/* As in the header. C99 has no _Static_assert. */
typedef char head_and_record[HEAD_BYTES + AB_PATHS_RECORD_BYTES == AUTOBUF_PATHS_MESSAGE_BYTES ? 1 : -1];

static const uint8_t head[HEAD_BYTES] = {'A', 'U', 'T', 'O', 'B', 'U', 'F', 'L', 1, 0, 0, 0, AB_PATHS_RECORD_BYTES};

int autobuf_paths_entry_encode(const struct autobuf_paths_entry *theirs, void *message, uint32_t room_bytes)
{
    struct autobuf_paths_entry entry;

    if (!message || room_bytes < AUTOBUF_PATHS_MESSAGE_BYTES || !ab_struct_in(&entry, sizeof entry, theirs) ||
        ab_paths_record_write(&entry, (uint8_t *)message + HEAD_BYTES) < 0)
        return -EINVAL;
    memcpy(message, head, sizeof head);
    return (int)AUTOBUF_PATHS_MESSAGE_BYTES;
}

int ab_paths_entry_decode(const void *message, uint32_t bytes, struct autobuf_paths_entry *entry)
{
    if (bytes < HEAD_BYTES || memcmp(message, head, 8) != 0)
        return AUTOBUF_E_DAMAGED;
    if (memcmp((const uint8_t *)message + 8, head + 8, 4) != 0)
        return AUTOBUF_E_NEWER;
    if (bytes != AUTOBUF_PATHS_MESSAGE_BYTES || memcmp(message, head, sizeof head) != 0)
        return AUTOBUF_E_DAMAGED;
    return ab_paths_record_read((const uint8_t *)message + HEAD_BYTES, entry);
}

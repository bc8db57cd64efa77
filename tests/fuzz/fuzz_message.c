/* SPDX-License-Identifier: MIT */
/*
 * A datagram that reports a path. First byte: 1: the record gets a valid checksum, as from an attacker. The rest is the
 * datagram.
 */
#include "fuzz.h"

#include <time.h>

#include "daemon/keep.h"
#include "daemon/learn.h"
#include "paths/record.h"

#define RECORD 16U /* where it begins */
#define CHECKSUM (RECORD + 176U)
#define NOW_S 1800000000U

static void seal(uint8_t *message)
{
    uint32_t crc = ab_crc32(message + RECORD, CHECKSUM - RECORD);

    for (unsigned i = 0; i < 4; i++)
        message[CHECKSUM + i] = (uint8_t)(crc >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    bool sealed = take(&in, 1) & 1;
    struct autobuf_paths_entry entry = AUTOBUF_PATHS_ENTRY_INIT, again = AUTOBUF_PATHS_ENTRY_INIT;
    uint8_t *message = exact_copy(in.data, in.len), written[AUTOBUF_PATHS_MESSAGE_BYTES];

    if (sealed && in.len == AUTOBUF_PATHS_MESSAGE_BYTES)
        seal(message);
    if (ab_paths_entry_decode(message, (uint32_t)in.len, &entry) == 0) {
        /* What is read says the same once it is written again, and what is taken in is bounded. */
        CHECK(autobuf_paths_entry_encode(&entry, written, sizeof written) == (int)sizeof written);
        CHECK(ab_paths_entry_decode(written, sizeof written, &again) == 0);
        CHECK(memcmp(&entry, &again, sizeof entry) == 0);
        if (reported_check(&entry, NOW_S)) {
            CHECK(entry.expires_s > NOW_S && entry.expires_s <= NOW_S + REPORTED_HOLDS_S && entry.learned_s <= NOW_S);
            CHECK(learn_is_host(&entry.remote) && entry.method != AUTOBUF_METHOD_GIVEN && !entry.device[0]);
        }
    }
    free(message);
    return 0;
}

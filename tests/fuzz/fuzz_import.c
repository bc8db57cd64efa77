/* SPDX-License-Identifier: MIT */
/* A file for `autobuf paths import`. What is read of it is sound, in order, and a store takes it. */
#include "fuzz.h"

#include <errno.h>

#include "base/base.h"
#include "import.h"
#include "paths/record.h"

#define NOW_S 1700000000U
#define HOLDS_S 604800U

/* What another program has measured is of one host, is no person's word, and has an end. */
static void check_measured(const struct autobuf_paths_entry *entry)
{
    CHECK(entry->method == AUTOBUF_METHOD_IMPORTED && entry->expires_s <= NOW_S + HOLDS_S);
    CHECK(entry->remote.bits == (entry->remote.version == 4 ? 32 : 128) && !entry->local.version && !entry->device[0]);
}

static void check_entry(const struct autobuf_paths_entry *entry)
{
    uint8_t record[AB_PATHS_RECORD_BYTES];

    CHECK(ab_paths_record_write(entry, record) == 0);
    CHECK(entry->method != AUTOBUF_METHOD_NONE && entry->rtt_min_ns != AUTOBUF_NS_UNSET);
    CHECK(entry->tx_rate_bit_per_s || entry->rx_rate_bit_per_s);
    CHECK(entry->learned_s <= NOW_S && entry->expires_s > NOW_S);
}

static void read_it(const uint8_t *data, size_t len, bool exported)
{
    struct autobuf_prefix here[2];
    struct import_host host = {.addresses = here, .count = 2, .now_s = NOW_S, .holds_s = HOLDS_S, .exported = exported};
    char *text = exact_copy(data, len), why[IMPORT_WHY_BYTES];
    struct imported into;
    int error;

    CHECK(autobuf_prefix_parse("192.0.2.1", here) == 0 && autobuf_prefix_parse("2001:db8::1", here + 1) == 0);
    error = import_read(text, len, &host, &into, why);
    CHECK(error == 0 || (error == -EINVAL && why[0]));
    for (size_t i = 0; i < into.count && error == 0; i++) {
        check_entry(into.entries + i);
        if (!exported)
            check_measured(into.entries + i);
        CHECK(i == 0 || autobuf_paths_compare(into.entries + i - 1, into.entries + i) < 0);
    }
    free(into.entries);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    read_it(data, len, false);
    read_it(data, len, true);
    return 0;
}

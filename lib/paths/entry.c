/* SPDX-License-Identifier: MIT */
/* An entry of the path store and what the rest of the library knows of a path. */
#include <errno.h>
#include <string.h>

#include "record.h"

void autobuf_paths_entry_init(struct autobuf_paths_entry *entry, uint32_t size)
{
    static const struct autobuf_paths_entry fresh = AUTOBUF_PATHS_ENTRY_INIT;

    ab_struct_init(entry, size, &fresh, sizeof fresh);
}

int autobuf_paths_path(const struct autobuf_paths_entry *theirs, struct autobuf_path *path)
{
    struct autobuf_path known = AUTOBUF_PATH_INIT;
    struct autobuf_paths_entry e;

    if (!ab_struct_in(&e, sizeof e, theirs))
        return -EINVAL;
    known.method = e.method;
    known.flags = e.flags;
    known.samples = e.samples;
    known.packet_bytes = e.packet_bytes;
    known.tx_unsure = e.tx_unsure;
    known.rx_unsure = e.rx_unsure;
    known.rtt_min_ns = e.rtt_min_ns;
    known.rtt_median_ns = e.rtt_median_ns;
    known.tx_rate_bit_per_s = e.tx_rate_bit_per_s;
    known.tx_rate_low_bit_per_s = e.tx_rate_low_bit_per_s;
    known.tx_rate_high_bit_per_s = e.tx_rate_high_bit_per_s;
    known.rx_rate_bit_per_s = e.rx_rate_bit_per_s;
    known.rx_rate_low_bit_per_s = e.rx_rate_low_bit_per_s;
    known.rx_rate_high_bit_per_s = e.rx_rate_high_bit_per_s;
    known.tx_bdp_bytes = e.tx_bdp_bytes;
    known.rx_bdp_bytes = e.rx_bdp_bytes;
    return ab_struct_out(path, &known, sizeof known) ? 0 : -EINVAL;
}

int autobuf_paths_learn(struct autobuf_paths_entry *theirs, const struct autobuf_path *path)
{
    struct autobuf_paths_entry e;
    struct autobuf_path known;

    if (!ab_struct_in(&e, sizeof e, theirs) || !ab_struct_in(&known, sizeof known, path))
        return -EINVAL;
    e.method = known.method;
    e.flags = known.flags;
    e.samples = known.samples;
    e.packet_bytes = known.packet_bytes;
    e.tx_unsure = known.tx_unsure;
    e.rx_unsure = known.rx_unsure;
    e.rtt_min_ns = known.rtt_min_ns;
    e.rtt_median_ns = known.rtt_median_ns;
    e.tx_rate_bit_per_s = known.tx_rate_bit_per_s;
    e.tx_rate_low_bit_per_s = known.tx_rate_low_bit_per_s;
    e.tx_rate_high_bit_per_s = known.tx_rate_high_bit_per_s;
    e.rx_rate_bit_per_s = known.rx_rate_bit_per_s;
    e.rx_rate_low_bit_per_s = known.rx_rate_low_bit_per_s;
    e.rx_rate_high_bit_per_s = known.rx_rate_high_bit_per_s;
    e.tx_bdp_bytes = known.tx_bdp_bytes;
    e.rx_bdp_bytes = known.rx_bdp_bytes;
    return ab_struct_out(theirs, &e, sizeof e) ? 0 : -EINVAL;
}

int autobuf_paths_compare(const struct autobuf_paths_entry *a, const struct autobuf_paths_entry *b)
{
    uint8_t keys[2][AB_PATHS_KEY_BYTES];
    const struct autobuf_paths_entry *both[2] = {a, b};

    for (int i = 0; i < 2; i++) {
        struct autobuf_paths_entry entry;

        if (!ab_struct_in(&entry, sizeof entry, both[i]) || ab_paths_key(&entry, keys[i]) < 0)
            memset(keys[i], 0xff, sizeof keys[i]);
    }
    return memcmp(keys[0], keys[1], AB_PATHS_KEY_BYTES);
}

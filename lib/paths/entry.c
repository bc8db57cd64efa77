/* SPDX-License-Identifier: MIT */
/* An entry of the path store and what the rest of the library knows of a path. */
#include <errno.h>
#include <string.h>

#include "record.h"

#define FIELD(name)                                                                                \
    {offsetof(struct autobuf_paths_entry, name), offsetof(struct autobuf_path, name),              \
     sizeof((struct autobuf_path *)0)->name}

/* The fields of both structs. */
static const struct field {
    size_t in_entry, in_path, bytes;
} fields[] = {
    FIELD(method), FIELD(flags), FIELD(samples), FIELD(packet_bytes), FIELD(tx_unsure), FIELD(rx_unsure),
    FIELD(rtt_min_ns), FIELD(rtt_median_ns), FIELD(tx_rate_bit_per_s), FIELD(tx_rate_low_bit_per_s),
    FIELD(tx_rate_high_bit_per_s), FIELD(rx_rate_bit_per_s), FIELD(rx_rate_low_bit_per_s),
    FIELD(rx_rate_high_bit_per_s), FIELD(tx_bdp_bytes), FIELD(rx_bdp_bytes),
};

int autobuf_paths_path(const struct autobuf_paths_entry *theirs, struct autobuf_path *path)
{
    struct autobuf_path known = {.size = sizeof known, .measured_ns = AUTOBUF_NS_UNSET};
    struct autobuf_paths_entry e;

    if (!ab_struct_in(&e, sizeof e, theirs))
        return -EINVAL;
    for (const struct field *f = fields; f < fields + sizeof fields / sizeof *fields; f++)
        memcpy((char *)&known + f->in_path, (const char *)&e + f->in_entry, f->bytes);
    return ab_struct_out(path, &known, sizeof known) ? 0 : -EINVAL;
}

int autobuf_paths_learn(struct autobuf_paths_entry *theirs, const struct autobuf_path *path)
{
    struct autobuf_paths_entry e;
    struct autobuf_path known;

    if (!ab_struct_in(&e, sizeof e, theirs) || !ab_struct_in(&known, sizeof known, path))
        return -EINVAL;
    for (const struct field *f = fields; f < fields + sizeof fields / sizeof *fields; f++)
        memcpy((char *)&e + f->in_entry, (const char *)&known + f->in_path, f->bytes);
    return ab_struct_out(theirs, &e, sizeof e) ? 0 : -EINVAL;
}

/* SPDX-License-Identifier: MIT */
#include "neighbours.h"

#include <stdlib.h>
#include <string.h>

#include "../lib/paths/record.h"
#include "known.h"

bool neighbours_network(const struct autobuf_prefix *prefix, struct autobuf_prefix *network)
{
    struct autobuf_prefix found = {.version = prefix->version};

    found.bits = prefix->version == 4 ? NEIGHBOURS_BITS_V4 : NEIGHBOURS_BITS_V6;
    if (prefix->bits < found.bits)
        return false;
    memcpy(found.address, prefix->address, found.bits / 8);
    *network = found;
    return true;
}

bool neighbours_made(const struct autobuf_paths_entry *entry)
{
    uint32_t bits = entry->remote.version == 4 ? NEIGHBOURS_BITS_V4 : NEIGHBOURS_BITS_V6;

    return entry->flags & AUTOBUF_PATH_NEIGHBOURS && entry->remote.bits == bits;
}

/* -------------------------------------------------------------------------- who is comparable */

/* What has to be equal, not only near. */
static bool is_like(const struct autobuf_paths_entry *a, const struct autobuf_paths_entry *b)
{
    return a->method == b->method && a->flags == b->flags && ab_prefix_same(&a->local, &b->local) &&
           strncmp(a->device, b->device, sizeof a->device) == 0;
}

/* A host with several entries knows more than one for the network says. */
static bool is_only_one(const struct autobuf_paths_entry *entries, size_t count, size_t at)
{
    return (at == 0 || !ab_prefix_same(&entries[at].remote, &entries[at - 1].remote)) &&
           (at + 1 == count || !ab_prefix_same(&entries[at].remote, &entries[at + 1].remote));
}

/* If most entries are like each other, this is one of them: the majority vote of Boyer and Moore. */
static const struct autobuf_paths_entry *likely(const struct autobuf_paths_entry *entries, size_t count)
{
    const struct autobuf_paths_entry *leader = entries;
    size_t votes = 0;

    for (size_t i = 0; i < count; i++) {
        if (votes == 0)
            leader = entries + i;
        votes = is_like(leader, entries + i) ? votes + 1 : votes - 1;
    }
    return leader;
}

/* ------------------------------------------------------------------------------------ medians */

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static uint64_t field(const struct autobuf_paths_entry *entry, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const char *)entry + offset, sizeof value);
    return value;
}

static void set_field(struct autobuf_paths_entry *entry, size_t offset, uint64_t value)
{
    memcpy((char *)entry + offset, &value, sizeof value);
}

/* The values of one field of those that agree, in order. Returns how many. */
static size_t sorted(const struct autobuf_paths_entry *entries, size_t count, const bool *agrees, size_t offset,
                     uint64_t values[NEIGHBOURS_MOST])
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        if (agrees[i])
            values[found++] = field(entries + i, offset);
    qsort(values, found, sizeof *values, by_size);
    return found;
}

#define FIELD(name) offsetof(struct autobuf_paths_entry, name)

/* What must be near the median. */
static const size_t compared[] = {FIELD(rtt_min_ns), FIELD(tx_rate_bit_per_s), FIELD(rx_rate_bit_per_s)};

/* Of what the network's entry has the median. */
static const size_t quantities[] = {
    FIELD(rtt_min_ns), FIELD(rtt_median_ns), FIELD(tx_rate_bit_per_s), FIELD(tx_rate_low_bit_per_s),
    FIELD(tx_rate_high_bit_per_s), FIELD(rx_rate_bit_per_s), FIELD(rx_rate_low_bit_per_s),
    FIELD(rx_rate_high_bit_per_s), FIELD(tx_bdp_bytes), FIELD(rx_bdp_bytes),
};

/* Leaves those that are near the medians of all that may agree. Returns how many. */
static size_t keep_near(const struct autobuf_paths_entry *entries, size_t count, bool *agrees)
{
    uint64_t values[NEIGHBOURS_MOST], medians[sizeof compared / sizeof *compared];
    size_t left = 0;

    for (size_t f = 0; f < sizeof compared / sizeof *compared; f++)
        medians[f] = values[sorted(entries, count, agrees, compared[f], values) / 2];
    for (size_t i = 0; i < count; i++) {
        for (size_t f = 0; f < sizeof compared / sizeof *compared; f++)
            agrees[i] = agrees[i] && known_is_near(field(entries + i, compared[f]), medians[f]);
        left += agrees[i];
    }
    return left;
}

/* ------------------------------------------------------------------------------- the network's */

static void summarise(const struct autobuf_paths_entry *entries, size_t count, const bool *agrees,
                      struct autobuf_paths_entry *network)
{
    uint64_t values[NEIGHBOURS_MOST];
    size_t found = 0;

    for (size_t f = 0; f < sizeof quantities / sizeof *quantities; f++) {
        found = sorted(entries, count, agrees, quantities[f], values);
        set_field(network, quantities[f], values[found / 2]);
    }
    (void)sorted(entries, count, agrees, FIELD(expires_s), values);
    network->expires_s = values[found - NEIGHBOURS_LEAST];
    (void)sorted(entries, count, agrees, FIELD(learned_s), values);
    network->learned_s = values[found - 1];
    network->samples = 0;
    for (size_t i = 0; i < count; i++) {
        const struct autobuf_paths_entry *e = entries + i;

        if (!agrees[i])
            continue;
        network->samples = e->samples <= UINT32_MAX - network->samples ? network->samples + e->samples : UINT32_MAX;
        if (e->packet_bytes && (!network->packet_bytes || e->packet_bytes < network->packet_bytes))
            network->packet_bytes = e->packet_bytes;
        network->tx_unsure = e->tx_unsure > network->tx_unsure ? e->tx_unsure : network->tx_unsure;
        network->rx_unsure = e->rx_unsure > network->rx_unsure ? e->rx_unsure : network->rx_unsure;
    }
}

bool neighbours_agree(const struct autobuf_paths_entry *entries, size_t count, uint64_t now_s,
                      struct autobuf_paths_entry *network, bool *agrees)
{
    size_t left = 0;

    if (count < NEIGHBOURS_LEAST)
        return false;
    *network = *likely(entries, count);
    if (network->method == AUTOBUF_METHOD_GIVEN || !neighbours_network(&network->remote, &network->remote))
        return false;
    for (size_t i = 0; i < count; i++) {
        agrees[i] = is_like(network, entries + i) && is_only_one(entries, count, i) && !known_is_ahead(entries + i, now_s);
        left += agrees[i];
    }
    if (left)
        left = keep_near(entries, count, agrees);
    if (left < NEIGHBOURS_LEAST || 4 * left < 3 * count)
        return false;
    summarise(entries, count, agrees, network);
    network->flags |= AUTOBUF_PATH_NEIGHBOURS;
    return true;
}

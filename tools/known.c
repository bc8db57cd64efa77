/* SPDX-License-Identifier: MIT */
#include "known.h"

#include "../lib/base/base.h"
#include "../lib/paths/record.h"
#include "array.h"

static int worth(uint32_t method)
{
    if (method == AUTOBUF_METHOD_GIVEN)
        return 2;
    return method == AUTOBUF_METHOD_ICMP || method == AUTOBUF_METHOD_INBAND;
}

bool known_is_ahead(const struct autobuf_paths_entry *entry, uint64_t now_s)
{
    return entry->method != AUTOBUF_METHOD_GIVEN && entry->learned_s > now_s + AB_PATHS_AHEAD_S;
}

bool known_says_more(const struct autobuf_paths_entry *known, const struct autobuf_paths_entry *fresh, uint64_t now_s)
{
    int differ = worth(known->method) - worth(fresh->method);

    if (known_is_ahead(known, now_s) != known_is_ahead(fresh, now_s))
        return known_is_ahead(fresh, now_s);
    return differ > 0 || (differ == 0 && known->learned_s > fresh->learned_s);
}

bool known_stays(const struct autobuf_paths_entry *known, const struct autobuf_paths_entry *imported, uint64_t now_s)
{
    return known->method == AUTOBUF_METHOD_GIVEN ||
           (known->expires_s > now_s && known_says_more(known, imported, now_s));
}

/* Where one part of the merged entry comes from. */
enum source { NOT_KNOWN, SEEN, CONFIRMED, KEPT };

/* Whether a value is within a fifth of the other. What is not known is near what is not known either. */
static bool is_near(uint64_t value, uint64_t other)
{
    uint64_t differ = ab_max(value, other) - ab_min(value, other);

    return !differ || (other != AUTOBUF_NS_UNSET && differ <= other / 5);
}

static enum source rate_source(const struct ab_paths_direction *known, uint32_t known_flags,
                               const struct ab_paths_direction *seen, uint32_t seen_flags)
{
    uint64_t was = *known->rate_bit_per_s, is = *seen->rate_bit_per_s;
    bool echoed = seen_flags & seen->echoed;

    if (!was && !is)
        return NOT_KNOWN;
    if (!is)
        return KEPT;
    if (!was || !(seen_flags & seen->at_least) || (known_flags & known->at_least && is >= was) ||
        (echoed && known_flags & known->echoed))
        return SEEN;
    if (is_near(is, was))
        return CONFIRMED;
    return echoed && is > was ? SEEN : KEPT;
}

static enum source rtt_source(uint64_t known_ns, uint64_t seen_ns)
{
    if (known_ns == AUTOBUF_NS_UNSET && seen_ns == AUTOBUF_NS_UNSET)
        return NOT_KNOWN;
    if (seen_ns <= known_ns)
        return SEEN;
    return seen_ns != AUTOBUF_NS_UNSET && is_near(known_ns, seen_ns) ? CONFIRMED : KEPT;
}

/* The BDP of a rate that was measured with a longer RTT: less by what the rate carries in the difference. */
static uint64_t less_time(uint64_t bdp_bytes, uint64_t rate_bit_per_s, uint64_t longer_ns, uint64_t rtt_ns)
{
    double less_bytes = (double)rate_bit_per_s / 8e9 * (double)(longer_ns - rtt_ns);

    return less_bytes < (double)bdp_bytes ? bdp_bytes - (uint64_t)less_bytes : bdp_bytes;
}

/* Takes one direction over from an entry, of which the round-trip time may be longer than that of *into. */
static void take_direction(struct autobuf_paths_entry *into, struct autobuf_paths_entry *from, bool tx)
{
    struct ab_paths_direction to = ab_paths_direction(into, tx), of = ab_paths_direction(from, tx);

    *to.rate_bit_per_s = *of.rate_bit_per_s;
    *to.low_bit_per_s = *of.low_bit_per_s;
    *to.high_bit_per_s = *of.high_bit_per_s;
    *to.unsure = *of.unsure;
    into->flags = (into->flags & ~(to.at_least | to.echoed)) | (from->flags & (to.at_least | to.echoed));
    *to.bdp_bytes = *of.bdp_bytes;
    if (from->rtt_min_ns != AUTOBUF_NS_UNSET && from->rtt_min_ns > into->rtt_min_ns)
        *to.bdp_bytes = less_time(*of.bdp_bytes, *of.rate_bit_per_s, from->rtt_min_ns, into->rtt_min_ns);
}

static uint64_t expiry(const enum source sources[3], uint64_t known_s, uint64_t seen_s)
{
    uint64_t expires_s = ab_max(known_s, seen_s);

    for (unsigned i = 0; i < 3; i++) {
        uint64_t part_s = sources[i] == SEEN        ? seen_s
                          : sources[i] == CONFIRMED ? ab_max(known_s, seen_s)
                          : sources[i] == KEPT      ? known_s
                                                    : UINT64_MAX;

        expires_s = ab_min(part_s, expires_s);
    }
    return expires_s;
}

/* The method is that of the rates, and of two that of the better one. */
static bool is_of_known(const enum source sources[3], uint32_t known, uint32_t seen)
{
    bool kept = sources[1] > SEEN || sources[2] > SEEN, taken = sources[1] == SEEN || sources[2] == SEEN;

    return kept && (!taken || worth(known) > worth(seen));
}

void known_merge(struct autobuf_paths_entry *known, const struct autobuf_paths_entry *seen)
{
    struct autobuf_paths_entry fresh = *seen, old = *known;
    enum source sources[3]; /* the round-trip time, tx, rx */

    if (old.method == AUTOBUF_METHOD_GIVEN)
        return;
    if (old.expires_s <= fresh.learned_s || known_is_ahead(&old, fresh.learned_s)) {
        *known = fresh;
        return;
    }
    sources[0] = rtt_source(old.rtt_min_ns, fresh.rtt_min_ns);
    if (sources[0] == SEEN)
        known->rtt_min_ns = fresh.rtt_min_ns;
    if (fresh.rtt_median_ns != AUTOBUF_NS_UNSET)
        known->rtt_median_ns = fresh.rtt_median_ns;
    for (unsigned i = 1; i < 3; i++) {
        struct ab_paths_direction was = ab_paths_direction(&old, i == 1), is = ab_paths_direction(&fresh, i == 1);

        sources[i] = rate_source(&was, old.flags, &is, fresh.flags);
        take_direction(known, sources[i] == SEEN ? &fresh : &old, i == 1);
    }
    if (!is_of_known(sources, old.method, fresh.method))
        known->method = fresh.method;
    known->bottleneck = fresh.bottleneck;
    known->samples = (uint32_t)ab_min((uint64_t)old.samples + fresh.samples, UINT32_MAX);
    if (fresh.packet_bytes)
        known->packet_bytes = fresh.packet_bytes;
    known->learned_s = ab_max(old.learned_s, fresh.learned_s);
    known->expires_s = expiry(sources, old.expires_s, fresh.expires_s);
}

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

static const void *field(const struct autobuf_paths_entry *entry, size_t offset)
{
    return (const char *)entry + offset;
}

/* The values of one field of those that agree, in order. Returns how many. */
static size_t sorted(const struct autobuf_paths_entry *entries, size_t count, const bool *agrees, size_t offset,
                     uint64_t values[NEIGHBOURS_MOST])
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        if (agrees[i])
            memcpy(&values[found++], field(entries + i, offset), sizeof *values);
    qsort(values, found, sizeof *values, array_by_value);
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
            agrees[i] = agrees[i] && is_near(*(const uint64_t *)field(entries + i, compared[f]), medians[f]);
        left += agrees[i];
    }
    return left;
}

static void summarise(const struct autobuf_paths_entry *entries, size_t count, const bool *agrees,
                      struct autobuf_paths_entry *network)
{
    uint64_t values[NEIGHBOURS_MOST];
    size_t found = 0;

    for (size_t f = 0; f < sizeof quantities / sizeof *quantities; f++) {
        found = sorted(entries, count, agrees, quantities[f], values);
        memcpy((char *)network + quantities[f], &values[found / 2], sizeof *values);
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
        network->samples = (uint32_t)ab_min((uint64_t)network->samples + e->samples, UINT32_MAX);
        if (e->packet_bytes && (!network->packet_bytes || e->packet_bytes < network->packet_bytes))
            network->packet_bytes = e->packet_bytes;
        network->tx_unsure = (uint32_t)ab_max(e->tx_unsure, network->tx_unsure);
        network->rx_unsure = (uint32_t)ab_max(e->rx_unsure, network->rx_unsure);
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
        agrees[i] =
            is_like(network, entries + i) && is_only_one(entries, count, i) && !known_is_ahead(entries + i, now_s);
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

/* SPDX-License-Identifier: MIT */
#include "known.h"

#include "../lib/base/base.h"
#include "../lib/paths/record.h"

/* -------------------------------------------------------------------------------------- worth */

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
    return known->method == AUTOBUF_METHOD_GIVEN || (known->expires_s > now_s && known_says_more(known, imported, now_s));
}

/* -------------------------------------------------------------------------------------- parts */

/* Where one part of the merged entry comes from. */
enum source { NOT_KNOWN, SEEN, CONFIRMED, KEPT };

/* One direction of an entry. */
struct direction {
    uint64_t *rate_bit_per_s, *low_bit_per_s, *high_bit_per_s, *bdp_bytes;
    uint32_t *unsure;
    uint32_t at_least; /* its flag */
};

static struct direction direction_of(struct autobuf_paths_entry *e, bool tx)
{
    return tx ? (struct direction){&e->tx_rate_bit_per_s, &e->tx_rate_low_bit_per_s, &e->tx_rate_high_bit_per_s,
                                   &e->tx_bdp_bytes, &e->tx_unsure, AUTOBUF_PATH_TX_AT_LEAST}
              : (struct direction){&e->rx_rate_bit_per_s, &e->rx_rate_low_bit_per_s, &e->rx_rate_high_bit_per_s,
                                   &e->rx_bdp_bytes, &e->rx_unsure, AUTOBUF_PATH_RX_AT_LEAST};
}

bool known_is_near(uint64_t value, uint64_t other)
{
    uint64_t differ = ab_max(value, other) - ab_min(value, other);

    return !differ || (other != AUTOBUF_NS_UNSET && differ <= other / 5);
}

static enum source rate_source(uint64_t known_bit_per_s, bool known_at_least, uint64_t seen_bit_per_s, bool seen_at_least)
{
    if (!known_bit_per_s && !seen_bit_per_s)
        return NOT_KNOWN;
    if (!seen_bit_per_s)
        return KEPT;
    if (!known_bit_per_s || !seen_at_least || (known_at_least && seen_bit_per_s >= known_bit_per_s))
        return SEEN;
    return known_is_near(seen_bit_per_s, known_bit_per_s) ? CONFIRMED : KEPT;
}

static enum source rtt_source(uint64_t known_ns, uint64_t seen_ns)
{
    if (known_ns == AUTOBUF_NS_UNSET && seen_ns == AUTOBUF_NS_UNSET)
        return NOT_KNOWN;
    if (seen_ns <= known_ns)
        return SEEN;
    return seen_ns != AUTOBUF_NS_UNSET && known_is_near(known_ns, seen_ns) ? CONFIRMED : KEPT;
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
    struct direction to = direction_of(into, tx), of = direction_of(from, tx);

    *to.rate_bit_per_s = *of.rate_bit_per_s;
    *to.low_bit_per_s = *of.low_bit_per_s;
    *to.high_bit_per_s = *of.high_bit_per_s;
    *to.unsure = *of.unsure;
    into->flags = (into->flags & ~to.at_least) | (from->flags & to.at_least);
    *to.bdp_bytes = *of.bdp_bytes;
    if (from->rtt_min_ns != AUTOBUF_NS_UNSET && from->rtt_min_ns > into->rtt_min_ns)
        *to.bdp_bytes = less_time(*of.bdp_bytes, *of.rate_bit_per_s, from->rtt_min_ns, into->rtt_min_ns);
}

/* ------------------------------------------------------------------------------------ merging */

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
        struct direction was = direction_of(&old, i == 1), is = direction_of(&fresh, i == 1);

        sources[i] = rate_source(*was.rate_bit_per_s, old.flags & was.at_least, *is.rate_bit_per_s,
                                 fresh.flags & is.at_least);
        take_direction(known, sources[i] == SEEN ? &fresh : &old, i == 1);
    }
    if (!is_of_known(sources, old.method, fresh.method))
        known->method = fresh.method;
    known->limiter = fresh.limiter;
    known->samples = fresh.samples <= UINT32_MAX - old.samples ? old.samples + fresh.samples : UINT32_MAX;
    if (fresh.packet_bytes)
        known->packet_bytes = fresh.packet_bytes;
    known->learned_s = ab_max(old.learned_s, fresh.learned_s);
    known->expires_s = expiry(sources, old.expires_s, fresh.expires_s);
}

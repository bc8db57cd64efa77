/* SPDX-License-Identifier: MIT */
/* What the exchange knows of its connection. Pure. */
#include "exchange.h"

#include <errno.h>

#define SEGMENT_BYTES (AB_IP_PACKET_BYTES - AB_TCP_HEADER_BYTES)
#define RELAY_NS (10 * AB_NS_PER_MS) /* a host that is busy answers so much later; unit: test_relay */
#define SEGMENT_MIN_BYTES 64U
#define SEGMENT_MAX_BYTES 65536U

static bool exchange_facts_valid(const struct autobuf_inband_facts *f)
{
    return f->segment_bytes >= SEGMENT_MIN_BYTES && f->segment_bytes <= SEGMENT_MAX_BYTES &&
           f->packet_bytes >= f->segment_bytes && f->packet_bytes <= 2 * SEGMENT_MAX_BYTES;
}

int autobuf_inband_tell(struct autobuf_inband *ib, const struct autobuf_inband_facts *theirs)
{
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;

    if (!ib || !ab_struct_in(&facts, sizeof facts, theirs))
        return -EINVAL;
    facts.rtt_min_ns = ab_ns_or_unset(facts.rtt_min_ns); /* 0: a zeroed struct, or a shorter one */
    if (!facts.segment_bytes)
        facts.segment_bytes = SEGMENT_BYTES;
    if (!facts.packet_bytes)
        facts.packet_bytes = facts.segment_bytes + AB_TCP_HEADER_BYTES;
    if (!exchange_facts_valid(&facts))
        return -EINVAL;
    ib->facts = facts;
    return 0;
}

uint64_t ab_inband_wire_bytes(const struct autobuf_inband *ib, uint64_t payload_bytes)
{
    return payload_bytes * ib->facts.packet_bytes / ib->facts.segment_bytes;
}

uint64_t ab_inband_budget_bytes(const struct autobuf_inband *ib)
{
    return ab_min((uint64_t)ib->options.budget_bytes * ib->facts.segment_bytes /
                      ib->facts.packet_bytes,
                  AUTOBUF_INBAND_BUDGET_BYTES);
}

bool ab_inband_is_relayed(const struct autobuf_inband *ib)
{
    uint64_t high_ns = ib->facts.rtt_high_ns;

    return high_ns && ib->shortest_ns != AUTOBUF_NS_UNSET && ib->shortest_ns > RELAY_NS &&
           (ib->shortest_ns - RELAY_NS) / 2 > high_ns;
}

uint64_t ab_inband_rtt_ns(const struct autobuf_inband *ib)
{
    return ab_inband_is_relayed(ib) ? ib->shortest_ns : ab_min(ib->facts.rtt_min_ns, ib->exchange_ns);
}

uint64_t ab_inband_bdp(const struct autobuf_inband *ib, uint64_t rate_bit_per_s)
{
    uint64_t rtt_ns = ab_inband_rtt_ns(ib);
    uint32_t small_bytes = ib->facts.packet_bytes - ib->facts.segment_bytes;

    return rate_bit_per_s && rtt_ns != AUTOBUF_NS_UNSET
               ? ab_estimate_bdp(rate_bit_per_s, rtt_ns, ib->facts.packet_bytes, small_bytes)
               : 0;
}

void ab_inband_add_pace(const struct autobuf_inband *ib, struct ab_line *line)
{
    line->values[AB_KEY_PACE] = ib->facts.pace_bit_per_s;
    line->values[AB_KEY_PACED] = ib->facts.flags & AUTOBUF_INBAND_PACED;
}

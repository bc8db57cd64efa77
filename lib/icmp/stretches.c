/* SPDX-License-Identifier: MIT */
#include "stretches.h"

#include <errno.h>

#include "../available/stretch.h"
#include "schedule.h"

/* "unit" is a case of tests/unit/icmp/test_stretches.c, "sim" one of tests/sim/test_probe_sim.c. */
#define GAP_NS (AB_NS_PER_S / 2000)    /* between groups, at least; unit: groups_last_as_long_as_timers_can */
#define SENDS_NS (AB_NS_PER_S / 8)     /* a stretch lasts no longer; unit: a_stretch_ends */
#define STRETCH_NS (AB_NS_PER_S / 2)   /* for one and its replies, beside two RTTs; sim: as FLAT_PART */
#define STRETCHES 4U                   /* that share the budget; unit: a_stretch_ends */
#define FLAT_PART 256U                 /* of its time the RTT grew, at most; sim: stretches_of_echoes_hold_the_truth */
#define LEAST_GROUPS 6U                /* or nothing shows; unit: a_budget_that_is_too_small */

struct ab_stretches {
    uint64_t cost_bytes; /* of one stretch, at most */
    uint64_t begin_ns;   /* of the present one */
    uint64_t left_bytes; /* of it */
    uint64_t gap_ns;     /* from group to group */
    uint32_t group, group_left; /* packets that leave together, so that timers keep up */
    struct ab_stretch stretch;
    struct ab_search search;
    struct ab_available room;
};

size_t ab_stretches_bytes(void)
{
    return sizeof(struct ab_stretches);
}

void ab_stretches_begin(struct ab_stretches *s, const struct ab_rate *rate, uint64_t budget_bytes)
{
    s->cost_bytes = budget_bytes / STRETCHES;
    s->search = (struct ab_search){.capacity_low_bit_per_s = rate->low_bit_per_s,
                                   .capacity_high_bit_per_s = rate->at_least ? 0 : rate->high_bit_per_s};
}

bool ab_stretches_next(struct ab_stretches *s, uint32_t full_bytes, uint64_t now_ns)
{
    struct ab_stretch *how = &s->stretch;
    uint64_t together;

    if (!ab_search_next(&s->search, how))
        return false;
    together = ab_mul_div(how->pace_bit_per_s, GAP_NS, 8 * AB_NS_PER_S) / full_bytes;
    s->group = s->group_left = (uint32_t)ab_max(together, 1);
    s->gap_ns = ab_mul_div((uint64_t)s->group * full_bytes, 8 * AB_NS_PER_S, how->pace_bit_per_s);
    s->left_bytes = ab_search_bytes(ab_max(how->capacity_low_bit_per_s, how->capacity_high_bit_per_s));
    s->left_bytes = ab_min(s->left_bytes, s->cost_bytes);
    s->begin_ns = now_ns;
    return s->left_bytes >= (uint64_t)LEAST_GROUPS * s->group * full_bytes;
}

uint64_t ab_stretches_sent(struct ab_stretches *s, uint32_t full_bytes, uint64_t due_ns, uint64_t now_ns)
{
    uint64_t group_bytes = (uint64_t)s->group * full_bytes;

    if (--s->group_left)
        return due_ns;
    s->left_bytes -= ab_min(s->left_bytes, group_bytes);
    if (s->left_bytes < group_bytes || now_ns - s->begin_ns >= SENDS_NS)
        return AUTOBUF_NS_UNSET;
    s->group_left = s->group;
    return ab_max(due_ns + s->gap_ns, now_ns);
}

/* A group, after the one before. Returns false if a packet of it was lost. */
static bool chunk_of(struct ab_chunk *chunk, const struct ab_chunk *before, const struct ab_packet *packets,
                     uint32_t group)
{
    *chunk = (struct ab_chunk){packets[0].sent_ns, 0, 0};
    if (before) { /* packets may overtake each other, and a stamp may be missing */
        chunk->sent_ns = ab_max(chunk->sent_ns, before->sent_ns);
        chunk->arrived_ns = before->arrived_ns;
    }
    for (uint32_t i = 0; i < group; i++) {
        if (packets[i].received_ns == AUTOBUF_NS_UNSET)
            return false;
        chunk->arrived_ns = ab_max(chunk->arrived_ns, packets[i].received_ns);
        chunk->bytes += packets[i].bytes;
    }
    return true;
}

static uint64_t mean_rtt_ns(const struct ab_chunk *chunks, size_t count)
{
    uint64_t sum_ns = 0;

    for (size_t i = 0; i < count; i++)
        sum_ns += chunks[i].arrived_ns - ab_min(chunks[i].sent_ns, chunks[i].arrived_ns);
    return count ? sum_ns / count : 0;
}

/*
 * Whether the mean RTT of the second half is that of the first one, but for half a packet. The link may be faster than
 * the known one: on it a growth that is too little to be called a queue may already mean that nothing is free.
 */
static bool is_flat(const struct ab_stretches *s, const struct ab_chunk *chunks, size_t count)
{
    uint64_t before_ns = mean_rtt_ns(chunks, count / 2), after_ns = mean_rtt_ns(chunks + count / 2, count - count / 2);
    uint64_t capacity = ab_max(s->stretch.capacity_low_bit_per_s, 1);
    uint64_t half_ns = ab_mul_div(chunks[0].bytes / s->group, 4 * AB_NS_PER_S, capacity);

    return after_ns <= before_ns + ab_max((chunks[count - 1].sent_ns - chunks[0].sent_ns) / FLAT_PART, half_ns);
}

/* What was sent before a packet that was lost counts. */
void ab_stretches_take(struct ab_stretches *s, const struct ab_packet *packets, size_t count, uint64_t *room)
{
    struct ab_chunk *chunks = (struct ab_chunk *)room;
    struct autobuf_available found;
    size_t chunk_count = 0;
    bool lost = false;

    for (size_t i = 0; i + s->group <= count && !lost; i += s->group) {
        lost = !chunk_of(&chunks[chunk_count], chunk_count ? &chunks[chunk_count - 1] : NULL, packets + i, s->group);
        chunk_count += !lost;
    }
    ab_stretch_estimate(&s->room, chunks, chunk_count, UINT64_MAX, &s->stretch, &found);
    if (found.tx_high_bit_per_s || (chunk_count && !is_flat(s, chunks, chunk_count))) {
        found.tx_low_bit_per_s = 0;
        lost = true;
    }
    ab_search_take(&s->search, s->stretch.pace_bit_per_s, lost, &found);
}

static void begin_search(struct ab_schedule *schedule)
{
    uint64_t spent_bytes = ab_min(schedule->cost_bytes, schedule->budget_bytes);
    uint64_t room_bytes = (schedule->capacity - schedule->count) * schedule->full_bytes;
    struct ab_rate rate;

    ab_estimate_rate(schedule->packets, schedule->count, schedule->scratch, &rate);
    ab_stretches_begin(schedule->stretches, &rate, ab_min(schedule->budget_bytes - spent_bytes, room_bytes));
    schedule->measured = schedule->count;
}

/* Time for it is beyond that of the trains. */
bool ab_stretches_go_on(struct ab_schedule *schedule, uint64_t now_ns, uint64_t rtt_ns)
{
    if (!schedule->stretches || rtt_ns == AUTOBUF_NS_UNSET)
        return false;
    if (schedule->phase == AB_STRETCHES)
        ab_stretches_take(schedule->stretches, schedule->packets + schedule->phase_begin,
                          schedule->count - schedule->phase_begin, schedule->scratch);
    else
        begin_search(schedule);
    if (!ab_stretches_next(schedule->stretches, schedule->full_bytes, now_ns))
        return false;
    schedule->phase = AB_STRETCHES;
    schedule->phase_begin = schedule->count;
    schedule->trains++;
    schedule->spacing_ns = 0;
    schedule->next_ns = now_ns;
    schedule->close_ns = AUTOBUF_NS_UNSET;
    schedule->end_ns = now_ns + STRETCH_NS + 2 * ab_min(rtt_ns, AB_NS_PER_S);
    return true;
}

int ab_stretches_result(const struct ab_stretches *s, struct autobuf_available *theirs)
{
    static const struct ab_search none = {0};
    const struct ab_search *search = s ? &s->search : &none;
    struct autobuf_available found;

    ab_search_result(search, search, &found);
    found.flags |= AUTOBUF_AVAILABLE_ECHOED;
    return ab_struct_out(theirs, &found, sizeof found) ? 0 : -EINVAL;
}

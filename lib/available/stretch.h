/* SPDX-License-Identifier: MIT */
/*
 * What other traffic leaves free, from stretches of paced data that are sent to find it out. Pure: times of sending and
 * of arrival in, a range out.
 *
 * A chunk's time in the path is that of its arrival less that of its sending. Two clocks differ, so only its change is
 * known, and that is the queue's. So a stretch shows what the RTT of an open connection does, see available.h. A rate
 * of which the queue does not grow is free; one of which it does is too much, and how fast it grows says by how much.
 */
#ifndef AB_STRETCH_H
#define AB_STRETCH_H

#include "available.h"

struct ab_chunk {
    uint64_t sent_ns; /* on the sender's clock */
    uint64_t arrived_ns;
    uint64_t bytes; /* of IP */
};

/* One direction's search. All zero but for the capacity at first. */
struct ab_search {
    uint64_t capacity_low_bit_per_s;  /* 0: unknown, and there is no search */
    uint64_t capacity_high_bit_per_s; /* 0: unknown */
    uint64_t low_bit_per_s, high_bit_per_s; /* what is free, so far; 0: unknown */
    uint64_t tried_bit_per_s;         /* the highest rate of which the queue did not grow */
    uint64_t lossy_bit_per_s;         /* the lowest at which the queue was too short; 0: none */
    uint64_t over_ns;                 /* of all stretches */
    unsigned stretches;
    uint32_t cause;
    bool share; /* the queue is no FIFO queue */
};

/* How a stretch is sent, and what is known of the link's capacity; 0: unknown. IP bits per second. */
struct ab_stretch {
    uint64_t pace_bit_per_s;
    uint64_t capacity_low_bit_per_s, capacity_high_bit_per_s;
};

/* The next stretch; false: the search is over. */
bool ab_search_next(const struct ab_search *search, struct ab_stretch *next);

/* The most IP bytes of one stretch: all of a direction together are 4 MB, or half a second of the capacity. */
uint64_t ab_search_bytes(uint64_t capacity_bit_per_s);

/* Takes what a stretch showed, as tx of *estimate. lost: packets of it were. */
void ab_search_take(struct ab_search *search, uint64_t pace_bit_per_s, bool lost,
                    const struct autobuf_available *estimate);

/* What both searches found. back: in the direction of rx; NULL: there was none. */
void ab_search_result(const struct ab_search *tx, const struct ab_search *back, struct autobuf_available *found);

/*
 * What a stretch shows, as tx. The peer's times are not believed: times that run backwards, a stretch of more than
 * 10 s, or a rate far above the capacity and what arrived, show nothing. Chunks that were sent later than until_ns
 * after the first one do not count: a queue that has dropped a packet shows no longer what came. room: for the
 * function to work in.
 */
void ab_stretch_estimate(struct ab_available *room, const struct ab_chunk *chunks, size_t count, uint64_t until_ns,
                         const struct ab_stretch *stretch, struct autobuf_available *estimate);

#endif

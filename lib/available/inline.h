/* SPDX-License-Identifier: MIT */
/*
 * What is free beyond what a program sends, from its own data: in-line measurement (Cao, Hasegawa and Murata 2004).
 * Pure: samples of a connection in, a pace out.
 *
 * Only data that wait can be sent faster than a program writes. So a pace of half of its rate holds data back, until
 * enough wait for a stretch at up to twice that rate; and the RTT of the stretch shows whether that was free, see
 * available.h. Further stretches follow as in stretch.h. All data are sent in the end: the program's are late by less
 * than a stretch takes, which is never more than 2% of the time since the connection began, or since the last search.
 */
#ifndef AB_INLINE_H
#define AB_INLINE_H

#include "stretch.h"

struct ab_inline_sample {
    uint64_t now_ns;
    uint64_t rtt_ns, rtt_min_ns, rtt_deviation_ns;
    uint64_t delivered_bytes; /* IP bytes that the peer has, since the connection began */
    uint64_t waiting_bytes;   /* IP bytes that the program has written, and that are not sent */
    uint64_t room_bytes;      /* IP bytes that may wait besides */
    uint32_t resent_packets;  /* since the connection began */
};

enum ab_inline_state { AB_INLINE_RESTS, AB_INLINE_HOLDS, AB_INLINE_SENDS, AB_INLINE_LISTENS };

/* All zero at first. */
struct ab_inline {
    enum ab_inline_state state;
    uint64_t pace_bit_per_s;    /* to set now; 0: none */
    struct ab_search search;
    struct ab_available rounds; /* of a stretch, as its acknowledgements come */
    uint64_t rate_bit_per_s;    /* of the program */
    uint64_t stretch_bit_per_s; /* of the stretch that is sent, or for which data are held back */
    uint64_t rested_ns;         /* since when; 0: not begun */
    uint64_t begin_ns;          /* of the search, */
    uint64_t sends_ns;          /* of the stretch, with this RTT, */
    uint64_t rtt_ns;
    uint64_t since_ns;          /* and of the state */
    uint64_t sample_ns;         /* the newest one in it */
    uint32_t deviation_us;      /* of the RTT, before the search */
    uint32_t resent_packets;
    unsigned failed;            /* searches, one after the other, which found nothing */
    struct autobuf_available found;
    uint64_t found_ns;          /* 0: nothing yet */
};

/* Whether the next search is due. The first call begins the time of rest. */
bool ab_inline_is_due(struct ab_inline *in, const struct ab_inline_sample *sample);

/*
 * Begins a search that is due, if the program leaves the path to others: passive is what its data show by themselves.
 * capacity_*: of the path; 0: unknown. Returns true if it has begun.
 */
bool ab_inline_begin(struct ab_inline *in, const struct ab_inline_sample *sample,
                     const struct autobuf_available *passive, uint64_t capacity_low_bit_per_s,
                     uint64_t capacity_high_bit_per_s);

/* Takes in a sample of a search. Returns true if the pace has changed. */
bool ab_inline_sample(struct ab_inline *in, const struct ab_inline_sample *sample);

/* When the next sample of a search is due. */
uint64_t ab_inline_next_ns(const struct ab_inline *in);

/* The pace could not be set: the search is over. */
void ab_inline_stop(struct ab_inline *in, uint64_t now_ns);

/* What was found, if it was in the last minute, replaces a range that has no high bound. */
void ab_inline_result(const struct ab_inline *in, uint64_t now_ns, struct autobuf_available *available);

#endif

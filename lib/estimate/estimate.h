/* SPDX-License-Identifier: MIT */
/*
 * Samples in, what they say of the path out. Pure: no socket, no clock, no allocation.
 *
 * A train of N packets of L IP bytes, sent back to back, leaves the narrowest link with one packet
 * every L/C (Carter and Crovella 1996; Jacobson 1988 for a pair). What disturbs it, and what is done:
 *
 *   stamps, interrupts, schedulers  readings are taken over windows, the widest that most readings
 *                                   agree on, from half a train down to 75 us; of the readings the
 *                                   half-sample mode, not the mean;
 *   cross traffic                   its packets come between ours and stretch windows to a rate below
 *                                   C, but not all gaps. Nothing comes faster than C: a cluster at
 *                                   the short end of the single gaps is C (Dovrolis, Ramanathan and
 *                                   Moore 2004: the capacity mode);
 *   loss, reordering                only gaps between adjacent packets in order count;
 *   jitter, coalescing              where the windows disagree and the gaps have no such cluster:
 *                                   regression of arrival time on sequence over the long trains,
 *                                   without their first third.
 */
#ifndef AB_ESTIMATE_H
#define AB_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/base.h"

/* No batch of an interrupt or a scheduler lasts longer; what is shorter resolves nothing. */
#define AB_WINDOW_NS (300 * AB_NS_PER_US)
#define AB_GAPS_NEEDED 3U /* adjacent pairs of replies for a rate */

/*
 * One packet sent, or several that arrived as one (a byte stream shows no more). Packets of a train
 * stand together, in the order of sending.
 */
struct ab_packet {
    uint64_t sent_ns;
    uint64_t received_ns; /* AUTOBUF_NS_UNSET: no reply (yet) */
    uint32_t bytes;       /* IP bytes */
    uint32_t train;       /* 0: a small echo, for the round-trip time */
    bool merged;          /* several that arrived as one */
};

struct ab_rate {
    uint64_t rate_bit_per_s; /* 0: unknown */
    uint64_t low_bit_per_s;
    uint64_t high_bit_per_s;
    uint64_t pooled_bit_per_s; /* all adjacent gaps together: never far above C */
    uint64_t window_ns;        /* of the readings; 0: whole runs of adjacent replies */
    bool at_least;             /* the trains were too short, or this host too slow, to resolve it */
    bool torn;                 /* jitter or batches: found by regression */
    bool sure;                 /* most readings agree */
};

/*
 * The readings that packets give, unsorted, at most one a packet: over windows of window_ns, or for
 * 0 over each whole run of adjacent replies. rates has room for count values.
 */
size_t ab_estimate_readings(const struct ab_packet *packets, size_t count, uint64_t window_ns,
                            uint64_t *rates);

/* Capacity out of all trains. scratch has room for count values. */
void ab_estimate_rate(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                      struct ab_rate *rate);

/*
 * The same of a byte stream's trains, whose sender may space them at pace_bit_per_s or so (IP bytes; 0:
 * not), and surely does if it is paced. It then lets two or more segments go at a time, so that the gaps
 * within such bursts are the path's, all others its own. newest: where the newest train begins. A rate
 * near the pace is but a lower bound; a pace that is only computed grows from train to train, and a
 * path's rate does not. unpaced: from where on trains were not held back; moves behind the newest if it was.
 */
void ab_estimate_stream(const struct ab_packet *packets, size_t count, size_t newest, size_t *unpaced,
                        uint64_t pace_bit_per_s, bool paced, uint64_t *scratch,
                        struct ab_rate *rate);

/* Minimum and median round-trip time of the small echoes; returns how many were answered. */
size_t ab_estimate_rtt(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                       uint64_t *min_ns, uint64_t *median_ns);

/*
 * Fills the measured fields of path: times, rates, products, samples. 0, AUTOBUF_E_NOREPLY or
 * AUTOBUF_E_FEW, as autobuf_probe_result().
 */
int ab_estimate_path(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                     struct autobuf_path *path);

/* IP bytes of rate x (rtt of small packets), corrected to a full-size segment and its ACK. */
uint64_t ab_estimate_bdp(uint64_t rate_bit_per_s, uint64_t rtt_ns, uint32_t full_bytes,
                         uint32_t small_bytes);

#endif

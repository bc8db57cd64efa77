/* SPDX-License-Identifier: MIT */
/*
 * Samples in, what they say of the path out. Pure: no socket, no clock, no allocation. docs/ESTIMATOR.md tells it
 * on one page.
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

/*
 * No batch of an interrupt or a scheduler lasts longer; what is shorter resolves nothing. tests/mutate sweep
 * AB_WINDOW_NS: errors of 1.1, 1.1 and 2.0% in batches of 125 us with half of it, as it is, and twice that.
 */
#define AB_WINDOW_NS (300 * AB_NS_PER_US)
/* Adjacent pairs of replies for a rate. The same: p95 of 0, 0 and 9.1% with a loss of 20%. */
#define AB_GAPS_NEEDED 3U

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

/*
 * How a candidate for the rate was found, in the order of preference: of those that stand, the first is
 * chosen. docs/ESTIMATOR.md tells them one by one.
 */
enum ab_kind {
    AB_KIND_NONE,
    AB_KIND_BURSTS,  /* gaps within the bursts of a paced sender */
    AB_KIND_SLOWER,  /* all gaps of one, far below its pace */
    AB_KIND_CAPPED,  /* a paced train as a whole: a bound */
    AB_KIND_MEDIAN,  /* of whole trains, where what the readings say is far above it: a bound */
    AB_KIND_EVEN,    /* gaps of trains shorter than a batch, which are even, as no batch makes them */
    AB_KIND_PADDED,  /* trains shorter than a batch, with the time that one may hide: a bound */
    AB_KIND_SENT,    /* all gaps, where packets came no slower than this host sent them: a bound */
    AB_KIND_CLUSTER, /* the fastest single gaps that agree: the capacity between other traffic */
    AB_KIND_WINDOWS, /* windows of time */
    AB_KIND_SLOPE,   /* regression of arrival times */
    AB_KIND_POOLED,  /* all gaps */
    AB_KINDS
};

struct ab_rate {
    uint64_t rate_bit_per_s; /* 0: unknown */
    uint64_t low_bit_per_s;
    uint64_t high_bit_per_s;
    uint64_t pooled_bit_per_s; /* all adjacent gaps together: never far above C */
    uint64_t window_ns;        /* of the readings; 0: whole runs of adjacent replies */
    uint8_t kind;              /* AB_KIND_*, of the candidate that was chosen */
    uint8_t agreement_percent; /* of its readings; 0: it needs none */
    bool at_least;             /* the trains were too short, or this host too slow, to resolve it */
    bool torn;                 /* by jitter or batches: neither windows nor gaps agree */
    bool sure;                 /* most readings agree */
};

/* Why such a candidate is chosen: the end of a line for a log, in plain English. */
const char *ab_kind_why(unsigned kind);

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

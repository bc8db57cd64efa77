/* SPDX-License-Identifier: MIT */
/*
 * Takes samples, and says what they show of the path. Pure: no socket, no clock, no allocation. docs/ESTIMATOR.md
 * explains it on one page.
 *
 * A train of N packets of L IP bytes is sent back to back. It leaves the narrowest link, of capacity C, with one
 * packet every L/C (Carter and Crovella 1996; Jacobson 1988 for a pair). What disturbs it, and what is done:
 *
 *   stamps, interrupts, schedulers  Readings are taken over windows of time, from half a train down to 75 us: the
 *                                   widest windows of which most readings agree. Their half-sample mode counts,
 *                                   not their mean.
 *   cross traffic                   Other packets come between those of the train. They stretch windows to a rate
 *                                   below C, but not all gaps. Nothing comes faster than C, so a cluster of the
 *                                   shortest single gaps is C (Dovrolis, Ramanathan and Moore 2004: the capacity
 *                                   mode).
 *   loss, reordering                Only gaps between adjacent packets in order count.
 *   jitter, coalescing              If the windows disagree and the gaps have no such cluster, the slope of arrival
 *                                   times over the bytes of the long trains counts, without their first third.
 */
#ifndef AB_ESTIMATE_H
#define AB_ESTIMATE_H

#include "../base/base.h"

/*
 * No batch of an interrupt or a scheduler lasts longer than this; a train that is shorter may be one batch.
 * tests/mutate sweep AB_WINDOW_NS: errors of 1.1, 1.1 and 2.0% in batches of 125 us with half of it, as it is, and
 * twice that.
 */
#define AB_WINDOW_NS (300 * AB_NS_PER_US)
/* Adjacent pairs of replies that a rate needs. The same sweep: p95 of 0, 0 and 9.1% with a loss of 20%. */
#define AB_GAPS_NEEDED 3U

/*
 * One packet that was sent, or several that arrived as one (in a byte stream these cannot be told apart). The
 * packets of a train stand together, in the order in which they were sent.
 */
struct ab_packet {
    uint64_t sent_ns;
    uint64_t received_ns; /* AUTOBUF_NS_UNSET: no reply (yet) */
    uint32_t bytes;       /* IP bytes */
    uint32_t train;       /* 0: a small echo, for the RTT */
    bool merged;          /* several packets that arrived as one */
    bool delayed;         /* a small echo that address resolution or a radio delayed */
};

/*
 * How a candidate for the rate was found, in the order of preference: the first one that stands is chosen.
 * docs/ESTIMATOR.md explains each of them.
 */
enum ab_kind {
    AB_KIND_NONE,
    AB_KIND_BURSTS,  /* gaps within the bursts of a paced sender */
    AB_KIND_SLOWER,  /* all gaps of a paced sender, if they are far below its pace */
    AB_KIND_CAPPED,  /* a paced train as a whole: a bound */
    AB_KIND_MEDIAN,  /* the median of whole trains, if the readings are far above it: a bound */
    AB_KIND_EVEN,    /* even gaps of trains shorter than a batch: no batch makes even gaps */
    AB_KIND_PADDED,  /* trains shorter than a batch, plus the time that a batch may hide: a bound */
    AB_KIND_SENT,    /* all gaps, if packets arrived as fast as this host sent them: a bound */
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
    uint64_t pooled_bit_per_s; /* of all adjacent gaps together: not far above C */
    uint64_t window_ns;        /* width of the readings; 0: whole runs of adjacent replies */
    uint8_t kind;              /* AB_KIND_*, of the candidate that was chosen */
    uint8_t agreement_percent; /* how many of its readings agree; 0: it needs no agreement */
    bool at_least;             /* a lower bound: the trains were too short, or this host too slow, for the rate */
    bool torn;                 /* jitter or batches tore the trains: neither windows nor gaps agree */
    bool sure;                 /* most readings agree: more would not change the rate */
    uint8_t unsure;            /* AUTOBUF_UNSURE_*: why the rate may be wrong */
};

/* Why a candidate of this kind is chosen: the end of a line for a log, in plain English. */
const char *ab_kind_why(unsigned kind);

/*
 * The readings of the packets, unsorted, at most one for each packet. Each is taken over a window of window_ns; if
 * window_ns is 0, over a whole run of adjacent replies. rates has room for count values.
 */
size_t ab_estimate_readings(const struct ab_packet *packets, size_t count, uint64_t window_ns, uint64_t *rates);

/* Whether most windows took as long to send as to arrive. Then the sender made them, also if batches changed a few. */
bool ab_most_as_sent(const struct ab_packet *packets, size_t count, uint64_t window_ns);

/* Estimates the capacity from all trains. scratch has room for count values. */
void ab_estimate_rate(const struct ab_packet *packets, size_t count, uint64_t *scratch, struct ab_rate *rate);

/*
 * The same for the trains of a byte stream. Its sender may pace at about pace_bit_per_s (IP bytes; 0: it does not);
 * if paced is true, it certainly does. Such a sender sends bursts of two or more segments: the path makes the gaps
 * within a burst, the sender makes all others. A rate near the pace is only a lower bound. A pacing rate that TCP
 * computes but does not apply grows from train to train; the path's rate does not. newest: index of the newest train's
 * first packet. *unpaced: the same of the first train without pacing; it moves behind a newest train that was paced.
 */
void ab_estimate_stream(const struct ab_packet *packets, size_t count, size_t newest, size_t *unpaced,
                        uint64_t pace_bit_per_s, bool paced, uint64_t *scratch,
                        struct ab_rate *rate);

/* Minimum and median RTT of the small echoes that were answered and not delayed; returns how many. */
size_t ab_estimate_rtt(const struct ab_packet *packets, size_t count, uint64_t *scratch,
                       uint64_t *min_ns, uint64_t *median_ns);

/*
 * Fills the measured fields of path: RTT, rates, BDP, samples. 0, AUTOBUF_E_NOREPLY or AUTOBUF_E_FEW, as
 * autobuf_probe_result().
 */
int ab_estimate_path(const struct ab_packet *packets, size_t count, uint64_t *scratch, struct autobuf_path *path);

/* IP bytes of rate x RTT. The RTT of small packets is corrected to that of a full-size segment and its ACK. */
uint64_t ab_estimate_bdp(uint64_t rate_bit_per_s, uint64_t rtt_ns, uint32_t full_bytes, uint32_t small_bytes);

/* ------------------------------------------------------------------------------------- mode.c */

/* Sorts ascending, in place, without allocating. */
void ab_sort(uint64_t *values, size_t count);

/*
 * The half-sample mode (Bickel 2002; Robertson and Cryer 1974) of ascending values. Takes the narrowest run that
 * holds half of the values, then the narrowest half of that run, and so on until two values are left; the mode is
 * their mean. It is robust as long as fewer than half of the values are outliers, on either side. count above 0.
 */
uint64_t ab_mode(const uint64_t *sorted, size_t count);

/* How many of ascending values lie within part/1000 of center. */
size_t ab_count_near(const uint64_t *sorted, size_t count, uint64_t center, uint64_t part);

/* The value below which percent of the ascending values lie; count above 0. */
uint64_t ab_percentile(const uint64_t *sorted, size_t count, unsigned percent);

/* --------------------------------------------------------------------------------- readings.c */

/* All adjacent gaps together. */
struct ab_gaps {
    size_t count;
    size_t shorter;      /* how many are shorter than a third of the mean */
    uint64_t span_ns;    /* their sum */
    uint64_t bytes;      /* IP bytes that arrived in them */
    uint64_t longest_ns; /* the longest run of adjacent replies */
};

struct ab_gaps ab_gaps_of(const struct ab_packet *packets, size_t count);

/* Readings of single gaps, unsorted, without gaps beside merged packets. */
size_t ab_readings_of_gaps(const struct ab_packet *packets, size_t count, uint64_t *rates);

/* The end (exclusive) of the run of adjacent replies that begins at i. */
size_t ab_run_end(const struct ab_packet *packets, size_t count, size_t i);

/* The rate from a's arrival to b's. bytes: of the packets after a, b included. */
uint64_t ab_rate_between(const struct ab_packet *a, const struct ab_packet *b, uint64_t bytes);

/* IP bytes of packets[begin..end). */
uint64_t ab_bytes_of(const struct ab_packet *packets, size_t begin, size_t end);

/*
 * The rate from the least squares of arrival time on bytes: one slope for all trains, each with its own origin. 0:
 * no train is long enough.
 */
uint64_t ab_slope_of(const struct ab_packet *packets, size_t count);

/* ------------------------------------------------------------------------------------ doubt.c */

/* What else the packets show. */
struct ab_evidence {
    const uint64_t *gaps; /* readings of single gaps, ascending */
    size_t count;
    uint64_t slope_bit_per_s; /* 0: unknown */
    bool piled;               /* many gaps are much shorter than the mean */
};

/* Sets rate->unsure, and widens the interval as the evidence asks. */
void ab_doubt(struct ab_rate *rate, const struct ab_evidence *evidence);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A credit window over a path in virtual time. A sender sends as much as its credit allows (and optionally its
 * congestion window). A link with a queue carries it, a reader consumes it, and autobuf_rightsize_*() sizes the
 * credit.
 */
#ifndef SIM_CREDIT_H
#define SIM_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

struct sim_credit {
    double rate_byte_per_s;      /* of the link */
    uint64_t rtt_ns;             /* of the empty path */
    double queue_bytes;          /* queue limit; 0: none */
    bool congestion_window;      /* slow start, then a packet per RTT; halved after a drop */
    bool tell_rtt;               /* the receiver knows the RTT */
    uint64_t window_bytes;       /* at the beginning */
    uint64_t cap_bytes;
    bool fixed;                  /* the window stays as it is */
    double reader_byte_per_s;    /* 0: as fast as bytes arrive */
    uint64_t reader_pause_ns;    /* the reader stops that long, */
    uint64_t reader_period_ns;   /* that often; 0: never */
    uint64_t sender_pause_ns;    /* and so may the sender */
    uint64_t sender_period_ns;
    uint64_t change_ns;          /* at this time the link's rate changes; 0: never */
    double changed_byte_per_s;
    uint64_t longer_ns;          /* at this time the way back becomes longer; 0: never */
    uint64_t longer_by_ns;
    uint64_t gap_every_ns;       /* autobuf_rightsize_gap() is called; 0: never */
    uint64_t end_ns;
};

/* Once a step. */
typedef void sim_credit_fn(void *user, uint64_t now_ns, const struct autobuf_rightsize_state *state,
                           double consumed_bytes, double flight_bytes, double queue_bytes);

/* Returns the bytes that were consumed. sample may be NULL. */
double sim_credit(const struct sim_credit *sim, sim_credit_fn *sample, void *user);

#endif

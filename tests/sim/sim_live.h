/* SPDX-License-Identifier: MIT */
/*
 * A TCP sender that always has data, over a link with a deep queue, in virtual time. The judge of autobuf_live_*()
 * looks at it and paces it. The model of the sender is simple: slow start until the queue ends it (as HyStart does,
 * or not), then as much in flight as its buffer holds, not faster than its pace. For throughput the buffer is as
 * large as autotuning makes it, until the judge sets it; a writer that waits with poll() keeps two thirds of it in
 * flight.
 */
#ifndef SIM_LIVE_H
#define SIM_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

struct sim_live {
    double rate_byte_per_s;   /* of the link, payload */
    uint64_t rtt_ns;          /* of the empty path */
    double buffer_bytes;      /* most in flight */
    double jitter_ms;         /* added to each look's round-trip time: 0 to so much, evenly */
    uint64_t change_ns;       /* when the rate changes; 0: never */
    double changed_byte_per_s;
    uint64_t changed_rtt_ns;   /* 0: it stays */
    uint64_t stall_ns;        /* for so long nothing gets through, once in each stall_every_ns; 0: never */
    uint64_t stall_every_ns;
    bool catches_up;          /* what a stall held back then comes at once */
    uint64_t seed;
    uint64_t end_ns;
    bool unpaced;             /* nobody looks after it: for comparison */
    /* For throughput: */
    const struct autobuf_limits *limits; /* of the host, whose autotuning makes the buffer; NULL: low delay */
    bool bursts;              /* a writer that sleeps until a third of its buffer is free, then fills it, and
                                 has a look taken only then */
    uint64_t rare_ns;         /* no look sooner than so long after the last; 0: as soon as the judge wants one */
    double queue_bytes;       /* what is beyond is lost, and halves the congestion window; 0: nothing is */
};

struct sim_span {
    double rate_byte_per_s;   /* delivered */
    double rtt_ratio;         /* mean, of the empty path's */
    double worst_ratio;
};

/* What happened from begin_ns to end_ns of the run. */
struct sim_span sim_live(const struct sim_live *sim, uint64_t begin_ns, uint64_t end_ns);

#endif

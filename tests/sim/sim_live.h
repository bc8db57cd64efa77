/* SPDX-License-Identifier: MIT */
/*
 * A TCP sender that always has data, over a link with a deep queue, in virtual time. The judge of autobuf_live_*()
 * samples and paces it. The model of the sender is simple: slow start until the queue ends it (as HyStart does, or
 * not), then as much in flight as its buffer holds, at most at its pacing rate. For throughput autotuning sizes the
 * buffer until the judge sets it; a writer that waits with poll() keeps two thirds of it in flight.
 */
#ifndef SIM_LIVE_H
#define SIM_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

struct sim_live {
    double rate_byte_per_s;   /* of the link, payload */
    uint64_t rtt_ns;          /* of the empty path */
    double buffer_bytes;      /* limit of bytes in flight */
    double jitter_ms;         /* added to the RTT of each sample: uniform, 0 to so much */
    uint64_t change_ns;       /* when the rate changes; 0: never */
    double changed_byte_per_s;
    uint64_t changed_rtt_ns;   /* 0: it stays */
    uint64_t stall_ns;        /* nothing gets through for so long, once per stall_every_ns; 0: never */
    uint64_t stall_every_ns;
    bool catches_up;          /* bytes that a stall delayed then arrive at once */
    uint64_t seed;
    uint64_t end_ns;
    bool unpaced;             /* not managed, for comparison */
    /* For throughput: */
    const struct autobuf_limits *limits; /* of the host; NULL: low delay */
    bool bursts;              /* a writer that sleeps until a third of its buffer is free, then fills it, and
                                 has a look taken only then */
    uint64_t rare_ns;         /* minimum time between samples; 0: as the judge wants */
    double queue_bytes;       /* queue limit; a drop halves the congestion window; 0: none */
};

struct sim_span {
    double rate_byte_per_s;   /* delivered */
    double rtt_ratio;         /* mean RTT / RTT of the empty path */
    double worst_ratio;
};

/* What happened from begin_ns to end_ns of the run. */
struct sim_span sim_live(const struct sim_live *sim, uint64_t begin_ns, uint64_t end_ns);

#endif

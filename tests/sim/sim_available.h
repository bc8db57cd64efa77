/* SPDX-License-Identifier: MIT */
/*
 * A TCP sender beside other traffic, over links of emu_link.h, in virtual time. It is sampled as lib/live samples a
 * connection, and the samples go to lib/available/.
 */
#ifndef SIM_AVAILABLE_H
#define SIM_AVAILABLE_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

enum sim_cross { SIM_CBR, SIM_POISSON, SIM_PARETO };

struct sim_available {
    double mbit, rtt_ms;
    double queue_products;   /* queue limit, in rate x RTT */
    enum sim_cross cross;    /* Pareto: 8 sources, on and off for times with the exponent 1.5 */
    double load;             /* cross traffic, as a part of the rate */
    double sends_mbit;       /* a program that writes so much, in even distances; 0: cubic, which always has data */
    bool searches;           /* it, in line */
    double window_products;  /* of a buffer that is the bottleneck; 0: it is not */
    uint64_t batch_ns;       /* ACKs of such a time come together */
    uint64_t longer_at_ns;   /* the path then has an RTT of half as much more; 0: never */
    double narrow_mbit;      /* of a second link behind it, which other traffic does not pass; 0: there is none */
    uint64_t burst_bytes;    /* a policer, which lets so much pass at once; 0: it is none */
    bool capacity_known;
    uint64_t end_ns;
    uint64_t seed;
};

/* The estimate at the end, and the truth over the time that it names, in bit/s. */
struct sim_free {
    struct autobuf_available estimate;
    double truth_bit_per_s;
    double sent_bit_per_s; /* by the sender, over that time */
    double late_part;      /* of the time since the beginning, by which a packet of the program was late; the most */
};

struct sim_free sim_available(const struct sim_available *sim);

#endif

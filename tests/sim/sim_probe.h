/* SPDX-License-Identifier: MIT */
/*
 * A measurement over a path in virtual time: the pure autobuf_probe_*() calls at one end, two emu_links, and a host
 * that echoes at the other end. No socket, no clock, no sleeping.
 */
#ifndef SIM_PROBE_H
#define SIM_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "emu_link.h"

struct sim_path {
    struct emu_params there;
    struct emu_params back;
    uint64_t seed;
    uint64_t send_ns;     /* time that this host takes to send a packet */
    uint64_t stall_ns;    /* this host stalls for up to so long, about ten times a second; 0: never */
    uint64_t between_ns;  /* mean time between stalls; 0: 100 ms */
    uint32_t mtu_bytes;   /* larger packets vanish; 0: none */
    bool duplicate;       /* each reply comes twice */
    bool ipv6;
};

struct sim_result {
    int error;            /* of autobuf_probe_result() */
    struct autobuf_path path;
    struct autobuf_available available;
    double cross_there, cross_back; /* bit/s of other traffic while stretches were sent */
    size_t readings;      /* as autobuf_probe_rates() counts them */
    uint64_t last_sent_ns;
    uint64_t rtt_then_ns; /* minimum RTT known when it was sent; UINT64_MAX: none */
    uint64_t end_ns;      /* when it was over, the start being 0 */
};

/* options may be NULL. */
struct sim_result sim_probe(const struct sim_path *sim, const struct autobuf_probe_options *options);

#endif

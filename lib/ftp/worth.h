/* SPDX-License-Identifier: MIT */
/* When measuring over a control connection pays. Pure: no socket, no clock. */
#ifndef AB_WORTH_H
#define AB_WORTH_H

#include "../base/base.h"

struct ab_worth {
    const struct autobuf_limits *limits; /* of this host */
    bool peer_sets; /* the server supports SET */
    uint64_t peer_max_bytes; /* largest buffer that the server can set; 0: unknown, assume this host's */
    uint64_t rtt_ns;          /* AUTOBUF_NS_UNSET: unknown */
    uint32_t direction;       /* AUTOBUF_INTENT_SENDS or _RECEIVES */
    uint32_t round_trips;     /* of the measurement */
    uint64_t expected_bytes;  /* of the transfer; 0: unknown */
};

/*
 * Whether a measurement before the transfer could gain more time than it costs: only if a window is the bottleneck of a
 * long transfer, on a path of a common rate. With SET it is the server's window, as autotuning lets it grow; otherwise
 * this host's receive window. This host's send window can be enlarged at any time, so the flow measures beside the
 * transfer. On faster paths the RTT is short, and autobuf_flow_step() is quick. *bdp_low_bytes and *bdp_high_bytes, if
 * not NULL, are set as in autobuf_plan_worth().
 */
bool ab_worth_measuring(const struct ab_worth *worth, uint64_t *bdp_low_bytes,
                        uint64_t *bdp_high_bytes);

/* The size that an unprivileged host with this host's limits would request for a window; 0: none. */
uint64_t ab_worth_request(const struct autobuf_limits *limits, uint32_t direction,
                          uint64_t window_bytes);

#endif

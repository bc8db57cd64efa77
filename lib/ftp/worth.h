/* SPDX-License-Identifier: MIT */
/* When measuring over a control connection pays. Pure: no socket, no clock. */
#ifndef AB_WORTH_H
#define AB_WORTH_H

#include "../base/base.h"

/* An FTP session, as its client sees it. */
struct ab_worth {
    const struct autobuf_limits *limits; /* of this host */
    bool peer_sets; /* the server can be told what to set */
    uint64_t peer_most_bytes; /* largest buffer that the server can set for this; 0: unknown, assume this host's */
    uint64_t rtt_ns;          /* AUTOBUF_NS_UNSET: unknown */
    uint32_t direction;       /* AUTOBUF_INTENT_SENDS or _RECEIVES */
    uint32_t round_trips;     /* how many the measurement takes */
    uint64_t expected_bytes;  /* of the transfer; 0: unknown */
};

/*
 * Whether a measurement before the transfer could gain more time than it costs. It can only if a window would limit
 * a transfer that is long enough, on a path of a common rate. That window is the server's, as autotuning lets it
 * grow; if the server cannot be told anything, it is the receive window of this host. The send window of this host
 * never needs a measurement before: it can be enlarged at any time, so the flow measures beside the transfer. If a
 * window would limit only on faster paths, autobuf_live_step() handles that: on such a path the round trip is short,
 * so it is quick. *bdp_low_bytes and *bdp_high_bytes, if not NULL, are set as in autobuf_plan_worth().
 */
bool ab_worth_measuring(const struct ab_worth *worth, uint64_t *bdp_low_bytes,
                        uint64_t *bdp_high_bytes);

/*
 * The buffer that a sender or receiver with this host's limits, but without privilege, would set for a window; 0:
 * it would set none.
 */
uint64_t ab_worth_request(const struct autobuf_limits *limits, uint32_t direction,
                          uint64_t window_bytes);

#endif

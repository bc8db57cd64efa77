/* SPDX-License-Identifier: MIT */
/* When measuring over a control connection pays. Pure: no socket, no clock. */
#ifndef AB_WORTH_H
#define AB_WORTH_H

#include "../base/base.h"

/* An FTP session, as its client sees it. */
struct ab_worth {
    const struct autobuf_limits *limits; /* of this host */
    bool peer_sets; /* the server can be told what to set */
    uint64_t peer_snd_most_bytes; /* that it can set; 0: unknown, as much as this host */
    uint64_t rtt_ns;              /* AUTOBUF_NS_UNSET: unknown */
    uint32_t direction;           /* AUTOBUF_INTENT_SENDS or _RECEIVES */
    uint32_t round_trips;         /* that it takes */
    uint64_t expected_bytes;      /* of the transfer; 0: unknown */
};

/*
 * Whether some result could be worth the wait: the sender's window, as autotuning lets it grow, or where the
 * sender is a server that cannot be told anything the window here, would have to
 * be in the way on a path of a rate that is not rare, and for long enough. What would be in the way on faster
 * paths alone is left to autobuf_live_step(), which a short round trip makes quick. *bdp_low_bytes and
 * *bdp_high_bytes, if not NULL, as in autobuf_plan_worth().
 */
bool ab_worth_measuring(const struct ab_worth *worth, uint64_t *bdp_low_bytes,
                        uint64_t *bdp_high_bytes);

/*
 * The buffer that a sender or receiver with this host's limits, but without its privilege, would set for a
 * window; 0: none.
 */
uint64_t ab_worth_request(const struct autobuf_limits *limits, uint32_t direction,
                          uint64_t window_bytes);

#endif

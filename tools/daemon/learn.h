/* SPDX-License-Identifier: MIT */
/*
 * What a connection teaches of its path: fed with each sample of it and with its end, gives an entry of the path store.
 * Pure.
 *
 * What TCP reached is a lower bound of the path's capacity, and only of use if nothing but the path was in its way. So
 * each sample must say that, or it does not count:
 *
 *   sending    the sample says that the path limits (judge.h of the library), and no pace is set that it comes near
 *   receiving  neither the buffer here nor the program here is late (then the sample says "peer"), and by the end
 *   packets
 *              had come out of their order. A receiver does not see why its peer sends no faster; but congestion
 *              control that fills a path loses packets, and the gaps arrive. A peer with no more to send leaves none.
 *              Without a gap a rate counts if its product is more than the window that autotuning gives by itself:
 *              whatever bounds it, the next connection needs a larger buffer from its beginning. A slower one would
 *              only be taken for the path.
 *
 * A rate counts if it held for a stretch of eight round trips and 200 ms of which three quarters of the samples count;
 * the highest such rate is learned. A burst into an empty queue is over within a round trip or two, and a sample may
 * come right after one; in slow start the eight rounds before the last have brought almost nothing, so they bring the
 * rate down.
 *
 * A connection that the peer's window or the buffer held back for long, as the kernel counts it, teaches nothing of
 * sending. What the kernel counts for the buffer is left out while a sample counts and a queue stands: a larger buffer
 * would not be faster then.
 *
 * Packets that came through are counted, not the bytes that were acknowledged or received: behind a lost packet those
 * stand still, and then a whole window is counted in one sample. On 50 Mbit/s x 100 ms that read 62.
 */
#ifndef LEARN_H
#define LEARN_H

#include <autobuf/autobuf.h>

#include "../../lib/kernel/tcpinfo.h"

enum learn_way { LEARN_TX, LEARN_RX, LEARN_WAYS };

struct learn_count {
    uint64_t bytes;         /* in the packets that came through since the first sample, as if each were a full one */
    uint64_t gapless_bytes; /* of receiving: without a gap; of sending: the same as bytes */
};

struct learn_stretch {
    uint64_t began_ns; /* 0: none has begun */
    struct learn_count began;
    uint32_t samples, counting;
};

struct learn_course {
    struct learn_stretch stretch;
    struct learn_count first; /* when the first stretch began */
    uint64_t bulk_ns, counting_ns; /* time in which it carried the bulk; and for which its samples count */
    uint64_t byte_per_s;           /* the highest rate that held; 0: none yet */
    uint32_t stretches;            /* in which one held */
};

struct learn {
    uint64_t sampled_ns; /* 0: not yet */
    uint64_t rtt_min_ns; /* 0: unknown */
    uint64_t bytes[LEARN_WAYS]; /* without a gap */
    uint32_t packets[LEARN_WAYS];
    uint64_t through_bytes[LEARN_WAYS]; /* as learn_count */
    uint32_t packet_bytes;
    uint64_t pace_byte_per_s; /* SO_MAX_PACING_RATE at the newest sample */
    uint64_t sndbuf_limited_ns; /* at the newest sample, */
    uint64_t excused_ns;        /* and of it the time in which a queue stood all the same */
    uint64_t autotuning_bytes; /* the receive window that autotuning gives by itself; 0: it is off. Set by the caller */
    struct learn_course courses[LEARN_WAYS];
};

/* Takes in a sample, and what the kernel says at that time. All zero but autotuning_bytes: none was taken in yet. */
void learn_sample(struct learn *learn, const struct autobuf_live_state *state, const struct ab_tcpinfo *seen,
                  uint64_t now_ns);

/*
 * What the connection to a host teaches, once it has ended. Fills all of *entry but the times, and returns true; false:
 * it teaches nothing. remote: version 4 or 6, a host alone.
 */
bool learn_end(const struct learn *learn, const struct ab_tcpinfo *final, const struct autobuf_prefix *remote,
               struct autobuf_paths_entry *entry);

/*
 * Whether anything may be kept of a host: not of this one itself, of no group of hosts, of none that each link may
 * have.
 */
bool learn_is_host(const struct autobuf_prefix *remote);

/*
 * Whether an entry is of one host, from all of this host's addresses, measured or seen and sure, and no setting of an
 * administrator's.
 */
bool learn_is_of_host(const struct autobuf_paths_entry *entry);

#endif

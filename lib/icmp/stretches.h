/* SPDX-License-Identifier: MIT */
/*
 * What other traffic leaves free, from echoes at a pace. Pure.
 *
 * An echo takes the same way back, so the change of its RTT is that of both queues together. While it does not grow,
 * the pace is free in both directions. If it grows, one of them has less: which one is unknown, and with it the
 * capacity of the link that it is; but no direction's is less than that which trains showed. So there is an upper bound
 * of the direction with less, and no lower one.
 */
#ifndef AB_STRETCHES_H
#define AB_STRETCHES_H

#include "../estimate/estimate.h"

struct ab_schedule;
struct ab_stretches;
struct autobuf_available;

/* Of one, which is all zero at first. */
size_t ab_stretches_bytes(void);

/* Begins the search. rate: of the trains; budget_bytes: of all stretches. */
void ab_stretches_begin(struct ab_stretches *stretches, const struct ab_rate *rate, uint64_t budget_bytes);

/* The next stretch, of packets of full_bytes; false: the search is over. */
bool ab_stretches_next(struct ab_stretches *stretches, uint32_t full_bytes, uint64_t now_ns);

/* A packet has been sent. Returns when the next one is due; AUTOBUF_NS_UNSET: the stretch has been sent. */
uint64_t ab_stretches_sent(struct ab_stretches *stretches, uint32_t full_bytes, uint64_t due_ns, uint64_t now_ns);

/* The stretch's packets have been answered, or their time is over. room: 3 values for each of them. */
void ab_stretches_take(struct ab_stretches *stretches, const struct ab_packet *packets, size_t count, uint64_t *room);

/*
 * Ends the schedule's stretch, and begins the next one; or the first one, once the trains are over. false: there is no
 * other, or nobody asked.
 */
bool ab_stretches_go_on(struct ab_schedule *schedule, uint64_t now_ns, uint64_t rtt_ns);

/* As autobuf_probe_available(); stretches may be NULL. */
int ab_stretches_result(const struct ab_stretches *stretches, struct autobuf_available *available);

#endif

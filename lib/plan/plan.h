/* SPDX-License-Identifier: MIT */
/*
 * What to do for a socket. Pure: no socket, no clock.
 *
 * Linux keeps twice what setsockopt() is handed ("stored"), counts memory and not payload in it, and
 * never again tunes a side that was set. Of a stored buffer, as measured on Linux 6.18,
 *
 *   2/3 become send window: a writer that waits in poll() is woken when a third is free
 *       (sk_stream_min_wspace() of the kernel). At least 3/4 if its calls block, for each fills the buffer before it waits,
 *       and of small buffers (1 MB stored) many times more; all of it if it tries again every few milliseconds
 *       (tests/kernels/run --all windows);
 *   1/2 become receive window, from the first segment on; later more, as segments turn out larger
 *       (tcp_win_from_space(), adv_win_scale's default).
 *
 * So the send side is set only where autotuning's limit is below the product and the settable
 * maximum above that limit; the receive side only under the same condition. The window scale, fixed in
 * the SYN, bounds what either can be afterwards, and the receive side of a connection needs its window
 * clamp raised along with its buffer, or its lock taken off, for the clamp of that moment would stay.
 */
#ifndef AB_PLAN_H
#define AB_PLAN_H

#include "../base/base.h"

#define AB_SND_WINDOW(stored) ((stored) / 3 * 2)
#define AB_SND_BLOCK_WINDOW(stored) ((stored) / 4 * 3)
#define AB_SND_STORED(window) (((window) + 1) / 2 * 3)
#define AB_RCV_WINDOW(stored) ((stored) / 2)
#define AB_RCV_STORED(window) ((window)*2)

/*
 * The round trips as which autobuf_plan_worth() counts a measurement: by ICMP usually one, and two or three if
 * trains disagree. If another kind of measurement takes n times as many, hand the call 1/n of the transfer.
 */
#define AB_MEASURING_ROUND_TRIPS 3

/* One socket may pin this share of the memory at which TCP's pressure begins, */
#define AB_TCP_MEM_SHARE 8
/* and all forced buffers, with what TCP holds anyway, this one. */
#define AB_FORCED_SHARE 2
/*
 * A peer that answers echoes late, or in bursts, pretends a product that nobody has seen. Until TCP has seen the
 * path, no larger buffer (stored) is forced: 2/3 of it are a window of 1.7 Gbit/s over 100 ms.
 */
#define AB_UNSEEN_STORED 32000000ULL

/* The largest buffer the kernel can store, and the largest sysctl. */
#define AB_STORED_MAX 0x7ffffffeULL

/* Says whether a forced buffer of this plan would be larger than may be forced on this socket now. */
bool ab_plan_forces_too_much(const struct autobuf_plan *plan, const struct autobuf_limits *limits,
                             const struct autobuf_socket *socket);

/*
 * Does what autobuf_plan_make() does, for windows that are known already (payload bytes; 0: unknown). plan is one
 * that ab_plan_nothing() made, with its intent; AUTOBUF_PLAN_*_AT_LEAST may be set in it.
 */
void ab_plan_windows(uint64_t snd_wanted_bytes, uint64_t rcv_wanted_bytes,
                     const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                     uint64_t expected_bytes, struct autobuf_plan *plan);

/*
 * Adds to a plan for an unknown path what limits alone decide: a side whose buffer was set smaller than autotuning
 * makes it is given back. For low delay it adds nothing.
 */
void ab_plan_limits(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                    struct autobuf_plan *plan);

/* autobuf_plan_explain() to a log, but for a side that the intent leaves out. */
void ab_plan_log(const struct autobuf_plan *plan, const struct ab_log *log);

/* An intent and what may be added to it. */
bool ab_intent_known(uint32_t intent);

/* A plan that leaves both sides alone for one reason. */
void ab_plan_nothing(uint32_t reason, uint32_t intent, struct autobuf_plan *plan);

/* Whether it takes CAP_NET_ADMIN. */
static inline bool ab_plan_forces(const struct autobuf_plan *plan)
{
    return plan->flags & (AUTOBUF_PLAN_SND_FORCE | AUTOBUF_PLAN_RCV_FORCE);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What to do for a socket. Pure: no socket, no clock.
 *
 * Linux keeps twice the requested size in sk_sndbuf and sk_rcvbuf ("stored"), counts skb->truesize in it, not payload,
 * and stops autotuning a side that was set (SOCK_SNDBUF_LOCK, SOCK_RCVBUF_LOCK). As measured on Linux 6.18,
 *
 *   2/3 of sk_sndbuf become send window if the writer waits in poll(), which wakes it when a third is free
 *       (sk_stream_min_wspace()). At least 3/4 if its calls block: each fills the buffer before it waits; many times
 *       more of small buffers (1 MB). All of it if it retries every few milliseconds (tests/kernels/run --all windows);
 *   1/2 of sk_rcvbuf becomes receive window from the first segment on, later more, as segments turn out larger
 *       (tcp_win_from_space(), default adv_win_scale).
 *
 * So a side is set only if autotuning's limit is below the BDP, and the settable maximum above that limit. The window
 * scale, fixed in the SYN, bounds both windows of a connection. Its receive side also needs TCP_WINDOW_CLAMP raised
 * along with the buffer, or its lock cleared: the clamp of the old size would stay.
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
 * autobuf_plan_worth() counts a measurement as so many round trips: by ICMP it takes usually one, and two or three if
 * trains disagree. For another method that takes n times as many, pass 1/n of the transfer.
 */
#define AB_MEASURING_ROUND_TRIPS 3

/* Shares of tcp_mem[1] (memory pressure): one socket may pin 1/8, all forced buffers and the memory in use 1/2. */
#define AB_TCP_MEM_SHARE 8 /* unit: properties_hold_everywhere */
#define AB_FORCED_SHARE 2  /* unit: properties_hold_everywhere */
/*
 * A peer that delays its echo replies pretends a long path. Until TCP has an RTT of its own, no larger sk_sndbuf or
 * sk_rcvbuf is forced: 2/3 of it are a window of 1.7 Gbit/s over 100 ms.
 */
#define AB_UNSEEN_BUF_MAX 32000000ULL

/* TCP's largest windows, RFC 7323. */
#define AB_UNSCALED_WINDOW_BYTES 65535ULL
#define AB_SCALED_WINDOW_BYTES (AB_UNSCALED_WINDOW_BYTES << 14)

/* The largest sk_sndbuf or sk_rcvbuf, and the largest sysctl: an int. */
#define AB_SK_BUF_MAX 0x7ffffffeULL

/* Whether the plan forces a larger buffer than the memory of TCP now allows for this socket. */
bool ab_plan_forces_too_much(const struct autobuf_plan *plan, const struct autobuf_limits *limits,
                             const struct autobuf_socket *socket);

/*
 * autobuf_plan_make() for known windows (payload bytes; 0: unknown). plan comes from ab_plan_nothing(), with its
 * intent; what ab_plan_flags() has may be set in it.
 */
void ab_plan_windows(uint64_t snd_wanted_bytes, uint64_t rcv_wanted_bytes,
                     const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                     uint64_t expected_bytes, struct autobuf_plan *plan);

/*
 * Adds what limits alone decide to a plan for a path that is unknown, or only known by a lower bound: a side whose
 * buffer was set smaller than autotuning reaches is given back to autotuning. For low delay it adds nothing.
 */
void ab_plan_limits(const struct autobuf_limits *limits, const struct autobuf_socket *socket,
                    struct autobuf_plan *plan);

/* What the plan says of a path, AUTOBUF_PLAN_*_AT_LEAST and _ECHOED. */
uint32_t ab_plan_flags(const struct autobuf_path *path);

/* Logs the lines of autobuf_plan_explain(), without a side that the intent leaves out. */
void ab_plan_log(const struct autobuf_plan *plan, const struct ab_log *log);

/* Copies a path in as ab_struct_in() does. A time of 0 is unknown. */
bool ab_path_in(struct autobuf_path *ours, const struct autobuf_path *theirs);

/* These intents set the sender's rate. */
#define AB_INTENT_MODERATES (AUTOBUF_INTENT_LOW_DELAY | AUTOBUF_INTENT_SCAVENGER)

bool ab_intent_known(uint32_t intent);

/* A plan that leaves both sides alone for one reason. */
void ab_plan_nothing(uint32_t reason, uint32_t intent, struct autobuf_plan *plan);

/* Whether the plan needs CAP_NET_ADMIN. */
static inline bool ab_plan_forces(const struct autobuf_plan *plan)
{
    return plan->flags & (AUTOBUF_PLAN_SND_FORCE | AUTOBUF_PLAN_RCV_FORCE);
}

#endif

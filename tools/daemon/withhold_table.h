/* SPDX-License-Identifier: MIT */
/*
 * The rules as the kernel's part of the daemon has them, and how it finds the one that counts: what rules.c says, in a
 * form that a BPF program can read. kernel.bpf.c includes this, too.
 */
#ifndef WITHHOLD_TABLE_H
#define WITHHOLD_TABLE_H

#include <linux/types.h>

#define WITHHOLD_RULES 256U       /* the first so many */
#define WITHHOLD_RANGES 8U
#define WITHHOLD_UNIT_WORDS 9U    /* of 8 bytes; a name longer than a rule can have stays different */
#define WITHHOLD_PROGRAM_WORDS 2U /* TASK_COMM_LEN */

/* The sides of a rule: SOCK_SNDBUF_LOCK and SOCK_RCVBUF_LOCK, and whether they count for near peers, too. */
#define WITHHOLD_SND 1U
#define WITHHOLD_RCV 2U
#define WITHHOLD_NEAR 4U
#define WITHHOLD_SIDES 2U

/* The kernel's SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF on machines of 64 bits. */
#define WITHHOLD_SND_LEAST 4608U
#define WITHHOLD_RCV_LEAST 2304U

#define WITHHOLD_INLINE static inline __attribute__((always_inline))

/* Without branches, there is little for the kernel's verifier to follow. */
#ifdef __bpf__
#define WITHHOLD_UNROLLED _Pragma("unroll")
#else
#define WITHHOLD_UNROLLED
#endif

/* A range that holds no port: 1 to 0. */
struct withhold_ports {
    __u16 first[WITHHOLD_RANGES], last[WITHHOLD_RANGES];
};

struct withhold_end {
    __u32 address[4]; /* network byte order; IPv4 in the first */
    __u32 version;    /* 4 or 6 */
    __u32 port;
};

struct withhold_side {
    __u32 network[4], mask[4];
    __u32 version; /* 0: all addresses */
    struct withhold_ports ports;
};

/* Names end in zeros; all zeros: every one. */
struct withhold_rule {
    __u64 unit[WITHHOLD_UNIT_WORDS], program[WITHHOLD_PROGRAM_WORDS];
    struct withhold_side local, remote;
    __u32 by_user, user;
    __u32 ends;   /* it has a condition on an end, which is known once there is a connection */
    __u32 sides;  /* WITHHOLD_*: those whose size, if the program sets a small one, is withheld */
};

/* A process that sets a size, and its socket. */
struct withhold_subject {
    __u64 unit[WITHHOLD_UNIT_WORDS], program[WITHHOLD_PROGRAM_WORDS];
    struct withhold_end local, remote; /* version 0: not known yet */
    __u32 user;
};

/* What the daemon and the kernel share beside the rules. */
struct withhold_table {
    __u64 withheld;         /* sizes, since the beginning */
    __u32 generation;       /* odd while the rules are written */
    __u32 count;            /* rules */
    __u32 settable_bytes[WITHHOLD_SIDES], reach_bytes[WITHHOLD_SIDES]; /* net.core.wmem_max, rmem_max; autotuning's */
    struct withhold_ports stop_ports;
};

/* A difference is negative where the port lies beyond that end. */
WITHHOLD_INLINE int withhold_is_among(const struct withhold_ports *ports, __u32 port)
{
    __u32 outside = 1;

    WITHHOLD_UNROLLED
    for (unsigned i = 0; i < WITHHOLD_RANGES; i++)
        outside &= ((port - ports->first[i]) | (ports->last[i] - port)) >> 31;
    return !outside;
}

WITHHOLD_INLINE int withhold_is_end(const struct withhold_side *side, const struct withhold_end *end)
{
    __u32 differs = 0;

    if (side->version && side->version != end->version)
        return 0;
    WITHHOLD_UNROLLED
    for (unsigned i = 0; i < 4; i++)
        differs |= (end->address[i] & side->mask[i]) ^ side->network[i];
    return !differs && withhold_is_among(&side->ports, end->port);
}

WITHHOLD_INLINE int withhold_is_name(const __u64 *wanted, const __u64 *name, unsigned words)
{
    __u64 differs = 0;

    WITHHOLD_UNROLLED
    for (unsigned i = 0; i < words; i++)
        differs |= wanted[i] ^ name[i];
    return !wanted[0] || !differs;
}

/* Whether it counts for this process, and for these ends if they are known. */
WITHHOLD_INLINE int withhold_matches(const struct withhold_rule *rule, const struct withhold_subject *s)
{
    return (!s->remote.version ||
            (withhold_is_end(&rule->local, &s->local) && withhold_is_end(&rule->remote, &s->remote))) &&
           (!rule->by_user || rule->user == s->user) && withhold_is_name(rule->unit, s->unit, WITHHOLD_UNIT_WORDS) &&
           withhold_is_name(rule->program, s->program, WITHHOLD_PROGRAM_WORDS);
}

/*
 * Whether this rule decides, if no earlier one has. Ends that are not known may be those of a later rule, which is then
 * asked for them: what was withheld is set at last.
 */
WITHHOLD_INLINE int withhold_decides(const struct withhold_rule *rule, const struct withhold_subject *s)
{
    return withhold_matches(rule, s) && (s->remote.version || rule->sides || !rule->ends);
}

/* sk_sndbuf or sk_rcvbuf (side 0, 1) of a socket whose program has set that value. */
WITHHOLD_INLINE __u32 withhold_stored(const struct withhold_table *t, unsigned side, __u32 value)
{
    __u32 least = side ? WITHHOLD_RCV_LEAST : WITHHOLD_SND_LEAST,
          bytes = 2 * (value < t->settable_bytes[side] ? value : t->settable_bytes[side]);

    return bytes > least ? bytes : least;
}

/* Whether half of that buffer, a window, is no bottleneck at this RTT: it gives 20 Gbit/s within 10 ms. */
WITHHOLD_INLINE int withhold_is_enough(__u32 bytes, __u32 rtt_us)
{
    return rtt_us && rtt_us <= 10000 && 4ULL * bytes > 20000ULL * rtt_us;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The rules as the kernel's part of the daemon has them, and how it finds the one that counts: what rules.c says, in a
 * form that a BPF program can read. before_syn.bpf.c includes this, too.
 */
#ifndef BEFORE_SYN_TABLE_H
#define BEFORE_SYN_TABLE_H

#include <linux/types.h>

#define BEFORE_SYN_RULES 256U       /* the first so many */
#define BEFORE_SYN_RANGES 8U
#define BEFORE_SYN_UNIT_WORDS 9U    /* of 8 bytes; a name longer than a rule can have stays different */
#define BEFORE_SYN_PROGRAM_WORDS 2U /* TASK_COMM_LEN */

/* Without branches, there is little for the kernel's verifier to follow. */
#ifdef __bpf__
#define BEFORE_SYN_UNROLLED _Pragma("unroll")
#else
#define BEFORE_SYN_UNROLLED
#endif

/* A range that holds no port: 1 to 0. */
struct before_syn_ports {
    __u16 first[BEFORE_SYN_RANGES], last[BEFORE_SYN_RANGES];
};

struct before_syn_end {
    __u32 address[4]; /* network byte order; IPv4 in the first */
    __u32 version;    /* 4 or 6 */
    __u32 port;
};

struct before_syn_side {
    __u32 network[4], mask[4];
    __u32 version; /* 0: all addresses */
    struct before_syn_ports ports;
};

/* Names end in zeros; all zeros: every one. */
struct before_syn_rule {
    __u64 unit[BEFORE_SYN_UNIT_WORDS], program[BEFORE_SYN_PROGRAM_WORDS];
    struct before_syn_side local, remote;
    __u32 by_user, user;
    __u32 acts;   /* whether the window scale may become larger */
    __u32 unused; /* the size is one for all machines */
};

/* The socket that connects, and its process. */
struct before_syn_subject {
    __u64 unit[BEFORE_SYN_UNIT_WORDS], program[BEFORE_SYN_PROGRAM_WORDS];
    struct before_syn_end local, remote;
    __u32 user;
};

/* What the daemon and the kernel share beside the rules. */
struct before_syn_table {
    __u64 namespace_cookie; /* SO_NETNS_COOKIE: connections of this one count */
    __u64 raised;           /* window scales, since the beginning */
    __u32 generation;       /* odd while the rules are written */
    __u32 count;            /* rules */
    struct before_syn_ports stop_ports;
};

/* A difference is negative where the port lies beyond that end. */
static inline __attribute__((always_inline)) int before_syn_is_among(const struct before_syn_ports *ports, __u32 port)
{
    __u32 outside = 1;

    BEFORE_SYN_UNROLLED
    for (unsigned i = 0; i < BEFORE_SYN_RANGES; i++)
        outside &= ((port - ports->first[i]) | (ports->last[i] - port)) >> 31;
    return !outside;
}

static inline __attribute__((always_inline)) int before_syn_is_end(const struct before_syn_side *side,
                                                                   const struct before_syn_end *end)
{
    __u32 differs = 0;

    if (side->version && side->version != end->version)
        return 0;
    BEFORE_SYN_UNROLLED
    for (unsigned i = 0; i < 4; i++)
        differs |= (end->address[i] & side->mask[i]) ^ side->network[i];
    return !differs && before_syn_is_among(&side->ports, end->port);
}

static inline __attribute__((always_inline)) int before_syn_is_name(const __u64 *wanted, const __u64 *name,
                                                                    unsigned words)
{
    __u64 differs = 0;

    BEFORE_SYN_UNROLLED
    for (unsigned i = 0; i < words; i++)
        differs |= wanted[i] ^ name[i];
    return !wanted[0] || !differs;
}

/* Whether this rule counts for it, if no earlier one does. */
static inline __attribute__((always_inline)) int before_syn_matches(const struct before_syn_rule *rule,
                                                                    const struct before_syn_subject *s)
{
    return before_syn_is_end(&rule->local, &s->local) && before_syn_is_end(&rule->remote, &s->remote) &&
           (!rule->by_user || rule->user == s->user) &&
           before_syn_is_name(rule->unit, s->unit, BEFORE_SYN_UNIT_WORDS) &&
           before_syn_is_name(rule->program, s->program, BEFORE_SYN_PROGRAM_WORDS);
}

#ifndef __bpf__
#include <stdbool.h>

#include "config.h"

/*
 * Writes the rules into rules[BEFORE_SYN_RULES]; those beyond that are left out. Also their count and the ports that
 * stop.
 * With dry_run no rule acts.
 */
void before_syn_fill(const struct config *config, bool dry_run, struct before_syn_table *table,
                     struct before_syn_rule *rules);
#endif

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What to do about an open connection, by what limits it (limiter.h). Pure: takes looks with their times, gives a plan.
 *
 * Bursts that a writer leaves look like a queue; paced, they do not (docs/ESTIMATOR.md).
 */
#ifndef AB_JUDGE_H
#define AB_JUDGE_H

#include "../base/base.h"
#include "limiter.h"
#include "pace.h"

#define AB_LOOKS 8U /* past looks that are kept: at least those of a round trip, unless it is eight times as long as the least */

struct ab_judge {
    uint32_t intent;
    struct autobuf_limits limits;
    struct ab_look last;
    bool looked;               /* last is filled */
    uint32_t limiter;          /* AUTOBUF_LIMITER_* */
    bool sent_all;             /* of a full send buffer, at the newest look */
    uint64_t acked_byte_per_s; /* over the last round trip */
    uint64_t received_byte_per_s;
    uint64_t rtt_ns;           /* smoothed; while it receives, the least */
    uint64_t rtt_min_ns;       /* 0: unknown */
    unsigned counts_for;       /* looks that the last one counts for: more, if it came long after the one before */
    uint64_t hold_ns;          /* no buffer is changed before this time */
    unsigned short_looks;      /* looks at which the send buffer limited, less those at which it did not */
    unsigned rcv_short_looks;  /* the same of the receive buffer */
    uint64_t short_ns;         /* the last look at which either limited; 0: none */
    uint64_t grown_from_bytes; /* the send buffer before a forced step that may be too large; 0: none */
    bool excess_stands;        /* at the last look, what such a step added stood in a queue */
    unsigned long_looks;       /* looks at which bursts, or a queue, made the round-trip time long, less others; */
    uint64_t long_since_ns;    /* the first of them, */
    uint64_t long_since_acked_bytes; /* and what was acknowledged by then */
    uint64_t spread_byte_per_s; /* the pace that spreads what a writer leaves in bursts; 0: none */
    bool spread_paid;          /* the buffer was made larger since it was set */
    unsigned spread_looks;     /* looks before that */
    unsigned spreads_in_vain;  /* trials of such a pace that enlarged nothing */
    struct ab_pace pace;       /* for low delay */
    struct ab_count {
        uint64_t now_ns, acked_bytes, received_bytes;
    } counts[AB_LOOKS];
    unsigned counted;
};

void ab_judge_begin(struct ab_judge *judge, uint32_t intent, const struct autobuf_limits *limits);

/*
 * When to look again: about a round trip later, half of one for low delay; sooner while bursts are to be told from a queue,
 * later where that is short and no buffer seems to limit.
 */
uint64_t ab_judge_next_ns(const struct ab_judge *judge);

/* Whether it is time; also when the clock has run backwards. */
bool ab_judge_due(const struct ab_judge *judge, uint64_t now_ns);

/* Takes in a look. Returns true if plan is to be applied; *why then says the reason. */
bool ab_judge_look(struct ab_judge *judge, const struct ab_look *look, struct autobuf_plan *plan,
                   const char **why);

/*
 * What limits, at the newest look. Where the buffer is full, its data are spread, and a queue stands all the same, it is the path:
 * with a larger buffer the queue would only be longer.
 */
uint32_t ab_judge_limiter(const struct ab_judge *judge);

/* What the judge takes to be set on the connection. */
struct ab_trial {
    uint64_t spread_byte_per_s, grown_from_bytes;
    bool spread_paid, excess_stands;
};

struct ab_trial ab_judge_trial(const struct ab_judge *judge);

/* The plan of the newest look was not applied: what is set is as it was before that look. */
void ab_judge_not_done(struct ab_judge *judge, const struct ab_trial *before);

/* Tells the judge that somebody else has forced the send buffer, and how large it was before; or has set a pace. */
void ab_judge_forced(struct ab_judge *judge, uint64_t before_bytes);
void ab_judge_paced(struct ab_judge *judge, uint64_t byte_per_s);

/* Payload that moved in the last round trip, in the direction that moved more; 0: not known yet. */
uint64_t ab_judge_round_bytes(const struct ab_judge *judge);

/* The side whose buffer has limited the connection for some looks: AUTOBUF_LOCK_*; 0: neither. */
uint32_t ab_judge_short_side(const struct ab_judge *judge);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What to do about an open connection, by its bottleneck (bottleneck.h). Pure: takes samples with their times, gives a
 * plan.
 *
 * A connection is in one of four states. OBSERVE: nothing of ours is set. Samples, four a round trip while a buffer
 * may be the bottleneck, raise or lower two scores: the send buffer was the bottleneck and no queue stood
 * (snd_limited_score), or the RTT was high (high_rtt_score). When the first is full, the buffer is enlarged by a
 * small step: ENLARGED. A high RTT is a standing queue, or bursts of a writer that sleeps until a third of its buffer
 * is free; when that score is full, a PACING TRIAL tells which. Paced, bursts are gone, and the buffer is ENLARGED; a
 * queue stays, and a trial that saw nothing else has failed: the pace is removed, and OBSERVE asks for a longer score
 * before the next. In ENLARGED the buffer may grow again. What a forced step added may stand in a queue: it is taken
 * back, and the connection is SETTLED, as it is once it needs no pace any more because its buffer cannot grow. A
 * receive buffer only admits: it is enlarged, in any state, while it still has room ahead of what arrives.
 */
#ifndef AB_JUDGE_H
#define AB_JUDGE_H

#include "../base/base.h"
#include "bottleneck.h"
#include "pace.h"
#include "scavenger.h"

#define AB_SAMPLES 8U /* past samples that are kept: those of a round trip, unless it is eight times the minimum RTT */

enum ab_judge_state { AB_JUDGE_OBSERVE, AB_JUDGE_PACING_TRIAL, AB_JUDGE_ENLARGED, AB_JUDGE_SETTLED };

/* What the judge takes to be set on the connection. */
struct ab_trial {
    enum ab_judge_state state;
    uint64_t pace_byte_per_s; /* the trial's, which stays once the buffer is enlarged; 0: none */
    uint64_t before_bytes;    /* sk_sndbuf before a forced step that may be too large; 0: none */
};

struct ab_judge {
    uint32_t intent;
    struct autobuf_limits limits;
    struct ab_sample last;
    bool sampled;              /* last is filled */
    uint32_t bottleneck;       /* the bottleneck: AUTOBUF_BOTTLENECK_* */
    bool sent_all;             /* of a full send buffer, at the newest sample */
    uint64_t acked_byte_per_s; /* over the last round trip */
    uint64_t received_byte_per_s;
    uint64_t rtt_ns;           /* smoothed; while it receives, the minimum */
    uint64_t rtt_min_ns;       /* 0: unknown */
    uint64_t in_flight_ns;     /* the mean time of data in flight over the last round trip, by Little's law */
    uint64_t flight_before_bytes; /* in flight a round trip ago */
    struct ab_trial set;
    unsigned snd_limited_score, high_rtt_score;
    unsigned late;             /* samples that the newest may count for, as it came so long after the one before */
    bool is_open;              /* a buffer may be the bottleneck within a round trip */
    unsigned arrives_percent;  /* of the receive window, in a minimum RTT, if autotuning does not enlarge it; else 0 */
    uint64_t limited_ns;       /* the last sample at which either buffer was the bottleneck; 0: none */
    uint64_t trial_ns;         /* when the pacing trial began */
    unsigned failed_trials;
    uint64_t hold_ns;          /* until then nothing is changed */
    uint64_t excess_since_ns;  /* since then what a forced step added stands in a queue; 0: it does not */
    struct ab_pace pace;       /* for low delay */
    struct ab_scavenger scavenger;
    struct ab_count {
        uint64_t now_ns, acked_bytes, received_bytes, flight_bytes;
    } counts[AB_SAMPLES];
    uint64_t counted;
};

void ab_judge_begin(struct ab_judge *judge, uint32_t intent, const struct autobuf_limits *limits);

/*
 * When the next sample is due: about a round trip later, half of one where the intent sets the rate; sooner while
 * bursts are to be told from a queue, later where the RTT is short and no buffer seems to be the bottleneck.
 */
uint64_t ab_judge_next_ns(const struct ab_judge *judge);

/* Whether it is time; also when the clock has run backwards. */
bool ab_judge_due(const struct ab_judge *judge, uint64_t now_ns);

/* Takes in a sample. Returns true if plan is to be applied; *why then says the reason. */
bool ab_judge_sample(struct ab_judge *judge, const struct ab_sample *sample, struct autobuf_plan *plan,
                   const char **why);

/*
 * The bottleneck at the newest sample. Where the buffer is full, its data are paced, and a queue stands all the same,
 * it is the path: with a larger buffer the queue would only be longer.
 */
uint32_t ab_judge_bottleneck(const struct ab_judge *judge);

struct ab_trial ab_judge_trial(const struct ab_judge *judge);

/* The plan of the newest sample was not applied: what is set is as it was before that sample. */
void ab_judge_not_done(struct ab_judge *judge, const struct ab_trial *before);

/* Tells the judge that somebody else has forced the send buffer, and how large it was before; or has set a pace. */
void ab_judge_forced(struct ab_judge *judge, uint64_t before_bytes);
void ab_judge_paced(struct ab_judge *judge, uint64_t byte_per_s);

/* Payload that moved in the last round trip, in the direction that moved more; 0: not known yet. */
uint64_t ab_judge_round_bytes(const struct ab_judge *judge);

/* The side whose buffer has been the bottleneck for some samples: AUTOBUF_LOCK_*; 0: neither. */
uint32_t ab_judge_short_side(const struct ab_judge *judge);

#endif

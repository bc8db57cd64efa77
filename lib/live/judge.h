/* SPDX-License-Identifier: MIT */
/* What bounds an open connection, and what to do about it. Pure: takes samples with their times, gives a plan. */
#ifndef AB_JUDGE_H
#define AB_JUDGE_H

#include "../base/base.h"
#include "../kernel/tcpinfo.h"

/*
 * What bounds an open connection now.
 *
 * The send buffer limits if it is as large as autotuning makes it, and full, and neither the congestion window, nor
 * the peer's window, nor a queue holds the data back. (The kernel counts this time too, as tcpi_sndbuf_limited. That
 * counter alone says too little: it stands still for seconds while a writer that waits with poll() keeps the buffer two
 * thirds full. But where it runs, data that wait after a refill do not speak against the buffer.)
 * The receive buffer limits if the program set it, or if autotuning has reached its limit, and as much as its
 * window arrives in a round trip. But not if data wait in it: the program reads them too slowly, and in a larger one
 * only more would wait.
 */

/* One sample of a connection. */
struct ab_sample {
    uint64_t now_ns;
    struct ab_tcpinfo info;
    struct autobuf_socket socket;
    uint64_t queued_bytes; /* memory of the data in the send buffer (SO_MEMINFO) */
    uint64_t unread_bytes; /* memory of the data that came and were not read */
};

/* A sample, and what is known besides. */
struct ab_bottleneck_sample {
    const struct ab_sample *sample;
    const struct autobuf_limits *limits;
    uint64_t acked_byte_per_s; /* over the last round trip */
    uint64_t received_byte_per_s;
    uint64_t span_ns, dry_ns;   /* that round trip; all was sent, and the buffer had no room, for so much of it */
    uint64_t pace_byte_per_s;   /* the pace that spreads what a writer leaves in bursts; 0: none */
};

/* AUTOBUF_BOTTLENECK_* */
uint32_t ab_bottleneck(const struct ab_bottleneck_sample *seen);

/* Whether the send buffer is full, and as large as autotuning makes it, and next to nothing in it waits to be sent. */
bool ab_bottleneck_sent_all(const struct ab_bottleneck_sample *seen);

/* Whether the pace that spreads a writer's bursts is the socket's, and not one of somebody else. */
bool ab_bottleneck_is_paced(const struct ab_sample *sample, uint64_t pace_byte_per_s);

/* How much of the receive window arrives in a minimum RTT and is read, if autotuning does not enlarge it; else 0. */
unsigned ab_bottleneck_arrives_percent(const struct ab_bottleneck_sample *seen);

/* The round-trip time of data that comes in. */
uint64_t ab_rcv_rtt_ns(const struct ab_tcpinfo *info);

/* By how much a counter grew per second. A counter that ran backwards belongs to another connection: 0. */
static inline uint64_t ab_per_second(uint64_t now, uint64_t before, uint64_t span_ns)
{
    return now > before && span_ns ? ab_mul_div(now - before, AB_NS_PER_S, span_ns) : 0;
}

/* What a rate brings in a time. */
static inline uint64_t ab_in_time(uint64_t byte_per_s, uint64_t ns)
{
    return ab_mul_div(byte_per_s, ns, AB_NS_PER_S);
}

static inline bool ab_at_least(uint64_t value, unsigned percent, uint64_t whole)
{
    return value >= ab_percent(whole, percent);
}

/*
 * The pace of a sender that is to keep the path's queue short.
 *
 * What stands in the queue raises the RTT above its minimum. While it stands, the largest rate of
 * delivery of the last round trips is the path's; the pace goes below it until the queue is gone, then to just below
 * that rate, and from there slowly up; faster and faster, once it is beyond it and still no queue stands.
 */

#define AB_PACE_SAMPLES 8U /* of the past: four round trips of them */

/* For both intents that set the rate. */
struct ab_pace_sample {
    uint64_t now_ns;
    uint64_t rtt_ns;           /* smoothed by 1/8 with each acknowledgement, as TCP does (RFC 6298) */
    uint64_t rtt_min_ns;       /* of the path */
    uint64_t moved_bytes;      /* since the connection began */
    uint64_t acked_byte_per_s; /* over the last round trip; or received */
    uint64_t lost;             /* packets since the connection began */
    uint32_t mss_bytes;
    bool app_limited;          /* the program has nothing more to send: no reason to go faster */
    bool singles;              /* at a low pace congestion control sends packets one by one */
    bool receives;             /* the peer sends, and a window holds its rate; for a scavenger only */
};

struct ab_pace {
    uint64_t byte_per_s;       /* 0: none yet */
    uint64_t drain_byte_per_s; /* the rate at which a queue was seen to drain: the path's */
    unsigned held_ticks;
    unsigned clear_ticks;      /* without a queue, since the last one */
    uint64_t floor_ns[2];      /* minimum RTT of the running and of the last span of time */
    uint64_t floor_begin_ns;
    bool rebased;              /* the path has become longer than TCP's minimum RTT says */
    bool cut;                  /* since the RTT became high, */
    unsigned high_rtt_samples; /* so many samples ago, */
    uint64_t uncut_byte_per_s; /* from this */
    uint64_t rtts_ns[AB_PACE_SAMPLES];
    uint64_t acked_byte_per_s[AB_PACE_SAMPLES];
    unsigned samples;
};

/* Forgets what was seen, because the clock has jumped. The pace stays. */
void ab_pace_forget(struct ab_pace *pace);

/*
 * Takes in a sample; there are two in a round trip. Returns true if byte_per_s has changed; *why then says the
 * reason.
 */
bool ab_pace_sample(struct ab_pace *pace, const struct ab_pace_sample *sample, const char **why);

/*
 * The rate of a transfer that takes what others leave, after LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus) and rLEDBAT
 * (draft-irtf-iccrg-rledbat). It differs where LEDBAT is known to fail:
 *   target         of 60 ms: others' queues are often shorter. Here it is a tenth of the base delay.
 *   late-comer     takes the first one's queue for the path. Here each one empties its own queue whenever it is above
 *                  the target, and pauses for two round trips each 10 s, so both see the path.
 *   base delay     drifts with others' queues, and a longer path starves LEDBAT for ten minutes. Here it is the
 *                  minimum of the last 20 to 40 s: longer than a period of cubic on most paths.
 * A queue that is its own is gone two round trips after a cut. One that stays is somebody else's, and the rate is
 * halved until it is gone. Loss halves it, too. Without a queue the rate rises by a packet in a round trip, and by
 * twice as many every four: equally for all that share the path, so that their shares become equal.
 *
 * A receiver holds the peer to such a rate by its window, which is the rate times the base delay. Its own queue is then
 * gone a round trip after a cut to just below the path's rate, and needs no deeper one. What the window has promised
 * still comes, so a pause takes a round trip more; and it leaves a quarter, as a window opens again in bursts. Slow
 * start and the answer to loss are the sender's own.
 */

#define AB_SCAVENGER_RATES 6U /* three round trips, of two samples each */

struct ab_scavenger {
    uint64_t byte_per_s;      /* 0: none yet */
    uint64_t srtt_ns, moved_bytes, lost; /* of the sample before */
    uint64_t rtt_ns[2];       /* not smoothed: of the newest sample, and of the one before; 0: none */
    uint64_t base_ns[2];      /* minimum of the running and of the last span of time; 0: none */
    uint64_t base_begin_ns;
    uint64_t most_byte_per_s; /* the largest rate seen */
    uint64_t rates[AB_SCAVENGER_RATES];
    unsigned samples;
    unsigned hold;            /* samples until a change shows its effect */
    unsigned clear;           /* samples without a queue, since the last one */
    uint64_t cut_ns;          /* the queue for which the rate was cut; 0: none stands */
    uint64_t saved_byte_per_s; /* the rate before a cut or a pause, to go on with; 0: none */
    bool pauses;
    uint64_t again_byte_per_s; /* half of the rate before it yielded; 0: it has that again */
    uint64_t pause_ns;        /* when the next pause is due; 0: slow start goes on */
};

/* Forgets what was seen, because the clock has jumped. The rate stays. */
void ab_scavenger_forget(struct ab_scavenger *scavenger);

/*
 * Takes in a sample; there are two in a round trip, at least 10 ms apart. Returns true if byte_per_s has changed; *why
 * then says the reason.
 */
bool ab_scavenger_sample(struct ab_scavenger *scavenger, const struct ab_pace_sample *sample, const char **why);

/* The window that holds a peer to the rate; 0: none, slow start goes on. */
uint64_t ab_scavenger_window(const struct ab_scavenger *scavenger, uint32_t mss_bytes);

/*
 * What to do about an open connection, by its bottleneck.
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

#define AB_SAMPLES 8U /* past samples that are kept: those of a round trip, unless it is eight times the minimum RTT */

enum ab_judge_state { AB_JUDGE_OBSERVE, AB_JUDGE_PACING_TRIAL, AB_JUDGE_ENLARGED, AB_JUDGE_SETTLED };

/* What the judge takes to be set on the connection. If a sample's plan is not applied, put the one before back. */
struct ab_trial {
    enum ab_judge_state state;
    uint64_t pace_byte_per_s; /* the trial's, which stays once the buffer is enlarged; 0: none */
    uint64_t before_bytes;    /* sk_sndbuf before a forced step that may be too large; 0: none */
    uint64_t least_bytes;     /* the same before the first one: never less is left */
};

struct ab_judge {
    uint32_t intent;
    bool singles; /* as in struct ab_pace_sample */
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
    struct ab_scavenger scavenger, receiver; /* of what is sent, and of what is received */
    struct ab_count {
        uint64_t now_ns, acked_bytes, received_bytes, flight_bytes, sndbuf_limited_ns;
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

/*
 * Takes in a sample. Returns true if plan is to be applied; *why then says the reason. "": no new one, for the window
 * of a scavenger is planned at each sample.
 */
bool ab_judge_sample(struct ab_judge *judge, const struct ab_sample *sample, struct autobuf_plan *plan,
                   const char **why);

/*
 * The bottleneck at the newest sample. Where the buffer is full, its data are paced, and a queue stands all the same,
 * it is the path: with a larger buffer the queue would only be longer.
 */
uint32_t ab_judge_bottleneck(const struct ab_judge *judge);

/* Tells the judge that somebody else has forced the send buffer, and how large it was before. */
void ab_judge_forced(struct ab_judge *judge, uint64_t before_bytes);

/* Payload that moved in the last round trip, in the direction that moved more; 0: not known yet. */
uint64_t ab_judge_round_bytes(const struct ab_judge *judge);

/* The side whose buffer has been the bottleneck for some samples: AUTOBUF_LOCK_*; 0: neither. */
uint32_t ab_judge_short_side(const struct ab_judge *judge);

#endif

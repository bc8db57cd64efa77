/* SPDX-License-Identifier: MIT */
/* Dynamic Right-Sizing of a credit window: autobuf_rightsize_*(). Pure. */
#include <errno.h>
#include <stdlib.h>

#include "../base/base.h"

#define WINDOW_BYTES 65536U  /* the initial window */
/* "sim" is a case of tests/sim/test_rightsize_sim.c that fails with a far larger or smaller value. */
#define CAP_BYTES 67108864U /* the default of cap_bytes; sim: the_cap_is_kept */
#define BEST_NS (10 * AB_NS_PER_S) /* a best rate counts for one to two times this; sim: the_path_changes */
#define STALL_NS (10 * AB_NS_PER_MS) /* a tick of CONFIG_HZ=100, which may wake a reader; sim: what_is_a_pause */
#define TRIAL_ROUNDS 3U      /* an effect shows after two RTT; sim: its_own_queue_does_not_feed_it */
#define GAIN_PERCENT 5U    /* growth that raised the rate by less is undone; sim: as TRIAL_ROUNDS */
#define CUT_PERCENT 75U      /* so far at least it has to be cut; sim: the_path_becomes_longer */
#define SAME_PERCENT 90U     /* of the RTT before: not shorter; sim: as CUT_PERCENT */
#define BACKOFF_ROUNDS 30U      /* after a failed trial, wait so many RTT; double it each time, */
#define BACKOFF_ROUNDS_MAX 1000U /* up to this; sim of both: as TRIAL_ROUNDS */

struct autobuf_rightsize {
    struct ab_log log;
    uint64_t min_bytes;
    uint64_t cap_bytes;
    uint64_t window_bytes;

    uint64_t caller_rtt_ns;      /* 0: the caller gave none */
    uint64_t own_rtt_ns;         /* newest sample; 0: none */
    uint64_t rtt_min_ns;         /* 0: unknown */

    uint64_t period_ns;          /* when the running measurement began; UNSET: none runs */
    uint64_t period_bytes;
    uint64_t newest_ns;          /* the newest time that the caller passed; UNSET: none yet */
    uint64_t consumed_ns;        /* when the last byte was consumed */
    uint64_t quiet_ns;           /* bytes before this time do not count */

    uint64_t rate;               /* bytes a second */
    uint64_t best[2];            /* best rate of the running bucket of time, and of the one before */
    uint64_t best_ns;
    uint64_t low_bytes;
    uint64_t high_bytes;
    uint32_t measured;

    uint64_t trial_ns;           /* when the window on trial is judged; UNSET: none is on trial */
    uint64_t trial_from_bytes;   /* the window before the trial */
    uint64_t trial_rate;         /* the rate before the trial */
    uint64_t cut_from_bytes;     /* the window before it was cut to what the path holds; 0: it has grown since */
    uint64_t cut_rtt_ns;         /* the RTT before that */
    uint64_t cut_ns;             /* when it was cut last */
    uint64_t backoff_ns;         /* no growth beyond 2 BDP before this time */
    uint32_t backoff_rounds;

    uint64_t granted_bytes;      /* in all; the peer may send so much */
    uint64_t received_bytes;
    uint64_t consumed_bytes;
    uint64_t sample_bytes;       /* bytes beyond this offset were sent after the grant arrived */
    uint64_t sample_ns;          /* when it was granted; UNSET: no RTT sample runs */
};

int autobuf_rightsize_open(struct autobuf_rightsize **out, const struct autobuf_rightsize_options *theirs)
{
    struct autobuf_rightsize_options options = AUTOBUF_RIGHTSIZE_OPTIONS_INIT;
    struct autobuf_rightsize *rs;

    if (!out)
        return -EINVAL;
    *out = NULL;
    if (theirs && !ab_struct_in(&options, sizeof options, theirs))
        return -EINVAL;
    if (!options.window_bytes)
        options.window_bytes = options.cap_bytes ? ab_min(WINDOW_BYTES, options.cap_bytes)
                                                 : WINDOW_BYTES;
    options.cap_bytes = options.cap_bytes ? options.cap_bytes : ab_max(CAP_BYTES, options.window_bytes);
    if (options.cap_bytes < options.window_bytes)
        return -EINVAL;
    rs = calloc(1, sizeof *rs);
    if (!rs)
        return -ENOMEM;
    rs->log = (struct ab_log){options.log, options.log_user};
    rs->min_bytes = rs->window_bytes = rs->granted_bytes = options.window_bytes;
    rs->cap_bytes = options.cap_bytes;
    rs->period_ns = rs->newest_ns = rs->trial_ns = rs->sample_ns = AUTOBUF_NS_UNSET;
    *out = rs;
    return 0;
}

void autobuf_rightsize_close(struct autobuf_rightsize *rs)
{
    free(rs);
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ------------------------------------------------------------------------------------------ RTT */

static uint64_t rtt_of(const struct autobuf_rightsize *rs)
{
    return rs->caller_rtt_ns ? rs->caller_rtt_ns : rs->own_rtt_ns;
}

static void lower_rtt_min(struct autobuf_rightsize *rs, uint64_t rtt_ns)
{
    if (!rs->rtt_min_ns || rtt_ns < rs->rtt_min_ns)
        rs->rtt_min_ns = rtt_ns;
}

void autobuf_rightsize_rtt(struct autobuf_rightsize *rs, uint64_t rtt_ns)
{
    if (!rs || !rtt_ns || rtt_ns == AUTOBUF_NS_UNSET)
        return;
    if (!rs->caller_rtt_ns)
        rs->rtt_min_ns = 0; /* own samples are only upper bounds */
    rs->caller_rtt_ns = rtt_ns;
    lower_rtt_min(rs, rtt_ns);
}

/* Notes the newest time. Handles a time that runs backwards as a gap, and returns false. */
static bool time_runs(struct autobuf_rightsize *rs, uint64_t now_ns)
{
    if (rs->newest_ns != AUTOBUF_NS_UNSET && now_ns < rs->newest_ns) {
        autobuf_rightsize_gap(rs, now_ns);
        return false;
    }
    rs->newest_ns = now_ns;
    return true;
}

void autobuf_rightsize_granted(struct autobuf_rightsize *rs, uint64_t now_ns, uint64_t bytes)
{
    uint64_t limit;

    if (!rs)
        return;
    limit = rs->granted_bytes;
    rs->granted_bytes = add(limit, bytes); /* also if the clock runs backwards */
    if (!time_runs(rs, now_ns) || !bytes)
        return;
    if (rs->sample_ns == AUTOBUF_NS_UNSET) {
        rs->sample_ns = now_ns;
        rs->sample_bytes = limit;
    }
}

void autobuf_rightsize_received(struct autobuf_rightsize *rs, uint64_t now_ns, uint64_t bytes)
{
    if (!rs)
        return;
    rs->received_bytes = add(rs->received_bytes, bytes);
    if (!time_runs(rs, now_ns) || rs->sample_ns == AUTOBUF_NS_UNSET || rs->received_bytes <= rs->sample_bytes)
        return;
    rs->own_rtt_ns = ab_max(now_ns - rs->sample_ns, 1);
    rs->sample_ns = AUTOBUF_NS_UNSET;
    if (!rs->caller_rtt_ns)
        lower_rtt_min(rs, rs->own_rtt_ns);
}

/* -------------------------------------------------------------------------------- the window */

static uint64_t best_of(const struct autobuf_rightsize *rs)
{
    return ab_max(rs->best[0], rs->best[1]);
}

static uint64_t bdp_of(const struct autobuf_rightsize *rs)
{
    return ab_mul_div(best_of(rs), rs->rtt_min_ns, AB_NS_PER_S);
}

static void set_window(struct autobuf_rightsize *rs, uint64_t bytes, const char *why)
{
    bytes = ab_max(ab_min(bytes, rs->cap_bytes), rs->min_bytes);
    if (bytes == rs->window_bytes)
        return;
    ab_event(&rs->log, &(struct autobuf_event){.what = AUTOBUF_EVENT_WINDOW, .before_bytes = rs->window_bytes,
                                              .after_bytes = bytes, .why = why});
    rs->window_bytes = bytes;
}

static void note_rate(struct autobuf_rightsize *rs, uint64_t now_ns, uint64_t rate)
{
    if (now_ns - rs->best_ns > BEST_NS) {
        rs->best[1] = now_ns - rs->best_ns > 2 * BEST_NS ? 0 : rs->best[0];
        rs->best[0] = 0;
        rs->best_ns = now_ns;
    }
    rs->rate = rate;
    rs->best[0] = ab_max(rs->best[0], rate);
}

/* Ends a trial of a window beyond 2 BDP: undoes the growth if the rate did not rise. */
static void end_trial(struct autobuf_rightsize *rs, uint64_t now_ns)
{
    if (rs->trial_ns == AUTOBUF_NS_UNSET || now_ns < rs->trial_ns)
        return;
    rs->trial_ns = AUTOBUF_NS_UNSET;
    if (rs->rate >= rs->trial_rate + rs->trial_rate / 100 * GAIN_PERCENT) {
        rs->backoff_rounds = 0;
        return;
    }
    set_window(rs, ab_min(rs->window_bytes, ab_max(rs->trial_from_bytes, 2 * bdp_of(rs))),
               "the larger one did not raise the rate");
    rs->backoff_rounds = (uint32_t)ab_min(ab_max(2 * (uint64_t)rs->backoff_rounds, BACKOFF_ROUNDS), BACKOFF_ROUNDS_MAX);
    rs->backoff_ns = now_ns + rs->backoff_rounds * rtt_of(rs);
}

/* Cuts the window to four BDP. */
static void cut(struct autobuf_rightsize *rs, uint64_t now_ns)
{
    uint64_t most = 4 * bdp_of(rs);

    if (rs->window_bytes <= ab_max(most, rs->min_bytes))
        return;
    if (!rs->cut_from_bytes) {
        rs->cut_from_bytes = rs->window_bytes;
        rs->cut_rtt_ns = rtt_of(rs);
    }
    rs->cut_ns = now_ns;
    set_window(rs, most, "four times what the path holds is enough");
}

/* A queue of its own becomes shorter with the window. If the RTT does not, the path has become longer. */
static void end_cut(struct autobuf_rightsize *rs, uint64_t now_ns, uint64_t rtt_ns)
{
    if (rs->window_bytes > ab_percent(rs->cut_from_bytes, CUT_PERCENT) || now_ns - rs->cut_ns < TRIAL_ROUNDS * rtt_ns)
        return;
    rs->cut_from_bytes = 0;
    if (rtt_ns >= ab_percent(rs->cut_rtt_ns, SAME_PERCENT))
        rs->rtt_min_ns = rtt_ns;
}

/*
 * arrived_bytes: in one RTT. Slow start needs a window of 2 BDP, which is granted at once. A larger window only fills a
 * queue unless the path's RTT has grown: it is granted on trial, and the rate decides.
 */
static void grow(struct autobuf_rightsize *rs, uint64_t now_ns, uint64_t arrived_bytes)
{
    uint64_t bdp = bdp_of(rs), target = ab_min(2 * arrived_bytes, 4 * bdp);
    bool tries = rs->trial_ns == AUTOBUF_NS_UNSET && now_ns >= rs->backoff_ns;

    cut(rs, now_ns);
    if (target > 2 * bdp && !tries)
        target = 2 * bdp;
    if (ab_min(target, rs->cap_bytes) <= rs->window_bytes)
        return;
    rs->cut_from_bytes = 0;
    if (target > 2 * bdp) {
        rs->trial_from_bytes = rs->window_bytes;
        rs->trial_rate = rs->rate;
        rs->trial_ns = now_ns + TRIAL_ROUNDS * rtt_of(rs);
    }
    set_window(rs, target, "twice what came in a round trip");
}

/* If much has arrived but was not consumed, the reader is the bottleneck. */
static bool reader_is_bottleneck(const struct autobuf_rightsize *rs)
{
    return rs->received_bytes > rs->consumed_bytes && rs->received_bytes - rs->consumed_bytes > rs->window_bytes / 2;
}

static void close_period(struct autobuf_rightsize *rs, uint64_t now_ns, uint64_t rtt_ns)
{
    uint64_t span_ns = now_ns - rs->period_ns, bytes = rs->period_bytes;
    uint64_t whole = ab_min(span_ns / rtt_ns, UINT64_MAX - 1);

    rs->low_bytes = bytes / (whole + 1);
    rs->high_bytes = bytes / (whole + (span_ns % rtt_ns != 0));
    rs->measured++;
    note_rate(rs, now_ns, ab_mul_div(bytes, AB_NS_PER_S, span_ns));
    end_cut(rs, now_ns, rtt_ns);
    end_trial(rs, now_ns);
    if (!reader_is_bottleneck(rs))
        grow(rs, now_ns, ab_mul_div(bytes, rtt_ns, span_ns));
    rs->period_ns = now_ns;
    rs->period_bytes = 0;
}

static void skip(struct autobuf_rightsize *rs, uint64_t now_ns)
{
    rs->period_ns = AUTOBUF_NS_UNSET;
    rs->period_bytes = 0;
    rs->quiet_ns = now_ns + rtt_of(rs); /* the backlog of the pause arrives at once, and does not count */
}

uint64_t autobuf_rightsize_consumed(struct autobuf_rightsize *rs, uint64_t now_ns, uint64_t bytes)
{
    uint64_t rtt_ns;

    if (!rs)
        return 0;
    rtt_ns = rtt_of(rs);
    rs->consumed_bytes = add(rs->consumed_bytes, bytes);
    if (!time_runs(rs, now_ns) || !bytes || !rtt_ns)
        return rs->window_bytes;
    if (rs->consumed_ns && now_ns - rs->consumed_ns > rtt_ns + rtt_ns / 2 + STALL_NS)
        skip(rs, now_ns); /* the sender was idle, or the reader paused */
    rs->consumed_ns = now_ns;
    if (now_ns < rs->quiet_ns)
        return rs->window_bytes;
    if (rs->period_ns == AUTOBUF_NS_UNSET) {
        rs->period_ns = now_ns; /* these bytes arrived before the period */
        return rs->window_bytes;
    }
    rs->period_bytes = add(rs->period_bytes, bytes);
    if (now_ns - rs->period_ns >= rtt_ns)
        close_period(rs, now_ns, rtt_ns);
    return rs->window_bytes;
}

void autobuf_rightsize_gap(struct autobuf_rightsize *rs, uint64_t now_ns)
{
    if (!rs)
        return;
    rs->newest_ns = now_ns;
    rs->consumed_ns = 0;
    rs->sample_ns = AUTOBUF_NS_UNSET;
    rs->trial_ns = AUTOBUF_NS_UNSET;
    rs->cut_from_bytes = 0;
    rs->best_ns = ab_min(rs->best_ns, now_ns);
    rs->backoff_ns = ab_min(rs->backoff_ns, now_ns + BACKOFF_ROUNDS_MAX * rtt_of(rs));
    skip(rs, now_ns);
}

int autobuf_rightsize_state(const struct autobuf_rightsize *rs, struct autobuf_rightsize_state *state)
{
    struct autobuf_rightsize_state now;

    if (!rs)
        return -EINVAL;
    now = (struct autobuf_rightsize_state){
        .size = sizeof now,
        .measured = rs->measured,
        .window_bytes = rs->window_bytes,
        .rtt_ns = ab_ns_or_unset(rtt_of(rs)),
        .rtt_min_ns = ab_ns_or_unset(rs->rtt_min_ns),
        .rate_byte_per_s = rs->rate,
        .best_byte_per_s = best_of(rs),
        .sender_low_bytes = rs->low_bytes,
        .sender_high_bytes = rs->high_bytes,
    };
    return ab_struct_out(state, &now, sizeof now) ? 0 : -EINVAL;
}

/* SPDX-License-Identifier: MIT */
/*
 * The judge by what it does: its plans and their reasons, when it wants to look again, and what it says of the
 * connection.
 * No test reads or writes its state.
 */
#include "unit.h"

#include <string.h>

#include "live/judge.h"
#include "plan/plan.h"

#include "hosts.h"

#define MS AB_NS_PER_MS
#define MSS 1448U
#define MBIT 125000ULL /* bytes a second */

/* A connection that sends as fast as a buffer of 4 MB lets it: 223 Mbit/s at 100 ms. */
static struct ab_sample buffer_limited(uint64_t now_ns)
{
    struct ab_sample sample = {.now_ns = now_ns, .socket = AUTOBUF_SOCKET_INIT};

    sample.info.state = AB_TCP_ESTABLISHED;
    sample.info.scaled = true;
    sample.info.mss_bytes = MSS;
    sample.info.unacked_packets = 1900;
    sample.info.cwnd_packets = 4000;
    sample.info.rtt_ns = 101 * MS;
    sample.info.rtt_min_ns = 100 * MS;
    sample.info.acked_bytes = 1000 + now_ns / 1000 * 28; /* 28 MB/s */
    sample.info.peer_window_bytes = 16000000;
    sample.info.max_pacing_byte_per_s = sample.info.pacing_byte_per_s = UINT64_MAX;
    sample.queued_bytes = 3000000;
    sample.socket.stage = AUTOBUF_STAGE_CONNECTED;
    sample.socket.snd_buf_bytes = 4194304;
    sample.socket.rcv_buf_bytes = 131072;
    sample.socket.snd_window_max_bytes = sample.socket.rcv_window_max_bytes = 65535 << 10;
    return sample;
}

/*
 * Looks at a connection whose newest one this is, a quarter of a round trip apart: as many as it takes until the judge
 * acts, at most ten.
 */
static bool acts_at(struct ab_judge *judge, struct ab_sample *sample, struct autobuf_plan *plan)
{
    const struct ab_judge begun = *judge;
    bool acts = false;

    for (uint64_t samples = 2; samples <= 10 && !acts; samples++) {
        const char *why;

        *judge = begun;
        for (uint64_t back = samples - 1; back > 0; back--) {
            struct ab_sample before = *sample;

            before.now_ns -= back * 25 * MS;
            before.info.acked_bytes -= before.info.acked_bytes > back * 700000 ? back * 700000 : 0;
            assert_false(ab_judge_sample(judge, &before, plan, &why));
        }
        acts = ab_judge_sample(judge, sample, plan, &why);
    }
    return acts;
}

/* How long from the newest look to the next one. */
static uint64_t next_ms(const struct ab_judge *judge, const struct ab_sample *newest)
{
    return (ab_judge_next_ns(judge) - newest->now_ns) / MS;
}

#define UNTOLD (-2)

/* A row changes what it names; -1: as it is. */
static void what_limits(void **state)
{
    static const struct {
        const char *name;
        int64_t unacked, peer, queued, notsent, snd_buf, acked;
        uint32_t bottleneck;
        bool acts;
    } rows[] = {
        {"a full send buffer", -1, -1, -1, -1, -1, -1, AUTOBUF_BOTTLENECK_SND_BUFFER, true},
        {"two thirds full: a writer that waits fills it again", -1, -1, 2750000, -1, -1, -1,
         AUTOBUF_BOTTLENECK_SND_BUFFER, true},
        {"half full", -1, -1, 2100000, -1, -1, -1, AUTOBUF_BOTTLENECK_SENDER, false},
        {"the congestion window", 3900, -1, -1, -1, -1, -1, AUTOBUF_BOTTLENECK_PATH, false},
        {"a tenth of it is left", 3600, -1, -1, -1, -1, -1, AUTOBUF_BOTTLENECK_SND_BUFFER, true},
        {"the peer's window", -1, 2900000, -1, -1, -1, -1, AUTOBUF_BOTTLENECK_PEER, false},
        {"a sixth of it is left", -1, 3300000, -1, -1, -1, -1, AUTOBUF_BOTTLENECK_SND_BUFFER, true},
        {"the program has no more", 10, -1, 20000, -1, -1, -1, AUTOBUF_BOTTLENECK_SENDER, false},
        {"plenty is ready to be sent", -1, -1, -1, 200000, -1, -1, AUTOBUF_BOTTLENECK_PATH, false},
        {"a little is", -1, -1, -1, 100000, -1, -1, AUTOBUF_BOTTLENECK_SND_BUFFER, true},
        {"autotuning is still at it", -1, -1, -1, -1, 3000000, -1, AUTOBUF_BOTTLENECK_UNKNOWN, false},
        {"autotuning is nearly there, and will be", -1, -1, -1, -1, 3900000, -1,
         AUTOBUF_BOTTLENECK_SND_BUFFER, false},
        {"nothing moves, of what is in flight", -1, -1, -1, -1, -1, 0, AUTOBUF_BOTTLENECK_PATH, false},
        {"nothing is in flight", 0, -1, 0, 0, -1, 0, AUTOBUF_BOTTLENECK_IDLE, false},
        {"a kernel that does not tell the peer's window", -1, UNTOLD, -1, -1, -1, -1,
         AUTOBUF_BOTTLENECK_SND_BUFFER, true},
        {"it is closed, and data wait", 0, 0, -1, 200000, -1, -1, AUTOBUF_BOTTLENECK_PEER, false},
        {"it is closed, and a full buffer waits", 0, 0, -1, 100000, -1, -1, AUTOBUF_BOTTLENECK_PEER, false},
        {"it is not told, and data wait", 0, UNTOLD, -1, 200000, -1, -1, AUTOBUF_BOTTLENECK_PATH, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;

        if (rows[i].unacked >= 0)
            sample.info.unacked_packets = (uint32_t)rows[i].unacked;
        if (rows[i].peer >= 0)
            sample.info.peer_window_bytes = (uint64_t)rows[i].peer;
        if (rows[i].queued >= 0)
            sample.queued_bytes = (uint64_t)rows[i].queued;
        if (rows[i].notsent >= 0)
            sample.info.notsent_bytes = (uint64_t)rows[i].notsent;
        if (rows[i].snd_buf >= 0)
            sample.socket.snd_buf_bytes = (uint64_t)rows[i].snd_buf;
        if (rows[i].acked >= 0)
            sample.info.acked_bytes = (uint64_t)rows[i].acked;
        sample.info.tells_peer_window = rows[i].peer != UNTOLD;
        if (rows[i].peer == UNTOLD)
            sample.info.peer_window_bytes = 0;
        ab_judge_begin(&judge, 0, &host_6_18);
        CHECK_EQUAL(rows[i].name, acts_at(&judge, &sample, &plan), rows[i].acts);
        CHECK_EQUAL(rows[i].name, ab_judge_bottleneck(&judge), rows[i].bottleneck);
    }
}

/* The path is full: more would only make the queue longer. */
static void a_queue_is_a_veto(void **state)
{
    static const struct {
        const char *name;
        uint64_t least_us, now_us, deviation_us;
        bool veto;
    } rows[] = {
        {"3% longer", 100000, 103000, 0, false},
        {"8%: the path is just full", 100000, 108000, 0, true},
        {"60%", 100000, 160000, 0, true},
        {"less than a millisecond", 10000, 10800, 0, false},
        {"more than that", 10000, 11500, 0, true},
        {"8%, but it varies so much anyway", 100000, 108000, 5000, false},
        {"15%, and it varies by less", 100000, 115000, 5000, true},
        {"25%, where it varies wildly", 100000, 125000, 100000, false},
        {"35%, however it varies", 100000, 135000, 100000, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;

        sample.info.unacked_packets = (uint32_t)(1900 * rows[i].least_us / 100000);
        sample.info.rtt_min_ns = rows[i].least_us * AB_NS_PER_US;
        sample.info.rtt_ns = rows[i].now_us * AB_NS_PER_US;
        sample.info.rtt_deviation_ns = rows[i].deviation_us * AB_NS_PER_US;
        ab_judge_begin(&judge, 0, &host_6_18);
        if (!acts_at(&judge, &sample, &plan))
            ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, 0, &plan);
        CHECK_EQUAL(rows[i].name, plan.snd_request_bytes != 0, !rows[i].veto);
        CHECK_EQUAL(rows[i].name, plan.flags != 0, !rows[i].veto); /* a veto lets a pace through, and nothing else */
        CHECK_EQUAL(rows[i].name, ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_SND_BUFFER);
    }
}

/* Whether a plan sets a pace, and not takes one away. */
static bool sets_a_pace(const struct autobuf_plan *plan)
{
    return plan->snd_pacing_bit_per_s && plan->snd_pacing_bit_per_s != UINT64_MAX;
}

/* Looks at a buffer that limits, at a long round-trip time. They ask for a pace, which is set then. */
static struct ab_sample spread(struct ab_judge *judge)
{
    struct ab_sample sample = buffer_limited(1000 * MS);
    struct autobuf_plan plan;

    sample.info.rtt_ns = 125 * MS;
    ab_judge_begin(judge, 0, &host_6_18);
    assert_true(acts_at(judge, &sample, &plan));
    assert_int_equal(plan.snd_request_bytes, 0);
    assert_int_equal(plan.flags, 0);
    assert_in_range(plan.snd_pacing_bit_per_s, 8 * 41943040, 8 * 46137344); /* 4 MB in 100 ms */
    sample.info.max_pacing_byte_per_s = sample.info.pacing_byte_per_s = plan.snd_pacing_bit_per_s / 8;
    return sample;
}

/* One look more, when the judge wants it, until which so much came through. What it sets as a pace is set. */
static bool look_once(struct ab_judge *judge, struct ab_sample *sample, uint64_t kbyte_per_s, struct autobuf_plan *plan)
{
    uint64_t after_ms = judge->sampled ? next_ms(judge, sample) : 100;
    const char *why;

    sample->now_ns += after_ms * MS;
    sample->info.acked_bytes += after_ms * kbyte_per_s;
    if (!ab_judge_sample(judge, sample, plan, &why))
        return false;
    if (plan->snd_pacing_bit_per_s)
        sample->info.max_pacing_byte_per_s = sample->info.pacing_byte_per_s =
            sets_a_pace(plan) ? plan->snd_pacing_bit_per_s / 8 : UINT64_MAX;
    return true;
}

/* So many looks more, the last of which acts, or none does. */
static bool looks_on(struct ab_judge *judge, struct ab_sample *sample, unsigned count, struct autobuf_plan *plan)
{
    while (count--) {
        if (!look_once(judge, sample, 28000, plan))
            continue;
        assert_int_equal(count, 0);
        return true;
    }
    return false;
}

/* Looks until the judge acts; how long it takes. */
static unsigned acts_after_ms(struct ab_judge *judge, struct ab_sample *sample, uint64_t kbyte_per_s,
                              struct autobuf_plan *plan)
{
    uint64_t begin_ns = sample->now_ns;

    while (!look_once(judge, sample, kbyte_per_s, plan))
        assert_true(sample->now_ns - begin_ns < 60 * AB_NS_PER_S);
    return (unsigned)((sample->now_ns - begin_ns) / MS);
}

/* bbr paces by what came through before, so data wait after each refill of a buffer that limits. */
static void a_buffer_that_runs_dry(void **state)
{
    static const struct {
        const char *name;
        uint64_t dry_us;           /* of each 100 ms: all was sent, and the buffer had no room */
        uint64_t most_byte_per_s;  /* of the socket */
        uint32_t cwnd;
        bool acts;
    } rows[] = {
        {"6% of the time", 6000, UINT64_MAX, 4000, true},
        {"4%", 4000, UINT64_MAX, 4000, false},
        {"never", 0, UINT64_MAX, 4000, false},
        {"and then waits for a pace that somebody has set", 6000, 30000000, 4000, false},
        {"and then for the congestion window", 6000, UINT64_MAX, 1950, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan plan;
        struct ab_judge judge;
        bool acted = false;
        const char *why;

        ab_judge_begin(&judge, 0, &host_6_18);
        for (uint64_t n = 0; n < 4; n++) {
            struct ab_sample sample = buffer_limited(1000 * MS + n * 100 * MS);

            sample.info.notsent_bytes = 1000000;
            sample.info.pacing_byte_per_s = 30000000;
            sample.info.max_pacing_byte_per_s = rows[i].most_byte_per_s;
            sample.info.cwnd_packets = rows[i].cwnd;
            sample.info.sndbuf_limited_ns = n * rows[i].dry_us * 1000;
            acted |= ab_judge_sample(&judge, &sample, &plan, &why);
        }
        CHECK_EQUAL(rows[i].name, acted, rows[i].acts);
        CHECK_EQUAL(rows[i].name, ab_judge_bottleneck(&judge),
                    rows[i].acts ? AUTOBUF_BOTTLENECK_SND_BUFFER : AUTOBUF_BOTTLENECK_PATH);
    }
}

/* A long round-trip time is a queue, or the bursts of a writer that sleeps until a third of its buffer is free. */
static void bursts_are_spread(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = spread(&judge);
    sample.info.rtt_ns = 101 * MS;
    sample.info.notsent_bytes = 1000000; /* waits for the pace */
    assert_false(looks_on(&judge, &sample, 1, &plan)); /* an effect takes two round trips to show */
    assert_true(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_SND_BUFFER);
    assert_int_equal(plan.snd_request_bytes, 4194304);
    assert_in_range(plan.snd_pacing_bit_per_s / 8, 83886080, 92274688); /* 8 MB in 100 ms */

    sample = spread(&judge);
    sample.info.rtt_ns = 101 * MS;
    sample.info.notsent_bytes = 1000000;
    sample.info.pacing_byte_per_s = 30000000; /* of somebody else, who holds the data back */
    assert_false(looks_on(&judge, &sample, 5, &plan));
    assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_PATH);

    sample = spread(&judge);
    sample.info.rtt_min_ns = 50 * MS;
    sample.info.max_pacing_byte_per_s = 100000000; /* the program has set another pace since: it stays */
    assert_false(looks_on(&judge, &sample, 20, &plan));

    sample = buffer_limited(1000 * MS);
    sample.info.rtt_ns = 125 * MS;
    sample.info.max_pacing_byte_per_s = 100000000; /* or before */
    ab_judge_begin(&judge, 0, &host_6_18);
    assert_false(looks_on(&judge, &sample, 20, &plan));

    sample = buffer_limited(1000 * MS);
    sample.info.rtt_ns = 125 * MS;
    ab_judge_begin(&judge, AUTOBUF_INTENT_LOW_DELAY, &host_6_18); /* which has a pace of its own */
    assert_false(looks_on(&judge, &sample, 20, &plan));
}

/* The end of a burst may fill the congestion window: if nothing waits, it holds back nothing. */
static void a_burst_that_fills_the_congestion_window(void **state)
{
    static const struct {
        const char *name;
        uint32_t cwnd, unacked;
        uint64_t notsent, queued, snd_buf, peer_window;
        uint32_t bottleneck;
        bool spreads;
    } rows[] = {
        {"it does", 1950, 1900, 0, 3000000, 4194304, 16000000, AUTOBUF_BOTTLENECK_PATH, true},
        {"it does not", 4000, 1900, 0, 3000000, 4194304, 16000000, AUTOBUF_BOTTLENECK_SND_BUFFER, true},
        {"a rest waits", 1950, 1900, 100000, 3000000, 4194304, 16000000, AUTOBUF_BOTTLENECK_PATH, true},
        {"data wait for the congestion window", 1950, 1900, 200000, 3000000, 4194304, 16000000, AUTOBUF_BOTTLENECK_PATH,
         false},
        {"the same in a small buffer", 70, 69, 12000, 200000, 212992, 16000000, AUTOBUF_BOTTLENECK_PATH, false},
        {"which sends all", 70, 69, 10000, 200000, 212992, 16000000, AUTOBUF_BOTTLENECK_PATH, true},
        {"the buffer is half empty", 1950, 1900, 0, 2100000, 4194304, 16000000, AUTOBUF_BOTTLENECK_PATH, false},
        {"the peer's window is filled, too", 1950, 1900, 0, 3000000, 4194304, 2900000, AUTOBUF_BOTTLENECK_PEER, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;

        sample.info.rtt_ns = 125 * MS;
        sample.info.cwnd_packets = rows[i].cwnd;
        sample.info.unacked_packets = rows[i].unacked;
        sample.info.notsent_bytes = rows[i].notsent;
        sample.info.peer_window_bytes = rows[i].peer_window;
        sample.queued_bytes = rows[i].queued;
        sample.socket.snd_buf_bytes = rows[i].snd_buf;
        sample.socket.locks = rows[i].snd_buf < 4194304 ? AUTOBUF_LOCK_SND : 0;
        ab_judge_begin(&judge, 0, &host_6_18);
        CHECK_EQUAL(rows[i].name, acts_at(&judge, &sample, &plan), rows[i].spreads);
        CHECK(rows[i].name, !rows[i].spreads || (sets_a_pace(&plan) && !plan.snd_request_bytes));
        CHECK_EQUAL(rows[i].name, ab_judge_bottleneck(&judge), rows[i].bottleneck);
        sample.info.rtt_ns = 101 * MS; /* neither bursts nor a queue: a filled congestion window is what limits */
        ab_judge_begin(&judge, 0, &host_6_18);
        CHECK_EQUAL(rows[i].name, acts_at(&judge, &sample, &plan), rows[i].bottleneck == AUTOBUF_BOTTLENECK_SND_BUFFER);
    }
}

/* Data that wait for it speak against a burst, also if the buffer ran dry before. */
static void a_congestion_window_that_was_cut(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    const char *why;

    (void)state;
    ab_judge_begin(&judge, 0, &host_6_18);
    for (uint64_t n = 0; n < 8; n++) {
        struct ab_sample sample = buffer_limited(1000 * MS + n * 130 * MS);

        sample.info.rtt_ns = 125 * MS;
        sample.info.cwnd_packets = 1950;
        sample.info.notsent_bytes = 1000000;
        sample.info.pacing_byte_per_s = 30000000;
        sample.info.sndbuf_limited_ns = n * 10 * MS;
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        assert_int_equal(next_ms(&judge, &sample), 125); /* after a look at what may be a burst it would be 100 */
    }
}

/* A connection whose buffer limits and whose round trips are long, and a judge that has not seen it. */
static struct ab_sample long_round_trips(struct ab_judge *judge, uint64_t rtt_ms)
{
    struct ab_sample sample = buffer_limited(1000 * MS);

    sample.info.rtt_ns = rtt_ms * MS;
    ab_judge_begin(judge, 0, &host_6_18);
    return sample;
}

/* The present round-trip time may be a burst's. */
static void bursts_are_told_by_the_least_round_trip_time(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = long_round_trips(&judge, 150);
    assert_false(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(next_ms(&judge, &sample), 150); /* nothing is known yet */
    assert_false(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(next_ms(&judge, &sample), 25); /* one long look */
    acts_after_ms(&judge, &sample, 28000, &plan);
    assert_true(sets_a_pace(&plan));
    assert_int_equal(next_ms(&judge, &sample), 100); /* a trial has begun */
    assert_false(looks_on(&judge, &sample, 2, &plan)); /* a burst of before may still be seen, */
    assert_int_equal(next_ms(&judge, &sample), 100);
    sample.info.rtt_ns = 101 * MS;
    assert_true(looks_on(&judge, &sample, 1, &plan)); /* and that counts for nothing */
    assert_int_equal(plan.snd_request_bytes, 4194304); /* it has paid, so nothing is open any more */
    sample.info.rtt_ns = 150 * MS;
    sample.socket.snd_buf_bytes = 8388608;
    sample.queued_bytes = 6000000;
    assert_false(looks_on(&judge, &sample, 2, &plan));
    assert_int_equal(next_ms(&judge, &sample), 150);
}

/*
 * What a trial shows is awaited for two of the least round trips, too, and not for two of those that a burst makes
 * long.
 */
static void a_trial_is_waited_for_as_long_as_it_takes(void **state)
{
    static const struct {
        unsigned after_ms;
        bool acts;
    } rows[] = {{199, false}, {200, true}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan plan;
        struct ab_judge judge;
        struct ab_sample sample = long_round_trips(&judge, 150);
        const char *why;

        acts_after_ms(&judge, &sample, 28000, &plan);
        sample.now_ns += rows[i].after_ms * MS;
        sample.info.acked_bytes += rows[i].after_ms * 28000ULL;
        sample.info.rtt_ns = 101 * MS;
        assert_int_equal(ab_judge_sample(&judge, &sample, &plan, &why), rows[i].acts);
        assert_true(!rows[i].acts || plan.snd_request_bytes == 4194304);
    }
}

/* A queue that still stands at a trial's second look counts. */
static void a_trial_that_shows_a_queue(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = spread(&judge);
    assert_false(looks_on(&judge, &sample, 3, &plan));
    sample.info.rtt_ns = 101 * MS; /* without that queue one look would be enough */
    assert_false(looks_on(&judge, &sample, 1, &plan));
    assert_true(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(plan.snd_request_bytes, 4194304);
}

/* Before it is spread, and until that shows, it may be bursts. */
static void a_queue_of_what_is_spread_is_the_path_s(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = spread(&judge);
    assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_SND_BUFFER);
    assert_false(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_SND_BUFFER);
    assert_false(looks_on(&judge, &sample, 1, &plan)); /* its first look */
    assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_SND_BUFFER);
    assert_false(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_PATH);
    sample.info.rtt_ns = 101 * MS;
    assert_false(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_SND_BUFFER);
    assert_true(looks_on(&judge, &sample, 1, &plan)); /* which makes the buffer larger */
    assert_int_equal(plan.snd_request_bytes, 4194304);
    sample.info.rtt_ns = 125 * MS;
    assert_false(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_PATH);
    sample.info.max_pacing_byte_per_s = UINT64_MAX; /* somebody has taken the pace away */
    (void)looks_on(&judge, &sample, 1, &plan);
    assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_SND_BUFFER);
}

/* But no connection is looked at more often for ever. */
static void what_cannot_be_told_is_not_looked_at_more_often(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = long_round_trips(&judge, 150);
    sample.info.notsent_bytes = 200000; /* no burst */
    assert_false(looks_on(&judge, &sample, 20, &plan));
    assert_int_equal(next_ms(&judge, &sample), 150);

    sample = long_round_trips(&judge, 150);
    sample.queued_bytes = sample.socket.snd_buf_bytes = 10000000; /* of which too little comes through for a trial */
    assert_false(looks_on(&judge, &sample, 20, &plan));
    assert_int_equal(next_ms(&judge, &sample), 150);

    sample = spread(&judge); /* after a trial in vain there is time */
    sample.info.rtt_ns = 150 * MS;
    while (!looks_on(&judge, &sample, 1, &plan))
        ;
    assert_int_equal(plan.snd_pacing_bit_per_s, UINT64_MAX);
    assert_false(looks_on(&judge, &sample, 4, &plan));
    assert_int_equal(next_ms(&judge, &sample), 150);
    assert_int_equal(acts_after_ms(&judge, &sample, 28000, &plan), 600); /* those of before count all the same */

    sample = long_round_trips(&judge, 150);
    assert_false(looks_on(&judge, &sample, 2, &plan));
    sample.info.max_pacing_byte_per_s = 100000000; /* the program's: there is no trial */
    assert_false(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(next_ms(&judge, &sample), 150);

    sample = long_round_trips(&judge, 150);
    assert_false(looks_on(&judge, &sample, 2, &plan));
    ab_judge_forced(&judge, 2000000); /* what may be taken back is judged by whole round trips */
    assert_int_equal(next_ms(&judge, &sample), 150);
}

/* Looks from before a clock was set back are not counted. */
static void long_looks_of_another_clock(void **state)
{
    static const struct {
        bool jumps;
        uint64_t back_ms;
        unsigned after_ms; /* until it acts, after two that count */
    } rows[] = {{false, 0, 75}, {true, 500, 225}, {true, 0, 225}}; /* the last is a clock that stands still */

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;
        struct ab_sample sample = long_round_trips(&judge, 125);

        assert_false(looks_on(&judge, &sample, 3, &plan));
        sample.now_ns -= rows[i].back_ms * MS;
        assert_false(rows[i].jumps && ab_judge_sample(&judge, &sample, &plan, &why));
        assert_int_equal(acts_after_ms(&judge, &sample, 28000, &plan), rows[i].after_ms);
        assert_true(sets_a_pace(&plan));
    }
}

/* Where it shows a queue, the path is as it was before soon, and is let alone for longer and longer. */
static void a_failed_trial_ends(void **state)
{
    static const unsigned rounds[] = {6, 12, 24, 48, 96, 96, 96}; /* until the next */
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = spread(&judge);
    for (size_t i = 0; i < COUNT(rounds); i++) {
        assert_in_range(acts_after_ms(&judge, &sample, 28000, &plan), 600, 700); /* six minimum RTTs */
        assert_int_equal(plan.snd_pacing_bit_per_s, UINT64_MAX);
        assert_int_equal(plan.snd_request_bytes, 0);
        assert_in_range(acts_after_ms(&judge, &sample, 28000, &plan), rounds[i] * 125, (rounds[i] + 3) * 125);
        assert_in_range(plan.snd_pacing_bit_per_s, 1, UINT64_MAX - 1);
    }
}

/* The judge does not take for set or taken back what its caller could not apply. */
static void what_is_not_done_is_asked_again(void **state)
{
    struct autobuf_plan plan;
    struct ab_trial before;
    struct ab_judge judge;
    struct ab_sample sample;
    uint64_t ours;

    (void)state;
    sample = spread(&judge);
    ours = sample.info.max_pacing_byte_per_s;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t begin_ns = sample.now_ns;

        for (before = judge.set; !looks_on(&judge, &sample, 1, &plan); before = judge.set)
            ;
        /* as soon as an effect could be seen */
        assert_in_range(sample.now_ns - begin_ns, (i ? 200 : 600) * MS, (i ? 325 : 700) * MS);
        assert_int_equal(plan.snd_pacing_bit_per_s, UINT64_MAX);
        judge.set = before;
        sample.info.max_pacing_byte_per_s = sample.info.pacing_byte_per_s = ours;
    }

    sample = buffer_limited(1000 * MS);
    sample.info.rtt_ns = 125 * MS;
    ab_judge_begin(&judge, 0, &host_6_18);
    before = judge.set;
    assert_true(acts_at(&judge, &sample, &plan));
    judge.set = before;
    sample.info.max_pacing_byte_per_s = UINT64_MAX;
    assert_in_range(acts_after_ms(&judge, &sample, 28000, &plan), 250, 375); /* after the effect's round trips */
    assert_in_range(plan.snd_pacing_bit_per_s, 8 * 41943040, 8 * 46137344); /* a new trial */
}

/* A larger buffer that could not be set ends no trial, and one that could not be forced is not taken back. */
static void a_larger_buffer_that_is_not_done(void **state)
{
    struct autobuf_limits limits = host_6_18;
    struct autobuf_plan plan;
    struct ab_trial before;
    struct ab_judge judge;
    struct ab_sample sample;
    uint64_t ours;

    (void)state;
    sample = spread(&judge);
    ours = sample.info.max_pacing_byte_per_s;
    sample.info.rtt_ns = 101 * MS;
    while (before = judge.set, !looks_on(&judge, &sample, 1, &plan))
        ;
    assert_int_equal(plan.snd_request_bytes, 4194304);
    judge.set = before;
    sample.info.max_pacing_byte_per_s = sample.info.pacing_byte_per_s = ours; /* as before */
    sample.info.rtt_ns = 125 * MS;
    assert_in_range(acts_after_ms(&judge, &sample, 28000, &plan), 1, 700); /* it has not paid */
    assert_int_equal(plan.snd_pacing_bit_per_s, UINT64_MAX);

    limits.flags |= AUTOBUF_LIMITS_FORCE;
    sample = buffer_limited(1000 * MS);
    sample.socket.locks = AUTOBUF_LOCK_SND;
    sample.socket.snd_buf_bytes = sample.queued_bytes = 8388608;
    ab_judge_begin(&judge, 0, &limits);
    before = judge.set;
    assert_true(acts_at(&judge, &sample, &plan));
    assert_true(plan.flags & AUTOBUF_PLAN_SND_FORCE);
    judge.set = before;
    sample.info.rtt_ns = 140 * MS;
    assert_in_range(acts_after_ms(&judge, &sample, 44000, &plan), 100, 250); /* a round trip before a trial */
    assert_true(sets_a_pace(&plan));
}

/* A trial after one that has paid is like the first. */
static void a_second_trial_in_vain_ends(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = spread(&judge);
    sample.info.rtt_ns = 101 * MS;
    assert_in_range(acts_after_ms(&judge, &sample, 28000, &plan), 200, 225);
    assert_int_equal(plan.snd_request_bytes, 4194304);
    sample.info.rtt_ns = 125 * MS; /* not applied as yet, and somebody takes the pace away */
    sample.info.max_pacing_byte_per_s = sample.info.pacing_byte_per_s = UINT64_MAX;
    assert_in_range(acts_after_ms(&judge, &sample, 28000, &plan), 6 * 125, 9 * 125);
    assert_true(sets_a_pace(&plan));
    assert_in_range(acts_after_ms(&judge, &sample, 28000, &plan), 600, 700);
    assert_int_equal(plan.snd_pacing_bit_per_s, UINT64_MAX);
}

/* There is no trial that cannot pay, and none goes on that has paid all it can and costs. */
static void a_buffer_at_its_end_is_not_spread(void **state)
{
    struct autobuf_limits small = host_6_18;
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    small.snd_settable_bytes = 212992;
    sample = buffer_limited(1000 * MS);
    sample.info.rtt_ns = 125 * MS;
    ab_judge_begin(&judge, 0, &small);
    assert_false(looks_on(&judge, &sample, 200, &plan));

    sample = spread(&judge);
    sample.info.rtt_ns = 101 * MS;
    acts_after_ms(&judge, &sample, 28000, &plan);
    assert_int_equal(plan.snd_request_bytes, 4194304);
    sample.socket.snd_buf_bytes = 8388608;
    sample.queued_bytes = 6000000;
    sample.info.rtt_ns = 125 * MS; /* the path is full: what waits for the pace costs nothing */
    assert_false(looks_on(&judge, &sample, 200, &plan));
    sample.info.rtt_ns = 101 * MS;
    assert_true(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(plan.snd_pacing_bit_per_s, UINT64_MAX);
    sample.info.rtt_ns = 125 * MS;
    assert_false(looks_on(&judge, &sample, 200, &plan));
}

/* The pace is never less than what the buffer can bring. */
static void the_spread_follows_buffer_and_path(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = spread(&judge);
    sample.info.rtt_min_ns = 99 * MS; /* hardly less: not worth a call */
    assert_false(looks_on(&judge, &sample, 3, &plan));
    sample.info.rtt_min_ns = 50 * MS;
    assert_true(looks_on(&judge, &sample, 1, &plan));
    assert_int_equal(plan.snd_request_bytes, 0);
    assert_true(plan.snd_pacing_bit_per_s >= 8 * 83886080ULL);

    sample = spread(&judge);
    sample.socket.snd_buf_bytes = 6000000; /* autotuning, or the program */
    sample.queued_bytes = 5000000;
    assert_true(looks_on(&judge, &sample, 2, &plan));
    assert_true(plan.snd_pacing_bit_per_s >= 8 * 60000000ULL);
}

/* A sendfile() may store more than the buffer holds: what is sent is then more than the buffer can bring. */
static void the_pace_is_never_the_bottleneck(void **state)
{
    struct ab_sample sample = buffer_limited(1000 * MS);
    struct autobuf_plan plan;
    struct ab_judge judge;
    const char *why;

    (void)state;
    sample.info.rtt_ns = 125 * MS;
    ab_judge_begin(&judge, 0, &host_6_18);
    acts_after_ms(&judge, &sample, 84000, &plan);
    assert_in_range(plan.snd_pacing_bit_per_s / 8, 92000000, 140000000); /* 84 MB/s were seen */

    sample = spread(&judge);
    sample.now_ns += 200 * MS;
    sample.info.acked_bytes += 12000000; /* 60 MB/s, where the pace is 46 */
    assert_true(ab_judge_sample(&judge, &sample, &plan, &why));
    assert_int_equal(plan.snd_request_bytes, 0);
    assert_in_range(plan.snd_pacing_bit_per_s / 8, 60000000, 80000000);
}

/* A judge, and a sample whose buffer is full while the RTT is high. */
static struct ab_sample begun_at(struct ab_judge *judge, uint64_t rtt_ns)
{
    struct ab_sample sample = buffer_limited(1000 * MS);

    sample.info.rtt_ns = rtt_ns;
    ab_judge_begin(judge, 0, &host_6_18);
    return sample;
}

/* Where far less than the buffer comes through in a round trip, it is no burst that makes it long. */
static void a_path_that_is_full_is_not_spread(void **state)
{
    static const struct {
        unsigned mbyte_per_s;
        bool spreads;
    } rows[] = {{6, false}, {13, false}, {15, true}, {28, true}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_judge judge;
        struct ab_sample sample = begun_at(&judge, 140 * MS);
        struct autobuf_plan plan;
        bool spreads = false;

        for (unsigned j = 0; j < 40; j++)
            spreads |= look_once(&judge, &sample, 1000 * rows[i].mbyte_per_s, &plan) && sets_a_pace(&plan);
        assert_int_equal(spreads, rows[i].spreads);
    }
}

static void samples_of_a_kind_before_bursts_are_spread(void **state)
{
    struct ab_judge judge;
    struct ab_sample sample = begun_at(&judge, 125 * MS);
    struct autobuf_plan plan;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        sample.queued_bytes = i % 2 ? 3000000 : 100000; /* one in two is the program's own pause */
        assert_false(looks_on(&judge, &sample, 1, &plan));
    }
    sample.queued_bytes = 3000000;
    assert_in_range(acts_after_ms(&judge, &sample, 28000, &plan), 75, 125); /* a round trip of them */
    assert_true(sets_a_pace(&plan));
}

/* It fills the buffer in each round trip, and is sampled often enough for that to be seen. */
static void a_writer_that_is_late_for_a_third_of_its_buffer(void **state)
{
    static const struct {
        uint64_t left_bytes; /* of 4194304, when it comes */
        bool spreads;
    } rows[] = {{2100000, true}, {1398102, true}, {1398100, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_judge judge;
        struct ab_sample sample = begun_at(&judge, 125 * MS);
        struct autobuf_plan plan;
        bool spreads = false;

        for (unsigned j = 0; j < 20; j++) {
            sample.queued_bytes = j % 2 ? 3000000 : rows[i].left_bytes;
            spreads |= looks_on(&judge, &sample, 1, &plan) && sets_a_pace(&plan);
        }
        assert_int_equal(spreads, rows[i].spreads);
    }
}

/* Who takes a trial's pace away does not want one: the next comes after twice as many looks. */
static void a_pace_that_is_taken_away_is_not_set_again_soon(void **state)
{
    static const unsigned rounds[] = {6, 12, 24, 48, 96, 96, 96};
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = spread(&judge);
    for (size_t i = 0; i < COUNT(rounds); i++) {
        sample.info.max_pacing_byte_per_s = sample.info.pacing_byte_per_s = UINT64_MAX;
        /* two are the effect's */
        assert_in_range(acts_after_ms(&judge, &sample, 28000, &plan), rounds[i] * 125, (rounds[i] + 3) * 125);
        assert_true(sets_a_pace(&plan));
    }
}

/*
 * After a high RTT, as many as would have been taken since then, if what came through says that the buffer was full all
 * the time.
 */
static void rare_samples_count_for_more(void **state)
{
    static const struct {
        unsigned every_ms, rtt_ms, samples;
        bool paces;
        uint64_t request_bytes; /* after two round trips a queue would show, so it may be twice the size */
    } rows[] = {
        {25, 101, 2, false, 2936012}, {130, 101, 2, false, 2936012}, {190, 101, 2, false, 2936012},
        {205, 101, 2, false, 4194304},
        {1000, 101, 2, false, 4194304}, {25, 112, 5, true, 0}, {60, 112, 3, true, 0}, {130, 112, 2, true, 0},
        {1000, 112, 2, true, 0},
        {25, 108, 20, false, 0}, {80, 108, 20, false, 0}, {110, 108, 2, true, 0}, {1000, 108, 2, true, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;
        unsigned samples = 0;
        bool acts;

        sample.info.rtt_ns = rows[i].rtt_ms * MS;
        ab_judge_begin(&judge, 0, &host_6_18);
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        do {
            sample.now_ns += rows[i].every_ms * MS;
            sample.info.acked_bytes += rows[i].every_ms * 28000ULL;
            acts = ab_judge_sample(&judge, &sample, &plan, &why);
            samples++;
        } while (!acts && samples < 20);
        assert_int_equal(samples, rows[i].samples);
        assert_int_equal(acts && plan.snd_pacing_bit_per_s > 0, rows[i].paces);
        assert_int_equal(acts ? plan.snd_request_bytes : 0, rows[i].request_bytes);
    }
}

/* Also if it is looked at seldom. */
static void a_trial_in_vain_ends_in_as_many_round_trips(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;
    const char *why;

    (void)state;
    sample = spread(&judge);
    sample.now_ns += 1000 * MS;
    sample.info.acked_bytes += 28000000;
    assert_true(ab_judge_sample(&judge, &sample, &plan, &why));
    assert_int_equal(plan.snd_pacing_bit_per_s, UINT64_MAX);
}

/* A look a round trip (but see above), two for low delay; no more than a hundred a second, no less than one. */
static void when_the_next_sample_is_due(void **state)
{
    static const struct {
        uint32_t intent;
        uint64_t rtt_ms, next_ms;
    } rows[] = {
        {AUTOBUF_INTENT_THROUGHPUT, 100, 100}, {AUTOBUF_INTENT_LOW_DELAY, 100, 50},
        {AUTOBUF_INTENT_SCAVENGER, 100, 50},
        {AUTOBUF_INTENT_THROUGHPUT, 1, 10},    {AUTOBUF_INTENT_THROUGHPUT, 3000, 1000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        sample.info.rtt_ns = rows[i].rtt_ms * MS;
        ab_judge_begin(&judge, rows[i].intent, &host_6_18);
        assert_int_equal(ab_judge_next_ns(&judge), 0);
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        assert_int_equal(ab_judge_next_ns(&judge), (1000 + rows[i].next_ms) * MS);
    }
}

/* Where the path is short. Whatever may lead to a change is looked at as often as always. */
static void a_calm_path_is_sampled_less(void **state)
{
    static const struct {
        uint32_t intent;
        /* until the next look: the path limits, soon after the buffer did, the buffer does */
        uint64_t rtt_ms, path_ms, soon_ms, buffer_ms;
    } rows[] = {
        {AUTOBUF_INTENT_THROUGHPUT, 1, 50, 10, 10},
        {AUTOBUF_INTENT_THROUGHPUT, 20, 50, 20, 10},
        {AUTOBUF_INTENT_THROUGHPUT, 60, 15, 15, 15}, /* while no queue stands the congestion window may double */
        {AUTOBUF_INTENT_LOW_DELAY, 1, 10, 10, 10},
        {AUTOBUF_INTENT_LOW_DELAY, 60, 30, 30, 30},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample;
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        ab_judge_begin(&judge, rows[i].intent, &host_6_18);
        for (uint64_t at = 10; at < 16; at++) {
            bool path = at != 12; /* the buffer limits at one look, and is expected to again for 200 ms */
            uint64_t wanted_ms = at == 12 ? rows[i].buffer_ms : at == 13 ? rows[i].soon_ms : rows[i].path_ms;

            sample = buffer_limited(100 * at * MS);
            sample.info.rtt_ns = sample.info.rtt_min_ns = rows[i].rtt_ms * MS;
            if (path)
                sample.info.cwnd_packets = sample.info.unacked_packets;
            (void)ab_judge_sample(&judge, &sample, &plan, &why);
            if (at == 10)
                continue;
            assert_int_equal(ab_judge_bottleneck(&judge),
                             path ? AUTOBUF_BOTTLENECK_PATH : AUTOBUF_BOTTLENECK_SND_BUFFER);
            assert_int_equal(next_ms(&judge, &sample), wanted_ms);
        }
    }
}

/*
 * How long until the buffer of a program is enlarged that sends for 25 ms of each period, of which phase_ms are over.
 */
static uint64_t until_enlarged_ms(uint64_t period_ms, uint64_t phase_ms)
{
    const uint64_t begin_ns = 1000 * MS;
    uint64_t now_ns = begin_ns;
    struct ab_judge judge;
    struct autobuf_plan plan;
    struct ab_sample sample;
    const char *why;

    ab_judge_begin(&judge, AUTOBUF_INTENT_THROUGHPUT, &host_6_18);
    do {
        uint64_t at_ms = (now_ns - begin_ns) / MS + phase_ms, in_period_ms = at_ms % period_ms;
        uint64_t sent_ms = at_ms / period_ms * 25 + (in_period_ms < 25 ? in_period_ms : 25);

        sample = buffer_limited(now_ns);
        sample.info.rtt_ns = sample.info.rtt_min_ns = 5 * MS;
        sample.info.acked_bytes = 1000000 + sent_ms * 750000;
        if (in_period_ms >= 25)
            sample.info.unacked_packets = 0, sample.queued_bytes = 0;
        if (ab_judge_sample(&judge, &sample, &plan, &why))
            break;
        now_ns = ab_judge_next_ns(&judge) + MS / 10;
    } while (now_ns - begin_ns < 30000 * MS);
    return (now_ns - begin_ns) / MS;
}

/* As looks at equal intervals would, which might meet a pause each time: seconds, not tenths of one. */
static void pauses_at_equal_intervals_hide_nothing(void **state)
{
    static const struct {
        uint64_t period_ms, mean_ms;
    } rows[] = {{50, 150}, {100, 300}, {200, 600}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t sum_ms = 0, phase_ms;

        for (phase_ms = 0; phase_ms < rows[i].period_ms; phase_ms++)
            sum_ms += until_enlarged_ms(rows[i].period_ms, phase_ms);
        assert_in_range(sum_ms / phase_ms, 1, rows[i].mean_ms);
    }
}

/* Rates are those of the last round trip, as far as eight looks reach. */
static void rates_are_of_a_round_trip(void **state)
{
    static const struct {
        uint64_t rtt_s, period; /* every so many looks, a second apart, as many MB are acknowledged */
    } rows[] = {{1, 1}, {3, 3}, {6, 6}, {12, 8}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(0);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        sample.info.acked_bytes = 0;
        sample.info.rtt_ns = rows[i].rtt_s * AB_NS_PER_S;
        sample.info.rtt_min_ns = AB_NS_PER_S; /* in which as many bytes move as in a second */
        ab_judge_begin(&judge, 0, &host_6_18);
        for (uint64_t second = 1; second <= 40; second++) {
            sample.now_ns = second * AB_NS_PER_S;
            sample.info.acked_bytes += second % rows[i].period ? 0 : 1000000 * rows[i].period;
            ab_judge_sample(&judge, &sample, &plan, &why);
            if (second > 16)
                assert_int_equal(ab_judge_round_bytes(&judge), 1000000);
        }
    }
}

static void the_send_buffer_grows_by_the_limits(void **state)
{
    static const struct {
        const char *name;
        const struct autobuf_limits *host;
        uint32_t add_flags;
        uint64_t snd_buf;
        bool locked, acts;
        uint64_t least, most; /* of the request */
    } rows[] = {
        {"four tenths more", &host_6_18, 0, 4194304, false, true, 2936012, 2936012},
        {"older limits: nothing more can be set", &host_older, 0, 4194304, false, false, 0, 0},
        {"by force: the same", &host_older, AUTOBUF_LIMITS_FORCE, 4194304, false, true, 2936012, 2936012},
        {"a small buffer that was set is given back", &host_older, 0, 200000, true, true, 0, 0},
        {"at the settable maximum already", &host_6_18, 0, 8388608, true, false, 0, 0},
        {"a twentieth below it: not worth a call", &host_6_18, 0, 8000000, true, false, 0, 0},
        {"a fifth below it", &host_6_18, 0, 7000000, true, true, 4194304, 4194304},
        {"a little more than four tenths", &host_6_18, 0, 5872024, true, true, 4194304, 4194304},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits limits = *rows[i].host;
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
        struct ab_judge judge;

        limits.flags |= rows[i].add_flags;
        sample.socket.snd_buf_bytes = rows[i].snd_buf;
        sample.socket.locks = rows[i].locked ? AUTOBUF_LOCK_SND : 0;
        sample.queued_bytes = rows[i].snd_buf / 10 * 8;
        ab_judge_begin(&judge, 0, &limits);
        CHECK_EQUAL(rows[i].name, acts_at(&judge, &sample, &plan), rows[i].acts);
        if (!rows[i].acts)
            continue;
        CHECK(rows[i].name, plan.snd_request_bytes >= rows[i].least &&
                                plan.snd_request_bytes <= rows[i].most);
        CHECK_EQUAL(rows[i].name, (plan.flags & AUTOBUF_PLAN_SND_UNLOCK) != 0, rows[i].most == 0);
        CHECK_EQUAL(rows[i].name, plan.rcv_request_bytes, 0);
        /* never more than twice of what there was */
        CHECK(rows[i].name, 2 * plan.snd_request_bytes <= 2 * rows[i].snd_buf + 16);
    }
}

/* Until the effect of a change can be seen nothing more is changed. */
static void a_change_is_waited_for(void **state)
{
    struct autobuf_limits limits = host_older;
    struct ab_sample sample = buffer_limited(1000 * MS);
    struct autobuf_plan plan;
    struct ab_judge judge;
    uint64_t begun_ns;
    bool acts = false;
    const char *why;

    (void)state;
    limits.flags |= AUTOBUF_LIMITS_FORCE;
    ab_judge_begin(&judge, 0, &limits);
    assert_true(acts_at(&judge, &sample, &plan));
    sample.info.unacked_packets = 2660; /* at once, and acknowledged a round trip later */
    sample.queued_bytes = 4200000;
    sample.socket.snd_buf_bytes = 2 * plan.snd_request_bytes;
    for (begun_ns = sample.now_ns; !acts;
         sample.info.acked_bytes += sample.now_ns - begun_ns <= 100 * MS ? 700000 : 963000) {
        sample.now_ns += 25 * MS;
        acts = ab_judge_sample(&judge, &sample, &plan, &why);
    }
    assert_in_range(sample.now_ns - begun_ns, 200 * MS, 275 * MS);
}

/* A judge that may force, and a connection whose buffer is so large, and full. */
static struct ab_sample begun_forced(struct ab_judge *judge, uint64_t snd_buf_bytes)
{
    struct autobuf_limits limits = host_6_18;
    struct ab_sample sample = buffer_limited(1000 * MS);

    limits.flags |= AUTOBUF_LIMITS_FORCE;
    sample.socket.locks = AUTOBUF_LOCK_SND;
    sample.socket.snd_buf_bytes = sample.queued_bytes = snd_buf_bytes;
    sample.info.cwnd_packets = 20000;
    sample.info.peer_window_bytes = 32000000;
    ab_judge_begin(judge, 0, &limits);
    return sample;
}

/* A forced step to twice the product is taken back as far as it only lengthened the queue. */
static void what_was_forced_and_only_queues_is_taken_back(void **state)
{
    static const struct {
        const char *name;
        uint64_t rtt_ms, flight_bytes, acked; /* acked: in 100 ms */
        uint32_t cwnd;
        uint64_t peer_window;
        uint64_t low_bytes, high_bytes;       /* stored, that it comes to; 0: nothing is done */
    } rows[] = {
        {"700 Mbit/s x 100 ms, a poll()ing writer", 133, 11100000, 7200000, 20000, 32000000, 14500000, 14600000},
        {"one that keeps it full", 180, 16000000, 8700000, 20000, 32000000, 12200000, 12400000},
        {"congestion control has come up to it", 133, 11100000, 7200000, 7700, 32000000, 14500000, 14600000},
        {"so has the peer's window", 133, 11100000, 7200000, 20000, 11500000, 14500000, 14600000},
        {"no less than before", 183, 16000000, 3000000, 20000, 32000000, 8388608, 8388608},
        {"nothing moves any more: its rate is not the path's", 183, 11100000, 0, 20000, 32000000, 0, 0},
        {"a fifth longer is not much of a queue", 120, 11100000, 7200000, 20000, 32000000, 0, 0},
        {"the path holds it", 120, 11100000, 9200000, 20000, 32000000, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan plan;
        struct ab_judge judge;
        struct ab_sample sample = begun_forced(&judge, 8388608);
        const char *why;
        uint64_t acked;
        bool acts = false;

        CHECK(rows[i].name, acts_at(&judge, &sample, &plan));
        CHECK(rows[i].name, plan.flags & AUTOBUF_PLAN_SND_FORCE);
        CHECK(rows[i].name, plan.snd_request_bytes <= 8388608);
        ab_judge_forced(&judge, 8388608);
        sample.socket.snd_buf_bytes = sample.queued_bytes = 16777216;
        sample.info.unacked_packets = (uint32_t)(rows[i].flight_bytes / MSS);
        sample.info.cwnd_packets = rows[i].cwnd;
        sample.info.peer_window_bytes = rows[i].peer_window;
        acked = sample.info.acked_bytes;
        for (unsigned ticks = 0; ticks < 6 && !acts; ticks++) {
            sample.now_ns += rows[i].rtt_ms * MS;
            sample.info.rtt_ns = (ticks < 3 ? 120 : rows[i].rtt_ms) * MS; /* the queue takes its time */
            sample.info.acked_bytes = acked += rows[i].acked * rows[i].rtt_ms / 100;
            acts = ab_judge_sample(&judge, &sample, &plan, &why);
        }
        CHECK_EQUAL(rows[i].name, acts, rows[i].low_bytes > 0);
        CHECK(rows[i].name, !acts || (2 * plan.snd_request_bytes + 1 >= rows[i].low_bytes &&
                                      2 * plan.snd_request_bytes <= rows[i].high_bytes));
    }
}

/* 400 Mbit/s x 100 ms: slow start comes to the queue in the midst of a round trip, so less has moved in that one. */
static void slow_start_shows_less_than_the_path(void **state)
{
    static const struct {
        uint64_t rtt_ms, mbit;
        bool acts;
    } samples[] = {{101, 150, false}, {105, 207, false}, {166, 305, false}, {105, 386, false}, {166, 305, false},
                 {166, 386, true}};
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample = begun_forced(&judge, 9800000);
    const char *why;

    (void)state;
    sample.queued_bytes = 6500000;
    sample.info.unacked_packets = 8500000 / MSS;
    sample.info.cwnd_packets = 8500000 / MSS;
    assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
    sample.info.rtt_ns = 166 * MS;
    ab_judge_forced(&judge, 4194304);
    for (size_t i = 0; i < COUNT(samples); i++) {
        sample.now_ns += samples[i].rtt_ms * MS;
        sample.info.rtt_ns = samples[i].rtt_ms * MS;
        sample.info.acked_bytes += samples[i].mbit * 125 * samples[i].rtt_ms;
        assert_int_equal(ab_judge_sample(&judge, &sample, &plan, &why), samples[i].acts);
    }
    /* 1.35 products of 386 Mbit/s, of 8.5 MB that are in flight */
    assert_in_range(2 * plan.snd_request_bytes, 7450000, 7550000);
    ab_judge_forced(&judge, 4194304); /* larger again: what stood before says nothing */
    for (unsigned i = 0; i < 2; i++) {
        sample.now_ns += 166 * MS;
        sample.info.acked_bytes += 305UL * 125 * 166;
        assert_int_equal(ab_judge_sample(&judge, &sample, &plan, &why), i == 1);
    }
}

/* A buffer that carries next to nothing becomes no smaller than a kernel keeps it. */
static void what_is_taken_back_has_a_least_size(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample = begun_forced(&judge, 30000);

    (void)state;
    sample.info.rtt_ns = 140 * MS;
    sample.info.unacked_packets = 10;
    sample.info.cwnd_packets = 10;
    ab_judge_forced(&judge, 3); /* nobody's kernel has had it so small */
    for (unsigned i = 0; i < 3; i++) {
        const char *why;

        sample.now_ns += 140 * MS;
        sample.info.acked_bytes += 100;
        assert_int_equal(ab_judge_sample(&judge, &sample, &plan, &why), i == 2);
    }
    assert_int_equal(plan.flags, 0); /* anybody may set that */
    assert_int_equal(2 * plan.snd_request_bytes, 4096);
}

/* A forced step that stood in the queue, and was taken back. */
static struct ab_sample taken_back(struct ab_judge *judge)
{
    struct ab_sample sample = begun_forced(judge, 16777216);
    struct autobuf_plan plan;

    sample.info.rtt_ns = 140 * MS;
    sample.info.unacked_packets = 11100000 / MSS;
    ab_judge_forced(judge, 8388608);
    for (unsigned i = 0; i < 3; i++) {
        const char *why;

        sample.now_ns += 140 * MS;
        sample.info.acked_bytes += 140 * 72000;
        assert_int_equal(ab_judge_sample(judge, &sample, &plan, &why), i == 2);
    }
    assert_int_equal(plan.flags, AUTOBUF_PLAN_SND_FORCE);
    sample.socket.snd_buf_bytes = sample.queued_bytes = 2 * plan.snd_request_bytes;
    return sample;
}

/* 1000 Mbit/s become 100: what was forced for the one stands in the other's queue, and is taken back step by step. */
static void a_path_that_becomes_slower(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample = begun_forced(&judge, 22600000);
    const char *why;

    (void)state;
    ab_judge_forced(&judge, 8388608);
    ab_judge_forced(&judge, 12000000);
    for (unsigned i = 0; i < 40; i++) {
        uint64_t flight = sample.socket.snd_buf_bytes / 3 * 2;

        sample.queued_bytes = sample.socket.snd_buf_bytes;
        sample.info.unacked_packets = (uint32_t)(flight / MSS);
        sample.info.rtt_ns = ab_max(flight / 12500 * MS, 100 * MS);
        sample.now_ns += sample.info.rtt_ns;
        sample.info.acked_bytes += sample.info.rtt_ns / MS * 12500;
        if (ab_judge_sample(&judge, &sample, &plan, &why) && plan.snd_request_bytes)
            sample.socket.snd_buf_bytes = 2 * plan.snd_request_bytes;
    }
    assert_in_range(sample.socket.snd_buf_bytes, 8388606, 8388608); /* what it was before all of that */
}

/*
 * If the buffer is still full in a long round trip, it may be bursts. If it limits without a queue, it is enlarged
 * again after a rest.
 */
static void what_was_taken_back_is_done_with(void **state)
{
    struct autobuf_plan plan;
    struct ab_judge judge;
    struct ab_sample sample;

    (void)state;
    sample = taken_back(&judge);
    assert_in_range(acts_after_ms(&judge, &sample, 72000, &plan), 100, 300);
    assert_true(sets_a_pace(&plan));

    sample = taken_back(&judge);
    sample.info.rtt_ns = 101 * MS;
    sample.info.unacked_packets = 7200000 / MSS;
    assert_in_range(acts_after_ms(&judge, &sample, 72000, &plan), 600, 900);
    assert_true(plan.snd_request_bytes > sample.socket.snd_buf_bytes / 2);
}

/* For low delay the pace rises while no queue stands, but not because a program sends little. */
static void a_pace_rises_if_it_is_the_limit(void **state)
{
    (void)state;
    for (unsigned sends_little = 0; sends_little < 2; sends_little++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        sample.info.rtt_ns = 100 * MS;
        sample.info.unacked_packets = sends_little ? 10 : sample.info.cwnd_packets;
        sample.queued_bytes = sends_little ? 20000 : sample.queued_bytes;
        ab_judge_begin(&judge, AUTOBUF_INTENT_LOW_DELAY, &host_6_18);
        judge.pace.byte_per_s = 30000000;
        for (unsigned i = 0; i < 20; i++) {
            sample.now_ns += 50 * MS;
            sample.info.acked_bytes += 50 * 28000;
            if (ab_judge_sample(&judge, &sample, &plan, &why))
                break;
            assert_true(i < 19 || sends_little);
        }
        assert_int_equal(ab_judge_bottleneck(&judge),
                         sends_little ? AUTOBUF_BOTTLENECK_SENDER : AUTOBUF_BOTTLENECK_PATH);
        if (!sends_little)
            assert_in_range(plan.snd_pacing_bit_per_s, 8 * 30000001, 8 * 34000000);
        else
            assert_int_equal(sample.now_ns, 2000 * MS); /* it has acted at no look */
    }
}

/* What is sent is paced from the second sample on; what is received is in slow start, which is the peer's own. */
static void a_scavenger_is_paced(void **state)
{
    (void)state;
    for (unsigned receives = 0; receives < 2; receives++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        sample.info.rtt_ns = 100 * MS;
        ab_judge_begin(&judge, AUTOBUF_INTENT_SCAVENGER, &host_6_18);
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        sample.now_ns += 50 * MS;
        sample.info.acked_bytes += 50 * 28000;
        sample.info.received_bytes += receives * 10000000;
        assert_int_equal(ab_judge_sample(&judge, &sample, &plan, &why), !receives);
        if (!receives)
            assert_int_equal(plan.snd_pacing_bit_per_s, 2 * 8 * 28000000ULL);
    }
}

/* A pace from when it sent is removed, for what it sends now is what asks for more. */
static void a_scavenger_that_receives_paces_nothing(void **state)
{
    static const struct {
        uint64_t acked, received; /* bytes in 50 ms */
        bool ends;
    } rows[] = {{1000, 500000, true}, {62000, 500000, true}, {63000, 500000, false}, {500000, 1000, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        unsigned ended = 0;
        const char *why;

        sample.info.rtt_ns = 100 * MS;
        ab_judge_begin(&judge, AUTOBUF_INTENT_SCAVENGER, &host_6_18);
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        sample.now_ns += 50 * MS;
        sample.info.acked_bytes += 1000;
        assert_true(ab_judge_sample(&judge, &sample, &plan, &why));
        for (unsigned j = 0; j < 6; j++) {
            sample.now_ns += 50 * MS;
            sample.info.acked_bytes += rows[i].acked;
            sample.info.received_bytes += rows[i].received;
            ended += ab_judge_sample(&judge, &sample, &plan, &why) && plan.snd_pacing_bit_per_s == UINT64_MAX;
        }
        assert_int_equal(ended, rows[i].ends); /* once */
    }
}

/* Takes in samples of a receiver, each with this RTT. Returns the clamp that the last one plans; 0: none. */
static uint64_t receives_at(struct ab_judge *judge, struct ab_sample *sample, unsigned rtt_ms, unsigned samples)
{
    struct autobuf_plan plan = {0};
    const char *why;
    bool acts = false;

    for (; samples > 0; samples--) {
        sample->now_ns += 50 * MS;
        sample->info.rcv_rtt_ns = rtt_ms * MS;
        sample->info.received_bytes += 50 * 10000; /* 10 MB/s */
        acts = ab_judge_sample(judge, sample, &plan, &why);
    }
    assert_int_equal(plan.snd_pacing_bit_per_s | plan.rcv_request_bytes, 0);
    return acts ? plan.rcv_clamp_bytes : 0;
}

static void a_scavenger_s_peer_is_held_by_the_window(void **state)
{
    static const struct {
        const char *name;
        uint32_t intent, limits;
        bool unstamped, holds;
    } rows[] = {
        {.name = "held", .holds = true},
        {.name = "no timestamps", .unstamped = true},
        {.name = "before Linux 5.15", .limits = AUTOBUF_LIMITS_NO_UNLOCK},
        {.name = "only what is sent", .intent = AUTOBUF_INTENT_SENDS},
        {.name = "only what is received", .intent = AUTOBUF_INTENT_RECEIVES, .holds = true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = {.now_ns = 1000 * MS, .socket = AUTOBUF_SOCKET_INIT};
        struct autobuf_limits limits = host_6_18;
        uint64_t paused, resumed;
        struct ab_judge judge;

        sample.info = (struct ab_tcpinfo){.state = AB_TCP_ESTABLISHED, .rtt_ns = 100 * MS, .rtt_min_ns = 100 * MS,
                                          .mss_bytes = 1448, .rcv_mss_bytes = 1448, .stamped = !rows[i].unstamped};
        limits.flags |= rows[i].limits;
        ab_judge_begin(&judge, AUTOBUF_INTENT_SCAVENGER | rows[i].intent, &limits);
        CHECK_EQUAL(rows[i].name, receives_at(&judge, &sample, 100, 8), 0); /* slow start */
        paused = receives_at(&judge, &sample, 130, 2);
        CHECK_EQUAL(rows[i].name, ab_judge_next_ns(&judge) - sample.now_ns, 65 * MS); /* two in a round trip */
        resumed = receives_at(&judge, &sample, 100, 7);
        if (!rows[i].holds) {
            CHECK_EQUAL(rows[i].name, paused + resumed, 0);
            continue;
        }
        CHECK(rows[i].name, paused >= 250000 && paused <= 255000); /* a quarter of what arrives in 100 ms */
        CHECK(rows[i].name, resumed >= 980000 && resumed <= 985000);
        for (unsigned sent = 15; sent < 17; sent++) { /* what was on its way fills a window that has become smaller */
            struct ab_judge other = judge;
            struct ab_sample later = sample;
            uint64_t window;

            later.info.delivered_packets = sent;
            receives_at(&other, &later, 20, 2);
            window = receives_at(&other, &later, 100, 4);
            CHECK_EQUAL(rows[i].name, window >= resumed / 50 * 49, sent == 16);
        }
        sample.now_ns = 500 * MS; /* the clock has jumped: the window stays until there is another */
        receives_at(&judge, &sample, 100, 1);
        CHECK(rows[i].name, receives_at(&judge, &sample, 100, 1) > 0);
    }
}

/* A short queue is no reason to send less than the path carries. */
static void low_delay_enlarges_the_send_buffer_too(void **state)
{
    struct ab_sample sample = buffer_limited(1000 * MS);
    struct autobuf_plan plan;
    struct ab_judge judge;

    (void)state;
    ab_judge_begin(&judge, AUTOBUF_INTENT_LOW_DELAY, &host_6_18);
    assert_true(acts_at(&judge, &sample, &plan));
    assert_int_equal(plan.snd_request_bytes, 2936012);
    assert_int_equal(plan.snd_pacing_bit_per_s, 0);
    sample.info.rtt_ns = 112 * MS; /* there is a queue already */
    ab_judge_begin(&judge, AUTOBUF_INTENT_LOW_DELAY, &host_6_18);
    assert_false(acts_at(&judge, &sample, &plan));
    sample.info.acked_bytes = 500; /* what a peer sends cannot be paced from here */
    sample.info.received_bytes = 10000000;
    sample.socket.locks = AUTOBUF_LOCK_RCV;
    sample.socket.rcv_buf_bytes = 20000;
    ab_judge_begin(&judge, AUTOBUF_INTENT_LOW_DELAY, &host_6_18);
    assert_false(acts_at(&judge, &sample, &plan));
}

static void the_receive_side(void **state)
{
    static const struct {
        const char *name;
        uint32_t locks;
        uint64_t rcv_buf, window_max, received; /* in 100 ms */
        bool acts, unlocks;
        uint64_t unread;
    } rows[] = {
        {"a small buffer that was set: given back", AUTOBUF_LOCK_RCV, 200000, 65535 << 10, 95000,
         true, true, 0},
        {"a small buffer with room ahead of what arrives", AUTOBUF_LOCK_RCV, 200000, 65535 << 10, 49000, false,
         false, 0},
        {"half of it arrives, of which slow start makes all", AUTOBUF_LOCK_RCV, 200000, 65535 << 10, 51000, true, true,
         0},
        {"autotuning is nearly there, and may not go on", 0, 32000000, 65535 << 10, 15500000, false, false, 0},
        {"autotuning is at it", 0, 200000, 65535 << 10, 95000, false, false, 0},
        {"the window scale is all used", AUTOBUF_LOCK_RCV, 200000, 65535, 64000, false, false, 0},
        {"data wait to be read", AUTOBUF_LOCK_RCV, 200000, 65535 << 10, 95000, false, false, 50000},
        {"hardly any wait", AUTOBUF_LOCK_RCV, 200000, 65535 << 10, 95000, true, true, 49000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        sample.info.acked_bytes = 500;
        sample.info.received_bytes = 10000000;
        sample.socket.locks = rows[i].locks;
        sample.socket.rcv_buf_bytes = rows[i].rcv_buf;
        sample.socket.rcv_window_max_bytes = rows[i].window_max;
        sample.unread_bytes = rows[i].unread;
        ab_judge_begin(&judge, 0, &host_6_18);
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        sample.now_ns += 100 * MS;
        sample.info.received_bytes += rows[i].received;
        CHECK_EQUAL(rows[i].name, ab_judge_sample(&judge, &sample, &plan, &why), rows[i].acts);
        if (!rows[i].acts)
            continue;
        CHECK_EQUAL(rows[i].name, (plan.flags & AUTOBUF_PLAN_RCV_UNLOCK) != 0, rows[i].unlocks);
        CHECK(rows[i].name, plan.rcv_clamp_bytes > 0 && plan.snd_request_bytes == 0);
    }
}

/* The intent may name one direction: the other side is as the program has made it. */
static void a_side_that_is_left_alone(void **state)
{
    static const struct {
        const char *name;
        uint32_t intent;
        bool sends, receives; /* what is done for a connection that sends, and for one that receives */
    } rows[] = {
        {"both", AUTOBUF_INTENT_THROUGHPUT, true, true},
        {"both, named", AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES, true, true},
        {"sends", AUTOBUF_INTENT_SENDS, true, false},
        {"receives", AUTOBUF_INTENT_RECEIVES, false, true},
        {"receives, low delay", AUTOBUF_INTENT_RECEIVES | AUTOBUF_INTENT_LOW_DELAY, false, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        ab_judge_begin(&judge, rows[i].intent, &host_6_18);
        CHECK_EQUAL(rows[i].name, acts_at(&judge, &sample, &plan), rows[i].sends);
        sample = buffer_limited(1000 * MS);
        sample.info.rtt_ns = 125 * MS; /* bursts, or a queue */
        ab_judge_begin(&judge, rows[i].intent, &host_6_18);
        CHECK_EQUAL(rows[i].name, acts_at(&judge, &sample, &plan), rows[i].sends);
        sample = buffer_limited(1000 * MS);
        sample.info.acked_bytes = 500;
        sample.socket.locks = AUTOBUF_LOCK_RCV;
        sample.socket.rcv_buf_bytes = 200000;
        ab_judge_begin(&judge, rows[i].intent, &host_6_18);
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        sample.now_ns += 100 * MS;
        sample.info.received_bytes += 95000;
        CHECK_EQUAL(rows[i].name, ab_judge_sample(&judge, &sample, &plan, &why), rows[i].receives);
    }
}

/* Nor is it paced, whatever moves on it: nothing at all, or data on a path that is three times as long as at first. */
static void who_only_receives_is_not_paced(void **state)
{
    static const uint32_t intents[] = {AUTOBUF_INTENT_LOW_DELAY, AUTOBUF_INTENT_SCAVENGER};

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(intents); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        ab_judge_begin(&judge, intents[i / 2] | AUTOBUF_INTENT_RECEIVES, &host_6_18);
        for (unsigned j = 0; j < 20; j++) {
            assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
            sample.now_ns += 100 * MS;
            sample.info.rtt_ns = 300 * MS;
            sample.info.acked_bytes += i % 2 ? 1000000 : 0;
        }
    }
}

/*
 * It writes when a third of its buffer is free: twice in a round trip of 100 ms, after 33 and 67 ms, and is sampled
 * only then. TCP's RTT holds the queue of its own bursts. As on 400 Mbit/s x 100 ms, Linux 7.3.
 */
static void a_writer_that_wakes_twice_in_a_round_trip(void **state)
{
    struct ab_sample sample = buffer_limited(1000 * MS);
    struct autobuf_plan plan;
    struct ab_judge judge;
    const char *why;
    bool acts = false;

    (void)state;
    ab_judge_begin(&judge, AUTOBUF_INTENT_THROUGHPUT, &host_6_18);
    sample.info.unacked_packets = 2850000 / MSS;
    for (unsigned i = 0; i < 40 && !acts; i++) {
        sample.info.rtt_ns = (i % 2 ? 104 : 101) * MS + MS / 2;
        acts = ab_judge_sample(&judge, &sample, &plan, &why);
        sample.now_ns += (i % 2 ? 33 : 67) * MS;
        sample.info.acked_bytes += 1425000;
        sample.info.sndbuf_limited_ns += (i % 2 ? 33 : 67) * MS;
    }
    assert_true(acts);
    assert_string_equal(why, "the send buffer is what limits");
    assert_true(plan.snd_request_bytes > 0);
}

/* An accepted connection whose SYN-ACK was repeated, without timestamps: TCP has only the receiver's RTT. */
static void a_receiver_of_which_tcp_has_no_rtt(void **state)
{
    struct ab_sample sample = buffer_limited(1000 * MS);
    struct autobuf_plan plan;
    struct ab_judge judge;
    const char *why;

    (void)state;
    sample.info.acked_bytes = sample.info.rtt_ns = sample.info.rtt_min_ns = 0;
    sample.info.rcv_rtt_ns = 100 * MS;
    sample.socket.locks = AUTOBUF_LOCK_RCV;
    sample.socket.rcv_buf_bytes = 200000;
    ab_judge_begin(&judge, 0, &host_6_18);
    assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
    sample.now_ns += 100 * MS;
    sample.info.received_bytes += 95000;
    assert_true(ab_judge_sample(&judge, &sample, &plan, &why));
    assert_true(judge.rtt_min_ns == 100 * MS && ab_judge_next_ns(&judge) - sample.now_ns >= 20 * MS);
}

/* The kernel forgets its minimum RTT. Once a buffer is larger, its queue must not pass for the path. */
static void a_minimum_that_the_kernel_forgets(void **state)
{
    struct ab_sample sample = buffer_limited(1000 * MS);
    struct autobuf_plan plan;
    struct ab_judge judge;
    const char *why;

    (void)state;
    ab_judge_begin(&judge, 0, &host_6_18);
    for (unsigned enlarged = 0; enlarged < 2; enlarged++) {
        judge.set.state = enlarged ? AB_JUDGE_ENLARGED : AB_JUDGE_OBSERVE;
        for (unsigned rtt_ms = 100; rtt_ms <= 140; rtt_ms += 20) {
            sample.now_ns += 200 * MS;
            sample.info.rtt_ns = sample.info.rtt_min_ns = rtt_ms * MS;
            (void)ab_judge_sample(&judge, &sample, &plan, &why);
        }
        assert_int_equal(judge.rtt_min_ns, (enlarged ? 100 : 140) * MS);
    }
}

/* At the first look at which its program reads what arrives: a larger one only admits. */
static void a_receive_buffer_limits_at_one_look(void **state)
{
    static const struct {
        unsigned every_ms;
        const char *unread; /* at each look */
        bool acts;          /* at the last one */
    } rows[] = {{100, "n", true}, {100, "u", false}, {100, "un", true}, {100, "uuu", false}, {1000, "n", true}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        sample.info.acked_bytes = 500;
        sample.info.rtt_ns = 100 * MS;
        sample.socket.locks = AUTOBUF_LOCK_RCV;
        sample.socket.rcv_buf_bytes = 200000;
        ab_judge_begin(&judge, 0, &host_6_18);
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        for (const char *at = rows[i].unread; *at; at++) {
            bool reads = *at == 'n';

            sample.now_ns += rows[i].every_ms * MS;
            sample.info.received_bytes += rows[i].every_ms * 950ULL;
            sample.unread_bytes = reads ? 0 : 100000;
            CHECK_EQUAL(rows[i].unread, ab_judge_sample(&judge, &sample, &plan, &why), rows[i].acts && !at[1]);
            CHECK_EQUAL(rows[i].unread, ab_judge_bottleneck(&judge),
                        reads ? AUTOBUF_BOTTLENECK_RCV_BUFFER : AUTOBUF_BOTTLENECK_RECEIVER);
            CHECK_EQUAL(rows[i].unread, ab_judge_short_side(&judge), reads ? AUTOBUF_LOCK_RCV : 0);
        }
    }
}

/* Where nothing can be set, it is short from the second look on at which it limits, and only while it does. */
static void a_send_buffer_limits_for_some_looks(void **state)
{
    static const uint32_t sides[] = {0, 0, AUTOBUF_LOCK_SND, AUTOBUF_LOCK_SND, 0};
    struct autobuf_plan plan;
    struct ab_judge judge;
    const char *why;

    (void)state;
    ab_judge_begin(&judge, 0, &host_older);
    for (unsigned i = 0; i < COUNT(sides); i++) {
        struct ab_sample sample = buffer_limited((1000 + i * 100) * MS);

        if (i == 4)
            sample.info.cwnd_packets = sample.info.unacked_packets;
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        assert_int_equal(ab_judge_short_side(&judge), sides[i]);
    }
}

/* A queue of what was sent in the last round trip cannot show yet. */
static void a_window_that_still_grows(void **state)
{
    static const struct {
        uint32_t before_packets; /* in flight a round trip ago, and 1900 now */
        bool acts;
    } rows[] = {{950, false}, {1400, false}, {1500, true}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan plan;
        struct ab_judge judge;
        bool acts = false;
        const char *why;

        ab_judge_begin(&judge, 0, &host_6_18);
        for (unsigned j = 0; j < 7; j++) {
            struct ab_sample sample = buffer_limited(1000 * MS + j * 25 * MS);

            sample.info.rtt_ns = 100 * MS;
            sample.info.unacked_packets = j < 3 ? rows[i].before_packets : 1900;
            sample.queued_bytes = j < 3 ? 2000000 : 3000000;
            acts |= ab_judge_sample(&judge, &sample, &plan, &why);
        }
        assert_int_equal(acts, rows[i].acts);
    }
}

/* Its smoothed round-trip time is that of its request, however long ago, and may be far above the least. */
static void a_receiver_looks_once_in_a_least_round_trip(void **state)
{
    static const struct {
        uint64_t received, next_ms; /* received: in 100 ms, of a window of 500,000 */
    } rows[] = {{95000, 100}, {120000, 100}, {130000, 25}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        sample.info.rtt_ns = 190 * MS;
        sample.info.acked_bytes = 500;
        sample.info.received_bytes = 10000000;
        sample.socket.locks = AUTOBUF_LOCK_RCV;
        sample.socket.rcv_buf_bytes = 1000000;
        ab_judge_begin(&judge, 0, &host_6_18);
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        for (unsigned j = 0; j < 3; j++) {
            sample.now_ns += 100 * MS;
            sample.info.received_bytes += rows[i].received;
            assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
            assert_int_equal(ab_judge_round_bytes(&judge), rows[i].received); /* over no longer than that */
            assert_int_equal(next_ms(&judge, &sample), rows[i].next_ms);
        }
        sample.info.acked_bytes += 20000000; /* now it is the one that sends, a little */
        sample.info.unacked_packets = 10;
        sample.queued_bytes = 20000;
        sample.now_ns = ab_judge_next_ns(&judge);
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        assert_int_equal(next_ms(&judge, &sample), 190);
    }
}

/* A program that was paused is not idle: it could have what waits for it. */
static void nothing_moves(void **state)
{
    (void)state;
    for (unsigned unread = 0; unread < 2; unread++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        sample.unread_bytes = unread * 100000;
        sample.info.unacked_packets = 0;
        sample.queued_bytes = sample.info.notsent_bytes = 0;
        ab_judge_begin(&judge, 0, &host_6_18);
        for (unsigned i = 0; i < 5; i++) {
            assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
            sample.now_ns += 100 * MS;
        }
        assert_int_equal(ab_judge_bottleneck(&judge), unread ? AUTOBUF_BOTTLENECK_RECEIVER : AUTOBUF_BOTTLENECK_IDLE);
    }
}

/* Data are lost again and again: that is said, and no window is enlarged, paced or made smaller for it. */
static void a_stalled_sender_is_left_alone(void **state)
{
    (void)state;
    for (unsigned low_delay = 0; low_delay < 2; low_delay++) {
        struct ab_sample sample = buffer_limited(1000 * MS);
        struct autobuf_plan plan;
        struct ab_judge judge;
        const char *why;

        ab_judge_begin(&judge, low_delay ? AUTOBUF_INTENT_LOW_DELAY : 0, &host_6_18);
        for (unsigned i = 0; i < 40; i++) {
            assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
            assert_int_equal(ab_judge_bottleneck(&judge), i ? AUTOBUF_BOTTLENECK_STALLED : AUTOBUF_BOTTLENECK_UNKNOWN);
            sample.now_ns += 100 * MS;
            sample.info.retransmits = (uint8_t)(1 + i / 10);
            sample.info.cwnd_packets = 1;
        }
        sample.info.retransmits = 0;
        sample.info.cwnd_packets = 4000;
        sample.info.acked_bytes += 2800000;
        (void)ab_judge_sample(&judge, &sample, &plan, &why);
        assert_int_equal(ab_judge_bottleneck(&judge), AUTOBUF_BOTTLENECK_SND_BUFFER);
    }
}

/* Clocks that jump, and times of 0 and of an hour. What was known before counts no more after a jump back. */
static void strange_clocks(void **state)
{
    static const uint64_t times[] = {1000 * MS, 999 * MS, 1, 0, UINT64_MAX - 1, 1000 * MS};
    static const uint64_t rtts[] = {0, 1, 10000 * MS, UINT32_MAX * 1000ULL};

    (void)state;
    for (uint32_t intent = 0; intent < 2; intent++) {
        struct ab_judge judge;
        struct autobuf_plan plan;
        struct ab_sample sample;
        uint64_t last_ns = 0;

        ab_judge_begin(&judge, intent, &host_6_18);
        for (size_t i = 0; i < COUNT(times) * COUNT(rtts); i++) {
            bool back = i > 0 && times[i % COUNT(times)] <= last_ns;
            const char *why = NULL;
            bool acts, far;

            sample = buffer_limited(times[i % COUNT(times)]);
            sample.info.rtt_ns = rtts[i / COUNT(times)];
            sample.info.rtt_min_ns = rtts[(i + 1) % COUNT(rtts)];
            plan = (struct autobuf_plan)AUTOBUF_PLAN_INIT;
            acts = ab_judge_sample(&judge, &sample, &plan, &why);
            assert_int_equal(acts, why != NULL && (plan.snd_request_bytes || plan.snd_pacing_bit_per_s));
            assert_false(acts && (back || i == 0));
            last_ns = sample.now_ns;
            /* A pace needs two samples in a round trip, of 10 s, too. */
            far = intent && sample.info.rtt_ns >= 10000 * MS;
            assert_in_range(ab_judge_next_ns(&judge) - sample.now_ns, far ? 5 * AB_NS_PER_S : 10 * MS,
                            (intent ? 10 : 1) * AB_NS_PER_S);
        }
        sample = buffer_limited(500 * MS); /* and then it judges as ever */
        assert_true(acts_at(&judge, &sample, &plan));
        assert_int_equal(plan.snd_request_bytes, 2936012);
    }
}

/* Rates begin anew where the clock does, and nothing is waited for that was done before. */
static void a_clock_that_was_set_back(void **state)
{
    struct ab_sample sample = buffer_limited(1000 * MS);
    struct autobuf_plan plan;
    struct ab_judge judge;
    const char *why;

    (void)state;
    ab_judge_begin(&judge, 0, &host_6_18);
    assert_true(acts_at(&judge, &sample, &plan));
    sample.now_ns = 900 * MS;
    sample.info.acked_bytes += 1000000;
    assert_true(ab_judge_due(&judge, 900 * MS));
    assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
    assert_false(ab_judge_due(&judge, 1000 * MS));
    assert_true(ab_judge_due(&judge, 1001 * MS));
    for (unsigned i = 1; i <= 2; i++) { /* no more than a round trip old, so only the look after the jump is */
        sample.now_ns += 100 * MS;
        sample.info.acked_bytes += 2500000;
        assert_int_equal(ab_judge_sample(&judge, &sample, &plan, &why), i == 2);
        assert_int_equal(ab_judge_round_bytes(&judge), 2500000);
    }
}

/* A counter that runs backwards is another connection's: no rate, and nothing that is done. */
static void counters_that_run_backwards(void **state)
{
    struct ab_sample sample = buffer_limited(1000 * MS);
    struct autobuf_plan plan;
    struct ab_judge judge;
    const char *why;

    (void)state;
    ab_judge_begin(&judge, 0, &host_6_18);
    for (unsigned i = 0; i < 12; i++) {
        sample.now_ns += 101 * MS;
        sample.info.acked_bytes -= 1000;
        sample.info.received_bytes = UINT64_MAX - i;
        assert_false(ab_judge_sample(&judge, &sample, &plan, &why));
        assert_int_equal(ab_judge_round_bytes(&judge), 0);
        assert_int_equal(ab_judge_bottleneck(&judge), i ? AUTOBUF_BOTTLENECK_PATH : AUTOBUF_BOTTLENECK_UNKNOWN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_limits),
        cmocka_unit_test(a_queue_is_a_veto),
        cmocka_unit_test(a_buffer_that_runs_dry),
        cmocka_unit_test(bursts_are_spread),
        cmocka_unit_test(a_failed_trial_ends),
        cmocka_unit_test(what_is_not_done_is_asked_again),
        cmocka_unit_test(a_larger_buffer_that_is_not_done),
        cmocka_unit_test(a_second_trial_in_vain_ends),
        cmocka_unit_test(a_buffer_at_its_end_is_not_spread),
        cmocka_unit_test(the_spread_follows_buffer_and_path),
        cmocka_unit_test(the_pace_is_never_the_bottleneck),
        cmocka_unit_test(a_path_that_is_full_is_not_spread),
        cmocka_unit_test(samples_of_a_kind_before_bursts_are_spread),
        cmocka_unit_test(a_writer_that_is_late_for_a_third_of_its_buffer),
        cmocka_unit_test(a_pace_that_is_taken_away_is_not_set_again_soon),
        cmocka_unit_test(rare_samples_count_for_more),
        cmocka_unit_test(a_trial_in_vain_ends_in_as_many_round_trips),
        cmocka_unit_test(a_burst_that_fills_the_congestion_window),
        cmocka_unit_test(a_congestion_window_that_was_cut),
        cmocka_unit_test(bursts_are_told_by_the_least_round_trip_time),
        cmocka_unit_test(a_trial_is_waited_for_as_long_as_it_takes),
        cmocka_unit_test(a_trial_that_shows_a_queue),
        cmocka_unit_test(a_queue_of_what_is_spread_is_the_path_s),
        cmocka_unit_test(long_looks_of_another_clock),
        cmocka_unit_test(what_cannot_be_told_is_not_looked_at_more_often),
        cmocka_unit_test(when_the_next_sample_is_due),
        cmocka_unit_test(a_calm_path_is_sampled_less),
        cmocka_unit_test(pauses_at_equal_intervals_hide_nothing),
        cmocka_unit_test(rates_are_of_a_round_trip),
        cmocka_unit_test(the_send_buffer_grows_by_the_limits),
        cmocka_unit_test(a_change_is_waited_for),
        cmocka_unit_test(what_was_forced_and_only_queues_is_taken_back),
        cmocka_unit_test(slow_start_shows_less_than_the_path),
        cmocka_unit_test(what_is_taken_back_has_a_least_size),
        cmocka_unit_test(a_path_that_becomes_slower),
        cmocka_unit_test(what_was_taken_back_is_done_with),
        cmocka_unit_test(a_scavenger_is_paced),
        cmocka_unit_test(a_scavenger_that_receives_paces_nothing),
        cmocka_unit_test(a_scavenger_s_peer_is_held_by_the_window),
        cmocka_unit_test(low_delay_enlarges_the_send_buffer_too),
        cmocka_unit_test(a_pace_rises_if_it_is_the_limit),
        cmocka_unit_test(the_receive_side),
        cmocka_unit_test(a_side_that_is_left_alone),
        cmocka_unit_test(who_only_receives_is_not_paced),
        cmocka_unit_test(a_writer_that_wakes_twice_in_a_round_trip),
        cmocka_unit_test(a_receiver_of_which_tcp_has_no_rtt),
        cmocka_unit_test(a_minimum_that_the_kernel_forgets),
        cmocka_unit_test(a_receive_buffer_limits_at_one_look),
        cmocka_unit_test(a_send_buffer_limits_for_some_looks),
        cmocka_unit_test(a_window_that_still_grows),
        cmocka_unit_test(a_receiver_looks_once_in_a_least_round_trip),
        cmocka_unit_test(nothing_moves),
        cmocka_unit_test(a_stalled_sender_is_left_alone),
        cmocka_unit_test(strange_clocks),
        cmocka_unit_test(a_clock_that_was_set_back),
        cmocka_unit_test(counters_that_run_backwards),
    };

    return cmocka_run_group_tests_name("judge", tests, NULL, NULL);
}

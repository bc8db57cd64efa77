/* SPDX-License-Identifier: MIT */
/* The search by a program's own data, step by step. tests/sim/test_available_sim.c has packets and other traffic. */
#include "unit.h"

#include <string.h>

#include "available/inline.h"

#define MBIT 1000000ULL
#define MS AB_NS_PER_MS
#define RATE (20 * MBIT)  /* of the program */
#define WAITS 250000U     /* so much has to, for 100 ms of twice the rate */

static struct ab_inline in;

static struct ab_inline_sample sample_at(uint64_t now_ns, uint64_t rtt_ms)
{
    return (struct ab_inline_sample){.now_ns = now_ns, .rtt_ns = rtt_ms * MS, .rtt_min_ns = rtt_ms * MS,
                                     .rtt_deviation_ns = MS / 10, .room_bytes = UINT32_MAX};
}

static bool begin_at(uint64_t now_ns, uint64_t rtt_ms, uint64_t rate_bit_per_s)
{
    const struct autobuf_available passive = {.size = sizeof passive, .kind = AUTOBUF_KIND_AVAILABLE,
                                              .cause = AUTOBUF_CAUSE_PROGRAM, .tx_low_bit_per_s = rate_bit_per_s};
    struct ab_inline_sample sample = sample_at(now_ns, rtt_ms);

    return ab_inline_is_due(&in, &sample) && ab_inline_begin(&in, &sample, &passive, 0, 0);
}

/* The first call is at 1 s, at which the connection began. */
static void begin(uint64_t rtt_ms)
{
    memset(&in, 0, sizeof in);
    assert_false(begin_at(AB_NS_PER_S, rtt_ms, RATE));
    assert_true(begin_at(60 * AB_NS_PER_S, rtt_ms, RATE));
}

/* With so much waiting, and an RTT longer than the minimum by so much. Returns whether the pace has changed. */
static bool step(uint64_t now_ns, uint64_t rtt_ms, uint64_t more_us, uint64_t waiting_bytes, uint64_t delivered_bytes,
                 uint32_t resent)
{
    struct ab_inline_sample sample = sample_at(now_ns, rtt_ms);

    sample.rtt_ns += more_us * AB_NS_PER_US;
    sample.waiting_bytes = waiting_bytes;
    sample.delivered_bytes = delivered_bytes;
    sample.resent_packets = resent;
    return ab_inline_sample(&in, &sample);
}

/* Up to the stretch, which begins 10 ms after the search. Returns the time at which it does. */
static uint64_t begin_stretch(uint64_t rtt_ms)
{
    uint64_t now_ns = 60 * AB_NS_PER_S + 10 * MS;

    begin(rtt_ms);
    assert_true(step(now_ns, rtt_ms, 0, 10 * WAITS, 0, 0));
    assert_int_equal(in.state, AB_INLINE_SENDS);
    assert_int_equal(in.pace_bit_per_s, 2 * RATE);
    return now_ns;
}

static void it_rests(void **state)
{
    static const struct {
        const char *name;
        uint64_t rtt_ms, rate_bit_per_s, rest_ms;
    } rows[] = {
        {"10 s", 40, RATE, 10000},
        {"a fiftieth of two RTTs", 400, RATE, 40000},
        {"a fiftieth of 64 packets", 40, 2 * MBIT, 19200},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t due_ns = 5 * AB_NS_PER_S + rows[i].rest_ms * MS;

        memset(&in, 0, sizeof in);
        CHECK(rows[i].name, !begin_at(5 * AB_NS_PER_S, rows[i].rtt_ms, rows[i].rate_bit_per_s));
        CHECK(rows[i].name, !begin_at(due_ns - MS, rows[i].rtt_ms, rows[i].rate_bit_per_s));
        CHECK(rows[i].name, begin_at(due_ns, rows[i].rtt_ms, rows[i].rate_bit_per_s));
        for (unsigned failed = 1; failed < 8; failed++) { /* which it is told, at once */
            uint64_t rest_ns = rows[i].rest_ms * MS << ab_min(failed, 4);

            ab_inline_stop(&in, due_ns);
            CHECK_EQUAL(rows[i].name, in.pace_bit_per_s, 0);
            CHECK(rows[i].name, !begin_at(due_ns + rest_ns - MS, rows[i].rtt_ms, rows[i].rate_bit_per_s));
            due_ns += rest_ns;
            CHECK(rows[i].name, begin_at(due_ns, rows[i].rtt_ms, rows[i].rate_bit_per_s));
        }
    }
}

/* Only a program that leaves the path to others, and whose rate is known. */
static void who_is_searched(void **state)
{
    static const struct {
        const char *name;
        uint32_t cause;
        uint64_t low, capacity_high, room;
        uint64_t stretch;
    } rows[] = {
        {"a program that pauses", AUTOBUF_CAUSE_PROGRAM, RATE, 0, WAITS, 2 * RATE},
        {"the capacity is known", AUTOBUF_CAUSE_PROGRAM, RATE, 30 * MBIT, WAITS, 30 * MBIT},
        {"and is used up", AUTOBUF_CAUSE_PROGRAM, RATE, RATE, WAITS, 0},
        {"little room", AUTOBUF_CAUSE_PROGRAM, RATE, 0, WAITS / 10, 22 * MBIT},
        {"less room", AUTOBUF_CAUSE_PROGRAM, RATE, 0, WAITS / 10 - 1, 0},
        {"no rate", AUTOBUF_CAUSE_PROGRAM, 0, 0, WAITS, 0},
        {"a low one", AUTOBUF_CAUSE_PROGRAM, 1536000, 0, WAITS, 3072000},
        {"too low", AUTOBUF_CAUSE_PROGRAM, 1535000, 0, WAITS, 0},
        {"a sender that fills the path", AUTOBUF_CAUSE_NO_QUEUE, RATE, 0, WAITS, 0},
        {"both bounds are known", AUTOBUF_CAUSE_NONE, RATE, 0, WAITS, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct autobuf_available passive = {.size = sizeof passive, .cause = rows[i].cause,
                                                  .tx_low_bit_per_s = rows[i].low};
        struct ab_inline_sample sample = sample_at(60 * AB_NS_PER_S, 40);

        memset(&in, 0, sizeof in);
        sample.room_bytes = rows[i].room;
        assert_false(begin_at(AB_NS_PER_S, 40, RATE));
        CHECK_EQUAL(rows[i].name, ab_inline_begin(&in, &sample, &passive, 0, rows[i].capacity_high),
                    rows[i].stretch != 0);
        CHECK_EQUAL(rows[i].name, in.stretch_bit_per_s, rows[i].stretch);
        CHECK_EQUAL(rows[i].name, in.pace_bit_per_s, rows[i].stretch ? rows[i].low / 2 : 0);
    }
}

static void a_stretch_takes_two_rtts(void **state)
{
    static const struct {
        uint64_t rtt_ms, span_ms;
    } rows[] = {{1, 100}, {40, 100}, {200, 400}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t rtt_ms = rows[i].rtt_ms, span_ms = rows[i].span_ms;
        uint64_t waits = WAITS / 100 * span_ms, now_ns = 60 * AB_NS_PER_S + 10 * MS;

        begin(rtt_ms);
        assert_int_equal(ab_inline_next_ns(&in), now_ns);
        assert_false(step(now_ns, rtt_ms, 0, waits - 1, 0, 0));
        now_ns += 10 * MS;
        assert_int_equal(ab_inline_next_ns(&in), now_ns);
        assert_true(step(now_ns, rtt_ms, 0, waits, 0, 0));
        assert_int_equal(in.pace_bit_per_s, 2 * RATE);
        assert_false(step(now_ns + span_ms * MS - 1, rtt_ms, 0, waits, 0, 0));
        assert_true(step(now_ns + span_ms * MS, rtt_ms, 0, waits, 0, 0));
        assert_int_equal(in.state, AB_INLINE_LISTENS);
        assert_int_equal(in.pace_bit_per_s, 0);
    }
    assert_false(step(begin_stretch(40) + 10 * MS, 40, 0, 1, 0, 0));
    assert_true(step(in.sample_ns + 10 * MS, 40, 0, 0, 0, 0)); /* all was sent */
    assert_int_equal(in.state, AB_INLINE_LISTENS);
}

/* It is held back for 200 ms, in which it should write what is needed. If that waits not, the stretch is slower. */
static void a_program_that_stops(void **state)
{
    uint64_t since_ns = 60 * AB_NS_PER_S;

    (void)state;
    begin(40);
    assert_false(step(since_ns + 200 * MS - 1, 40, 0, WAITS / 2, 0, 0));
    assert_true(step(since_ns + 200 * MS, 40, 0, WAITS / 2, 0, 0));
    assert_int_equal(in.state, AB_INLINE_SENDS);
    assert_int_equal(in.pace_bit_per_s, 3 * RATE / 2);
    begin(40);
    assert_true(step(since_ns + 200 * MS, 40, 0, WAITS / 10, 0, 0));
    assert_int_equal(in.pace_bit_per_s, 22 * MBIT);
    begin(40);
    assert_true(step(since_ns + 200 * MS, 40, 0, WAITS / 10 - 1, 0, 0));
    assert_int_equal(in.state, AB_INLINE_RESTS);
    assert_int_equal(in.pace_bit_per_s, 0);
    assert_int_equal(in.failed, 1);
    assert_int_equal(in.found_ns, 0);
}

static void a_queue_ends_it(void **state)
{
    static const struct {
        uint64_t rtt_ms, most_us;
    } rows[] = {{1, 12500}, {40, 12500}, {200, 50000}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t rtt_ms = rows[i].rtt_ms, now_ns = begin_stretch(rtt_ms);

        assert_false(step(now_ns + 10 * MS, rtt_ms, rows[i].most_us, WAITS, 0, 0));
        assert_true(step(now_ns + 20 * MS, rtt_ms, rows[i].most_us + 1, WAITS, 0, 0));
        assert_int_equal(in.state, AB_INLINE_LISTENS);
    }
}

/* A loss ends a stretch, and the next one is slower; if there is time for one. */
static void it_ends(void **state)
{
    static const struct {
        uint64_t rtt_ms, most_ms;
    } rows[] = {{40, 2320}, {200, 3600}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t begin_ns = 60 * AB_NS_PER_S;

        begin_stretch(rows[i].rtt_ms);
        assert_true(step(begin_ns + rows[i].most_ms * MS - 1, rows[i].rtt_ms, 0, WAITS, 0, 1));
        assert_int_equal(in.state, AB_INLINE_HOLDS);
        assert_int_equal(in.pace_bit_per_s, RATE / 2);
        assert_in_range(in.stretch_bit_per_s, 29 * MBIT, 31 * MBIT);
        begin_stretch(rows[i].rtt_ms);
        assert_true(step(begin_ns + rows[i].most_ms * MS, rows[i].rtt_ms, 0, WAITS, 0, 1));
        assert_int_equal(in.state, AB_INLINE_RESTS);
        assert_int_equal(in.found_ns, 0);
    }
}

static void a_clock_that_jumps_ends_it(void **state)
{
    (void)state;
    (void)begin_stretch(40);
    in.search.high_bit_per_s = 2 * RATE; /* whatever was found before */
    assert_true(step(in.sends_ns - 20 * MS, 40, 0, WAITS, 0, 0));
    assert_int_equal(in.found_ns, 0);
    assert_int_equal(in.state, AB_INLINE_RESTS);
    assert_int_equal(in.pace_bit_per_s, 0);
}

/*
 * What comes back of a stretch from the beginning of which RTT_MS has passed: at so many Mbit/s, with an RTT that grows
 * by so much a second. Returns the time.
 */
static uint64_t listen_to(uint64_t mbit, uint64_t grows_us_per_s)
{
    const uint64_t rtt_ms = 40;
    uint64_t sends_ns = begin_stretch(rtt_ms), now_ns = sends_ns;

    for (unsigned i = 1; i <= 16 && in.state != AB_INLINE_RESTS && in.state != AB_INLINE_HOLDS; i++) {
        uint64_t stretch_ms = i > 4 ? 10 * i - 40 : 0;

        now_ns = sends_ns + (uint64_t)i * 10 * MS;
        (void)step(now_ns, rtt_ms, grows_us_per_s * stretch_ms / 1000, WAITS, mbit * 125 * stretch_ms, 0);
    }
    return now_ns;
}

static void what_is_free_is_found(void **state)
{
    struct autobuf_available shown = {.size = sizeof shown, .cause = AUTOBUF_CAUSE_PROGRAM, .tx_low_bit_per_s = RATE};
    uint64_t now_ns = listen_to(40, 0);

    (void)state;
    assert_int_equal(in.state, AB_INLINE_RESTS); /* twice the rate is free, and no more is tried */
    assert_int_equal(in.failed, 0);
    ab_inline_result(&in, now_ns + 5 * AB_NS_PER_S, &shown);
    assert_in_range(shown.tx_low_bit_per_s, 34 * MBIT, 40 * MBIT);
    assert_int_equal(shown.tx_high_bit_per_s, 0);
    assert_int_equal(shown.kind, AUTOBUF_KIND_AVAILABLE);
    assert_int_equal(shown.flags, AUTOBUF_AVAILABLE_TX_AT_LEAST);
    assert_int_equal(shown.age_ns, 5 * AB_NS_PER_S);
    assert_int_equal(shown.over_ns, now_ns - 60 * AB_NS_PER_S);

    /* Of 60, 20 are others': the RTT grows by 25% of the time, for a link of 48 that carries 38. */
    now_ns = listen_to(38, 100000);
    assert_int_equal(in.state, AB_INLINE_HOLDS); /* between what was free and that */
    assert_in_range(in.search.high_bit_per_s, 30 * MBIT, 45 * MBIT);
    assert_in_range(in.stretch_bit_per_s, RATE + 1, 40 * MBIT - 1);
}

static void what_was_found_grows_old(void **state)
{
    static const struct {
        const char *name;
        uint64_t age_ns;
        uint32_t cause;
        uint64_t low, high;
        bool told;
    } rows[] = {
        {"a minute", 60 * AB_NS_PER_S, AUTOBUF_CAUSE_PROGRAM, RATE, 0, true},
        {"longer", 60 * AB_NS_PER_S + 1, AUTOBUF_CAUSE_PROGRAM, RATE, 0, false},
        {"more came through since", 0, AUTOBUF_CAUSE_PROGRAM, 41 * MBIT, 0, false},
        {"the path was filled since", 0, AUTOBUF_CAUSE_NONE, RATE, 2 * RATE, false},
        {"it sends all that it may", 0, AUTOBUF_CAUSE_NO_QUEUE, RATE, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_available shown = {.size = sizeof shown, .cause = rows[i].cause,
                                          .tx_low_bit_per_s = rows[i].low, .tx_high_bit_per_s = rows[i].high};
        uint64_t now_ns = listen_to(40, 0) + rows[i].age_ns;

        ab_inline_result(&in, now_ns, &shown);
        CHECK_EQUAL(rows[i].name, shown.tx_low_bit_per_s > 30 * MBIT && shown.over_ns, rows[i].told);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_rests),
        cmocka_unit_test(who_is_searched),
        cmocka_unit_test(a_stretch_takes_two_rtts),
        cmocka_unit_test(a_program_that_stops),
        cmocka_unit_test(a_queue_ends_it),
        cmocka_unit_test(it_ends),
        cmocka_unit_test(a_clock_that_jumps_ends_it),
        cmocka_unit_test(what_is_free_is_found),
        cmocka_unit_test(what_was_found_grows_old),
    };

    return cmocka_run_group_tests_name("inline", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Stretches made by hand: a link and its queue as a fluid. tests/sim/test_stretch_sim.c has packets. */
#include "unit.h"

#include "available/stretch.h"

#define MBIT 1000000ULL
#define CHUNKS 200U
#define CHUNK_NS AB_NS_PER_MS

static struct ab_available room;

struct made {
    struct ab_chunk chunks[CHUNKS];
    size_t count;
};

/* One chunk in each millisecond, of so many Mbit/s, beside other traffic, over a link of 100 Mbit/s. */
static struct made made_of(double sends_mbit, double cross_mbit)
{
    struct made m = {.count = CHUNKS};
    double queue_ns = 0;

    for (size_t i = 0; i < CHUNKS; i++) {
        m.chunks[i] = (struct ab_chunk){.sent_ns = 77 * AB_NS_PER_S + i * CHUNK_NS,
                                        .arrived_ns = 5 * AB_NS_PER_MS + i * CHUNK_NS + (uint64_t)queue_ns,
                                        .bytes = (uint64_t)(sends_mbit * 125)};
        queue_ns += ((sends_mbit + cross_mbit) / 100 - 1) * (double)CHUNK_NS;
        queue_ns = queue_ns > 0 ? queue_ns : 0;
    }
    return m;
}

static struct autobuf_available estimate(const struct made *m, uint64_t until_ns, uint64_t pace_mbit)
{
    const struct ab_stretch how = {pace_mbit * MBIT, 100 * MBIT, 100 * MBIT};
    struct autobuf_available found;

    ab_stretch_estimate(&room, m->chunks, m->count, until_ns, &how, &found);
    assert_int_equal(found.size, sizeof found);
    return found;
}

static void a_rate_that_is_free(void **state)
{
    struct made m = made_of(50, 30);
    struct autobuf_available found = estimate(&m, AUTOBUF_NS_UNSET, 50);

    (void)state;
    assert_in_range(found.tx_low_bit_per_s, 47 * MBIT, 50 * MBIT);
    assert_int_equal(found.tx_high_bit_per_s, 0);
    assert_int_equal(found.cause, AUTOBUF_CAUSE_NO_QUEUE);
    assert_in_range(found.over_ns, 180 * AB_NS_PER_MS, 200 * AB_NS_PER_MS);
}

static void a_rate_that_is_too_much(void **state)
{
    struct made m = made_of(80, 60);
    struct autobuf_available found = estimate(&m, AUTOBUF_NS_UNSET, 80);

    (void)state;
    assert_in_range(found.tx_low_bit_per_s, 37 * MBIT, 40 * MBIT);
    assert_in_range(found.tx_high_bit_per_s, 40 * MBIT, 43 * MBIT);
    assert_int_equal(found.cause, AUTOBUF_CAUSE_NONE);
}

/* The capacity that is claimed would have carried all of it: not even zero is sure. */
static void bounds_that_are_both_unknown_have_a_cause(void **state)
{
    const struct ab_stretch how = {80 * MBIT, 900000 * MBIT, 900000 * MBIT};
    struct made m = made_of(80, 60);
    struct autobuf_available found;

    (void)state;
    ab_stretch_estimate(&room, m.chunks, m.count, AUTOBUF_NS_UNSET, &how, &found);
    assert_int_equal(found.tx_low_bit_per_s | found.tx_high_bit_per_s, 0);
    assert_int_equal(found.flags, 0);
    assert_int_equal(found.cause, AUTOBUF_CAUSE_SHORT);
}

static void what_was_sent_after_a_loss_does_not_count(void **state)
{
    struct made m = made_of(80, 60);

    (void)state;
    for (size_t i = 100; i < CHUNKS; i++) /* the queue is full */
        m.chunks[i].arrived_ns = m.chunks[99].arrived_ns + (i - 99) * CHUNK_NS;
    assert_true(estimate(&m, AUTOBUF_NS_UNSET, 80).tx_low_bit_per_s > 45 * MBIT);
    assert_in_range(estimate(&m, 99 * CHUNK_NS, 80).tx_low_bit_per_s, 36 * MBIT, 40 * MBIT);
    assert_int_equal(estimate(&m, 0, 80).cause, AUTOBUF_CAUSE_SHORT);
}

static void a_sender_that_is_slower_than_its_pace(void **state)
{
    struct made m = made_of(20, 30);

    (void)state;
    assert_int_equal(estimate(&m, AUTOBUF_NS_UNSET, 28).cause, AUTOBUF_CAUSE_PROGRAM);
    assert_int_equal(estimate(&m, AUTOBUF_NS_UNSET, 26).cause, AUTOBUF_CAUSE_NO_QUEUE);
}

/* What a peer may say of its times. */
static void times_that_cannot_be_show_nothing(void **state)
{
    static const uint64_t sent[][2] = {{10, 0}, {10, UINT64_MAX}, {CHUNKS - 1, 100 * AB_NS_PER_S}};

    (void)state;
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        struct made m = made_of(80, 60);
        struct autobuf_available found;

        m.chunks[sent[i][0]].sent_ns = sent[i][1];
        found = estimate(&m, AUTOBUF_NS_UNSET, 80);
        assert_int_equal(found.kind, AUTOBUF_KIND_NONE);
        assert_int_equal(found.cause, AUTOBUF_CAUSE_SHORT);
        assert_int_equal(found.tx_low_bit_per_s | found.tx_high_bit_per_s | found.over_ns, 0);
    }
}

/* All sent within a millisecond, and the capacity is wrong. */
static void times_that_make_it_fast_show_nothing(void **state)
{
    const struct ab_stretch how = {10 * MBIT, 10 * MBIT, 10 * MBIT};
    struct made m = made_of(50, 30);
    struct autobuf_available found;

    (void)state;
    ab_stretch_estimate(&room, m.chunks, m.count, AUTOBUF_NS_UNSET, &how, &found);
    assert_in_range(found.tx_low_bit_per_s, 47 * MBIT, 50 * MBIT);
    for (size_t i = 0; i < CHUNKS; i++)
        m.chunks[i].sent_ns = i * AB_NS_PER_MS / (CHUNKS - 1);
    ab_stretch_estimate(&room, m.chunks, m.count, AUTOBUF_NS_UNSET, &how, &found);
    assert_int_equal(found.kind, AUTOBUF_KIND_NONE);
    assert_int_equal(found.tx_low_bit_per_s | found.tx_high_bit_per_s, 0);
}

static void few_chunks_show_nothing(void **state)
{
    struct made m = made_of(80, 60);

    (void)state;
    for (m.count = 0; m.count < 4; m.count++)
        assert_int_equal(estimate(&m, AUTOBUF_NS_UNSET, 80).kind, AUTOBUF_KIND_NONE);
    m.count = CHUNKS;
    for (size_t i = 0; i < CHUNKS; i++) /* all at once */
        m.chunks[i].arrived_ns = AB_NS_PER_S;
    assert_int_equal(estimate(&m, AUTOBUF_NS_UNSET, 80).kind, AUTOBUF_KIND_NONE);
    for (size_t i = 0; i < CHUNKS; i++) /* in groups, whose ends are what is known */
        m.chunks[i].arrived_ns = AB_NS_PER_S + i / 40 * 40 * CHUNK_NS;
    assert_true(estimate(&m, AUTOBUF_NS_UNSET, 80).tx_low_bit_per_s <= 100 * MBIT);
}

/* ------------------------------------------------------------------------------------ searches */

static void take(struct ab_search *s, uint64_t pace, bool lost, uint64_t low, uint64_t high)
{
    const struct autobuf_available e = {.size = sizeof e, .kind = AUTOBUF_KIND_AVAILABLE, .tx_low_bit_per_s = low,
                                        .tx_high_bit_per_s = high, .over_ns = AB_NS_PER_S / 10,
                                        .cause = high ? AUTOBUF_CAUSE_NONE : AUTOBUF_CAUSE_NO_QUEUE};

    ab_search_take(s, pace, lost, &e);
}

static uint64_t next(const struct ab_search *s)
{
    struct ab_stretch how;

    if (!ab_search_next(s, &how))
        return 0;
    assert_int_equal(how.capacity_low_bit_per_s, s->capacity_low_bit_per_s);
    assert_int_equal(how.capacity_high_bit_per_s, s->capacity_high_bit_per_s);
    return how.pace_bit_per_s;
}

static void the_search_ends(void **state)
{
    struct ab_search s = {.capacity_low_bit_per_s = 96 * MBIT, .capacity_high_bit_per_s = 100 * MBIT}, none = {0};
    struct autobuf_available found;

    (void)state;
    assert_int_equal(next(&none), 0);
    assert_int_equal(next(&s), 48 * MBIT);
    take(&s, 48 * MBIT, false, 48 * MBIT, 0);
    assert_int_equal(next(&s), 74 * MBIT);
    take(&s, 74 * MBIT, false, 50 * MBIT, 60 * MBIT);
    assert_int_equal(next(&s), 55500000); /* between what was free, 48, and 60 with what may vary, 63 */
    take(&s, 55500000, false, 58 * MBIT, 60 * MBIT);
    assert_int_equal(next(&s), 0);
    ab_search_result(&s, &none, &found);
    assert_int_equal(found.tx_low_bit_per_s, 55100000);
    assert_int_equal(found.tx_high_bit_per_s, 63 * MBIT);
    assert_int_equal(found.kind, AUTOBUF_KIND_AVAILABLE);
    assert_int_equal(found.flags, 0);
    assert_int_equal(found.cause, AUTOBUF_CAUSE_CAPACITY); /* of rx */
    assert_int_equal(found.over_ns, 3 * AB_NS_PER_S / 10);
    ab_search_result(&none, &s, &found);
    assert_int_equal(found.rx_high_bit_per_s, 63 * MBIT);
    assert_int_equal(found.tx_high_bit_per_s, 0);
    for (unsigned i = 0; i < 4; i++)
        take(&none, 1, false, 0, 0);
    assert_int_equal(next(&none), 0);
    ab_search_result(&none, &none, &found);
    assert_int_equal(found.kind, AUTOBUF_KIND_NONE);
    assert_int_equal(found.over_ns, 0);
}

static void four_stretches_are_enough(void **state)
{
    struct ab_search s = {.capacity_low_bit_per_s = 100 * MBIT};
    static const uint64_t paces[] = {50000000, 75000000, 112500000, 168750000};
    uint64_t pace, tries = 0;

    (void)state;
    while ((pace = next(&s))) { /* the capacity has no high bound: up to twice what was free */
        assert_int_equal(pace, paces[tries]);
        take(&s, pace, false, pace, 0);
        tries++;
    }
    assert_int_equal(tries, 4);
    assert_int_equal(ab_search_bytes(1000 * MBIT), 1000000);
    assert_int_equal(ab_search_bytes(8 * MBIT), 125000);
    assert_int_equal(ab_search_bytes(0), 0);
}

static void bounds_that_exclude_each_other_are_a_share(void **state)
{
    struct ab_search s = {.capacity_low_bit_per_s = 100 * MBIT, .capacity_high_bit_per_s = 100 * MBIT}, none = {0};
    struct autobuf_available found;

    (void)state;
    take(&s, 50 * MBIT, false, 50 * MBIT, 0);
    take(&s, 75 * MBIT, false, 24 * MBIT, 26 * MBIT);
    assert_int_equal(next(&s), 0);
    ab_search_result(&s, &none, &found);
    assert_int_equal(found.kind, AUTOBUF_KIND_SHARE);
    assert_int_equal(found.tx_low_bit_per_s, 47500000);
    assert_int_equal(found.flags, AUTOBUF_AVAILABLE_TX_AT_LEAST);
    s = (struct ab_search){.capacity_low_bit_per_s = 100 * MBIT, .capacity_high_bit_per_s = 100 * MBIT};
    take(&s, 50 * MBIT, false, 50 * MBIT, 0); /* other traffic has become a little more */
    take(&s, 75 * MBIT, false, 42 * MBIT, 44 * MBIT);
    ab_search_result(&s, &none, &found);
    assert_int_equal(found.kind, AUTOBUF_KIND_AVAILABLE);
    assert_int_equal(found.tx_low_bit_per_s, 46200000);
    assert_int_equal(found.tx_high_bit_per_s, 47500000);
}

static void a_loss_that_shows_nothing_is_too_much(void **state)
{
    struct ab_search s = {.capacity_low_bit_per_s = 100 * MBIT, .capacity_high_bit_per_s = 100 * MBIT};

    (void)state;
    take(&s, 50 * MBIT, true, 40 * MBIT, 0);
    assert_int_equal(s.low_bit_per_s, 0);
    assert_int_equal(next(&s), 25 * MBIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_that_is_free),
        cmocka_unit_test(a_rate_that_is_too_much),
        cmocka_unit_test(bounds_that_are_both_unknown_have_a_cause),
        cmocka_unit_test(what_was_sent_after_a_loss_does_not_count),
        cmocka_unit_test(a_sender_that_is_slower_than_its_pace),
        cmocka_unit_test(times_that_cannot_be_show_nothing),
        cmocka_unit_test(times_that_make_it_fast_show_nothing),
        cmocka_unit_test(few_chunks_show_nothing),
        cmocka_unit_test(the_search_ends),
        cmocka_unit_test(four_stretches_are_enough),
        cmocka_unit_test(bounds_that_exclude_each_other_are_a_share),
        cmocka_unit_test(a_loss_that_shows_nothing_is_too_much),
    };

    return cmocka_run_group_tests_name("stretch", tests, NULL, NULL);
}

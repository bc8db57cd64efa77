/* SPDX-License-Identifier: MIT */
/* Series made by hand: a link and its queue as a fluid. tests/sim/test_available_sim.c has packets. */
#include "unit.h"

#include "available/available.h"

#define MS AB_NS_PER_MS
#define MBIT 1000000ULL
#define BASE_US 20000

/* A first-in first-out link, of which the estimator gets samples. */
struct fluid {
    struct ab_available available;
    struct ab_available_sample sample;
    double capacity_mbit, cross_mbit;
    double queue_us;
};

static struct fluid fluid_of(double capacity_mbit, double cross_mbit)
{
    return (struct fluid){.capacity_mbit = capacity_mbit, .cross_mbit = cross_mbit,
                          .sample = {.now_ns = 1000 * MS, .rtt_ns = BASE_US * 1000, .rtt_deviation_ns = 100000}};
}

/* So many samples, before each of which sends_mbit came to the link for step_ms. */
static void samples(struct fluid *f, unsigned count, uint64_t step_ms, double sends_mbit)
{
    for (unsigned i = 0; i < count; i++) {
        double comes = sends_mbit + f->cross_mbit, over = comes / f->capacity_mbit - 1;
        double out = f->queue_us > 0 || over > 0 ? sends_mbit / comes * f->capacity_mbit : sends_mbit;

        f->queue_us += over * (double)step_ms * 1000;
        f->queue_us = f->queue_us > 0 ? f->queue_us : 0;
        f->sample.now_ns += step_ms * MS;
        f->sample.delivered_bytes += (uint64_t)(out * 125 * (double)step_ms);
        /* What leaves now has found what came before it. */
        f->sample.rtt_ns = BASE_US * 1000 + (uint64_t)(f->queue_us * 1000 * f->capacity_mbit / comes);
        ab_available_sample(&f->available, &f->sample);
    }
}

/* The same, of a link whose RTT and rate are told. */
static void samples_at(struct fluid *f, unsigned count, uint64_t rtt_us, double mbit)
{
    for (unsigned i = 0; i < count; i++) {
        f->sample.now_ns += 50 * MS;
        f->sample.delivered_bytes += (uint64_t)(mbit * 125 * 50);
        f->sample.rtt_ns = rtt_us * 1000;
        ab_available_sample(&f->available, &f->sample);
    }
}

static struct autobuf_available estimate(const struct fluid *f, double capacity_mbit)
{
    struct autobuf_available found;
    uint64_t capacity = (uint64_t)(capacity_mbit * 1e6);

    ab_available_estimate(&f->available, capacity, capacity, &found);
    assert_int_equal(found.size, sizeof found);
    assert_int_equal(found.rx_low_bit_per_s, 0);
    assert_int_equal(found.rx_high_bit_per_s, 0);
    return found;
}

static void assert_unknown(const struct fluid *f, uint32_t cause)
{
    struct autobuf_available found = estimate(f, 0);

    assert_int_equal(found.kind, AUTOBUF_KIND_NONE);
    assert_int_equal(found.cause, cause);
    assert_int_equal(found.tx_low_bit_per_s, 0);
    assert_int_equal(found.tx_high_bit_per_s, 0);
    assert_int_equal(found.over_ns, 0);
}

/* At least so much, less the error of a few round trips. */
static void assert_at_least(const struct fluid *f, double mbit, uint32_t cause)
{
    struct autobuf_available found = estimate(f, 0);

    assert_int_equal(found.kind, AUTOBUF_KIND_AVAILABLE);
    assert_int_equal(found.flags, AUTOBUF_AVAILABLE_TX_AT_LEAST);
    assert_int_equal(found.cause, cause);
    assert_int_equal(found.tx_high_bit_per_s, 0);
    assert_in_range(found.tx_low_bit_per_s, (uint64_t)(mbit * 0.9e6), (uint64_t)(mbit * 1e6));
}

static void a_flat_rtt_gives_a_lower_bound(void **state)
{
    struct fluid f = fluid_of(100, 50);

    (void)state;
    samples(&f, 21, 50, 10);
    assert_at_least(&f, 10, AUTOBUF_CAUSE_NO_QUEUE);
    /* (1,250,000 bytes - half of 2 x 1500 bytes x 10) x 98% in a second */
    assert_int_equal(estimate(&f, 0).tx_low_bit_per_s, 9682400);
    assert_int_equal(estimate(&f, 0).over_ns, AB_NS_PER_S);
    assert_int_equal(estimate(&f, 0).age_ns, 0);
}

/* 60 + 60 on 100: 40 are free, 50 are delivered, and the queue grows by 200 ms a second. */
static void a_queue_that_grows_gives_both_bounds(void **state)
{
    struct fluid f = fluid_of(100, 60);
    struct autobuf_available known, unknown;

    (void)state;
    samples(&f, 5, 50, 20);
    samples(&f, 20, 50, 60);
    known = estimate(&f, 100);
    unknown = estimate(&f, 0);
    assert_int_equal(known.kind, AUTOBUF_KIND_AVAILABLE);
    assert_int_equal(known.flags, 0);
    assert_int_equal(known.cause, AUTOBUF_CAUSE_NONE);
    assert_in_range(known.tx_low_bit_per_s, 38 * MBIT, 40 * MBIT);
    assert_in_range(known.tx_high_bit_per_s, 40 * MBIT, 42 * MBIT);
    /* Of a capacity that nobody knows only that it is no less than what is delivered. */
    assert_int_equal(unknown.tx_low_bit_per_s, 0);
    assert_int_equal(unknown.flags, AUTOBUF_AVAILABLE_TX_AT_MOST);
    assert_int_equal(unknown.cause, AUTOBUF_CAUSE_SHORT);
    assert_in_range(unknown.tx_high_bit_per_s, 49 * MBIT, 53 * MBIT);
}

/* What stands, and does not grow any more, is what the others leave. */
static void a_queue_that_stands_gives_both_bounds(void **state)
{
    struct fluid f = fluid_of(100, 60);
    struct autobuf_available found;

    (void)state;
    samples(&f, 2, 50, 20);
    samples(&f, 4, 50, 50);
    samples(&f, 100, 50, 40);
    found = estimate(&f, 0);
    assert_in_range(found.tx_low_bit_per_s, 36 * MBIT, 40 * MBIT);
    assert_in_range(found.tx_high_bit_per_s, 40 * MBIT, 42 * MBIT);
    assert_true(found.over_ns >= 5 * AB_NS_PER_S);
}

/* 80 are free, and the queue grows by 10 ms a second: how much that is depends on C. */
static void the_error_of_a_queue(void **state)
{
    struct fluid f = fluid_of(100, 20);

    (void)state;
    samples(&f, 2, 50, 20);
    samples(&f, 60, 50, 81);
    assert_in_range(estimate(&f, 100).tx_low_bit_per_s, 77 * MBIT, 80 * MBIT);
    assert_in_range(estimate(&f, 0).tx_low_bit_per_s, 67 * MBIT, 75 * MBIT);
}

static void loss_beside_a_queue_makes_it_a_share(void **state)
{
    struct fluid f = fluid_of(100, 60);

    (void)state;
    samples(&f, 2, 50, 20);
    f.sample.resent_packets = 1; /* before the queue */
    samples(&f, 2, 50, 20);
    samples(&f, 5, 50, 50);
    samples(&f, 20, 50, 40);
    assert_int_equal(estimate(&f, 0).kind, AUTOBUF_KIND_AVAILABLE);
    f.sample.resent_packets++;
    samples(&f, 5, 50, 40);
    assert_int_equal(estimate(&f, 0).kind, AUTOBUF_KIND_SHARE);
}

static void two_rounds_are_too_short(void **state)
{
    struct fluid f = fluid_of(100, 0);

    (void)state;
    assert_unknown(&f, AUTOBUF_CAUSE_RTT);
    f.sample.rtt_ns = 0;
    ab_available_sample(&f.available, &f.sample);
    assert_unknown(&f, AUTOBUF_CAUSE_RTT);
    samples(&f, 3, 50, 10);
    assert_unknown(&f, AUTOBUF_CAUSE_SHORT);
    samples(&f, 1, 50, 10);
    assert_int_equal(estimate(&f, 0).kind, AUTOBUF_KIND_AVAILABLE);
}

static void rounds_are_of_50_ms(void **state)
{
    struct fluid f = fluid_of(100, 0);

    (void)state;
    samples(&f, 15, 10, 10);
    assert_unknown(&f, AUTOBUF_CAUSE_SHORT);
    samples(&f, 1, 10, 10);
    assert_int_equal(estimate(&f, 0).over_ns, 150 * MS);
    f = fluid_of(100, 0); /* or of an RTT */
    samples_at(&f, 9, 100000, 10);
    assert_int_equal(estimate(&f, 0).over_ns, 400 * MS);
    assert_int_equal(f.available.count, 5);
}

static void what_is_older_than_10_s_is_forgotten(void **state)
{
    struct fluid f = fluid_of(100, 0);

    (void)state;
    samples(&f, 300, 50, 30);
    assert_int_equal(estimate(&f, 0).over_ns, 10 * AB_NS_PER_S);
    samples(&f, 201, 50, 10);
    assert_at_least(&f, 10, AUTOBUF_CAUSE_NO_QUEUE);
    samples(&f, 100, 50, 0);
    assert_at_least(&f, 10, AUTOBUF_CAUSE_NO_QUEUE);
    assert_int_equal(estimate(&f, 0).age_ns, 5 * AB_NS_PER_S);
    samples(&f, 98, 50, 0);
    assert_unknown(&f, AUTOBUF_CAUSE_SHORT);
}

/* A route of 20 ms more, in the midst of a transfer that does not fill it; and back. */
static void a_longer_path_is_no_queue(void **state)
{
    (void)state;
    for (unsigned rounds = 4; rounds < 120; rounds += 13) {
        struct fluid f = fluid_of(100, 0);

        samples_at(&f, 60, 20000, 10);
        samples_at(&f, rounds, 40000, 10);
        assert_at_least(&f, 10, AUTOBUF_CAUSE_NO_QUEUE);
        samples_at(&f, rounds, 20000, 10);
        assert_at_least(&f, 10, AUTOBUF_CAUSE_NO_QUEUE);
    }
}

/* So much longer that no rate is certainly free. */
static void a_much_longer_path_says_nothing(void **state)
{
    struct fluid f = fluid_of(100, 0);

    (void)state;
    samples_at(&f, 20, 20000, 10);
    samples_at(&f, 10, 220000, 10);
    assert_unknown(&f, AUTOBUF_CAUSE_NO_QUEUE);
}

static void jitter_is_no_queue(void **state)
{
    struct fluid f = fluid_of(100, 0);

    (void)state;
    f.sample.rtt_deviation_ns = 2 * MS;
    for (unsigned i = 0; i < 200; i++)
        samples_at(&f, 1, 20000 + i * 2654435761U % 8000, 10);
    assert_int_equal(estimate(&f, 0).tx_high_bit_per_s, 0);
    assert_in_range(estimate(&f, 0).tx_low_bit_per_s, 9 * MBIT, 10 * MBIT);
    f.sample.rtt_deviation_ns = 30 * MS; /* by Wi-Fi, or a host that merges */
    samples_at(&f, 200, 20000, 10);
    assert_int_equal(estimate(&f, 0).cause, AUTOBUF_CAUSE_COALESCING);
    assert_int_equal(estimate(&f, 0).tx_high_bit_per_s, 0);
}

static void rare_samples_show_no_queue(void **state)
{
    struct fluid f = fluid_of(100, 60);

    (void)state;
    samples(&f, 3, 50, 20);
    samples(&f, 8, 1000, 41);
    assert_int_equal(estimate(&f, 0).tx_high_bit_per_s, 0);
    assert_true(estimate(&f, 0).tx_low_bit_per_s < 40 * MBIT);
}

/* Bursts of 5, 10 and 20 Mbit/s raise the RTT, and 40 are free. */
static void slow_start_is_no_queue(void **state)
{
    struct fluid f = fluid_of(100, 60);
    uint64_t high_bit_per_s;

    (void)state;
    samples_at(&f, 2, 20000, 2.5);
    samples_at(&f, 1, 26000, 5);
    samples_at(&f, 1, 30000, 10);
    samples_at(&f, 1, 34000, 20);
    for (uint64_t rtt_us = 38000; rtt_us <= 50000; rtt_us += 2000)
        samples_at(&f, 1, rtt_us, 40);
    high_bit_per_s = estimate(&f, 0).tx_high_bit_per_s;
    assert_in_range(high_bit_per_s, 40 * MBIT, 44 * MBIT);
}

static void a_program_that_sends_little_is_the_cause(void **state)
{
    struct fluid f = fluid_of(100, 0);

    (void)state;
    f.sample.program_limits = true;
    samples(&f, 20, 50, 10);
    assert_at_least(&f, 10, AUTOBUF_CAUSE_PROGRAM);
}

/* The peer's own upload delays the ACKs: the RTT grows, and not by what is sent here. */
static void acks_that_wait_on_the_way_back(void **state)
{
    struct fluid f = fluid_of(1000, 0);

    (void)state;
    f.sample.program_limits = true;
    for (uint64_t rtt_us = BASE_US; rtt_us < 220000; rtt_us += 4000)
        samples_at(&f, 1, rtt_us, 10);
    assert_int_equal(estimate(&f, 0).tx_high_bit_per_s, 0);
    assert_int_equal(estimate(&f, 0).cause, AUTOBUF_CAUSE_PROGRAM);
}

/* A first RTT of a late SYN-ACK, or a shorter route: no queue of the link's capacity has drained. */
static void an_rtt_that_falls_frees_nothing(void **state)
{
    (void)state;
    for (unsigned count = 6; count <= 48; count *= 2) {
        struct fluid f = fluid_of(1000, 0);

        f.sample.program_limits = true;
        samples_at(&f, 1, 92000, 10);
        samples_at(&f, count, 50000, 10);
        assert_in_range(estimate(&f, 1000).tx_low_bit_per_s, 9 * MBIT, 15 * MBIT);
    }
}

static void a_clock_or_a_count_that_jumps_begins_anew(void **state)
{
    struct fluid f = fluid_of(100, 0);

    (void)state;
    samples(&f, 20, 50, 80);
    f.sample.now_ns -= 500 * MS;
    samples(&f, 3, 50, 10);
    assert_unknown(&f, AUTOBUF_CAUSE_SHORT);
    samples(&f, 1, 50, 10);
    assert_at_least(&f, 10, AUTOBUF_CAUSE_NO_QUEUE);
    f.sample.delivered_bytes = 0;
    samples(&f, 4, 50, 20);
    assert_at_least(&f, 20, AUTOBUF_CAUSE_NO_QUEUE);
    f.sample.now_ns += 3600 * AB_NS_PER_S; /* suspended */
    samples(&f, 1, 50, 20);
    assert_unknown(&f, AUTOBUF_CAUSE_SHORT);
}

static void values_at_the_limits_do_no_harm(void **state)
{
    struct fluid f = fluid_of(100, 0);
    struct autobuf_available found;

    (void)state;
    for (uint64_t i = 1; i < 10; i++) {
        f.sample = (struct ab_available_sample){i * 3 * AB_NS_PER_S, i * (UINT64_MAX / 10), UINT64_MAX >> i, UINT64_MAX,
                                                (uint32_t)i, false};
        ab_available_sample(&f.available, &f.sample);
        ab_available_estimate(&f.available, UINT64_MAX, UINT64_MAX, &found);
        ab_available_estimate(&f.available, 0, 1, &found);
    }
    samples(&f, 1000, 1, 1e9);
    ab_available_estimate(&f.available, 0, 0, &found);
    assert_true(found.over_ns <= 10 * AB_NS_PER_S);
}

static void causes_have_names(void **state)
{
    (void)state;
    assert_null(autobuf_cause_name(AUTOBUF_CAUSE_NONE));
    assert_string_equal(autobuf_cause_name(AUTOBUF_CAUSE_SHORT), "too-short");
    assert_string_equal(autobuf_cause_name(AUTOBUF_CAUSE_RTT), "rtt-unknown");
    assert_string_equal(autobuf_cause_name(AUTOBUF_CAUSE_COALESCING), "coalescing");
    assert_string_equal(autobuf_cause_name(AUTOBUF_CAUSE_PROGRAM), "program");
    assert_string_equal(autobuf_cause_name(AUTOBUF_CAUSE_NO_QUEUE), "no-queue");
    assert_string_equal(autobuf_cause_name(AUTOBUF_CAUSE_CAPACITY), "capacity-unknown");
    assert_string_equal(autobuf_cause_name(77), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flat_rtt_gives_a_lower_bound),
        cmocka_unit_test(a_queue_that_grows_gives_both_bounds),
        cmocka_unit_test(a_queue_that_stands_gives_both_bounds),
        cmocka_unit_test(the_error_of_a_queue),
        cmocka_unit_test(loss_beside_a_queue_makes_it_a_share),
        cmocka_unit_test(two_rounds_are_too_short),
        cmocka_unit_test(rounds_are_of_50_ms),
        cmocka_unit_test(what_is_older_than_10_s_is_forgotten),
        cmocka_unit_test(a_longer_path_is_no_queue),
        cmocka_unit_test(a_much_longer_path_says_nothing),
        cmocka_unit_test(jitter_is_no_queue),
        cmocka_unit_test(rare_samples_show_no_queue),
        cmocka_unit_test(slow_start_is_no_queue),
        cmocka_unit_test(a_program_that_sends_little_is_the_cause),
        cmocka_unit_test(acks_that_wait_on_the_way_back),
        cmocka_unit_test(an_rtt_that_falls_frees_nothing),
        cmocka_unit_test(a_clock_or_a_count_that_jumps_begins_anew),
        cmocka_unit_test(values_at_the_limits_do_no_harm),
        cmocka_unit_test(causes_have_names),
    };

    return cmocka_run_group_tests_name("available", tests, NULL, NULL);
}

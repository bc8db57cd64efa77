/* SPDX-License-Identifier: MIT */
/* Stretches of echoes: how they are sent, and what their times show. Each constant has a case that holds it. */
#include "unit.h"

#include "available/stretch.h"
#include "icmp/stretches.h"

#include <errno.h>
#include <stdlib.h>

#define MS AB_NS_PER_MS
#define FULL 1500U
#define RTT_NS (20 * MS)
#define MOST 400

static struct ab_stretches *begun(uint64_t rate_bit_per_s, uint64_t budget_bytes)
{
    struct ab_rate rate = {.low_bit_per_s = rate_bit_per_s, .high_bit_per_s = rate_bit_per_s};
    struct ab_stretches *stretches = calloc(1, ab_stretches_bytes());

    assert_non_null(stretches);
    ab_stretches_begin(stretches, &rate, budget_bytes);
    return stretches;
}

/* A stretch as it was sent. */
struct sent {
    unsigned packets, group; /* group: those that left first, together */
    uint64_t gap_ns, took_ns;
    uint64_t at_ns[MOST];
};

static struct sent send_all(struct ab_stretches *stretches)
{
    struct sent sent = {0};
    uint64_t now_ns = 0;

    assert_true(ab_stretches_next(stretches, FULL, 0));
    while (now_ns != AUTOBUF_NS_UNSET) {
        assert_true(sent.packets < MOST);
        sent.at_ns[sent.packets++] = now_ns;
        sent.took_ns = now_ns;
        sent.group += now_ns == 0;
        now_ns = ab_stretches_sent(stretches, FULL, now_ns, now_ns);
        if (!sent.gap_ns && now_ns != AUTOBUF_NS_UNSET)
            sent.gap_ns = now_ns;
    }
    return sent;
}

static void groups_last_as_long_as_timers_can(void **state)
{
    struct ab_stretches *stretches = begun(240000000, 1000000);
    struct sent sent = send_all(stretches);

    (void)state;
    assert_int_equal(sent.group, 5);
    assert_int_equal(sent.gap_ns, 500000); /* 120 Mbit/s */
    free(stretches);
}

/* Nothing of it comes back. */
static void lose(struct ab_stretches *stretches, const struct sent *sent)
{
    static struct ab_packet packets[MOST];
    static uint64_t room[3 * MOST];

    for (unsigned i = 0; i < sent->packets; i++)
        packets[i] = (struct ab_packet){.sent_ns = sent->at_ns[i], .received_ns = AUTOBUF_NS_UNSET, .bytes = FULL};
    ab_stretches_take(stretches, packets, sent->packets, room);
}

static void a_stretch_ends(void **state)
{
    struct ab_stretches *stretches = begun(240000000, 400000);
    struct sent sent = send_all(stretches);

    (void)state;
    assert_int_equal(sent.packets, 65); /* a quarter of the budget, in groups of five */
    assert_int_equal(sent.took_ns, 12 * sent.gap_ns);
    free(stretches);

    stretches = begun(10000000, 1000000);
    for (unsigned i = 0; i < 4; i++) { /* at half of the rate each time */
        sent = send_all(stretches);
        assert_int_equal(sent.gap_ns, 2400000ULL << i);
        assert_true(sent.took_ns >= 125 * MS && sent.took_ns < 125 * MS + sent.gap_ns);
        lose(stretches, &sent);
    }
    assert_false(ab_stretches_next(stretches, FULL, 0)); /* there are four */
    free(stretches);
}

static void a_budget_that_is_too_small(void **state)
{
    struct ab_stretches *enough = begun(100000000, 4 * 2 * 6 * FULL), *less = begun(100000000, 4 * 2 * 6 * FULL - 4);

    (void)state;
    assert_true(ab_stretches_next(enough, FULL, 0)); /* six groups of two packets */
    assert_false(ab_stretches_next(less, FULL, 0));
    free(enough);
    free(less);
}

/* A stretch at 30 Mbit/s of 60, whose RTT grows by so much each ms; packet `lost` was (0: none). */
static struct autobuf_available found_of(uint64_t grows_ns, unsigned lost)
{
    static struct ab_packet packets[MOST];
    static uint64_t room[3 * MOST];
    struct ab_stretches *stretches = begun(60000000, 1000000);
    struct autobuf_available found = AUTOBUF_AVAILABLE_INIT;
    struct sent sent = send_all(stretches);

    for (unsigned i = 0; i < sent.packets; i++)
        packets[i] = (struct ab_packet){.sent_ns = sent.at_ns[i], .bytes = FULL, .train = 1,
                                        .received_ns = sent.at_ns[i] + RTT_NS + grows_ns * sent.at_ns[i] / MS};
    if (lost)
        packets[lost].received_ns = AUTOBUF_NS_UNSET;
    ab_stretches_take(stretches, packets, sent.packets, room);
    assert_int_equal(ab_stretches_result(stretches, &found), 0);
    free(stretches);
    return found;
}

static void a_flat_rtt_is_free_both_ways(void **state)
{
    struct autobuf_available found = found_of(0, 0);

    (void)state;
    assert_int_equal(found.kind, AUTOBUF_KIND_AVAILABLE);
    assert_true(found.tx_low_bit_per_s > 27000000 && found.tx_low_bit_per_s <= 30000000);
    assert_int_equal(found.rx_low_bit_per_s, found.tx_low_bit_per_s);
    assert_int_equal(found.tx_high_bit_per_s, 0);
    assert_int_equal(found.flags,
                     AUTOBUF_AVAILABLE_TX_AT_LEAST | AUTOBUF_AVAILABLE_RX_AT_LEAST | AUTOBUF_AVAILABLE_ECHOED);
}

/* Of the link that is slower 18 Mbit/s would be free, of a faster one less: so that is no lower bound. */
static void a_queue_bounds_one_direction_from_above(void **state)
{
    struct autobuf_available found = found_of(200000, 0);

    (void)state;
    assert_int_equal(found.tx_low_bit_per_s, 0);
    assert_true(found.tx_high_bit_per_s >= 18000000 && found.tx_high_bit_per_s < 30000000);
    assert_int_equal(found.flags,
                     AUTOBUF_AVAILABLE_TX_AT_MOST | AUTOBUF_AVAILABLE_RX_AT_MOST | AUTOBUF_AVAILABLE_ECHOED);
}

/* It may be that of a link so fast that nothing is free. */
static void growth_that_is_no_queue_yet_shows_nothing(void **state)
{
    struct autobuf_available found = found_of(20000, 0), flat = found_of(4000, 0);

    (void)state;
    assert_int_equal(found.kind, AUTOBUF_KIND_NONE);
    assert_int_equal(found.flags, AUTOBUF_AVAILABLE_ECHOED);
    assert_true(flat.tx_low_bit_per_s > 27000000);
}

static void what_came_before_a_loss_counts(void **state)
{
    struct autobuf_available found = found_of(200000, 130), early = found_of(200000, 2);

    (void)state;
    assert_true(found.tx_high_bit_per_s >= 18000000 && found.tx_high_bit_per_s < 30000000);
    assert_int_equal(early.kind, AUTOBUF_KIND_NONE);
}

static void without_a_capacity_nothing_is_sent(void **state)
{
    struct ab_stretches *stretches = begun(0, 1000000);
    struct autobuf_available found = AUTOBUF_AVAILABLE_INIT, not_asked = AUTOBUF_AVAILABLE_INIT;

    (void)state;
    assert_false(ab_stretches_next(stretches, FULL, 0));
    assert_int_equal(ab_stretches_result(stretches, &found), 0);
    assert_int_equal(found.kind, AUTOBUF_KIND_NONE);
    assert_int_equal(found.cause, AUTOBUF_CAUSE_CAPACITY);
    assert_int_equal(ab_stretches_result(NULL, &not_asked), 0);
    assert_memory_equal(&found, &not_asked, sizeof found);
    found.size = 0;
    assert_int_equal(ab_stretches_result(stretches, &found), -EINVAL);
    free(stretches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_last_as_long_as_timers_can),
        cmocka_unit_test(a_stretch_ends),
        cmocka_unit_test(a_budget_that_is_too_small),
        cmocka_unit_test(a_flat_rtt_is_free_both_ways),
        cmocka_unit_test(a_queue_bounds_one_direction_from_above),
        cmocka_unit_test(growth_that_is_no_queue_yet_shows_nothing),
        cmocka_unit_test(what_came_before_a_loss_counts),
        cmocka_unit_test(without_a_capacity_nothing_is_sent),
    };

    return cmocka_run_group_tests_name("stretches echoes", tests, NULL, NULL);
}

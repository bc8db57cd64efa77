/* The link in virtual time: every expected value is worked out by hand, unless it is a chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "emu_link.h"

#define US 1000u
#define MS 1000000u
#define S 1000000000u
#define MBIT 1000000u
#define LEN 1500u
#define DROPPED UINT64_MAX
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t offer(struct emu_link *l, uint64_t now_ns, uint32_t len)
{
    uint64_t deliver_ns;

    return emu_link_offer(l, now_ns, len, &deliver_ns) ? deliver_ns : DROPPED;
}

static struct emu_truth truth(struct emu_link *l, uint64_t now_ns)
{
    struct emu_truth t;

    emu_link_truth(l, now_ns, &t);
    return t;
}

/* Packets offered at once, at time 0: when does the n-th come out? 12 Mbit/s is 1 ms a packet. */
static const struct burst_case {
    struct emu_params params;
    unsigned n;
    uint64_t expect_ns;
} burst_cases[] = {
    {{0}, 1, 0},
    {{.delay_ns = 50 * MS}, 100, 50 * MS},
    {{.rate_bit_per_s = 12 * MBIT}, 1, 1 * MS},
    {{.rate_bit_per_s = 12 * MBIT}, 10, 10 * MS},
    {{.rate_bit_per_s = 12 * MBIT, .delay_ns = 7}, 10, 10 * MS + 7},
    {{.rate_bit_per_s = 1000 * MBIT}, 100, 1200 * US},
    /* a third of a nanosecond each */
    {{.rate_bit_per_s = 9 * MBIT}, 1, 1333333},
    {{.rate_bit_per_s = 9 * MBIT}, 2, 2666666},
    {{.rate_bit_per_s = 9 * MBIT}, 3, 4000000},
    /* queue: three fit */
    {{.rate_bit_per_s = 12 * MBIT, .queue_bytes = 3 * LEN}, 3, 3 * MS},
    {{.rate_bit_per_s = 12 * MBIT, .queue_bytes = 3 * LEN}, 4, DROPPED},
    {{.rate_bit_per_s = 12 * MBIT, .queue_bytes = 4 * LEN - 1}, 4, DROPPED},
    {{.rate_bit_per_s = 12 * MBIT, .queue_bytes = LEN - 1}, 1, DROPPED},
    /* bucket of ten packets, unlimited peak: the eleventh waits for its tokens */
    {{.rate_bit_per_s = 12 * MBIT, .burst_bytes = 10 * LEN}, 10, 0},
    {{.rate_bit_per_s = 12 * MBIT, .burst_bytes = 10 * LEN}, 11, 1 * MS},
    {{.rate_bit_per_s = 12 * MBIT, .burst_bytes = 10 * LEN}, 30, 20 * MS},
    /* at ten times the rate: 10 * 10 / 9 = 11.1 packets pass at the peak */
    {{.rate_bit_per_s = 12 * MBIT, .burst_bytes = 10 * LEN, .peak_bit_per_s = 120 * MBIT},
     11,
     1100 * US},
    {{.rate_bit_per_s = 12 * MBIT, .burst_bytes = 10 * LEN, .peak_bit_per_s = 120 * MBIT},
     12,
     2 * MS},
    {{.rate_bit_per_s = 12 * MBIT, .burst_bytes = 10 * LEN, .peak_bit_per_s = 120 * MBIT},
     30,
     20 * MS},
    {{.loss = 1.0}, 1, DROPPED},
    /* a forwarder: 0.3 ms for each packet, whether they come one by one or all at once */
    {{.rate_bit_per_s = 12 * MBIT, .forward_ns = 300 * US}, 10, 10 * MS + 300 * US},
    {{.delay_ns = 5 * MS, .forward_ns = 300 * US}, 10, 8 * MS},
    /* stands still for the first 4 ms of each 10 */
    {{.rate_bit_per_s = 12 * MBIT, .stall_ns = 4 * MS, .stall_every_ns = 10 * MS}, 1, 4 * MS},
    {{.rate_bit_per_s = 12 * MBIT, .stall_ns = 4 * MS, .stall_every_ns = 10 * MS}, 5, 5 * MS},
    {{.rate_bit_per_s = 12 * MBIT, .stall_ns = 4 * MS, .stall_every_ns = 10 * MS}, 10, 14 * MS},
    /* in batches of 2.5 ms */
    {{.rate_bit_per_s = 12 * MBIT, .batch_ns = 2500 * US}, 1, 2500 * US},
    {{.rate_bit_per_s = 12 * MBIT, .batch_ns = 2500 * US}, 2, 2500 * US},
    {{.rate_bit_per_s = 12 * MBIT, .batch_ns = 2500 * US}, 3, 5 * MS},
    {{.rate_bit_per_s = 12 * MBIT, .batch_ns = 2500 * US}, 5, 5 * MS},
};

static void test_burst(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < COUNT(burst_cases); i++) {
        const struct burst_case *c = &burst_cases[i];
        struct emu_link l;
        uint64_t got = 0;
        unsigned n;

        emu_link_init(&l, &c->params, 1, 0);
        for (n = 0; n < c->n; n++)
            got = offer(&l, 0, LEN);
        if (got != c->expect_ns)
            print_error("case %zu\n", i);
        assert_int_equal(got, c->expect_ns);
        emu_link_free(&l);
    }
}

static void test_rate_is_exact_over_a_long_run(void **state)
{
    struct emu_params p = {.rate_bit_per_s = 7 * MBIT};
    struct emu_link l;
    uint64_t now_ns = 5;
    int i;

    (void)state;
    emu_link_init(&l, &p, 1, now_ns);
    for (i = 0; i < 700000; i++)
        now_ns = offer(&l, now_ns, LEN);
    assert_int_equal(now_ns, 5 + 1200 * (uint64_t)S);
    emu_link_free(&l);
}

static void test_idle_link_saves_nothing(void **state)
{
    struct emu_params p = {.rate_bit_per_s = 12 * MBIT};
    struct emu_link l;

    (void)state;
    emu_link_init(&l, &p, 1, 0);
    assert_int_equal(offer(&l, 0, LEN), 1 * MS);
    assert_int_equal(offer(&l, 100 * MS, LEN), 101 * MS);
    assert_int_equal(offer(&l, 100 * MS + 500 * US, LEN), 102 * MS);
    emu_link_free(&l);
}

static void test_bucket_fills_while_idle(void **state)
{
    struct emu_params p = {.rate_bit_per_s = 12 * MBIT, .burst_bytes = 10 * LEN};
    struct emu_link l;
    uint64_t last = 0;
    int i;

    (void)state;
    emu_link_init(&l, &p, 1, 0);
    for (i = 0; i < 10; i++)
        assert_int_equal(offer(&l, 0, LEN), 0);
    /* five packets' worth of tokens after 5 ms */
    for (i = 0; i < 6; i++)
        last = offer(&l, 5 * MS, LEN);
    assert_int_equal(last, 6 * MS);
    /* and never more than a bucketful */
    for (i = 0; i < 11; i++)
        last = offer(&l, 1000 * MS, LEN);
    assert_int_equal(last, 1001 * MS);
    emu_link_free(&l);
}

static void test_queue_counts_waiting_and_in_service(void **state)
{
    struct emu_params p = {.rate_bit_per_s = 12 * MBIT, .queue_bytes = 3 * LEN};
    struct emu_link l;
    struct emu_truth t;
    int i;

    (void)state;
    emu_link_init(&l, &p, 1, 0);
    for (i = 0; i < 4; i++)
        offer(&l, 0, LEN);
    /* the first is in service until 1 ms, and its place taken until then */
    assert_int_equal(offer(&l, MS - 1, LEN), DROPPED);
    assert_int_equal(offer(&l, MS, LEN), 4 * MS);
    assert_int_equal(emu_link_queued_bytes(&l, MS), 3 * LEN);
    /* 3 packets for 3 ms (one joined as one left), then 2, then 1, then 4 ms of nothing */
    t = truth(&l, 8 * MS);
    assert_int_equal(t.queue_max_bytes, 3 * LEN);
    assert_int_equal(t.queue_mean_bytes, (3 + 3 + 2 + 1) * LEN / 8);
    assert_int_equal(t.counted_ns, 8 * MS);
    assert_int_equal(t.packets, 6);
    assert_int_equal(t.bytes, 6 * LEN);
    assert_int_equal(t.drops_queue, 2);
    assert_int_equal(t.delivered_packets, 4);
    assert_int_equal(t.delivered_bytes, 4 * LEN);
    emu_link_reset(&l, 8 * MS);
    t = truth(&l, 9 * MS);
    assert_int_equal(t.packets + t.drops_queue + t.queue_max_bytes + t.queue_mean_bytes, 0);
    assert_int_equal(t.counted_ns, MS);
    emu_link_free(&l);
}

static void test_loss(void **state)
{
    struct emu_params p = {.loss = 0.1};
    struct emu_link l, jittery;
    int i;

    (void)state;
    emu_link_init(&l, &p, 42, 0);
    p.jitter_ns = 5 * MS;
    p.reorder = 0.5;
    p.reorder_by_ns = 1;
    emu_link_init(&jittery, &p, 42, 0);
    for (i = 0; i < 100000; i++) {
        int lost = offer(&l, 0, LEN) == DROPPED;

        /* one chance does not disturb another */
        assert_int_equal(offer(&jittery, 0, LEN) == DROPPED, lost);
    }
    /* 10000, with a standard deviation of 95 */
    assert_in_range(truth(&l, 0).drops_loss, 9600, 10400);
    assert_int_equal(truth(&l, 0).delivered_packets, 100000 - truth(&l, 0).drops_loss);
    emu_link_free(&l);
    emu_link_free(&jittery);
}

static void test_jitter_keeps_the_order(void **state)
{
    struct emu_params p = {.delay_ns = 10 * MS, .jitter_ns = 2 * MS};
    struct emu_link l;
    uint64_t last = 0, sum = 0, least = UINT64_MAX, most = 0;
    int i;

    (void)state;
    emu_link_init(&l, &p, 3, 0);
    for (i = 0; i < 10000; i++) { /* 10 ms apart: they do not meet */
        uint64_t now = (uint64_t)i * 10 * MS, late = offer(&l, now, LEN) - now - 10 * MS;

        least = late < least ? late : least;
        most = late > most ? late : most;
        sum += late;
    }
    assert_in_range(least, 0, 10 * US);
    assert_in_range(most, 2 * MS - 10 * US, 2 * MS);
    assert_in_range(sum / 10000, 970 * US, 1030 * US);
    for (i = 0; i < 1000; i++) { /* 100 us apart: they do */
        uint64_t got = offer(&l, 200 * (uint64_t)S + (uint64_t)i * 100 * US, LEN);

        assert_true(got >= last);
        assert_false(l.held);
        last = got;
    }
    emu_link_free(&l);
}

static void test_reordering(void **state)
{
    struct emu_params p = {.delay_ns = 10 * MS, .reorder = 0.25, .reorder_by_ns = 3 * MS};
    struct emu_link l;
    int i, held = 0;

    (void)state;
    emu_link_init(&l, &p, 3, 0);
    for (i = 0; i < 10000; i++) {
        uint64_t now = (uint64_t)i * MS, got = offer(&l, now, LEN);

        held += l.held;
        assert_int_equal(got, now + (l.held ? 13 * MS : 10 * MS));
    }
    assert_in_range(held, 2300, 2700);
    emu_link_free(&l);
}

static void test_cross_traffic_evenly_spaced(void **state)
{
    struct emu_params p = {.rate_bit_per_s = 12 * MBIT, .cross = 0.5, .cross_constant = 1};
    struct emu_link l;

    (void)state;
    emu_link_init(&l, &p, 1, 0); /* arrivals at 2, 4, 6 ... ms, each 1 ms in service */
    assert_int_equal(offer(&l, 1 * MS, 150), 1 * MS + 100 * US);
    assert_int_equal(offer(&l, 2 * MS, 150), 3 * MS + 100 * US);
    assert_int_equal(offer(&l, 4 * MS + 500 * US, 150), 5 * MS + 100 * US);
    assert_int_equal(emu_link_queued_bytes(&l, 6 * MS), LEN);
    assert_int_equal(truth(&l, 10 * (uint64_t)S).cross_packets, 5000);
    assert_int_equal(truth(&l, 10 * (uint64_t)S).packets, 3);
    emu_link_free(&l);

    /* 73.14 ns apart: the fraction counts */
    p.rate_bit_per_s = 7000 * (uint64_t)MBIT;
    p.cross = 1.0;
    p.cross_size_bytes = 64;
    emu_link_init(&l, &p, 1, 0);
    assert_in_range(truth(&l, 10 * MS).cross_packets, 136717, 136719);
    emu_link_free(&l);
}

static void test_cross_traffic_poisson(void **state)
{
    struct emu_params p = {.rate_bit_per_s = 12 * MBIT, .cross = 0.5, .queue_bytes = 20 * LEN};
    struct emu_link l;
    struct emu_truth t;

    (void)state;
    emu_link_init(&l, &p, 7, 0);
    t = truth(&l, 100 * (uint64_t)S);
    assert_in_range(t.cross_packets, 49000, 51000);
    /* M/D/1 at half load: 0.75 packets in the system on average */
    assert_in_range(t.queue_mean_bytes, LEN * 70 / 100, LEN * 80 / 100);
    assert_int_equal(t.cross_drops, 0);
    emu_link_free(&l);

    p.cross = 1.0;
    p.cross_size_bytes = 500;
    p.queue_bytes = 500;
    emu_link_init(&l, &p, 7, 0);
    t = truth(&l, 100 * (uint64_t)S);
    assert_in_range(t.cross_packets, 297000, 303000);
    /* Erlang's loss formula for one place at full load: one half */
    assert_in_range(t.cross_drops, t.cross_packets * 49 / 100, t.cross_packets * 51 / 100);
    emu_link_free(&l);
}

/* Ten packets at time 0 on 12 Mbit/s; the rate changes at 2 ms, when eight are left. */
static void test_change_of_rate(void **state)
{
    static const struct {
        uint64_t rate_bit_per_s;
        uint64_t last_ns; /* of the ten */
        uint64_t next_ns; /* of one offered just then */
    } cases[] = {
        {12 * MBIT, 10 * MS, 11 * MS},
        {6 * MBIT, 18 * MS, 20 * MS},
        {24 * MBIT, 6 * MS, 6 * MS + 500 * US},
        {0, 2 * MS, 2 * MS},
    };
    size_t i;

    (void)state;
    for (i = 0; i < COUNT(cases); i++) {
        struct emu_params p = {.rate_bit_per_s = 12 * MBIT, .delay_ns = 5 * MS};
        struct emu_link l;
        uint64_t last = 0;
        int n;

        emu_link_init(&l, &p, 1, 0);
        for (n = 0; n < 10; n++) {
            offer(&l, 0, LEN);
            last = l.depart_ns;
        }
        assert_int_equal(last, 10 * MS);
        p.rate_bit_per_s = cases[i].rate_bit_per_s;
        emu_link_set(&l, &p, 2 * MS);
        assert_int_equal(emu_link_retime(&l, 1 * MS), 1 * MS);
        assert_int_equal(emu_link_retime(&l, last), cases[i].last_ns);
        assert_int_equal(offer(&l, 2 * MS, LEN), cases[i].next_ns + 5 * MS);
        emu_link_free(&l);
    }
}

static void test_change_of_delay_keeps_the_order(void **state)
{
    struct emu_params p = {.delay_ns = 100 * MS};
    struct emu_link l;

    (void)state;
    emu_link_init(&l, &p, 1, 0);
    assert_int_equal(offer(&l, 0, LEN), 100 * MS);
    p.delay_ns = 10 * MS;
    emu_link_set(&l, &p, 1 * MS);
    assert_int_equal(offer(&l, 1 * MS, LEN), 100 * MS);
    assert_int_equal(offer(&l, 95 * MS, LEN), 105 * MS);
    p.delay_ns = 200 * MS;
    emu_link_set(&l, &p, 96 * MS);
    assert_int_equal(offer(&l, 96 * MS, LEN), 296 * MS);
    emu_link_free(&l);
}

static void test_large_numbers(void **state)
{
    uint64_t year_ns = 365u * 86400u * (uint64_t)S;
    struct emu_params p = {.rate_bit_per_s = 1000000 * (uint64_t)MBIT,
                           .delay_ns = 10000 * (uint64_t)S};
    struct emu_link l;
    int i;

    (void)state;
    emu_link_init(&l, &p, 1, year_ns);
    assert_int_equal(offer(&l, year_ns, 1000000000), year_ns + 8 * MS + 10000 * (uint64_t)S);
    emu_link_free(&l);

    p = (struct emu_params){.rate_bit_per_s = 1, .burst_bytes = 1000000000000};
    emu_link_init(&l, &p, 1, 0);
    assert_int_equal(offer(&l, 0, 1000000000), 0);
    emu_link_free(&l);

    /* 10 GB in the queue for three hours */
    p = (struct emu_params){.rate_bit_per_s = 8 * MBIT};
    emu_link_init(&l, &p, 1, 0);
    for (i = 0; i < 10; i++)
        offer(&l, 0, 1000000000);
    assert_int_equal(l.depart_ns, 10000 * (uint64_t)S);
    assert_int_equal(truth(&l, 10000 * (uint64_t)S).queue_mean_bytes, 5500000000);
    emu_link_free(&l);
}

static void test_same_seed_same_times(void **state)
{
    struct emu_params p = {.rate_bit_per_s = 100 * MBIT,
                           .jitter_ns = MS,
                           .loss = 0.1,
                           .reorder = 0.1,
                           .reorder_by_ns = MS,
                           .cross = 0.5};
    struct emu_link l[3];
    int i, differ = 0;

    (void)state;
    for (i = 0; i < 3; i++)
        emu_link_init(&l[i], &p, i < 2 ? 11 : 12, 0);
    for (i = 0; i < 1000; i++) {
        uint64_t got = offer(&l[0], (uint64_t)i * MS, LEN);

        assert_int_equal(got, offer(&l[1], (uint64_t)i * MS, LEN));
        differ += got != offer(&l[2], (uint64_t)i * MS, LEN);
    }
    assert_true(differ > 900);
    for (i = 0; i < 3; i++)
        emu_link_free(&l[i]);
}

static void test_time_does_not_go_back(void **state)
{
    struct emu_params p = {.delay_ns = 1};
    struct emu_link l;

    (void)state;
    emu_link_init(&l, &p, 1, 100);
    assert_int_equal(offer(&l, 50, LEN), 101);
    emu_link_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst),
        cmocka_unit_test(test_rate_is_exact_over_a_long_run),
        cmocka_unit_test(test_idle_link_saves_nothing),
        cmocka_unit_test(test_bucket_fills_while_idle),
        cmocka_unit_test(test_queue_counts_waiting_and_in_service),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_jitter_keeps_the_order),
        cmocka_unit_test(test_reordering),
        cmocka_unit_test(test_cross_traffic_evenly_spaced),
        cmocka_unit_test(test_cross_traffic_poisson),
        cmocka_unit_test(test_change_of_rate),
        cmocka_unit_test(test_change_of_delay_keeps_the_order),
        cmocka_unit_test(test_large_numbers),
        cmocka_unit_test(test_same_seed_same_times),
        cmocka_unit_test(test_time_does_not_go_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

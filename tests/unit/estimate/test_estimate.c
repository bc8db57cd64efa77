/* SPDX-License-Identifier: MIT */
/*
 * The rate that the estimator finds in recorded trains (tests/traces) and in trains that are made here. Each of those
 * is just below or just above what a constant allows. A test fails when a constant is halved, and one when it is
 * doubled (tests/mutate).
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimate/estimate.h"

#ifndef TRACES
#define TRACES "tests/traces"
#endif
#define MOST 1000
#define FULL 1500U
#define US AB_NS_PER_US
#define MBIT 1000000ULL

static struct ab_packet packets[MOST];
static uint64_t scratch[MOST];
static size_t count;
static uint64_t clock_ns;
static uint32_t train;

/* The serialisation time of a full packet. */
static uint64_t gap_of(double mbit)
{
    return (uint64_t)(FULL * 8000 / mbit);
}

static double mbit_of(uint64_t gap_ns)
{
    return FULL * 8000.0 / (double)gap_ns;
}

static void begin(void)
{
    count = train = 0;
    clock_ns = AB_NS_PER_S;
}

static void begin_train(void)
{
    clock_ns += 50 * AB_NS_PER_MS;
    packets[count++] = (struct ab_packet){clock_ns, clock_ns, FULL, ++train, false, false};
}

static void add(size_t more, uint64_t gap_ns)
{
    while (more-- > 0) {
        uint64_t sent_ns = packets[count - 1].sent_ns;

        clock_ns += gap_ns;
        assert_true(count < MOST);
        packets[count++] = (struct ab_packet){sent_ns, clock_ns, FULL, train, false, false};
    }
}

static void add_train(size_t gaps, uint64_t gap_ns)
{
    begin_train();
    add(gaps, gap_ns);
}

/* Trains whose rates differ from the middle by 10%, 20% and so on, so that none agrees with another. */
static void add_scattered(size_t trains, size_t gaps, uint64_t middle_ns)
{
    double above = 1.1, below = 1 / 1.1;

    for (size_t i = 0; i < trains; i++) {
        add_train(gaps, (uint64_t)((double)middle_ns * (i % 2 ? above : below)));
        if (i % 2)
            above *= 1.1;
        else
            below /= 1.1;
    }
}

static struct ab_rate rate_of_all(void)
{
    struct ab_rate rate;

    ab_estimate_rate(packets, count, scratch, &rate);
    return rate;
}

static bool is_about(uint64_t rate_bit_per_s, double mbit, double percent)
{
    double error = (double)rate_bit_per_s / 1e6 / mbit - 1;

    return error * 100 <= percent && error * 100 >= -percent;
}

#define EXPECT(what, rate, expected_kind, mbit)                                                    \
    do {                                                                                           \
        CHECK_EQUAL(what, (rate).kind, expected_kind);                                             \
        if (!is_about((rate).rate_bit_per_s, (mbit), 2))                                           \
            fail_msg("%s: %.2f Mbit/s, not %.2f", (what), (double)(rate).rate_bit_per_s / 1e6,     \
                     (double)(mbit));                                                              \
    } while (0)

/* ---- recorded ---- */

static uint64_t read_trace(const char *name, uint64_t *pace)
{
    unsigned long long truth = 0, told = 0, sent_ns;
    char path[500], line[200], received[40];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s.txt", TRACES, name);
    file = fopen(path, "r");
    if (!file)
        fail_msg("%s: cannot be read", path);
    begin();
    while (fgets(line, sizeof line, file)) {
        struct ab_packet *p = &packets[count];
        int merged;

        if (line[0] == '#') {
            sscanf(line, "# rate_bit_per_s %llu", &truth);
            sscanf(line, "# pace_bit_per_s %llu", &told);
            continue;
        }
        assert_true(count < MOST);
        assert_int_equal(sscanf(line, "%u %llu %39s %u %d", &p->train, &sent_ns, received, &p->bytes, &merged), 5);
        p->sent_ns = sent_ns;
        p->received_ns = received[0] == '-' ? AUTOBUF_NS_UNSET : strtoull(received, NULL, 10);
        p->merged = merged;
        count++;
    }
    fclose(file);
    assert_true(count > 40 && truth > 0);
    *pace = told;
    return truth;
}

static void recorded_trains(void **state)
{
    static const struct {
        const char *name;
        unsigned kind;
        double percent; /* largest error */
        bool at_least;
    } rows[] = {
        {"clean-10", AB_KIND_WINDOWS, 0.5, false},
        {"clean-100", AB_KIND_WINDOWS, 0.5, false},
        {"clean-400", AB_KIND_WINDOWS, 1, false},
        {"loss-100", AB_KIND_WINDOWS, 3, false},
        {"short-queue-50", AB_KIND_WINDOWS, 0.5, false},
        {"cross-50", AB_KIND_WINDOWS, 1, false},
        {"cross-100", AB_KIND_CLUSTER, 2, false},
        {"jitter-20", AB_KIND_SLOPE, 10, false},
        {"jitter-100", AB_KIND_SLOPE, 10, false},
        {"stream-100", AB_KIND_WINDOWS, 0.5, false},
        {"stream-paced-50", AB_KIND_BURSTS, 5, false},
        {"stream-paced-over", AB_KIND_SLOWER, 0.5, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t pace, truth = read_trace(rows[i].name, &pace);
        struct ab_rate rate = rate_of_all();
        size_t unpaced = 0, newest = count;

        while (newest > 0 && packets[newest - 1].train == packets[count - 1].train)
            newest--;
        if (strncmp(rows[i].name, "stream", 6) == 0)
            ab_estimate_stream(packets, count, newest, &unpaced, pace, pace != 0, scratch, &rate);
        CHECK_EQUAL(rows[i].name, rate.kind, rows[i].kind);
        CHECK_EQUAL(rows[i].name, rate.at_least, rows[i].at_least);
        CHECK(rows[i].name, is_about(rate.rate_bit_per_s, (double)truth / 1e6, rows[i].percent));
    }
}

/* ---- windows ---- */

/* Trains of one rate, and trains of which none agrees with another. */
static void add_shares(size_t same, size_t scattered, size_t gaps, uint64_t gap_ns)
{
    begin();
    for (size_t i = 0; i < same; i++)
        add_train(gaps, gap_ns);
    add_scattered(scattered, gaps, gap_ns);
}

static void most_windows_have_to_agree(void **state)
{
    static const struct {
        const char *name;
        size_t same, scattered, gaps, piled;
        uint64_t piled_gap_ns;
        bool agrees, sure;
    } rows[] = {
        {"70% of few", 14, 6, 3, 0, 0, true, true},
        {"40% of few", 8, 12, 3, 0, 0, false, false},
        {"40% of a hundred gaps and more", 8, 12, 6, 0, 0, true, false},
        {"20% of a hundred gaps and more", 4, 15, 7, 0, 0, false, false},
        {"40% of many, of which 14% are piled up", 8, 12, 6, 20, 30 * US, true, false},
        {"40% of many, of which 30% are piled up", 8, 12, 6, 51, 30 * US, false, false},
        {"40% of many, 30% shorter, but not piled up", 8, 12, 6, 51, 68 * US, true, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_rate rate;

        add_shares(rows[i].same, rows[i].scattered, rows[i].gaps, 200 * US);
        for (size_t k = 0; k < rows[i].piled; k += 3) /* too short for a window */
            add_train(3, rows[i].piled_gap_ns * (1000 + 8 * k) / 1000);
        rate = rate_of_all();
        CHECK_EQUAL(rows[i].name, rate.kind == AB_KIND_WINDOWS, rows[i].agrees);
        CHECK_EQUAL(rows[i].name, rate.sure, rows[i].sure);
        CHECK_EQUAL(rows[i].name, rate.torn, rate.kind == AB_KIND_SLOPE || rate.kind == AB_KIND_POOLED);
        CHECK(rows[i].name, !rows[i].agrees || is_about(rate.rate_bit_per_s, mbit_of(200 * US), 1));
    }
}

/* In an undisturbed train the widest windows count: half of the train. */
static void undisturbed_windows_are_wide(void **state)
{
    struct ab_rate rate;

    (void)state;
    begin();
    add_train(64, 120 * US);
    rate = rate_of_all();
    EXPECT("a train", rate, AB_KIND_WINDOWS, 100);
    assert_int_equal(rate.window_ns, 32 * 120 * US);
    assert_int_equal(rate.agreement_percent, 100);
    assert_true(rate.sure && !rate.torn && !rate.at_least);
}

static void windows_that_differ_by_more_do_not_agree(void **state)
{
    static const struct {
        uint64_t step_ns;
        bool agrees;
    } rows[] = {{800, true}, {1800, false}}; /* 20 trains: 1.5% either side for 80%, 3.3% */

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        begin();
        for (uint64_t k = 0; k < 21; k++)
            add_train(3, 500 * US + k * rows[i].step_ns);
        assert_int_equal(rate_of_all().kind == AB_KIND_WINDOWS, rows[i].agrees);
    }
}

static void bounds_leave_out_a_tenth(void **state)
{
    struct ab_rate rate;

    (void)state;
    begin();
    for (uint64_t k = 0; k < 21; k++)
        add_train(3, (k == 10 ? 200 : 190 + k) * US);
    for (uint64_t k = 0; k < 21; k++) /* twice as many agree */
        add_train(3, 200 * US);
    rate = rate_of_all();
    assert_int_equal(rate.kind, AB_KIND_WINDOWS);
    assert_true(is_about(rate.low_bit_per_s, mbit_of(206 * US), 0.3));
    assert_true(is_about(rate.high_bit_per_s, mbit_of(194 * US), 0.3));
}

/* A host that stalls, each time longer, with length packets at 1 Gbit/s between two stalls. */
static void add_stalls(size_t stalls, size_t length)
{
    uint64_t stall_ns = 30 * US * length / 2;

    begin();
    begin_train();
    for (size_t i = 0; i < stalls; i++) {
        add(length, 12 * US);
        add(1, stall_ns += 20 * US);
    }
}

/* Stalls stretch wide windows. Windows between stalls show the rate if they are longer than a batch. */
static void narrow_windows_are_read_between_stalls(void **state)
{
    struct ab_rate rate;

    (void)state;
    add_stalls(8, 24);
    rate = rate_of_all();
    assert_true(rate.window_ns >= 75 * US && rate.window_ns < 150 * US);
    assert_true(is_about(rate.rate_bit_per_s, 1000, 2));
    add_stalls(16, 13);
    rate = rate_of_all();
    assert_true(rate.window_ns == 0 || rate.window_ns >= 75 * US);
}

/* ---- the cluster of single gaps ---- */

/* One train of periods: fast gaps, then slow ones that make the mean. */
static void add_periods(size_t periods, size_t fast, uint64_t fast_ns, size_t slow, uint64_t mean_ns)
{
    uint64_t slow_ns = (mean_ns * (fast + slow) - fast * fast_ns) / slow;

    begin();
    begin_train();
    for (size_t i = 0; i < periods; i++) {
        add(fast, fast_ns);
        add(slow, slow_ns);
    }
}

static void cross_traffic_leaves_a_cluster_of_gaps(void **state)
{
    static const struct {
        const char *name;
        size_t fast, slow;
        uint64_t fast_us, mean_us;
        bool cluster;
    } rows[] = {
        {"30% at the capacity", 3, 7, 120, 160, true},
        {"18%: they are errors", 2, 9, 120, 160, false},
        {"a little faster than the windows: the same rate", 3, 7, 1200, 1260, false},
        {"an eighth faster than the windows", 3, 7, 1200, 1344, true},
        {"twice as fast", 4, 6, 120, 240, true},
        {"four times: more than cross traffic does", 4, 6, 120, 480, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_rate rate;

        add_periods(40, rows[i].fast, rows[i].fast_us * US, rows[i].slow, rows[i].mean_us * US);
        rate = rate_of_all();
        EXPECT(rows[i].name, rate, rows[i].cluster ? AB_KIND_CLUSTER : AB_KIND_WINDOWS,
               mbit_of((rows[i].cluster ? rows[i].fast_us : rows[i].mean_us) * US));
    }
}

/* Trains with one rate each: same of one rate, the others of half of it and less. */
static void add_cluster(size_t faster, size_t same, size_t slower, uint64_t gap_ns, unsigned spread_permille)
{
    begin();
    begin_train();
    for (size_t i = 0; i < slower; i++) {
        add(1, gap_ns * (1625 + spread_permille) / 1000 + i * gap_ns * 3 / slower); /* none near another */
        if (i * same / slower != (i + 1) * same / slower)
            add(1, gap_ns + gap_ns * spread_permille * (i * same / slower) / same / 1000);
        if (i * faster / slower != (i + 1) * faster / slower)
            add(1, gap_ns * 2 / 3 - i * gap_ns / 2 / slower);
    }
}

static void what_makes_a_cluster(void **state)
{
    static const struct {
        const char *name;
        size_t faster, same, slower;
        uint64_t gap_ns;
        unsigned spread_permille;
        bool cluster;
    } rows[] = {
        {"windows disagree, 16% at the capacity", 0, 16, 84, 120 * US, 0, true},
        {"windows disagree, 8%", 0, 8, 92, 120 * US, 0, false},
        {"six gaps", 0, 6, 18, 120 * US, 0, true},
        {"three gaps", 0, 3, 12, 120 * US, 0, false},
        {"7% faster: errors", 7, 20, 73, 120 * US, 0, true},
        {"14% faster: no errors, but nothing that agrees", 14, 20, 66, 120 * US, 0, false},
        {"they agree within 6%", 0, 20, 80, 12000 * US, 60, true},
        {"they agree within 12%", 0, 20, 80, 12000 * US, 150, false},
        {"stamps are wrong by 1 us of 12", 0, 14, 86, 12 * US, 165, true},
        {"and not by 2", 0, 14, 86, 12 * US, 250, false},
        {"but at 6 Gbit/s by a quarter of a gap", 0, 14, 86, 2 * US, 360, true},
        {"and not by half", 0, 13, 92, 2 * US, 600, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_rate rate;

        add_cluster(rows[i].faster, rows[i].same, rows[i].slower, rows[i].gap_ns, rows[i].spread_permille);
        rate = rate_of_all();
        CHECK_EQUAL(rows[i].name, rate.kind == AB_KIND_CLUSTER, rows[i].cluster);
        CHECK(rows[i].name, !rows[i].cluster || is_about(rate.rate_bit_per_s, mbit_of(rows[i].gap_ns),
                                                  1 + rows[i].spread_permille / 10.0));
    }
}

/* ---- trains shorter than a batch ---- */

/* Half of the gaps as given, a quarter longer by percent, a quarter far longer. */
static uint64_t uneven(uint64_t gap_ns, size_t number, unsigned percent)
{
    static const unsigned shares[] = {0, 1, 0, 2};

    if (percent == 0 || shares[number % 4] == 0)
        return gap_ns;
    return gap_ns + gap_ns * (shares[number % 4] == 1 ? percent : 40) / 100;
}

static void short_trains_give_a_lower_bound(void **state)
{
    static const struct {
        const char *name;
        size_t trains, gaps;
        uint64_t gap_us;
        unsigned uneven_percent;
        unsigned kind;
    } rows[] = {
        {"even gaps", 1, 8, 12, 0, AB_KIND_EVEN},
        {"too few of them", 1, 5, 12, 0, AB_KIND_PADDED},
        {"nearly even", 1, 20, 10, 8, AB_KIND_EVEN},
        {"uneven", 1, 20, 10, 15, AB_KIND_PADDED},
        {"2 Gbit/s", 1, 20, 6, 0, AB_KIND_EVEN},
        {"3 Gbit/s: as hosts themselves", 1, 20, 4, 0, AB_KIND_PADDED},
        {"one of 280 us", 1, 13, 18, 40, AB_KIND_PADDED},
        {"two of 200 us", 2, 10, 17, 40, AB_KIND_PADDED},
        {"three of 280 us", 3, 13, 18, 40, 0},
        {"one of 480 us", 1, 20, 20, 40, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t span_ns = 0, gap_ns = rows[i].gap_us * US;
        struct ab_rate rate;

        begin();
        for (size_t t = 0; t < rows[i].trains; t++) {
            begin_train();
            for (size_t k = 0; k < rows[i].gaps; k++)
                add(1, uneven(gap_ns, k, rows[i].uneven_percent));
            span_ns += clock_ns - packets[count - 1 - rows[i].gaps].received_ns;
        }
        rate = rate_of_all();
        if (rows[i].kind == 0) {
            CHECK(rows[i].name, rate.kind >= AB_KIND_CLUSTER && !rate.at_least);
            continue;
        }
        CHECK_EQUAL(rows[i].name, rate.kind, rows[i].kind);
        CHECK_EQUAL(rows[i].name, rate.at_least, rows[i].kind == AB_KIND_PADDED);
        CHECK_EQUAL(rows[i].name, rate.sure, rows[i].kind == AB_KIND_EVEN);
        if (rate.at_least) /* a batch may have hidden 300 us */
            CHECK(rows[i].name, is_about(rate.rate_bit_per_s, (double)(rows[i].trains * rows[i].gaps) * 12e6 /
                                                                  (double)(span_ns + 300 * US), 0.1));
        else
            CHECK(rows[i].name, is_about(rate.rate_bit_per_s, mbit_of(gap_ns), 10));
    }
}

static void three_gaps_are_needed(void **state)
{
    (void)state;
    begin();
    add_train(2, 400 * US);
    assert_int_equal(rate_of_all().rate_bit_per_s, 0);
    assert_int_equal(rate_of_all().kind, AB_KIND_NONE);
    begin();
    add_train(3, 400 * US);
    assert_true(is_about(rate_of_all().rate_bit_per_s, mbit_of(400 * US), 0.1));
}

/* Packets that arrive as fast as they were sent show the speed of this host. */
static void a_slow_sender_gives_a_lower_bound(void **state)
{
    static const struct {
        uint64_t sent_us, received_us;
        bool at_least;
    } rows[] = {{50, 50, true}, {50, 53, true}, {50, 70, false}, {20, 120, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_rate rate;

        begin();
        add_train(60, rows[i].received_us * US);
        for (size_t k = 1; k < count; k++)
            packets[k].sent_ns = packets[0].sent_ns + k * rows[i].sent_us * US;
        rate = rate_of_all();
        assert_int_equal(rate.at_least, rows[i].at_least);
        assert_int_equal(rate.kind, rows[i].at_least ? AB_KIND_SENT : AB_KIND_WINDOWS);
        assert_true(is_about(rate.rate_bit_per_s, mbit_of(rows[i].received_us * US), 1));
    }
}

/* ---- batches, and the slope ---- */

static void only_the_first_of_a_batch_begins_a_window(void **state)
{
    static const struct {
        const char *name;
        uint64_t inner_us, outer_us;
        size_t readings;
    } rows[] = {{"a fifth of the mean", 20, 180, 30}, {"a third", 35, 165, 60}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        add_periods(30, 1, rows[i].inner_us * US, 1, (rows[i].inner_us + rows[i].outer_us) / 2 * US);
        CHECK_EQUAL(rows[i].name, ab_readings_of_gaps(packets, count, scratch), rows[i].readings);
    }
}

/* Jitter: arrivals around the line of a rate, in order. */
static void add_torn(size_t more, uint64_t gap_ns, uint64_t *seed)
{
    for (size_t i = 0; i < more; i++)
        add(1, gap_ns / 8 + unit_random(seed) % (gap_ns * 14 / 8));
}

static void torn_trains_have_a_slope(void **state)
{
    static const struct {
        const char *name;
        size_t packets;
        unsigned kind;
    } rows[] = {{"14 packets", 14, AB_KIND_SLOPE}, {"11 packets", 11, AB_KIND_POOLED}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t seed = 11;
        struct ab_rate rate;

        begin();
        for (unsigned k = 0; k < 12; k++) {
            begin_train();
            add_torn(rows[i].packets - 1, 1000 * US, &seed);
        }
        rate = rate_of_all();
        CHECK_EQUAL(rows[i].name, rate.kind, rows[i].kind);
        CHECK(rows[i].name, rate.torn && !rate.sure);
        CHECK(rows[i].name, is_about(rate.rate_bit_per_s, mbit_of(1000 * US), 10));
    }
}

/* A host that was late tore most trains apart. The others count if two agree, and more than disagree. */
static void trains_that_agree_overrule_torn_ones(void **state)
{
    static const struct {
        const char *name;
        size_t gaps;
        uint64_t first_ns, second_ns; /* the gaps of a train, and of another; 0: there is none */
        unsigned times;               /* so many of each */
        bool sure;
    } rows[] = {
        {"two trains agree", 41, 30000, 30000, 1, true},
        {"one alone", 41, 30000, 0, 1, false},
        {"4% between them", 41, 30000, 31200, 1, true},
        {"6%", 41, 30000, 31900, 1, false},
        {"twenty packets", 19, 30000, 30000, 1, true},
        {"one less", 18, 30000, 30000, 1, false},
        {"460 us", 46, 10000, 10000, 1, true},
        {"440 us", 44, 10000, 10000, 1, false},
        {"two and two", 41, 30000, 40000, 2, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t seed = 11;
        struct ab_rate rate;

        begin();
        for (unsigned k = 0; k < 4; k++) {
            begin_train();
            add_torn(40, 1000 * US, &seed);
        }
        for (unsigned k = 0; k < rows[i].times; k++) {
            add_train(rows[i].gaps, rows[i].first_ns);
            if (rows[i].second_ns)
                add_train(rows[i].gaps, rows[i].second_ns);
        }
        rate = rate_of_all();
        CHECK_EQUAL(rows[i].name, !rate.unsure, rows[i].sure);
        if (rows[i].sure) {
            EXPECT(rows[i].name, rate, AB_KIND_WINDOWS, mbit_of(rows[i].first_ns));
            CHECK(rows[i].name,
                  rate.sure && !rate.at_least && rate.low_bit_per_s <= gap_of(1) * MBIT / rows[i].second_ns);
        }
    }
}

/* A ring of eight is full when the torn one comes: with eight sure ones it must not take a place. */
static void a_torn_train_behind_eight_sure_ones(void **state)
{
    (void)state;
    for (unsigned sure = 7; sure <= 9; sure++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            uint64_t random = seed;
            struct ab_rate rate;

            begin();
            for (unsigned k = 0; k < sure; k++)
                add_train(21, 120000);
            begin_train();
            add_torn(149, 120 * US, &random);
            rate = rate_of_all();
            CHECK_EQUAL("unsure", rate.unsure, 0);
        }
    }
}

/* Whoever sends the replies, or merges packets, times them. */
static void no_rate_is_above_10_gbit(void **state)
{
    struct ab_rate rate;

    (void)state;
    begin();
    for (unsigned k = 0; k < 4; k++)
        add_train(200, 800);
    rate = rate_of_all();
    assert_int_equal(rate.rate_bit_per_s, 10000 * MBIT);
    assert_int_equal(rate.high_bit_per_s, 10000 * MBIT);
    assert_true(rate.at_least);
}

static void the_slope_leaves_out_what_was_bunched(void **state)
{
    (void)state;
    begin();
    begin_train();
    add(29, 20 * US); /* the first 30 of 90 */
    add(60, 120 * US);
    assert_true(is_about(ab_slope_of(packets, count), 100, 0.5));
}

/* Behind an overflow packets arrive as the sender sends them. One lost packet is no overflow. */
static void the_slope_ends_where_a_queue_overflowed(void **state)
{
    (void)state;
    begin();
    begin_train();
    add(40, 120 * US);
    add(4, 0);
    add(40, 400 * US);
    for (size_t i = 41; i < 45; i++)
        packets[i].received_ns = AUTOBUF_NS_UNSET;
    assert_true(is_about(ab_slope_of(packets, count), 100, 0.5));
    begin();
    add_train(40, 120 * US);
    packets[6].received_ns = packets[7].received_ns = AUTOBUF_NS_UNSET;
    assert_true(is_about(ab_slope_of(packets, count), 100, 0.5));
}

/* ---- streams ---- */

static struct ab_rate rate_of_stream(size_t newest, uint64_t pace, bool paced, size_t *unpaced)
{
    struct ab_rate rate;

    for (size_t i = 0; i < count; i++)
        packets[i].sent_ns = 0; /* unknown at a receiver */
    *unpaced = 0;
    ab_estimate_stream(packets, count, newest, unpaced, pace, paced, scratch, &rate);
    return rate;
}

/* A paced sender sends bursts, within which the path makes the gaps. */
static void a_paced_sender(void **state)
{
    static const struct {
        const char *name;
        size_t bursts, fast, slow; /* gaps */
        double path_mbit, pace_mbit;
        unsigned uneven_percent, merged; /* of 100 arrivals */
        unsigned kind;
        bool sure;
    } rows[] = {
        {"bursts of two", 30, 1, 1, 100, 40, 0, 0, AB_KIND_BURSTS, true},
        {"a third of gaps within bursts", 20, 1, 2, 100, 40, 0, 0, AB_KIND_BURSTS, true},
        {"a sixth", 20, 1, 5, 100, 40, 0, 0, AB_KIND_CAPPED, false},
        {"five gaps within bursts", 5, 1, 1, 100, 40, 0, 0, AB_KIND_BURSTS, false},
        {"eight are not sure", 8, 1, 1, 100, 40, 0, 0, AB_KIND_BURSTS, false},
        {"twelve are", 12, 1, 1, 100, 40, 0, 0, AB_KIND_BURSTS, true},
        {"three gaps", 3, 1, 1, 100, 40, 0, 0, AB_KIND_CAPPED, false},
        {"twice the pace", 30, 1, 1, 100, 50, 0, 0, AB_KIND_BURSTS, true},
        {"hardly above the pace: its own gaps", 30, 1, 1, 100, 80, 0, 0, AB_KIND_CAPPED, false},
        {"nearly even", 30, 1, 1, 100, 40, 3, 0, AB_KIND_BURSTS, true},
        {"uneven: a host woke up for some", 30, 1, 1, 100, 40, 7, 0, AB_KIND_CAPPED, false},
        {"500 Mbit/s", 30, 1, 1, 500, 200, 0, 0, AB_KIND_BURSTS, true},
        {"1000 Mbit/s: stamps are as wrong as gaps are long", 30, 1, 1, 1000, 400, 0, 0, AB_KIND_CAPPED, false},
        {"7% merged", 40, 1, 1, 100, 40, 0, 7, AB_KIND_BURSTS, true},
        {"15% merged: all gaps may be of batches", 40, 1, 1, 100, 40, 0, 15, AB_KIND_CAPPED, false},
        {"a path that is far slower than the pace", 12, 1, 0, 20, 100, 0, 0, AB_KIND_SLOWER, true},
        {"seven gaps of it are not sure", 7, 1, 0, 20, 100, 0, 0, AB_KIND_SLOWER, false},
        {"not so far", 40, 1, 0, 40, 100, 0, 0, AB_KIND_CAPPED, false},
        {"a slower path, nearly even", 40, 1, 0, 20, 100, 5, 0, AB_KIND_SLOWER, true},
        {"a slower path, uneven", 40, 1, 0, 20, 100, 10, 0, AB_KIND_CAPPED, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t fast_ns = gap_of(rows[i].path_mbit), pace = (uint64_t)(rows[i].pace_mbit * 1e6);
        uint64_t cycle_ns = (rows[i].fast + rows[i].slow) * gap_of(rows[i].pace_mbit);
        size_t unpaced;
        struct ab_rate rate;

        begin();
        begin_train();
        for (size_t k = 0; k < rows[i].bursts; k++) {
            add(rows[i].fast, uneven(fast_ns, k, rows[i].uneven_percent));
            if (rows[i].slow)
                add(rows[i].slow, (cycle_ns - rows[i].fast * fast_ns) / rows[i].slow);
        }
        for (size_t k = 0; k < count * rows[i].merged / 100; k++)
            packets[count * 2 / 3 + k].merged = true;
        rate = rate_of_stream(0, pace, true, &unpaced);
        CHECK_EQUAL(rows[i].name, rate.kind, rows[i].kind);
        CHECK_EQUAL(rows[i].name, rate.sure, rows[i].sure);
        CHECK_EQUAL(rows[i].name, rate.at_least, rows[i].kind == AB_KIND_CAPPED);
        CHECK_EQUAL(rows[i].name, unpaced, count);
        CHECK(rows[i].name, rate.at_least ? (double)rate.rate_bit_per_s <= rows[i].path_mbit * 1e6
                                          : is_about(rate.rate_bit_per_s, rows[i].path_mbit, 6));
        CHECK(rows[i].name, rate.at_least || 100 * rate.low_bit_per_s <= 95 * rate.rate_bit_per_s);
        CHECK(rows[i].name, rate.at_least || 100 * rate.high_bit_per_s >= 105 * rate.rate_bit_per_s);
        CHECK(rows[i].name, rate.at_least || 100 * rate.high_bit_per_s <= 120 * rate.low_bit_per_s);
    }
}

/* Only a train that comes near the computed pace counts as paced. */
static void a_pace_that_is_computed_but_not_applied(void **state)
{
    static const struct {
        double train_mbit;
        bool paced;
    } rows[] = {{100, true}, {82, true}, {125, true}, {60, false}, {180, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t unpaced;
        struct ab_rate rate;

        begin();
        add_train(40, gap_of(rows[i].train_mbit));
        rate = rate_of_stream(0, 100 * MBIT, false, &unpaced);
        assert_int_equal(rate.at_least, rows[i].paced);
        assert_int_equal(unpaced, rows[i].paced ? count : 0);
        assert_true(rows[i].paced || is_about(rate.rate_bit_per_s, rows[i].train_mbit, 1));
    }
}

/* A host that stalls releases a train at once. */
static void one_fast_train_is_replaced_by_the_median(void **state)
{
    static const struct {
        const char *name;
        size_t packets;
        double last_mbit;
        bool mistrusted;
    } rows[] = {
        {"three times as fast as the others", 8, 320, true},
        {"twice as fast", 8, 190, false},
        {"five packets tell nothing as a whole", 5, 320, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t unpaced;
        struct ab_rate rate;

        begin();
        for (unsigned k = 0; k < 4; k++)
            add_train(rows[i].packets - 1, gap_of(100));
        add_train(120, gap_of(rows[i].last_mbit));
        rate = rate_of_stream(4 * rows[i].packets, 0, false, &unpaced);
        EXPECT(rows[i].name, rate, rows[i].mistrusted ? AB_KIND_MEDIAN : AB_KIND_WINDOWS,
               rows[i].mistrusted ? 100 : rows[i].last_mbit);
        CHECK_EQUAL(rows[i].name, rate.at_least, rows[i].mistrusted);
        CHECK(rows[i].name, rate.high_bit_per_s >= (uint64_t)(rows[i].last_mbit * 0.99e6));
    }
}

static void the_median_train_counts(void **state)
{
    static const struct {
        size_t trains;
        double mbit[4], median;
    } rows[] = {{4, {100, 80, 110, 90}, 100}, {1, {100}, 100}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t unpaced;

        begin();
        for (size_t k = 0; k < rows[i].trains; k++)
            add_train(7, gap_of(rows[i].mbit[k]));
        add_train(120, gap_of(400));
        EXPECT("of all trains", rate_of_stream(8 * rows[i].trains, 0, false, &unpaced), AB_KIND_MEDIAN,
               rows[i].median);
    }
}

/* Packets at the end may be in flight, so they are not lost. Small echoes are no packets of a train. */
static void loss_is_counted_up_to_the_last_answer(void **state)
{
    static const struct {
        const char *name;
        unsigned every, tail; /* lost: one of every packets, and tail at the end */
        uint32_t permille;
    } rows[] = {
        {"none", 0, 0, 0}, {"one in ten", 10, 0, 100}, {"none but a tail", 0, 12, 0}, {"both", 10, 13, 103},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        size_t first;

        begin();
        packets[count++] = (struct ab_packet){1, 2000000, 50, 0, false, false};
        packets[count++] = (struct ab_packet){2, AUTOBUF_NS_UNSET, 50, 0, false, false};
        first = count;
        add_train(49, 120000);
        add_train(49, 120000);
        for (size_t at = first; at < count; at++)
            if ((rows[i].every && (at - first) % rows[i].every == 5) || at + rows[i].tail >= count)
                packets[at].received_ns = AUTOBUF_NS_UNSET;
        assert_int_equal(ab_estimate_path(packets, count, scratch, &path), 0);
        CHECK_EQUAL(rows[i].name, path.loss_permille, rows[i].permille);
    }
}

static void every_kind_says_why(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < AB_KINDS; kind++) {
        const char *why = ab_kind_why(kind);

        assert_true(strlen(why) > 20 && strlen(why) < 100 && why[strlen(why) - 1] != '.');
        for (unsigned other = 0; other < kind; other++)
            assert_string_not_equal(why, ab_kind_why(other));
    }
    assert_string_equal(ab_kind_why(AB_KINDS), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_trains),
        cmocka_unit_test(most_windows_have_to_agree),
        cmocka_unit_test(undisturbed_windows_are_wide),
        cmocka_unit_test(windows_that_differ_by_more_do_not_agree),
        cmocka_unit_test(bounds_leave_out_a_tenth),
        cmocka_unit_test(narrow_windows_are_read_between_stalls),
        cmocka_unit_test(cross_traffic_leaves_a_cluster_of_gaps),
        cmocka_unit_test(what_makes_a_cluster),
        cmocka_unit_test(short_trains_give_a_lower_bound),
        cmocka_unit_test(three_gaps_are_needed),
        cmocka_unit_test(a_slow_sender_gives_a_lower_bound),
        cmocka_unit_test(only_the_first_of_a_batch_begins_a_window),
        cmocka_unit_test(torn_trains_have_a_slope),
        cmocka_unit_test(trains_that_agree_overrule_torn_ones),
        cmocka_unit_test(a_torn_train_behind_eight_sure_ones),
        cmocka_unit_test(no_rate_is_above_10_gbit),
        cmocka_unit_test(the_slope_leaves_out_what_was_bunched),
        cmocka_unit_test(the_slope_ends_where_a_queue_overflowed),
        cmocka_unit_test(a_paced_sender),
        cmocka_unit_test(a_pace_that_is_computed_but_not_applied),
        cmocka_unit_test(one_fast_train_is_replaced_by_the_median),
        cmocka_unit_test(the_median_train_counts),
        cmocka_unit_test(loss_is_counted_up_to_the_last_answer),
        cmocka_unit_test(every_kind_says_why),
    };

    return cmocka_run_group_tests_name("estimate", tests, NULL, NULL);
}

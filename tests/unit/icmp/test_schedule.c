/* SPDX-License-Identifier: MIT */
/*
 * When the schedule sends which packet, over a simple simulated path: one link, one queue. For each constant a test
 * fails when it is halved, and one when it is doubled (tests/mutate). tests/sim has more exact paths.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "icmp/schedule.h"

#define MS AB_NS_PER_MS
#define US AB_NS_PER_US
#define FULL 1500U
#define MOST 2000
#define SEND_NS 1000U

/* A path; what is 0 does not disturb. */
struct model {
    double mbit;
    uint64_t rtt_ns;
    uint64_t held_ns;    /* packets sent before this time start at it */
    uint64_t deaf_ns;    /* packets sent before this time are not answered, */
    uint64_t until_ns;   /* nor those sent after this */
    uint64_t jitter_ns;
    uint64_t seed;
    unsigned queue;      /* packets of a train that get through */
    unsigned lost;       /* bit n: packet n of each train, and small echo n */
    uint32_t lost_train; /* its number */
    uint32_t mtu_bytes;  /* larger packets vanish */
    unsigned gaps_us[9]; /* of the first train's arrivals, if any */
    bool stamped;        /* the kernel says when a packet that was held has left */
    bool extra_lost;     /* small echoes after the first five are not answered, */
    bool late;           /* or the last one in the middle of the first stretch */
};

struct answer {
    uint64_t at_ns;
    size_t len;
    uint8_t bytes[AB_ECHO_PARSE_BYTES];
};

static struct run {
    struct ab_schedule schedule;
    struct ab_packet packets[MOST];
    uint64_t scratch[MOST];
    struct answer answers[MOST];
    struct answer lost;
    size_t sent, answered, taken;
    uint64_t busy_ns, last_ns, seed, now_ns;
} run;

/* When the packet that was built last comes back; UNSET: never. */
static uint64_t comes_back(const struct model *m)
{
    const struct ab_packet *p = &run.packets[run.sent];
    unsigned position = 0;
    uint64_t at_ns, wait_ns;

    while (position < run.sent && run.packets[run.sent - position - 1].train == p->train)
        position++;
    if (run.now_ns < m->deaf_ns || (m->until_ns && run.now_ns > m->until_ns))
        return AUTOBUF_NS_UNSET;
    if ((m->lost_train && p->train == m->lost_train) || (m->mtu_bytes && p->bytes > m->mtu_bytes))
        return AUTOBUF_NS_UNSET;
    if (position < 32 && m->lost >> position & 1 && (p->train == 1 || !(m->lost >> 31)))
        return AUTOBUF_NS_UNSET;
    if (m->extra_lost && !p->train && run.sent >= 5)
        return AUTOBUF_NS_UNSET;
    if (p->train && m->queue && position >= m->queue)
        return AUTOBUF_NS_UNSET;
    wait_ns = (uint64_t)(p->bytes * 8000 / m->mbit);
    run.busy_ns = ab_max(run.busy_ns, ab_max(run.now_ns, m->held_ns)) + wait_ns;
    at_ns = run.busy_ns + m->rtt_ns;
    if (m->jitter_ns && p->train)
        at_ns += unit_random(&run.seed) % m->jitter_ns;
    if (p->train == 1 && m->gaps_us[0] && position > 0)
        at_ns = run.last_ns + m->gaps_us[position - 1] * US;
    run.last_ns = ab_max(run.last_ns, at_ns);
    return run.last_ns;
}

/* Sends all there is to send by now; false when the measurement is over. */
static bool send_due(const struct model *m)
{
    uint8_t message[1480];
    int len;

    while ((len = ab_schedule_next(&run.schedule, run.now_ns, message, sizeof message)) > 0) {
        struct answer *a = &run.answers[run.answered];

        a->at_ns = comes_back(m);
        if (m->stamped)
            ab_schedule_stamped(&run.schedule, run.sent, ab_max(run.now_ns, m->held_ns));
        a->len = (size_t)len;
        memcpy(a->bytes, message, sizeof a->bytes);
        a->bytes[0] = run.schedule.echo.ipv6 ? 129 : 0;
        run.answered += a->at_ns != AUTOBUF_NS_UNSET;
        if (a->at_ns == AUTOBUF_NS_UNSET && !run.packets[run.sent].train)
            run.lost = *a;
        run.sent++;
        assert_true(run.sent < MOST);
        run.now_ns += SEND_NS;
    }
    assert_true(len == 0 || len == -ETIME);
    return len == 0;
}

/* The lost echo is answered once a stretch is under way. */
static void answer_late(void)
{
    uint8_t message[1480] = {0};

    if (run.schedule.phase != AB_STRETCHES || run.schedule.count < run.schedule.phase_begin + 10 || !run.lost.len)
        return;
    memcpy(message, run.lost.bytes, sizeof run.lost.bytes);
    ab_schedule_reply(&run.schedule, run.now_ns, message, run.lost.len);
    run.lost.len = 0;
}

static void measure(const struct model *m, const struct autobuf_probe_options *options, bool ipv6)
{
    struct autobuf_probe_options defaults = AUTOBUF_PROBE_OPTIONS_INIT;
    struct ab_echo echo = {.ipv6 = ipv6, .ident = 1, .token = {1, 2, 3}};

    options = options ? options : &defaults;
    memset(&run, 0, sizeof run);
    run.seed = m->seed + 1;
    assert_true(ab_schedule_capacity(options) <= MOST);
    assert_int_equal(ab_schedule_init(&run.schedule, &echo, options, run.packets, run.scratch,
                                      ab_schedule_capacity(options), 0), 0);
    run.schedule.stretches = m->extra_lost ? calloc(1, ab_stretches_bytes()) : NULL;
    while (send_due(m)) {
        uint64_t next_ns = ab_schedule_deadline_ns(&run.schedule);

        if (run.taken < run.answered)
            next_ns = ab_min(next_ns, run.answers[run.taken].at_ns);
        run.now_ns = ab_max(run.now_ns, next_ns);
        while (run.taken < run.answered && run.answers[run.taken].at_ns <= run.now_ns) {
            const struct answer *a = &run.answers[run.taken++];
            uint8_t message[1480] = {0};

            memcpy(message, a->bytes, sizeof a->bytes);
            ab_schedule_reply(&run.schedule, a->at_ns, message, a->len);
        }
        if (m->late)
            answer_late();
    }
}

/* Of a train by its number, 0 for small echoes: packets, and when the first was sent. */
static size_t packets_of(uint32_t train, uint64_t *begin_ns)
{
    size_t packets = 0;

    for (size_t i = 0; i < run.schedule.count; i++) {
        if (run.packets[i].train != train)
            continue;
        if (packets++ == 0 && begin_ns)
            *begin_ns = run.packets[i].sent_ns;
    }
    return packets;
}

static uint64_t begin_of(uint32_t train)
{
    uint64_t begin_ns = 0;

    assert_true(packets_of(train, &begin_ns) > 0);
    return begin_ns;
}

static bool is_about(uint64_t ns, double ms, double off_ms)
{
    return (double)ns / 1e6 >= ms - off_ms && (double)ns / 1e6 <= ms + off_ms;
}

#define CHECK_MS(name, ns, ms)                                                                     \
    do {                                                                                           \
        if (!is_about((ns), (ms), 0.15))                                                           \
            fail_msg("%s: %s is %.2f ms, not %.2f", (name), #ns, (double)(ns) / 1e6, (double)(ms)); \
    } while (0)

/* ---- small echoes ---- */

static void small_echoes_come_first(void **state)
{
    static const struct {
        const char *name;
        struct model path;
        bool ipv6;
        double train_ms; /* when the first train is sent */
    } rows[] = {
        {"all are answered", {.mbit = 1000, .rtt_ns = 50 * MS}, false, 58},
        {"IPv6", {.mbit = 1000, .rtt_ns = 50 * MS}, true, 58},
        {"one is not: a quarter of a round trip more", {.mbit = 1000, .rtt_ns = 50 * MS, .lost = 16}, false,
         50 + 8 + 12.5},
        {"but 5 ms at least", {.mbit = 1000, .rtt_ns = 4 * MS, .lost = 16}, false, 4 + 8 + 5},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        measure(&rows[i].path, NULL, rows[i].ipv6);
        CHECK_EQUAL(rows[i].name, packets_of(0, NULL), 5);
        for (unsigned k = 0; k < 5; k++) {
            CHECK_MS(rows[i].name, run.packets[k].sent_ns, 2 * k);
            CHECK_EQUAL(rows[i].name, run.packets[k].bytes, rows[i].ipv6 ? 84 : 64);
        }
        CHECK_EQUAL(rows[i].name, packets_of(1, NULL), 10);
        CHECK_MS(rows[i].name, begin_of(1), rows[i].train_ms);
    }
}

/* Address resolution or a radio that wakes up delays the first echoes. One that is sent later shows the path's RTT. */
static void bunched_echoes_are_followed_by_an_extra_one(void **state)
{
    static const struct {
        const char *name;
        struct model path;
        size_t small;        /* echoes that were sent */
        double median_ms;
        bool has_range;        /* only BDPs above 3 MB are of interest */
        double end_ms;       /* at most */
    } rows[] = {
        {"3 ms: within the jitter of a path", {.mbit = 100, .rtt_ns = 50 * MS, .held_ns = 3 * MS}, 5, 50, false, 220},
        {"5 ms: three echoes wait", {.mbit = 100, .rtt_ns = 50 * MS, .held_ns = 5 * MS}, 6, 50, false, 220},
        {"90 ms: all wait", {.mbit = 100, .rtt_ns = 50 * MS, .held_ns = 90 * MS}, 6, 50, false, 310},
        {"slow path", {.mbit = 1, .rtt_ns = 100 * MS, .held_ns = 300 * MS}, 7, 100, false, 1100},
        {"the first train, too", {.mbit = 100, .rtt_ns = 50 * MS, .held_ns = 90 * MS}, 6, 50, true, 220},
        {"a train of a BDP in the range", {.mbit = 1000, .rtt_ns = 50 * MS, .held_ns = 200 * MS}, 6, 50, true, 500},
        {"no answer to later echoes", {.mbit = 100, .rtt_ns = 50 * MS, .held_ns = 90 * MS,
                                                .until_ns = 20 * MS}, 8, 138, true, 700},
        {"the extra echo is lost", {.mbit = 100, .rtt_ns = 50 * MS, .held_ns = 90 * MS, .lost = 1U << 5}, 7, 50,
         false, 500},
        {"three of the first are lost", {.mbit = 100, .rtt_ns = 50 * MS, .held_ns = 90 * MS, .lost = 7U << 2},
         6, 50, false, 330},
        {"the same on a shorter path", {.mbit = 100, .rtt_ns = 20 * MS, .held_ns = 20 * MS,
                                                        .lost = 1U << 5}, 7, 20, false, 300},
    };

    (void)state;
    for (size_t k = 0; k < 2 * COUNT(rows); k++) {
        size_t i = k % COUNT(rows);
        struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
        struct model model = rows[i].path;
        struct autobuf_path path;

        model.stamped = k >= COUNT(rows);
        options.bdp_low_bytes = options.bdp_high_bytes = rows[i].has_range ? 3000000 : 0;
        measure(&model, &options, false);
        CHECK_EQUAL(rows[i].name, packets_of(0, NULL), rows[i].small);
        assert_int_equal(ab_schedule_result(&run.schedule, &path), 0);
        if (!is_about(path.rtt_median_ns, rows[i].median_ms, 2) || path.rtt_min_ns > path.rtt_median_ns ||
            (double)path.elapsed_ns / 1e6 > rows[i].end_ms)
            fail_msg("%s: RTT %.2f ms after %.0f ms", rows[i].name, (double)path.rtt_median_ns / 1e6,
                     (double)path.elapsed_ns / 1e6);
    }
}

static struct autobuf_available free_of(bool late)
{
    struct model path = {.mbit = 20, .rtt_ns = 50 * MS, .held_ns = 90 * MS, .extra_lost = true, .late = late};
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_available found = AUTOBUF_AVAILABLE_INIT;

    options.flags = AUTOBUF_PROBE_AVAILABLE;
    measure(&path, &options, false);
    assert_int_equal(late && run.lost.len, 0);
    assert_int_equal(ab_stretches_result(run.schedule.stretches, &found), 0);
    free(run.schedule.stretches);
    return found;
}

/* It was given up, and the search for what is free has begun, which it must not cut short. */
static void an_extra_echo_that_is_answered_late(void **state)
{
    struct autobuf_available found = free_of(false), late = free_of(true);

    (void)state;
    assert_true(found.tx_low_bit_per_s > 15000000);
    assert_memory_equal(&found, &late, sizeof found);
}

static void silence_ends_the_run(void **state)
{
    struct model path = {.mbit = 1000, .rtt_ns = 50 * MS, .deaf_ns = 500 * MS};
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_path found;

    (void)state;
    measure(&path, NULL, false); /* small echoes at 208, 408, 608 ms */
    assert_int_equal(packets_of(0, NULL), 8);
    assert_true(packets_of(2, NULL) > 0);
    path.deaf_ns = AUTOBUF_NS_UNSET;
    for (unsigned k = 0; k < 2; k++) {
        options.silence_ns = k ? 5 * AB_NS_PER_S : 0;
        measure(&path, &options, false);
        assert_int_equal(ab_schedule_result(&run.schedule, &found), AUTOBUF_E_NOREPLY);
        CHECK_MS("silence", run.schedule.finished_ns, 1000);
    }
}

/* A router drops what comes while it resolves an address: the small echoes, and the first packets of a train. */
static void all_small_echoes_are_lost(void **state)
{
    (void)state;
    for (uint64_t late_us = 0; late_us < 20; late_us++) { /* a packet more each time */
        struct model path = {.mbit = 100, .rtt_ns = 50 * MS, .deaf_ns = 8 * MS + late_us * US};
        struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
        struct autobuf_path found;

        options.bdp_low_bytes = 100000;
        options.silence_ns = 300 * MS;
        measure(&path, &options, false);
        assert_true(run.schedule.finished_ns < 500 * MS);
        if (!run.schedule.received)
            continue;
        assert_int_equal(ab_schedule_result(&run.schedule, &found), 0);
        assert_in_range(found.rtt_min_ns, 50 * MS, 52 * MS);
    }
}

/* A process that waits for a processor after it has opened a probe: the run begins when it comes. */
static void a_run_begins_with_its_first_packet(void **state)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct ab_echo echo = {.ident = 1};
    uint64_t open_ns = 5 * AB_NS_PER_S, late_ns = 3 * AB_NS_PER_S;
    uint8_t buf[AB_ECHO_MAX_BYTES];

    (void)state;
    assert_int_equal(ab_schedule_init(&run.schedule, &echo, &options, run.packets, run.scratch,
                                      ab_schedule_capacity(&options), open_ns), 0);
    assert_int_equal(ab_schedule_deadline_ns(&run.schedule), open_ns);
    assert_true(ab_schedule_next(&run.schedule, open_ns + late_ns, buf, sizeof buf) > 0);
    assert_in_range(ab_schedule_deadline_ns(&run.schedule), open_ns + late_ns + 1, open_ns + late_ns + 20 * MS);
}

/* The schedule sends nothing that cannot be answered before the deadline. */
static void a_run_ends_before_its_deadline(void **state)
{
    static const struct {
        const char *name;
        struct model path;
        uint32_t trains;
        uint64_t timeout_ms;
    } rows[] = {
        {"700 ms: no time for a second train within 2 s", {.mbit = 400, .rtt_ns = 700 * MS}, 1, 0},
        {"nor if more time is given", {.mbit = 400, .rtt_ns = 700 * MS}, 1, 5000},
        {"less time", {.mbit = 400, .rtt_ns = 400 * MS}, 2, 1500},
        {"400 ms: within 1.8 s all", {.mbit = 400, .rtt_ns = 400 * MS}, 5, 0},
        {"600 ms late: within 1.4 s no third phase",
         {.mbit = 400, .rtt_ns = 200 * MS, .deaf_ns = 600 * MS}, 2, 0},
        {"300 ms late, 350 ms: within 1.7 s no third phase",
         {.mbit = 400, .rtt_ns = 350 * MS, .deaf_ns = 300 * MS}, 2, 0},
        {"350 ms: within 1.7 s there is", {.mbit = 400, .rtt_ns = 350 * MS}, 5, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;

        if (rows[i].timeout_ms)
            options.timeout_ns = rows[i].timeout_ms * MS;
        measure(&rows[i].path, &options, false);
        CHECK_EQUAL(rows[i].name, run.schedule.trains, rows[i].trains);
        CHECK(rows[i].name, run.schedule.finished_ns < 2000 * MS);
    }
}

/* ---- trains ---- */

static void trains_for_a_rate(void **state)
{
    static const struct {
        const char *name;
        double mbit;
        size_t second, last;  /* packets of a train */
        uint32_t last_trains;
    } rows[] = {
        {"1 Mbit/s: 0.2 s at most", 1, 16, 0, 0},
        {"10 Mbit/s: 64 KB in all", 10, 32, 0, 0},
        {"150 Mbit/s: 32 packets last 2.5 ms", 150, 32, 0, 0},
        {"250 Mbit/s", 250, 32, 53, 3},
        {"400 Mbit/s: trains of 2.5 ms", 400, 32, 84, 3},
        {"10 Gbit/s: no more than 256", 10000, 32, 256, 2},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct model path = {.mbit = rows[i].mbit, .rtt_ns = 30 * MS};

        measure(&path, NULL, false);
        CHECK_EQUAL(rows[i].name, packets_of(1, NULL), 10);
        CHECK_EQUAL(rows[i].name, packets_of(2, NULL), rows[i].second);
        CHECK_EQUAL(rows[i].name, packets_of(3, NULL), rows[i].last);
        CHECK_EQUAL(rows[i].name, run.schedule.trains, 2 + rows[i].last_trains);
        CHECK(rows[i].name, run.schedule.cost_bytes <= (rows[i].last ? 1000000 : 64000));
    }
}

/* The next train begins 1.5 durations after the one before. */
static void trains_are_spaced_by_their_duration(void **state)
{
    struct model path = {.mbit = 400, .rtt_ns = 30 * MS};

    (void)state;
    measure(&path, NULL, false);
    for (uint32_t train = 4; train <= 5; train++)
        CHECK_MS("from train to train", begin_of(train) - begin_of(train - 1), 1.5 * 84 * 0.03 + 0.084);
}

/* 10 Mbit/s are assumed. */
static void a_first_train_without_a_rate(void **state)
{
    struct model path = {.mbit = 100, .rtt_ns = 30 * MS, .lost = 1U << 31 | 0x3fa}; /* of the first: 0 and 2 */

    (void)state;
    measure(&path, NULL, false);
    assert_int_equal(packets_of(2, NULL), 4);
    CHECK_MS("from train to train", begin_of(3) - begin_of(2), 1.5 * 4 * 1.2);
}

static void a_short_queue_cuts_trains(void **state)
{
    static const struct {
        const char *name;
        unsigned queue;
        size_t second;
        uint32_t trains;
    } rows[] = {
        {"nine of ten come through", 9, 32, 2},
        {"seven do", 7, 7, 4},
        {"five do", 5, 5, 4},
        {"two do, but a train has four at least", 2, 4, 4},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct model path = {.mbit = 50, .rtt_ns = 30 * MS, .queue = rows[i].queue};

        measure(&path, NULL, false);
        CHECK_EQUAL(rows[i].name, packets_of(2, NULL), rows[i].second);
        CHECK_EQUAL(rows[i].name, run.schedule.trains, rows[i].trains);
    }
}

/* What is unsure is measured again: three times two trains, at most, that are no shorter than the second one. */
static void an_unsure_rate_is_measured_again(void **state)
{
    static const struct {
        const char *name;
        double mbit;
        unsigned jitter_us;
        uint32_t first, trains; /* of those that are sent again; all, at most */
        size_t size;
    } rows[] = {
        {"no jitter", 100, 0, 0, 2, 0},
        {"jitter of 4 ms", 100, 4000, 3, 8, 42},
        {"a fast path, after its three trains", 800, 400, 6, 12, 42},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct model path = {.mbit = rows[i].mbit, .rtt_ns = 30 * MS, .jitter_ns = rows[i].jitter_us * US, .seed = 1};

        measure(&path, NULL, false);
        CHECK_EQUAL(rows[i].name, run.schedule.trains > 2, rows[i].first != 0);
        CHECK(rows[i].name, run.schedule.trains <= rows[i].trains);
        CHECK(rows[i].name, run.schedule.cost_bytes <= (rows[i].mbit > 200 ? 1000000 : rows[i].first ? 442000 : 64000));
        if (!rows[i].first)
            continue;
        CHECK_EQUAL(rows[i].name, packets_of(rows[i].first, NULL), rows[i].size);
        CHECK(rows[i].name, begin_of(rows[i].first + 1) - begin_of(rows[i].first) >= 6 * MS);
    }
}

/* ---- waiting ---- */

static void unanswered_full_size_packets_become_smaller(void **state)
{
    static const struct {
        const char *name;
        uint64_t rtt_ms;
        uint32_t mtu_bytes;
        uint32_t bytes;    /* of the packets that come through */
        uint32_t trains;   /* without an answer */
        double wait_ms;
    } rows[] = {
        {"a tunnel", 50, 1400, 1280, 1, 150},
        {"a longer path", 300, 1400, 1280, 1, 450},
        {"IPv4's minimum", 50, 1000, 576, 2, 150},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct model path = {.mbit = 50, .rtt_ns = rows[i].rtt_ms * MS, .mtu_bytes = rows[i].mtu_bytes};
        uint32_t last = rows[i].trains + 1;
        struct autobuf_path found;

        measure(&path, NULL, false);
        CHECK_MS(rows[i].name, begin_of(last) - begin_of(last - 1), rows[i].wait_ms);
        CHECK_EQUAL(rows[i].name, run.packets[run.schedule.count - 1].bytes, rows[i].bytes);
        CHECK_EQUAL(rows[i].name, ab_schedule_result(&run.schedule, &found), 0);
        CHECK(rows[i].name, found.flags & AUTOBUF_PATH_BLACK_HOLE);
        CHECK_EQUAL(rows[i].name, found.packet_bytes, rows[i].bytes);
        CHECK_EQUAL(rows[i].name, found.loss_permille, 0);
    }
}

/* Smaller packets may show too low a rate, in both directions. */
static void packets_that_shrank_give_a_bound(void **state)
{
    struct model way = {.mbit = 50, .rtt_ns = 50 * MS};
    struct autobuf_path path;

    (void)state;
    measure(&way, NULL, false);
    assert_int_equal(ab_schedule_result(&run.schedule, &path), 0);
    assert_int_equal(path.flags, AB_PATH_AT_LEAST | AB_PATH_ECHOED);
    ab_schedule_mtu(&run.schedule, 600);
    assert_int_equal(ab_schedule_result(&run.schedule, &path), 0);
    assert_int_equal(path.flags, AB_PATH_AT_LEAST);
}

/* After the newest answer: 10 ms or a quarter of a round trip, and three gaps. */
static void a_lost_packet_is_waited_for(void **state)
{
    static const struct {
        uint64_t rtt_ms;
        double wait_ms;
    } rows[] = {{20, 10 + 3 * 1.2}, {100, 25 + 3 * 1.2}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct model path = {.mbit = 10, .rtt_ns = rows[i].rtt_ms * MS, .queue = 9};

        measure(&path, NULL, false);
        CHECK_MS("wait", begin_of(2) - begin_of(1), (double)rows[i].rtt_ms + 9 * 1.2 + rows[i].wait_ms);
    }
}

/* After the first echo's answer: half a round trip, and 100 ms at least. */
static void a_train_beside_the_echoes_is_waited_for(void **state)
{
    static const struct {
        uint64_t rtt_ms;
        double wait_ms;
    } rows[] = {{50, 100}, {300, 150}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct model path = {.mbit = 1000, .rtt_ns = rows[i].rtt_ms * MS, .until_ns = 1 * MS};
        struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;

        options.bdp_low_bytes = options.bdp_high_bytes = 3000000;
        measure(&path, &options, false);
        CHECK_MS("with the small echoes", begin_of(1), 8);
        CHECK_MS("wait", begin_of(2), (double)rows[i].rtt_ms + rows[i].wait_ms);
    }
}

/* One of three trains is lost: the schedule waits for the next one. */
static void a_lost_train_ends_no_phase(void **state)
{
    struct model path = {.mbit = 10, .rtt_ns = 30 * MS, .queue = 7, .lost_train = 3};

    (void)state;
    measure(&path, NULL, false);
    assert_int_equal(run.schedule.trains, 4);
    assert_int_equal(run.schedule.received, 5 + 7 + 7 + 7);
}

/* On a slow path the second answer comes long after the first, and until then no gap is known. */
static void a_first_answer_alone_ends_no_train(void **state)
{
    static const struct {
        double mbit;
        uint64_t rtt_ms;
    } rows[] = {{1, 5}, {1, 30}, {0.5, 60}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct model path = {.mbit = rows[i].mbit, .rtt_ns = rows[i].rtt_ms * MS};

        measure(&path, NULL, false);
        assert_true(packets_of(2, NULL) >= 10);
        assert_int_equal(run.schedule.trains, 2);
        assert_int_equal(run.schedule.received, run.schedule.count);
    }
}

/* ---- the range of BDPs that matter ---- */

/* A first train whose readings disagree may be 20 times too slow, but not more. Above the range it decides nothing. */
static void a_doubtful_train_ends_the_run_far_below_the_range(void **state)
{
    static const struct {
        const char *name;
        double low, high; /* times the BDP that the train shows */
        bool ends;
    } rows[] = {
        {"the path may be 15 times as fast", 15, 15, false},
        {"but not 27 times", 27, 27, true},
        {"it may be far above", 1.0 / 100, 1.0 / 20, false},
    };
    struct model path = {.mbit = 100, .rtt_ns = 100 * MS, .gaps_us = {60, 500, 150, 900, 70, 1500, 250, 800, 60}};
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct ab_rate rate;
    double bdp;

    (void)state;
    measure(&path, NULL, false);
    ab_estimate_rate(run.packets + 5, 10, run.scratch, &rate);
    assert_true(rate.rate_bit_per_s && !rate.sure && !rate.at_least);
    bdp = (double)rate.rate_bit_per_s * 0.1 / 8;
    for (size_t i = 0; i < COUNT(rows); i++) {
        options.bdp_low_bytes = (uint64_t)(bdp * rows[i].low);
        options.bdp_high_bytes = (uint64_t)(bdp * rows[i].high);
        measure(&path, &options, false);
        CHECK_EQUAL(rows[i].name, run.schedule.trains == 1, rows[i].ends);
    }
}

static void packets_are_no_smaller_than_128_bytes(void **state)
{
    static const struct {
        uint32_t bytes;
        int result;
    } rows[] = {{127, -EINVAL}, {128, 0}, {1500, 0}, {1501, -EINVAL}};
    struct ab_echo echo = {.ident = 1};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;

        options.packet_bytes = rows[i].bytes;
        options.budget_bytes = 50000;
        assert_int_equal(ab_schedule_init(&run.schedule, &echo, &options, run.packets, run.scratch, MOST, 0),
                         rows[i].result);
    }
}

static void note_line(void *user, const struct autobuf_event *event)
{
    snprintf(user, 300, "%s", event->text);
}

static void the_log_says_why(void **state)
{
    static const struct {
        struct model path;
        const char *line;
    } rows[] = {
        {{.mbit = 50, .rtt_ns = 10 * MS}, "50.0 Mbit/s: windows of time agree (100% of the readings)"},
        {{.mbit = 50, .rtt_ns = 10 * MS, .queue = 1}, "no rate: there are too few gaps between replies"},
        {{.mbit = 50000, .rtt_ns = 10 * MS},
         "at least 7764.7 Mbit/s: trains were shorter than a batch may hide, so they tell a lower bound"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
        char line[300] = "";

        options.log = note_line;
        options.log_user = line;
        measure(&rows[i].path, &options, false);
        assert_string_equal(line, rows[i].line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_echoes_come_first),
        cmocka_unit_test(bunched_echoes_are_followed_by_an_extra_one),
        cmocka_unit_test(an_extra_echo_that_is_answered_late),
        cmocka_unit_test(silence_ends_the_run),
        cmocka_unit_test(all_small_echoes_are_lost),
        cmocka_unit_test(a_run_begins_with_its_first_packet),
        cmocka_unit_test(a_run_ends_before_its_deadline),
        cmocka_unit_test(trains_for_a_rate),
        cmocka_unit_test(trains_are_spaced_by_their_duration),
        cmocka_unit_test(a_first_train_without_a_rate),
        cmocka_unit_test(a_short_queue_cuts_trains),
        cmocka_unit_test(an_unsure_rate_is_measured_again),
        cmocka_unit_test(unanswered_full_size_packets_become_smaller),
        cmocka_unit_test(packets_that_shrank_give_a_bound),
        cmocka_unit_test(a_lost_packet_is_waited_for),
        cmocka_unit_test(a_train_beside_the_echoes_is_waited_for),
        cmocka_unit_test(a_lost_train_ends_no_phase),
        cmocka_unit_test(a_first_answer_alone_ends_no_train),
        cmocka_unit_test(a_doubtful_train_ends_the_run_far_below_the_range),
        cmocka_unit_test(packets_are_no_smaller_than_128_bytes),
        cmocka_unit_test(the_log_says_why),
    };

    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* tools/daemon/learn.c: which connections teach something of their path, and what. */
#include "unit.h"

#include <string.h>

#include "daemon/learn.h"

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL
#define RTT_NS (40 * NS_PER_MS)
#define LOOK_NS RTT_NS
#define MBIT_PER_S 125000ULL /* bytes */

/* So many samples, a round trip apart, of one kind. */
struct phase {
    unsigned samples;
    uint32_t bottleneck;
    uint64_t sent_mbit_per_s, received_mbit_per_s;
    uint64_t pacing_bit_per_s;
};

struct course {
    struct learn learn;
    struct ab_tcpinfo seen;
    bool has_gap;      /* a packet is missing: nothing behind it is acknowledged */
    bool counts_bytes; /* the kernel does not count packets */
    unsigned packets_times; /* so many packets come in place of one; 0: one */
    uint64_t more_bytes;    /* that full packets in place of these would have brought */
    uint64_t program_byte_per_s; /* the pace that its program has set since the library did; 0: none */
    struct autobuf_live_state state;
    uint64_t now_ns;
};

static void sample(struct course *c, const struct phase *p)
{
    c->now_ns += LOOK_NS;
    c->state.bottleneck = p->bottleneck;
    c->state.pacing_bit_per_s = p->pacing_bit_per_s;
    if (p->pacing_bit_per_s)
        c->seen.max_pacing_byte_per_s = c->program_byte_per_s ? c->program_byte_per_s : p->pacing_bit_per_s / 8;
    c->state.sent_bit_per_s = p->sent_mbit_per_s * 8 * MBIT_PER_S;
    c->state.sent_bytes += p->sent_mbit_per_s * MBIT_PER_S * LOOK_NS / NS_PER_S;
    c->state.received_bytes += p->received_mbit_per_s * MBIT_PER_S * LOOK_NS / NS_PER_S;
    c->seen.acked_bytes = c->state.sent_bytes;
    c->seen.received_bytes = c->state.received_bytes;
    c->seen.delivered_packets = (uint32_t)(c->state.sent_bytes / 1448);
    if (c->packets_times)
        c->more_bytes += (c->packets_times - 1) * (p->received_mbit_per_s * MBIT_PER_S * LOOK_NS / NS_PER_S);
    c->seen.received_packets = (uint32_t)((c->state.received_bytes + c->more_bytes) / 1448);
    if (c->has_gap)
        c->seen.acked_bytes = c->seen.received_bytes = 100000;
    if (c->counts_bytes)
        c->seen.delivered_packets = c->seen.received_packets = 0;
    learn_sample(&c->learn, &c->state, &c->seen, c->now_ns);
}

static struct course begun(void)
{
    struct course c = {.state = AUTOBUF_LIVE_STATE_INIT, .now_ns = NS_PER_S,
                       .seen = {.mss_bytes = 1448, .rcv_mss_bytes = 1448}};

    c.state.rtt_ns = c.state.rtt_min_ns = RTT_NS;
    c.state.packet_bytes = 1500;
    c.state.sent_bytes = 100000; /* by the time that it is looked after */
    c.state.received_bytes = 100000;
    return c;
}

/* As the kernel tells it. */
static struct ab_tcpinfo final_of(const struct course *c)
{
    return (struct ab_tcpinfo){.rtt_min_ns = RTT_NS - 1000, .acked_bytes = c->state.sent_bytes,
                                .received_bytes = c->state.received_bytes, .busy_ns = c->now_ns, .app_limited = true,
                                .out_of_order_packets = 3};
}

static struct autobuf_prefix host(const char *text)
{
    struct autobuf_prefix prefix;

    assert_int_equal(autobuf_prefix_parse(text, &prefix), 0);
    return prefix;
}

/* A payload rate in IP bytes of 1500-byte packets over IPv4, give or take what rounding does. */
static int is_rate(uint64_t bit_per_s, uint64_t mbit_per_s)
{
    uint64_t wanted = mbit_per_s * 1000000 * 1500 / 1448;

    return bit_per_s + 100000 > wanted && bit_per_s < wanted + 100000;
}

#define PATH AUTOBUF_BOTTLENECK_PATH
#define PEER AUTOBUF_BOTTLENECK_PEER

static const struct row {
    const char *name;
    struct phase phases[4];
    uint64_t tx_mbit_per_s, rx_mbit_per_s; /* 0: nothing is learned */
} rows[] = {
    {"the path limits a sender", {{40, PATH, 100, 0, 0}}, 100, 0},
    {"a receiver whose packets came out of order", {{40, PEER, 0, 100, 0}}, 0, 100},
    {"both ways, one after the other", {{40, PATH, 100, 1, 0}, {40, PEER, 1, 50, 0}}, 100, 50},
    {"acknowledged data of the other way is no bulk", {{40, PATH, 100, 90, 0}}, 100, 0},
    {"too few round trips", {{8, PATH, 100, 0, 0}}, 0, 0},
    {"just enough", {{9, PATH, 100, 0, 0}}, 100, 0},
    {"too few bytes", {{40, PATH, 1, 0, 0}}, 0, 0},
    {"the program has no more to send", {{40, AUTOBUF_BOTTLENECK_SENDER, 100, 0, 0}}, 0, 0},
    {"the buffer limits", {{40, AUTOBUF_BOTTLENECK_SND_BUFFER, 100, 0, 0}}, 0, 0},
    {"autotuning is on its way", {{40, AUTOBUF_BOTTLENECK_UNKNOWN, 100, 0, 0}}, 0, 0},
    {"the peer's window limits", {{40, PEER, 100, 0, 0}}, 0, 0},
    {"the receive buffer limits", {{40, AUTOBUF_BOTTLENECK_RCV_BUFFER, 0, 100, 0}}, 0, 0},
    {"the program here reads slowly", {{40, AUTOBUF_BOTTLENECK_RECEIVER, 0, 100, 0}}, 0, 0},
    {"a pace is set", {{40, PATH, 100, 0, 90000000}}, 0, 0},
    {"one that spreads, as close as may be", {{40, PATH, 100, 0, 119000000}}, 100, 0},
    {"one that nearly limits", {{40, PATH, 100, 0, 111000000}}, 0, 0},
    {"nothing moves", {{40, AUTOBUF_BOTTLENECK_IDLE, 0, 0, 0}}, 0, 0},
    {"a burst is not the rate", {{20, PATH, 100, 0, 0}, {1, PATH, 400, 0, 0}, {19, PATH, 100, 0, 0}}, 138, 0},
    {"the highest that held", {{17, PATH, 20, 0, 0}, {16, PATH, 100, 0, 0}, {16, PATH, 50, 0, 0}}, 100, 0},
    {"most of the time the path", {{33, PATH, 100, 0, 0}, {16, AUTOBUF_BOTTLENECK_SENDER, 10, 0, 0}}, 100, 0},
    {"most of the time the program", {{17, PATH, 100, 0, 0}, {40, AUTOBUF_BOTTLENECK_SENDER, 10, 0, 0}}, 0, 0},
    {"now the path, now the buffer", {{5, PATH, 100, 0, 0}, {4, AUTOBUF_BOTTLENECK_SND_BUFFER, 100, 0, 0},
                                      {4, PATH, 100, 0, 0}}, 0, 0},
};

static void which_connections_teach_what(void **state)
{
    const struct autobuf_prefix remote = host("192.0.2.7");

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct course c = begun();
        struct ab_tcpinfo final;
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
        bool learned;

        for (size_t k = 0; k < COUNT(rows[i].phases); k++)
            for (unsigned n = 0; n < rows[i].phases[k].samples; n++)
                sample(&c, &rows[i].phases[k]);
        final = final_of(&c);
        learned = learn_end(&c.learn, &final, &remote, &e);
        CHECK_EQUAL(rows[i].name, learned, rows[i].tx_mbit_per_s || rows[i].rx_mbit_per_s);
        if (!learned)
            continue;
        if (strcmp(rows[i].name, "a burst is not the rate") == 0) {
            CHECK(rows[i].name, e.tx_rate_bit_per_s < 143000000); /* one round of eight, at four times the rate */
            continue;
        }
        CHECK(rows[i].name, is_rate(e.tx_rate_bit_per_s, rows[i].tx_mbit_per_s) || !rows[i].tx_mbit_per_s);
        CHECK(rows[i].name, is_rate(e.rx_rate_bit_per_s, rows[i].rx_mbit_per_s) || !rows[i].rx_mbit_per_s);
        CHECK_EQUAL(rows[i].name, e.tx_rate_bit_per_s != 0, rows[i].tx_mbit_per_s != 0);
        CHECK_EQUAL(rows[i].name, e.rx_rate_bit_per_s != 0, rows[i].rx_mbit_per_s != 0);
        CHECK_EQUAL(rows[i].name, e.method, AUTOBUF_METHOD_PASSIVE);
        CHECK_EQUAL(rows[i].name, e.flags, (rows[i].tx_mbit_per_s ? AUTOBUF_PATH_TX_AT_LEAST : 0) |
                                               (rows[i].rx_mbit_per_s ? AUTOBUF_PATH_RX_AT_LEAST : 0));
        CHECK_EQUAL(rows[i].name, e.rtt_min_ns, RTT_NS - 1000);
        CHECK_EQUAL(rows[i].name, e.packet_bytes, 1500);
        CHECK_EQUAL(rows[i].name, e.bottleneck, AUTOBUF_BOTTLENECK_PATH);
        CHECK(rows[i].name, e.samples > 0);
        CHECK(rows[i].name, memcmp(&e.remote, &remote, sizeof remote) == 0);
    }
}

#define FINAL(rtt, sent, delivery, busy, rwnd, sndbuf, app)                                                            \
    {                                                                                                                  \
        .rtt_min_ns = (rtt), .acked_bytes = (sent), .delivery_byte_per_s = (delivery), .busy_ns = (busy),              \
        .rwnd_limited_ns = (rwnd), .sndbuf_limited_ns = (sndbuf), .app_limited = (app)                                 \
    }

/* Of a sender that the path limited, what the kernel says last. */
static const struct {
    const char *name;
    unsigned samples;
    struct ab_tcpinfo final;
    bool learned;
} ends[] = {
    {"as it was", 40, FINAL(RTT_NS, 9000000, 1, 4 * NS_PER_S, 0, 0, true), true},
    {"the last sample counts if it says nothing of the time", 40, FINAL(0, 9000000, 0, 0, 0, 0, false), true},
    {"the peer's window", 40, FINAL(RTT_NS, 9000000, 1, 4 * NS_PER_S, 2 * NS_PER_S, 0, true), false},
    {"the buffer", 40, FINAL(RTT_NS, 9000000, 1, 4 * NS_PER_S, 0, 2 * NS_PER_S, true), false},
    {"both a little", 40, FINAL(RTT_NS, 9000000, 1, 4 * NS_PER_S, NS_PER_S * 2 / 5, NS_PER_S * 2 / 5, true), true},
    {"few bytes", 40, FINAL(RTT_NS, 1048575, 1, 4 * NS_PER_S, 0, 0, true), false},
    {"a near peer", 40, FINAL(999999, 9000000, 1, 4 * NS_PER_S, 0, 0, true), false},
    {"closed between two samples, in full flight", 1, FINAL(RTT_NS, 9000000, 12500000, NS_PER_S, 0, 0, false), true},
    {"closed between two samples, and nothing more to send", 1, FINAL(RTT_NS, 9000000, 12500000, NS_PER_S, 0, 0, true),
     false},
    {"closed between two samples, while it was slow", 1, FINAL(RTT_NS, 9000000, 1250000, NS_PER_S, 0, 0, false), false},
    {"closed at once", 1, FINAL(RTT_NS, 9000000, 12500000, NS_PER_S / 10, 0, 0, false), false},
    {"closed between two samples, held back by its buffer", 1, FINAL(RTT_NS, 9000000, 12500000, NS_PER_S, 0, NS_PER_S,
                                                                     false), false},
};

static void the_kernels_last_word(void **state)
{
    static const struct phase sending = {1, PATH, 100, 0, 0};
    const struct autobuf_prefix remote = host("2001:db8::7");

    (void)state;
    for (size_t i = 0; i < COUNT(ends); i++) {
        struct course c = begun();
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

        for (unsigned n = 0; n < ends[i].samples; n++)
            sample(&c, &sending);
        CHECK_EQUAL(ends[i].name, learn_end(&c.learn, &ends[i].final, &remote, &e), ends[i].learned);
        if (ends[i].learned && ends[i].samples == 1)
            CHECK(ends[i].name, e.tx_rate_bit_per_s > 72000000 && e.tx_rate_bit_per_s < 76000000 && e.samples == 1);
        if (ends[i].learned && !ends[i].final.rtt_min_ns)
            CHECK_EQUAL(ends[i].name, e.rtt_min_ns, RTT_NS);
    }
}

/* With a large buffer all is sent for some of the time, and the kernel says so; but it stands in a queue. */
static void a_buffer_that_limits_while_a_queue_stands(void **state)
{
    static const struct {
        const char *name;
        unsigned path, buffer; /* samples; in two thirds of the time of these, and all of those, all was sent */
        uint64_t before_ns;    /* and for so long before the first sample */
        uint64_t rtt_ns, deviation_ns;
        bool learned;
    } courses[] = {{"a queue", 40, 0, 0, RTT_NS * 6 / 5, 0, true},
                   {"none", 40, 0, 0, RTT_NS, 0, false},
                   {"for long before", 40, 0, 3 * NS_PER_S, RTT_NS * 6 / 5, 0, false},
                   {"at last the buffer", 40, 8, 0, RTT_NS * 6 / 5, 0, true},
                   {"at last the buffer, and for long", 28, 20, 0, RTT_NS * 6 / 5, 0, true},
                   {"from the first on the buffer", 0, 48, 0, RTT_NS * 10 / 9, RTT_NS / 20, true},
                   {"its bursts", 0, 48, 0, RTT_NS * 10 / 9, RTT_NS / 16, false}};
    const struct autobuf_prefix remote = host("192.0.2.7");

    (void)state;
    for (size_t i = 0; i < COUNT(courses); i++) {
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
        struct course c = begun();
        struct ab_tcpinfo final;

        c.seen.sndbuf_limited_ns = courses[i].before_ns;
        c.state.rtt_ns = courses[i].rtt_ns;
        c.seen.rtt_deviation_ns = courses[i].deviation_ns;
        for (unsigned n = 0; n < courses[i].path + courses[i].buffer; n++) {
            const struct phase sending = {1, n < courses[i].path ? PATH : AUTOBUF_BOTTLENECK_SND_BUFFER, 100, 0, 0};

            c.seen.sndbuf_limited_ns += n < courses[i].path ? LOOK_NS / 3 * 2 : LOOK_NS;
            sample(&c, &sending);
        }
        final = final_of(&c);
        final.sndbuf_limited_ns = c.seen.sndbuf_limited_ns;
        CHECK_EQUAL(courses[i].name, learn_end(&c.learn, &final, &remote, &e), courses[i].learned);
        final.rwnd_limited_ns = final.busy_ns / 2; /* of the peer's window nothing is excused */
        CHECK_EQUAL(courses[i].name, learn_end(&c.learn, &final, &remote, &e), false);
    }
}

/* A program that sets a pace while the library has one: that limits, not the library's. */
static void a_pace_of_the_program_s_during_a_trial(void **state)
{
    static const struct phase spread = {1, PATH, 100, 0, 500000000};
    const struct autobuf_prefix remote = host("192.0.2.7");
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
    struct ab_tcpinfo final;

    (void)state;
    for (int sets = 0; sets < 2; sets++) {
        struct course c = begun();

        c.program_byte_per_s = sets ? 12500000 : 0;
        for (unsigned n = 0; n < 40; n++)
            sample(&c, &spread);
        final = final_of(&c);
        assert_int_equal(learn_end(&c.learn, &final, &remote, &e), !sets);
    }
}

static void a_receiver_without_gaps_learns_nothing(void **state)
{
    static const struct phase receiving = {1, PEER, 0, 100, 0};
    struct course c = begun();
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
    struct autobuf_prefix remote = host("192.0.2.7");
    struct ab_tcpinfo final;

    (void)state;
    for (unsigned n = 0; n < 40; n++)
        sample(&c, &receiving);
    final = final_of(&c);
    assert_true(learn_end(&c.learn, &final, &remote, &e));
    final.out_of_order_packets = 0;
    assert_false(learn_end(&c.learn, &final, &remote, &e));
}

/* The kernel tells how many packets came, and how long full ones are. */
static void small_packets_are_not_taken_for_full_ones(void **state)
{
    static const struct {
        const char *name;
        /* samples at full packets; then at those of which so many times as many bring the same */
        unsigned full, small, times;
        uint64_t mbit_per_s;
    } peers[] = {
        {"full ones", 40, 0, 1, 100}, {"small ones", 0, 40, 10, 0}, {"small ones after full ones", 40, 40, 10, 100}};
    static const struct phase receiving = {1, PEER, 0, 100, 0};
    const struct autobuf_prefix remote = host("192.0.2.7");

    (void)state;
    for (size_t i = 0; i < COUNT(peers); i++) {
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
        struct course c = begun();
        struct ab_tcpinfo final;

        for (unsigned n = 0; n < peers[i].full + peers[i].small; n++) {
            c.packets_times = n < peers[i].full ? 1 : peers[i].times;
            sample(&c, &receiving);
        }
        final = final_of(&c);
        CHECK_EQUAL(peers[i].name, learn_end(&c.learn, &final, &remote, &e), peers[i].mbit_per_s > 0);
        CHECK(peers[i].name, !peers[i].mbit_per_s || is_rate(e.rx_rate_bit_per_s, peers[i].mbit_per_s));
    }
}

/* 100 Mbit/s x 40 ms are 500 KB, of payload. */
static void a_receiver_that_needed_more_than_autotuning_gives(void **state)
{
    static const struct {
        const char *name;
        uint64_t autotuning_bytes;
        uint32_t bottleneck;
        unsigned samples;
        uint64_t rtt_ns; /* smoothed */
        bool learned;
    } receivers[] = {{"more", 499000, PEER, 40, RTT_NS, true},
                     {"no more", 501000, PEER, 40, RTT_NS, false},
                     {"autotuning is off", 0, PEER, 40, RTT_NS, false},
                     {"its buffer limits", 499000, AUTOBUF_BOTTLENECK_RCV_BUFFER, 40, RTT_NS, false},
                     {"its program is slow", 499000, AUTOBUF_BOTTLENECK_RECEIVER, 40, RTT_NS, false},
                     {"too few round trips", 499000, PEER, 8, RTT_NS, false},
                     {"just enough, after a request that was answered late", 499000, PEER, 9, 2 * RTT_NS, true}};
    const struct autobuf_prefix remote = host("192.0.2.7");

    (void)state;
    for (size_t i = 0; i < COUNT(receivers); i++) {
        const struct phase receiving = {1, receivers[i].bottleneck, 0, 100, 0};
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
        struct course c = begun();
        struct ab_tcpinfo final;

        c.learn.autotuning_bytes = receivers[i].autotuning_bytes;
        c.state.rtt_ns = receivers[i].rtt_ns;
        for (unsigned n = 0; n < receivers[i].samples; n++)
            sample(&c, &receiving);
        final = final_of(&c);
        final.out_of_order_packets = 0;
        CHECK_EQUAL(receivers[i].name, learn_end(&c.learn, &final, &remote, &e), receivers[i].learned);
        if (!receivers[i].learned)
            continue;
        CHECK(receivers[i].name, is_rate(e.rx_rate_bit_per_s, 100) && e.tx_rate_bit_per_s == 0);
        CHECK_EQUAL(receivers[i].name, e.flags, AUTOBUF_PATH_RX_AT_LEAST);
        CHECK_EQUAL(receivers[i].name, e.bottleneck, AUTOBUF_BOTTLENECK_PEER);
    }
}

/* Its program, or an earlier rule, may have set SO_MAX_PACING_RATE. */
static void a_pace_of_others_is_no_rate_of_the_path(void **state)
{
    static const struct {
        uint64_t pace_byte_per_s;
        unsigned samples;
        bool learned;
    } paces[] = {{0, 40, true},        {UINT64_MAX, 40, true}, {12500000, 40, false}, {15000000, 40, false},
                 {20000000, 40, true}, {UINT64_MAX, 1, true},  {9000000, 1, false},   {20000000, 1, true}};
    struct autobuf_prefix remote = host("192.0.2.7");

    (void)state;
    for (size_t i = 0; i < COUNT(paces); i++) {
        static const struct phase sending = {1, PATH, 100, 0, 0};
        struct ab_tcpinfo at_once = {.rtt_min_ns = RTT_NS, .acked_bytes = 9000000, .delivery_byte_per_s = 12500000,
                                     .busy_ns = NS_PER_S};
        struct course c = begun();
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
        struct ab_tcpinfo final;

        c.seen.max_pacing_byte_per_s = paces[i].pace_byte_per_s;
        for (unsigned n = 0; n < paces[i].samples; n++)
            sample(&c, &sending);
        final = paces[i].samples == 1 ? at_once : final_of(&c);
        assert_int_equal(learn_end(&c.learn, &final, &remote, &e), paces[i].learned);
    }
}

/* After eight round trips in which a packet was missing, all that came meanwhile is acknowledged at once. */
static void a_gap_that_is_filled_is_no_burst(void **state)
{
    static const struct phase sending = {1, PATH, 100, 0, 0};
    struct autobuf_prefix remote = host("192.0.2.7");

    (void)state;
    for (int counts_bytes = 0; counts_bytes < 2; counts_bytes++) {
        struct course c = begun();
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
        struct ab_tcpinfo final;

        c.counts_bytes = counts_bytes;
        for (unsigned n = 0; n < 26; n++) {
            c.has_gap = n >= 6 && n < 9;
            sample(&c, &sending);
        }
        final = final_of(&c);
        assert_true(learn_end(&c.learn, &final, &remote, &e));
        assert_true(counts_bytes ? e.tx_rate_bit_per_s > 120000000 : is_rate(e.tx_rate_bit_per_s, 100));
    }
}

/* Before the first sample of a connection its counters are unknown, and what it moved until then took another time. */
static void samples_that_saw_nothing(void **state)
{
    struct autobuf_live_state nothing = {.rtt_ns = AUTOBUF_NS_UNSET, .rtt_min_ns = AUTOBUF_NS_UNSET};
    struct ab_tcpinfo seen = {0};
    struct learn learn = {0};

    (void)state;
    learn_sample(&learn, &nothing, &seen, NS_PER_S);
    assert_int_equal(learn.sampled_ns, 0);
    nothing.rtt_ns = RTT_NS;
    seen.acked_bytes = 1000000;
    learn_sample(&learn, &nothing, &seen, 2 * NS_PER_S);
    learn_sample(&learn, &nothing, &seen, 2 * NS_PER_S);
    learn_sample(&learn, &nothing, &seen, NS_PER_S); /* a clock that runs backwards */
    assert_int_equal(learn.sampled_ns, 2 * NS_PER_S);
    assert_int_equal(learn.courses[LEARN_TX].bulk_ns, 0);
}

static void numbers_that_nobody_expects(void **state)
{
    static const uint64_t values[] = {0, 1, NS_PER_S, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    const struct autobuf_prefix remote = host("192.0.2.7");
    uint64_t seed = 42;

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        struct learn learn = {0};
        struct autobuf_live_state s = AUTOBUF_LIVE_STATE_INIT;
        struct ab_tcpinfo f = {0};
        struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;
        uint64_t *const fields[] = {&s.rtt_ns,          &s.rtt_min_ns,       &s.pacing_bit_per_s,    &f.rtt_min_ns,
                                    &f.acked_bytes,     &f.received_bytes,   &f.delivery_byte_per_s, &f.busy_ns,
                                    &f.rwnd_limited_ns, &f.sndbuf_limited_ns};

        for (unsigned n = 0; n < 12; n++) {
            for (size_t i = 0; i < COUNT(fields); i++)
                *fields[i] = unit_random(&seed) & 1 ? values[unit_random(&seed) % COUNT(values)] : unit_random(&seed);
            s.bottleneck = (uint32_t)(unit_random(&seed) % 10);
            s.packet_bytes = (uint32_t)(unit_random(&seed) % 200);
            f.delivered_packets = (uint32_t)unit_random(&seed);
            f.received_packets = (uint32_t)(unit_random(&seed) & 1);
            f.mss_bytes = f.rcv_mss_bytes = (uint32_t)(unit_random(&seed) >> 32);
            learn_sample(&learn, &s, &f, unit_random(&seed) >> unit_random(&seed) % 64);
        }
        f.out_of_order_packets = 1;
        if (learn_end(&learn, &f, &remote, &e) && e.rtt_min_ns <= 1000 * NS_PER_S && e.packet_bytes <= UINT16_MAX) {
            uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES];

            assert_true(e.tx_rate_bit_per_s <= 1000000000000000ULL && e.rx_rate_bit_per_s <= 1000000000000000ULL);
            assert_true(e.tx_rate_bit_per_s || e.rx_rate_bit_per_s);
            (void)autobuf_paths_entry_encode(&e, message, sizeof message); /* refuses products that no path has */
        }
    }
}

static void which_addresses_are_hosts(void **state)
{
    static const struct {
        const char *text;
        bool host;
    } addresses[] = {
        {"192.0.2.1", true},  {"10.0.0.1", true},  {"223.255.255.255", true}, {"0.0.0.0", false},
        {"0.1.2.3", false},
        {"127.0.0.1", false}, {"127.1.2.3", false}, {"224.0.0.1", false},      {"255.255.255.255", false},
        {"192.0.2.0/24", false},
        {"2001:db8::1", true}, {"fec0::1", true},   {"::", false},             {"::1", false},
        {"ff02::1", false},
        {"2001:db8::/64", false}, {"0.0.0.0/0", false},
        /* each link may have one of those */
        {"fe80::1", false}, {"febf::1", false}, {"169.254.1.1", false}, {"169.253.1.1", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(addresses); i++) {
        struct autobuf_prefix prefix = host(addresses[i].text);

        CHECK_EQUAL(addresses[i].text, learn_is_host(&prefix), addresses[i].host);
    }
    /* ::ffff:192.0.2.1, which no text gives */
    assert_false(learn_is_host(&(struct autobuf_prefix){
        {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1}, .version = 6, .bits = 128}));
    assert_false(learn_is_host(&(struct autobuf_prefix){.version = 0}));
    assert_false(learn_is_host(&(struct autobuf_prefix){.version = 5, .bits = 32}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_connections_teach_what),
        cmocka_unit_test(the_kernels_last_word),
        cmocka_unit_test(a_buffer_that_limits_while_a_queue_stands),
        cmocka_unit_test(a_pace_of_the_program_s_during_a_trial),
        cmocka_unit_test(a_receiver_without_gaps_learns_nothing),
        cmocka_unit_test(small_packets_are_not_taken_for_full_ones),
        cmocka_unit_test(a_receiver_that_needed_more_than_autotuning_gives),
        cmocka_unit_test(a_pace_of_others_is_no_rate_of_the_path),
        cmocka_unit_test(a_gap_that_is_filled_is_no_burst),
        cmocka_unit_test(samples_that_saw_nothing),
        cmocka_unit_test(numbers_that_nobody_expects),
        cmocka_unit_test(which_addresses_are_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

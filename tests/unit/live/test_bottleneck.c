/* SPDX-License-Identifier: MIT */
/* What limits a connection, in one look at it. test_judge.c has more rows, over several looks. */
#include "unit.h"

#include "live/judge.h"

#include "hosts.h"

#define MB 1000000ULL
#define MS AB_NS_PER_MS

/* A sender whose buffer of 4 MB is full, and on its way, at 28 MB/s. */
static struct ab_sample full_buffer(void)
{
    struct ab_sample sample = {.socket = AUTOBUF_SOCKET_INIT};

    sample.info.state = AB_TCP_ESTABLISHED;
    sample.info.mss_bytes = 1448;
    sample.info.unacked_packets = 1900;
    sample.info.cwnd_packets = 4000;
    sample.info.rtt_min_ns = 100 * MS;
    sample.info.tells_peer_window = true;
    sample.info.peer_window_bytes = 16 * MB;
    sample.info.max_pacing_byte_per_s = sample.info.pacing_byte_per_s = UINT64_MAX;
    sample.queued_bytes = 3 * MB;
    sample.socket.snd_buf_bytes = 4194304;
    sample.socket.rcv_buf_bytes = 131072;
    return sample;
}

static void the_direction_that_moves_more_counts(void **state)
{
    static const struct {
        const char *name;
        uint8_t state;
        uint64_t acked, received, unread;
        uint32_t bottleneck;
    } rows[] = {
        {"sends", AB_TCP_ESTABLISHED, 28 * MB, 0, 0, AUTOBUF_BOTTLENECK_SND_BUFFER},
        {"receives", AB_TCP_ESTABLISHED, 0, 28 * MB, 0, AUTOBUF_BOTTLENECK_PEER},
        {"both, alike", AB_TCP_ESTABLISHED, 28 * MB, 28 * MB, 0, AUTOBUF_BOTTLENECK_SND_BUFFER},
        {"both, more comes", AB_TCP_ESTABLISHED, 28 * MB, 28 * MB + 1, 0, AUTOBUF_BOTTLENECK_PEER},
        {"nothing moves, of all that is in flight", AB_TCP_ESTABLISHED, 0, 0, 0, AUTOBUF_BOTTLENECK_PATH},
        {"nothing moves, and data wait", AB_TCP_ESTABLISHED, 0, 0, 40000, AUTOBUF_BOTTLENECK_RECEIVER},
        {"the peer has closed its side", AB_TCP_CLOSE_WAIT, 28 * MB, 0, 0, AUTOBUF_BOTTLENECK_SND_BUFFER},
        {"this side is closed, and the other one sends", AB_TCP_FIN_WAIT2, 0, 28 * MB, 0, AUTOBUF_BOTTLENECK_PEER},
        {"this side is closed, and its data are still sent", AB_TCP_FIN_WAIT1, 28 * MB, 0, 0,
         AUTOBUF_BOTTLENECK_SND_BUFFER},
        {"not connected yet", AB_TCP_SYN_SENT, 28 * MB, 0, 0, AUTOBUF_BOTTLENECK_UNKNOWN},
        {"closed", AB_TCP_CLOSE, 28 * MB, 0, 0, AUTOBUF_BOTTLENECK_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = full_buffer();
        struct ab_bottleneck_sample seen = {.sample = &sample, .limits = &host_6_18,
                                            .acked_byte_per_s = rows[i].acked,
                                       .received_byte_per_s = rows[i].received};

        sample.info.state = rows[i].state;
        sample.unread_bytes = rows[i].unread;
        CHECK_EQUAL(rows[i].name, ab_bottleneck(&seen), rows[i].bottleneck);
    }
}

/* Nothing was acknowledged, and nothing came. */
static void outstanding_data_are_not_idle(void **state)
{
    static const struct {
        const char *name;
        uint32_t unacked, cwnd;
        uint8_t retransmits;
        uint64_t notsent, queued, unread, peer_window;
        uint32_t bottleneck;
    } rows[] = {
        {"idle", 0, 10, 0, 0, 0, 0, 65535, AUTOBUF_BOTTLENECK_IDLE},
        {"idle, the peer's window is closed", 0, 10, 0, 0, 0, 0, 0, AUTOBUF_BOTTLENECK_IDLE},
        {"a request is in flight", 1, 10, 0, 0, 2304, 0, 65535, AUTOBUF_BOTTLENECK_SENDER},
        {"and a rest waits", 1, 10, 0, 100, 2304, 0, 65535, AUTOBUF_BOTTLENECK_SENDER},
        {"it is sent again", 1, 10, 1, 0, 2304, 0, 65535, AUTOBUF_BOTTLENECK_STALLED},
        {"a large packet is lost, and more waits", 11, 1, 3, 30000, 46080, 0, 65535, AUTOBUF_BOTTLENECK_STALLED},
        {"the same of a full buffer", 1900, 1, 5, 200000, 3000000, 0, 16000000, AUTOBUF_BOTTLENECK_STALLED},
        {"the same, and the program reads nothing", 11, 1, 3, 30000, 46080, 40000, 65535, AUTOBUF_BOTTLENECK_STALLED},
        {"an old timer, nothing in flight", 0, 10, 3, 0, 0, 0, 65535, AUTOBUF_BOTTLENECK_IDLE},
        {"a first window is in flight", 10, 10, 0, 0, 23040, 0, 65535, AUTOBUF_BOTTLENECK_PATH},
        {"less, and more is ready", 9, 10, 0, 200000, 223040, 0, 65535, AUTOBUF_BOTTLENECK_PATH},
        {"less, all that the buffer holds", 1900, 4000, 0, 0, 3000000, 0, 16000000, AUTOBUF_BOTTLENECK_PATH},
        {"the peer's window is full", 45, 100, 0, 30000, 92160, 0, 65535, AUTOBUF_BOTTLENECK_PEER},
        {"the peer's window is closed, and data wait", 0, 10, 0, 100, 2304, 0, 0, AUTOBUF_BOTTLENECK_PEER},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = full_buffer();
        struct ab_bottleneck_sample seen = {.sample = &sample, .limits = &host_6_18};

        sample.info.unacked_packets = rows[i].unacked;
        sample.info.cwnd_packets = rows[i].cwnd;
        sample.info.retransmits = rows[i].retransmits;
        sample.info.notsent_bytes = rows[i].notsent;
        sample.info.peer_window_bytes = rows[i].peer_window;
        sample.queued_bytes = rows[i].queued;
        sample.unread_bytes = rows[i].unread;
        CHECK_EQUAL(rows[i].name, ab_bottleneck(&seen), rows[i].bottleneck);
        seen.acked_byte_per_s = 1448;
        assert_int_not_equal(ab_bottleneck(&seen), AUTOBUF_BOTTLENECK_STALLED);
    }
}

static void a_receive_buffer_limits_if_it_cannot_grow(void **state)
{
    static const struct {
        const char *name;
        uint64_t buffer, window_most, arrives, unread;
        uint32_t locks, bottleneck;
    } rows[] = {
        {"locked, its window is full", 2097152, 0, 9 * MB, 0, AUTOBUF_LOCK_RCV, AUTOBUF_BOTTLENECK_RCV_BUFFER},
        {"locked, three quarters of it", 2097152, 0, 7 * MB, 0, AUTOBUF_LOCK_RCV, AUTOBUF_BOTTLENECK_PEER},
        {"only the other side is locked", 2097152, 0, 9 * MB, 0, AUTOBUF_LOCK_SND, AUTOBUF_BOTTLENECK_PEER},
        {"autotuning has reached its limit", 33554432, 0, 150 * MB, 0, 0, AUTOBUF_BOTTLENECK_RCV_BUFFER},
        {"autotuning is half way", 16777216, 0, 150 * MB, 0, 0, AUTOBUF_BOTTLENECK_PEER},
        {"locked, but the window may not be so large", 2097152, 65535, MB, 0, AUTOBUF_LOCK_RCV,
         AUTOBUF_BOTTLENECK_RCV_BUFFER},
        {"data wait in it", 2097152, 0, 9 * MB, 600000, AUTOBUF_LOCK_RCV, AUTOBUF_BOTTLENECK_RECEIVER},
        {"a little waits", 2097152, 0, 9 * MB, 500000, AUTOBUF_LOCK_RCV, AUTOBUF_BOTTLENECK_RCV_BUFFER},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = full_buffer();
        struct ab_bottleneck_sample seen = {.sample = &sample, .limits = &host_6_18,
                                            .received_byte_per_s = rows[i].arrives};

        sample.socket.rcv_buf_bytes = rows[i].buffer;
        sample.socket.rcv_window_max_bytes = rows[i].window_most;
        sample.socket.locks = rows[i].locks;
        sample.unread_bytes = rows[i].unread;
        CHECK_EQUAL(rows[i].name, ab_bottleneck(&seen), rows[i].bottleneck);
    }
}

/* With tcp_moderate_rcvbuf=0. */
static void a_receive_buffer_that_nobody_enlarges(void **state)
{
    struct ab_sample sample = full_buffer();
    struct autobuf_limits limits = host_6_18;
    struct ab_bottleneck_sample seen = {.sample = &sample, .limits = &limits, .received_byte_per_s = MB};

    (void)state;
    sample.socket.rcv_buf_bytes = 131072;
    assert_int_equal(ab_bottleneck(&seen), AUTOBUF_BOTTLENECK_PEER);
    limits.flags &= ~AUTOBUF_LIMITS_RCV_AUTOTUNING;
    assert_int_equal(ab_bottleneck(&seen), AUTOBUF_BOTTLENECK_RCV_BUFFER);
}

/* The pace that the library set itself holds data back, and is no queue of the path. */
static void data_that_wait_for_our_own_pace(void **state)
{
    static const struct {
        const char *name;
        uint64_t spread, most, pacing;
        bool is_spread;
        uint32_t bottleneck;
    } rows[] = {
        {"no pace", 0, UINT64_MAX, UINT64_MAX, false, AUTOBUF_BOTTLENECK_PATH},
        {"ours, and the socket goes at it", 42 * MB, 42 * MB, 42 * MB, true, AUTOBUF_BOTTLENECK_SND_BUFFER},
        {"ours, but congestion control is slower", 42 * MB, 42 * MB, 30 * MB, true, AUTOBUF_BOTTLENECK_PATH},
        {"the program's", 42 * MB, 41 * MB, 41 * MB, false, AUTOBUF_BOTTLENECK_PATH},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = full_buffer();
        struct ab_bottleneck_sample seen = {.sample = &sample, .limits = &host_6_18,
                                            .acked_byte_per_s = 28 * MB,
                                       .pace_byte_per_s = rows[i].spread};

        sample.info.notsent_bytes = 200000;
        sample.info.max_pacing_byte_per_s = rows[i].most;
        sample.info.pacing_byte_per_s = rows[i].pacing;
        CHECK_EQUAL(rows[i].name, ab_bottleneck_is_paced(&sample, rows[i].spread), rows[i].is_spread);
        CHECK_EQUAL(rows[i].name, ab_bottleneck(&seen), rows[i].bottleneck);
    }
}

static void all_of_a_full_buffer_is_on_its_way(void **state)
{
    static const struct {
        const char *name;
        uint64_t queued, notsent, buffer;
        uint32_t unacked;
        bool all;
    } rows[] = {
        {"all", 3 * MB, 0, 4194304, 1900, true},
        {"all but a rest", 3 * MB, 100000, 4194304, 1900, true},
        {"much waits", 3 * MB, 140000, 4194304, 1900, false},
        {"little, but a fifth of what there is", 3 * MB, 100000, 4194304, 280, false},
        {"half full", 2 * MB, 0, 4194304, 1300, false},
        {"autotuning still enlarges it", 3 * MB, 0, 3000000, 1900, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ab_sample sample = full_buffer();
        const struct ab_bottleneck_sample seen = {.sample = &sample, .limits = &host_6_18,
                                                  .acked_byte_per_s = 28 * MB};

        sample.queued_bytes = rows[i].queued;
        sample.info.notsent_bytes = rows[i].notsent;
        sample.info.unacked_packets = rows[i].unacked;
        sample.socket.snd_buf_bytes = rows[i].buffer;
        CHECK_EQUAL(rows[i].name, ab_bottleneck_sent_all(&seen), rows[i].all);
    }
}

static void rates_of_counters(void **state)
{
    const struct ab_tcpinfo measured = {.rtt_min_ns = 3, .rcv_rtt_ns = 9}, received = {.rcv_rtt_ns = 9};

    (void)state;
    assert_int_equal(ab_per_second(3000, 1000, AB_NS_PER_S / 2), 4000);
    assert_int_equal(ab_per_second(1000, 3000, AB_NS_PER_S), 0);
    assert_int_equal(ab_per_second(3000, 1000, 0), 0);
    assert_int_equal(ab_in_time(28 * MB, 100 * MS), 2800000);
    assert_true(ab_at_least(90, 90, 100) && !ab_at_least(89, 90, 100));
    assert_int_equal(ab_rcv_rtt_ns(&measured), 3);
    assert_int_equal(ab_rcv_rtt_ns(&received), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_direction_that_moves_more_counts),
        cmocka_unit_test(outstanding_data_are_not_idle),
        cmocka_unit_test(a_receive_buffer_limits_if_it_cannot_grow),
        cmocka_unit_test(a_receive_buffer_that_nobody_enlarges),
        cmocka_unit_test(data_that_wait_for_our_own_pace),
        cmocka_unit_test(all_of_a_full_buffer_is_on_its_way),
        cmocka_unit_test(rates_of_counters),
    };

    return cmocka_run_group_tests_name("bottleneck", tests, NULL, NULL);
}

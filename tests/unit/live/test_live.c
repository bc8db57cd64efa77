/* SPDX-License-Identifier: MIT */
/* How live works with a real socket. tests/net and tests/sim test its effect on a transfer. */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "live/live.h"
#include "sockets.h"

#define S 1000000000ULL

static int try_open(struct ab_live **live, int fd, const struct autobuf_options *options)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;

    assert_int_equal(autobuf_limits_host(&limits), 0);
    return ab_live_open(live, fd, options, &limits);
}

static struct ab_live *opened(int fd)
{
    const struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct ab_live *live;

    assert_int_equal(try_open(&live, fd, &options), 0);
    return live;
}

static void only_an_open_tcp_connection(void **state)
{
    const struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct ab_live *live = (struct ab_live *)&live;
    int fresh = tcp_socket(), listener = tcp_listener(), pipes[2], udp;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(try_open(&live, fresh, &options), -ENOTCONN);
    assert_null(live);
    assert_int_equal(try_open(&live, listener, &options), -ENOTCONN);
    assert_int_equal(try_open(&live, udp, &options), -EOPNOTSUPP);
    assert_int_equal(try_open(&live, pipes[0], &options), -ENOTSOCK);
    assert_int_equal(try_open(&live, closed_fd(), &options), -EBADF);
    assert_null(live);
    close(fresh);
    close(listener);
    close(udp);
    close(pipes[0]);
    close(pipes[1]);
}

static void steps_when_it_is_time(void **state)
{
    struct autobuf_live_state s = AUTOBUF_LIVE_STATE_INIT;
    struct connection c = tcp_connection();
    struct ab_live *live = opened(c.client);
    char bytes[1000] = {0};

    (void)state;
    assert_int_equal(ab_judge_next_ns(&live->judge), 0);
    ab_live_state(live, &s); /* before any look */
    assert_true(s.rtt_ns == AUTOBUF_NS_UNSET && s.rtt_min_ns == AUTOBUF_NS_UNSET);
    assert_int_equal(ab_live_step(live, S), 0);
    assert_true(ab_judge_next_ns(&live->judge) > S);
    assert_true(ab_judge_next_ns(&live->judge) <= 2 * S);
    assert_int_equal(send(c.client, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    assert_int_equal(recv(c.accepted, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    assert_int_equal(ab_live_step(live, S + 1), 0); /* too early: nothing was looked at */
    ab_live_state(live, &s);
    assert_int_equal(s.sent_bytes, 1); /* the SYN counts */
    assert_int_equal(ab_live_step(live, 3 * S), 0);
    assert_int_equal(ab_live_step(live, S / 2), 0); /* a clock that ran backwards */
    assert_true(ab_judge_next_ns(&live->judge) < 2 * S);
    ab_live_state(live, &s);
    assert_true(s.sent_bytes > 1 && s.sent_bytes <= sizeof bytes + 1);
    assert_true(s.snd_buf_bytes > 0 && s.rcv_buf_bytes > 0);
    assert_in_range(s.rtt_ns, 1, AUTOBUF_NS_UNSET - 1);
    ab_live_close(live, true);
    close_connection(&c);
}

/* All that a step may not do to a connection that nothing is wrong with. */
static void a_healthy_connection_is_left_alone(void **state)
{
    struct connection c = tcp_connection();
    struct socket_state before = state_of(c.client), after;
    struct ab_live *live = opened(c.client);

    (void)state;
    for (uint64_t now_ns = S; now_ns < 20 * S; now_ns += S / 2)
        assert_int_equal(ab_live_step(live, now_ns), 0);
    ab_live_close(live, true);
    after = state_of(c.client);
    assert_true(same_state(&before, &after));
    close_connection(&c);
}

static uint32_t notsent_of(int fd)
{
    uint32_t bytes = 0;
    socklen_t len = sizeof bytes;

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &len), 0);
    return bytes;
}

static void move_bytes(const struct connection *c, size_t most)
{
    static char bytes[65536];

    for (size_t moved = 0; moved < most; moved += sizeof bytes) {
        assert_int_equal(send(c->client, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
        assert_int_equal(recv(c->accepted, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    }
}

/*
 * Steps while the peer takes what is sent, until the bound is this or enough went; returns how many steps changed
 * something.
 */
static unsigned changes_until(const struct connection *c, struct ab_live *live, uint32_t bound)
{
    unsigned changes = 0;

    for (uint64_t now_ns = 3 * S; now_ns < 40 * S && notsent_of(c->client) != bound; now_ns += 2 * S) {
        int result;

        move_bytes(c, 4194304);
        result = ab_live_step(live, now_ns);
        assert_in_range(result, 0, 1);
        changes += (unsigned)result;
    }
    return changes;
}

/* The bound that was set with a larger buffer is for peers that do not read. */
static void what_waits_for_a_reader_is_less_bounded(void **state)
{
    static const struct {
        const char *name;
        uint32_t bound, intent, flags;
        bool rises;
    } rows[] = {
        {"ours", 524288, 0, 0, true},
        {"the program's", 524289, 0, 0, false},
        {"for low delay", 524288, AUTOBUF_INTENT_LOW_DELAY, 0, false},
        {"the sending side is the program's", 524288, AUTOBUF_INTENT_RECEIVES, 0, false},
        {"who only looks", 524288, 0, AUTOBUF_FLOW_OBSERVE, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        struct autobuf_live_state seen = AUTOBUF_LIVE_STATE_INIT;
        struct connection c = tcp_connection();
        struct ab_live *live;
        unsigned changes;

        if (state_of(c.client).snd_buf <= 1048576)
            skip(); /* a small net.ipv4.tcp_wmem */
        options.intent = rows[i].intent;
        options.flags = rows[i].flags;
        assert_int_equal(setsockopt(c.client, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &rows[i].bound, sizeof rows[i].bound), 0);
        assert_int_equal(try_open(&live, c.client, &options), 0);
        move_bytes(&c, 65536);
        assert_int_equal(ab_live_step(live, S), 0);
        CHECK_EQUAL(rows[i].name, notsent_of(c.client), rows[i].bound);
        changes = changes_until(&c, live, rows[i].rises ? (uint32_t)state_of(c.client).snd_buf : 0);
        ab_live_state(live, &seen);
        if (rows[i].rises) {
            CHECK(rows[i].name, changes > 0 && seen.changes >= changes);
            CHECK(rows[i].name, notsent_of(c.client) > rows[i].bound);
            CHECK(rows[i].name, notsent_of(c.client) <= (uint32_t)state_of(c.client).snd_buf);
        } else { /* on a busy host a pace may change */
            CHECK_EQUAL(rows[i].name, notsent_of(c.client), rows[i].bound);
        }
        ab_live_close(live, true);
        close_connection(&c);
    }
}

/*
 * Four times as much may wait as the peer has taken. The bound rises only once that is twice the bound that there is.
 */
static void what_waits_is_four_times_what_was_taken(void **state)
{
    static const struct {
        const char *name;
        unsigned moved_bytes; /* until this step, in all */
        bool rises;
    } rows[] = {
        {"a quarter of the bound", 131072, false}, {"three eighths", 196608, false}, {"seven eighths", 458752, true}};
    const uint32_t bound = 524288;
    struct connection c = tcp_connection();
    struct ab_live *live;
    unsigned moved_bytes = 0;

    (void)state;
    if (state_of(c.client).snd_buf <= 2097152)
        skip(); /* a small net.ipv4.tcp_wmem */
    assert_int_equal(setsockopt(c.client, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bound, sizeof bound), 0);
    live = opened(c.client);
    for (size_t i = 0; i < COUNT(rows); i++) {
        move_bytes(&c, rows[i].moved_bytes - moved_bytes);
        moved_bytes = rows[i].moved_bytes;
        CHECK_EQUAL(rows[i].name, ab_live_step(live, (1 + 2 * i) * S), rows[i].rises);
        CHECK_EQUAL(rows[i].name, notsent_of(c.client) >= 2 * bound, rows[i].rises);
    }
    assert_true(notsent_of(c.client) <= 4 * moved_bytes + 4);
    ab_live_close(live, true);
    close_connection(&c);
}

static void a_descriptor_that_was_closed_or_reused(void **state)
{
    struct connection c = tcp_connection(), other = tcp_connection();
    struct ab_live *live = opened(c.client);

    (void)state;
    assert_int_equal(ab_live_step(live, S), 0);
    assert_int_equal(dup2(other.client, c.client), c.client);
    assert_int_equal(ab_live_step(live, 3 * S), -ESTALE);
    assert_int_equal(close(c.client), 0);
    assert_int_equal(ab_live_step(live, 5 * S), -EBADF);
    ab_live_close(live, true);
    c.client = dup(other.client);
    close_connection(&c);
    close_connection(&other);
}

static void a_connection_that_is_over(void **state)
{
    struct connection c = tcp_connection();
    struct ab_live *live = opened(c.client);
    struct linger now = {1, 0};
    char byte;

    (void)state;
    assert_int_equal(setsockopt(c.accepted, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    close(c.accepted); /* resets it */
    assert_int_equal(recv(c.client, &byte, 1, 0), -1);
    assert_int_equal(ab_live_step(live, S), -ENOTCONN);
    ab_live_close(live, true);
    c.accepted = dup(c.listener);
    close_connection(&c);
}

static void keep_size_event(void *user, const struct autobuf_event *event)
{
    struct autobuf_event *kept = user;

    if (event->side == AUTOBUF_LOCK_SND)
        *kept = *event;
}

/* The size is the same before and after, until autotuning changes it: so the event says what was done. */
static void what_is_given_back_is_not_resized(void **state)
{
    static const struct {
        uint64_t request_bytes;
        uint32_t flags, what;
    } rows[] = {{0, AUTOBUF_PLAN_SND_UNLOCK, AUTOBUF_EVENT_GIVEN_BACK}, {65536, 0, AUTOBUF_EVENT_RESIZED}};
    const int own = 32768;

    (void)state;
    if (!locks_are_known())
        skip();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
        struct autobuf_event told = {.what = AUTOBUF_EVENT_NOTE};
        struct connection c = tcp_connection();
        struct ab_live *live;

        assert_int_equal(setsockopt(c.client, SOL_SOCKET, SO_SNDBUF, &own, sizeof own), 0);
        options.log = keep_size_event;
        options.log_user = &told;
        assert_int_equal(try_open(&live, c.client, &options), 0);
        plan.snd_request_bytes = rows[i].request_bytes;
        plan.flags = rows[i].flags;
        assert_int_equal(ab_live_apply(live, &plan, "a test"), 1);
        assert_int_equal(told.what, rows[i].what);
        assert_int_equal(told.before_bytes, 2 * own);
        assert_int_equal(told.after_bytes, rows[i].request_bytes ? 2 * rows[i].request_bytes : 2 * (uint64_t)own);
        ab_live_close(live, true);
        close_connection(&c);
    }
}

static uint32_t pace_of(int fd)
{
    uint32_t byte_per_s = 0;
    socklen_t len = sizeof byte_per_s;

    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &byte_per_s, &len), 0);
    return byte_per_s;
}

static void a_scavenger_s_pace_is_put_back(void **state)
{
    const uint32_t own[] = {UINT32_MAX, 100000000};

    (void)state;
    for (size_t i = 0; i < COUNT(own); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        struct connection c = tcp_connection();
        struct ab_live *live;

        options.intent = AUTOBUF_INTENT_SCAVENGER;
        assert_int_equal(setsockopt(c.client, SOL_SOCKET, SO_MAX_PACING_RATE, &own[i], sizeof own[i]), 0);
        assert_int_equal(try_open(&live, c.client, &options), 0);
        assert_int_equal(ab_live_step(live, S), 0);
        move_bytes(&c, 131072);
        assert_int_equal(ab_live_step(live, 11 * S), 1);
        assert_true(pace_of(c.client) < own[i]); /* two times what came through in 10 s, or 10 packets in 20 ms */
        ab_live_close(live, true);
        assert_int_equal(pace_of(c.client), own[i]);
        close_connection(&c);
    }
}

/* Writes 64 KB each 200 ms, of the test's clock, until there is a pace; returns the time, a minute if there is none. */
static uint64_t write_until_paced(const struct connection *c, struct ab_live *live)
{
    const struct autobuf_path unknown = AUTOBUF_PATH_INIT;
    uint64_t now_ns;

    for (now_ns = S; now_ns < 60 * S && pace_of(c->client) == UINT32_MAX; now_ns += S / 5) {
        move_bytes(c, 65536);
        assert_in_range(ab_live_step(live, now_ns), 0, 1);
        assert_in_range(ab_live_search(live, now_ns, &unknown), 0, 1);
    }
    return now_ns;
}

/* What is free is searched only if that is asked for, and its paces are put back. */
static void a_search_s_pace_is_put_back(void **state)
{
    static const struct {
        const char *name;
        uint32_t flags, intent;
        bool searched, closed;
    } rows[] = {
        {"to its end", AUTOBUF_FLOW_AVAILABLE, 0, true, false},
        {"closed meanwhile", AUTOBUF_FLOW_AVAILABLE, AUTOBUF_INTENT_SENDS, true, true},
        {"not asked for", 0, 0, false, true},
        {"who only looks", AUTOBUF_FLOW_AVAILABLE | AUTOBUF_FLOW_OBSERVE, 0, false, true},
        {"the sending side is the program's", AUTOBUF_FLOW_AVAILABLE, AUTOBUF_INTENT_RECEIVES, false, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        struct connection c = tcp_connection();
        struct ab_live *live;
        static char bytes[196608];
        uint64_t now_ns;
        uint32_t held;

        options.flags = rows[i].flags;
        options.intent = rows[i].intent;
        /* With bbr nothing is searched. */
        assert_int_equal(setsockopt(c.client, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), 0);
        assert_int_equal(try_open(&live, c.client, &options), 0);
        now_ns = write_until_paced(&c, live);
        held = pace_of(c.client);
        CHECK_EQUAL(rows[i].name, held != UINT32_MAX, rows[i].searched);
        CHECK(rows[i].name, !rows[i].searched || now_ns >= 11 * S);
        if (!rows[i].closed) { /* of what waits now a stretch is sent */
            assert_int_equal(send(c.client, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
            assert_int_equal(ab_live_step(live, now_ns += S / 50), 1);
            CHECK(rows[i].name, pace_of(c.client) > 2 * held && pace_of(c.client) != UINT32_MAX);
            assert_int_equal(recv(c.accepted, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
            assert_int_equal(ab_live_step(live, now_ns += S / 5), 1);
            CHECK_EQUAL(rows[i].name, pace_of(c.client), UINT32_MAX);
        }
        ab_live_close(live, true);
        CHECK_EQUAL(rows[i].name, pace_of(c.client), UINT32_MAX);
        close_connection(&c);
    }
}

static int clamp_of(int fd)
{
    int bytes = 0;
    socklen_t len = sizeof bytes;

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, &len), 0);
    return bytes;
}

/* One that is past slow start, of at most 50 KB in a round trip. */
static struct ab_live *receiving(const struct connection *c)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct ab_live *live;

    options.intent = AUTOBUF_INTENT_SCAVENGER;
    assert_int_equal(try_open(&live, c->accepted, &options), 0);
    assert_int_equal(ab_live_step(live, S), 0);
    live->judge.receiver = (struct ab_scavenger){.byte_per_s = 5000000, .most_byte_per_s = 5000000, .hold = 100,
                                                 .pause_ns = UINT64_MAX, .base_ns[0] = 10000000, .base_begin_ns = S};
    return live;
}

static int window_of(const struct ab_live *live)
{
    uint64_t bytes = ab_scavenger_window(&live->judge.receiver, live->judge.last.info.rcv_mss_bytes);

    assert_true(bytes > 0);
    return (int)ab_min(bytes, 0x3fffffff);
}

static bool is_locked(int fd)
{
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;

    assert_int_equal(autobuf_socket_state(fd, &socket), 0);
    return socket.locks & AUTOBUF_LOCK_RCV;
}

/* Autotuning has to leave the clamp alone, so the side is locked while its buffer has room. */
static void a_scavenger_s_window_is_held_and_put_back(void **state)
{
    const int other = 1000000;

    (void)state;
    if (!locks_are_known())
        skip();
    for (int own = 0; own <= 1; own++) {
        struct connection c = tcp_connection_of(1448);
        struct ab_live *live;
        int before = 0;

        if (own)
            set_option(c.accepted, SO_RCVBUF, 20000);
        live = receiving(&c);
        for (uint64_t at_s = 2; at_s <= 3; at_s++) {
            move_bytes(&c, 65536);
            before = before ? before : clamp_of(c.accepted);
            assert_int_equal(ab_live_step(live, at_s * S), 0); /* nothing that is to be told */
            assert_int_equal(clamp_of(c.accepted), own && before < window_of(live) ? before : window_of(live));
            assert_true(is_locked(c.accepted));
            assert_int_equal(live->judge.last.socket.locks & AUTOBUF_LOCK_RCV, own ? AUTOBUF_LOCK_RCV : 0);
            assert_int_equal(setsockopt(c.accepted, IPPROTO_TCP, TCP_WINDOW_CLAMP, &other, sizeof other), 0);
        }
        ab_live_close(live, true);
        assert_int_equal(is_locked(c.accepted), own);
        assert_true(own ? clamp_of(c.accepted) == before : clamp_of(c.accepted) >= before);
        close_connection(&c);
    }
}

/* A window for which the buffer has no room must let autotuning go on. */
static void a_window_beyond_the_buffer_is_not_locked(void **state)
{
    struct connection c = tcp_connection_of(1448);
    struct ab_live *live = receiving(&c);

    (void)state;
    if (!locks_are_known())
        skip();
    live->judge.receiver.byte_per_s = 1000000000000;
    move_bytes(&c, 65536);
    assert_int_equal(ab_live_step(live, 2 * S), 0);
    assert_int_equal(clamp_of(c.accepted), window_of(live));
    assert_false(is_locked(c.accepted));
    ab_live_close(live, false);
    close_connection(&c);
}

/* Its rate changes at the second of these samples: a pause is due, and that is told. */
static void a_window_is_told(void **state)
{
    struct connection c = tcp_connection_of(1448);
    struct ab_live *live = receiving(&c);

    (void)state;
    if (!locks_are_known())
        skip();
    live->judge.receiver.hold = 1;
    live->judge.receiver.pause_ns = 1;
    move_bytes(&c, 65536);
    assert_int_equal(ab_live_step(live, 2 * S), 0);
    live->judge.receiver.base_ns[0] = UINT32_MAX; /* whatever its RTT is, no queue stands */
    live->judge.receiver.base_begin_ns = 0;
    move_bytes(&c, 65536);
    assert_int_equal(ab_live_step(live, 3 * S), 1);
    assert_int_equal(live->window_bytes, clamp_of(c.accepted));
    ab_live_close(live, true);
    close_connection(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_an_open_tcp_connection),
        cmocka_unit_test(steps_when_it_is_time),
        cmocka_unit_test(a_healthy_connection_is_left_alone),
        cmocka_unit_test(what_waits_for_a_reader_is_less_bounded),
        cmocka_unit_test(what_waits_is_four_times_what_was_taken),
        cmocka_unit_test(a_descriptor_that_was_closed_or_reused),
        cmocka_unit_test(a_connection_that_is_over),
        cmocka_unit_test(what_is_given_back_is_not_resized),
        cmocka_unit_test(a_scavenger_s_pace_is_put_back),
        cmocka_unit_test(a_search_s_pace_is_put_back),
        cmocka_unit_test(a_scavenger_s_window_is_held_and_put_back),
        cmocka_unit_test(a_window_beyond_the_buffer_is_not_locked),
        cmocka_unit_test(a_window_is_told),
    };

    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}

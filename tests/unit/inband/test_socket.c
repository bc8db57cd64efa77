/* SPDX-License-Identifier: MIT */
/* The exchange on real sockets over loopback. */
#include "exchange.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/net_tstamp.h>

#include "sockets.h"
#include "base/base.h"

#define PATIENCE_MS 10000

static int tcp_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof value;

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, option, &value, &len), 0);
    return value;
}

/* Steps both until the initiator is over; its state. */
static int step_both(struct autobuf_inband *a, struct autobuf_inband *b)
{
    for (;;) {
        struct pollfd fds[2] = {
            {autobuf_inband_fd(a), (short)autobuf_inband_events(a), 0},
            {autobuf_inband_fd(b), (short)autobuf_inband_events(b), 0},
        };
        int state_b = autobuf_inband_step(b, autobuf_now_ns());
        int state_a = autobuf_inband_step(a, autobuf_now_ns());

        if (state_a != 0 || state_b < 0)
            return state_a ? state_a : state_b;
        fds[0].events = (short)autobuf_inband_events(a);
        fds[1].events = (short)autobuf_inband_events(b);
        assert_true(poll(fds, 2, PATIENCE_MS) > 0);
    }
}

static void test_exchange(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_path here = AUTOBUF_PATH_INIT, there = AUTOBUF_PATH_INIT;
    struct autobuf_inband *initiator, *responder;

    (void)state;
    assert_int_equal(autobuf_inband_open(&initiator, AUTOBUF_INBAND_INITIATOR, c.client, NULL), 0);
    assert_int_equal(autobuf_inband_open(&responder, AUTOBUF_INBAND_RESPONDER, c.accepted, NULL),
                     0);
    assert_int_equal(autobuf_inband_fd(initiator), c.client);
    assert_int_equal(step_both(initiator, responder), 1);
    assert_true(autobuf_inband_result(initiator, &here) <= 0);
    assert_true(autobuf_inband_result(responder, &there) <= 0);
    assert_int_equal(here.tx_rate_bit_per_s, there.rx_rate_bit_per_s);
    assert_int_equal(here.rx_rate_bit_per_s, there.tx_rate_bit_per_s);
    assert_in_range(here.rtt_min_ns, 1, 1000 * MS);
    assert_in_range(here.cost_bytes, 1, 1010000);
    autobuf_inband_close(initiator);
    autobuf_inband_close(responder);
    close_connection(&c);
}

/* One write has more lines than a step reads: each is answered, with poll() alone. */
static void test_more_lines_than_a_step_reads(void **state)
{
    static const char lines[] = "AUTOBUF HELLO 1\r\nAUTOBUF RESULT\r\n";
    struct connection c = tcp_connection();
    struct autobuf_inband *responder;
    unsigned answers = 0;

    (void)state;
    assert_int_equal(autobuf_inband_open(&responder, AUTOBUF_INBAND_RESPONDER, c.accepted, NULL),
                     0);
    for (unsigned i = 0; i < 128; i++) /* nobody reads meanwhile */
        assert_int_equal(send(c.client, lines, sizeof lines - 1, 0), sizeof lines - 1);
    while (answers < 256) {
        struct pollfd fds[2] = {{c.accepted, (short)autobuf_inband_events(responder), 0},
                                {c.client, POLLIN, 0}};
        char text[1000];
        ssize_t got = 0;

        if (poll(fds, 2, PATIENCE_MS) <= 0)
            fail_msg("stuck after %u answers", answers);
        if (fds[0].revents)
            assert_true(autobuf_inband_step(responder, autobuf_now_ns()) >= 0);
        if (fds[1].revents)
            got = recv(c.client, text, sizeof text, 0);
        for (ssize_t i = 0; i < got; i++)
            answers += text[i] == '\n';
    }
    assert_int_equal(autobuf_inband_events(responder), POLLIN);
    autobuf_inband_close(responder);
    close_connection(&c);
}

/* Blocking or not, the socket's options and the bytes behind the exchange stay the caller's. */
static void test_socket_is_the_callers(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_inband *initiator, *responder;
    char text[10] = "";

    (void)state;
    assert_int_equal(tcp_option(c.client, TCP_NODELAY), 0);
    set_option(c.accepted, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE);
    set_option(c.accepted, SO_RCVLOWAT, 3);
    assert_int_equal(autobuf_inband_open(&initiator, AUTOBUF_INBAND_INITIATOR, c.client, NULL), 0);
    assert_int_equal(autobuf_inband_open(&responder, AUTOBUF_INBAND_RESPONDER, c.accepted, NULL),
                     0);
    assert_int_equal(tcp_option(c.client, TCP_NODELAY), 1);
    assert_int_equal(step_both(initiator, responder), 1);
    /* The responder has answered RESULT; this follows at once, and is the application's. */
    assert_int_equal(send(c.accepted, "next\r\n", 6, MSG_NOSIGNAL), 6);
    assert_int_equal(autobuf_inband_step(initiator, autobuf_now_ns()), 1);
    assert_int_equal(recv(c.client, text, sizeof text, 0), 6);
    assert_string_equal(text, "next\r\n");
    autobuf_inband_close(initiator);
    autobuf_inband_close(responder);
    assert_int_equal(tcp_option(c.client, TCP_NODELAY), 0);
    assert_int_equal(option_of(c.client, SO_TIMESTAMPING), 0);
    assert_int_equal(option_of(c.accepted, SO_TIMESTAMPING), SOF_TIMESTAMPING_TX_SOFTWARE);
    assert_int_equal(option_of(c.accepted, SO_RCVLOWAT), 3);
    assert_true(locks_are(c.accepted, 0));
    close_connection(&c);
}

/* A program's SO_RCVLOWAT would hide a short line from poll(). */
static void test_low_water(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_inband *ib;

    (void)state;
    set_option(c.client, SO_RCVLOWAT, 4096);
    assert_int_equal(autobuf_inband_open(&ib, AUTOBUF_INBAND_INITIATOR, c.client, NULL), 0);
    assert_int_equal(option_of(c.client, SO_RCVLOWAT), 1);
    autobuf_inband_close(ib);
    assert_int_equal(option_of(c.client, SO_RCVLOWAT), 4096);
    close_connection(&c);
}

/* A program that has set its buffer keeps its window clamp, too. */
static void test_clamp_of_a_set_buffer(void **state)
{
    struct connection c = tcp_connection();
    int clamp = 8000, prepared;

    (void)state;
    set_option(c.client, SO_RCVBUF, 100000);
    assert_int_equal(setsockopt(c.client, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof clamp), 0);
    prepared = autobuf_inband_prepare(c.client);
    assert_true(prepared >= 0);
    assert_int_equal(tcp_option(c.client, TCP_WINDOW_CLAMP), clamp);
    autobuf_inband_restore(c.client, prepared);
    assert_int_equal(tcp_option(c.client, TCP_WINDOW_CLAMP), clamp);
    close_connection(&c);
}

/* The descriptor became another socket. */
static void test_another_socket_is_left_alone(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_inband *ib;
    int other, on = 1;

    (void)state;
    assert_int_equal(autobuf_inband_open(&ib, AUTOBUF_INBAND_INITIATOR, c.client, NULL), 0);
    other = tcp_socket();
    assert_int_equal(setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    assert_int_equal(dup2(other, c.client), c.client);
    autobuf_inband_close(ib);
    assert_int_equal(tcp_option(other, TCP_NODELAY), 1);
    close(other);
    close_connection(&c);
}

/* Bytes behind an answer stay in the socket. */
static void test_nothing_is_read_too_far(void **state)
{
    static const char lines[] = "500 Unknown command.\r\n220 Another line\r\n";
    struct connection c = tcp_connection();
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    char text[100] = "";
    int usable = -1;

    (void)state;
    assert_int_equal(send(c.accepted, lines, sizeof lines - 1, 0), sizeof lines - 1);
    assert_int_equal(autobuf_inband(c.client, NULL, &path, &usable), AUTOBUF_E_UNSUPPORTED);
    assert_int_equal(usable, 1);
    assert_int_equal(recv(c.client, text, sizeof text, 0), 18);
    assert_string_equal(text, "220 Another line\r\n");
    assert_int_equal(recv(c.accepted, text, sizeof text, 0), 44);
    assert_memory_equal(text, "AUTOBUF HELLO 1 train=463360 budget=463360\r\n", 44);
    close_connection(&c);
}

static void test_blocking(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int usable = -1, status, result;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        struct autobuf_inband *ib = NULL;
        int over = autobuf_inband_open(&ib, AUTOBUF_INBAND_RESPONDER, c.accepted, NULL);

        while (over >= 0) { /* until this end's peer has had enough */
            struct pollfd p = {c.accepted, (short)autobuf_inband_events(ib), 0};

            if (poll(&p, 1, PATIENCE_MS) <= 0)
                _exit(2);
            over = autobuf_inband_step(ib, autobuf_now_ns());
        }
        _exit(over == -ENOTCONN ? 7 : 1);
    }
    result = autobuf_inband(c.client, NULL, &path, &usable);
    assert_int_equal(usable, 1);
    assert_true(result == 0 || result == AUTOBUF_E_FEW);
    assert_int_equal(shutdown(c.client, SHUT_WR), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    close_connection(&c);
}

static void test_peer_that_goes(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct linger reset = {1, 0};
    int usable = -1, result;

    (void)state;
    assert_int_equal(shutdown(c.accepted, SHUT_WR), 0);
    assert_int_equal(autobuf_inband(c.client, NULL, &path, &usable), -ECONNRESET);
    assert_int_equal(usable, 0);
    close_connection(&c);
    c = tcp_connection();
    setsockopt(c.accepted, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(c.accepted);
    c.accepted = dup(c.client);
    result = autobuf_inband(c.client, NULL, &path, &usable);
    assert_true(result == -ECONNRESET || result == -ENOTCONN || result == -EPIPE);
    close_connection(&c);
}

static void test_silent_peer(void **state)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    struct connection c = tcp_connection();
    struct autobuf_inband *ib;
    uint64_t limit_ns;

    (void)state;
    options.timeout_ns = 1;
    assert_int_equal(autobuf_inband_open(&ib, AUTOBUF_INBAND_INITIATOR, c.client, &options), 0);
    assert_int_equal(autobuf_inband_step(ib, autobuf_now_ns()), 0);
    limit_ns = autobuf_inband_deadline_ns(ib);
    assert_in_range(limit_ns, autobuf_now_ns(), autobuf_now_ns() + 2001 * MS);
    assert_int_equal(autobuf_inband_step(ib, limit_ns), -ETIMEDOUT);
    autobuf_inband_close(ib);
    close_connection(&c);
}

static void test_facts(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    struct autobuf_inband *ib;
    int pipes[2];

    (void)state;
    assert_int_equal(autobuf_inband_facts(c.client, &facts), 0);
    assert_true(facts.segment_bytes > 500 && facts.packet_bytes - facts.segment_bytes >= 40);
    assert_true(facts.packet_bytes - facts.segment_bytes <= 72);
    assert_true(facts.train_bytes > 0 && facts.rtt_min_ns > 0);
    facts.size = 0;
    assert_int_equal(autobuf_inband_facts(c.client, &facts), -EINVAL);
    facts.size = sizeof facts;
    assert_int_equal(autobuf_inband_facts(c.listener, &facts), -ENOTCONN);
    assert_int_equal(autobuf_inband_facts(closed_fd(), &facts), -EBADF);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(autobuf_inband_facts(pipes[0], &facts), -ENOTSOCK);
    assert_int_equal(autobuf_inband_open(&ib, AUTOBUF_INBAND_RESPONDER, pipes[0], NULL), -ENOTSOCK);
    assert_null(ib);
    assert_int_equal(autobuf_inband_prepare(pipes[0]), -ENOTSOCK);
    close(pipes[0]);
    close(pipes[1]);
    close_connection(&c);
}

/* bbr and SO_MAX_PACING_RATE pace; others only compute a pacing rate. */
static void test_pace(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;
    unsigned int rate = 1000000;

    (void)state;
    assert_int_equal(setsockopt(c.client, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), 0);
    assert_int_equal(autobuf_inband_facts(c.client, &facts), 0);
    assert_int_equal(facts.flags & AUTOBUF_INBAND_PACED, 0);
    assert_int_equal(setsockopt(c.client, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate), 0);
    assert_int_equal(autobuf_inband_facts(c.client, &facts), 0);
    assert_int_equal(facts.flags & AUTOBUF_INBAND_PACED, AUTOBUF_INBAND_PACED);
    assert_in_range(facts.pace_bit_per_s, 1, 8000000);
    close_connection(&c);
}

/* An earlier answer of the host counts; a new one is one of three. */
static void test_pace_of_the_host(void **state)
{
    const uint32_t known = AUTOBUF_INBAND_HOST_PACES | AUTOBUF_INBAND_HOST_FREE;
    const struct {
        uint32_t before, after;
        bool pace;
    } rows[] = {
        {AUTOBUF_INBAND_HOST_FREE, AUTOBUF_INBAND_HOST_FREE, false},
        {AUTOBUF_INBAND_HOST_PACES, AUTOBUF_INBAND_HOST_PACES | AUTOBUF_INBAND_PACED, true},
        {known, known, true},
    };
    struct connection c = tcp_connection_of(88); /* TCP's least: a pace that can be, however near the peer */
    struct autobuf_inband_facts facts = AUTOBUF_INBAND_FACTS_INIT;

    (void)state;
    assert_int_equal(setsockopt(c.client, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), 0);
    assert_int_equal(autobuf_inband_facts(c.client, &facts), 0);
    assert_true(facts.flags & known);
    for (size_t i = 0; i < COUNT(rows); i++) {
        facts.flags = rows[i].before;
        assert_int_equal(autobuf_inband_facts(c.client, &facts), 0);
        assert_int_equal(facts.flags, rows[i].after);
        assert_int_equal(facts.pace_bit_per_s > 0, rows[i].pace);
    }
    close_connection(&c);
}

/* A responder's window opens after HELLO, and for no other line; an initiator's at once. */
static void test_window_opens_with_hello(void **state)
{
    struct connection c = tcp_connection();
    int before = option_of(c.accepted, SO_RCVBUF);
    struct autobuf_inband *initiator, *responder;

    (void)state;
    assert_true(before < 500000 && option_of(c.client, SO_RCVBUF) < 500000);
    assert_int_equal(autobuf_inband_open(&responder, AUTOBUF_INBAND_RESPONDER, c.accepted, NULL),
                     0);
    assert_int_equal(option_of(c.accepted, SO_RCVBUF), before);
    assert_int_equal(send(c.client, "AUTOBUF TRAIN 1\r\n", 17, 0), 17);
    assert_true(autobuf_inband_step(responder, autobuf_now_ns()) >= 0);
    assert_int_equal(option_of(c.accepted, SO_RCVBUF), before);
    assert_int_equal(send(c.client, "AUTOBUF HELLO 1\r\n", 17, 0), 17);
    assert_true(autobuf_inband_step(responder, autobuf_now_ns()) >= 0);
    assert_true(option_of(c.accepted, SO_RCVBUF) >= 500000);
    assert_int_equal(autobuf_inband_open(&initiator, AUTOBUF_INBAND_INITIATOR, c.client, NULL), 0);
    assert_true(option_of(c.client, SO_RCVBUF) >= 500000);
    autobuf_inband_close(initiator);
    autobuf_inband_close(responder);
    close_connection(&c);
}

static void test_stamps(void **state)
{
    struct connection c = tcp_connection();
    uint64_t before_ns, stamp_ns = 0;
    struct pollfd p = {c.client, POLLIN, 0};
    int prepared = autobuf_inband_prepare(c.client);
    char buf[10];

    (void)state;
    assert_true(prepared >= 0);
    assert_int_equal(autobuf_inband_receive(c.client, buf, sizeof buf, &stamp_ns), -EAGAIN);
    before_ns = autobuf_now_ns();
    assert_int_equal(send(c.accepted, "abc", 3, 0), 3);
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_int_equal(autobuf_inband_receive(c.client, buf, sizeof buf, &stamp_ns), 3);
    /* On loopback it is there when send() returns; unless the kernel had not yet begun to stamp. */
    assert_in_range(stamp_ns, before_ns - MS, autobuf_now_ns());
    shutdown(c.accepted, SHUT_WR);
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_int_equal(autobuf_inband_receive(c.client, buf, sizeof buf, &stamp_ns), 0);
    autobuf_inband_restore(c.client, prepared);
    assert_int_equal(option_of(c.client, SO_TIMESTAMPING), 0);
    assert_int_equal(autobuf_inband_receive(closed_fd(), buf, sizeof buf, &stamp_ns), -EBADF);
    close_connection(&c);
}

/* With AUTOBUF=off the measurement runs, but nothing is enlarged. */
static void test_off(void **state)
{
    struct connection c = tcp_connection();
    int before = option_of(c.client, SO_RCVBUF), prepared;

    (void)state;
    ab_environment_read("off");
    prepared = autobuf_inband_prepare(c.client);
    assert_int_equal(option_of(c.client, SO_RCVBUF), before);
    autobuf_inband_restore(c.client, prepared);
    ab_environment_read(NULL);
    close_connection(&c);
}

/* Initiator - one connection - this test - another - responder: what it carries, it can cut. */
struct wire {
    struct connection connections[2];
    struct autobuf_inband *ends[2];
    unsigned carried;
};

static void wire_open(struct wire *w)
{
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;

    options.budget_bytes = 6000;
    w->carried = 0;
    for (unsigned i = 0; i < 2; i++) {
        w->connections[i] = tcp_connection_of(1000);
        assert_int_equal(
            autobuf_inband_open(&w->ends[i], i + 1, w->connections[i].client, &options), 0);
    }
}

static void wire_close(struct wire *w)
{
    for (unsigned i = 0; i < 2; i++) {
        autobuf_inband_close(w->ends[i]);
        close_connection(&w->connections[i]);
    }
}

/* Carries up to most bytes in all, or until the initiator is over. */
static void wire_carry(struct wire *w, unsigned most)
{
    bool moved = true;

    while (moved || w->carried < most) {
        int responder = autobuf_inband_step(w->ends[1], autobuf_now_ns());
        int initiator = autobuf_inband_step(w->ends[0], autobuf_now_ns());
        char bytes[500];

        assert_true(responder >= 0 && initiator >= 0);
        if (initiator == 1)
            return;
        moved = false;
        for (unsigned i = 0; i < 2 && w->carried < most; i++) {
            size_t left = most - w->carried;
            ssize_t got = recv(w->connections[i].accepted, bytes,
                               left < sizeof bytes ? left : sizeof bytes, MSG_DONTWAIT);

            if (got <= 0)
                continue;
            assert_int_equal(
                send(w->connections[1 - i].accepted, bytes, (size_t)got, MSG_NOSIGNAL), got);
            w->carried += (unsigned)got;
            moved = true;
        }
    }
}

static void wire_reset(struct wire *w)
{
    struct linger reset = {1, 0};

    for (unsigned i = 0; i < 2; i++) {
        struct connection *c = &w->connections[i];

        setsockopt(c->accepted, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(c->accepted);
        c->accepted = dup(c->client);
    }
}

static void reset_at(unsigned at)
{
    struct wire w;
    int result;

    wire_open(&w);
    wire_carry(&w, at);
    wire_reset(&w);
    for (unsigned i = 0; i < 2; i++) {
        int before = autobuf_inband_finished(w.ends[i]);

        while ((result = autobuf_inband_step(w.ends[i], autobuf_now_ns())) == 0)
            ;
        if (i == 0 || before == 0)
            if (result != -ECONNRESET && result != -EPIPE && result != -ENOTCONN)
                fail_msg("end %u, cut at %u: %d", i, at, result);
    }
    wire_close(&w);
}

/* A reset after each byte of the lines, and at many places within the trains. */
static void test_reset_at(void **state)
{
    struct wire w;
    unsigned total;

    (void)state;
    wire_open(&w);
    wire_carry(&w, UINT32_MAX);
    assert_int_equal(autobuf_inband_finished(w.ends[0]), 1);
    total = w.carried;
    wire_close(&w);
    assert_true(total > 8000);
    /* Numbers have more digits in one run than in another, so that the last bytes may be none. */
    for (unsigned at = 0; at < total - 50; at += at < 250 || at > total - 150 ? 1 : 197)
        reset_at(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_more_lines_than_a_step_reads),
        cmocka_unit_test(test_socket_is_the_callers),
        cmocka_unit_test(test_low_water),
        cmocka_unit_test(test_clamp_of_a_set_buffer),
        cmocka_unit_test(test_another_socket_is_left_alone),
        cmocka_unit_test(test_nothing_is_read_too_far),
        cmocka_unit_test(test_blocking),
        cmocka_unit_test(test_peer_that_goes),
        cmocka_unit_test(test_silent_peer),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_pace_of_the_host),
        cmocka_unit_test(test_window_opens_with_hello),
        cmocka_unit_test(test_stamps),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_reset_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Data connections of an FTP session, on loopback: which buffers SET sets, and for which peers. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ftp/ftp.h"

#include "sockets.h"

#define BOTH (AUTOBUF_INTENT_SENDS | AUTOBUF_INTENT_RECEIVES)

/*
 * A server's session whose client wants as much as can be had. Over loopback its SET would be worth nothing, so
 * what it wants is put where SET puts it.
 */
static struct autobuf_ftp *wishing(const struct connection *control, uint64_t most_bytes)
{
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    struct autobuf_ftp *ftp;

    options.most_bytes = most_bytes;
    assert_int_equal(
        autobuf_ftp_open(&ftp, AUTOBUF_FTP_SERVER, control->accepted, &options), 0);
    ftp->rcv_wanted_bytes = ftp->snd_wanted_bytes = 900000000;
    return ftp;
}

/*
 * A request above what autotuning reaches, in bytes as setsockopt() takes them; a skip where nothing above that can
 * be set at all, by privilege or as the limits stand: then there is nothing to see.
 */
static uint64_t request_or_skip(void)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    uint64_t request_bytes;

    assert_int_equal(autobuf_limits_host(&limits), 0);
    request_bytes = limits.tcp_wmem_max_bytes / 2 + 1000000;
    if (!(limits.flags & AUTOBUF_LIMITS_FORCE) && limits.snd_settable_bytes < request_bytes)
        SKIP("no send buffer above autotuning's can be set here");
    return request_bytes;
}

static struct sockaddr_in address(const char *text)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(20)};

    assert_int_equal(inet_pton(AF_INET, text, &addr.sin_addr), 1);
    return addr;
}

/* Before connect() a buffer is set for the peer of the control connection, and for no other. */
static void test_before_connect(void **state)
{
    static const struct {
        const char *peer;
        int is_ours;
    } rows[] = {{"127.0.0.1", 1}, {"127.0.0.2", 0}, {"198.51.100.1", 0}};
    uint64_t request_bytes = request_or_skip();
    struct connection control = tcp_connection();
    struct autobuf_ftp *ftp = wishing(&control, request_bytes);

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sockaddr_in peer = address(rows[i].peer);
        struct socket_state before, after;
        int fd = tcp_socket(), set;

        before = state_of(fd);
        set = autobuf_ftp_data_begin(ftp, fd, (struct sockaddr *)&peer, sizeof peer,
                                     AUTOBUF_INTENT_SENDS, 0);
        after = state_of(fd);
        CHECK_EQUAL(rows[i].peer, set, rows[i].is_ours);
        CHECK_EQUAL(rows[i].peer, same_state(&before, &after), !rows[i].is_ours);
        CHECK_EQUAL(rows[i].peer, after.snd_buf, rows[i].is_ours ? (int64_t)(2 * request_bytes) : before.snd_buf);
        CHECK(rows[i].peer, after.rcv_buf == before.rcv_buf); /* that side carries nothing */
        close(fd);
    }
    assert_int_equal(autobuf_ftp_data_begin(ftp, -1, NULL, 0, 0, 0), -EINVAL);
    assert_int_equal(autobuf_ftp_data_begin(ftp, -1, NULL, 0, 64, 0), -EINVAL);
    assert_int_equal(
        autobuf_ftp_data_begin(ftp, closed_fd(), NULL, 0, AUTOBUF_INTENT_RECEIVES, 0), -EBADF);
    autobuf_ftp_close(ftp);
    close_connection(&control);
}

static void test_most_bytes(void **state)
{
    struct connection control = tcp_connection(), data = tcp_connection();
    struct autobuf_ftp *ftp = wishing(&control, 65536);
    struct socket_state before = state_of(data.accepted), after;

    (void)state;
    assert_int_equal(autobuf_ftp_data_connected(ftp, data.accepted, BOTH, 0), 0);
    after = state_of(data.accepted);
    assert_true(same_state(&before, &after)); /* what may be set is less than autotuning takes */
    autobuf_ftp_close(ftp);
    close_connection(&data);
    close_connection(&control);
}

/* Its flow yields, so that it is to be sampled even where autotuning does all. */
static void test_intent(void **state)
{
    static const uint32_t intents[] = {0, AUTOBUF_INTENT_LOW_DELAY, AUTOBUF_INTENT_SCAVENGER};

    (void)state;
    for (size_t i = 0; i < COUNT(intents); i++) {
        struct connection control = tcp_connection(), data = tcp_connection();
        struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
        struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
        struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
        struct autobuf_ftp *ftp;

        options.intent = intents[i];
        assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, control.client, &options), 0);
        assert_true(autobuf_ftp_data_connected(ftp, data.client, AUTOBUF_INTENT_SENDS, 0) >= 0);
        applied.plan = &plan;
        assert_int_equal(autobuf_flow_state(ftp->flow, &applied), 0);
        assert_int_equal(plan.intent, intents[i] | AUTOBUF_INTENT_SENDS);
        autobuf_ftp_close(ftp);
        close_connection(&data);
        close_connection(&control);
    }
}

/* On a passive connection the send side is set once the peer is known. */
static void test_accepted(void **state)
{
    uint64_t request_bytes = request_or_skip();
    struct connection control = tcp_connection(), data = tcp_connection();
    struct autobuf_ftp *ftp = wishing(&control, request_bytes);

    (void)state;
    assert_int_equal(autobuf_ftp_data_begin(ftp, data.listener, NULL, 0, AUTOBUF_INTENT_SENDS, 0), 0);
    assert_true(locks_are(data.accepted, 0));
    assert_int_equal(autobuf_ftp_data_connected(ftp, data.accepted, AUTOBUF_INTENT_SENDS, 0), 1);
    assert_true(locks_are(data.accepted, AUTOBUF_LOCK_SND));
    assert_int_equal(option_of(data.accepted, SO_SNDBUF), 2 * request_bytes);
    assert_true(autobuf_ftp_data_deadline_ns(ftp) != AUTOBUF_NS_UNSET);
    assert_true(autobuf_ftp_data_step(ftp) >= 0);
    autobuf_ftp_data_end(ftp);
    assert_int_equal(autobuf_ftp_data_deadline_ns(ftp), AUTOBUF_NS_UNSET);
    assert_int_equal(autobuf_ftp_data_step(ftp), 0);
    /* One that is over before anything could be gained is not looked after. */
    assert_true(autobuf_ftp_data_connected(ftp, data.accepted, AUTOBUF_INTENT_SENDS, 1000) >= 0);
    assert_int_equal(autobuf_ftp_data_deadline_ns(ftp), AUTOBUF_NS_UNSET);
    autobuf_ftp_close(ftp);
    close_connection(&data);
    close_connection(&control);
}

/* Without SET nothing is set, but the connection is managed. */
static void test_without_set(void **state)
{
    struct connection control = tcp_connection(), data = tcp_connection();
    struct socket_state before = state_of(data.accepted), after;
    struct autobuf_ftp *ftp;

    (void)state;
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_SERVER, control.accepted, NULL), 0);
    assert_int_equal(autobuf_ftp_data_begin(ftp, data.listener, NULL, 0, BOTH, 0), 0);
    assert_int_equal(autobuf_ftp_data_connected(ftp, data.accepted, AUTOBUF_INTENT_SENDS, 0), 0);
    after = state_of(data.accepted);
    assert_true(same_state(&before, &after));
    assert_true(autobuf_ftp_data_deadline_ns(ftp) != AUTOBUF_NS_UNSET);
    close_connection(&data);
    assert_int_equal(autobuf_ftp_data_step(ftp), 0); /* closed meanwhile */
    autobuf_ftp_close(ftp);
    close_connection(&control);
}

/*
 * A server that delays its echoes pretends a long path, but TCP's RTT counts; and a lower bound of a rate bounds no
 * window for low delay.
 */
static void test_what_windows_are_worth(void **state)
{
    static const struct {
        const char *name;
        uint32_t intent;
        uint64_t rtt_ns, window_bytes;
        uint32_t flags;
        bool is_set;
    } rows[] = {
        {"exact, low delay", AUTOBUF_INTENT_LOW_DELAY, AUTOBUF_NS_UNSET, 20000, 0, true},
        {"at least, low delay", AUTOBUF_INTENT_LOW_DELAY, AUTOBUF_NS_UNSET, 20000, AUTOBUF_PLAN_RCV_AT_LEAST, false},
        {"echoes came late", AUTOBUF_INTENT_THROUGHPUT, 100000000000, 31000000, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct connection control = tcp_connection(), data = tcp_connection();
        struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
        struct autobuf_ftp *ftp;

        options.intent = rows[i].intent;
        assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, control.client, &options), 0);
        ftp->rtt_ns = rows[i].rtt_ns;
        ftp->rcv_wanted_bytes = rows[i].window_bytes;
        ftp->flags = rows[i].flags;
        CHECK_EQUAL(rows[i].name, autobuf_ftp_data_connected(ftp, data.client, AUTOBUF_INTENT_RECEIVES, 0),
                    rows[i].is_set);
        CHECK_EQUAL(rows[i].name, locks_are(data.client, rows[i].is_set ? AUTOBUF_LOCK_RCV : 0), true);
        autobuf_ftp_close(ftp);
        close_connection(&data);
        close_connection(&control);
    }
}

/* What a measurement says of its rates stays with the windows, for its direction. */
static void test_learn(void **state)
{
    struct connection control = tcp_connection();
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_ftp *ftp;

    (void)state;
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, control.client, NULL), 0);
    path.tx_bdp_bytes = path.rx_bdp_bytes = 1000000;
    path.flags = AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_RX_AT_LEAST | AUTOBUF_PATH_TX_ECHOED;
    ab_ftp_learn(ftp, AUTOBUF_INTENT_RECEIVES, &path);
    assert_int_equal(ftp->flags, AUTOBUF_PLAN_RCV_AT_LEAST);
    ab_ftp_learn(ftp, AUTOBUF_INTENT_SENDS, &path);
    assert_int_equal(ftp->flags,
                     AUTOBUF_PLAN_RCV_AT_LEAST | AUTOBUF_PLAN_SND_AT_LEAST | AUTOBUF_PLAN_SND_ECHOED);
    path.flags = 0;
    path.tx_unsure = AUTOBUF_UNSURE_JITTER;
    ab_ftp_learn(ftp, AUTOBUF_INTENT_SENDS, &path);
    assert_int_equal(ftp->flags, AUTOBUF_PLAN_RCV_AT_LEAST);
    assert_int_equal(ftp->snd_wanted_bytes, 0);
    assert_true(ftp->rcv_wanted_bytes > 0);
    autobuf_ftp_close(ftp);
    close_connection(&control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_connect),
        cmocka_unit_test(test_most_bytes),
        cmocka_unit_test(test_intent),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_without_set),
        cmocka_unit_test(test_what_windows_are_worth),
        cmocka_unit_test(test_learn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

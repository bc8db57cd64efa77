/* SPDX-License-Identifier: MIT */
/* Both ends of a transfer over loopback. The time is the test's own, so nothing waits. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "sockets.h"
#include "transfer.h"

#define STEP_NS (AB_NS_PER_S / 20)
#define STEPS_MOST 1000

struct ends {
    struct connection c;
    struct transfer client, server;
    uint64_t now_ns;
};

static void set_up(struct ends *e)
{
    e->c = tcp_connection();
    assert_return_code(fcntl(e->c.client, F_SETFL, O_NONBLOCK), errno);
    assert_return_code(fcntl(e->c.accepted, F_SETFL, O_NONBLOCK), errno);
    e->now_ns = autobuf_now_ns();
}

static struct transfer_line asked(bool receive)
{
    return (struct transfer_line){.verb = TRANSFER_ASK, .number = 2, .values = {[TRANSFER_RECEIVE] = receive}};
}

static void open_client(struct ends *e, bool receive)
{
    struct transfer_line ask = asked(receive);

    assert_int_equal(transfer_open(&e->client, e->c.client, false, &ask, NULL, e->now_ns), 0);
}

/*
 * The peer's words, to the client; they have arrived, however busy the kernel is, for the client's time does not wait
 * for them.
 */
static void say(struct ends *e, const char *text)
{
    struct pollfd p = {e->c.client, POLLIN, 0};

    assert_int_equal(send(e->c.accepted, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    assert_true(!*text || poll(&p, 1, 10000) == 1);
}

/* Steps the client until it is over; fails if it never is. */
static int finish(struct ends *e)
{
    for (unsigned i = 0; i < STEPS_MOST; i++) {
        int result = transfer_step(&e->client, e->now_ns, TRANSFER_CHUNK_BYTES);

        if (result != 0)
            return result;
        e->now_ns += STEP_NS;
    }
    fail_msg("no end");
    return 0;
}

static void tear_down(struct ends *e)
{
    transfer_close(&e->client);
    transfer_close(&e->server);
    close_connection(&e->c);
}

/* Both ends as in a network: the server has read the request, and grants one second of the two. */
static void run_both(struct ends *e, bool receive)
{
    char line[TRANSFER_LINE_BYTES];
    struct transfer_line ask;
    size_t len = 0;
    int client = 0, server = 0, heard;

    set_up(e);
    open_client(e, receive);
    assert_int_equal(transfer_step(&e->client, e->now_ns, TRANSFER_CHUNK_BYTES), 0);
    while ((heard = transfer_hear(e->c.accepted, TRANSFER_PREFIX, line, &len)) == 0)
        continue;
    assert_int_equal(heard, 1);
    assert_true(transfer_line_parse(line, len, &ask));
    assert_int_equal(ask.number, 2);
    ask.number = 1;
    assert_int_equal(transfer_open(&e->server, e->c.accepted, true, &ask, NULL, e->now_ns), 0);
    for (unsigned i = 0; i < STEPS_MOST && (client == 0 || server == 0); i++) {
        if (server == 0)
            server = transfer_step(&e->server, e->now_ns, TRANSFER_CHUNK_BYTES);
        if (client == 0)
            client = transfer_step(&e->client, e->now_ns, TRANSFER_CHUNK_BYTES);
        if (client == 1)
            shutdown(e->c.client, SHUT_RDWR);
        e->now_ns += STEP_NS;
    }
    assert_int_equal(client, 1);
    assert_int_equal(server, 1);
    assert_int_equal(e->client.seconds, 1);
}

static void a_client_sends(void **state)
{
    struct ends e = {0};

    (void)state;
    run_both(&e, false);
    assert_true(e.client.sends && !e.server.sends);
    assert_in_range(transfer_rate(&e.client), 1, UINT64_MAX);
    assert_int_equal(e.client.peers.values[TRANSFER_BYTES], e.server.own.values[TRANSFER_BYTES]);
    assert_in_range(e.client.peers.values[TRANSFER_NSEC], AB_NS_PER_S, AB_NS_PER_S + STEP_NS);
    assert_int_equal(transfer_rate(&e.client), transfer_rate(&e.server));
    tear_down(&e);
}

static void a_client_receives(void **state)
{
    struct ends e = {0};

    (void)state;
    run_both(&e, true);
    assert_true(!e.client.sends && e.server.sends);
    assert_in_range(transfer_rate(&e.client), 1, UINT64_MAX);
    assert_in_range(e.client.own.values[TRANSFER_BYTES], 1, e.server.moved_bytes);
    assert_memory_equal(&e.client.peers, &e.server.own, sizeof e.server.own); /* behind all the payload */
    assert_ptr_equal(transfer_senders(&e.client), &e.client.peers);
    tear_down(&e);
}

static void refusals_have_their_code(void **state)
{
    static const char *const rows[] = {"AUTOBUF ERROR 421 busy\r\n", "AUTOBUF ERROR 500 what?\r\n",
                                       "AUTOBUF ERROR 550\n"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ends e = {0};

        set_up(&e);
        open_client(&e, true);
        say(&e, rows[i]);
        assert_int_equal(finish(&e), AUTOBUF_E_UNSUPPORTED);
        assert_int_equal(e.client.code, i == 0 ? TRANSFER_BUSY : i == 1 ? TRANSFER_UNKNOWN : TRANSFER_REFUSED);
        tear_down(&e);
    }
}

/* What a server may say to a client that sends; the client has sent some KB by then, for less than 2 s. */
static void what_cannot_be_is_not_believed(void **state)
{
    static const char *const rows[] = {
        "500 What do you want?\r\n",
        "AUTOBUF HELLO 1\r\n",
        "AUTOBUF TRANSFER 1 3\r\n", /* more than was asked for */
        "AUTOBUF REPORT 1\r\n",
        "AUTOBUF TRANSFER 1 2\r\nAUTOBUF TRANSFER 1 2\r\n",
        "AUTOBUF TRANSFER 1 2\r\nAUTOBUF REPORT 1 bytes=1 nsec=1999999999\r\n",
        "AUTOBUF TRANSFER 1 2\r\nAUTOBUF REPORT 1 bytes=1 nsec=3000000000\r\n",
        "AUTOBUF TRANSFER 1 2\r\nAUTOBUF REPORT 1 bytes=900000000000 nsec=2000000000\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ends e = {0};

        set_up(&e);
        open_client(&e, false);
        say(&e, rows[i]);
        assert_int_equal(finish(&e), AUTOBUF_E_PROTOCOL);
        tear_down(&e);
    }
}

static void silence_and_a_closed_connection_end_it(void **state)
{
    static const char *const rows[] = {"", "AUTOBUF TRANS", "AUTOBUF TRANSFER 1 2\r\n",
                                       "AUTOBUF TRANSFER 1 2\r\npayload"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ends e = {0};
        uint64_t begin_ns;

        set_up(&e);
        begin_ns = e.now_ns;
        open_client(&e, true);
        say(&e, rows[i]);
        /* what came has a rate; only the server's report is missing */
        assert_int_equal(finish(&e), i == 3 ? 1 : -ETIMEDOUT);
        assert_in_range(e.now_ns - begin_ns, 5 * AB_NS_PER_S - STEP_NS, 8 * AB_NS_PER_S);
        tear_down(&e);
        set_up(&e);
        open_client(&e, true);
        say(&e, rows[i]);
        shutdown(e.c.accepted, SHUT_WR);
        assert_int_equal(finish(&e), -ECONNRESET);
        tear_down(&e);
    }
}

static void lines_are_bounded(void **state)
{
    struct ends e = {0};
    char text[10001];

    (void)state;
    memset(text, 'x', sizeof text);
    text[10000] = '\0';
    set_up(&e);
    open_client(&e, true);
    say(&e, text);
    assert_int_equal(finish(&e), -EPROTO);
    tear_down(&e);
}

/* The first line of a client: what came so far is in line. */
static int hear(struct ends *e, const char *text, char *line, size_t *len)
{
    struct pollfd p = {e->c.accepted, POLLIN, 0};

    assert_int_equal(send(e->c.client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    assert_int_equal(poll(&p, 1, 10000), 1);
    return transfer_hear(e->c.accepted, TRANSFER_PREFIX, line, len);
}

static void a_first_line_may_come_byte_by_byte(void **state)
{
    static const char ask[] = "AUTOBUF TRANSFER 1 5\r\n", hello[] = "AUTOBUF TRAIN 5\r\n";
    char line[TRANSFER_LINE_BYTES], rest[64];
    struct ends e = {0};
    size_t len = 0;

    (void)state;
    set_up(&e);
    for (size_t i = 0; ask[i]; i++)
        assert_int_equal(hear(&e, (const char[]){ask[i], 0}, line, &len), ask[i] == '\n');
    assert_int_equal(len, strlen(ask));
    assert_memory_equal(line, ask, len);
    len = 0;
    for (size_t i = 0; i < 11; i++) /* as far as a transfer's line begins so, too */
        assert_int_equal(hear(&e, (const char[]){hello[i], 0}, line, &len), 0);
    assert_int_equal(hear(&e, hello + 11, line, &len), TRANSFER_NOT);
    assert_int_equal(len, 11);
    assert_int_equal(recv(e.c.accepted, rest, sizeof rest, 0), strlen(hello) - 11); /* nothing of it was read */
    len = 0;
    assert_int_equal(hear(&e, "AUTOBUF HELLO 1\r\n", line, &len), TRANSFER_NOT);
    assert_int_equal(len, 0);
    assert_int_equal(recv(e.c.accepted, rest, sizeof rest, 0), 17);
    assert_int_equal(hear(&e, "AUTOBUF TRANSFER 1 5\r\nmore", line, &len), 1);
    assert_int_equal(recv(e.c.accepted, rest, sizeof rest, 0), 4);
    len = 0;
    shutdown(e.c.client, SHUT_WR);
    assert_int_equal(transfer_hear(e.c.accepted, TRANSFER_PREFIX, line, &len), -ENOTCONN);
    tear_down(&e);
}

/* What a step would not read must not wake it. */
static void nothing_is_read_before_a_line_is_out(void **state)
{
    struct ends e = {.now_ns = 0};

    (void)state;
    set_up(&e);
    open_client(&e, true);
    say(&e, "more than was asked for");
    assert_int_equal(transfer_events(&e.client, true, e.now_ns), POLLOUT);
    assert_int_equal(transfer_step(&e.client, e.now_ns, TRANSFER_CHUNK_BYTES), 0); /* it is out */
    assert_int_equal(transfer_events(&e.client, true, e.now_ns), POLLIN);
    tear_down(&e);
}

/* ------------------------------------------------------------------------------------ stretches */

#define MBIT 1000000ULL

static struct transfer_line stretch_of(bool receive)
{
    return (struct transfer_line){.verb = TRANSFER_ASK,
                                  .values = {[TRANSFER_RECEIVE] = receive, [TRANSFER_PACE] = 200 * MBIT,
                                             [TRANSFER_LOW] = 400 * MBIT, [TRANSFER_HIGH] = 400 * MBIT}};
}

/* Steps an end, and waits for what it waits for. */
static int step_now(struct transfer *t)
{
    uint64_t now_ns = autobuf_now_ns();
    int result = transfer_step(t, now_ns, TRANSFER_CHUNK_BYTES);
    struct pollfd p = {t->fd, (short)transfer_events(t, true, now_ns), 0};
    uint64_t due_ns = ab_min(transfer_deadline_ns(t), now_ns + AB_NS_PER_MS);
    struct timespec wait = {0, due_ns > now_ns ? (long)(due_ns - now_ns) : 0};

    assert_true(result != 0 || ppoll(&p, 1, &wait, NULL) >= 0);
    return result;
}

/* One stretch; returns what the client said in the end. The server's end begins with the first. */
static int run_stretch(struct ends *e, bool receive, int *server)
{
    char text[TRANSFER_LINE_BYTES];
    struct transfer_line ask = stretch_of(receive);
    size_t len = 0;
    int client = 0, heard;

    assert_int_equal(e->client.paced ? transfer_again(&e->client, &ask, autobuf_now_ns())
                                     : transfer_open(&e->client, e->c.client, false, &ask, NULL, autobuf_now_ns()), 0);
    assert_int_equal(step_now(&e->client), 0);
    if (!e->server.paced) {
        while ((heard = transfer_hear(e->c.accepted, TRANSFER_PREFIX, text, &len)) == 0)
            continue;
        assert_int_equal(heard, 1);
        assert_true(transfer_line_parse(text, len, &ask));
        assert_int_equal(transfer_open(&e->server, e->c.accepted, true, &ask, NULL, autobuf_now_ns()), 0);
    }
    while (client == 0 && *server == 0) {
        *server = step_now(&e->server);
        client = step_now(&e->client);
    }
    return client;
}

static void stretches_go_both_ways(void **state)
{
    struct ends e = {0};
    int server = 0;

    (void)state;
    set_up(&e);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(run_stretch(&e, i >= 4, &server), 1);
        assert_int_equal(server, 0);
        assert_int_equal(e.client.free.size, sizeof e.client.free);
        assert_true(e.client.paced->ip_bytes > 0 && e.client.paced->ip_bytes <= 1000000 + PACED_CHUNK_BYTES);
        assert_true(e.client.free.tx_low_bit_per_s <= 400 * MBIT);
    }
    (void)run_stretch(&e, true, &server); /* a ninth is too much */
    assert_int_equal(server, AUTOBUF_E_PROTOCOL);
    tear_down(&e);
}

/* What a server may say of a stretch that it got. */
static void a_report_is_believed_as_far_as_it_can_be(void **state)
{
    static const struct {
        const char *report;
        bool believed;
    } rows[] = {
        {"AUTOBUF REPORT 1 nsec=1000 low=1000000 high=2000000\r\n", true},
        {"AUTOBUF REPORT 1 nsec=1000 low=1000000 cause=5\r\n", true},
        {"AUTOBUF REPORT 1 nsec=1000 low=260000000 cause=5\r\n", false},
        {"AUTOBUF REPORT 1 nsec=1000 low=1000000 high=1000000000000\r\n", false},
        {"AUTOBUF REPORT 1 nsec=1000 low=2000000 high=1000000\r\n", false},
        {"AUTOBUF REPORT 1 nsec=90000000000 low=1000000 high=2000000\r\n", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ends e = {0};
        struct transfer_line ask = stretch_of(false);
        char dropped[PACED_CHUNK_BYTES];
        int result = 0;

        set_up(&e);
        assert_int_equal(transfer_open(&e.client, e.c.client, false, &ask, NULL, autobuf_now_ns()), 0);
        say(&e, "AUTOBUF TRANSFER 1 0 pace=200000000\r\n");
        while (e.client.phase != TRANSFER_WAITS && result == 0) {
            result = step_now(&e.client);
            while (recv(e.c.accepted, dropped, sizeof dropped, MSG_DONTWAIT) > 0)
                continue;
        }
        assert_int_equal(result, 0);
        say(&e, rows[i].report);
        while (result == 0)
            result = step_now(&e.client);
        assert_int_equal(result, 1);
        assert_int_equal(e.client.free.tx_low_bit_per_s, rows[i].believed ? 1000000 : 0);
        assert_true(rows[i].believed || e.client.free.cause == AUTOBUF_CAUSE_SHORT);
        tear_down(&e);
    }
}

static void what_cannot_be_of_a_stretch_ends_it(void **state)
{
    static const char *const rows[] = {
        "AUTOBUF TRANSFER 1 1 receive=1\r\n",
        "AUTOBUF TRANSFER 1 0 receive=1 pace=200000000\r\n", /* no bytes of a chunk */
        "AUTOBUF TRANSFER 1 0 receive=1 pace=200000000 bytes=8\r\n",
        "AUTOBUF TRANSFER 1 0 receive=1 pace=200000000 bytes=65537\r\n",
        "AUTOBUF REPORT 1\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ends e = {0};
        struct transfer_line ask = stretch_of(true);

        set_up(&e);
        assert_int_equal(transfer_open(&e.client, e.c.client, false, &ask, NULL, e.now_ns), 0);
        say(&e, rows[i]);
        assert_int_equal(finish(&e), AUTOBUF_E_PROTOCOL);
        tear_down(&e);
        set_up(&e); /* nor is a transfer answered so */
        open_client(&e, true);
        say(&e, "AUTOBUF TRANSFER 1 0 receive=1 pace=200000000 bytes=1000\r\n");
        assert_int_equal(finish(&e), AUTOBUF_E_PROTOCOL);
        tear_down(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_sends),
        cmocka_unit_test(a_client_receives),
        cmocka_unit_test(refusals_have_their_code),
        cmocka_unit_test(what_cannot_be_is_not_believed),
        cmocka_unit_test(silence_and_a_closed_connection_end_it),
        cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(a_first_line_may_come_byte_by_byte),
        cmocka_unit_test(nothing_is_read_before_a_line_is_out),
        cmocka_unit_test(stretches_go_both_ways),
        cmocka_unit_test(a_report_is_believed_as_far_as_it_can_be),
        cmocka_unit_test(what_cannot_be_of_a_stretch_ends_it),
    };

    return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}

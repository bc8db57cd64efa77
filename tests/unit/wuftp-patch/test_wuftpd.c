/* SPDX-License-Identifier: MIT */
/*
 * The glue of wuftp-patch/. Stand-ins replace the functions of wu-ftpd that it calls, and the linker replaces those
 * of the library. Descriptor 0 is the control connection, as in wu-ftpd. A process has one session, so the tests
 * run in the order of a session.
 */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>
#include <autobuf/ftp.h>

#include "autobuf-wuftpd.h"
#include "sockets.h"

/* -------------------------------------------------------------------------- wu-ftpd's, by name */

int debug = 1;
int log_commands = 1;
int TCPwindowsize;
off_t restart_point;

void reply(int code, char *format, ...);
void dologout(int status);

static int replied; /* the code; 0: nothing */
static jmp_buf logout;
static int logged_out;

void reply(int code, char *format, ...)
{
    (void)format;
    replied = code;
}

void dologout(int status)
{
    logged_out = status;
    longjmp(logout, 1);
}

/* --------------------------------------------------------------------- the library's, recorded */

#define WRAPS(result, name, ...)                                                                   \
    result __real_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__)

static struct {
    unsigned begun, connected, stepped, ended, asked; /* calls */
    int fd, is_listener;
    struct sockaddr_in peer;
    uint32_t direction;
    uint64_t expected_bytes;
    uint64_t deadline_ns;
    int answer; /* 0: the library's own; else what it is made to say */
    unsigned alarm_s;
    int blocked; /* SIGURG, during a step */
} seen;

WRAPS(int, autobuf_ftp_answer, struct autobuf_ftp *ftp, const char *line, size_t len)
{
    seen.asked++;
    seen.alarm_s = alarm(0);
    return seen.answer ? seen.answer : __real_autobuf_ftp_answer(ftp, line, len);
}

WRAPS(int, autobuf_ftp_data_begin, struct autobuf_ftp *ftp, int fd, const struct sockaddr *peer,
      socklen_t peer_len, uint32_t direction, uint64_t expected_bytes)
{
    seen.begun++;
    seen.fd = fd;
    seen.is_listener = !peer;
    seen.direction = direction;
    seen.expected_bytes = expected_bytes;
    if (peer)
        memcpy(&seen.peer, peer, peer_len);
    return __real_autobuf_ftp_data_begin(ftp, fd, peer, peer_len, direction, expected_bytes);
}

WRAPS(int, autobuf_ftp_data_connected, struct autobuf_ftp *ftp, int fd, uint32_t direction,
      uint64_t expected_bytes)
{
    seen.connected++;
    seen.fd = fd;
    seen.direction = direction;
    seen.expected_bytes = expected_bytes;
    return __real_autobuf_ftp_data_connected(ftp, fd, direction, expected_bytes);
}

WRAPS(int, autobuf_ftp_data_step, struct autobuf_ftp *ftp)
{
    sigset_t now;

    sigprocmask(SIG_BLOCK, NULL, &now);
    seen.blocked = sigismember(&now, SIGURG) && sigismember(&now, SIGALRM);
    seen.stepped++;
    return __real_autobuf_ftp_data_step(ftp);
}

WRAPS(uint64_t, autobuf_ftp_data_deadline_ns, const struct autobuf_ftp *ftp)
{
    return seen.deadline_ns ? seen.deadline_ns : __real_autobuf_ftp_data_deadline_ns(ftp);
}

WRAPS(void, autobuf_ftp_data_end, struct autobuf_ftp *ftp)
{
    seen.ended++;
    __real_autobuf_ftp_data_end(ftp);
}

/* ------------------------------------------------------------------------------------ the tests */

static struct connection control;

static void forget(void)
{
    memset(&seen, 0, sizeof seen);
    replied = logged_out = 0;
    restart_point = 0;
    TCPwindowsize = 0;
}

/* What a client sees; an empty string where it sees nothing. */
static const char *received(void)
{
    static char text[400];
    ssize_t got = recv(control.client, text, sizeof text - 1, MSG_DONTWAIT);

    text[got > 0 ? got : 0] = '\0';
    return text;
}

static unsigned calls(void)
{
    return seen.asked + seen.begun + seen.connected + seen.stepped + seen.ended;
}

static void call_all(void)
{
    static const struct sockaddr_in peer = {.sin_family = AF_INET};

    autobuf_wu_site(NULL);
    autobuf_wu_listen(control.listener);
    autobuf_wu_connect(control.listener, &peer, "w", -1);
    autobuf_wu_connected(control.accepted, "w", -1);
    autobuf_wu_step();
}

static void test_without_a_session(void **state)
{
    (void)state;
    forget();
    call_all();
    autobuf_wu_end();
    assert_int_equal(replied, 502);
    assert_int_equal(calls(), 0);
    assert_int_equal(dup2(control.listener, 0), 0);
    autobuf_wu_open(); /* nobody is connected there */
    autobuf_wu_site(NULL);
    assert_int_equal(replied, 502);
    assert_int_equal(calls(), 0);
}

static void test_hello(void **state)
{
    (void)state;
    forget();
    assert_int_equal(dup2(control.accepted, 0), 0);
    autobuf_wu_open();
    autobuf_wu_open();
    alarm(1000);
    autobuf_wu_site(NULL);
    assert_int_equal(seen.alarm_s, 0); /* none was under way during the exchange */
    assert_in_range(alarm(0), 990, 1000);
    assert_int_equal(strncmp(received(), "211 AUTOBUF 1 ", 14), 0);
    autobuf_wu_site("SET 0 0");
    assert_string_equal(received(), "200 AUTOBUF rcv=0 snd=0\r\n");
    assert_int_equal(replied, 0);
}

static void test_an_argument_that_is_too_long(void **state)
{
    char arg[700];

    (void)state;
    for (size_t len = 480; len < sizeof arg; len += 20) {
        forget();
        memset(arg, 'x', len);
        arg[len] = '\0';
        autobuf_wu_site(arg);
        if (replied == 0)
            assert_int_equal(strncmp(received(), "500 ", 4), 0);
        else
            assert_int_equal(replied, 501);
    }
    assert_int_equal(seen.asked, 0); /* the last one was not even asked about */
}

static void test_the_administrator_wins(void **state)
{
    (void)state;
    forget();
    TCPwindowsize = 65536;
    call_all();
    assert_int_equal(replied, 502);
    assert_int_equal(calls(), 0);
}

/* Reads a line as wu-ftpd does: what follows it may stay in stdio's buffer. */
static const char *read_line(void)
{
    static char line[512];

    assert_non_null(fgets(line, sizeof line, stdin));
    return line;
}

static void client_sends(const char *text)
{
    assert_int_equal(send(control.client, text, strlen(text), 0), strlen(text));
}

static void test_sink(void **state)
{
    (void)state;
    forget();
    client_sends("SITE AUTOBUF SINK 10\r\n");
    read_line();
    client_sends("          ");
    autobuf_wu_site("SINK 10");
    assert_int_equal(replied, 0);
    assert_int_equal(strncmp(received(), "350 ", 4), 0);
}

static void test_a_sink_that_does_not_wait(void **state)
{
    static const char *const args[] = {"SINK 6", "sink 6", "  SINK 6"};

    (void)state;
    for (size_t i = 0; i < COUNT(args); i++) {
        forget();
        client_sends("SITE AUTOBUF SINK 6\r\nNOOP\r\n");
        read_line();
        autobuf_wu_site(args[i]);
        CHECK_EQUAL(args[i], replied, 503);
        CHECK_EQUAL(args[i], seen.asked, 0);
        assert_string_equal(read_line(), "NOOP\r\n");
    }
    forget();
    client_sends("SITE AUTOBUF\r\nNOOP\r\n"); /* nothing against that */
    read_line();
    autobuf_wu_site(NULL);
    assert_int_equal(replied, 0);
    assert_string_equal(read_line(), "NOOP\r\n");
    received();
}

static void test_listener(void **state)
{
    (void)state;
    forget();
    autobuf_wu_listen(control.listener);
    assert_int_equal(seen.begun, 1);
    assert_int_equal(seen.fd, control.listener);
    assert_true(seen.is_listener);
    assert_true(seen.direction & AUTOBUF_INTENT_RECEIVES);
    assert_int_equal(seen.expected_bytes, 0);
}

static void test_direction_and_bytes(void **state)
{
    static const struct {
        const char *name, *mode;
        off_t bytes, restart;
        uint32_t direction;
        uint64_t expected_bytes;
    } rows[] = {
        {"a file", "w", 5000000, 0, AUTOBUF_INTENT_SENDS, 5000000},
        {"its rest", "w", 5000000, 4000000, AUTOBUF_INTENT_SENDS, 1000000},
        {"nothing left", "w", 5000000, 5000000, AUTOBUF_INTENT_SENDS, 0},
        {"beyond its end", "w", 5000000, 6000000, AUTOBUF_INTENT_SENDS, 0},
        {"a listing", "w", -1, 0, AUTOBUF_INTENT_SENDS, 0},
        {"an upload", "r", -1, 0, AUTOBUF_INTENT_RECEIVES, 0},
        {"an upload that goes on", "r", -1, 4000000, AUTOBUF_INTENT_RECEIVES, 0},
        {"a restart that is none", "w", 10, -20, AUTOBUF_INTENT_SENDS, 0},
    };
    struct connection data = tcp_connection();
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(20)};

    (void)state;
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd = tcp_socket();

        forget();
        restart_point = rows[i].restart;
        autobuf_wu_connect(fd, &peer, rows[i].mode, rows[i].bytes);
        CHECK_EQUAL(rows[i].name, seen.begun, 1);
        CHECK_EQUAL(rows[i].name, seen.fd, fd);
        CHECK_EQUAL(rows[i].name, memcmp(&seen.peer, &peer, sizeof peer), 0);
        CHECK_EQUAL(rows[i].name, seen.direction, rows[i].direction);
        CHECK_EQUAL(rows[i].name, seen.expected_bytes, rows[i].expected_bytes);
        seen.direction = 0;
        seen.expected_bytes = 1;
        autobuf_wu_connected(data.accepted, rows[i].mode, rows[i].bytes);
        CHECK_EQUAL(rows[i].name, seen.connected, 1);
        CHECK_EQUAL(rows[i].name, seen.fd, data.accepted);
        CHECK_EQUAL(rows[i].name, seen.direction, rows[i].direction);
        CHECK_EQUAL(rows[i].name, seen.expected_bytes, rows[i].expected_bytes);
        close(fd);
    }
    autobuf_wu_end();
    assert_int_equal(seen.ended, 1);
    close_connection(&data);
}

static void test_step(void **state)
{
    struct connection data = tcp_connection();
    sigset_t after;

    (void)state;
    forget();
    autobuf_wu_step();
    assert_int_equal(seen.stepped, 0); /* there is nothing to look after */
    autobuf_wu_connected(data.accepted, "w", -1);
    autobuf_wu_step();
    assert_int_equal(seen.stepped, 1);
    assert_true(seen.blocked);
    sigprocmask(SIG_BLOCK, NULL, &after);
    assert_false(sigismember(&after, SIGURG) || sigismember(&after, SIGALRM));
    autobuf_wu_step();
    assert_int_equal(seen.stepped, 1); /* it is not time yet */
    seen.deadline_ns = 1;
    close(data.accepted);
    data.accepted = tcp_socket();
    autobuf_wu_step(); /* the connection is gone: no harm */
    assert_int_equal(seen.stepped, 2);
    autobuf_wu_end();
    seen.deadline_ns = 0;
    autobuf_wu_step();
    assert_int_equal(seen.stepped, 2);
    close_connection(&data);
}

/* Asks, and comes back when the session is at its end. */
static void ask_and_leave(const char *arg)
{
    if (setjmp(logout) == 0) {
        autobuf_wu_site(arg);
        fail_msg("%s", "the session goes on");
    }
    assert_int_equal(logged_out, 1);
}

/* A client that reads nothing is not waited for; there is no room for a reply. */
static void test_out_of_step_and_deaf(void **state)
{
    char block[65536] = "";

    (void)state;
    forget();
    while (send(control.accepted, block, sizeof block, MSG_DONTWAIT) > 0)
        ;
    assert_int_equal(errno, EAGAIN);
    seen.answer = -ETIMEDOUT;
    ask_and_leave("TRAIN 5000");
    assert_int_equal(replied, 0);
    while (recv(control.client, block, sizeof block, MSG_DONTWAIT) > 0)
        ;
}

/* The client goes away in the midst of a SINK. */
static void test_out_of_step(void **state)
{
    (void)state;
    forget();
    client_sends(" x");
    assert_int_equal(shutdown(control.client, SHUT_WR), 0);
    ask_and_leave("SINK 3000");
    assert_int_equal(replied, 421);
}

static int connect_control(void **state)
{
    (void)state;
    control = tcp_connection();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_session),
        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_an_argument_that_is_too_long),
        cmocka_unit_test(test_the_administrator_wins),
        cmocka_unit_test(test_sink),
        cmocka_unit_test(test_a_sink_that_does_not_wait),
        cmocka_unit_test(test_listener),
        cmocka_unit_test(test_direction_and_bytes),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_out_of_step_and_deaf),
        cmocka_unit_test(test_out_of_step),
    };

    return cmocka_run_group_tests(tests, connect_control, NULL);
}

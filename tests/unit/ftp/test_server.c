/* SPDX-License-Identifier: MIT */
/* An FTP server; the test plays its client, without TLS. */
#include "session.h"

#include <unistd.h>

#include "sockets.h"

/* Reads to the end of a reply's last line. */
static const char *received(int fd)
{
    static char text[600000];
    size_t len = 0, line = 0;

    for (;;) {
        ssize_t got = recv(fd, text + len, 1, 0);

        assert_int_equal(got, 1);
        len++;
        assert_true(len + 1 < sizeof text);
        if (text[len - 1] != '\n')
            continue;
        text[len] = '\0';
        if (len - line > 4 && text[line] != ' ' && text[line + 3] == ' ')
            return text;
        line = len;
    }
}

static void test_other_commands_are_not_ours(void **state)
{
    static const char *const lines[] = {"",           "NOOP",         "SITE",        "SITE CHMOD 1 x",
                                        "SITE AUTOB", "SITE AUTOBUFFER", "SITE AUTOBUF\t", "XSITE AUTOBUF"};
    struct connection c = tcp_connection();
    struct autobuf_ftp *ftp = session(AUTOBUF_FTP_SERVER, c.accepted, NULL);

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++)
        CHECK_EQUAL(lines[i], answer(ftp, lines[i]), 0);
    assert_true(nothing_to_receive(c.client));
    autobuf_ftp_close(ftp);
    close_connection(&c);
}

static void test_server(void **state)
{
    struct connection c = tcp_connection_of(1000);
    struct autobuf_ftp *ftp = session(AUTOBUF_FTP_SERVER, c.accepted, NULL);
    char payload[3001] = "";

    (void)state;
    assert_int_equal(answer(ftp, "SITE AUTOBUF TRAIN 5000"), 1);
    assert_string_equal(received(c.client), "503 SITE AUTOBUF comes first\r\n");
    assert_int_equal(answer(ftp, "site autobuf\r\n"), 1);
    assert_int_equal(strncmp(received(c.client), "211 AUTOBUF 1 ", 14), 0);
    assert_int_equal(answer(ftp, "SITE autobuf train 5000"), 1);
    assert_in_range(strlen(received(c.client)), 4000, 5000);
    memset(payload, ' ', sizeof payload - 1);
    assert_int_equal(send(c.client, payload, 3000, 0), 3000);
    assert_int_equal(send(c.client, "NOOP\r\n", 6, 0), 6);
    assert_int_equal(answer(ftp, "SITE AUTOBUF SINK 3000 "), 1);
    assert_int_equal(strncmp(received(c.client), "350 ", 4), 0);
    assert_int_equal(strncmp(received(c.client), "211 bytes=", 10), 0);
    assert_int_equal(recv(c.accepted, payload, sizeof payload, MSG_DONTWAIT), 6); /* not read too far */
    assert_memory_equal(payload, "NOOP\r\n", 6);
    assert_int_equal(answer(ftp, "SITE AUTOBUF PAINT"), 1);
    assert_int_equal(strncmp(received(c.client), "500 ", 4), 0);
    assert_int_equal(answer(ftp, "SITE AUTOBUF SET 0 20000"), 1); /* autotuning reaches that */
    assert_string_equal(received(c.client), "200 AUTOBUF rcv=0 snd=0\r\n");
    autobuf_ftp_close(ftp);
    assert_int_equal(option_of(c.accepted, SO_TIMESTAMPING), 0);
    close_connection(&c);
}

/* Over loopback the session measures a tiny BDP, which bounds the request of a client. */
static void test_set_is_bounded_by_the_measurement(void **state)
{
    static const char *const before[] = {"", "SITE AUTOBUF TRAIN 5000"};
    struct connection c = tcp_connection_of(1000);
    struct autobuf_ftp *ftp = session(AUTOBUF_FTP_SERVER, c.accepted, NULL);

    (void)state;
    assert_int_equal(answer(ftp, "SITE AUTOBUF"), 1);
    received(c.client);
    for (size_t i = 0; i < COUNT(before); i++) {
        if (before[i][0]) {
            assert_int_equal(answer(ftp, before[i]), 1);
            received(c.client);
        }
        assert_int_equal(answer(ftp, "SITE AUTOBUF SET 1073741824 1073741824"), 1);
        assert_string_equal(received(c.client), "200 AUTOBUF rcv=0 snd=0\r\n");
    }
    autobuf_ftp_close(ftp);
    close_connection(&c);
}

static void test_client_disconnects(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_ftp *ftp = session(AUTOBUF_FTP_SERVER, c.accepted, NULL);

    (void)state;
    assert_int_equal(answer(ftp, "SITE AUTOBUF"), 1);
    assert_int_equal(send(c.client, " x", 2, 0), 2);
    assert_int_equal(shutdown(c.client, SHUT_WR), 0);
    assert_int_equal(answer(ftp, "SITE AUTOBUF SINK 3000"), -ECONNRESET);
    autobuf_ftp_close(ftp);
    close_connection(&c);
}

/* A control connection that encodes its bytes, as TLS does. */
struct turned {
    int fd;
    size_t longest;
};

static int64_t read_turned(void *user, void *buf, size_t len, uint64_t deadline_ns, uint64_t *stamp_ns)
{
    struct turned *turned = user;
    ssize_t got = recv(turned->fd, buf, len, 0);

    if (*stamp_ns > deadline_ns)
        return -ETIMEDOUT;
    for (ssize_t i = 0; i < got; i++)
        ((char *)buf)[i] ^= 0x20;
    return got;
}

static int64_t write_turned(void *user, const void *buf, size_t len, size_t segment_bytes,
                            uint64_t deadline_ns)
{
    struct turned *turned = user;
    char copy[100];
    size_t part = len < sizeof copy ? len : sizeof copy;

    (void)deadline_ns;
    turned->longest = segment_bytes;
    for (size_t i = 0; i < part; i++)
        copy[i] = (char)(((const char *)buf)[i] ^ 0x20);
    return send(turned->fd, copy, part, MSG_NOSIGNAL);
}

static void test_server_with_records(void **state)
{
    struct connection c = tcp_connection_of(1000);
    struct turned turned = {c.accepted, 0};
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    struct autobuf_ftp *ftp;
    char text[3000];

    (void)state;
    options.read = read_turned;
    options.write = write_turned;
    options.io_user = &turned;
    options.record_bytes = 29;
    ftp = session(AUTOBUF_FTP_SERVER, c.accepted, &options);
    assert_int_equal(answer(ftp, "SITE AUTOBUF"), 1);
    assert_true(recv(c.client, text, sizeof text, 0) > 14);
    for (size_t i = 0; i < 14; i++)
        text[i] ^= 0x20;
    assert_memory_equal(text, "211 AUTOBUF 1 ", 14);
    assert_in_range(turned.longest, 500, 1000 - 29);
    memset(text, ' ' ^ 0x20, sizeof text);
    assert_int_equal(send(c.client, text, sizeof text, 0), sizeof text);
    assert_int_equal(answer(ftp, "SITE AUTOBUF SINK 3000"), 1);
    autobuf_ftp_close(ftp);
    close_connection(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_commands_are_not_ours),
        cmocka_unit_test(test_server),
        cmocka_unit_test(test_set_is_bounded_by_the_measurement),
        cmocka_unit_test(test_client_disconnects),
        cmocka_unit_test(test_server_with_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

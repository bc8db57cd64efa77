/* SPDX-License-Identifier: MIT */
/* How an FTP session is opened and closed. */
#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sockets.h"
#include "base/base.h"

static void test_open(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_ftp_options options = AUTOBUF_FTP_OPTIONS_INIT;
    struct autobuf_ftp *ftp = (struct autobuf_ftp *)1;
    int alone = tcp_socket(), pair[2];

    (void)state;
    assert_int_equal(autobuf_ftp_open(&ftp, 0, c.client, NULL), -EINVAL);
    assert_null(ftp);
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, alone, NULL), -ENOTCONN);
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, closed_fd(), NULL), -EBADF);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, pair[0], NULL), -EOPNOTSUPP);
    options.size = 1;
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, c.client, &options), -EINVAL);
    options.size = sizeof options;
    options.read = (autobuf_ftp_read_fn *)abort; /* and no write() */
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, c.client, &options), -EINVAL);
    options.read = NULL;
    for (uint32_t wrong = AUTOBUF_INTENT_SENDS; wrong <= 1024; wrong *= 2)
        if (wrong & ~(AUTOBUF_INTENT_LOW_DELAY | AUTOBUF_INTENT_SCAVENGER)) {
            options.intent = wrong;
            assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, c.client, &options), -EINVAL);
        }
    options.intent = AUTOBUF_INTENT_LOW_DELAY | AUTOBUF_INTENT_SCAVENGER;
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, c.client, &options), -EINVAL);
    ab_environment_read("off");
    assert_int_equal(autobuf_ftp_open(&ftp, AUTOBUF_FTP_CLIENT, c.client, NULL), AUTOBUF_E_OFF);
    ab_environment_read(NULL);
    autobuf_ftp_close(NULL);
    close(pair[0]);
    close(pair[1]);
    close(alone);
    close_connection(&c);
}

/* NULL where a struct or a handle is needed. */
static void test_null(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_ftp *ftp = session(AUTOBUF_FTP_SERVER, c.accepted, NULL);

    (void)state;
    assert_int_equal(autobuf_ftp_open(NULL, AUTOBUF_FTP_CLIENT, c.client, NULL), -EINVAL);
    assert_int_equal(autobuf_ftp_measure(NULL, AUTOBUF_FTP_BY_INBAND, AUTOBUF_INTENT_SENDS, 0), -EINVAL);
    assert_int_equal(autobuf_ftp_worth(NULL, AUTOBUF_FTP_BY_INBAND, AUTOBUF_INTENT_SENDS, 0), -EINVAL);
    assert_int_equal(autobuf_ftp_peer_bytes(NULL, AUTOBUF_INTENT_SENDS), 0);
    assert_int_equal(autobuf_ftp_answer(NULL, "NOOP", 4), -EINVAL);
    assert_int_equal(autobuf_ftp_answer(ftp, NULL, 4), -EINVAL);
    assert_int_equal(autobuf_ftp_data_begin(NULL, c.client, NULL, 0, AUTOBUF_INTENT_SENDS, 0), -EINVAL);
    assert_int_equal(autobuf_ftp_data_connected(NULL, c.client, AUTOBUF_INTENT_SENDS, 0), -EINVAL);
    assert_int_equal(autobuf_ftp_data_step(NULL), -EINVAL);
    assert_true(autobuf_ftp_data_deadline_ns(NULL) == AUTOBUF_NS_UNSET);
    autobuf_ftp_data_end(NULL);
    assert_int_equal(autobuf_ftp_answer(ftp, "NOOP", 4), 0); /* it is in order, but for that */
    autobuf_ftp_close(ftp);
    close_connection(&c);
}

static void test_dead_in_a_child(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_ftp *ftp = session(AUTOBUF_FTP_SERVER, c.accepted, NULL);
    int status = -1;
    pid_t child = fork();

    (void)state;
    if (child == 0)
        _exit(answer(ftp, "SITE AUTOBUF") != AUTOBUF_E_FORKED ||
              autobuf_ftp_data_begin(ftp, c.client, NULL, 0, AUTOBUF_INTENT_SENDS, 0) !=
                  AUTOBUF_E_FORKED);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(nothing_to_receive(c.client));
    autobuf_ftp_close(ftp);
    close_connection(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_dead_in_a_child),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* An FTP client on loopback, where a measurement gains nothing. */
#include "session.h"

#include "sockets.h"

/* If nothing can be gained, or in another role, a client sends nothing. */
static void test_client_sends_nothing(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_ftp *ftp = session(AUTOBUF_FTP_CLIENT, c.client, NULL);
    uint32_t both = AUTOBUF_FTP_BY_INBAND | AUTOBUF_FTP_BY_ICMP;

    (void)state;
    assert_int_equal(autobuf_ftp_measure(ftp, both, AUTOBUF_INTENT_SENDS, 100), 0);
    assert_int_equal(autobuf_ftp_measure(ftp, both, AUTOBUF_INTENT_RECEIVES, 100), 0);
    assert_int_equal(autobuf_ftp_measure(ftp, 0, AUTOBUF_INTENT_RECEIVES, 0), 0);
    assert_int_equal(autobuf_ftp_worth(ftp, both, AUTOBUF_INTENT_RECEIVES, 0), 0);
    assert_int_equal(autobuf_ftp_worth(ftp, both, 0, 0), -EINVAL);
    assert_int_equal(autobuf_ftp_measure(ftp, 8, AUTOBUF_INTENT_RECEIVES, 0), -EINVAL);
    assert_int_equal(autobuf_ftp_measure(ftp, both, 0, 0), -EINVAL);
    assert_int_equal(autobuf_ftp_peer_bytes(ftp, AUTOBUF_INTENT_SENDS), 0);
    assert_int_equal(answer(ftp, "SITE AUTOBUF"), -EINVAL);
    assert_true(nothing_to_receive(c.accepted));
    autobuf_ftp_close(ftp);
    ftp = session(AUTOBUF_FTP_SERVER, c.accepted, NULL);
    assert_int_equal(autobuf_ftp_measure(ftp, both, AUTOBUF_INTENT_SENDS, 0), -EINVAL);
    autobuf_ftp_close(ftp);
    close_connection(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_sends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

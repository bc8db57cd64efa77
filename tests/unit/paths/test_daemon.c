/* SPDX-License-Identifier: MIT */
/* lib/paths/daemon.c: reports to the daemon, and their failures. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "paths/record.h"
#include "paths/daemon.h"
#include "paths/store.h"

static char folder[] = "/tmp/test_daemon.XXXXXX", file[sizeof folder + 8];

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/socket", folder);
    ab_paths_report_to(file);
    ab_store_environment(NULL, NULL, "/home/nobody");
    return 0;
}

static int end(void **state)
{
    (void)state;
    ab_paths_report_to(NULL);
    return rmdir(folder);
}

static struct autobuf_paths_entry entry(void)
{
    struct autobuf_paths_entry e = AUTOBUF_PATHS_ENTRY_INIT;

    assert_int_equal(autobuf_prefix_parse("192.0.2.1", &e.remote), 0);
    e.method = AUTOBUF_METHOD_ICMP;
    e.tx_rate_bit_per_s = 100000000;
    e.rtt_min_ns = 40000000;
    return e;
}

static int listen_here(int type)
{
    struct sockaddr_un here = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);

    strcpy(here.sun_path, file);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    return fd;
}

static void a_daemon_takes_it(void **state)
{
    struct autobuf_paths_entry e = entry(), found = AUTOBUF_PATHS_ENTRY_INIT;
    uint8_t message[AUTOBUF_PATHS_MESSAGE_BYTES + 1];
    int daemon = listen_here(SOCK_DGRAM), result = 0;

    (void)state;
    assert_int_equal(ab_paths_report(&e), 0);
    assert_int_equal(recv(daemon, message, sizeof message, 0), AUTOBUF_PATHS_MESSAGE_BYTES);
    assert_int_equal(ab_paths_entry_decode(message, AUTOBUF_PATHS_MESSAGE_BYTES, &found), 0);
    assert_memory_equal(&found, &e, sizeof e);
    for (unsigned i = 0; i < 100000 && result == 0; i++) /* it does not come to read */
        result = ab_paths_report(&e);
    assert_int_equal(result, -EAGAIN);
    e.remote.version = 0;
    assert_int_equal(ab_paths_report(&e), -EINVAL);
    close(daemon);
    unlink(file);
}

static void nobody_takes_it(void **state)
{
    struct autobuf_paths_entry e = entry();
    int other;

    (void)state;
    assert_int_equal(ab_paths_report(&e), -ENOENT);
    close(listen_here(SOCK_DGRAM)); /* its daemon was killed */
    assert_int_equal(ab_paths_report(&e), -ECONNREFUSED);
    unlink(file);
    other = listen_here(SOCK_STREAM);
    assert_true(ab_paths_report(&e) < 0);
    close(other);
    unlink(file);
}

static void another_store_is_named(void **state)
{
    struct autobuf_paths_entry e = entry();
    int daemon = listen_here(SOCK_DGRAM);
    char byte;

    (void)state;
    for (int off = 0; off < 2; off++) {
        ab_store_environment(off ? "off" : "/tmp/none", NULL, NULL);
        assert_int_equal(ab_paths_report(&e), -ENOENT);
        assert_int_equal(recv(daemon, &byte, 1, 0), -1);
    }
    ab_store_environment(NULL, NULL, NULL);
    close(daemon);
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_daemon_takes_it),
        cmocka_unit_test(nobody_takes_it),
        cmocka_unit_test(another_store_is_named),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

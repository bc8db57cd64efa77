/* SPDX-License-Identifier: MIT */
/* tools/daemon/status.c, what systemd is told: against a socket as systemd has one. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/status.h"

static char folder[] = "/tmp/autobuf-tests.XXXXXX";

/* A socket at this address, as NOTIFY_SOCKET names it. */
static int listen_at(const char *where)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(where);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(address.sun_path, where, length);
    if (where[0] == '@')
        address.sun_path[0] = '\0';
    assert_true(fd >= 0);
    assert_int_equal(
        bind(fd, (const struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)), 0);
    return fd;
}

static void expect(int fd, const char *wanted)
{
    char text[256] = "";
    ssize_t got = recv(fd, text, sizeof text - 1, 0);

    assert_int_equal(got, strlen(wanted));
    assert_string_equal(text, wanted);
}

static void says_to(const char *where)
{
    int fd = listen_at(where);

    assert_int_equal(notify_say(where, "READY=1\nSTATUS=x"), 0);
    expect(fd, "READY=1\nSTATUS=x");
    assert_int_equal(notify_reloading(where, 1234567890123), 0);
    expect(fd, "RELOADING=1\nMONOTONIC_USEC=1234567890");
    close(fd);
    assert_int_equal(notify_say(where, "STOPPING=1"), -ECONNREFUSED); /* and it goes on */
}

static void a_path(void **state)
{
    char where[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(where, sizeof where, "%s/notify", folder);
    says_to(where);
    unlink(where);
    rmdir(folder);
}

static void an_abstract_name(void **state)
{
    char where[64];

    (void)state;
    snprintf(where, sizeof where, "@autobuf-tests/%ld", (long)getpid());
    says_to(where);
}

static void nobody_asks(void **state)
{
    char longest[200] = "/";
    const char *const rows[] = {NULL, "", "@", "/", "name", "vsock:2:1", longest};

    (void)state;
    memset(longest + 1, 'x', sizeof longest - 2);
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK_EQUAL(rows[i] ? rows[i] : "NULL", notify_say(rows[i], "READY=1"), 0);
    longest[sizeof((struct sockaddr_un *)NULL)->sun_path] = '\0'; /* one too many for its NUL */
    assert_int_equal(notify_say(longest, "READY=1"), 0);
    longest[sizeof((struct sockaddr_un *)NULL)->sun_path - 1] = '\0'; /* nobody listens there */
    assert_int_equal(notify_say(longest, "READY=1"), -ENOENT);
}

static void one_that_takes_nothing(void **state)
{
    char where[64];
    int fd, error = 0;

    (void)state;
    snprintf(where, sizeof where, "@autobuf-tests/%ld", (long)getpid());
    fd = listen_at(where);
    for (unsigned i = 0; i < 100000 && error == 0; i++)
        error = notify_say(where, "STATUS=x");
    assert_int_equal(error, -EAGAIN); /* it does not wait */
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path),
        cmocka_unit_test(an_abstract_name),
        cmocka_unit_test(nobody_asks),
        cmocka_unit_test(one_that_takes_nothing),
    };

    return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* tools/daemon/undo.c: a socket whose owner gives it up before the loan; all else: net test_daemon_undo. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/act.h"
#include "sockets.h"

#define SO_COOKIE_NUMBER 57
#define EVER 1000U

int __real_broker_borrow(const struct owner *owner);
int __wrap_broker_borrow(const struct owner *owner);

static unsigned refused, borrowed;

/* The first so many loans find that the owner has closed it. */
int __wrap_broker_borrow(const struct owner *owner)
{
    if (borrowed++ < refused)
        return -EBADF;
    return __real_broker_borrow(owner);
}

static void an_owner_that_gives_it_up(void **unused)
{
    static const struct {
        unsigned refused, borrowed;
        int failed;
    } rows[] = {{0, 1, 0}, {1, 2, 0}, {2, 3, 0}, {EVER, 3, 1}};

    (void)unused;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char folder[] = "/tmp/test_undo.XXXXXX", name[sizeof folder + 8];
        struct connection c = tcp_connection();
        struct noted was = {.settings = AUTOBUF_SETTINGS_INIT};
        socklen_t length = sizeof was.cookie;
        struct state state;

        assert_non_null(mkdtemp(folder));
        snprintf(name, sizeof name, "%s/state", folder);
        assert_int_equal(state_open(&state, name), 0);
        assert_int_equal(getsockopt(c.client, SOL_SOCKET, SO_COOKIE_NUMBER, &was.cookie, &length), 0);
        assert_int_equal(autobuf_settings_read(c.client, &was.settings), 0);
        set_option(c.client, SO_MAX_PACING_RATE, 1000000);
        assert_int_equal(state_keep(&state, &was, false), 0);
        refused = rows[i].refused;
        borrowed = 0;
        assert_int_equal(undo(&state, false), rows[i].failed);
        assert_int_equal(borrowed, rows[i].borrowed);
        assert_int_equal(option_of(c.client, SO_MAX_PACING_RATE) == 1000000, rows[i].failed);
        assert_int_equal(state.count, rows[i].failed); /* what is left is kept for another time */
        state_close(&state);
        close_connection(&c);
        assert_int_equal(unlink(name), 0);
        assert_int_equal(rmdir(folder), 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(an_owner_that_gives_it_up)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), copy;
    struct owner own = {.pid = getpid(), .fd = fd};
    socklen_t length = sizeof own.cookie;

    getsockopt(fd, SOL_SOCKET, SO_COOKIE_NUMBER, &own.cookie, &length);
    copy = __real_broker_borrow(&own);
    if (copy == -EPERM) {
        fputs("skipped: this process may not borrow a descriptor\n", stderr);
        return 77;
    }
    close(copy);
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

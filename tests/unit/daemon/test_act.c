/* SPDX-License-Identifier: MIT */
/* tools/daemon/act.c: what is borrowed is the socket that was seen, or nothing. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/act.h"
#include "sockets.h"

#define SO_COOKIE_NUMBER 57

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;

    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_COOKIE_NUMBER, &cookie, &length), 0);
    return cookie;
}

static int borrowed(const struct place *place)
{
    struct loan loan;
    int error = act_borrow(place, &loan);

    if (error == 0)
        act_give_back(&loan);
    return error;
}

/* Between look and act its program closes the socket, and opens something else under the same number. */
static void a_descriptor_that_is_another_ones_by_now(void **state)
{
    struct connection c = tcp_connection();
    struct place place = {.cookie = cookie_of(c.client), .pid = getpid(), .fd = c.client};
    unsigned before = open_descriptors();
    int file;

    (void)state;
    if (borrowed(&place) == -EPERM || borrowed(&place) == -ENOSYS)
        SKIP("this process may not borrow a descriptor");
    assert_int_equal(borrowed(&place), 0);
    assert_true(dup2(c.accepted, c.client) == c.client); /* another socket */
    assert_int_equal(borrowed(&place), -ESTALE);
    file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(dup2(file, c.client) == c.client); /* no socket */
    close(file);
    assert_int_equal(borrowed(&place), -ESTALE);
    assert_int_equal(open_descriptors(), before);
    close(c.client);
    assert_true(borrowed(&place) < 0); /* nothing, or what was opened to find out */
    close(c.listener);
    close(c.accepted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_descriptor_that_is_another_ones_by_now),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

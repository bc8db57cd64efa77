/* SPDX-License-Identifier: MIT */
/* tools/process.c, on this process itself. */
#include "unit.h"

#include <autobuf/autobuf.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "sockets.h"

#define PATIENCE_S 20 /* far less than the owner's linger */

static time_t now_s(void)
{
    return (time_t)(autobuf_now_ns() / 1000000000);
}

/* The owner closed it with data that nobody reads, and asked close(2) to wait for a quarter of an hour. */
static void a_hostile_linger_holds_nobody(void **state)
{
    struct linger linger = {1, 900};
    struct connection c = tcp_connection();
    static char data[65536];
    struct process self;
    time_t begin;
    int copy;

    (void)state;
    assert_int_equal(process_open(getpid(), &self), 0);
    assert_int_equal(setsockopt(c.client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    while (send(c.client, data, sizeof data, MSG_DONTWAIT) > 0)
        ;
    assert_int_equal(errno, EAGAIN);
    copy = process_borrow(self.pid, self.pidfd, c.client);
    assert_true(copy >= 0);
    close(c.client);
    begin = now_s();
    process_give_back(copy); /* the last descriptor of it */
    assert_true(now_s() - begin < PATIENCE_S);
    assert_int_equal(fcntl(copy, F_GETFD), -1);
    close(c.accepted);
    close(c.listener);
    close(self.pidfd);
}

/* Its file system may be a user's, who need not answer when a copy of it is closed. */
static void what_is_no_socket_is_not_borrowed(void **state)
{
    int ends[2], file = open("/dev/null", O_RDWR | O_CLOEXEC), pair[2], copy;
    struct process self;

    (void)state;
    assert_int_equal(process_open(getpid(), &self), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(process_borrow(self.pid, self.pidfd, file), -ENOTSOCK);
    assert_int_equal(process_borrow(self.pid, self.pidfd, ends[0]), -ENOTSOCK);
    assert_int_equal(process_borrow(self.pid, self.pidfd, 1000), -EBADF);
    copy = process_borrow(self.pid, self.pidfd, pair[0]);
    assert_true(copy >= 0);
    process_give_back(copy);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(pair[i]);
    }
    close(file);
    close(self.pidfd);
}

static void waits(void)
{
    for (;;)
        pause();
}

static void runs(void)
{
    for (volatile unsigned i = 0;; i++)
        ;
}

static void waits_for_ever(void)
{
    const pid_t self = getpid();

    if (syscall(SYS_vfork) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == self) /* it may have ended before that */
            pause();
    }
    _exit(1);
}

/* Until it is seen to do so: a signal ends the patience. false: it has ended. */
static bool wait_for(pid_t pid, enum activity activity)
{
    bool runs_on = true;

    alarm(PATIENCE_S);
    while (runs_on && process_activity(pid) != activity)
        runs_on = waitpid(pid, NULL, WNOHANG) == 0;
    alarm(0);
    return runs_on;
}

/* Whoever waits for the child of a vfork() waits as for a disk: not to be interrupted. */
static void what_a_process_does(void **state)
{
    static void (*const does[])(void) = {waits, runs, waits_for_ever}; /* in the order of enum activity */

    (void)state;
    for (size_t i = 0; i < sizeof does / sizeof *does; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            prctl(PR_SET_NAME, "a) R (b) D");
            does[i]();
        }
        if (!wait_for(pid, (enum activity)i))
            SKIP("vfork() does not wait: QEMU's user mode");
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(process_activity(pid), PROCESS_WAITS); /* there is none */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hostile_linger_holds_nobody),
        cmocka_unit_test(what_is_no_socket_is_not_borrowed),
        cmocka_unit_test(what_a_process_does),
    };

    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * tools/daemon/broker.c: what a daemon can do that has given its capabilities away. Each case is a process of its own.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>

#include "daemon/broker.h"
#include "sockets.h"

#define BROKER "test_broker.sock"
#define SO_COOKIE_NUMBER 57
#define ZEROCOPY_RECEIVE 35 /* TCP_ZEROCOPY_RECEIVE, which hands out data */

static struct connection c;
static int *wrong_line; /* shared with the process of the case */

#define MUST(condition)             \
    do {                            \
        if (!(condition)) {         \
            *wrong_line = __LINE__; \
            _exit(1);               \
        }                           \
    } while (0)

#define REFUSED(call) MUST((call) == -1 && errno == EPERM)

static struct owner place_of(int fd, pid_t pid)
{
    struct owner owner = {.pid = pid, .fd = fd};
    socklen_t length = sizeof owner.cookie;

    if (getsockopt(fd, SOL_SOCKET, SO_COOKIE_NUMBER, &owner.cookie, &length) < 0)
        owner.cookie = 0;
    return owner;
}

/* The broker of the next process that connects, if that is of the unit. */
static pid_t start_broker(const char *unit)
{
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un here = {.sun_family = AF_UNIX};
    pid_t child;

    strcpy(here.sun_path, BROKER);
    unlink(BROKER);
    assert_int_equal(bind(listener, (const struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(listener, 1), 0);
    child = fork();
    if (child == 0) {
        MUST(dup2(listener, 3) == 3);
        _exit(broker_serve(unit, NULL) == 0 ? 0 : 1);
    }
    close(listener);
    return child;
}

static int ended(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Runs a case in a daemon, if there can be one here; *owner is of this process's client socket. */
static void in_one(void (*try)(const struct owner *owner), int fd, bool joined)
{
    struct owner owner = place_of(fd, getpid());
    char unit[UNIT_BYTES];
    pid_t broker = 0, child;
    int status;

    *wrong_line = 0;
    owners_unit(getpid(), unit);
    if (joined)
        broker = start_broker(unit);
    child = fork();
    if (child == 0) {
        struct broker_maps maps;
        int opened = joined ? broker_join(BROKER, false, &maps) : broker_open(NULL, &maps);

        if (opened < !joined)
            _exit(opened == 0 || opened == -ENOTSUP || opened == -EBUSY ? 77 : 78);
        try(&owner);
        broker_close();
        _exit(0);
    }
    status = ended(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("needs root, libseccomp, and a kernel without a listener of its own");
    if (status)
        fail_msg("line %d: status %x", *wrong_line, (unsigned)status);
    if (joined)
        assert_int_equal(ended(broker), 0);
}

/* With a broker of its own, and with one that was there. */
static void in_a_daemon(void (*try)(const struct owner *owner), int fd)
{
    in_one(try, fd, false);
    in_one(try, fd, true);
}

static void pass_data(int fd)
{
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    REFUSED(read(fd, &byte, 1));
    REFUSED(write(fd, &byte, 1));
    REFUSED(recv(fd, &byte, 1, MSG_PEEK));
    REFUSED(send(fd, &byte, 1, MSG_NOSIGNAL));
    REFUSED(readv(fd, &part, 1));
    REFUSED(writev(fd, &part, 1));
    REFUSED(recvmsg(fd, &message, 0));
    REFUSED(sendmsg(fd, &message, 0));
}

static void nothing_is_read_or_written(const struct owner *owner)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    int fd = broker_borrow(owner), pair[2];
    char bytes[64];
    socklen_t length = sizeof bytes;

    MUST(fd == LOAN_FD);
    pass_data(fd);
    REFUSED(syscall(SYS_read, (1L << 32) | fd, bytes, 1)); /* the kernel takes the lower half */
    REFUSED(shutdown(fd, SHUT_RDWR));
    REFUSED(connect(fd, &none, sizeof none));
    REFUSED(accept(fd, NULL, NULL));
    REFUSED(dup(fd));
    REFUSED(dup2(fd, 5));
    REFUSED(fcntl(fd, F_DUPFD, 5));
    REFUSED(getsockopt(fd, IPPROTO_TCP, ZEROCOPY_RECEIVE, bytes, &length));
    MUST(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
    REFUSED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)); /* over which it would come back under another number */
    process_give_back(fd);
    MUST(fcntl(fd, F_GETFD) == -1);
}

static void options_are_read_and_set(const struct owner *owner)
{
    int fd = broker_borrow(owner), bytes = 100000, much = 1 << 30, got = 0;
    socklen_t length = sizeof got;

    MUST(fd == LOAN_FD);
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0);
    MUST(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &got, &length) == 0 && got == 2 * bytes);
    bytes = 5000000; /* beyond net.core.wmem_max */
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == 0);
    MUST(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &got, &length) == 0 && got == 2 * bytes);
    REFUSED(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &much, sizeof much));
    REFUSED(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &much, sizeof much));
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "none such", 9) == -1 && errno == ENOENT);
    REFUSED(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &bytes, sizeof bytes));
    REFUSED(setsockopt(fd, SOL_SOCKET, SO_MARK, &bytes, sizeof bytes));
    process_give_back(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REFUSED(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &much, sizeof much));
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == 0);
}

static void it_has_given_up(const struct owner *owner)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    const uint32_t low =
        1U << CAP_NET_ADMIN | 1U << CAP_SYS_PTRACE | 1U << CAP_DAC_READ_SEARCH | 1U << CAP_SYS_ADMIN | 1U << CAP_SETUID;

    MUST(syscall(SYS_capget, &header, data) == 0);
    MUST(!(data[0].permitted & low) && !data[1].permitted && !(data[0].inheritable & low));
    REFUSED(fork());
    REFUSED(execl("/bin/true", "true", NULL));
    REFUSED(kill(owner->pid, SIGCONT));
}

/* All with the right cookie, but the first. */
static void only_that_socket(const struct owner *owner)
{
    struct owner other = *owner;

    other.cookie++;
    MUST(broker_borrow(&other) == -ESTALE);
    other = *owner;
    other.fd = 1000;
    MUST(broker_borrow(&other) == -EBADF);
    other.pid = INT32_MAX;
    MUST(broker_borrow(&other) == -ESRCH);
    MUST(fcntl(LOAN_FD, F_GETFD) == -1);
}

static void no_other_kind(const struct owner *owner)
{
    MUST(owner->cookie && broker_borrow(owner) == -ESTALE);
}

static void the_owner_is_found(const struct owner *owner)
{
    struct wanted wanted[2] = {{.inode = UINT32_MAX}, {.owner.cookie = owner->cookie}};
    struct stat is;

    MUST(fstat(owner->fd, &is) == 0); /* it came with the process */
    wanted[1].inode = (uint32_t)is.st_ino;
    wanted[1].index = 1;
    (void)broker_find(wanted, 2, SIZE_MAX);
    for (int i = 0; i < 2; i++) {
        bool is_ours = wanted[i].index == 1;

        MUST((wanted[i].owner.pid != 0) == is_ours);
        MUST(!is_ours || (wanted[i].owner.cookie == owner->cookie && strncmp(wanted[i].owner.program, "test_broker",
                                                                             15) == 0));
    }
}

static void a_borrowed_socket(void **state)
{
    (void)state;
    in_a_daemon(nothing_is_read_or_written, c.client);
    in_a_daemon(nothing_is_read_or_written, c.listener);
    in_a_daemon(options_are_read_and_set, c.client);
}

static void it_gives_up_the_rest(void **state)
{
    (void)state;
    in_a_daemon(it_has_given_up, c.client);
}

static void nothing_else_is_lent(void **state)
{
    int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
        here = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), elsewhere, home;

    (void)state;
    in_a_daemon(only_that_socket, c.client);
    in_a_daemon(no_other_kind, datagrams);
    in_a_daemon(no_other_kind, here);
    home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (unshare(CLONE_NEWNET) < 0)
        SKIP("may not make a network namespace");
    elsewhere = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setns(home, CLONE_NEWNET), 0);
    in_a_daemon(no_other_kind, elsewhere);
    close(datagrams);
    close(here);
    close(elsewhere);
    close(home);
}

static void owners_are_found(void **state)
{
    (void)state;
    in_a_daemon(the_owner_is_found, c.client);
}

/* Nobody but a process of the unit, and not for a descriptor that no filter has made. */
static void others_are_not_served(void **state)
{
    struct sockaddr_un there = {.sun_family = AF_UNIX, .sun_path = BROKER};
    int fd, pair[2], hello[2] = {0}; /* a descriptor, and nothing to load */
    char unit[UNIT_BYTES];
    pid_t broker = start_broker("autobufd-of-nobody.service"), pid;

    (void)state;
    alarm(20);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&there, sizeof there), 0);
    assert_int_equal(read(fd, &pid, sizeof pid), 0);
    assert_int_not_equal(ended(broker), 0);
    close(fd);
    owners_unit(getpid(), unit);
    broker = start_broker(unit);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&there, sizeof there), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(write(pair[1], "x", 1), 1);
    hello[0] = pair[0];
    assert_int_equal(write(fd, hello, sizeof hello), sizeof hello);
    while (read(fd, &pid, sizeof pid) > 0)
        continue;
    alarm(0);
    (void)ended(broker);
    close(fd);
    close(pair[0]);
    close(pair[1]);
}

static int open_all(void **state)
{
    (void)state;
    c = tcp_connection();
    wrong_line = mmap(NULL, sizeof *wrong_line, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return wrong_line == MAP_FAILED ? -1 : 0;
}

static int close_all(void **state)
{
    (void)state;
    unlink(BROKER);
    close(c.client);
    close(c.accepted);
    close(c.listener);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_borrowed_socket),
        cmocka_unit_test(it_gives_up_the_rest),
        cmocka_unit_test(nothing_else_is_lent),
        cmocka_unit_test(owners_are_found),
        cmocka_unit_test(others_are_not_served),
    };

    return cmocka_run_group_tests_name("broker", tests, open_all, close_all);
}

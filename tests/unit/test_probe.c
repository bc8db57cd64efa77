/* SPDX-License-Identifier: MIT */
/* autobuf_probe_*() with real ICMP, over loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

static const struct sockaddr_in loopback4 = {.sin_family = AF_INET,
                                             .sin_addr.s_addr = 0x0100007f}; /* as on the wire */
static const struct sockaddr_in6 loopback6 = {.sin6_family = AF_INET6,
                                              .sin6_addr = {{{[15] = 1}}}};

static struct autobuf_probe *open_or_skip(const void *peer, socklen_t len)
{
    struct autobuf_probe *probe;
    int error = autobuf_probe_open(&probe, peer, len, NULL);

    if (error == -EACCES || error == -EADDRNOTAVAIL || error == -ENETUNREACH) {
        print_message("skipped: %s\n", autobuf_strerror(error));
        skip();
    }
    assert_int_equal(error, 0);
    return probe;
}

static int lowest_free_fd(void)
{
    int fd = dup(0);

    close(fd);
    return fd;
}

/* What malloc() has given out; 0 if the C library does not say. */
static size_t allocated_bytes(void)
{
#ifdef __GLIBC__
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

/* Steps to the end; checks that nothing is allocated and the descriptor stays. */
static int step_to_the_end(struct autobuf_probe *probe)
{
    size_t allocated = allocated_bytes();
    int fd = autobuf_probe_fd(probe), result;

    while ((result = autobuf_probe_step(probe, autobuf_now_ns())) == 0) {
        struct pollfd p = {fd, (short)autobuf_probe_events(probe), 0};
        uint64_t now = autobuf_now_ns(), until = autobuf_probe_deadline_ns(probe);

        assert_true(until != AUTOBUF_NS_UNSET);
        poll(&p, 1, until > now ? (int)((until - now + 999999) / 1000000) : 0);
        assert_int_equal(autobuf_probe_fd(probe), fd);
        assert_true(allocated_bytes() == allocated);
    }
    return result;
}

static void check_loopback(const void *peer, socklen_t len)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    int free_fd = lowest_free_fd();
    struct autobuf_probe *probe = open_or_skip(peer, len);
    uint64_t rates[2];

    assert_true(fcntl(autobuf_probe_fd(probe), F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(autobuf_probe_fd(probe), F_GETFL) & O_NONBLOCK);
    assert_int_equal(step_to_the_end(probe), 1);
    assert_int_equal(autobuf_probe_result(probe, &path), 0);
    assert_int_equal(path.method, AUTOBUF_METHOD_ICMP);
    assert_true(path.rtt_min_ns > 0 && path.rtt_min_ns < 1000000000);
    assert_true(path.rtt_median_ns >= path.rtt_min_ns);
    assert_true(path.tx_rate_bit_per_s > 0);
    assert_int_equal(path.tx_rate_bit_per_s, path.rx_rate_bit_per_s);
    assert_true(path.cost_bytes <= 1000000);
    assert_true(path.samples >= 15);
    /* Loopback is as fast as this host sends: then there is a bound, and no reading. */
    assert_true(autobuf_probe_rates(probe, rates, 2) > 0 ||
                path.flags & AUTOBUF_PATH_TX_AT_LEAST);
    autobuf_probe_close(probe);
    assert_int_equal(lowest_free_fd(), free_fd);
}

static void measures_ipv4(void **state)
{
    (void)state;
    check_loopback(&loopback4, sizeof loopback4);
}

static void measures_ipv6(void **state)
{
    (void)state;
    check_loopback(&loopback6, sizeof loopback6);
}

static void ipv4_in_ipv6_dress_is_ipv4(void **state)
{
    struct sockaddr_in6 mapped = {
        .sin6_family = AF_INET6,
        .sin6_addr = {{{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}}}};

    (void)state;
    check_loopback(&mapped, sizeof mapped);
}

static void a_forked_child_has_no_handle(void **state)
{
    struct autobuf_probe *probe = open_or_skip(&loopback4, sizeof loopback4);
    pid_t child = fork();
    int status;

    (void)state;
    if (child == 0)
        _exit(autobuf_probe_step(probe, autobuf_now_ns()) == AUTOBUF_E_FORKED ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(step_to_the_end(probe), 1);
    autobuf_probe_close(probe);
}

/* In a child, which has put another file in the socket's place or not: whether that is right after close(). */
static bool closes_its_own(struct autobuf_probe *probe, bool replaced)
{
    int fd = autobuf_probe_fd(probe);

    if (replaced && dup2(STDIN_FILENO, fd) < 0)
        return false;
    autobuf_probe_close(probe);
    return (fcntl(fd, F_GETFD) >= 0) == replaced;
}

static void a_forked_child_closes_what_is_the_probe_s(void **state)
{
    struct autobuf_probe *probe = open_or_skip(&loopback4, sizeof loopback4);

    (void)state;
    for (int replaced = 0; replaced < 2; replaced++) {
        pid_t child = fork();
        int status;

        if (child == 0)
            _exit(closes_its_own(probe, replaced) ? 0 : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_int_equal(step_to_the_end(probe), 1); /* the parent still has it */
    autobuf_probe_close(probe);
}

static void bad_arguments(void **state)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_probe *probe = (void *)&options;

    (void)state;
    assert_int_equal(autobuf_probe_open(&probe, (void *)&local, sizeof local, NULL), -EAFNOSUPPORT);
    assert_null(probe);
    assert_int_equal(autobuf_probe_open(&probe, (const void *)&loopback4, 3, NULL), -EINVAL);
    assert_int_equal(autobuf_probe_open(&probe, NULL, 0, NULL), -EINVAL);
    options.budget_bytes = 999;
    assert_int_equal(autobuf_probe((const void *)&loopback4, sizeof loopback4, &options, &path),
                     -EINVAL);
    options.budget_bytes = 1000001;
    assert_int_equal(autobuf_probe((const void *)&loopback4, sizeof loopback4, &options, &path),
                     -EINVAL);
    options.budget_bytes = 0;
    options.packet_bytes = 127;
    assert_int_equal(autobuf_probe((const void *)&loopback4, sizeof loopback4, &options, &path),
                     -EINVAL);
    options.packet_bytes = 1501;
    assert_int_equal(autobuf_probe((const void *)&loopback4, sizeof loopback4, &options, &path),
                     -EINVAL);
    options.size = 2;
    assert_int_equal(autobuf_probe((const void *)&loopback4, sizeof loopback4, &options, &path),
                     -EINVAL);
    autobuf_probe_close(NULL);
}

/* An older program's struct has no room for what was added since. */
static void a_short_path_struct_is_not_overrun(void **state)
{
    struct autobuf_probe *probe = open_or_skip(&loopback4, sizeof loopback4);
    struct autobuf_path path;

    (void)state;
    memset(&path, 0xee, sizeof path);
    path.size = offsetof(struct autobuf_path, cost_bytes);
    assert_int_equal(step_to_the_end(probe), 1);
    assert_int_equal(autobuf_probe_result(probe, &path), 0);
    assert_int_equal(path.size, offsetof(struct autobuf_path, cost_bytes));
    assert_true(path.tx_bdp_bytes != 0xeeeeeeeeeeeeeeeeU);
    assert_true(path.cost_bytes == 0xeeeeeeeeeeeeeeeeU);
    autobuf_probe_close(probe);
}

static void bwdelay_measures_loopback(void **state)
{
    int64_t bytes = bwdelay("127.0.0.1");

    (void)state;
    if (bytes == -EACCES)
        skip();
    assert_true(bytes > 0);
    assert_int_equal(bwdelay(""), AUTOBUF_E_RESOLVE);
    assert_int_equal(bwdelay_addr(NULL, 0), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_ipv4),
        cmocka_unit_test(measures_ipv6),
        cmocka_unit_test(ipv4_in_ipv6_dress_is_ipv4),
        cmocka_unit_test(a_forked_child_has_no_handle),
        cmocka_unit_test(a_forked_child_closes_what_is_the_probe_s),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(a_short_path_struct_is_not_overrun),
        cmocka_unit_test(bwdelay_measures_loopback),
    };

    return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}

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
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "icmp/probe.h"

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
    struct autobuf_probe *probe = NULL;
    uint64_t rates[2];
    int result = AUTOBUF_E_FEW;

    for (int tries = 0; tries < 10 && result == AUTOBUF_E_FEW; tries++) { /* this host may have been late */
        autobuf_probe_close(probe);
        probe = open_or_skip(peer, len);
        assert_true(fcntl(autobuf_probe_fd(probe), F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(autobuf_probe_fd(probe), F_GETFL) & O_NONBLOCK);
        assert_int_equal(step_to_the_end(probe), 1);
        result = autobuf_probe_result(probe, &path);
    }
    assert_int_equal(result, 0);
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

static void a_mapped_ipv4_address_is_ipv4(void **state)
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

/* ------------------------------------------------------------------ errors that a send reports */

#define BUDGET_BYTES 16000U
#define SMALL_BYTES 44U
#define OLD_ERRORS_MAX 8U /* after more errors in a row about earlier packets, the packets count as too large */

#define LATE_NS (8 * AB_NS_PER_MS)

/* What sendmmsg() of this program does before packets of a train leave, and what has left. */
static struct wire {
    bool on;
    uint64_t late_ns; /* after each call this process does nothing for so long */
    bool route_goes;  /* nothing but small echoes leaves any more */
    int raw;          /* sends ICMP errors */
    int mtu_bytes;    /* of the loopback device from then on; 0: as it is */
    unsigned errors;  /* still to come, one before each call: about an echo that has left before */
    unsigned refused; /* calls that failed */
    unsigned packets; /* of trains that have left, */
    size_t bytes;     /* and the last one's message */
    uint8_t error[8 + 20 + 24]; /* an ICMP header, an IP header and the beginning of the echo that it quotes */
} wire;

int __real_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);

static const struct iovec *echo_of(const struct mmsghdr *message)
{
    return &message->msg_hdr.msg_iov[message->msg_hdr.msg_iovlen - 1];
}

/* RFC 1071, of what has zeros there. */
static void put_checksum(uint8_t *icmp, size_t len)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < len; i += 2)
        sum += (uint32_t)icmp[i] << 8 | icmp[i + 1];
    sum = (sum >> 16) + (sum & 0xffff);
    sum = ~(sum + (sum >> 16));
    icmp[2] = (uint8_t)(sum >> 8);
    icmp[3] = (uint8_t)sum;
}

/* "Fragmentation needed", by a path that takes more than any packet of the probe has. */
static void write_error(int fd, const uint8_t *echo)
{
    static const uint8_t head[28] = {3, 4, [6] = 0xff, 0xff, 0x45, [16] = 64, 1, [20] = 127, 0, 0, 1, 127, 0, 0, 1};
    struct sockaddr_in local;
    socklen_t len = sizeof local, type_len = sizeof(int);
    int type = 0;

    memcpy(wire.error, head, sizeof head);
    memcpy(wire.error + sizeof head, echo, sizeof wire.error - sizeof head);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &len), 0);
    if (type == SOCK_DGRAM) /* a ping socket has the kernel's identifier */
        memcpy(wire.error + sizeof head + 4, &local.sin_port, sizeof local.sin_port);
    put_checksum(wire.error, sizeof wire.error);
}

/*
 * Waits until the error is there. Up to Linux 6.3 it may come later than sendto() returns, and stamps are in the same
 * queue.
 */
static void send_error(int fd)
{
    struct pollfd p = {fd, 0, 0};

    wire.errors--;
    while (recvmsg(fd, &(struct msghdr){0}, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
        ;
    assert_int_equal(sendto(wire.raw, wire.error, sizeof wire.error, 0, (const void *)&loopback4, sizeof loopback4),
                     sizeof wire.error);
    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_true(p.revents & POLLERR);
}

static struct ifreq *loopback(struct ifreq *device)
{
    memcpy(device->ifr_name, "lo", sizeof "lo");
    return device;
}

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    const struct iovec *first = echo_of(messages);
    int sent;

    if (wire.late_ns) {
        sent = __real_sendmmsg(fd, messages, count, flags);
        for (uint64_t until_ns = autobuf_now_ns() + wire.late_ns; autobuf_now_ns() < until_ns;)
            ;
        return sent;
    }
    if (wire.route_goes && first->iov_len != SMALL_BYTES) {
        errno = ENETUNREACH;
        return -1;
    }
    if (!wire.on)
        return __real_sendmmsg(fd, messages, count, flags);
    if (first->iov_len == SMALL_BYTES)
        write_error(fd, first->iov_base);
    else if (wire.errors)
        send_error(fd);
    else if (wire.mtu_bytes)
        assert_int_equal(ioctl(fd, SIOCSIFMTU, loopback(&(struct ifreq){.ifr_mtu = wire.mtu_bytes})), 0);
    sent = __real_sendmmsg(fd, messages, count, flags);
    wire.refused += sent < 0;
    for (int i = 0; i < sent; i++) {
        if (echo_of(&messages[i])->iov_len == SMALL_BYTES)
            continue;
        wire.packets++;
        wire.bytes = echo_of(&messages[i])->iov_len;
    }
    return sent;
}

static int host = -1; /* the network namespace that the other tests use */

static int enter_own_network(void **state)
{
    (void)state;
    host = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return 0;
}

static int leave_own_network(void **state)
{
    (void)state;
    wire.on = false;
    setns(host, CLONE_NEWNET); /* fails if it was not left */
    return close(host);
}

static void make_network_or_skip(bool ping)
{
    FILE *groups;

    if (unshare(CLONE_NEWNET) < 0)
        skip();
    wire.raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    assert_true(wire.raw >= 0);
    assert_int_equal(ioctl(wire.raw, SIOCSIFFLAGS, loopback(&(struct ifreq){.ifr_flags = IFF_UP})), 0);
    groups = fopen("/proc/sys/net/ipv4/ping_group_range", "w");
    if (!groups) /* the container's are read-only */
        skip();
    assert_true(fputs(ping ? "0 2147483647\n" : "1 0\n", groups) >= 0);
    assert_int_equal(fclose(groups), 0);
}

/*
 * If a send fails with an error about an earlier packet, the packets of the train are sent again. From a ping socket
 * Linux 5.10 sends all the same.
 */
static void no_packet_of_a_train_is_left_out(void **state)
{
    static const struct row {
        const char *name;
        bool ping;
        unsigned errors;
        int mtu_bytes;
        size_t bytes;    /* of the last message, */
        unsigned trains, packets; /* the budget is for one train, or 15 packets of 1000 bytes */
    } rows[] = {
        {"raw", false, 0, 0, 1480, 1, 10},
        {"raw: an old error", false, 1, 0, 1480, 1, 10},
        {"raw: some", false, OLD_ERRORS_MAX, 0, 1480, 1, 10},
        {"raw: too many", false, OLD_ERRORS_MAX + 1, 0, 1260, 2, 10},
        {"raw: the packets are too large", false, 0, 1000, 980, 3, 15},
        {"raw: and an old error", false, 1, 1000, 980, 3, 15},
        {"ping", true, 0, 0, 1480, 1, 10},
        {"ping: an old error", true, 1, 0, 1480, 1, 10},
        {"ping: some", true, OLD_ERRORS_MAX, 0, 1480, 1, 10},
        {"ping: too many", true, OLD_ERRORS_MAX + 1, 0, 1260, 2, 10},
        {"ping: the packets are too large", true, 0, 1000, 980, 3, 15},
    };
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;

    (void)state;
    options.budget_bytes = BUDGET_BYTES;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct autobuf_probe_progress progress = AUTOBUF_PROBE_PROGRESS_INIT;
        const struct row *expected = &rows[i];
        struct autobuf_probe *probe;
        int result;

        make_network_or_skip(rows[i].ping);
        wire = (struct wire){.on = true, .raw = wire.raw, .errors = rows[i].errors, .mtu_bytes = rows[i].mtu_bytes};
        assert_int_equal(autobuf_probe_open(&probe, (const void *)&loopback4, sizeof loopback4, &options), 0);
        result = step_to_the_end(probe);
        assert_int_equal(autobuf_probe_progress(probe, &progress), 0);
        if (rows[i].ping && rows[i].errors && !wire.refused) { /* as on Linux 5.10 */
            while (expected->errors)
                expected--;
            wire.errors = 0;
        }
        if (result != 1 || wire.packets != expected->packets || wire.bytes != expected->bytes ||
            progress.trains != expected->trains || wire.errors ||
            wire.refused != expected->errors + (expected->mtu_bytes ? 1 : 0))
            fail_msg("%s: %u packets, the last of %zu bytes, in %u trains, %u calls refused", rows[i].name,
                     wire.packets, wire.bytes, progress.trains, wire.refused);
        wire.on = false;
        autobuf_probe_close(probe);
        close(wire.raw);
    }
}

/* What has come until then counts. */
static void a_route_that_goes_away_ends_it(void **state)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_probe *probe = open_or_skip(&loopback4, sizeof loopback4);

    (void)state;
    wire.route_goes = true;
    assert_int_equal(step_to_the_end(probe), 1);
    wire.route_goes = false;
    assert_int_equal(autobuf_probe_result(probe, &path), AUTOBUF_E_FEW);
    assert_true(path.rtt_min_ns != AUTOBUF_NS_UNSET);
    autobuf_probe_close(probe);
}

/*
 * Other processes run after the packets have left, and before this one reads the clock: the kernel's stamps know.
 * Interpolated, eight packets would have left over 7 ms.
 */
static void packets_left_when_the_kernel_says_so(void **state)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_probe *probe;
    const struct ab_packet *packets;

    (void)state;
    options.budget_bytes = BUDGET_BYTES;
    for (int ping = 0; ping <= 1; ping++) {
        size_t together = 0;

        make_network_or_skip(ping);
        for (int tries = 0; tries < 10 && !together; tries++) { /* another process may run between them, too */
            assert_int_equal(autobuf_probe_open(&probe, (const void *)&loopback4, sizeof loopback4, &options), 0);
            wire.late_ns = LATE_NS;
            assert_int_equal(step_to_the_end(probe), 1);
            wire.late_ns = 0;
            packets = ab_probe_schedule(probe)->packets;
            for (size_t i = 0; i + 7 < ab_probe_schedule(probe)->count; i++)
                together += packets[i].train && packets[i + 7].train == packets[i].train &&
                            packets[i + 7].sent_ns - packets[i].sent_ns < LATE_NS / 4;
            autobuf_probe_close(probe);
        }
        close(wire.raw);
        assert_true(together > 0);
    }
}

/* Time is over while this process waits for a processor. */
static void what_came_in_time_is_read(void **state)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_probe *probe;

    (void)state;
    options.timeout_ns = LATE_NS;
    for (int ping = 0; ping <= 1; ping++) {
        make_network_or_skip(ping);
        assert_int_equal(autobuf_probe_open(&probe, (const void *)&loopback4, sizeof loopback4, &options), 0);
        wire.late_ns = 2 * LATE_NS;
        assert_int_equal(step_to_the_end(probe), 1);
        wire.late_ns = 0;
        autobuf_probe_close(probe);
        close(wire.raw);
    }
}

static void bwdelay_measures_loopback(void **state)
{
    int64_t bytes = bwdelay("127.0.0.1");

    (void)state;
    if (bytes == -EACCES)
        skip();
    if (bytes != AUTOBUF_E_FEW) /* unsure: this host was late */
        assert_true(bytes > 0);
    assert_int_equal(bwdelay(""), AUTOBUF_E_RESOLVE);
    assert_int_equal(bwdelay_addr(NULL, 0), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_ipv4),
        cmocka_unit_test(measures_ipv6),
        cmocka_unit_test(a_mapped_ipv4_address_is_ipv4),
        cmocka_unit_test(a_forked_child_has_no_handle),
        cmocka_unit_test(a_forked_child_closes_what_is_the_probe_s),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(a_short_path_struct_is_not_overrun),
        cmocka_unit_test_setup_teardown(no_packet_of_a_train_is_left_out, enter_own_network, leave_own_network),
        cmocka_unit_test_setup_teardown(packets_left_when_the_kernel_says_so, enter_own_network, leave_own_network),
        cmocka_unit_test_setup_teardown(what_came_in_time_is_read, enter_own_network, leave_own_network),
        cmocka_unit_test(a_route_that_goes_away_ends_it),
        cmocka_unit_test(bwdelay_measures_loopback),
    };

    return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}

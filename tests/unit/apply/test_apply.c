/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plan/plan.h"

#include "sockets.h"
#include "base/base.h"

/* Within the limits of every kernel: [rw]mem_max has been 208 KB and more. */
#define SND_REQUEST 100000
#define RCV_REQUEST 90000
#define REQUEST_NOBODY_GETS 0x3fffffff
#define LOCK_BOTH (AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV)
#define UNLOCK_BOTH (AUTOBUF_PLAN_SND_UNLOCK | AUTOBUF_PLAN_RCV_UNLOCK)

static bool withholds;

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length);

/* As autobufd has the kernel do (tools/daemon/kernel.bpf.c). */
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    uint32_t side = option == SO_SNDBUF ? AUTOBUF_LOCK_SND : option == SO_RCVBUF ? AUTOBUF_LOCK_RCV : 0;

    if (withholds && level == SOL_SOCKET && side && !((uint32_t)state_of(fd).locks & side))
        return 0;
    return __real_setsockopt(fd, level, option, value, length);
}

static struct autobuf_plan plan_of(uint64_t snd, uint64_t rcv, uint32_t flags)
{
    struct autobuf_plan p = AUTOBUF_PLAN_INIT;

    p.snd_request_bytes = snd;
    p.rcv_request_bytes = rcv;
    p.flags = flags;
    p.snd_reason = snd ? AUTOBUF_REASON_SET : AUTOBUF_REASON_KERNEL;
    p.rcv_reason = rcv ? AUTOBUF_REASON_SET : AUTOBUF_REASON_KERNEL;
    return p;
}

/* The kernel keeps twice the request, and stops autotuning that side. */
static void requests_are_set(void **state)
{
    static const struct {
        const char *name;
        uint64_t snd, rcv;
        uint32_t locks;
    } rows[] = {
        {"send", SND_REQUEST, 0, AUTOBUF_LOCK_SND},
        {"receive", 0, RCV_REQUEST, AUTOBUF_LOCK_RCV},
        {"both", SND_REQUEST, RCV_REQUEST, LOCK_BOTH},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows) * 2; i++) {
        size_t row = i % COUNT(rows);
        int fd = i < COUNT(rows) ? tcp_socket() : tcp_listener();
        struct autobuf_plan p = plan_of(rows[row].snd, rows[row].rcv, 0);
        struct socket_state before = state_of(fd), after;

        CHECK_EQUAL(rows[row].name, autobuf_apply(fd, &p), 1);
        after = state_of(fd);
        CHECK_EQUAL(rows[row].name, after.snd_buf, p.snd_request_bytes ? 2 * SND_REQUEST
                                                                       : before.snd_buf);
        CHECK_EQUAL(rows[row].name, after.rcv_buf, p.rcv_request_bytes ? 2 * RCV_REQUEST
                                                                       : before.rcv_buf);
        if (locks_are_known())
            CHECK_EQUAL(rows[row].name, after.locks, rows[row].locks);
        CHECK(rows[row].name, after.pacing_byte_per_s == before.pacing_byte_per_s);
        close(fd);
    }
}

static void requests_are_not_withheld(void **state)
{
    if (!locks_are_known())
        SKIP("needs SO_BUF_LOCK");
    withholds = true;
    requests_are_set(state);
    withholds = false;
}

static uint32_t notsent_of(int fd)
{
    uint32_t bytes = 0;
    socklen_t len = sizeof bytes;

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &len), 0);
    return bytes;
}

/* An enlarged send buffer is for data in flight, not for a backlog. */
static void unsent_data_is_bounded(void **state)
{
    static const struct {
        const char *name;
        uint32_t before, after;
        uint64_t request;
        int result;
    } rows[] = {
        {"not set", 0, 524288, SND_REQUEST, 1},
        {"smaller, by the program", 20000, 20000, SND_REQUEST, 1},
        {"larger, by the program", 4000000, 524288, SND_REQUEST, 1},
        {"a smaller buffer", 0, 0, 6000, 1},
        {"no buffer", 0, 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan p = plan_of(rows[i].request, 0, 0);
        int fd = tcp_socket();

        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &rows[i].before, sizeof rows[i].before);
        CHECK_EQUAL(rows[i].name, autobuf_apply(fd, &p), rows[i].result);
        CHECK_EQUAL(rows[i].name, notsent_of(fd), rows[i].after);
        p = plan_of(REQUEST_NOBODY_GETS, 0, 0); /* and a failure leaves it as it was */
        CHECK_EQUAL(rows[i].name, autobuf_apply(fd, &p), AUTOBUF_E_CLAMPED);
        CHECK_EQUAL(rows[i].name, notsent_of(fd), rows[i].after);
        close(fd);
    }
}

static void as_much_stays_unsent_as_before(void **state)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_plan p;
    int fd = tcp_socket(), bytes, before;

    (void)state;
    assert_int_equal(autobuf_limits_host(&limits), 0);
    if (limits.snd_settable_bytes <= 524288)
        skip(); /* net.core.wmem_max as before Linux 6.18 */
    bytes = (int)(limits.snd_settable_bytes / 2);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    before = state_of(fd).snd_buf;
    p = plan_of(limits.snd_settable_bytes, 0, 0);
    assert_int_equal(autobuf_apply(fd, &p), 1);
    assert_true(before > 524288);
    assert_int_equal(notsent_of(fd), before);
    close(fd);
    fd = tcp_socket();
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    p.intent = AUTOBUF_INTENT_LOW_DELAY;
    assert_int_equal(autobuf_apply(fd, &p), 1);
    assert_int_equal(notsent_of(fd), 524288);
    close(fd);
}

/* net.ipv4.tcp_notsent_lowat belongs to a network namespace. */
static int with_a_bound_for_all(void)
{
    struct autobuf_plan p = plan_of(SND_REQUEST, 0, 0);
    FILE *sysctl = NULL;
    int fd;

    if (unshare(CLONE_NEWNET) == 0)
        sysctl = fopen("/proc/sys/net/ipv4/tcp_notsent_lowat", "w");
    if (!sysctl || fputs("20000\n", sysctl) < 0 || fclose(sysctl) != 0)
        return 77;
    fd = tcp_socket();
    return autobuf_apply(fd, &p) == 1 && notsent_of(fd) == 0 ? 0 : 1;
}

static void a_smaller_bound_of_the_host_stays(void **state)
{
    pid_t child = fork();
    int status;

    (void)state;
    if (child == 0)
        _exit(with_a_bound_for_all());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void send_side_of_a_connection_is_set(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_plan p = plan_of(SND_REQUEST, 0, 0);
    int rcv_buf = option_of(c.client, SO_RCVBUF);

    (void)state;
    assert_int_equal(autobuf_apply(c.client, &p), 1);
    assert_int_equal(option_of(c.client, SO_SNDBUF), 2 * SND_REQUEST);
    assert_int_equal(option_of(c.client, SO_RCVBUF), rcv_buf);
    assert_int_equal(autobuf_apply(c.accepted, &p), 1);
    assert_int_equal(option_of(c.accepted, SO_SNDBUF), 2 * SND_REQUEST);
    close_connection(&c);
}

static void leaving_alone_changes_nothing(void **state)
{
    struct connection c = tcp_connection();
    int fresh = tcp_socket(), fds[] = {fresh, c.listener, c.client, c.accepted};
    struct autobuf_plan p = plan_of(0, 0, 0);

    (void)state;
    for (uint32_t reason = AUTOBUF_REASON_UNKNOWN; reason <= AUTOBUF_REASON_OFF; reason++) {
        for (size_t i = 0; i < COUNT(fds); i++) {
            struct socket_state before = state_of(fds[i]), after;

            p.snd_reason = p.rcv_reason = reason; /* a request is what acts, a reason only tells */
            assert_int_equal(autobuf_apply(fds[i], &p), 0);
            after = state_of(fds[i]);
            assert_true(same_state(&before, &after));
            assert_true(after.locks <= 0);
        }
    }
    close(fresh);
    close_connection(&c);
}

static void pacing_is_set(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_plan p = plan_of(0, 0, 0);
    struct socket_state before = state_of(c.client), after;

    (void)state;
    p.snd_pacing_bit_per_s = 94600000;
    assert_int_equal(autobuf_apply(c.client, &p), 1);
    after = state_of(c.client);
    assert_true(after.pacing_byte_per_s == 94600000 / 8);
    after.pacing_byte_per_s = before.pacing_byte_per_s;
    assert_true(same_state(&before, &after));
    p.snd_pacing_bit_per_s = 80000000000ULL; /* more than 32 bits of bytes */
    assert_int_equal(autobuf_apply(c.client, &p), 1);
    assert_true(state_of(c.client).pacing_byte_per_s == 10000000000ULL);
    p.snd_pacing_bit_per_s = 7; /* less than a byte, and not "stop" */
    assert_int_equal(autobuf_apply(c.client, &p), 1);
    assert_true(state_of(c.client).pacing_byte_per_s == 1);
    p.snd_pacing_bit_per_s = UINT64_MAX; /* no limit any more */
    assert_int_equal(autobuf_apply(c.client, &p), 1);
    assert_true(state_of(c.client).pacing_byte_per_s == UINT64_MAX);
    close_connection(&c);
}

static void unlocking_gives_a_side_back(void **state)
{
    static const struct {
        const char *name;
        uint32_t before, flags, after;
    } rows[] = {
        {"send", LOCK_BOTH, AUTOBUF_PLAN_SND_UNLOCK, AUTOBUF_LOCK_RCV},
        {"receive", LOCK_BOTH, AUTOBUF_PLAN_RCV_UNLOCK, AUTOBUF_LOCK_SND},
        {"both", LOCK_BOTH, UNLOCK_BOTH, 0},
        {"only the send side was locked", AUTOBUF_LOCK_SND, AUTOBUF_PLAN_SND_UNLOCK, 0},
        {"the other one was locked", AUTOBUF_LOCK_RCV, AUTOBUF_PLAN_SND_UNLOCK, AUTOBUF_LOCK_RCV},
    };

    (void)state;
    if (!locks_are_known())
        SKIP("no SO_BUF_LOCK before Linux 5.15");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan p = plan_of(0, 0, rows[i].flags);
        int fd = tcp_socket();
        struct socket_state before, after;

        if (rows[i].before & AUTOBUF_LOCK_SND)
            set_option(fd, SO_SNDBUF, 70000);
        if (rows[i].before & AUTOBUF_LOCK_RCV)
            set_option(fd, SO_RCVBUF, 60000);
        before = state_of(fd);
        CHECK_EQUAL(rows[i].name, before.locks, rows[i].before);
        CHECK_EQUAL(rows[i].name, autobuf_apply(fd, &p), 1);
        after = state_of(fd);
        CHECK_EQUAL(rows[i].name, after.locks, rows[i].after);
        CHECK(rows[i].name, before.snd_buf == after.snd_buf && before.rcv_buf == after.rcv_buf);
        close(fd);
    }
}

static void one_side_set_the_other_given_back(void **state)
{
    struct autobuf_plan p = plan_of(SND_REQUEST, 0, AUTOBUF_PLAN_RCV_UNLOCK);
    int fd = tcp_socket();

    (void)state;
    if (!locks_are_known()) {
        close(fd);
        SKIP("no SO_BUF_LOCK before Linux 5.15");
    }
    set_option(fd, SO_RCVBUF, 60000);
    assert_int_equal(autobuf_apply(fd, &p), 1);
    assert_int_equal(option_of(fd, SO_SNDBUF), 2 * SND_REQUEST);
    assert_int_equal(option_of(fd, SO_BUF_LOCK), AUTOBUF_LOCK_SND);
    p = plan_of(0, RCV_REQUEST, AUTOBUF_PLAN_SND_UNLOCK);
    assert_int_equal(autobuf_apply(fd, &p), 1);
    assert_int_equal(option_of(fd, SO_RCVBUF), 2 * RCV_REQUEST);
    assert_int_equal(option_of(fd, SO_BUF_LOCK), AUTOBUF_LOCK_RCV);
    close(fd);
}

static void receive_buffer_of_a_connection_with_its_clamp(void **state)
{
    struct connection c = tcp_connection();
    int fds[] = {c.client, c.accepted};

    (void)state;
    for (size_t i = 0; i < COUNT(fds); i++) {
        struct autobuf_plan p = plan_of(0, 100000, 0);

        p.rcv_clamp_bytes = 150000;
        assert_int_equal(autobuf_apply(fds[i], &p), 1);
        assert_int_equal(state_of(fds[i]).rcv_buf, 200000);
        assert_int_equal(state_of(fds[i]).clamp, 150000);
        p.rcv_request_bytes = 30000; /* made smaller, data on its way would be dropped */
        assert_int_equal(autobuf_apply(fds[i], &p), -EINVAL);
        assert_int_equal(state_of(fds[i]).rcv_buf, 200000);
    }
    close_connection(&c);
}

static void a_clamp_alone(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_plan p = plan_of(0, 0, 0);
    int before = state_of(c.client).rcv_buf;

    (void)state;
    assert_int_equal(autobuf_apply(c.client, &p), 0);
    p.rcv_clamp_bytes = 40000;
    assert_int_equal(autobuf_apply(c.client, &p), 1);
    assert_int_equal(state_of(c.client).clamp, 40000);
    assert_int_equal(state_of(c.client).rcv_buf, before);
    close_connection(&c);
}

/* The plan was made for other limits: all of the request, or nothing. */
static int ask_for_too_much(const void *arg)
{
    static const struct {
        bool listening;
        uint32_t locks;
        uint64_t snd, rcv;
    } rows[] = {
        {false, 0, 500000000, 0},           {false, 0, 0, 500000000},
        {false, 0, 500000000, 30000},       {true, 0, 500000000, 30000},
        {false, LOCK_BOTH, 500000000, 30000}, {true, LOCK_BOTH, 0, 500000000},
    };

    (void)arg;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_plan p = plan_of(rows[i].snd, rows[i].rcv, 0);
        struct socket_state before, after;
        int fd = rows[i].listening ? tcp_listener() : tcp_socket(), size = 20000;

        if (rows[i].locks && (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) < 0 ||
                              setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) < 0))
            return 2;
        p.snd_pacing_bit_per_s = 1000000;
        p.rcv_clamp_bytes = 50000;
        before = state_of(fd);
        if (autobuf_apply(fd, &p) != AUTOBUF_E_CLAMPED)
            return 3;
        after = state_of(fd);
        if (rows[i].listening) /* which takes no clamp of 0: one that clamps nothing is as good */
            before.clamp = after.clamp > 500000000 ? after.clamp : before.clamp;
        if (!same_state(&before, &after))
            return 4;
        close(fd);
    }
    return 0;
}

static void a_clamped_request_is_undone(void **state)
{
    int result;

    (void)state;
    if (!locks_are_known())
        SKIP("without SO_BUF_LOCK (Linux 5.15) nobody can take a lock off again");
    assert_int_equal(ask_for_too_much(NULL), 0); /* more than wmem_max of any host */
    result = without_privileges(ask_for_too_much, NULL);
    if (result < 0)
        SKIP("privileges cannot be dropped here");
    assert_int_equal(result, 0);
}

/* After the SYN such a receive buffer gave 12 of 481 Mbit/s. */
static void a_receive_buffer_without_a_clamp_is_refused(void **state)
{
    struct connection c = tcp_connection();
    int fds[] = {c.client, c.accepted};

    (void)state;
    for (size_t i = 0; i < COUNT(fds) * 2; i++) {
        int fd = fds[i % COUNT(fds)];
        struct autobuf_plan p = plan_of(i < COUNT(fds) ? 0 : SND_REQUEST, RCV_REQUEST, 0);
        struct socket_state before = state_of(fd), after;

        p.snd_pacing_bit_per_s = 1000000;
        assert_int_equal(autobuf_apply(fd, &p), -EINVAL);
        after = state_of(fd);
        assert_true(same_state(&before, &after));
    }
    close_connection(&c);
}

/* -------------------------------------------------------------------------------------- failure */

static const struct failure_row {
    const char *name;
    uint32_t locked; /* before */
    uint64_t rcv_request;
    uint32_t flags;
    uint64_t pacing;
} failure_rows[] = {
    {"nothing done before", 0, 0, 0, 0},
    {"a receive buffer set before", 0, RCV_REQUEST, 0, 0},
    {"a receive lock there already", AUTOBUF_LOCK_RCV, RCV_REQUEST, 0, 0},
    {"both locks there already", LOCK_BOTH, RCV_REQUEST, 0, 0},
    {"a lock taken off before", LOCK_BOTH, 0, AUTOBUF_PLAN_RCV_UNLOCK, 0},
    {"pacing to follow", AUTOBUF_LOCK_SND, RCV_REQUEST, 0, 1000000},
};

enum { RESTORED, NO_SOCKET, STILL_PRIVILEGED, NOT_EPERM, CHANGED };

static int fail_on_a_new_socket(const void *arg)
{
    const struct failure_row *row = arg;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), size = 30000, result = RESTORED;
    struct autobuf_plan p =
        plan_of(50000000, row->rcv_request, row->flags | AUTOBUF_PLAN_SND_FORCE);
    struct socket_state before, after;

    if (fd < 0)
        return NO_SOCKET;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) == 0)
        return STILL_PRIVILEGED;
    if (row->locked & AUTOBUF_LOCK_SND)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (row->locked & AUTOBUF_LOCK_RCV)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    p.snd_pacing_bit_per_s = row->pacing;
    before = state_of(fd);
    if (before.locks >= 0 && (uint32_t)before.locks != row->locked)
        result = NO_SOCKET;
    else if (autobuf_apply(fd, &p) != -EPERM)
        result = NOT_EPERM;
    after = state_of(fd);
    if (result == RESTORED && !same_state(&before, &after))
        result = CHANGED;
    close(fd);
    return result;
}

static void failure_restores_the_socket(void **state)
{
    (void)state;
    if (!locks_are_known())
        SKIP("without SO_BUF_LOCK (Linux 5.15) nobody can take a lock off again");
    for (size_t i = 0; i < COUNT(failure_rows); i++) {
        int result = without_privileges(fail_on_a_new_socket, &failure_rows[i]);

        if (result < 0 || result == STILL_PRIVILEGED)
            SKIP("CAP_NET_ADMIN cannot be dropped here");
        CHECK_EQUAL(failure_rows[i].name, result, RESTORED);
    }
}

static int fail_on_this_socket(const void *arg)
{
    int fd = *(const int *)arg, result = RESTORED;
    struct autobuf_plan p = plan_of(50000000, 0, AUTOBUF_PLAN_SND_FORCE);
    struct socket_state before = state_of(fd), after;

    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &before.snd_buf, sizeof before.snd_buf) == 0)
        return STILL_PRIVILEGED;
    if (autobuf_apply(fd, &p) != -EPERM)
        return NOT_EPERM;
    after = state_of(fd);
    if (!same_state(&before, &after))
        result = CHANGED;
    return result;
}

/* Larger than this process may set, so that a restore would show. */
static void failure_leaves_the_other_side_alone(void **state)
{
    int fd = tcp_socket(), size = 16777216, result;

    (void)state;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0 || !locks_are_known()) {
        close(fd);
        SKIP("needs CAP_NET_ADMIN, and SO_BUF_LOCK (Linux 5.15)");
    }
    set_option(fd, SO_BUF_LOCK, 0);
    result = without_privileges(fail_on_this_socket, &fd);
    close(fd);
    assert_int_equal(result, RESTORED);
}

/* The receive buffer that autotuning enlarges while data come. */
static void grow_by_autotuning(const struct connection *c)
{
    static char block[1 << 20];

    for (int i = 0; i < 400; i++) {
        size_t left = sizeof block;
        ssize_t got;

        if (send(c->client, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            assert_int_equal(errno, EAGAIN);
        while (left && (got = recv(c->accepted, block, left, MSG_DONTWAIT)) > 0)
            left -= (size_t)got;
    }
}

/* A request above the limits, as after they were lowered. The present size could not be restored. */
static int fail_on_a_grown_buffer(const void *arg)
{
    int fd = *(const int *)arg, low = 20000000, one = 1;
    struct socket_state before, after;
    struct autobuf_plan p;

    if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one) < 0)
        return NOT_EPERM;
    before = state_of(fd);
    p = plan_of(0, (uint64_t)before.rcv_buf, 0);
    p.rcv_clamp_bytes = 0x3fffffff;
    if (autobuf_apply(fd, &p) != AUTOBUF_E_CLAMPED)
        return STILL_PRIVILEGED;
    after = state_of(fd);
    return same_state(&before, &after) ? RESTORED : CHANGED;
}

static void a_request_that_is_not_granted_leaves_the_socket_alone(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;
    int result;

    (void)state;
    assert_int_equal(autobuf_limits_host(&l), 0);
    result = without_privileges(fail_on_a_grown_buffer, &c.accepted);
    close_connection(&c);
    if (result < 0 || l.tcp_rmem_max_bytes <= 2 * l.rcv_settable_bytes)
        SKIP("CAP_NET_ADMIN cannot be dropped here, or everybody may set what autotuning reaches");
    assert_int_equal(result, RESTORED);
}

static void failure_leaves_an_autotuned_buffer(void **state)
{
    struct connection c = tcp_connection();
    int result;

    (void)state;
    grow_by_autotuning(&c);
    result = without_privileges(fail_on_this_socket, &c.accepted);
    close_connection(&c);
    if (result < 0 || result == STILL_PRIVILEGED)
        SKIP("CAP_NET_ADMIN cannot be dropped here");
    assert_int_equal(result, RESTORED);
}

static void forcing_exceeds_the_limit(void **state)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;
    struct autobuf_plan p;
    int fd = tcp_socket();

    (void)state;
    assert_int_equal(autobuf_limits_host(&l), 0);
    if (!(l.flags & AUTOBUF_LIMITS_FORCE) || l.snd_settable_bytes > 500000000 || l.rcv_settable_bytes > 500000000) {
        close(fd);
        SKIP("CAP_NET_ADMIN is not there, or the limit too high");
    }
    p = plan_of(l.snd_settable_bytes + 100000, l.rcv_settable_bytes + 200000, AUTOBUF_PLAN_SND_FORCE);
    assert_int_equal(autobuf_apply(fd, &p), AUTOBUF_E_CLAMPED); /* the other side by what anybody may set */
    p.flags |= AUTOBUF_PLAN_RCV_FORCE;
    assert_int_equal(autobuf_apply(fd, &p), 1);
    assert_int_equal(option_of(fd, SO_SNDBUF), 2 * (l.snd_settable_bytes + 100000));
    assert_int_equal(option_of(fd, SO_RCVBUF), 2 * (l.rcv_settable_bytes + 200000));
    close(fd);
}

static void off_switches_off(void **state)
{
    struct autobuf_plan p = plan_of(SND_REQUEST, RCV_REQUEST, 0);
    int fd = tcp_socket();
    struct socket_state before = state_of(fd), after;

    (void)state;
    p.snd_pacing_bit_per_s = 1000000;
    ab_environment_read("off");
    assert_int_equal(autobuf_apply(fd, &p), 0);
    assert_int_equal(bwdelay_apply(fd, 1000000000), 0);
    after = state_of(fd);
    assert_true(same_state(&before, &after));
    ab_environment_read("on"); /* only "off" is off */
    assert_int_equal(autobuf_apply(fd, &p), 1);
    ab_environment_read(NULL);
    assert_int_equal(option_of(fd, SO_SNDBUF), 2 * SND_REQUEST);
    close(fd);
}

static void other_descriptors_are_refused(void **state)
{
    struct autobuf_plan act = plan_of(SND_REQUEST, 0, 0), rest = plan_of(0, 0, 0);
    int pipes[2], udp;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct {
        const char *name;
        int fd, error;
    } rows[] = {
        {"UDP", udp, -EOPNOTSUPP},
        {"a pipe", pipes[1], -ENOTSOCK},
        {"closed", closed_fd(), -EBADF},
        {"-1", -1, -EBADF},
    };
    struct socket_state before = state_of(udp), after;

    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_EQUAL(rows[i].name, autobuf_apply(rows[i].fd, &act), rows[i].error);
        CHECK_EQUAL(rows[i].name, autobuf_apply(rows[i].fd, &rest), rows[i].error);
        CHECK_EQUAL(rows[i].name, bwdelay_apply(rows[i].fd, 1000000), rows[i].error);
    }
    after = state_of(udp);
    assert_true(same_state(&before, &after));
    close(udp);
    close(pipes[0]);
    close(pipes[1]);
}

static void plans_of_other_programs(void **state)
{
    struct autobuf_plan p = plan_of(SND_REQUEST, RCV_REQUEST, 0);
    int fd = tcp_socket();
    struct socket_state before = state_of(fd), after;

    (void)state;
    p.size = 0;
    assert_int_equal(autobuf_apply(fd, &p), -EINVAL);
    p.size = 3;
    assert_int_equal(autobuf_apply(fd, &p), -EINVAL);
    after = state_of(fd);
    assert_true(same_state(&before, &after));
    p.size = offsetof(struct autobuf_plan, rcv_request_bytes); /* what is behind is not read */
    assert_int_equal(autobuf_apply(fd, &p), 1);
    assert_int_equal(option_of(fd, SO_SNDBUF), 2 * SND_REQUEST);
    assert_int_equal(option_of(fd, SO_RCVBUF), before.rcv_buf);
    close(fd);
}

/* ------------------------------------------------------------------------------- autobuf_unlock */

static void unlocking_without_a_free_descriptor(void **state)
{
    struct connection c = tcp_connection();
    int fd = c.accepted, size = 16000000, result;
    struct rlimit were, few;
    struct socket_state before, after;

    (void)state;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0 || !locks_are_known()) {
        close_connection(&c);
        SKIP("needs CAP_NET_ADMIN, and SO_BUF_LOCK (Linux 5.15)");
    }
    before = state_of(fd);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &were), 0);
    few = (struct rlimit){0, were.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    result = autobuf_unlock(fd, AUTOBUF_LOCK_RCV);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &were), 0);
    after = state_of(fd);
    close_connection(&c);
    assert_int_equal(result, -EMFILE);
    assert_true(same_state(&before, &after));
}

static void locks_are_cleared(void **state)
{
    static const struct {
        const char *name;
        uint32_t locked, sides, result, left;
    } rows[] = {
        {"both", LOCK_BOTH, LOCK_BOTH, LOCK_BOTH, 0},
        {"send", LOCK_BOTH, AUTOBUF_LOCK_SND, AUTOBUF_LOCK_SND, AUTOBUF_LOCK_RCV},
        {"receive", LOCK_BOTH, AUTOBUF_LOCK_RCV, AUTOBUF_LOCK_RCV, AUTOBUF_LOCK_SND},
        {"one is locked, both are asked for", AUTOBUF_LOCK_RCV, LOCK_BOTH, AUTOBUF_LOCK_RCV, 0},
        {"the other one is locked", AUTOBUF_LOCK_SND, AUTOBUF_LOCK_RCV, 0, AUTOBUF_LOCK_SND},
        {"none", 0, LOCK_BOTH, 0, 0},
        {"of no side", LOCK_BOTH, 0, 0, LOCK_BOTH},
    };

    (void)state;
    if (!locks_are_known())
        SKIP("no SO_BUF_LOCK before Linux 5.15");
    for (size_t i = 0; i < COUNT(rows) * 2; i++) {
        size_t row = i % COUNT(rows);
        int fd = i < COUNT(rows) ? tcp_socket() : tcp_listener();

        if (rows[row].locked & AUTOBUF_LOCK_SND)
            set_option(fd, SO_SNDBUF, 70000);
        if (rows[row].locked & AUTOBUF_LOCK_RCV)
            set_option(fd, SO_RCVBUF, 60000);
        CHECK_EQUAL(rows[row].name, autobuf_unlock(fd, rows[row].sides), rows[row].result);
        CHECK_EQUAL(rows[row].name, state_of(fd).locks, rows[row].left);
        close(fd);
    }
}

/*
 * From Linux 7.1 on SO_RCVBUF sets a window clamp, too, which would outlive the lock. A clamp that
 * the program has set stays on each kernel.
 */
static void the_clamp_of_a_size_goes_with_its_lock(void **state)
{
    (void)state;
    if (!locks_are_known())
        SKIP("no SO_BUF_LOCK before Linux 5.15");
    for (unsigned i = 0; i < 8; i++) {
        bool listening = i & 1, by_plan = i & 2, own = i & 4;
        struct autobuf_plan p = plan_of(0, 0, AUTOBUF_PLAN_RCV_UNLOCK);
        int fd = listening ? tcp_listener() : tcp_socket(), clamp = 30000;

        set_option(fd, SO_RCVBUF, 60000);
        if (own)
            assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof clamp), 0);
        assert_int_equal(by_plan ? autobuf_apply(fd, &p) : autobuf_unlock(fd, AUTOBUF_LOCK_RCV),
                         by_plan ? 1 : (int)AUTOBUF_LOCK_RCV);
        if (own)
            assert_int_equal(state_of(fd).clamp, clamp);
        else
            assert_true(state_of(fd).clamp == 0 || (listening && state_of(fd).clamp > 500000000));
        close(fd);
    }
}

/* A buffer that was locked before the SYN has a small window scale. */
static void a_connection_is_reopened_as_far_as_its_scale_goes(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    int fd;

    (void)state;
    if (!locks_are_known()) {
        close_connection(&c);
        SKIP("no SO_BUF_LOCK before Linux 5.15");
    }
    assert_int_equal(autobuf_limits_host(&limits), 0);
    set_option(c.client, SO_SNDBUF, 70000);
    set_option(c.client, SO_RCVBUF, 60000);
    assert_int_equal(autobuf_unlock(c.client, LOCK_BOTH), LOCK_BOTH);
    assert_int_equal(state_of(c.client).locks, 0);
    assert_true(state_of(c.client).clamp > 60000); /* or it would never grow again */
    assert_int_equal(getsockname(c.listener, (struct sockaddr *)&to, &len), 0);
    fd = tcp_socket();
    set_option(fd, SO_RCVBUF, 60000);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, len), 0);
    assert_int_equal(autobuf_unlock(fd, LOCK_BOTH),
                     limits.tcp_rmem_max_bytes > 500000 ? AUTOBUF_LOCK_RCV | AUTOBUF_UNLOCK_LATE
                                                        : AUTOBUF_LOCK_RCV);
    close(fd);
    close_connection(&c);
}

static void unlocking_without_effect(void **state)
{
    int pipes[2], fd = tcp_socket();

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    set_option(fd, SO_RCVBUF, 60000);
    assert_int_equal(autobuf_unlock(pipes[0], LOCK_BOTH), -ENOTSOCK);
    assert_int_equal(autobuf_unlock(closed_fd(), LOCK_BOTH), -EBADF);
    assert_int_equal(autobuf_unlock(fd, 4), -EINVAL);
    ab_environment_read("off");
    assert_int_equal(autobuf_unlock(fd, LOCK_BOTH), 0);
    ab_environment_read(NULL);
    if (locks_are_known())
        assert_int_equal(state_of(fd).locks, AUTOBUF_LOCK_RCV);
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
}

/* -------------------------------------------------------------------------------- bwdelay_apply */

static void bdp_must_be_above_zero(void **state)
{
    static const int64_t bytes[] = {0, -1, -EACCES, AUTOBUF_E_NOREPLY, INT64_MIN};
    int fd = tcp_socket();
    struct socket_state before = state_of(fd), after;

    (void)state;
    for (size_t i = 0; i < COUNT(bytes); i++) /* an error of bwdelay() handed on unseen is one */
        assert_int_equal(bwdelay_apply(fd, bytes[i]), -EINVAL);
    after = state_of(fd);
    assert_true(same_state(&before, &after));
    close(fd);
}

static void a_small_bdp_is_left_to_the_kernel(void **state)
{
    static const int64_t bytes[] = {1, 1448, 20000};
    struct connection c = tcp_connection();
    int fresh = tcp_socket(), fds[] = {fresh, c.listener, c.client, c.accepted};

    (void)state;
    for (size_t i = 0; i < COUNT(fds) * COUNT(bytes); i++) {
        int fd = fds[i % COUNT(fds)];
        struct socket_state before = state_of(fd), after;

        assert_int_equal(bwdelay_apply(fd, bytes[i / COUNT(fds)]), 0);
        after = state_of(fd);
        assert_true(same_state(&before, &after));
        assert_true(after.locks <= 0);
    }
    close(fresh);
    close_connection(&c);
}

/* The largest sk_sndbuf or sk_rcvbuf that this process may have. */
static uint64_t most_stored(const struct autobuf_limits *l, uint64_t settable_bytes)
{
    uint64_t most = l->flags & AUTOBUF_LIMITS_FORCE && l->tcp_mem_bytes ? 0x7ffffffe : 2 * settable_bytes;
    uint64_t share = l->tcp_mem_bytes / AB_TCP_MEM_SHARE;

    return share && share < most ? share : most;
}

/* Whether a connection's receive buffer is set for a BDP: autotuning's window is smaller, and the size is granted. */
static bool rcv_is_set(const struct autobuf_limits *l, uint64_t bdp)
{
    return AB_RCV_WINDOW(l->tcp_rmem_max_bytes) < autobuf_payload_bytes(bdp, AB_IP_PACKET_BYTES) &&
           most_stored(l, l->rcv_settable_bytes) > l->tcp_rmem_max_bytes;
}

enum { AS_EXPECTED, NO_LIMITS, WRONG_RESULT, WRONG_SIZE, WRONG_LOCK, WRONG_RCV };

/* A BDP above autotuning's limit; this host's limits decide. */
static int apply_a_large_product(const void *arg)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;
    int fd = *(const int *)arg, result = AS_EXPECTED, applied;
    struct socket_state before = state_of(fd), after;
    bool settable;

    if (autobuf_limits_host(&l) != 0 || !(l.flags & AUTOBUF_LIMITS_WINDOW_SCALING))
        return NO_LIMITS;
    settable = most_stored(&l, l.snd_settable_bytes) > l.tcp_wmem_max_bytes;
    applied = bwdelay_apply(fd, (int64_t)l.tcp_wmem_max_bytes);
    after = state_of(fd);
    if (applied != settable)
        result = WRONG_RESULT;
    else if (!settable && !same_state(&before, &after))
        result = WRONG_SIZE;
    else if (settable && ((uint64_t)after.snd_buf <= l.tcp_wmem_max_bytes ||
                          (uint64_t)after.snd_buf > most_stored(&l, l.snd_settable_bytes)))
        result = WRONG_SIZE;
    else if (settable && after.locks >= 0 && !((uint32_t)after.locks & AUTOBUF_LOCK_SND))
        result = WRONG_LOCK;
    else if (rcv_is_set(&l, l.tcp_wmem_max_bytes)
                 ? (uint64_t)after.rcv_buf <= l.tcp_rmem_max_bytes ||
                       (uint64_t)after.rcv_buf > most_stored(&l, l.rcv_settable_bytes)
                 : before.rcv_buf != after.rcv_buf)
        result = WRONG_RCV;
    return result;
}

/* Of connections, only older kernels have a short receive side. */
static void a_large_bdp_is_set_if_that_helps(void **state)
{
    struct connection c = tcp_connection();
    int result;

    (void)state;
    result = apply_a_large_product(&c.client);
    if (result == NO_LIMITS) {
        close_connection(&c);
        SKIP("window scaling is off here");
    }
    assert_int_equal(result, AS_EXPECTED);
    result = without_privileges(apply_a_large_product, &c.accepted);
    close_connection(&c);
    if (result < 0)
        SKIP("privileges cannot be dropped here");
    assert_int_equal(result, AS_EXPECTED);
}

static void a_large_bdp_before_connect(void **state)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;
    int fd = tcp_socket(), rcv_buf = option_of(fd, SO_RCVBUF);
    int64_t bdp;
    bool rcv_settable;

    (void)state;
    assert_int_equal(autobuf_limits_host(&l), 0);
    if (!(l.flags & AUTOBUF_LIMITS_RCV_AUTOTUNING) || !(l.flags & AUTOBUF_LIMITS_WINDOW_SCALING)) {
        close(fd);
        SKIP("autotuning or window scaling is off here");
    }
    bdp = (int64_t)(l.tcp_rmem_max_bytes + l.tcp_wmem_max_bytes);     /* beyond both */
    rcv_settable = 2 * l.rcv_settable_bytes > l.tcp_rmem_max_bytes;
    assert_int_equal(bwdelay_apply(fd, bdp),
                     rcv_settable || most_stored(&l, l.snd_settable_bytes) > l.tcp_wmem_max_bytes);
    if (rcv_settable)
        assert_true((uint64_t)option_of(fd, SO_RCVBUF) > l.tcp_rmem_max_bytes);
    else
        assert_int_equal(option_of(fd, SO_RCVBUF), rcv_buf);
    close(fd);
}

static void an_absurd_bdp_does_no_harm(void **state)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;
    int fd = tcp_socket();

    (void)state;
    assert_int_equal(autobuf_limits_host(&l), 0);
    assert_in_range(bwdelay_apply(fd, INT64_MAX), 0, 1);
    assert_true((uint64_t)option_of(fd, SO_SNDBUF) <= most_stored(&l, l.snd_settable_bytes));
    assert_true((uint64_t)option_of(fd, SO_RCVBUF) <= 2 * l.rcv_settable_bytes);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_set),
        cmocka_unit_test(unsent_data_is_bounded),
        cmocka_unit_test(as_much_stays_unsent_as_before),
        cmocka_unit_test(a_smaller_bound_of_the_host_stays),
        cmocka_unit_test(send_side_of_a_connection_is_set),
        cmocka_unit_test(requests_are_not_withheld),
        cmocka_unit_test(leaving_alone_changes_nothing),
        cmocka_unit_test(pacing_is_set),
        cmocka_unit_test(unlocking_gives_a_side_back),
        cmocka_unit_test(one_side_set_the_other_given_back),
        cmocka_unit_test(a_receive_buffer_without_a_clamp_is_refused),
        cmocka_unit_test(receive_buffer_of_a_connection_with_its_clamp),
        cmocka_unit_test(a_clamp_alone),
        cmocka_unit_test(a_clamped_request_is_undone),
        cmocka_unit_test(locks_are_cleared),
        cmocka_unit_test(the_clamp_of_a_size_goes_with_its_lock),
        cmocka_unit_test(a_connection_is_reopened_as_far_as_its_scale_goes),
        cmocka_unit_test(unlocking_without_effect),
        cmocka_unit_test(failure_restores_the_socket),
        cmocka_unit_test(failure_leaves_the_other_side_alone),
        cmocka_unit_test(failure_leaves_an_autotuned_buffer),
        cmocka_unit_test(a_request_that_is_not_granted_leaves_the_socket_alone),
        cmocka_unit_test(unlocking_without_a_free_descriptor),
        cmocka_unit_test(forcing_exceeds_the_limit),
        cmocka_unit_test(off_switches_off),
        cmocka_unit_test(other_descriptors_are_refused),
        cmocka_unit_test(plans_of_other_programs),
        cmocka_unit_test(bdp_must_be_above_zero),
        cmocka_unit_test(a_small_bdp_is_left_to_the_kernel),
        cmocka_unit_test(a_large_bdp_is_set_if_that_helps),
        cmocka_unit_test(a_large_bdp_before_connect),
        cmocka_unit_test(an_absurd_bdp_does_no_harm),
    };

    return cmocka_run_group_tests_name("apply", tests, NULL, NULL);
}

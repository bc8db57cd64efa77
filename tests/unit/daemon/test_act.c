/* SPDX-License-Identifier: MIT */
/* tools/daemon/act.c: what is borrowed is the socket that was seen, or nothing. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

static int borrowed(const struct owner *owner)
{
    int copy = broker_borrow(owner);

    if (copy < 0)
        return copy;
    process_give_back(copy);
    return 0;
}

/* Between look and act its program closes the socket, and opens something else under the same number. */
static void a_descriptor_that_is_another_ones_by_now(void **state)
{
    struct connection c = tcp_connection();
    struct owner owner = {.cookie = cookie_of(c.client), .pid = getpid(), .fd = c.client};
    unsigned before = open_descriptors();
    int file;

    (void)state;
    if (borrowed(&owner) == -EPERM || borrowed(&owner) == -ENOSYS)
        SKIP("this process may not borrow a descriptor");
    assert_int_equal(borrowed(&owner), 0);
    assert_true(dup2(c.accepted, c.client) == c.client); /* another socket */
    assert_int_equal(borrowed(&owner), -ESTALE);
    file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(dup2(file, c.client) == c.client); /* no socket */
    close(file);
    assert_int_equal(borrowed(&owner), -ESTALE);
    assert_int_equal(open_descriptors(), before);
    close(c.client);
    assert_true(borrowed(&owner) < 0); /* nothing, or what was opened to find out */
    close(c.listener);
    close(c.accepted);
}

/* A rule of so many bytes for both sides, on a host of such limits. Returns whether the call changed something. */
static bool fixed(int fd, uint64_t bytes, const struct autobuf_limits *limits)
{
    struct rule rule = {.mode = MODE_FIXED, .snd_bytes = bytes, .rcv_bytes = bytes};
    struct account account = {.rule = &rule, .copy = fd};

    return act_fixed(&account, limits) > 0;
}

#define TCP_MEM_BYTES 800000000U

static struct autobuf_limits limits_or_skip(void)
{
    struct autobuf_limits l = AUTOBUF_LIMITS_INIT;

    assert_int_equal(autobuf_limits_host(&l), 0);
    if (!(l.flags & AUTOBUF_LIMITS_FORCE) || 2 * l.snd_settable_bytes > TCP_MEM_BYTES / 16 ||
        2 * l.rcv_settable_bytes > TCP_MEM_BYTES / 16)
        SKIP("not permitted to force a buffer, or nothing is left to force");
    l.tcp_mem_bytes = TCP_MEM_BYTES;
    l.tcp_used_bytes = l.forced_bytes = 0;
    return l;
}

/* An eighth of the memory for one, half of it for all together, and nothing for what a listener would hand on. */
static void sizes_of_a_rule_are_forced_within_the_memory(void **state)
{
    struct autobuf_limits l = limits_or_skip();
    struct connection c = tcp_connection();

    (void)state;
    assert_true(fixed(c.client, 1000000000, &l));
    assert_int_equal(option_of(c.client, SO_SNDBUF), TCP_MEM_BYTES / 8);
    assert_in_range(option_of(c.client, SO_RCVBUF), 2 * l.rcv_settable_bytes, TCP_MEM_BYTES / 8);
    l.forced_bytes = TCP_MEM_BYTES / 2 - TCP_MEM_BYTES / 16;
    assert_true(fixed(c.accepted, 1000000000, &l));
    assert_int_equal(option_of(c.accepted, SO_SNDBUF), TCP_MEM_BYTES / 16);
    assert_in_range(option_of(c.accepted, SO_RCVBUF), 0,
                    2 * l.rcv_settable_bytes > l.tcp_rmem_max_bytes ? 2 * l.rcv_settable_bytes : l.tcp_rmem_max_bytes);
    l.tcp_used_bytes = TCP_MEM_BYTES;
    assert_true(fixed(c.client, 1000000000, &l));
    assert_int_equal(option_of(c.client, SO_SNDBUF), 2 * l.snd_settable_bytes);
    l.tcp_used_bytes = l.forced_bytes = 0;
    assert_true(fixed(c.listener, 1000000000, &l));
    assert_int_equal(option_of(c.listener, SO_SNDBUF), 2 * l.snd_settable_bytes);
    assert_int_equal(option_of(c.listener, SO_RCVBUF), 2 * l.rcv_settable_bytes);
    close_connection(&c);
}

/* No more than the socket has, anybody may set, autotuning reaches, or a rule could force. */
static void what_a_file_says_is_bounded(void **state)
{
    static const struct {
        uint64_t tcp_mem, settable, kernel, now, was, expected;
    } rows[] = {
        {800, 10, 40, 5, 30, 30},
        {800, 10, 40, 5, 1000, 100},
        {80, 10, 40, 5, 1000, 40},
        {80, 30, 40, 5, 1000, 60},
        {0, 10, 15, 5, 1000, 20},
        {0, 10, 15, 500, 1000, 500},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_limits l = AUTOBUF_LIMITS_INIT;
        struct autobuf_settings now = AUTOBUF_SETTINGS_INIT, was = AUTOBUF_SETTINGS_INIT;

        l.tcp_mem_bytes = rows[i].tcp_mem;
        for (int receive = 0; receive < 2; receive++) { /* the other side has other limits */
            l.snd_settable_bytes = l.tcp_wmem_max_bytes = 1;
            l.rcv_settable_bytes = l.tcp_rmem_max_bytes = 1;
            *(receive ? &l.rcv_settable_bytes : &l.snd_settable_bytes) = rows[i].settable;
            *(receive ? &l.tcp_rmem_max_bytes : &l.tcp_wmem_max_bytes) = rows[i].kernel;
            *(receive ? &now.rcv_buf_bytes : &now.snd_buf_bytes) = rows[i].now;
            was.snd_buf_bytes = was.rcv_buf_bytes = rows[i].was;
            act_bound(&l, &now, &was);
            assert_int_equal(receive ? was.rcv_buf_bytes : was.snd_buf_bytes, rows[i].expected);
        }
    }
}

/* By its lock, and a clamp that holds less than the buffer; else it is the program's, or a rule's size. */
static void a_window_that_a_killed_daemon_held_is_opened(void **state)
{
    static const struct {
        const char *name;
        uint32_t kept_locks;
        int clamp;
        bool opens;
    } rows[] = {
        {"held", 0, 30000, true},
        {"its program's lock", AUTOBUF_LOCK_RCV, 30000, false},
        {"as wide as the buffer", 0, 100000, false},
    };

    (void)state;
    if (!locks_are_known())
        skip();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct connection c = tcp_connection();
        struct autobuf_settings kept = AUTOBUF_SETTINGS_INIT, now = AUTOBUF_SETTINGS_INIT;

        assert_int_equal(autobuf_settings_read(c.client, &kept), 0);
        kept.locks = rows[i].kept_locks;
        set_option(c.client, SO_RCVBUF, 100000);
        assert_int_equal(setsockopt(c.client, IPPROTO_TCP, TCP_WINDOW_CLAMP, &rows[i].clamp, sizeof rows[i].clamp), 0);
        CHECK_EQUAL(rows[i].name, act_open_window(c.client, &kept), 0);
        assert_int_equal(autobuf_settings_read(c.client, &now), 0);
        CHECK_EQUAL(rows[i].name, now.locks & AUTOBUF_LOCK_RCV, rows[i].opens ? 0 : AUTOBUF_LOCK_RCV);
        CHECK(rows[i].name, rows[i].opens ? now.rcv_clamp_bytes >= kept.rcv_clamp_bytes && now.rcv_clamp_bytes >= 100000
                                          : now.rcv_clamp_bytes == (uint32_t)rows[i].clamp);
        CHECK_EQUAL(rows[i].name, now.rcv_buf_bytes, 200000);
        close_connection(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_descriptor_that_is_another_ones_by_now),
        cmocka_unit_test(sizes_of_a_rule_are_forced_within_the_memory),
        cmocka_unit_test(what_a_file_says_is_bounded),
        cmocka_unit_test(a_window_that_a_killed_daemon_held_is_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

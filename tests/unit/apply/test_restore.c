/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "autobuf/autobuf.h"

#include "sockets.h"
#include "base/base.h"

#define SMALL 32768
#define LARGE 150000 /* net.core.[rw]mem_max has been 208 KB and more */
#define LOCK_BOTH (AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV)

static struct autobuf_settings settings_of(int fd)
{
    struct autobuf_settings settings = AUTOBUF_SETTINGS_INIT;

    assert_int_equal(autobuf_settings_read(fd, &settings), 0);
    return settings;
}

static void set_tcp(int fd, int option, int value)
{
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value), 0);
}

static void set_pace(int fd, uint64_t byte_per_s)
{
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &byte_per_s, sizeof byte_per_s), 0);
}

static void check_same(const char *name, const struct autobuf_settings *a, const struct autobuf_settings *b)
{
    CHECK_EQUAL(name, a->locks, b->locks);
    CHECK_EQUAL(name, a->snd_buf_bytes, b->snd_buf_bytes);
    CHECK_EQUAL(name, a->rcv_buf_bytes, b->rcv_buf_bytes);
    CHECK_EQUAL(name, a->pacing_byte_per_s, b->pacing_byte_per_s);
    CHECK_EQUAL(name, a->rcv_clamp_bytes, b->rcv_clamp_bytes);
    CHECK_EQUAL(name, a->notsent_bytes, b->notsent_bytes);
}

static void settings_are_read(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_settings read;

    (void)state;
    set_option(c.client, SO_SNDBUF, SMALL);
    set_option(c.client, SO_RCVBUF, LARGE);
    set_pace(c.client, 5000000);
    set_tcp(c.client, TCP_WINDOW_CLAMP, 20000);
    set_tcp(c.client, TCP_NOTSENT_LOWAT, 7000);
    read = settings_of(c.client);
    assert_int_equal(read.snd_buf_bytes, 2 * SMALL);
    assert_int_equal(read.rcv_buf_bytes, 2 * LARGE);
    assert_int_equal(read.pacing_byte_per_s, 5000000);
    assert_int_equal(read.rcv_clamp_bytes, 20000);
    assert_int_equal(read.notsent_bytes, 7000);
    assert_int_equal(read.locks, locks_are_known() ? LOCK_BOTH : 0);
    assert_int_equal(settings_of(c.accepted).pacing_byte_per_s, UINT64_MAX);
    close_connection(&c);
}

static void unlock_both(int fd)
{
    assert_int_equal((uint32_t)autobuf_unlock(fd, LOCK_BOTH) & LOCK_BOTH, LOCK_BOTH);
}

static void make_larger(int fd)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    plan.snd_request_bytes = LARGE;
    plan.rcv_request_bytes = plan.rcv_clamp_bytes = LARGE;
    plan.snd_pacing_bit_per_s = 80000000;
    assert_int_equal(autobuf_apply(fd, &plan), 1);
}

static void locked_sides_are_restored(void **state)
{
    static const struct {
        const char *name;
        void (*change)(int fd);
    } rows[] = {{"given back to autotuning", unlock_both}, {"made larger", make_larger}};

    (void)state;
    if (!locks_are_known())
        skip();
    for (size_t i = 0; i < COUNT(rows) * 2; i++) {
        struct connection c = tcp_connection();
        int fd = i < COUNT(rows) ? c.client : c.accepted;
        struct autobuf_settings was, now;

        set_option(fd, SO_SNDBUF, SMALL);
        set_option(fd, SO_RCVBUF, SMALL);
        set_pace(fd, 3000000);
        set_tcp(fd, TCP_NOTSENT_LOWAT, 9000);
        was = settings_of(fd);
        rows[i % COUNT(rows)].change(fd);
        now = settings_of(fd);
        CHECK(rows[i % COUNT(rows)].name, now.locks != was.locks || now.snd_buf_bytes != was.snd_buf_bytes);
        CHECK_EQUAL(rows[i % COUNT(rows)].name, autobuf_settings_restore(fd, &was), 0);
        now = settings_of(fd);
        check_same(rows[i % COUNT(rows)].name, &now, &was);
        close_connection(&c);
    }
}

/* Sides of autotuning are unlocked; a receive buffer keeps its present size. */
static void autotuned_sides_are_unlocked(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_settings was = settings_of(c.client), now;

    (void)state;
    if (!locks_are_known())
        skip();
    make_larger(c.client);
    assert_true(settings_of(c.client).locks == LOCK_BOTH);
    assert_int_equal(autobuf_settings_restore(c.client, &was), 0);
    now = settings_of(c.client);
    assert_int_equal(now.locks, 0);
    assert_int_equal(now.snd_buf_bytes, was.snd_buf_bytes);
    assert_int_equal(now.rcv_buf_bytes, 2 * LARGE);
    assert_int_equal(now.pacing_byte_per_s, UINT64_MAX);
    assert_int_equal(now.notsent_bytes, was.notsent_bytes);
    assert_true(now.rcv_clamp_bytes >= was.rcv_clamp_bytes);
    close_connection(&c);
}

/* Also if the send side was unlocked meanwhile. */
static void notsent_lowat_is_restored(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_settings was = settings_of(c.client);

    (void)state;
    if (!locks_are_known())
        skip();
    make_larger(c.client);
    set_tcp(c.client, TCP_NOTSENT_LOWAT, 9000);
    unlock_both(c.client);
    assert_int_equal(autobuf_settings_restore(c.client, &was), 0);
    assert_int_equal(settings_of(c.client).notsent_bytes, was.notsent_bytes);
    close_connection(&c);
}

/* Autotuning would have opened the window as its buffer grew. */
static void a_clamp_follows_a_buffer_that_has_grown(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_settings was = settings_of(c.client);

    (void)state;
    if (!locks_are_known())
        skip();
    set_option(c.client, SO_RCVBUF, LARGE);
    set_option(c.client, SO_BUF_LOCK, 0);
    set_tcp(c.client, TCP_WINDOW_CLAMP, (int)was.rcv_clamp_bytes + 1000);
    assert_int_equal(autobuf_settings_restore(c.client, &was), 0);
    assert_int_equal(settings_of(c.client).rcv_clamp_bytes, LARGE);
    close_connection(&c);
}

static void a_lowered_clamp_is_restored(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_settings was = settings_of(c.client);

    (void)state;
    set_tcp(c.client, TCP_WINDOW_CLAMP, 8000);
    assert_int_equal(settings_of(c.client).rcv_clamp_bytes, 8000);
    assert_int_equal(autobuf_settings_restore(c.client, &was), 0);
    assert_int_equal(settings_of(c.client).rcv_clamp_bytes, was.rcv_clamp_bytes);
    close_connection(&c);
}

static void a_listener_is_restored(void **state)
{
    int fd = tcp_listener();
    struct autobuf_settings was, now;

    (void)state;
    if (!locks_are_known())
        skip();
    set_option(fd, SO_RCVBUF, SMALL);
    was = settings_of(fd);
    assert_int_equal(autobuf_unlock(fd, AUTOBUF_LOCK_RCV), AUTOBUF_LOCK_RCV);
    assert_int_equal(autobuf_settings_restore(fd, &was), 0);
    now = settings_of(fd);
    check_same("listener", &now, &was);
    close(fd);
}

static void unchanged_settings_stay(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_settings was = settings_of(c.client), now;

    (void)state;
    assert_int_equal(autobuf_settings_restore(c.client, &was), 0);
    now = settings_of(c.client);
    check_same("again", &now, &was);
    close_connection(&c);
}

static void bad_settings_are_refused(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_settings never = AUTOBUF_SETTINGS_INIT, good = settings_of(c.client), bad = good;
    int closed = closed_fd(), pair[2];

    (void)state;
    assert_int_equal(autobuf_settings_restore(c.client, &never), -EINVAL);
    bad.locks = 8;
    assert_int_equal(autobuf_settings_restore(c.client, &bad), -EINVAL);
    bad = good;
    bad.size = 3;
    assert_int_equal(autobuf_settings_restore(c.client, &bad), -EINVAL);
    assert_int_equal(autobuf_settings_read(c.client, &bad), -EINVAL);
    assert_int_equal(autobuf_settings_restore(closed, &good), -EBADF);
    assert_int_equal(autobuf_settings_read(closed, &good), -EBADF);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(autobuf_settings_read(pair[0], &good), -EOPNOTSUPP);
    assert_int_equal(autobuf_settings_restore(pair[0], &good), -EOPNOTSUPP);
    close(pair[0]);
    close(pair[1]);
    close_connection(&c);
}

static void off_restores_nothing(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_settings was = settings_of(c.client), changed, now;

    (void)state;
    set_pace(c.client, 4000000);
    changed = settings_of(c.client);
    ab_environment_read("off");
    assert_int_equal(autobuf_settings_restore(c.client, &was), 0);
    ab_environment_read(NULL);
    now = settings_of(c.client);
    check_same("off", &now, &changed);
    close_connection(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(locked_sides_are_restored),
        cmocka_unit_test(autotuned_sides_are_unlocked),
        cmocka_unit_test(notsent_lowat_is_restored),
        cmocka_unit_test(a_clamp_follows_a_buffer_that_has_grown),
        cmocka_unit_test(a_lowered_clamp_is_restored),
        cmocka_unit_test(a_listener_is_restored),
        cmocka_unit_test(unchanged_settings_stay),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(off_restores_nothing),
    };

    return cmocka_run_group_tests_name("restore", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * autobuf_flow_*() on loopback sockets: what must hold with any limits of this host, and with or without privilege.
 * tests/net tests what it does during a transfer over a path.
 */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "base/base.h"
#include "kernel/limits.h"

#include "sockets.h"

#define SMALL 8192
#define SND AUTOBUF_LOCK_SND
#define RCV AUTOBUF_LOCK_RCV

static struct autobuf_flow *opened(int fd, const struct autobuf_options *options)
{
    struct autobuf_flow *flow;

    assert_int_equal(autobuf_flow_open(&flow, fd, NULL, 0, options), 0);
    return flow;
}

/* Its state, with the plan. */
static struct autobuf_applied state_of_flow(const struct autobuf_flow *flow, struct autobuf_plan *plan)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    *plan = (struct autobuf_plan)AUTOBUF_PLAN_INIT;
    applied.plan = plan;
    assert_int_equal(autobuf_flow_state(flow, &applied), 0);
    return applied;
}

static uint64_t pace_of(int fd)
{
    return state_of(fd).pacing_byte_per_s;
}

static struct autobuf_path path_of(uint64_t bit_per_s, uint64_t rtt_ns)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;

    assert_int_equal(autobuf_path_given(&path, bit_per_s, rtt_ns), 0);
    return path;
}

/* The descriptor became another socket. */
static void tell_refuses_another_socket(void **state)
{
    struct autobuf_path path = path_of(1000000000, 100000000);
    int fd = tcp_socket(), other, size = SMALL;
    struct autobuf_flow *flow = opened(fd, NULL);
    struct socket_state before, after;

    (void)state;
    close(fd);
    other = tcp_socket();
    assert_int_equal(other, fd);
    set_option(other, SO_RCVBUF, size);
    before = state_of(other);
    assert_int_equal(autobuf_flow_tell(flow, &path), -ESTALE);
    after = state_of(other);
    assert_true(same_state(&before, &after));
    close(other);
    assert_int_equal(autobuf_flow_tell(flow, &path), -EBADF);
    autobuf_flow_close(flow);
}

static void a_pace_that_the_program_sets_stays(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_path path = path_of(100000000, 20000000);
    uint64_t own = 1000000;
    struct connection c = tcp_connection();
    struct autobuf_flow *flow;

    (void)state;
    options.intent = AUTOBUF_INTENT_LOW_DELAY | AUTOBUF_INTENT_SENDS;
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE;
    options.path = &path;
    flow = opened(c.client, &options);
    assert_int_equal(autobuf_flow_step(flow, autobuf_now_ns()), 1);
    assert_in_range(pace_of(c.client), 1, 12500000);
    assert_int_equal(setsockopt(c.client, SOL_SOCKET, SO_MAX_PACING_RATE, &own, sizeof own), 0);
    autobuf_flow_close(flow);
    assert_int_equal(pace_of(c.client), own);
    flow = opened(c.accepted, &options);
    assert_int_equal(autobuf_flow_step(flow, autobuf_now_ns()), 1);
    autobuf_flow_close(flow); /* and else it is put back */
    assert_int_equal(pace_of(c.accepted), UINT64_MAX);
    close_connection(&c);
}

static int plan_as_if_privileged(const void *arg)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_limits limits = *(const struct autobuf_limits *)arg;
    struct autobuf_flow *flow;
    int fd = socket(AF_INET, SOCK_STREAM, 0), after;

    limits.flags |= AUTOBUF_LIMITS_FORCE;
    options.limits = &limits;
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE;
    options.intent = AUTOBUF_INTENT_SENDS;
    options.path = &path;
    if (fd < 0 || autobuf_path_given(&path, 1000000000, 100000000) < 0)
        return 1;
    if (autobuf_flow_open(&flow, fd, NULL, 0, &options) < 0)
        return 2;
    after = option_of(fd, SO_SNDBUF);
    autobuf_flow_close(flow);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (autobuf_tune(fd, NULL, 0, &options, NULL) < 0 || option_of(fd, SO_SNDBUF) != after)
        return 4;
    return (uint64_t)after / 2 >= limits.snd_settable_bytes ||
                   2 * limits.snd_settable_bytes <= limits.tcp_wmem_max_bytes
               ? 0
               : 3;
}

static void a_privilege_that_is_gone(void **state)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    int result;

    (void)state;
    assert_int_equal(autobuf_limits_host(&limits), 0);
    result = without_privileges(plan_as_if_privileged, &limits);
    if (result < 0)
        SKIP("CAP_NET_ADMIN cannot be dropped here");
    assert_int_equal(result, 0);
}

static void only_a_tcp_socket(void **state)
{
    struct autobuf_flow *flow = (struct autobuf_flow *)&flow;
    int pipes[2], udp = socket(AF_INET, SOCK_DGRAM, 0);

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(autobuf_flow_open(&flow, udp, NULL, 0, NULL), -EOPNOTSUPP);
    assert_null(flow);
    assert_int_equal(autobuf_flow_open(&flow, pipes[0], NULL, 0, NULL), -ENOTSOCK);
    assert_int_equal(autobuf_flow_open(&flow, closed_fd(), NULL, 0, NULL), -EBADF);
    close(udp);
    close(pipes[0]);
    close(pipes[1]);
}

static void options_are_checked(void **state)
{
    struct autobuf_options bad[] = {AUTOBUF_OPTIONS_INIT, AUTOBUF_OPTIONS_INIT, AUTOBUF_OPTIONS_INIT,
                                    AUTOBUF_OPTIONS_INIT, AUTOBUF_OPTIONS_INIT, AUTOBUF_OPTIONS_INIT,
                                    AUTOBUF_OPTIONS_INIT};
    struct autobuf_path no_size = AUTOBUF_PATH_INIT;
    struct autobuf_limits no_limits = AUTOBUF_LIMITS_INIT;
    struct sockaddr_in peer = {.sin_family = AF_INET};
    struct autobuf_flow *flow;
    int fd = tcp_socket();

    (void)state;
    no_size.size = 0;
    no_limits.size = 0;
    bad[0].size = 3;
    bad[1].intent = 3;
    bad[2].flags = 16;
    bad[3].streams = 65536;
    bad[4].budget_bytes = 999;
    bad[5].path = &no_size;
    bad[6].limits = &no_limits;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(autobuf_flow_open(&flow, fd, NULL, 0, &bad[i]), -EINVAL);
        assert_null(flow);
    }
    assert_int_equal(autobuf_flow_open(&flow, fd, (struct sockaddr *)&peer, 3, NULL), -EINVAL);
    close(fd);
}

static void off_does_nothing(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_plan plan;
    struct socket_state before, after;
    struct autobuf_flow *flow;

    (void)state;
    set_option(c.client, SO_SNDBUF, SMALL);
    before = state_of(c.client);
    ab_environment_read("off");
    flow = opened(c.client, NULL);
    assert_int_equal(autobuf_flow_deadline_ns(flow), AUTOBUF_NS_UNSET);
    assert_int_equal(autobuf_flow_step(flow, autobuf_now_ns()), 0);
    assert_int_equal(autobuf_path_given(&path, 1000000000, 1000000000), 0);
    assert_int_equal(autobuf_flow_tell(flow, &path), 0);
    assert_int_equal(state_of_flow(flow, &plan).measured, AUTOBUF_E_OFF);
    assert_int_equal(plan.snd_reason, AUTOBUF_REASON_OFF);
    autobuf_flow_close(flow);
    ab_environment_read(NULL);
    after = state_of(c.client);
    assert_true(same_state(&before, &after));
    close_connection(&c);
}

/* On an unknown path a buffer that is smaller than autotuning's is given back. */
static void limits_alone_give_back(void **state)
{
    static const struct {
        const char *name;
        uint32_t intent, locks;
    } rows[] = {
        {"both sides", 0, 0},
        {"it only sends", AUTOBUF_INTENT_SENDS, RCV},
        {"it only receives", AUTOBUF_INTENT_RECEIVES, SND},
        {"low delay", AUTOBUF_INTENT_LOW_DELAY, SND | RCV},
    };

    int has_locks = tcp_socket();

    (void)state;
    if (option_of(has_locks, SO_BUF_LOCK) < 0)
        skip();
    close(has_locks);
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        struct autobuf_flow *flow;
        struct autobuf_plan plan;
        int fd = i % 2 ? tcp_listener() : tcp_socket();
        uint32_t locks = rows[i / 2].locks;

        options.intent = rows[i / 2].intent;
        set_option(fd, SO_SNDBUF, SMALL);
        set_option(fd, SO_RCVBUF, SMALL);
        flow = opened(fd, &options);
        CHECK_EQUAL(rows[i / 2].name, (uint32_t)option_of(fd, SO_BUF_LOCK) & (SND | RCV), locks);
        CHECK_EQUAL(rows[i / 2].name, state_of_flow(flow, &plan).changes, locks != (SND | RCV));
        if (!(locks & SND))
            CHECK_EQUAL(rows[i / 2].name, plan.snd_reason, AUTOBUF_REASON_KERNEL);
        autobuf_flow_close(flow);
        close(fd);
    }
}

/* Larger than autotuning would make it: it stays. */
static void a_large_buffer_stays(void **state)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_flow *flow;
    int fd = tcp_socket();

    (void)state;
    assert_int_equal(autobuf_limits_host(&limits), 0);
    if (2 * limits.snd_settable_bytes <= limits.tcp_wmem_max_bytes || option_of(fd, SO_BUF_LOCK) < 0)
        skip();
    set_option(fd, SO_SNDBUF, (int)limits.snd_settable_bytes);
    flow = opened(fd, NULL);
    assert_int_equal(option_of(fd, SO_BUF_LOCK) & (int)SND, SND);
    autobuf_flow_close(flow);
    close(fd);
}

/* The sum that the process keeps counts, not the library's own. */
static void forced_buffers_that_the_process_counts(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_path path = path_of(1000000000, 100000000);
    struct autobuf_flow *flow;
    struct autobuf_plan plan;
    int fd = tcp_socket();

    (void)state;
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE | AUTOBUF_FLOW_OBSERVE;
    options.intent = AUTOBUF_INTENT_SENDS;
    options.path = &path;
    assert_int_equal(autobuf_limits_host(&limits), 0);
    ab_forced_keep(&limits.forced_bytes);
    limits.flags |= AUTOBUF_LIMITS_FORCE;
    limits.snd_settable_bytes = SMALL;
    limits.tcp_wmem_max_bytes = 2 * SMALL;
    limits.tcp_mem_bytes = UINT64_MAX / 2;
    limits.forced_bytes = UINT64_MAX;
    options.limits = &limits;
    flow = opened(fd, &options);
    state_of_flow(flow, &plan);
    assert_false(plan.flags & AUTOBUF_PLAN_SND_FORCE);
    limits.forced_bytes = 1;
    assert_int_equal(autobuf_flow_tell(flow, &path), 0);
    state_of_flow(flow, &plan);
    assert_true(plan.flags & AUTOBUF_PLAN_SND_FORCE);
    limits.forced_bytes = limits.tcp_mem_bytes / 2 - 3000000;
    assert_int_equal(autobuf_flow_tell(flow, &path), 0);
    state_of_flow(flow, &plan);
    assert_int_equal(plan.snd_request_bytes, 1500000);
    ab_forced_keep(NULL);
    autobuf_flow_close(flow);
    close(fd);
}

/* By the caller's limits, autotuning reaches less than the program has set. */
static void limits_of_the_caller_count(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct autobuf_flow *flow;
    int fd = tcp_socket();

    (void)state;
    assert_int_equal(autobuf_limits_host(&limits), 0);
    if (option_of(fd, SO_BUF_LOCK) < 0)
        skip();
    limits.tcp_wmem_max_bytes = limits.tcp_rmem_max_bytes = SMALL;
    options.limits = &limits;
    set_option(fd, SO_SNDBUF, SMALL);
    set_option(fd, SO_RCVBUF, SMALL);
    flow = opened(fd, &options);
    assert_int_equal(autobuf_tune(fd, NULL, 0, &options, NULL), 0);
    assert_int_equal(option_of(fd, SO_BUF_LOCK) & (int)(SND | RCV), SND | RCV);
    applied.limits = &limits;
    limits.tcp_wmem_max_bytes = 0;
    assert_int_equal(autobuf_flow_state(flow, &applied), 0);
    assert_int_equal(limits.tcp_wmem_max_bytes, SMALL);
    autobuf_flow_close(flow);
    close(fd);
}

static void a_short_transfer_is_left_alone(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct connection c = tcp_connection();
    struct autobuf_flow *flow;
    struct autobuf_plan plan;

    (void)state;
    options.expected_bytes = 1000000;
    flow = opened(c.client, &options);
    assert_int_equal(autobuf_flow_deadline_ns(flow), AUTOBUF_NS_UNSET);
    state_of_flow(flow, &plan);
    assert_int_equal(plan.snd_reason, AUTOBUF_REASON_KERNEL);
    autobuf_flow_close(flow);
    close_connection(&c);
}

/* Calls step() at each deadline until the connection has a state, ten times at most. */
static void step_until_live(struct autobuf_flow *flow, struct autobuf_live_state *live)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    applied.live = live;
    for (unsigned i = 0; i < 10 && !live->snd_buf_bytes; i++) {
        assert_in_range(autobuf_flow_step(flow, autobuf_flow_deadline_ns(flow)), 0, 1);
        assert_int_equal(autobuf_flow_state(flow, &applied), 0);
    }
}

/* One handle from before connect() to the end. */
static void from_socket_to_end(void **state)
{
    struct autobuf_live_state live = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_available available = AUTOBUF_AVAILABLE_INIT;
    struct autobuf_applied seen = {.size = sizeof seen, .live = &live, .path = &path, .available = &available};
    int listener = tcp_listener(), fd = tcp_socket(), accepted;
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    struct autobuf_flow *flow;
    uint64_t before;
    char byte = 1;

    (void)state;
    assert_int_equal(getsockname(listener, (struct sockaddr *)&peer, &len), 0);
    assert_int_equal(autobuf_flow_open(&flow, fd, (struct sockaddr *)&peer, len, NULL), 0);
    assert_int_equal(autobuf_flow_step(flow, autobuf_now_ns()), 0);
    assert_int_equal(autobuf_flow_state(flow, &seen), 0);
    assert_true(live.rtt_ns == AUTOBUF_NS_UNSET && live.rtt_min_ns == AUTOBUF_NS_UNSET && !live.snd_buf_bytes);
    assert_true(path.rtt_min_ns == AUTOBUF_NS_UNSET && path.method == AUTOBUF_METHOD_NONE);
    assert_true(available.kind == AUTOBUF_KIND_NONE && available.cause == AUTOBUF_CAUSE_SHORT);
    available.size = 3;
    assert_int_equal(autobuf_flow_state(flow, &seen), -EINVAL);
    available = (struct autobuf_available)AUTOBUF_AVAILABLE_INIT;
    before = autobuf_flow_deadline_ns(flow);
    assert_true(before != AUTOBUF_NS_UNSET && before > autobuf_now_ns() - 1000000000);
    assert_int_equal(autobuf_flow_step(flow, before - 1), 0); /* not due: nothing happens */
    assert_int_equal(autobuf_flow_deadline_ns(flow), before);
    assert_int_equal(connect(fd, (struct sockaddr *)&peer, len), 0);
    accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(send(fd, &byte, 1, 0), 1);
    step_until_live(flow, &live);
    assert_true(live.snd_buf_bytes > 0);
    assert_true(autobuf_flow_deadline_ns(flow) != AUTOBUF_NS_UNSET);
    close(fd);
    assert_int_equal(autobuf_flow_step(flow, autobuf_flow_deadline_ns(flow)), -EBADF);
    assert_int_equal(autobuf_flow_deadline_ns(flow), AUTOBUF_NS_UNSET);
    assert_int_equal(autobuf_flow_step(flow, autobuf_now_ns()), -EBADF);
    autobuf_flow_close(flow);
    close(accepted);
    close(listener);
}

static void a_reused_descriptor_is_not_touched(void **state)
{
    int fd = tcp_socket(), other = tcp_socket();
    struct autobuf_flow *flow = opened(fd, NULL);

    (void)state;
    assert_int_equal(dup2(other, fd), fd);
    assert_int_equal(autobuf_flow_step(flow, autobuf_now_ns()), -ESTALE);
    autobuf_flow_close(flow);
    close(fd);
    close(other);
}

static void a_flow_that_only_observes(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct connection c = tcp_connection();
    struct socket_state before, after;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_live_state live = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_plan plan;
    struct autobuf_flow *flow;

    (void)state;
    set_option(c.client, SO_SNDBUF, SMALL);
    before = state_of(c.client);
    options.flags = AUTOBUF_FLOW_OBSERVE | AUTOBUF_FLOW_SILENT;
    flow = opened(c.client, &options);
    state_of_flow(flow, &plan);
    assert_int_equal(plan.snd_reason, AUTOBUF_REASON_KERNEL); /* it would be given back */
    step_until_live(flow, &live);
    assert_int_equal(autobuf_path_given(&path, 1000000000, 1000000000), 0);
    assert_int_equal(autobuf_flow_tell(flow, &path), 0);
    autobuf_flow_close(flow);
    after = state_of(c.client);
    assert_true(same_state(&before, &after));
    close_connection(&c);
}

static void a_descriptor_that_moves(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_flow *flow = opened(c.client, NULL);
    struct autobuf_live_state live = AUTOBUF_LIVE_STATE_INIT;
    int copy = dup(c.client), later = dup(c.client);

    (void)state;
    assert_int_equal(autobuf_flow_move(flow, c.accepted), -ESTALE);
    assert_int_equal(autobuf_flow_move(flow, closed_fd()), -EBADF);
    assert_int_equal(autobuf_flow_move(flow, copy), 0); /* before the first look */
    close(c.client);
    step_until_live(flow, &live);
    assert_int_equal(autobuf_flow_move(flow, later), 0); /* and after it */
    close(copy);
    assert_in_range(autobuf_flow_step(flow, autobuf_flow_deadline_ns(flow)), 0, 1);
    autobuf_flow_close(flow);
    c.client = later;
    close_connection(&c);
}

static void a_listener_has_no_deadline(void **state)
{
    int fd = tcp_listener();
    struct autobuf_flow *flow = opened(fd, NULL);

    (void)state;
    assert_int_equal(autobuf_flow_step(flow, autobuf_now_ns()), 0);
    assert_int_equal(autobuf_flow_deadline_ns(flow), AUTOBUF_NS_UNSET);
    autobuf_flow_close(flow);
    close(fd);
}

/* A known path is planned for at once, or when it is told; at most 1.35 BDP are set. */
static void a_known_path_is_planned_for(void **state)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    uint64_t bdp;

    (void)state;
    assert_int_equal(autobuf_limits_host(&limits), 0);
    bdp = limits.tcp_wmem_max_bytes;     /* half as much again as autotuning's window */
    assert_int_equal(autobuf_path_given(&path, 8 * bdp, 1000000000), 0);
    options.intent = AUTOBUF_INTENT_SENDS;
    for (size_t i = 0; i < 4; i++) {
        struct connection c = tcp_connection();
        int fd = i % 2 ? c.client : tcp_socket();
        struct autobuf_flow *flow;
        struct autobuf_plan plan;

        options.path = i < 2 ? &path : NULL;
        flow = opened(fd, &options);
        if (i >= 2)
            assert_in_range(autobuf_flow_tell(flow, &path), 0, 1);
        assert_int_equal(state_of_flow(flow, &plan).measured, 0);
        assert_true(plan.snd_wanted_bytes > 0 && plan.snd_reason != AUTOBUF_REASON_UNKNOWN);
        if (plan.snd_reason == AUTOBUF_REASON_SET) {
            assert_int_equal(option_of(fd, SO_SNDBUF), 2 * plan.snd_request_bytes);
            assert_in_range(plan.snd_window_bytes, plan.snd_wanted_bytes, plan.snd_wanted_bytes * 136 / 100);
        } else {
            assert_true(locks_are(fd, 0));
        }
        autobuf_flow_close(flow);
        if (fd != c.client)
            close(fd);
        close_connection(&c);
    }
}

/* The connection is reset before the first step, which returns the error. */
static void a_connection_that_ends_before_the_first_step(void **state)
{
    struct connection c = tcp_connection();
    struct autobuf_flow *flow = opened(c.client, NULL);
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct linger now = {1, 0};
    char byte;

    (void)state;
    assert_int_equal(setsockopt(c.accepted, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    close(c.accepted);
    assert_int_equal(recv(c.client, &byte, 1, 0), -1);
    assert_int_equal(autobuf_flow_step(flow, autobuf_now_ns()), -ENOTCONN);
    assert_int_equal(autobuf_flow_move(flow, c.client), -ENOTCONN); /* nor does it begin anew */
    assert_int_equal(autobuf_flow_tell(flow, &path), -ENOTCONN);
    autobuf_flow_close(flow);
    c.accepted = dup(c.listener);
    close_connection(&c);
}

/* A buffer that was set before connect() keeps the reason "set". */
static void the_reason_outlives_the_handshake(void **state)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_live_state live = AUTOBUF_LIVE_STATE_INIT;
    int listener = tcp_listener(), fd = tcp_socket(), before;
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    struct autobuf_flow *flow;
    struct autobuf_plan plan;
    uint32_t reason;

    (void)state;
    assert_int_equal(autobuf_limits_host(&limits), 0);
    assert_int_equal(autobuf_path_given(&path, 8 * limits.tcp_wmem_max_bytes, 1000000000), 0);
    options.intent = AUTOBUF_INTENT_SENDS;
    options.path = &path;
    flow = opened(fd, &options);
    state_of_flow(flow, &plan);
    reason = plan.snd_reason;
    before = option_of(fd, SO_SNDBUF);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&peer, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&peer, len), 0);
    step_until_live(flow, &live);
    state_of_flow(flow, &plan);
    assert_int_equal(plan.snd_reason, reason);
    if (reason == AUTOBUF_REASON_SET)
        assert_int_equal(option_of(fd, SO_SNDBUF), before);
    autobuf_flow_close(flow);
    close(fd);
    close(listener);
}

static void count_line(void *user, const struct autobuf_event *event)
{
    (void)event;
    ++*(unsigned *)user;
}

/* Also if it changes nothing, because autotuning is enough, or live was quicker. */
static void a_new_bdp_is_logged(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_live_state live = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_path path = path_of(10000000, 1000000);
    struct connection c = tcp_connection();
    struct autobuf_flow *flow;
    struct autobuf_plan plan;
    unsigned told = 0;

    (void)state;
    options.intent = AUTOBUF_INTENT_SENDS;
    options.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE;
    options.log = count_line;
    options.log_user = &told;
    flow = opened(c.client, &options);
    step_until_live(flow, &live);
    state_of_flow(flow, &plan);
    assert_int_equal(plan.snd_reason, AUTOBUF_REASON_KERNEL);
    told = 0;
    path.tx_bdp_bytes = path.tx_rate_bit_per_s = 0; /* of the other side nothing is said */
    assert_int_equal(autobuf_flow_tell(flow, &path), 0);
    assert_int_equal(told, 0);
    path = path_of(10000000, 1000000);
    assert_int_equal(autobuf_flow_tell(flow, &path), 0);
    state_of_flow(flow, &plan);
    assert_int_equal(plan.snd_reason, AUTOBUF_REASON_KERNEL);
    assert_int_equal(told, 1);
    assert_int_equal(autobuf_flow_tell(flow, &path), 0);
    assert_int_equal(told, 1);
    autobuf_flow_close(flow);
    close_connection(&c);
}

static void a_forked_child_is_refused(void **state)
{
    struct autobuf_flow *flow;
    int fd = tcp_socket(), status;
    pid_t child;

    (void)state;
    flow = opened(fd, NULL);
    child = fork();
    if (child == 0)
        _exit(autobuf_flow_step(flow, autobuf_now_ns()) == AUTOBUF_E_FORKED ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    autobuf_flow_close(flow);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_tcp_socket),
        cmocka_unit_test(tell_refuses_another_socket),
        cmocka_unit_test(a_pace_that_the_program_sets_stays),
        cmocka_unit_test(a_privilege_that_is_gone),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(off_does_nothing),
        cmocka_unit_test(limits_alone_give_back),
        cmocka_unit_test(a_large_buffer_stays),
        cmocka_unit_test(limits_of_the_caller_count),
        cmocka_unit_test(forced_buffers_that_the_process_counts),
        cmocka_unit_test(a_short_transfer_is_left_alone),
        cmocka_unit_test(from_socket_to_end),
        cmocka_unit_test(a_reused_descriptor_is_not_touched),
        cmocka_unit_test(a_flow_that_only_observes),
        cmocka_unit_test(a_descriptor_that_moves),
        cmocka_unit_test(a_listener_has_no_deadline),
        cmocka_unit_test(a_known_path_is_planned_for),
        cmocka_unit_test(a_connection_that_ends_before_the_first_step),
        cmocka_unit_test(the_reason_outlives_the_handshake),
        cmocka_unit_test(a_new_bdp_is_logged),
        cmocka_unit_test(a_forked_child_is_refused),
    };

    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}

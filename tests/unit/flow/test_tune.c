/* SPDX-License-Identifier: MIT */
/*
 * autobuf_tune() on loopback sockets: what must hold with any limits of this host, and with or without privilege.
 * tests/net tests what it decides on a path.
 */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "base/base.h"

#include "sockets.h"

/* All results of autobuf_tune(). */
struct told {
    struct autobuf_applied applied;
    struct autobuf_path path;
    struct autobuf_limits limits;
    struct autobuf_plan plan;
};

static struct autobuf_applied *tell(struct told *t)
{
    *t = (struct told){AUTOBUF_APPLIED_INIT, AUTOBUF_PATH_INIT, AUTOBUF_LIMITS_INIT,
                       AUTOBUF_PLAN_INIT};
    t->applied.path = &t->path;
    t->applied.limits = &t->limits;
    t->applied.plan = &t->plan;
    t->applied.measured = 4711;
    return &t->applied;
}

/* A fresh socket and the three of a connection, of which the listener is the peer. */
struct stage {
    struct connection c;
    struct sockaddr_in peer;
    int fds[4];
};

static void stage_begin(struct stage *s)
{
    socklen_t len = sizeof s->peer;

    s->c = tcp_connection();
    assert_int_equal(getsockname(s->c.listener, (struct sockaddr *)&s->peer, &len), 0);
    s->fds[0] = tcp_socket();
    s->fds[1] = s->c.listener;
    s->fds[2] = s->c.client;
    s->fds[3] = s->c.accepted;
}

static void stage_end(struct stage *s)
{
    close(s->fds[0]);
    close_connection(&s->c);
}

/* Nothing is changed; the caller checks measured. */
static void tune_leaves_alone(int fd, const struct sockaddr_in *peer,
                              const struct autobuf_options *options, struct told *t)
{
    struct socket_state before = state_of(fd), after;

    assert_int_equal(
        autobuf_tune(fd, (const struct sockaddr *)peer, peer ? sizeof *peer : 0, options, tell(t)),
        0);
    after = state_of(fd);
    assert_true(same_state(&before, &after));
}

static void off_leaves_alone(void **state)
{
    struct stage s;
    struct told t;

    (void)state;
    stage_begin(&s);
    ab_environment_read("off");
    for (size_t i = 0; i < 2 * COUNT(s.fds); i++) {
        tune_leaves_alone(s.fds[i / 2], i % 2 ? &s.peer : NULL, NULL, &t);
        assert_int_equal(t.applied.measured, AUTOBUF_E_OFF);
        assert_int_equal(t.plan.snd_reason, AUTOBUF_REASON_OFF);
        assert_int_equal(t.plan.rcv_reason, AUTOBUF_REASON_OFF);
        assert_int_equal(t.path.method, AUTOBUF_METHOD_NONE);
        assert_true(t.limits.tcp_wmem_max_bytes > 0);
    }
    ab_environment_read(NULL);
    stage_end(&s);
}

/* Without a peer only limits count, which request nothing. */
static void without_a_peer_nothing_is_measured(void **state)
{
    static const uint32_t intents[] = {AUTOBUF_INTENT_THROUGHPUT, AUTOBUF_INTENT_LOW_DELAY};
    struct stage s;
    struct told t;

    (void)state;
    stage_begin(&s);
    for (size_t i = 0; i < 2 * COUNT(intents); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

        options.intent = intents[i / 2];
        tune_leaves_alone(s.fds[i % 2], NULL, &options, &t);
        assert_int_equal(t.applied.measured, 0);
        assert_int_equal(t.plan.intent, intents[i / 2]);
        assert_int_equal(t.plan.snd_reason, AUTOBUF_REASON_UNKNOWN);
        assert_int_equal(t.plan.rcv_reason, AUTOBUF_REASON_UNKNOWN);
        assert_int_equal(t.path.method, AUTOBUF_METHOD_NONE);
        assert_int_equal(t.path.rtt_min_ns, AUTOBUF_NS_UNSET);
    }
    stage_end(&s);
}

static void short_transfer_is_not_measured(void **state)
{
    static const uint32_t intents[] = {AUTOBUF_INTENT_THROUGHPUT, AUTOBUF_INTENT_LOW_DELAY};
    struct stage s;
    struct told t;

    (void)state;
    stage_begin(&s);
    for (size_t i = 0; i < COUNT(intents) * COUNT(s.fds); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

        options.intent = intents[i / COUNT(s.fds)];
        options.expected_bytes = 1;
        tune_leaves_alone(s.fds[i % COUNT(s.fds)], &s.peer, &options, &t);
        assert_int_equal(t.applied.measured, 0);
        assert_int_equal(t.plan.snd_reason, AUTOBUF_REASON_KERNEL);
        assert_int_equal(t.plan.rcv_reason, AUTOBUF_REASON_KERNEL);
        assert_int_equal(t.path.cost_bytes, 0);
    }
    stage_end(&s);
}

enum { WELL, FAILED, TOUCHED, SENT, WRONG_REASON, WRONG_PATH };

/*
 * The path over loopback. Where measuring is permitted the plan is "kernel": no product is large at
 * such a round-trip time. Where it is not, that is no failure. Of a connection TCP knows the time, so
 * that nothing is sent at all.
 */
static int tune_over_loopback(const void *arg)
{
    const struct stage *s = arg;

    for (size_t i = 0; i < COUNT(s->fds); i++) {
        struct socket_state before = state_of(s->fds[i]), after;
        bool connected = i >= 2;
        uint32_t reason;
        struct told t;

        if (autobuf_tune(s->fds[i], connected ? NULL : (const struct sockaddr *)&s->peer,
                         connected ? 0 : sizeof s->peer, NULL, tell(&t)) != 0)
            return FAILED;
        after = state_of(s->fds[i]);
        if (!same_state(&before, &after))
            return TOUCHED;
        if (t.applied.measured > 1 || t.applied.measured == -EINVAL)
            return FAILED;
        if (connected && t.applied.measured != 0)
            return SENT;
        reason = connected || t.applied.measured == 1 ? AUTOBUF_REASON_KERNEL
                                                      : AUTOBUF_REASON_UNKNOWN;
        if (t.plan.snd_reason != reason || t.plan.rcv_reason != reason)
            return WRONG_REASON;
        if ((t.applied.measured == 1) != (t.path.method == AUTOBUF_METHOD_ICMP) ||
            (t.applied.measured == 1) != (t.path.rtt_min_ns != AUTOBUF_NS_UNSET))
            return WRONG_PATH;
    }
    return WELL;
}

static void loopback_is_left_to_the_kernel(void **state)
{
    struct stage s;
    int unprivileged;

    (void)state;
    stage_begin(&s);
    assert_int_equal(tune_over_loopback(&s), WELL);
    unprivileged = without_privileges(tune_over_loopback, &s);
    assert_in_range(unprivileged + 1, 0, WELL + 1); /* or nothing to drop */
    stage_end(&s);
}

static void other_descriptors_are_refused(void **state)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
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

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct told t;

        CHECK_EQUAL(rows[i].name, autobuf_tune(rows[i].fd, NULL, 0, NULL, NULL), rows[i].error);
        CHECK_EQUAL(rows[i].name,
                    autobuf_tune(rows[i].fd, (struct sockaddr *)&peer, sizeof peer, NULL, tell(&t)),
                    rows[i].error);
        CHECK_EQUAL(rows[i].name, t.applied.measured, 4711); /* a failure tells nothing else */
    }
    close(udp);
    close(pipes[0]);
    close(pipes[1]);
}

static struct autobuf_options measuring(void)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;

    options.limits = &little_limits;
    return options;
}

static void options_out_of_range(void **state)
{
    struct autobuf_options small_budget = measuring(), large_budget = measuring(),
                           intent = measuring(), size = measuring();
    const struct {
        const char *name;
        const struct autobuf_options *options;
        socklen_t peer_len;
    } rows[] = {
        {"a budget below 1,000", &small_budget, sizeof(struct sockaddr_in)},
        {"a budget above 1,000,000", &large_budget, sizeof(struct sockaddr_in)},
        {"an intent that is none", &intent, sizeof(struct sockaddr_in)},
        {"a size that cannot be", &size, sizeof(struct sockaddr_in)},
    };
    struct stage s;

    (void)state;
    small_budget.budget_bytes = 999;
    large_budget.budget_bytes = 1000001;
    intent.intent = AUTOBUF_INTENT_LOW_DELAY | AUTOBUF_INTENT_SCAVENGER;
    size.size = 3;
    stage_begin(&s);
    for (size_t i = 0; i < COUNT(rows) * COUNT(s.fds); i++) {
        int fd = s.fds[i % COUNT(s.fds)];
        struct socket_state before = state_of(fd), after;
        const char *name = rows[i / COUNT(s.fds)].name;

        CHECK_EQUAL(name,
                    autobuf_tune(fd, (struct sockaddr *)&s.peer, rows[i / COUNT(s.fds)].peer_len,
                                 rows[i / COUNT(s.fds)].options, NULL),
                    -EINVAL);
        after = state_of(fd);
        CHECK(name, same_state(&before, &after));
    }
    stage_end(&s);
}

/* A measurement that fails is no error of the call. */
static void peers_that_cannot_be_measured(void **state)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/"};
    struct autobuf_options options = measuring();
    struct stage s;
    struct told t;

    (void)state;
    stage_begin(&s);
    assert_int_equal(
        autobuf_tune(s.fds[0], (struct sockaddr *)&local, sizeof local, &options, tell(&t)), 0);
    assert_int_equal(t.applied.measured, -EAFNOSUPPORT);
    assert_int_equal(t.plan.snd_reason, AUTOBUF_REASON_UNKNOWN);
    assert_int_equal(autobuf_tune(s.fds[0], (struct sockaddr *)&s.peer, 3, &options, NULL),
                     -EINVAL);
    stage_end(&s);
}

/* The kernel returns EINVAL for a link-local address without interface, as for a blackhole route. */
static void a_peer_that_the_kernel_finds_invalid(void **state)
{
    struct sockaddr_in6 peer = {.sin6_family = AF_INET6, .sin6_addr = {{{0xfe, 0x80, [15] = 1}}}};
    struct autobuf_options options = measuring();
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct told t;

    (void)state;
    if (fd < 0)
        SKIP("no IPv6 here");
    assert_int_equal(autobuf_tune(fd, (struct sockaddr *)&peer, sizeof peer, &options, tell(&t)), 0);
    close(fd);
    if (t.applied.measured == -EACCES)
        SKIP("nothing may be measured here");
    assert_int_equal(t.applied.measured, -EINVAL);
    assert_int_equal(t.plan.snd_reason, AUTOBUF_REASON_UNKNOWN);
}

/* What an older program's struct has no room for is not written. */
static void older_program_s_structs(void **state)
{
    struct autobuf_plan plan;
    struct stage s;
    struct told t;

    (void)state;
    stage_begin(&s);
    tell(&t);
    t.applied.size = offsetof(struct autobuf_applied, plan);
    memset(&t.plan, 0x77, sizeof t.plan);
    memcpy(&plan, &t.plan, sizeof plan);
    assert_int_equal(autobuf_tune(s.fds[0], NULL, 0, NULL, &t.applied), 0);
    assert_int_equal(t.applied.measured, 0);
    assert_int_equal(t.applied.size, offsetof(struct autobuf_applied, plan));
    assert_memory_equal(&plan, &t.plan, sizeof plan);
    assert_true(t.limits.tcp_wmem_max_bytes > 0);
    tell(&t);
    memset(&t.plan, 0x77, sizeof t.plan);
    t.plan.size = offsetof(struct autobuf_plan, snd_reason);
    assert_int_equal(autobuf_tune(s.fds[0], NULL, 0, NULL, &t.applied), 0);
    assert_int_equal(t.plan.size, offsetof(struct autobuf_plan, snd_reason));
    assert_int_equal(t.plan.snd_reason, 0x77777777);
    stage_end(&s);
}

/* Nothing is set if the result could not be reported. */
static void structs_without_a_size_are_refused(void **state)
{
    struct autobuf_flow *flow;
    struct stage s;
    struct told t;

    (void)state;
    stage_begin(&s);
    for (unsigned i = 0; i < 4; i++) {
        tell(&t);
        *(uint32_t *[]){&t.applied.size, &t.path.size, &t.limits.size, &t.plan.size}[i] = 0;
        assert_int_equal(autobuf_tune(s.fds[0], NULL, 0, NULL, &t.applied), -EINVAL);
        assert_int_equal(autobuf_flow_open(&flow, s.fds[0], NULL, 0, NULL), 0);
        assert_int_equal(autobuf_flow_state(flow, &t.applied), -EINVAL);
        autobuf_flow_close(flow);
    }
    stage_end(&s);
}

struct lines {
    unsigned count;
    bool clean;
};

static void take_line(void *user, const struct autobuf_event *event)
{
    struct lines *lines = user;

    lines->count++;
    lines->clean = lines->clean && event->text[0] && !strchr(event->text, '\n');
}

static void says_what_it_does(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct lines lines = {0, true};
    struct stage s;

    (void)state;
    options.log = take_line;
    options.log_user = &lines;
    stage_begin(&s);
    assert_int_equal(autobuf_tune(s.fds[0], NULL, 0, &options, NULL), 0);
    assert_true(lines.count >= 2 && lines.clean); /* one a side */
    lines.count = 0;
    options.expected_bytes = 1;
    assert_int_equal(
        autobuf_tune(s.fds[0], (struct sockaddr *)&s.peer, sizeof s.peer, &options, NULL), 0);
    assert_true(lines.count >= 3 && lines.clean); /* and that nothing was measured */
    stage_end(&s);
}

/* A lock that a plan would clear stays. */
static void observing_only(void **state)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    int fd = tcp_socket();
    struct socket_state before, after;

    (void)state;
    set_option(fd, SO_SNDBUF, 8192);
    set_option(fd, SO_RCVBUF, 8192);
    options.flags = AUTOBUF_FLOW_OBSERVE;
    before = state_of(fd);
    assert_int_equal(autobuf_tune(fd, NULL, 0, &options, NULL), 0);
    after = state_of(fd);
    assert_true(same_state(&before, &after));
    close(fd);
}

/* A known path's rate replaces the program's pacing rate if the program sends. */
static void low_delay_replaces_a_rate(void **state)
{
    static const struct {
        const char *name;
        uint32_t intent, path_flags;
        uint64_t own;
        bool replaced;
    } rows[] = {
        {"none", 0, 0, UINT64_MAX, true},
        {"a lower one", 0, 0, 1000000, true},
        {"a higher one", AUTOBUF_INTENT_SENDS, 0, 100000000, true},
        {"the path's is a lower bound", 0, AUTOBUF_PATH_TX_AT_LEAST, 1000000, false},
        {"an echo's", 0, AUTOBUF_PATH_TX_AT_LEAST | AUTOBUF_PATH_TX_ECHOED, 1000000, false},
        {"it receives", AUTOBUF_INTENT_RECEIVES, 0, 1000000, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
        struct autobuf_path path = AUTOBUF_PATH_INIT;
        struct told t;
        int fd = tcp_socket();

        assert_int_equal(autobuf_path_given(&path, 100000000, 20000000), 0);
        path.flags |= rows[i].path_flags;
        options.path = &path;
        options.intent = AUTOBUF_INTENT_LOW_DELAY | rows[i].intent;
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rows[i].own, sizeof rows[i].own), 0);
        CHECK(rows[i].name, autobuf_tune(fd, NULL, 0, &options, tell(&t)) >= 0);
        CHECK_EQUAL(rows[i].name, t.plan.snd_pacing_bit_per_s != 0, rows[i].replaced);
        CHECK_EQUAL(rows[i].name, state_of(fd).pacing_byte_per_s,
                    rows[i].replaced ? t.plan.snd_pacing_bit_per_s / 8 : rows[i].own);
        CHECK(rows[i].name, t.plan.snd_pacing_bit_per_s < 100000000);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off_leaves_alone),
        cmocka_unit_test(without_a_peer_nothing_is_measured),
        cmocka_unit_test(short_transfer_is_not_measured),
        cmocka_unit_test(loopback_is_left_to_the_kernel),
        cmocka_unit_test(other_descriptors_are_refused),
        cmocka_unit_test(options_out_of_range),
        cmocka_unit_test(peers_that_cannot_be_measured),
        cmocka_unit_test(a_peer_that_the_kernel_finds_invalid),
        cmocka_unit_test(older_program_s_structs),
        cmocka_unit_test(structs_without_a_size_are_refused),
        cmocka_unit_test(says_what_it_does),
        cmocka_unit_test(observing_only),
        cmocka_unit_test(low_delay_replaces_a_rate),
    };

    return cmocka_run_group_tests_name("tune", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * NULL where a struct or a handle is needed, in every call of path.h, plan.h, probe.h, tune.h, flow.h and
 * rightsize.h: -EINVAL. A call that returns no errors gives 0, AUTOBUF_NS_UNSET or nothing. None may crash.
 */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#include "icmp/probe.h"
#include "sockets.h"

/* What the calls below are given where they are given something. */
static struct {
    struct connection c;
    struct sockaddr_in peer;
    uint8_t token[16];
    char text[100];
    struct autobuf_path path;
    struct autobuf_limits limits;
    struct autobuf_socket socket;
    struct autobuf_plan plan;
    struct autobuf_probe *probe;
    struct autobuf_flow *flow;
    struct autobuf_rightsize *rightsize;
} good;

#define PEER ((const struct sockaddr *)&good.peer)

static int64_t path_given(void)
{
    return autobuf_path_given(NULL, 1000, 1000);
}

static int64_t limits_host(void)
{
    return autobuf_limits_host(NULL);
}

static int64_t socket_state(void)
{
    return autobuf_socket_state(good.c.client, NULL);
}

static int64_t make_path(void)
{
    return autobuf_plan_make(NULL, &good.limits, &good.socket, 0, 0, &good.plan);
}

static int64_t make_limits(void)
{
    return autobuf_plan_make(&good.path, NULL, &good.socket, 0, 0, &good.plan);
}

static int64_t make_socket(void)
{
    return autobuf_plan_make(&good.path, &good.limits, NULL, 0, 0, &good.plan);
}

static int64_t make_plan(void)
{
    return autobuf_plan_make(&good.path, &good.limits, &good.socket, 0, 0, NULL);
}

static int64_t worth_limits(void)
{
    return autobuf_plan_worth(NULL, &good.socket, 0, 0, NULL, NULL);
}

static int64_t worth_socket(void)
{
    return autobuf_plan_worth(&good.limits, NULL, 0, 0, NULL, NULL);
}

static int64_t explain_plan(void)
{
    return autobuf_plan_explain(NULL, good.text, sizeof good.text);
}

static int64_t explain_text(void)
{
    return autobuf_plan_explain(&good.plan, NULL, 1);
}

static int64_t sysctl_plan(void)
{
    return autobuf_plan_sysctl(NULL, &good.limits, 0, good.text, sizeof good.text);
}

static int64_t sysctl_limits(void)
{
    return autobuf_plan_sysctl(&good.plan, NULL, 0, good.text, sizeof good.text);
}

static int64_t sysctl_text(void)
{
    return autobuf_plan_sysctl(&good.plan, &good.limits, 0, NULL, 1);
}

static int64_t probe_open(void)
{
    return autobuf_probe_open(NULL, PEER, sizeof good.peer, NULL);
}

static int64_t probe_open_peer(void)
{
    struct autobuf_probe *probe = good.probe;
    int result = autobuf_probe_open(&probe, NULL, sizeof good.peer, NULL);

    return probe ? 1 : result;
}

static int64_t probe_fd(void)
{
    return autobuf_probe_fd(NULL);
}

static int64_t probe_events(void)
{
    return autobuf_probe_events(NULL);
}

static int64_t probe_deadline(void)
{
    return (int64_t)autobuf_probe_deadline_ns(NULL);
}

static int64_t probe_step(void)
{
    return autobuf_probe_step(NULL, 1);
}

static int64_t probe_result(void)
{
    return autobuf_probe_result(NULL, &good.path);
}

static int64_t probe_result_path(void)
{
    return autobuf_probe_result(good.probe, NULL);
}

static int64_t probe_progress(void)
{
    struct autobuf_probe_progress progress = AUTOBUF_PROBE_PROGRESS_INIT;

    return autobuf_probe_progress(NULL, &progress);
}

static int64_t probe_progress_out(void)
{
    return autobuf_probe_progress(good.probe, NULL);
}

static int64_t probe_rates(void)
{
    return (int64_t)autobuf_probe_rates(NULL, NULL, 1);
}

static int64_t probe_path(void)
{
    return autobuf_probe(PEER, sizeof good.peer, NULL, NULL);
}

static int64_t probe_peer(void)
{
    return autobuf_probe(NULL, sizeof good.peer, NULL, &good.path);
}

static int64_t apply(void)
{
    return autobuf_apply(good.c.client, NULL);
}

static int64_t settings_read(void)
{
    return autobuf_settings_read(good.c.client, NULL);
}

static int64_t settings_restore(void)
{
    return autobuf_settings_restore(good.c.client, NULL);
}

static int64_t flow_open(void)
{
    return autobuf_flow_open(NULL, good.c.client, NULL, 0, NULL);
}

static int64_t flow_deadline(void)
{
    return (int64_t)autobuf_flow_deadline_ns(NULL);
}

static int64_t flow_step(void)
{
    return autobuf_flow_step(NULL, 1);
}

static int64_t flow_move(void)
{
    return autobuf_flow_move(NULL, good.c.client);
}

static int64_t flow_tell(void)
{
    return autobuf_flow_tell(NULL, &good.path);
}

static int64_t flow_tell_path(void)
{
    return autobuf_flow_tell(good.flow, NULL);
}

static int64_t flow_state(void)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;

    return autobuf_flow_state(NULL, &applied);
}

static int64_t flow_state_out(void)
{
    return autobuf_flow_state(good.flow, NULL);
}

static int64_t rightsize_open(void)
{
    return autobuf_rightsize_open(NULL, NULL);
}

static int64_t rightsize_consumed(void)
{
    return (int64_t)autobuf_rightsize_consumed(NULL, 1, 1);
}

static int64_t rightsize_state(void)
{
    struct autobuf_rightsize_state state = AUTOBUF_RIGHTSIZE_STATE_INIT;

    return autobuf_rightsize_state(NULL, &state);
}

static int64_t rightsize_state_out(void)
{
    return autobuf_rightsize_state(good.rightsize, NULL);
}

static int64_t nothing_to_tell(void)
{
    autobuf_rightsize_rtt(NULL, 1);
    autobuf_rightsize_granted(NULL, 1, 1);
    autobuf_rightsize_received(NULL, 1, 1);
    autobuf_rightsize_gap(NULL, 1);
    autobuf_rightsize_close(NULL);
    autobuf_flow_close(NULL);
    autobuf_probe_close(NULL);
    return 0;
}

static const struct {
    const char *name;
    int64_t (*call)(void);
    int64_t result;
} rows[] = {
    {"path_given: path", path_given, -EINVAL},
    {"limits_host: limits", limits_host, -EINVAL},
    {"socket_state: socket", socket_state, -EINVAL},
    {"plan_make: path", make_path, -EINVAL},
    {"plan_make: limits", make_limits, -EINVAL},
    {"plan_make: socket", make_socket, -EINVAL},
    {"plan_make: plan", make_plan, -EINVAL},
    {"plan_worth: limits", worth_limits, -EINVAL},
    {"plan_worth: socket", worth_socket, -EINVAL},
    {"plan_explain: plan", explain_plan, -EINVAL},
    {"plan_explain: room for text", explain_text, -EINVAL},
    {"plan_sysctl: plan", sysctl_plan, -EINVAL},
    {"plan_sysctl: limits", sysctl_limits, -EINVAL},
    {"plan_sysctl: room for text", sysctl_text, -EINVAL},
    {"probe_open: probe", probe_open, -EINVAL},
    {"probe_open: peer", probe_open_peer, -EINVAL},
    {"probe_fd", probe_fd, -EINVAL},
    {"probe_events", probe_events, -EINVAL},
    {"probe_deadline_ns", probe_deadline, (int64_t)AUTOBUF_NS_UNSET},
    {"probe_step", probe_step, -EINVAL},
    {"probe_result: probe", probe_result, -EINVAL},
    {"probe_result: path", probe_result_path, -EINVAL},
    {"probe_progress: probe", probe_progress, -EINVAL},
    {"probe_progress: progress", probe_progress_out, -EINVAL},
    {"probe_rates: probe", probe_rates, 0},
    {"probe: path", probe_path, -EINVAL},
    {"probe: peer", probe_peer, -EINVAL},
    {"apply", apply, -EINVAL},
    {"settings_read", settings_read, -EINVAL},
    {"settings_restore", settings_restore, -EINVAL},
    {"flow_open: flow", flow_open, -EINVAL},
    {"flow_deadline_ns", flow_deadline, (int64_t)AUTOBUF_NS_UNSET},
    {"flow_step", flow_step, -EINVAL},
    {"flow_move: flow", flow_move, -EINVAL},
    {"flow_tell: flow", flow_tell, -EINVAL},
    {"flow_tell: path", flow_tell_path, -EINVAL},
    {"flow_state: flow", flow_state, -EINVAL},
    {"flow_state: applied", flow_state_out, -EINVAL},
    {"rightsize_open: rightsize", rightsize_open, -EINVAL},
    {"rightsize_consumed", rightsize_consumed, 0},
    {"rightsize_state: rightsize", rightsize_state, -EINVAL},
    {"rightsize_state: state", rightsize_state_out, -EINVAL},
    {"calls that return nothing", nothing_to_tell, 0},
};

static void null_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        CHECK_EQUAL(rows[i].name, rows[i].call(), rows[i].result);
}

/* What the rows hand over is otherwise in order, or they would be refused for another reason. */
static int set_up(void **state)
{
    (void)state;
    good.c = tcp_connection();
    good.peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    good.path.size = sizeof good.path;
    good.limits.size = sizeof good.limits;
    good.socket.size = sizeof good.socket;
    good.plan.size = sizeof good.plan;
    if (autobuf_path_given(&good.path, 1000000, 1000000) < 0 || autobuf_limits_host(&good.limits) < 0 ||
        autobuf_socket_state(good.c.client, &good.socket) < 0 ||
        autobuf_plan_make(&good.path, &good.limits, &good.socket, 0, 0, &good.plan) < 0 ||
        autobuf_plan_worth(&good.limits, &good.socket, 0, 0, NULL, NULL) < 0 ||
        autobuf_plan_explain(&good.plan, NULL, 0) <= 0 ||
        autobuf_plan_sysctl(&good.plan, &good.limits, 0, NULL, 0) < 0)
        return -1;
    if (ab_probe_open_pure(&good.probe, AF_INET, 1, good.token, 1, NULL) < 0 ||
        autobuf_flow_open(&good.flow, good.c.client, NULL, 0, NULL) < 0 ||
        autobuf_rightsize_open(&good.rightsize, NULL) < 0)
        return -1;
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    autobuf_probe_close(good.probe);
    autobuf_flow_close(good.flow);
    autobuf_rightsize_close(good.rightsize);
    close_connection(&good.c);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_refused),
    };

    return cmocka_run_group_tests_name("null", tests, set_up, clean_up);
}

/* SPDX-License-Identifier: MIT */
/* `autobuf explain --pid`: samples the connections of a process for a while, and says why they are not faster. */
#include <errno.h>
#include <stdlib.h>

#include "../lib/base/base.h"
#include "print.h"
#include "slow.h"

#define SHOWN 5 /* connections; the others are counted */

/* For as long as it is asked. -ESRCH: the process has ended. */
static int look(struct connections *all, struct slow sights[CONNECTIONS_MOST], uint64_t for_ns)
{
    uint64_t now_ns = autobuf_now_ns(), end_ns = now_ns + for_ns, next_ns;

    for (;;) {
        enum activity activity = process_activity(all->process.pid);
        int error = connections_step(all, now_ns, &next_ns);

        if (error < 0)
            return error;
        for (size_t i = 0; i < CONNECTIONS_MOST; i++)
            if (all->list[i].flow)
                slow_sample(&sights[i], &all->list[i], activity, now_ns);
        if (now_ns >= end_ns)
            return all->count ? 0 : -ENOTCONN;
        if (!connections_wait(all, -1, ab_min(next_ns, end_ns)))
            return -ESRCH;
        now_ns = autobuf_now_ns();
    }
}

/* A connection as its program would open another one: a buffer that the program has set stays so. */
static struct autobuf_socket fresh_socket(const struct connection *c, const struct autobuf_limits *limits)
{
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;

    socket.locks = c->settings.locks;
    socket.snd_buf_bytes = socket.locks & AUTOBUF_LOCK_SND ? c->settings.snd_buf_bytes : limits->tcp_wmem_default_bytes;
    socket.rcv_buf_bytes = socket.locks & AUTOBUF_LOCK_RCV ? c->settings.rcv_buf_bytes : limits->tcp_rmem_default_bytes;
    return socket;
}

/* What is known besides the samples. */
static int conclude(struct connection *c, struct slow *s, const struct arguments *want)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct arguments asked = *want;

    s->f = (struct findings){.path = AUTOBUF_PATH_INIT, .limits = AUTOBUF_LIMITS_INIT};
    applied.path = &s->f.path;
    applied.limits = &s->f.limits;
    (void)autobuf_flow_state(c->flow, &applied);
    connection_rates(c, s->now_ns);
    c->state.bottleneck = slow_bottleneck(s);
    s->f.path.rtt_min_ns = ab_min(s->f.path.rtt_min_ns, c->state.rtt_min_ns);
    if (!s->f.path.packet_bytes)
        s->f.path.packet_bytes = c->state.packet_bytes;
    s->f.socket = fresh_socket(c, &s->f.limits);
    asked.expected_bytes = 0; /* a transfer that goes on is not short */
    return findings_plan(&s->f, &asked);
}

static void tell_json(const struct connections *all, const struct slow *sights, size_t shown, uint64_t bytes)
{
    struct host_facts host;

    host_read(NULL, 0, NULL, &host);
    fputc('{', stdout);
    json_string(stdout, "version", autobuf_version());
    json_number(stdout, "pid", (uint64_t)all->process.pid, false);
    json_number(stdout, "elapsed_ns", sights->now_ns - sights->since_ns, false);
    json_host(stdout, &sights->f.limits, &host);
    json_number(stdout, "left_out", all->count - shown + all->left_out, false);
    fputs("\"flows\":[", stdout);
    for (size_t i = 0; i < shown; i++) {
        fputs(i ? "," : "", stdout);
        slow_json(stdout, &sights[i], bytes);
    }
    fputs("]}\n", stdout);
}

static void tell(const struct connections *all, const struct slow *sights, size_t shown, uint64_t bytes)
{
    size_t others = all->count - shown + all->left_out;

    printf("%s (%d): ", all->process.name, (int)all->process.pid);
    for (size_t i = 0; i < shown; i++)
        slow_show(stdout, &sights[i]);
    if (others)
        printf("%zu more connection%s\n", others, others == 1 ? "" : "s");
    slow_show_figures(stdout, sights, bytes);
}

static int explain(struct connections *all, const struct arguments *want)
{
    static struct slow sights[CONNECTIONS_MOST];
    size_t count = 0, shown = 1;
    int error = look(all, sights, want->timeout_ns);

    for (size_t i = 0; error == 0 && i < CONNECTIONS_MOST; i++) {
        if (!all->list[i].flow)
            continue;
        sights[count] = sights[i];
        error = conclude(&all->list[i], &sights[count++], want);
    }
    if (error < 0)
        return error;
    qsort(sights, count, sizeof *sights, slow_by_bytes);
    while (shown < count && shown < SHOWN && slow_is_bulk(&sights[shown]))
        shown++;
    (want->json ? tell_json : tell)(all, sights, shown, want->expected_bytes);
    return 0;
}

int explain_process(const struct arguments *want)
{
    static struct connections all;
    char name[24];
    int error;

    all.fd = -1;
    all.flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_OBSERVE;
    error = connections_open(&all, (pid_t)want->pid);
    if (error == 0) {
        error = explain(&all, want);
        connections_close(&all);
    }
    snprintf(name, sizeof name, "%d", (int)want->pid);
    return error == 0 ? EXIT_RESULT : connections_fail(name, error);
}

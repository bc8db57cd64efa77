/* SPDX-License-Identifier: MIT */
/* autobuf(1). */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "../lib/kernel/socket.h"
#include "findings.h"
#include "measure.h"
#include "privilege.h"
#include "print.h"
#include "resolve.h"

/* A socket as an application would have it before connect(). */
static int fresh_socket(struct autobuf_socket *state)
{
    int fd = ab_socket_scratch(), error = fd < 0 ? fd : autobuf_socket_state(fd, state);

    if (fd >= 0)
        close(fd);
    return error;
}

static void show(const struct arguments *a, struct measurement *m, const struct findings *f,
                 const struct transfer_result *transfers)
{
    struct bottleneck bottlenecks[BOTTLENECKS_MOST];
    struct host_facts host;
    size_t count;

    host_read(m->peer_len ? (const struct sockaddr *)&m->peer : NULL, m->peer_len, &m->source, &host);
    count = bottlenecks_find(f, &host, bottlenecks);
    if (a->json) {
        show_json(stdout, f, &host, bottlenecks, count, transfers);
        return;
    }
    if (f->path.method != AUTOBUF_METHOD_NONE)
        show_path(stdout, &f->path);
    if (f->socket.flags & AUTOBUF_SOCKET_UNSCALED)
        print_folded(stdout, UNSCALED_WORDS "\n", 3);
    if (a->command == PROBE && isatty(STDOUT_FILENO))
        show_histogram(stdout, m->readings, m->reading_count, f->path.tx_rate_bit_per_s);
    if (a->command != EXPLAIN) {
        if (!findings_unsure(f))
            show_plan(stdout, f, &host);
        return;
    }
    show_host(stdout, &f->limits, &host);
    show_outlook(stdout, f, &host);
    show_bottlenecks(stdout, bottlenecks, count);
}

#define ECHOES_MS 1000 /* without an answer, a probe waits no longer */

static void fail_silent(const struct arguments *a, const struct measurement *m)
{
    uint64_t ms = a->timeout_ns / 1000000;
    bool connected = m->peer_len != 0;

    if (m->greeted)
        fprintf(
            stderr,
            "autobuf: %s: autobuf serve answers short lines, but full packets do not arrive: a PMTU black hole? Try "
            "sysctl -w net.ipv4.tcp_mtu_probing=1, or a smaller MSS (ip route ... advmss), at both ends\n",
            a->operand);
    else if (a->command == MEASURE)
        fprintf(stderr, "autobuf: %s: %s within %llu ms%s\n", a->operand,
                connected ? "connected, but no answer" : "no connection", (unsigned long long)ms,
                connected ? ": is it autobuf serve that listens there?" : "");
    else
        fprintf(stderr,
                "autobuf: %s: nothing answered within %llu ms: the host is down or farther away, or ICMP echo is "
                "filtered\n",
                a->operand, (unsigned long long)(ms < ECHOES_MS ? ms : ECHOES_MS));
}

static int fail(const struct arguments *a, int error, const struct measurement *m)
{
    bool echoes = a->command != MEASURE;
    const char *host = echoes ? a->operand : a->host_name;
    const char *advice = "";

    if (error == AUTOBUF_E_NOREPLY || (!echoes && error == -ETIMEDOUT)) {
        fail_silent(a, m);
        return EXIT_NOTHING;
    }
    if (echoes && error == -EACCES)
        advice = ": allow ping sockets with sysctl -w net.ipv4.ping_group_range=\"0 2147483647\", or raw "
                 "sockets with setcap cap_net_raw+p autobuf; without root try autobuf measure";
    else if (!echoes && error == -ECONNREFUSED)
        advice = ": nothing listens on that port (by default " MEASURE_PORT "); start autobuf serve there";
    fprintf(stderr, "autobuf: %s%s%s%s\n", a->operand ? a->operand : "", a->operand ? ": " : "",
            resolve_strerror(error, host, (int)a->family), advice);
    return error == -EACCES ? EXIT_NOT_PERMITTED : EXIT_NOTHING;
}

static int fail_unsure(const struct arguments *a, const char *unsure)
{
    const char *why = strcmp(unsure, "batches") == 0  ? "other traffic, or a host that batches packets"
                      : strcmp(unsure, "pauses") == 0 ? "this host was late"
                                                      : "this host was late, or the path has jitter";

    fflush(stdout);
    fprintf(stderr, "autobuf: %s: could not tell the rate (%s: %s); try %sagain\n", a->operand, unsure, why,
            a->command == MEASURE ? "" : "autobuf measure, or ");
    return EXIT_NOTHING;
}

/* What other traffic leaves, if it is asked for. Returns an exit status. */
static int find_free(const struct arguments *a, const struct measurement *m, struct findings *f)
{
    uint64_t code = 0;
    int error = 0;

    if (!a->available || !m->peer_len)
        return EXIT_RESULT;
    if (m->available.size)
        f->available = m->available;
    else
        error = measure_free(m, &f->path, &f->available, &code);
    if (error == 0 && !a->json)
        show_free(stdout, &f->available);
    if (error < 0)
        fprintf(stderr, "autobuf: %s: could not tell what is free: %s\n", a->operand, show_transfer_why(error, code));
    return error < 0 ? EXIT_NOTHING : EXIT_RESULT;
}

/*
 * What was found, and then, if they are asked for, what is free, and transfers. JSON tells all in one object.
 * EXIT_NOTHING: what is free was not told, or no transfer came to its end.
 */
static int show_all(const struct arguments *a, struct measurement *m, struct findings *f)
{
    struct transfer_result results[TRANSFERS] = {0};
    bool transfers = a->transfer_seconds && m->peer_len;
    uint64_t seconds = 0;
    unsigned failed = 0;
    int status;

    if (!a->json)
        show(a, m, f, NULL);
    if (a->available || transfers)
        fflush(stdout); /* these take their time */
    status = find_free(a, m, f);
    if (transfers)
        seconds = transfers_run(a, m, &f->path, results);
    while (transfers && failed < TRANSFERS && results[failed].error < 0)
        failed++;
    if (a->json)
        show(a, m, f, transfers ? results : NULL);
    else if (transfers && failed < TRANSFERS)
        show_transfers(stdout, results, seconds);
    if (failed == TRANSFERS)
        fprintf(stderr, "autobuf: %s: no transfer: %s\n", a->operand,
                show_transfer_why(results[0].error, results[0].code));
    return failed == TRANSFERS ? EXIT_NOTHING : status;
}

static int find_path(const struct arguments *a, struct measurement *m, struct autobuf_path *path)
{
    m->progress = !a->json && !a->sysctl && isatty(STDERR_FILENO) && isatty(STDOUT_FILENO);
    if (a->command == MEASURE)
        return measure_server(a, m, path);
    if (a->operand)
        return measure_echoes(a, m, path);
    return a->rate_bit_per_s ? autobuf_path_given(path, a->rate_bit_per_s, a->rtt_ns) : 0;
}

static const struct autobuf_path no_path = {.size = sizeof no_path, .rtt_min_ns = AUTOBUF_NS_UNSET,
                                            .rtt_median_ns = AUTOBUF_NS_UNSET};

static int print_sysctls(const struct arguments *a, const struct findings *f)
{
    if (findings_known(f) || !a->operand) {
        show_sysctls(stdout, f);
        return EXIT_RESULT;
    }
    fprintf(stderr, "autobuf: %s: its rate is not known, so no line can be advised\n", a->operand);
    return EXIT_NOTHING;
}

/* What a program would do here now. */
static int plan(const struct arguments *a, struct findings *f)
{
    const char *off = getenv("AUTOBUF");
    int error = findings_plan(f, a);

    if (off && strcmp(off, "off") == 0)
        f->plan = (struct autobuf_plan){.size = sizeof f->plan, .rtt_ns = AUTOBUF_NS_UNSET,
                                        .snd_reason = AUTOBUF_REASON_OFF, .rcv_reason = AUTOBUF_REASON_OFF};
    return error;
}

static int run_path(const struct arguments *a)
{
    static struct measurement m;
    struct findings f = {.path = no_path, .limits = AUTOBUF_LIMITS_INIT, .socket = AUTOBUF_SOCKET_INIT,
                         .plan = AUTOBUF_PLAN_INIT};
    const char *unsure;
    int error, status;

    if (a->pid)
        return explain_process(a);
    if (a->check) {
        error = drop_privileges();
        return error < 0 ? fail(a, error, &m) : check_file("", a->operand, a->json, stdout, stderr);
    }
    error = a->source ? source_parse(a->source, &m.source) : 0;
    if (error < 0) {
        fprintf(stderr, "autobuf: -I %s: this host has no such device, and it is no address\n", a->source);
        return EXIT_USAGE;
    }
    error = fresh_socket(&f.socket);
    if (error == 0)
        error = autobuf_limits_host(&f.limits);
    if (error == 0 && a->sysctl && f.limits.flags & AUTOBUF_LIMITS_ASSUMED) {
        fputs("autobuf: --sysctl: this host's limits cannot be read (/proc/sys), so no line can be advised\n", stderr);
        return EXIT_NOTHING;
    }
    if (error == 0)
        error = find_path(a, &m, &f.path);
    if (m.socket.flags & AUTOBUF_SOCKET_UNSCALED) /* nor will the next one be */
        f.socket = m.socket;
    if (error == AUTOBUF_E_RELAYED && a->transfer_seconds) { /* what a transfer reaches can be measured all the same */
        fprintf(stderr, "autobuf: %s: %s\n", a->operand, autobuf_strerror(error));
        f.path = no_path;
        error = 0;
    }
    if (error == 0)
        error = plan(a, &f);
    if (error < 0) {
        f.path = no_path;
        if (a->command == EXPLAIN && !a->sysctl && plan(a, &f) == 0)
            show(a, &m, &f, NULL); /* what is known without a path */
        return fail(a, error, &m);
    }
    unsure = findings_unsure(&f);
    if (a->sysctl && !unsure)
        return print_sysctls(a, &f);
    status = a->sysctl ? EXIT_NOTHING : show_all(a, &m, &f);
    return unsure ? fail_unsure(a, unsure) : status;
}

static void end(int number)
{
    _exit(128 + number);
}

/* A signal that nobody handles does not end the first process of a container: it ends as another one would. */
static void end_by_signals(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};

    for (size_t i = 0; getpid() == 1 && i < sizeof numbers / sizeof *numbers; i++)
        if (signal(numbers[i], end) == SIG_IGN)
            (void)signal(numbers[i], SIG_IGN);
}

int main(int argc, char **argv)
{
    static int (*const runs[])(const struct arguments *) = {
        [PROBE] = run_path, [EXPLAIN] = run_path, [WATCH] = watch_process, [SERVE] = serve_clients,
        [MEASURE] = run_path, [PATHS] = paths_run, [RUN] = run_program, [TOP] = top_run};
    struct arguments a;
    int status;

    end_by_signals();
    status = arguments_parse(argc, argv, &a, stdout, stderr);
    return output_end("autobuf", status < 0 ? runs[a.command](&a) : status);
}

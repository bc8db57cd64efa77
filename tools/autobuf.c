/* SPDX-License-Identifier: MIT */
/* autobuf(1). */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"
#include "measure.h"
#include "obstacles.h"
#include "probe.h"
#include "serve.h"
#include "show.h"
#include "watch.h"

#define SERVE_RATE_BIT_PER_S 1000000000U
#define SERVE_CLIENTS 2000U
#define SERVE_PER_ADDRESS 32U
#define COUNT_MOST 1000000U

enum { EXIT_RESULT = 0, EXIT_NOTHING = 1, EXIT_USAGE = 2, EXIT_NOT_PERMITTED = 3 };

static const char usage_text[] =
    "usage: autobuf probe   [-4|-6] [--json] [--intent throughput|low-delay]\n"
    "                       [--budget BYTES] [--timeout MS] HOST\n"
    "       autobuf explain [-4|-6] [--json] [--intent throughput|low-delay]\n"
    "                       [HOST | --rate BITS --rtt MS]\n"
    "       autobuf watch   [--json] [--tune] [--intent throughput|low-delay] PID[:FD]\n"
    "       autobuf serve   [--bind ADDR] [--port N] [--rate BITS] [--clients N]\n"
    "                       [--per-address N]\n"
    "       autobuf measure [-4|-6] [--json] [--intent throughput|low-delay]\n"
    "                       [--timeout MS] HOST[:PORT]\n"
    "       autobuf --version | --help\n";

enum command { NO_COMMAND, PROBE, EXPLAIN, WATCH, SERVE, MEASURE };

static const char *const commands[] = {"", "probe", "explain", "watch", "serve", "measure"};

struct arguments {
    enum command command;
    bool json;
    uint32_t intent;
    uint64_t rate_bit_per_s;
    uint64_t rtt_ns;
    bool tune;
    const char *operand; /* HOST, PID[:FD], or HOST[:PORT] */
    const char *bind;
    const char *port;
    unsigned clients;
    unsigned per_address;
    struct probing probing;
};

/* A decimal number with an optional prefix k, M or G; 0: not one, or above most. */
static uint64_t parse_quantity(const char *text, double most)
{
    static const char prefixes[] = "kMG";
    char *end;
    double value = strtod(text, &end);
    const char *prefix = *end ? strchr(prefixes, *end) : NULL;

    if (end == text)
        return 0;
    if (prefix) {
        for (const char *p = prefixes; p <= prefix; p++)
            value *= 1000;
        end++;
    }
    return *end || !(value >= 1) || value > most ? 0 : (uint64_t)value;
}

static bool parse_intent(const char *text, uint32_t *intent)
{
    if (strcmp(text, "throughput") == 0)
        *intent = AUTOBUF_INTENT_THROUGHPUT;
    else if (strcmp(text, "low-delay") == 0)
        *intent = AUTOBUF_INTENT_LOW_DELAY;
    else
        return false;
    return true;
}

/* Times come in milliseconds, a fraction allowed. */
static uint64_t parse_ms(const char *text, double most_ms)
{
    char *end;
    double ms = strtod(text, &end);

    return end == text || *end || !(ms > 0) || ms > most_ms ? 0 : (uint64_t)(ms * 1e6);
}

/* 1 to COUNT_MOST; 0: not such a number. */
static unsigned parse_count(const char *text)
{
    char *end;
    unsigned long count = strtoul(text, &end, 10);

    return text[0] < '0' || text[0] > '9' || *end || count > COUNT_MOST ? 0 : (unsigned)count;
}

static bool parse_option(int option, struct arguments *a)
{
    switch (option) {
    case '4':
        a->probing.family = AF_INET;
        return true;
    case '6':
        a->probing.family = AF_INET6;
        return true;
    case 'j':
        a->json = true;
        return true;
    case 'i':
        return parse_intent(optarg, &a->intent);
    case 'b':
        a->probing.budget_bytes = (uint32_t)parse_quantity(optarg, 1e6);
        return a->probing.budget_bytes >= 1000;
    case 't':
        a->probing.timeout_ns = parse_ms(optarg, a->command == MEASURE ? 30000 : 2000);
        return a->probing.timeout_ns != 0;
    case 'r':
        return (a->rate_bit_per_s = parse_quantity(optarg, 1e15)) != 0;
    case 'd':
        return (a->rtt_ns = parse_ms(optarg, 1e6)) != 0;
    case 'u':
        return a->tune = true;
    case 'B':
        return (a->bind = optarg)[0] != '\0';
    case 'p':
        a->port = optarg;
        return is_port(optarg);
    case 'c':
        return (a->clients = parse_count(optarg)) != 0;
    case 'a':
        return (a->per_address = parse_count(optarg)) != 0;
    default:
        return false;
    }
}

static bool parse_arguments(int argc, char **argv, struct arguments *a)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},          {"intent", required_argument, NULL, 'i'},
        {"budget", required_argument, NULL, 'b'},  {"timeout", required_argument, NULL, 't'},
        {"rate", required_argument, NULL, 'r'},    {"rtt", required_argument, NULL, 'd'},
        {"tune", no_argument, NULL, 'u'},          {"bind", required_argument, NULL, 'B'},
        {"port", required_argument, NULL, 'p'},    {"clients", required_argument, NULL, 'c'},
        {"per-address", required_argument, NULL, 'a'}, {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "46", options, NULL)) != -1) {
        if (!parse_option(option, a)) {
            if (option != '?')
                fprintf(stderr, "autobuf: this option does not take the value %s\n", optarg);
            return false;
        }
    }
    if (optind < argc)
        a->operand = argv[optind++];
    return optind == argc;
}

/* --rate is another command's, too. */
static bool has_serve_arguments(const struct arguments *a)
{
    return a->bind || a->port || a->clients || a->per_address;
}

/* What probe, explain and measure take. */
static bool check_path_arguments(struct arguments *a)
{
    if (a->tune || has_serve_arguments(a) || (a->rate_bit_per_s != 0) != (a->rtt_ns != 0))
        return false;
    if (a->command == MEASURE)
        return a->operand && !a->rate_bit_per_s && !a->probing.budget_bytes;
    a->probing.host = a->operand;
    if (a->command == PROBE)
        return a->operand && !a->rate_bit_per_s;
    return !(a->operand && a->rate_bit_per_s);
}

static bool check_serve_arguments(const struct arguments *a)
{
    return !(a->operand || a->json || a->tune || a->intent || a->rtt_ns || a->probing.family ||
             a->probing.budget_bytes || a->probing.timeout_ns);
}

static bool parse_decimal(const char *text, const char **end, int *value)
{
    char *stop;
    long number = strtol(text, &stop, 10);

    *end = stop;
    *value = (int)number;
    return text[0] >= '0' && text[0] <= '9' && number <= INT_MAX;
}

/* PID[:FD], and no option that is of a path. */
static bool parse_watching(const struct arguments *a, struct watching *w)
{
    const char *rest = a->operand;
    int pid;

    *w = (struct watching){.fd = -1, .tune = a->tune, .intent = a->intent,
                           .json = a->json || !isatty(STDOUT_FILENO)};
    if (has_serve_arguments(a) || a->rate_bit_per_s || a->rtt_ns || a->probing.family ||
        a->probing.budget_bytes || a->probing.timeout_ns || (a->intent && !a->tune))
        return false;
    if (!rest || !parse_decimal(rest, &rest, &pid) || pid == 0)
        return false;
    w->pid = pid;
    return !*rest || (*rest == ':' && parse_decimal(rest + 1, &rest, &w->fd) && !*rest);
}

static int run_watch(const struct arguments *a)
{
    struct watching want;
    int error;

    if (!parse_watching(a, &want))
        return EXIT_USAGE;
    error = watch_process(&want);
    if (error == 0)
        return EXIT_RESULT;
    if (error == -EPERM || error == -EACCES) {
        fprintf(stderr,
                "autobuf: %s: not permitted: it takes the same user (and kernel.yama.ptrace_scope=0, "
                "where there is one), or CAP_SYS_PTRACE\n",
                a->operand);
        return EXIT_NOT_PERMITTED;
    }
    fprintf(stderr, "autobuf: %s: %s\n", a->operand,
            error == -ENOTCONN ? "no open TCP connection" : autobuf_strerror(error));
    return EXIT_NOTHING;
}

static int run_serve(const struct arguments *a)
{
    struct serving want = {
        .address = a->bind,
        .port = a->port ? a->port : MEASURE_PORT,
        .rate_bit_per_s = a->rate_bit_per_s ? a->rate_bit_per_s : SERVE_RATE_BIT_PER_S,
        .clients = a->clients ? a->clients : SERVE_CLIENTS,
        .per_address = a->per_address ? a->per_address : SERVE_PER_ADDRESS,
    };
    int error;

    if (!check_serve_arguments(a))
        return EXIT_USAGE;
    error = serve_clients(&want);
    fprintf(stderr, "autobuf: cannot listen: %s\n", autobuf_strerror(error));
    return error == -EACCES || error == -EPERM ? EXIT_NOT_PERMITTED : EXIT_NOTHING;
}

/* A socket as an application would have it before connect(). */
static int fresh_socket(struct autobuf_socket *state)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error;

    if (fd < 0)
        fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    error = autobuf_socket_state(fd, state);
    close(fd);
    return error;
}

static void show(const struct arguments *a, struct findings *f)
{
    struct probing *p = (struct probing *)&a->probing;
    struct obstacle obstacles[OBSTACLES_MOST];
    struct host_facts host;

    if (a->json) {
        show_json(stdout, f);
        return;
    }
    if (f->path.method != AUTOBUF_METHOD_NONE)
        show_path(stdout, &f->path);
    if (a->command == PROBE && isatty(STDOUT_FILENO))
        show_histogram(stdout, p->readings, p->reading_count, f->path.tx_rate_bit_per_s);
    if (a->command != EXPLAIN) {
        show_plan(stdout, f);
        return;
    }
    show_limits(stdout, &f->limits);
    host_read(p->peer_len ? (const struct sockaddr *)&p->peer : NULL, p->peer_len, &host);
    show_explained(stdout, f, obstacles, obstacles_find(f, &host, obstacles));
}

static int fail(const struct arguments *a, int error, bool probed)
{
    fprintf(stderr, "autobuf: %s%s%s%s\n", a->operand ? a->operand : "", a->operand ? ": " : "",
            autobuf_strerror(error),
            probed && error == -EACCES
                ? ": allow ping sockets with sysctl net.ipv4.ping_group_range=\"0 2147483647\", or raw "
                  "sockets with setcap cap_net_raw+p autobuf"
                : "");
    return error == -EACCES ? EXIT_NOT_PERMITTED : EXIT_NOTHING;
}

static int run_path(struct arguments *a)
{
    struct measuring measuring = {.target = a->operand,
                                  .family = a->probing.family,
                                  .timeout_ns = a->probing.timeout_ns};
    struct findings f = {AUTOBUF_PATH_INIT, AUTOBUF_LIMITS_INIT, AUTOBUF_PLAN_INIT};
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    const char *off = getenv("AUTOBUF");
    bool probed = false;
    int error;

    if (!check_path_arguments(a))
        return EXIT_USAGE;
    a->probing.progress = !a->json && isatty(STDERR_FILENO) && isatty(STDOUT_FILENO);
    measuring.progress = a->probing.progress;
    error = fresh_socket(&state);
    if (error == 0)
        error = autobuf_limits_host(&f.limits);
    if (error == 0 && a->command == MEASURE)
        error = measure_target(&measuring, &f.path);
    else if (error == 0 && a->probing.host) {
        error = probe_host(&a->probing, &f.path);
        probed = true;
    } else if (error == 0 && a->rate_bit_per_s)
        error = autobuf_path_given(&f.path, a->rate_bit_per_s, a->rtt_ns);
    if (error == 0)
        error = autobuf_plan_make(&f.path, &f.limits, &state, a->intent, 0, &f.plan);
    if (off && strcmp(off, "off") == 0) /* what a program would do here now */
        f.plan = (struct autobuf_plan){.size = sizeof f.plan, .rtt_ns = AUTOBUF_NS_UNSET,
                                       .snd_reason = AUTOBUF_REASON_OFF,
                                       .rcv_reason = AUTOBUF_REASON_OFF};
    if (error == -EINVAL && a->command == MEASURE)
        return EXIT_USAGE;
    if (error < 0)
        return fail(a, error, probed);
    show(a, &f);
    if (fflush(stdout) != 0)
        return EXIT_NOTHING;
    return EXIT_RESULT;
}

static int run(struct arguments *a)
{
    switch (a->command) {
    case WATCH:
        return run_watch(a);
    case SERVE:
        return run_serve(a);
    default:
        return run_path(a);
    }
}

static enum command find_command(const char *name)
{
    for (size_t i = 1; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i]) == 0)
            return (enum command)i;
    return NO_COMMAND;
}

int main(int argc, char **argv)
{
    struct arguments a = {.intent = AUTOBUF_INTENT_THROUGHPUT};
    const char *name = argc > 1 ? argv[1] : "";
    int result = EXIT_USAGE;

    if (strcmp(name, "--version") == 0) {
        printf("autobuf %s\n", autobuf_version());
        return EXIT_RESULT;
    }
    if (strcmp(name, "--help") == 0) {
        fputs(usage_text, stdout);
        return EXIT_RESULT;
    }
    a.command = find_command(name);
    if (argc > 1)
        argv[1] = argv[0]; /* getopt's messages begin with it */
    if (a.command != NO_COMMAND && parse_arguments(argc - 1, argv + 1, &a))
        result = run(&a);
    if (result == EXIT_USAGE)
        fputs(usage_text, stderr);
    return result;
}

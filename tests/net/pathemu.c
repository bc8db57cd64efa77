/*
 * pathemu: a network path between two namespaces, in one thread.
 *
 * Two namespaces of its own, a TUN device in each, and between them a link for each direction. It
 * ends with its standard input, so that nothing outlives whoever started it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "emu_hist.h"
#include "emu_link.h"
#include "emu_netns.h"
#include "emu_params.h"
#include "emu_store.h"

/* A timer wakes this process up to so much too late; the rest of the wait is spent polling. */
#define SPIN_NS 120000u
/* To be woken costs the sender 20 us and more a packet on a virtual machine: stay awake a while. */
#define LINGER_NS 2000000u
/* So near to a packet's time even a read, some 2 us, would make it late. */
#define HOLD_NS 2000u
/* While there is always something to do: how often to check stdin and signals. */
#define CONTROL_NS 1000000u
/* Arrivals of cross traffic are caught up with at least so often, each time a few. */
#define CROSS_NS 5000000u
/* Packets released in one go before the other side has its turn. */
#define BATCH 32

struct direction {
    const char *name;
    struct emu_params params;
    struct emu_link link;
    struct emu_store store;
    struct emu_hist late;
    int in_fd;
    int out_fd;
    uint64_t delivered_packets;
    uint64_t delivered_bytes;
    uint64_t polled_ns;      /* for packets, the last time */
    uint64_t stall_max_ns;   /* longest time between two polls: a packet may have come in this late */
    uint64_t drops_emulator; /* no memory left, or the kernel refused it: the path is not true */
};

struct pathemu {
    struct direction dir[2]; /* ab, ba */
    struct emu_netns side[2];
    int mtu;
    uint64_t seed;
    uint64_t memory_bytes;
    int relaxed; /* never polls instead of sleeping: packets may be late by what a timer is */
    int signal_fd;
    int timer_fd;
    int stop;
    uint64_t control_ns; /* when to check stdin next */
    char line[512];
    size_t line_len;
};

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- data ---- */

/* Release what is due. Returns whether anything was. */
static int release(struct direction *d)
{
    int n;

    for (n = 0; n < BATCH; n++) {
        struct emu_packet *p = emu_store_first(&d->store);
        uint64_t now;
        ssize_t wrote;

        if (!p)
            break;
        now = now_ns();
        if (p->deliver_ns > now)
            break;
        emu_hist_add(&d->late, now - p->deliver_ns);
        wrote = write(d->out_fd, p->data, p->len_bytes);
        if (wrote == (ssize_t)p->len_bytes) {
            d->delivered_packets++;
            d->delivered_bytes += p->len_bytes;
        } else {
            d->drops_emulator++;
        }
        emu_store_pop(&d->store);
    }
    return n > 0;
}

/* Take one packet in. Returns whether there was one. */
static int take(struct direction *d, uint64_t now, int mtu)
{
    struct emu_packet *p = emu_store_slot(&d->store);
    unsigned char nowhere[1];
    uint64_t deliver_ns;
    ssize_t len;

    if (now - d->polled_ns > d->stall_max_ns)
        d->stall_max_ns = now - d->polled_ns;
    d->polled_ns = now;
    if (!p) {
        /* The rest of the packet goes unread, which is how TUN drops it. */
        len = read(d->in_fd, nowhere, sizeof(nowhere));
        d->drops_emulator += len > 0;
        return len > 0;
    }
    len = read(d->in_fd, p->data, (size_t)mtu);
    if (len <= 0)
        return 0;
    if (emu_link_offer(&d->link, now_ns(), (uint32_t)len, &deliver_ns))
        emu_store_add(&d->store, d->link.depart_ns, deliver_ns, (uint32_t)len, d->link.held);
    return 1;
}

static uint64_t next_due_ns(struct pathemu *e)
{
    uint64_t due_ns = UINT64_MAX;
    int i;

    for (i = 0; i < 2; i++) {
        const struct emu_packet *p = emu_store_first(&e->dir[i].store);

        if (p && p->deliver_ns < due_ns)
            due_ns = p->deliver_ns;
    }
    return due_ns;
}

/* Returns the time until which nothing needs doing unless a packet or a line comes. */
static uint64_t cross_traffic(struct pathemu *e, uint64_t now)
{
    uint64_t next_ns = UINT64_MAX;
    int i;

    for (i = 0; i < 2; i++) {
        if (e->dir[i].params.cross > 0.0) {
            emu_link_advance(&e->dir[i].link, now);
            next_ns = now + CROSS_NS;
        }
    }
    return next_ns;
}

/* ---- truth ---- */

static void print_direction(struct direction *d, uint64_t now)
{
    struct emu_truth t;

    emu_link_truth(&d->link, now, &t);
    printf("\"%s\":{\"packets\":%" PRIu64 ",\"bytes\":%" PRIu64, d->name, t.packets, t.bytes);
    printf(",\"delivered_packets\":%" PRIu64 ",\"delivered_bytes\":%" PRIu64, d->delivered_packets,
           d->delivered_bytes);
    printf(",\"drops_queue\":%" PRIu64 ",\"drops_loss\":%" PRIu64 ",\"drops_emulator\":%" PRIu64,
           t.drops_queue, t.drops_loss, d->drops_emulator);
    printf(",\"queue_max_bytes\":%" PRIu64 ",\"queue_mean_bytes\":%" PRIu64 ",\"counted_ns\":%" PRIu64,
           t.queue_max_bytes, t.queue_mean_bytes, t.counted_ns);
    printf(",\"cross_packets\":%" PRIu64 ",\"cross_drops\":%" PRIu64, t.cross_packets,
           t.cross_drops);
    printf(",\"late_mean_ns\":%" PRIu64 ",\"late_p50_ns\":%" PRIu64 ",\"late_p95_ns\":%" PRIu64,
           emu_hist_mean_ns(&d->late), emu_hist_quantile_ns(&d->late, 0.50),
           emu_hist_quantile_ns(&d->late, 0.95));
    printf(",\"late_p99_ns\":%" PRIu64 ",\"late_max_ns\":%" PRIu64 ",\"stall_max_ns\":%" PRIu64 "}",
           emu_hist_quantile_ns(&d->late, 0.99), d->late.max_ns, d->stall_max_ns);
}

static void print_truth(struct pathemu *e)
{
    uint64_t now = now_ns();

    printf("{");
    print_direction(&e->dir[0], now);
    printf(",");
    print_direction(&e->dir[1], now);
    printf("}\n");
    fflush(stdout);
}

static void reset(struct direction *d)
{
    emu_link_reset(&d->link, now_ns());
    memset(&d->late, 0, sizeof(d->late));
    d->delivered_packets = 0;
    d->delivered_bytes = 0;
    d->drops_emulator = 0;
    d->stall_max_ns = 0;
}

/* ---- control ---- */

static uint64_t retime(const void *link, uint64_t depart_ns)
{
    return emu_link_retime(link, depart_ns);
}

/* which: "ab", "ba" or "both". All or nothing. */
static int change(struct pathemu *e, const char *which, const char *text, char *err, size_t size)
{
    struct emu_params params[2] = {e->dir[0].params, e->dir[1].params};
    int i, both = strcmp(which, "both") == 0;

    for (i = 0; i < 2; i++) {
        if (!both && strcmp(which, e->dir[i].name) != 0)
            continue;
        if (emu_params_parse(&params[i], text, err, size) < 0)
            return -1;
    }
    for (i = 0; i < 2; i++)
        e->dir[i].params = params[i];
    return 0;
}

static int change_running(struct pathemu *e, const char *which, const char *text, char *err,
                          size_t size)
{
    int i;

    if (change(e, which, text, err, size) < 0)
        return -1;
    for (i = 0; i < 2; i++) {
        struct direction *d = &e->dir[i];

        if (strcmp(which, "both") != 0 && strcmp(which, d->name) != 0)
            continue;
        emu_link_set(&d->link, &d->params, now_ns());
        emu_store_retime(&d->store, retime, &d->link);
    }
    return 0;
}

static void answer(const char *err)
{
    const char *c;

    if (!err) {
        printf("{\"ok\":true}\n");
    } else {
        printf("{\"ok\":false,\"error\":\"");
        /* err may quote the line: nothing from there may end the string. */
        for (c = err; *c; c++)
            putchar(*c == '"' || *c == '\\' || (unsigned char)*c < ' ' ? '?' : *c);
        printf("\"}\n");
    }
    fflush(stdout);
}

static void obey(struct pathemu *e, char *line)
{
    char *text = line + strcspn(line, " ");
    char err[160] = "";

    if (*text)
        *text++ = '\0';
    if (!strcmp(line, "truth") && !*text) {
        print_truth(e);
    } else if (!strcmp(line, "reset") && !*text) {
        reset(&e->dir[0]);
        reset(&e->dir[1]);
        answer(NULL);
    } else if (*text && (!strcmp(line, "ab") || !strcmp(line, "ba") || !strcmp(line, "both"))) {
        answer(change_running(e, line, text, err, sizeof(err)) < 0 ? err : NULL);
    } else {
        answer("expected: ab|ba|both KEY=VALUE,... or truth or reset");
    }
}

static void read_lines(struct pathemu *e)
{
    ssize_t n = read(STDIN_FILENO, e->line + e->line_len, sizeof(e->line) - 1 - e->line_len);
    char *newline, *start = e->line;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        e->stop = 1;
        return;
    }
    e->line_len += (size_t)n;
    e->line[e->line_len] = '\0';
    while ((newline = strchr(start, '\n')) != NULL) {
        *newline = '\0';
        obey(e, start);
        start = newline + 1;
    }
    e->line_len -= (size_t)(start - e->line);
    memmove(e->line, start, e->line_len);
    if (e->line_len == sizeof(e->line) - 1) {
        answer("line too long");
        e->line_len = 0;
    }
}

/* ---- the loop ---- */

/*
 * Sleep until until_ns or an event; 0 only polls. By a timerfd, because poll() lets its own timeout
 * be late by a thousandth of it.
 */
static void wait_until(struct pathemu *e, uint64_t until_ns)
{
    struct pollfd fds[] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = e->signal_fd, .events = POLLIN},
        {.fd = e->timer_fd, .events = POLLIN},
        {.fd = e->side[0].tun_fd, .events = POLLIN},
        {.fd = e->side[1].tun_fd, .events = POLLIN},
    };
    struct itimerspec at = {.it_value = {0}};
    uint64_t now;

    if (until_ns != UINT64_MAX) {
        at.it_value.tv_sec = (time_t)(until_ns / 1000000000u);
        at.it_value.tv_nsec = (long)(until_ns % 1000000000u);
    }
    /* Setting it anew also clears an expiry that nobody has read. */
    if (until_ns > 0)
        timerfd_settime(e->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    if (poll(fds, until_ns > 0 ? 5 : 2, until_ns > 0 ? -1 : 0) > 0) {
        if (fds[0].revents)
            read_lines(e);
        if (fds[1].revents)
            e->stop = 1;
    }
    now = now_ns();
    e->control_ns = now + CONTROL_NS;
    /* Sleeping is not stalling. */
    if (until_ns > 0)
        e->dir[0].polled_ns = e->dir[1].polled_ns = now;
}

/*
 * Between any two system calls of some length what is due comes first: packets are 12 us apart at
 * 1 Gbit/s, so reading even a few in a row would show in their spacing.
 */
static void run(struct pathemu *e)
{
    uint64_t busy_ns = 0, spin_ns = e->relaxed ? 0 : SPIN_NS;

    while (!e->stop) {
        uint64_t now, due_ns, wake_ns;
        int i, busy = 0;

        for (i = 0; i < 2; i++) {
            busy |= release(&e->dir[0]);
            busy |= release(&e->dir[1]);
            due_ns = next_due_ns(e);
            now = now_ns();
            if (due_ns > now && due_ns - now < HOLD_NS)
                break;
            busy |= take(&e->dir[i], now, e->mtu);
        }
        if (now >= e->control_ns)
            wait_until(e, 0);
        if (busy)
            busy_ns = now;
        if (busy || (!e->relaxed && now < busy_ns + LINGER_NS))
            continue;
        due_ns = next_due_ns(e);
        if (due_ns != UINT64_MAX && due_ns < now + spin_ns)
            continue;
        wake_ns = due_ns == UINT64_MAX ? due_ns : due_ns - spin_ns;
        due_ns = cross_traffic(e, now);
        wait_until(e, wake_ns < due_ns ? wake_ns : due_ns);
    }
}

/* ---- start ---- */

static int usage(const char *problem)
{
    fprintf(stderr,
            "pathemu: %s (usage: pathemu [--mtu N] [--seed N] [--memory BYTES] [--relaxed] "
            "[--both|--ab|--ba KEY=VALUE,...]; keys: %s)\n",
            problem, emu_params_usage);
    return 2;
}

static int whole_number(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 0);
    return errno || *end || *text < '0' || *text > '9' ? -1 : 0;
}

static int options(struct pathemu *e, int argc, char **argv)
{
    static const struct option known[] = {
        {"mtu", required_argument, NULL, 'm'},  {"seed", required_argument, NULL, 's'},
        {"both", required_argument, NULL, '2'}, {"ab", required_argument, NULL, 'a'},
        {"ba", required_argument, NULL, 'b'},   {"memory", required_argument, NULL, 'M'},
        {"relaxed", no_argument, NULL, 'r'},    {NULL, 0, NULL, 0},
    };
    char err[160];
    uint64_t mtu = 1500;
    int opt;

    opterr = 0;
    while ((opt = getopt_long(argc, argv, "", known, NULL)) != -1) {
        const char *which = opt == '2' ? "both" : opt == 'a' ? "ab" : "ba";

        if (opt == 'm' && (whole_number(optarg, &mtu) < 0 || mtu < 68 || mtu > 65535))
            return usage("--mtu takes 68 to 65535");
        if (opt == 's' && whole_number(optarg, &e->seed) < 0)
            return usage("--seed takes a number");
        if (opt == 'M' && emu_params_bytes(optarg, &e->memory_bytes) < 0)
            return usage("--memory takes bytes");
        if ((opt == '2' || opt == 'a' || opt == 'b') &&
            change(e, which, optarg, err, sizeof(err)) < 0)
            return usage(err);
        if (opt == 'r')
            e->relaxed = 1;
        if (opt == '?')
            return usage("unknown option, or one without its value");
    }
    if (optind < argc)
        return usage("unexpected argument");
    e->mtu = (int)mtu;
    return 0;
}

static int fail(const char *problem)
{
    fprintf(stderr, "pathemu: %s\n", problem);
    return 1;
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* The kernel's first version of its struct sched_attr, which not every C library has. */
struct slice {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

/*
 * Runs before other processes of its session (sched(7), "The autogroup feature") and of other sessions. From Linux 6.12
 * on, the process with the shorter slice runs as soon as it wakes. A real-time policy would not do: the kernel stops
 * one that is busy for 50 ms of each second. If the kernel refuses, the path is less punctual, and its ground truth
 * says so.
 */
static void be_punctual(void)
{
    struct slice smallest = {.size = sizeof smallest, .policy = SCHED_OTHER, .nice = -20, .runtime_ns = 100000};
    int fd = setsid() < 0 ? -1 : open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, "-20", 3);
        close(fd);
    }
    if (syscall(SYS_sched_setattr, 0, &smallest, 0) < 0) {
        smallest.nice = 0;
        syscall(SYS_sched_setattr, 0, &smallest, 0);
    }
}

int main(int argc, char **argv)
{
    static struct pathemu e = {.dir = {{.name = "ab"}, {.name = "ba"}},
                               .seed = 1,
                               .memory_bytes = 256000000};
    char err[160];
    int i, rc = options(&e, argc, argv);

    if (rc)
        return rc;
    /* Before the namespaces: inside a user namespace it is no longer permitted. */
    be_punctual();
    e.signal_fd = open_signals();
    e.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (e.signal_fd < 0 || e.timer_fd < 0)
        return fail("signalfd, timerfd");
    if (emu_netns_pair(e.side, e.mtu, err, sizeof(err)) < 0)
        return fail(err);
    for (i = 0; i < 2; i++) {
        struct direction *d = &e.dir[i];

        d->in_fd = e.side[i].tun_fd;
        d->out_fd = e.side[1 - i].tun_fd;
        d->polled_ns = now_ns();
        emu_link_init(&d->link, &d->params, 2 * e.seed + (uint64_t)i, now_ns());
        if (emu_store_init(&d->store, (size_t)e.memory_bytes, (size_t)e.mtu) < 0)
            return fail("memory for packets");
    }
    printf("{\"ready\":true,\"pid\":%d,\"ns_a\":\"/proc/%d/fd/%d\",\"ns_b\":\"/proc/%d/fd/%d\"}\n",
           (int)getpid(), (int)getpid(), e.side[0].ns_fd, (int)getpid(), e.side[1].ns_fd);
    fflush(stdout);
    run(&e);
    print_truth(&e);
    for (i = 0; i < 2; i++) {
        emu_link_free(&e.dir[i].link);
        emu_store_free(&e.dir[i].store);
    }
    return 0;
}

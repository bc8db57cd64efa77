/* SPDX-License-Identifier: MIT */
/*
 * One connection, of which one end was set up by a plan: what the plan expects, and what the kernel then gives.
 *
 *   window recv PORT HOW STAGE RATE RTT_MS        serves one connection, reads to its end
 *   window send HOST PORT HOW STAGE RATE RTT_MS SECONDS [poll|block|retry]
 *
 * HOW: none, plan, low-delay, or a number: SO_SNDBUF or SO_RCVBUF of that many bytes is set first, then the plan
 * carried out. "unlock:N" calls autobuf_unlock() instead. STAGE: before or after (connect or accept), data (accepted,
 * and the first data have come), or flow (accepted with that size, and 1 MB has come). RATE and RTT_MS are the path,
 * which is not measured. The last word says how it sends: when poll() allows it, by calls that block, or again every 5
 * ms.
 *
 * Prints one line of JSON. In flight and the peer's window are the largest of TCP_INFO's samples. a_round_trip is what
 * was acknowledged in a minimum RTT: the mean of the second half of SECONDS.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/tcp.h>

#include <autobuf/autobuf.h>

static char chunk[131072];

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct autobuf_plan plan_for(int fd, uint32_t intent, char **rate_and_rtt)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_socket state = AUTOBUF_SOCKET_INIT;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    if (autobuf_path_given(&path, strtoull(rate_and_rtt[0], NULL, 10),
                           strtoull(rate_and_rtt[1], NULL, 10) * 1000000) < 0 ||
        autobuf_limits_host(&limits) < 0 || autobuf_socket_state(fd, &state) < 0 ||
        autobuf_plan_make(&path, &limits, &state, intent, 0, &plan) < 0)
        err(1, "plan");
    return plan;
}

/* Returns whether it only has to be unlocked then. */
static bool lock(int fd, int option, const char *how)
{
    bool unlock = strncmp(how, "unlock:", 7) == 0;
    int bytes = atoi(unlock ? how + 7 : how);

    if (bytes && setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes) < 0)
        err(1, "setsockopt");
    return unlock;
}

static struct autobuf_plan set_up(int fd, int option, char **how)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    bool unlock;
    int result;

    if (strcmp(how[0], "none") == 0)
        return plan;
    unlock = lock(fd, option, how[0]);
    plan = plan_for(fd, strcmp(how[0], "low-delay") == 0, how + 2);
    if (unlock)
        result = autobuf_unlock(fd, AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV);
    else
        result = autobuf_apply(fd, &plan);
    if (result < 0) {
        fprintf(stderr, "%s\n", autobuf_strerror(result));
        exit(1);
    }
    return plan;
}

static void read_all(int fd)
{
    ssize_t got;

    do
        got = read(fd, chunk, sizeof chunk);
    while (got > 0 || (got < 0 && errno == EINTR));
}

/* The first so many bytes. */
static void read_some(int fd, size_t bytes)
{
    ssize_t got;

    for (; bytes; bytes -= (size_t)got) {
        got = read(fd, chunk, bytes < sizeof chunk ? bytes : sizeof chunk);
        if (got <= 0)
            err(1, "read");
    }
}

static int run_recv(char **args)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(args[0]))};
    bool before = strcmp(args[2], "before") == 0, flows = strcmp(args[2], "flow") == 0;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;

    if (before)
        plan = set_up(listener, SO_RCVBUF, args + 1);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) < 0 || listen(listener, 1) < 0)
        err(1, "listen");
    fd = accept(listener, NULL, NULL);
    if (fd < 0)
        err(1, "accept");
    if (strcmp(args[2], "data") == 0 && recv(fd, chunk, 1, MSG_PEEK) < 0)
        err(1, "recv");
    if (flows) {
        lock(fd, SO_RCVBUF, args[1]);
        read_some(fd, 1000000);
    }
    if (!before)
        plan = set_up(fd, SO_RCVBUF, args + 1);
    read_all(fd);
    printf("{\"window\":%llu,\"clamp\":%llu,\"reason\":\"%s\"}\n",
           (unsigned long long)plan.rcv_window_bytes, (unsigned long long)plan.rcv_clamp_bytes,
           autobuf_reason_name(plan.rcv_reason));
    return 0;
}

struct seen {
    uint64_t in_flight; /* bytes */
    uint64_t peer_window;
    uint64_t acked;
    double rtt_s;
};

static void sample(int fd, struct seen *seen)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    uint64_t in_flight;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        err(1, "TCP_INFO");
    in_flight = (uint64_t)info.tcpi_unacked * info.tcpi_snd_mss;
    seen->in_flight = in_flight > seen->in_flight ? in_flight : seen->in_flight;
    seen->peer_window = info.tcpi_snd_wnd > seen->peer_window ? info.tcpi_snd_wnd : seen->peer_window;
    seen->acked = info.tcpi_bytes_acked;
    seen->rtt_s = info.tcpi_min_rtt / 1e6;
}

/* Waits, and sends what can be sent then. */
static void send_some(int fd, const char *how)
{
    struct pollfd writable = {fd, POLLOUT, 0};
    bool blocks = strcmp(how, "block") == 0;

    if (strcmp(how, "poll") == 0)
        (void)poll(&writable, 1, 100);
    if (send(fd, chunk, sizeof chunk, MSG_NOSIGNAL | (blocks ? 0 : MSG_DONTWAIT)) >= 0)
        return;
    if (errno != EAGAIN)
        err(1, "send");
    if (strcmp(how, "retry") == 0)
        (void)poll(NULL, 0, 5);
}

static uint64_t expected_window(const struct autobuf_plan *plan, const char *how)
{
    if (strcmp(how, "block") == 0)
        return plan->snd_block_bytes;
    return strcmp(how, "retry") == 0 ? plan->snd_retry_bytes : plan->snd_window_bytes;
}

static int run_send(char **args, const char *how)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(args[1]))};
    bool before = strcmp(args[3], "before") == 0;
    double begin_s = now_s(), seconds = atof(args[6]), half_s = 0;
    uint64_t half_acked = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    struct seen seen = {0};

    if (inet_pton(AF_INET, args[0], &to.sin_addr) != 1)
        return 2;
    if (before)
        plan = set_up(fd, SO_SNDBUF, args + 2);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        err(1, "connect");
    if (!before)
        plan = set_up(fd, SO_SNDBUF, args + 2);
    while (now_s() < begin_s + seconds) {
        if (!half_acked && now_s() > begin_s + seconds / 2) {
            half_acked = seen.acked;
            half_s = now_s();
        }
        send_some(fd, how);
        sample(fd, &seen);
    }
    printf("{\"window\":%llu,\"reason\":\"%s\",\"in_flight\":%llu,\"peer_window\":%llu,\"a_round_trip\":%.0f}\n",
           (unsigned long long)expected_window(&plan, how), autobuf_reason_name(plan.snd_reason),
           (unsigned long long)seen.in_flight, (unsigned long long)seen.peer_window,
           (double)(seen.acked - half_acked) / (now_s() - half_s) * seen.rtt_s);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "recv") == 0)
        return run_recv(argv + 2);
    if ((argc == 9 || argc == 10) && strcmp(argv[1], "send") == 0)
        return run_send(argv + 2, argc == 10 ? argv[9] : "poll");
    fputs("usage: window recv PORT HOW STAGE RATE RTT_MS\n"
          "       window send HOST PORT HOW STAGE RATE RTT_MS SECONDS [poll|block|retry]\n", stderr);
    return 2;
}

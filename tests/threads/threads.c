/* SPDX-License-Identifier: MIT */
/*
 * Two threads, each with two handles of its own, and with all else that the library does, at once: for
 * the thread sanitizer, which reports any state that they share. Exits 0 if every thread was served.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#define THREADS 2
#define HANDLES 2
#define ROUNDS 5

static struct sockaddr_in loopback(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* Steps two measurements in turn until both are over. Measuring may not be permitted here. */
static bool measure_two(void)
{
    struct autobuf_probe *probes[HANDLES];
    bool over[HANDLES] = {false, false};
    struct sockaddr_in peer = loopback();
    int opened = 0, left = HANDLES;

    for (; opened < HANDLES; opened++)
        if (autobuf_probe_open(&probes[opened], (struct sockaddr *)&peer, sizeof peer, NULL) < 0)
            break;
    left = opened;
    while (left > 0) {
        for (int i = 0; i < opened; i++) {
            struct autobuf_path path = AUTOBUF_PATH_INIT;
            struct pollfd p;

            if (over[i])
                continue;
            p = (struct pollfd){autobuf_probe_fd(probes[i]),
                                (short)autobuf_probe_events(probes[i]), 0};
            poll(&p, 1, 1);
            if (autobuf_probe_step(probes[i], autobuf_now_ns()) == 0)
                continue;
            over[i] = true;
            left--;
            autobuf_probe_result(probes[i], &path);
        }
    }
    while (opened > 0)
        autobuf_probe_close(probes[--opened]);
    return true;
}

static bool tune_one(void)
{
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct sockaddr_in peer = loopback();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[1024];
    int result;

    applied.plan = &plan;
    applied.limits = &limits;
    result = autobuf_tune(fd, (struct sockaddr *)&peer, sizeof peer, NULL, &applied);
    bwdelay_apply(fd, 100000000);
    autobuf_unlock(fd, AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV);
    close(fd);
    autobuf_plan_explain(&plan, text, sizeof text);
    autobuf_plan_sysctl(&plan, &limits, 0, text, sizeof text);
    return result >= 0 && autobuf_strerror(-EACCES)[0] && autobuf_version()[0];
}

static bool watch_one(void)
{
    struct sockaddr_in address = loopback();
    socklen_t len = sizeof address;
    struct autobuf_live_state state = AUTOBUF_LIVE_STATE_INIT;
    struct autobuf_applied applied = {.size = sizeof applied, .live = &state};
    struct autobuf_options options = {.size = sizeof options, .flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE};
    struct autobuf_flow *flow = NULL;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&address, &len) == 0 &&
              connect(fd, (struct sockaddr *)&address, len) == 0 &&
              autobuf_flow_open(&flow, fd, NULL, 0, &options) == 0;

    for (uint64_t i = 1; ok && i < 10; i++)
        ok = autobuf_flow_step(flow, i * 1000000000) == 0 && autobuf_flow_state(flow, &applied) == 0;
    autobuf_flow_close(flow);
    close(fd);
    close(listener);
    return ok;
}

static void *serve(void *arg)
{
    bool *ok = arg;

    for (int i = 0; i < ROUNDS; i++)
        *ok = measure_two() && tune_one() && watch_one() && *ok;
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    bool ok[THREADS] = {true, true};

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, serve, &ok[i]) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (!ok[0] || !ok[1])
        fputs("a thread was not served\n", stderr);
    return ok[0] && ok[1] ? 0 : 1;
}

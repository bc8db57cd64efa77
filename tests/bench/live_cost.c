/* SPDX-License-Identifier: MIT */
/*
 * What a step of autobuf_live_*() costs: prints nanoseconds of processor time for each, of one connection, which then
 * stays in the processor's cache, and of many in turn, each of which has left the nearest caches when its turn comes
 * again. Nothing moves in any of them.
 */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#define STEPS 20000U
#define CONNECTIONS 1000 /* fewer than the descriptors that a process usually may have */
#define NS_PER_S 1000000000ULL

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Nanoseconds of processor time a step, of the first so many connections in turn; 0: a step failed. */
static uint64_t step_ns(struct autobuf_flow **flow, size_t count, uint64_t *now_ns)
{
    uint64_t begin_ns = cpu_ns();

    for (size_t i = 0; i < STEPS; i++) {
        *now_ns += NS_PER_S;
        if (autobuf_flow_step(flow[i % count], *now_ns) < 0)
            return 0;
    }
    return (cpu_ns() - begin_ns) / STEPS;
}

int main(void)
{
    static struct autobuf_flow *flow[CONNECTIONS];
    struct autobuf_options options = {.size = sizeof options, .flags = AUTOBUF_FLOW_SILENT | AUTOBUF_FLOW_NO_STORE};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    uint64_t now_ns = 0, warm_ns, cold_ns;

    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, CONNECTIONS) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) < 0)
        return 1;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (connect(fd, (struct sockaddr *)&address, len) < 0 || autobuf_flow_open(&flow[i], fd, NULL, 0, &options) < 0)
            return 1;
    }
    warm_ns = step_ns(flow, 1, &now_ns);
    cold_ns = step_ns(flow, CONNECTIONS, &now_ns);
    if (!warm_ns || !cold_ns)
        return 1;
    printf("%llu %llu\n", (unsigned long long)warm_ns, (unsigned long long)cold_ns);
    for (size_t i = 0; i < CONNECTIONS; i++)
        autobuf_flow_close(flow[i]);
    return 0; /* descriptors go with the process */
}

/* SPDX-License-Identifier: MIT */
/* What a step of autobuf_live_*() costs: prints nanoseconds of processor time for each. */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <autobuf/autobuf.h>

#define STEPS 20000U
#define NS_PER_S 1000000000ULL

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    struct autobuf_live *live;
    uint64_t begin_ns;

    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&address, &len) < 0 ||
        connect(fd, (struct sockaddr *)&address, len) < 0 || autobuf_live_open(&live, fd, NULL) < 0)
        return 1;
    begin_ns = cpu_ns();
    for (uint64_t i = 1; i <= STEPS; i++) {
        if (autobuf_live_step(live, i * NS_PER_S) < 0)
            return 1;
    }
    printf("%llu\n", (unsigned long long)((cpu_ns() - begin_ns) / STEPS));
    autobuf_live_close(live);
    close(fd);
    close(listener);
    return 0;
}

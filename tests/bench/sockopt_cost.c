/* SPDX-License-Identifier: MIT */
/* What setsockopt() and getsockopt() of a buffer's size cost on a TCP socket: a line of JSON, nanoseconds a call. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CALLS 1000000U

static uint64_t cpu_ns(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000U + (uint64_t)used.tv_nsec;
}

int main(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), size = 65536;
    socklen_t length = sizeof size;
    uint64_t set_ns, get_ns;

    if (fd < 0)
        return 1;
    set_ns = cpu_ns();
    for (unsigned i = 0; i < CALLS; i++)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    set_ns = cpu_ns() - set_ns;
    get_ns = cpu_ns();
    for (unsigned i = 0; i < CALLS; i++)
        getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length);
    get_ns = cpu_ns() - get_ns;
    close(fd);
    printf("{\"set_ns\":%" PRIu64 ",\"get_ns\":%" PRIu64 "}\n", set_ns / CALLS, get_ns / CALLS);
    return 0;
}

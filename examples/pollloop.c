/* SPDX-License-Identifier: MIT */
/*
 * The stepped measurement in an application's own poll() loop, beside its other work: here a clock
 * that ticks every 10 ms. usage: pollloop ADDRESS
 */
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <autobuf/autobuf.h>

#define TICK_NS 10000000U

/* Rounded up: a poll() that returns too early would only spin. */
static int milliseconds_until(uint64_t deadline_ns)
{
    uint64_t now = autobuf_now_ns();

    return deadline_ns <= now ? 0 : (int)((deadline_ns - now + 999999) / 1000000);
}

static int loop(struct autobuf_probe *probe, unsigned *ticks)
{
    uint64_t tick_ns = autobuf_now_ns() + TICK_NS;
    int result;

    while ((result = autobuf_probe_step(probe, autobuf_now_ns())) == 0) {
        uint64_t next_ns = autobuf_probe_deadline_ns(probe);
        struct pollfd fds[1] = {
            {autobuf_probe_fd(probe), (short)autobuf_probe_events(probe), 0},
            /* ... and the application's own */
        };

        if (tick_ns < next_ns)
            next_ns = tick_ns;
        poll(fds, 1, milliseconds_until(next_ns));
        if (autobuf_now_ns() >= tick_ns) {
            tick_ns += TICK_NS;
            (*ticks)++;
        }
    }
    return result;
}

int main(int argc, char **argv)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *peer;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    struct autobuf_probe *probe;
    unsigned ticks = 0;
    int result;

    if (argc != 2 || getaddrinfo(argv[1], NULL, &hints, &peer) != 0)
        return 2;
    result = autobuf_probe_open(&probe, peer->ai_addr, peer->ai_addrlen, NULL);
    freeaddrinfo(peer);
    if (result == 0) {
        result = loop(probe, &ticks);
        if (result > 0)
            result = autobuf_probe_result(probe, &path);
        autobuf_probe_close(probe);
    }
    if (result < 0) {
        fprintf(stderr, "pollloop: %s\n", autobuf_strerror(result));
        return 1;
    }
    printf("%.1f Mbit/s, %.2f ms, %llu bytes; the clock ticked %u times meanwhile\n",
           (double)path.tx_rate_bit_per_s / 1e6, (double)path.rtt_min_ns / 1e6,
           (unsigned long long)path.tx_bdp_bytes, ticks);
    return 0;
}

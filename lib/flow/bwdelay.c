/* SPDX-License-Identifier: MIT */
/* The classic calls: bwdelay(), bwdelay_addr(), bwdelay_apply(). */
#include <errno.h>
#include <netdb.h>

#include "../base/clock.h"
#include "../plan/plan.h"

#define BWDELAY_NS (2 * AB_NS_PER_S) /* documented: no call waits longer */

static int64_t payload_of(int error, const struct autobuf_path *path)
{
    uint64_t bytes;

    if (error < 0)
        return error;
    if (path->tx_unsure)
        return AUTOBUF_E_FEW;
    bytes = autobuf_payload_bytes(path->tx_bdp_bytes, path->packet_bytes);
    return (int64_t)ab_min(ab_max(bytes, 1), INT64_MAX);
}

/* The BDP of the path to an address, measured until until_ns at the latest. */
static int64_t measure_until(const struct sockaddr *addr, socklen_t addr_len, uint64_t until_ns)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct autobuf_path path = AUTOBUF_PATH_INIT;
    uint64_t now_ns = autobuf_now_ns();

    if (now_ns >= until_ns)
        return AUTOBUF_E_NOREPLY;
    options.timeout_ns = until_ns - now_ns;
    return payload_of(autobuf_probe(addr, addr_len, &options, &path), &path);
}

int64_t bwdelay_addr(const struct sockaddr *addr, socklen_t addr_len)
{
    if (autobuf_is_off())
        return AUTOBUF_E_OFF;
    return measure_until(addr, addr_len, autobuf_now_ns() + BWDELAY_NS);
}

/* Whether this address cannot be reached, so that the next one of the name is tried. */
static bool try_next(int64_t result)
{
    return result == -ENETUNREACH || result == -EHOSTUNREACH || result == -EADDRNOTAVAIL || result == -EAFNOSUPPORT;
}

int64_t bwdelay(const char *host)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    int64_t result = AUTOBUF_E_RESOLVE;
    uint64_t until_ns;

    if (autobuf_is_off())
        return AUTOBUF_E_OFF;
    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return AUTOBUF_E_RESOLVE;
    until_ns = autobuf_now_ns() + BWDELAY_NS;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        result = measure_until(a->ai_addr, a->ai_addrlen, until_ns);
        if (!try_next(result))
            break;
    }
    freeaddrinfo(list);
    return result;
}

int bwdelay_apply(int fd, int64_t bytes)
{
    struct autobuf_limits limits = AUTOBUF_LIMITS_INIT;
    struct autobuf_socket socket = AUTOBUF_SOCKET_INIT;
    struct autobuf_plan plan;
    int error;

    if (bytes <= 0)
        return -EINVAL;
    error = autobuf_socket_state(fd, &socket);
    if (error == 0)
        error = autobuf_limits_host(&limits);
    if (error < 0)
        return error;
    ab_plan_nothing(AUTOBUF_REASON_UNKNOWN, AUTOBUF_INTENT_THROUGHPUT, &plan);
    ab_plan_windows((uint64_t)bytes, (uint64_t)bytes, &limits, &socket, 0, &plan);
    return autobuf_apply(fd, &plan);
}

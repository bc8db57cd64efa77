/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "privilege.h"
#include "resolve.h"

#define HOST_BYTES 256
#define TIMEOUT_NS (5 * AB_NS_PER_S)

bool is_port(const char *text)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    return text[0] >= '0' && text[0] <= '9' && !*end && number >= 1 && number <= 65535;
}

/* HOST, HOST:PORT, [HOST]:PORT, or an IPv6 address with its colons. NULL, or what is wrong. */
static const char *split_target(const char *target, char host[HOST_BYTES], const char **port)
{
    const char *begin = target, *colon = strrchr(target, ':');
    size_t len = strlen(target);

    *port = MEASURE_PORT;
    if (target[0] == '[') {
        const char *end = strchr(target, ']');

        if (!end || (end[1] && end[1] != ':'))
            return "its bracket is not closed, or something else than a port follows";
        begin = target + 1;
        len = (size_t)(end - begin);
        colon = end[1] ? end + 1 : NULL;
    } else if (colon && strchr(target, ':') != colon) {
        colon = NULL;
    } else if (colon) {
        len = (size_t)(colon - target);
    }
    if (colon)
        *port = colon + 1;
    if (!is_port(*port))
        return "what follows the colon is not a port, 1 to 65535";
    if (len == 0 || len >= HOST_BYTES)
        return "there is no host's name in it";
    memcpy(host, begin, len);
    host[len] = '\0';
    return NULL;
}

const char *measure_target_wrong(const char *target)
{
    char host[HOST_BYTES];
    const char *port;

    return split_target(target, host, &port);
}

int connect_until(int fd, const struct sockaddr *peer, socklen_t peer_len, uint64_t until_ns)
{
    struct pollfd p = {fd, POLLOUT, 0};
    struct timespec t = ab_time_until(until_ns);
    int error = 0, ready;
    socklen_t len = sizeof error;

    if (connect(fd, peer, peer_len) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    ready = ppoll(&p, 1, &t, NULL);
    if (ready <= 0)
        return ready < 0 ? -errno : -ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return -error;
}

/*
 * Connects to the first address that answers. Returns its descriptor, or the error of the last one. Each address
 * has its share of the time.
 */
static int connect_any(const struct addrinfo *list, const struct source *source, uint64_t timeout_ns)
{
    int error = AUTOBUF_E_RESOLVE;
    unsigned addresses = 0;

    for (const struct addrinfo *a = list; a; a = a->ai_next)
        addresses++;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        uint64_t until_ns = autobuf_now_ns() + timeout_ns / addresses;
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0) {
            error = -errno;
            continue;
        }
        error = source ? source_bind(fd, source) : 0;
        if (error == 0)
            error = connect_until(fd, a->ai_addr, a->ai_addrlen, until_ns);
        if (error == 0)
            return fd;
        close(fd);
    }
    return error;
}

static void show_progress(const struct autobuf_inband *inband)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;

    autobuf_inband_result(inband, &path);
    fprintf(stderr, "\r\033[K%.0f KB sent, %u arrivals", (double)path.cost_bytes / 1e3, path.samples);
}

/* autobuf_inband(), but for the progress. */
static int measure_over(int fd, const struct measuring *m,
                        const struct autobuf_inband_options *options, struct autobuf_path *path)
{
    struct autobuf_inband *inband;
    int result = autobuf_inband_open(&inband, AUTOBUF_INBAND_INITIATOR, fd, options);

    if (result < 0)
        return result;
    while ((result = autobuf_inband_step(inband, autobuf_now_ns())) == 0) {
        if (m->progress)
            show_progress(inband);
        result = ab_wait(autobuf_inband_fd(inband), autobuf_inband_events(inband),
                          autobuf_inband_deadline_ns(inband));
        if (result < 0)
            break;
    }
    if (m->progress)
        fputs("\r\033[K", stderr);
    if (result == 1)
        result = autobuf_inband_result(inband, path);
    autobuf_inband_close(inband);
    return result;
}

int measure_target(struct measuring *m, struct autobuf_path *path)
{
    struct addrinfo *list;
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    uint64_t timeout_ns = m->timeout_ns ? m->timeout_ns : TIMEOUT_NS;
    char host[HOST_BYTES];
    const char *port;
    int fd, result;

    if (split_target(m->target, host, &port))
        return -EINVAL;
    result = drop_privileges();
    if (result == 0)
        result = resolve(host, port, m->family, 0, &list);
    if (result < 0)
        return result;
    fd = connect_any(list, m->source, timeout_ns);
    freeaddrinfo(list);
    if (fd < 0)
        return fd;
    m->peer_len = sizeof m->peer;
    if (getpeername(fd, (struct sockaddr *)&m->peer, &m->peer_len) < 0)
        m->peer_len = 0;
    options.timeout_ns = timeout_ns;
    result = measure_over(fd, m, &options, path);
    close(fd);
    return result == AUTOBUF_E_FEW ? 0 : result;
}

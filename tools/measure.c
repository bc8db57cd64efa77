/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../lib/base/base.h"
#include "../lib/base/clock.h"
#include "print.h"
#include "privilege.h"

/* ---------------------------------------------------------------------------------- echoes */

static void show_echoes(const struct autobuf_probe *probe)
{
    struct autobuf_probe_progress now = AUTOBUF_PROBE_PROGRESS_INIT;

    if (autobuf_probe_progress(probe, &now) == 0)
        fprintf(stderr, "\r\033[K%u trains, %u of %u answered, %sB sent", now.trains,
                now.received_packets, now.sent_packets, SCALED(now.cost_bytes));
}

static int probe_run(struct measurement *m, struct autobuf_probe *probe, struct autobuf_path *path)
{
    int result;

    while ((result = autobuf_probe_step(probe, autobuf_now_ns())) == 0) {
        if (m->progress)
            show_echoes(probe);
        result = ab_wait(autobuf_probe_fd(probe), autobuf_probe_events(probe),
                          autobuf_probe_deadline_ns(probe));
        if (result < 0)
            break;
    }
    if (m->progress)
        fputs("\r\033[K", stderr);
    if (result < 0)
        return result;
    result = autobuf_probe_result(probe, path);
    m->reading_count = ab_min_size(autobuf_probe_rates(probe, m->readings, READINGS), READINGS);
    return result == AUTOBUF_E_FEW ? 0 : result;
}

/* Opens it to one address of the host. */
static int probe_open_to(const struct arguments *want, const struct measurement *m, const struct addrinfo *to,
                         struct autobuf_probe **probe)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct source source = m->source;

    if (source.len && source.address.ss_family != to->ai_family)
        return -EADDRNOTAVAIL;
    if (want->keep_source && !source.len) {
        int error = source_towards(to->ai_addr, to->ai_addrlen, &source);

        if (error < 0)
            return error;
        memcpy(source.device, m->source.device, sizeof source.device);
    }
    options.budget_bytes = (uint32_t)want->budget_bytes;
    options.timeout_ns = want->timeout_ns;
    options.source = source.len ? (const struct sockaddr *)&source.address : NULL;
    options.source_len = source.len;
    memcpy(options.device, source.device, sizeof options.device);
    return autobuf_probe_open(probe, to->ai_addr, to->ai_addrlen, &options);
}

static int probe_open(const struct arguments *want, struct measurement *m, struct autobuf_probe **probe)
{
    struct addrinfo *list;
    int result = resolve(want->operand, NULL, (int)want->family, 0, &list);

    if (result < 0)
        return result;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        result = probe_open_to(want, m, a, probe);
        m->peer_len = a->ai_addrlen <= sizeof m->peer ? a->ai_addrlen : 0;
        memcpy(&m->peer, a->ai_addr, m->peer_len);
        if (result != -ENETUNREACH && result != -EADDRNOTAVAIL)
            break;
    }
    freeaddrinfo(list);
    return result;
}

int measure_echoes(const struct arguments *want, struct measurement *m, struct autobuf_path *path)
{
    struct autobuf_probe *probe;
    int result = probe_open(want, m, &probe);

    if (result < 0)
        return result;
    result = drop_privileges(); /* the socket is open */
    if (result == 0)
        result = probe_run(m, probe, path);
    autobuf_probe_close(probe);
    return result;
}

/* -------------------------------------------------------------------------------- over TCP */

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
        error = source_bind(fd, source);
        if (error == 0)
            error = connect_until(fd, a->ai_addr, a->ai_addrlen, until_ns);
        if (error == 0)
            return fd;
        close(fd);
    }
    return error;
}

static void show_arrivals(const struct autobuf_inband *inband)
{
    struct autobuf_path path = AUTOBUF_PATH_INIT;

    autobuf_inband_result(inband, &path);
    fprintf(stderr, "\r\033[K%sB sent, %u arrivals", SCALED(path.cost_bytes), path.samples);
}

/* autobuf_inband(), but for the progress. */
static int measure_over(int fd, struct measurement *m, const struct autobuf_inband_options *options,
                        struct autobuf_path *path)
{
    struct autobuf_inband *inband;
    int result = autobuf_inband_open(&inband, AUTOBUF_INBAND_INITIATOR, fd, options);

    if (result < 0)
        return result;
    while ((result = autobuf_inband_step(inband, autobuf_now_ns())) == 0) {
        if (m->progress)
            show_arrivals(inband);
        result = ab_wait(autobuf_inband_fd(inband), autobuf_inband_events(inband),
                          autobuf_inband_deadline_ns(inband));
        if (result < 0)
            break;
    }
    if (m->progress)
        fputs("\r\033[K", stderr);
    if (result == 1)
        result = autobuf_inband_result(inband, path);
    m->greeted = autobuf_inband_greeted(inband);
    autobuf_inband_close(inband);
    return result;
}

int measure_server(const struct arguments *want, struct measurement *m, struct autobuf_path *path)
{
    struct addrinfo *list;
    struct autobuf_inband_options options = AUTOBUF_INBAND_OPTIONS_INIT;
    int fd, result = drop_privileges();

    if (result == 0)
        result = resolve(want->host_name, want->port, (int)want->family, 0, &list);
    if (result < 0)
        return result;
    fd = connect_any(list, &m->source, want->timeout_ns);
    freeaddrinfo(list);
    if (fd < 0)
        return fd;
    m->peer_len = sizeof m->peer;
    if (getpeername(fd, (struct sockaddr *)&m->peer, &m->peer_len) < 0)
        m->peer_len = 0;
    options.timeout_ns = want->timeout_ns;
    m->socket = (struct autobuf_socket)AUTOBUF_SOCKET_INIT;
    (void)autobuf_socket_state(fd, &m->socket);
    result = measure_over(fd, m, &options, path);
    close(fd);
    return result == AUTOBUF_E_FEW ? 0 : result;
}

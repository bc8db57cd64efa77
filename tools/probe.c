/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../lib/base/clock.h"
#include "privilege.h"
#include "resolve.h"

static void show_progress(const struct autobuf_probe *probe)
{
    struct autobuf_probe_progress now = AUTOBUF_PROBE_PROGRESS_INIT;

    if (autobuf_probe_progress(probe, &now) == 0)
        fprintf(stderr, "\r\033[K%u trains, %u of %u answered, %.0f KB sent", now.trains,
                now.received_packets, now.sent_packets, (double)now.cost_bytes / 1e3);
}

static int probe_run(struct probing *p, struct autobuf_probe *probe, struct autobuf_path *path)
{
    int result;

    while ((result = autobuf_probe_step(probe, autobuf_now_ns())) == 0) {
        if (p->progress)
            show_progress(probe);
        result = ab_wait(autobuf_probe_fd(probe), autobuf_probe_events(probe),
                          autobuf_probe_deadline_ns(probe));
        if (result < 0)
            break;
    }
    if (p->progress)
        fputs("\r\033[K", stderr);
    if (result < 0)
        return result;
    result = autobuf_probe_result(probe, path);
    p->reading_count = autobuf_probe_rates(probe, p->readings, READINGS);
    if (p->reading_count > READINGS)
        p->reading_count = READINGS;
    return result == AUTOBUF_E_FEW ? 0 : result;
}

/* Opens it to one address of the host. */
static int probe_open_to(const struct probing *p, const struct addrinfo *to, struct autobuf_probe **probe)
{
    struct autobuf_probe_options options = AUTOBUF_PROBE_OPTIONS_INIT;
    struct source source = p->source;

    if (source.len && source.address.ss_family != to->ai_family)
        return -EADDRNOTAVAIL;
    if (p->keep_source && !source.len) {
        int error = source_towards(to->ai_addr, to->ai_addrlen, &source);

        if (error < 0)
            return error;
        memcpy(source.device, p->source.device, sizeof source.device);
    }
    options.budget_bytes = p->budget_bytes;
    options.timeout_ns = p->timeout_ns;
    options.source = source.len ? (const struct sockaddr *)&source.address : NULL;
    options.source_len = source.len;
    memcpy(options.device, source.device, sizeof options.device);
    return autobuf_probe_open(probe, to->ai_addr, to->ai_addrlen, &options);
}

static int probe_open(struct probing *p, struct autobuf_probe **probe)
{
    struct addrinfo *list;
    int result = resolve(p->host, NULL, p->family, 0, &list);

    if (result < 0)
        return result;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        result = probe_open_to(p, a, probe);
        p->peer_len = a->ai_addrlen <= sizeof p->peer ? a->ai_addrlen : 0;
        memcpy(&p->peer, a->ai_addr, p->peer_len);
        if (result != -ENETUNREACH && result != -EADDRNOTAVAIL)
            break;
    }
    freeaddrinfo(list);
    return result;
}

int probe_host(struct probing *p, struct autobuf_path *path)
{
    struct autobuf_probe *probe;
    int result = probe_open(p, &probe);

    if (result < 0)
        return result;
    result = drop_privileges(); /* the socket is open */
    if (result == 0)
        result = probe_run(p, probe, path);
    autobuf_probe_close(probe);
    return result;
}

/* SPDX-License-Identifier: MIT */
/*
 * A program as anybody might drop the pair into.
 *
 *   pair        tries each of the classic calls on this host. Exits 0, 1 with the reason, or 77
 *               with the reason if no measurement is permitted here
 *   pair HOST   prints bwdelay(HOST), and what bwdelay_apply() made of it for a new socket
 *   pair HOST tune
 *               prints whether autobuf_tune() measured the path, and what it returned
 *
 * WHOLE: with autobuf.c besides. ONLY_WHOLE: with autobuf.c alone.
 */
#ifdef WHOLE
#include "autobuf.h"
#endif
#ifndef ONLY_WHOLE
#include "bwdelay.h"
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77 };

static int failed(const char *what, int64_t result)
{
    printf("%s: %" PRId64 " (%s)\n", what, result, autobuf_strerror((int)result));
    return 1;
}

static int apply_to_new(int64_t bytes)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int result = fd < 0 ? -errno : bwdelay_apply(fd, bytes);

    if (fd >= 0)
        close(fd);
    return result;
}

static int tune_new(int64_t *result)
{
    struct autobuf_options options = AUTOBUF_OPTIONS_INIT;
    struct autobuf_plan plan = AUTOBUF_PLAN_INIT;
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct sockaddr_in peer;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    memset(&peer, 0, sizeof peer);
    peer.sin_family = AF_INET;
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    options.flags = AUTOBUF_FLOW_SILENT;
    applied.plan = &plan;
    plan.snd_reason = UINT32_MAX;
    *result = fd < 0 ? -errno : autobuf_tune(fd, (const struct sockaddr *)&peer, sizeof peer, &options, &applied);
    if (fd >= 0)
        close(fd);
    if (*result != 0 && *result != 1)
        return failed("autobuf_tune() of a new socket", *result);
    return plan.snd_reason <= AUTOBUF_REASON_OFF ? 0 : failed("autobuf_tune() has no plan", 0);
}

#ifdef WHOLE
static int follow_none(void)
{
    struct autobuf_flow *flow;
    int result = autobuf_flow_open(&flow, -1, NULL, 0, NULL);

    return result == -EBADF ? 0 : failed("autobuf_flow_open() of no socket", result);
}
#else
static int follow_none(void)
{
    return 0;
}
#endif

static int try_here(void)
{
    struct sockaddr_in here;
    char version[32];
    int64_t result;

    snprintf(version, sizeof version, "%d.%d.%d", AUTOBUF_VERSION_MAJOR, AUTOBUF_VERSION_MINOR,
             AUTOBUF_VERSION_PATCH);
    if (strcmp(version, autobuf_version()) != 0)
        return failed("autobuf_version() is not the header's", 0);
    result = apply_to_new(1000000);
    if (result != 0 && result != 1)
        return failed("bwdelay_apply() to a new socket", result);
    result = apply_to_new(0);
    if (result != -EINVAL)
        return failed("bwdelay_apply() of no bytes", result);
    result = bwdelay_apply(-1, 1000000);
    if (result != -EBADF)
        return failed("bwdelay_apply() to no socket", result);
    result = autobuf_tune(-1, NULL, 0, NULL, NULL);
    if (result != -EBADF)
        return failed("autobuf_tune() of no socket", result);
    if (tune_new(&result) != 0 || follow_none() != 0)
        return 1;
    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    result = bwdelay_addr((const struct sockaddr *)&here, sizeof here);
    if (result == -EACCES) {
        failed("bwdelay_addr() of 127.0.0.1", result);
        return EXIT_SKIPPED;
    }
    return result > 0 ? 0 : failed("bwdelay_addr() of 127.0.0.1", result);
}

static int tune(const char *host)
{
    struct autobuf_applied applied = AUTOBUF_APPLIED_INIT;
    struct sockaddr_in peer;
    int fd = socket(AF_INET, SOCK_STREAM, 0), result;

    memset(&peer, 0, sizeof peer);
    peer.sin_family = AF_INET;
    if (fd < 0 || inet_pton(AF_INET, host, &peer.sin_addr) != 1)
        return failed("a new socket and the address", -errno);
    result = autobuf_tune(fd, (const struct sockaddr *)&peer, sizeof peer, NULL, &applied);
    close(fd);
    if (result < 0)
        return failed("autobuf_tune()", result);
    printf("%d %d\n", (int)applied.measured, result);
    return 0;
}

int main(int argc, char **argv)
{
    int64_t bytes;
    int applied;

    if (argc < 2)
        return try_here();
    if (argc > 2)
        return tune(argv[1]);
    bytes = bwdelay(argv[1]);
    if (bytes <= 0)
        return failed("bwdelay()", bytes);
    applied = apply_to_new(bytes);
    if (applied < 0)
        return failed("bwdelay_apply()", applied);
    printf("%" PRId64 " %d\n", bytes, applied);
    return 0;
}

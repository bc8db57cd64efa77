/* SPDX-License-Identifier: MIT */
#include "forced.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "../base/base.h"
#include "../base/option.h"
#include "tcpinfo.h"

#define READS_MAX 64U /* each with about 150 connections: a host with more is not worth the time */
#define FDS_MAX 4096U
/* Connections that carry data or may do so later: all states except LISTEN, TIME_WAIT and CLOSE. */
#define STATES (0xfffU & ~(1U << AB_TCP_LISTEN | 1U << AB_TCP_TIME_WAIT | 1U << AB_TCP_CLOSE | 1U))

static const uint64_t *kept; /* the process's own sum; NULL: it has none */

void ab_forced_keep(const uint64_t *bytes)
{
    kept = bytes;
}

bool ab_forced_kept(uint64_t *bytes)
{
    if (kept)
        *bytes = *kept;
    return kept;
}

void ab_forced_add(void *user, const struct ab_tcp_diag *told)
{
    struct ab_forced *sum = user;

    sum->bytes += ab_forced_of(told->snd_buf_bytes, told->rcv_buf_bytes, sum->snd_above_bytes, sum->rcv_above_bytes);
}

/* Sockets of this process that the kernel does not list yet. */
static void add_unconnected(struct ab_forced *sum)
{
    struct rlimit files;
    uint64_t most = FDS_MAX;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        most = ab_min(most, files.rlim_cur);
    for (int fd = 0; fd < (int)most; fd++) {
        uint8_t state; /* the first byte of TCP_INFO */
        socklen_t len = sizeof state;
        int snd = 0, rcv = 0;
        uint64_t bytes;

        (void)ab_get_int(fd, SOL_SOCKET, SO_SNDBUF, &snd);
        (void)ab_get_int(fd, SOL_SOCKET, SO_RCVBUF, &rcv);
        bytes = ab_forced_of((uint64_t)snd, (uint64_t)rcv, sum->snd_above_bytes, sum->rcv_above_bytes);
        if (bytes && getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &len) == 0 && state == AB_TCP_CLOSE)
            sum->bytes += bytes;
    }
}

uint64_t ab_forced_bytes(uint64_t snd_above_bytes, uint64_t rcv_above_bytes)
{
    struct ab_forced sum = {snd_above_bytes, rcv_above_bytes, 0};
    int fd = ab_tcp_diag_open(), error = fd;

    add_unconnected(&sum);
    if (fd >= 0) {
        error = ab_tcp_diag_list(fd, STATES, 1U << (INET_DIAG_SKMEMINFO - 1), READS_MAX, ab_forced_add, &sum);
        close(fd);
    }
    return error < 0 ? UINT64_MAX : sum.bytes;
}

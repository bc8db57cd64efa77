/* SPDX-License-Identifier: MIT */
#include "forced.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include "../base/base.h"
#include "../base/option.h"
#include "netlink.h"
#include "tcpinfo.h"

#define READS_MOST 256U /* each with about 38 connections: a host with more is not worth the time */
#define FDS_MOST 4096U
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

void ab_forced_add(void *user, const uint8_t *body, size_t len)
{
    struct ab_forced *sum = user;
    uint32_t memory[SK_MEMINFO_SNDBUF + 1];
    size_t head = ab_netlink_aligned(sizeof(struct inet_diag_msg));
    const uint8_t *told = len < head ? NULL
                                     : ab_netlink_attribute(body + head, len - head,
                                                            INET_DIAG_SKMEMINFO, sizeof memory);

    if (!told)
        return;
    memcpy(memory, told, sizeof memory);
    if (memory[SK_MEMINFO_SNDBUF] > sum->snd_above_bytes)
        sum->bytes += memory[SK_MEMINFO_SNDBUF];
    if (memory[SK_MEMINFO_RCVBUF] > sum->rcv_above_bytes)
        sum->bytes += memory[SK_MEMINFO_RCVBUF];
}

static int add_connections(uint8_t family, struct ab_forced *sum)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } ask = {.header = {.nlmsg_len = sizeof ask,
                        .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
             .body = {.sdiag_family = family,
                      .sdiag_protocol = IPPROTO_TCP,
                      .idiag_ext = 1U << (INET_DIAG_SKMEMINFO - 1),
                      .idiag_states = STATES}};

    return ab_netlink_ask(NETLINK_SOCK_DIAG, &ask, sizeof ask, READS_MOST, SOCK_DIAG_BY_FAMILY,
                          ab_forced_add, sum);
}

/* 0: it is not, or could not be read. */
static uint64_t if_above(int stored, uint64_t above_bytes)
{
    return stored > 0 && (uint64_t)stored > above_bytes ? (uint64_t)stored : 0;
}

/* Sockets of this process that the kernel does not list yet. */
static void add_unconnected(struct ab_forced *sum)
{
    struct rlimit files;
    uint64_t most = FDS_MOST;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        most = ab_min(most, files.rlim_cur);
    for (int fd = 0; fd < (int)most; fd++) {
        uint8_t state; /* the first byte of TCP_INFO */
        socklen_t len = sizeof state;
        int snd = 0, rcv = 0;
        uint64_t bytes;

        (void)ab_get_int(fd, SOL_SOCKET, SO_SNDBUF, &snd);
        (void)ab_get_int(fd, SOL_SOCKET, SO_RCVBUF, &rcv);
        bytes = if_above(snd, sum->snd_above_bytes) + if_above(rcv, sum->rcv_above_bytes);
        if (bytes && getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &len) == 0 && state == AB_TCP_CLOSE)
            sum->bytes += bytes;
    }
}

uint64_t ab_forced_bytes(uint64_t snd_above_bytes, uint64_t rcv_above_bytes)
{
    struct ab_forced sum = {snd_above_bytes, rcv_above_bytes, 0};
    int result;

    add_unconnected(&sum);
    result = add_connections(AF_INET, &sum);
    if (result != 1)
        return UINT64_MAX;
    result = add_connections(AF_INET6, &sum);
    return result == 1 || result == -ENOENT ? sum.bytes : UINT64_MAX; /* -ENOENT: no IPv6 here */
}

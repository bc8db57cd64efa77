/* SPDX-License-Identifier: MIT */
/* This host's limits. */
#include "limits.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "../base/option.h"
#include "proc.h"
#include "socket.h"

#define ABOVE_ANY_LIMIT 0x3fffffff /* the kernel clamps it, then doubles */
#define TCP_MEM_PART 16 /* of memory: where memory pressure begins (tcp_init_mem()) */
#define READS_MAX 64U /* each with about 150 connections: a host with more is not worth the time */
#define FDS_MAX 4096U
/* Connections that carry data or may do so later: all states except LISTEN, TIME_WAIT and CLOSE. */
#define STATES (0xfffU & ~(1U << AB_TCP_LISTEN | 1U << AB_TCP_TIME_WAIT | 1U << AB_TCP_CLOSE | 1U))

/* The defaults of most Linux releases, for a process without /proc. */
static const struct autobuf_limits defaults = {
    .size = sizeof(struct autobuf_limits),
    .flags = AUTOBUF_LIMITS_RCV_AUTOTUNING | AUTOBUF_LIMITS_WINDOW_SCALING,
    .snd_settable_bytes = 212992,
    .rcv_settable_bytes = 212992,
    .tcp_wmem_min_bytes = 4096,
    .tcp_wmem_default_bytes = 16384,
    .tcp_wmem_max_bytes = 4194304,
    .tcp_rmem_min_bytes = 4096,
    .tcp_rmem_default_bytes = 131072,
    .tcp_rmem_max_bytes = 6291456,
};

static void read_flag(const char *path, uint32_t flag, struct autobuf_limits *limits)
{
    uint64_t value;

    if (ab_proc_read(path, &value, 1) == 1)
        limits->flags = value ? limits->flags | flag : limits->flags & ~flag;
}

static void read_proc(struct autobuf_limits *limits)
{
    uint64_t v[6];

    ab_proc_read("/proc/sys/net/core/wmem_max", &limits->snd_settable_bytes, 1);
    ab_proc_read("/proc/sys/net/core/rmem_max", &limits->rcv_settable_bytes, 1);
    if (ab_proc_read("/proc/sys/net/ipv4/tcp_wmem", v, 3) == 3 &&
        ab_proc_read("/proc/sys/net/ipv4/tcp_rmem", v + 3, 3) == 3) {
        limits->tcp_wmem_min_bytes = v[0];
        limits->tcp_wmem_default_bytes = v[1];
        limits->tcp_wmem_max_bytes = v[2];
        limits->tcp_rmem_min_bytes = v[3];
        limits->tcp_rmem_default_bytes = v[4];
        limits->tcp_rmem_max_bytes = v[5];
    } else {
        limits->flags |= AUTOBUF_LIMITS_ASSUMED;
    }
    if (ab_proc_read("/proc/sys/net/ipv4/tcp_mem", v, 3) == 3)
        limits->tcp_mem_bytes = ab_mul_div(v[1], limits->page_bytes, 1);
    else if (ab_proc_read_named("/proc/meminfo", "MemAvailable:", NULL, v))
        limits->tcp_mem_bytes = ab_mul_div(v[0], 1024, TCP_MEM_PART);
    read_flag("/proc/sys/net/ipv4/tcp_moderate_rcvbuf", AUTOBUF_LIMITS_RCV_AUTOTUNING, limits);
    read_flag("/proc/sys/net/ipv4/tcp_window_scaling", AUTOBUF_LIMITS_WINDOW_SCALING, limits);
}

/* Finds the largest value that an option takes on a scratch socket. */
static void find_settable(int scratch, int option, uint64_t *bytes)
{
    int value;

    if (ab_set_option(scratch, SOL_SOCKET, option, ABOVE_ANY_LIMIT) == 0 &&
        ab_get_int(scratch, SOL_SOCKET, option, &value) == 0 && value > 0)
        *bytes = (uint64_t)value / 2;
}

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
        uint64_t snd, rcv, bytes;

        (void)ab_socket_sizes(fd, &snd, &rcv); /* 0 and 0: no socket */
        bytes = ab_forced_of(snd, rcv, sum->snd_above_bytes, sum->rcv_above_bytes);
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

void ab_limits_forced(struct autobuf_limits *limits)
{
    uint64_t pages;

    limits->tcp_used_bytes = limits->forced_bytes = 0;
    if (!(limits->flags & AUTOBUF_LIMITS_FORCE) || !limits->tcp_mem_bytes)
        return;
    if (ab_proc_read_named("/proc/net/sockstat", "TCP:", "mem", &pages))
        limits->tcp_used_bytes = ab_mul_div(pages, limits->page_bytes ? limits->page_bytes : 4096, 1);
    if (!ab_forced_kept(&limits->forced_bytes))
        limits->forced_bytes = ab_forced_bytes(ab_unforced_sndbuf(limits), ab_unforced_rcvbuf(limits));
}

/*
 * The scratch socket decides: older kernels do not show [rw]mem_max inside a network namespace, though the limits
 * hold there.
 */
int ab_limits_refresh(struct autobuf_limits *limits)
{
    int fd = ab_socket_scratch(), locks;

    if (fd < 0)
        return fd;
    limits->flags &= ~(AUTOBUF_LIMITS_FORCE | AUTOBUF_LIMITS_NO_UNLOCK);
    if (ab_get_int(fd, SOL_SOCKET, SO_BUF_LOCK, &locks) < 0)
        limits->flags |= AUTOBUF_LIMITS_NO_UNLOCK;
    (void)ab_set_option(fd, SOL_SOCKET, SO_BUF_LOCK,
                        AUTOBUF_LOCK_SND | AUTOBUF_LOCK_RCV); /* or autobufd withholds what is small */
    find_settable(fd, SO_SNDBUF, &limits->snd_settable_bytes);
    find_settable(fd, SO_RCVBUF, &limits->rcv_settable_bytes);
    if (ab_set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, 65536) == 0)
        limits->flags |= AUTOBUF_LIMITS_FORCE;
    close(fd);
    return 0;
}

int ab_limits_read(struct autobuf_limits *limits)
{
    *limits = defaults;
    limits->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    read_proc(limits);
    return ab_limits_refresh(limits);
}

int autobuf_limits_host(struct autobuf_limits *limits)
{
    struct autobuf_limits found;
    int error;

    if (!limits)
        return -EINVAL;
    error = ab_limits_read(&found);
    if (error < 0)
        return error;
    ab_limits_forced(&found);
    return ab_struct_out(limits, &found, sizeof found) ? 0 : -EINVAL;
}

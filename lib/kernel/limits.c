/* SPDX-License-Identifier: MIT */
/* This host's limits. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/option.h"
#include "forced.h"
#include "limits.h"
#include "proc.h"
#include "socket.h"

#define ABOVE_ANY_LIMIT 0x3fffffff /* the kernel clamps it, then doubles */
#define TCP_MEM_PART 16 /* of memory: where memory pressure begins (tcp_init_mem()) */

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

void autobuf_limits_init(struct autobuf_limits *limits, uint32_t size)
{
    static const struct autobuf_limits fresh = AUTOBUF_LIMITS_INIT;

    ab_struct_init(limits, size, &fresh, sizeof fresh);
}

static void read_flag(const char *path, uint32_t flag, struct autobuf_limits *limits)
{
    uint64_t value;

    if (ab_proc_read(path, &value, 1) == 1)
        limits->flags = value ? limits->flags | flag : limits->flags & ~flag;
}

static void read_proc(struct autobuf_limits *limits)
{
    uint64_t v[3];

    ab_proc_read("/proc/sys/net/core/wmem_max", &limits->snd_settable_bytes, 1);
    ab_proc_read("/proc/sys/net/core/rmem_max", &limits->rcv_settable_bytes, 1);
    if (ab_proc_read("/proc/sys/net/ipv4/tcp_wmem", v, 3) == 3) {
        limits->tcp_wmem_min_bytes = v[0];
        limits->tcp_wmem_default_bytes = v[1];
        limits->tcp_wmem_max_bytes = v[2];
    } else {
        limits->flags |= AUTOBUF_LIMITS_ASSUMED;
    }
    if (ab_proc_read("/proc/sys/net/ipv4/tcp_rmem", v, 3) == 3) {
        limits->tcp_rmem_min_bytes = v[0];
        limits->tcp_rmem_default_bytes = v[1];
        limits->tcp_rmem_max_bytes = v[2];
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

/* The largest value that an option takes, found on a scratch socket; 0: unknown. */
static uint64_t settable_bytes(int scratch, int option)
{
    int value = ABOVE_ANY_LIMIT;

    if (setsockopt(scratch, SOL_SOCKET, option, &value, sizeof value) < 0 ||
        ab_get_int(scratch, SOL_SOCKET, option, &value) < 0 || value <= 0)
        return 0;
    return (uint64_t)value / 2;
}

void ab_limits_forced(struct autobuf_limits *limits)
{
    uint64_t pages;

    limits->tcp_used_bytes = limits->forced_bytes = 0;
    if (!(limits->flags & AUTOBUF_LIMITS_FORCE) || !limits->tcp_mem_bytes)
        return;
    if (ab_proc_read_named("/proc/net/sockstat", "TCP:", "mem", &pages))
        limits->tcp_used_bytes = ab_mul_div(pages, limits->page_bytes, 1);
    if (!ab_forced_kept(&limits->forced_bytes))
        limits->forced_bytes = ab_forced_bytes(ab_unforced_sndbuf(limits), ab_unforced_rcvbuf(limits));
}

/*
 * The scratch socket decides: older kernels do not show [rw]mem_max inside a network namespace, though the limits
 * hold there.
 */
int ab_limits_refresh(struct autobuf_limits *limits)
{
    int fd = ab_socket_scratch(), size = 65536, locks;
    uint64_t bytes;

    if (fd < 0)
        return fd;
    limits->flags &= ~(AUTOBUF_LIMITS_FORCE | AUTOBUF_LIMITS_NO_UNLOCK);
    if (ab_get_int(fd, SOL_SOCKET, SO_BUF_LOCK, &locks) < 0)
        limits->flags |= AUTOBUF_LIMITS_NO_UNLOCK;
    bytes = settable_bytes(fd, SO_SNDBUF);
    if (bytes)
        limits->snd_settable_bytes = bytes;
    bytes = settable_bytes(fd, SO_RCVBUF);
    if (bytes)
        limits->rcv_settable_bytes = bytes;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) == 0)
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

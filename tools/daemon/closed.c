/* SPDX-License-Identifier: MIT */
#include "closed.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include "../../lib/base/base.h"
#include "../netlink.h"

#define MESSAGE_BYTES 8192

int closed_open(void)
{
    struct sockaddr_nl group = {.nl_family = AF_NETLINK, /* the group is that of the socket, which may carry IPv4 */
                                .nl_groups = 1U << (SKNLGRP_INET_TCP_DESTROY - 1) | 1U << (SKNLGRP_INET6_TCP_DESTROY - 1)};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG), error;

    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&group, sizeof group) == 0)
        return fd;
    error = -errno;
    close(fd);
    return error;
}

/* Kernels know fewer fields than this program, or more. */
static struct learn_final final_of(const void *bytes, size_t count)
{
    struct tcp_info info = {0};

    memcpy(&info, bytes, count < sizeof info ? count : sizeof info);
    return (struct learn_final){
        .rtt_min_ns = info.tcpi_min_rtt == UINT32_MAX ? 0 : (uint64_t)info.tcpi_min_rtt * AB_NS_PER_US, /* not measured */
        .sent_bytes = info.tcpi_bytes_acked,
        .received_bytes = info.tcpi_bytes_received,
        .packets = {[LEARN_TX] = info.tcpi_delivered, [LEARN_RX] = info.tcpi_data_segs_in},
        .mss_bytes = {[LEARN_TX] = info.tcpi_snd_mss, [LEARN_RX] = info.tcpi_rcv_mss},
        .delivery_byte_per_s = info.tcpi_delivery_rate,
        .busy_ns = info.tcpi_busy_time * AB_NS_PER_US,
        .rwnd_limited_ns = info.tcpi_rwnd_limited * AB_NS_PER_US,
        .sndbuf_limited_ns = info.tcpi_sndbuf_limited * AB_NS_PER_US,
        .out_of_order = info.tcpi_rcv_ooopack,
        .app_limited = info.tcpi_delivery_rate_app_limited,
    };
}

int closed_read(int fd, struct learn_final *final)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
        return -errno;
    *final = final_of(&info, length);
    return 0;
}

static void take_message(const struct nlmsghdr *m, closed_fn *take, void *user)
{
    const struct rtattr *info;
    struct inet_diag_msg diag;
    struct learn_final final;

    if (m->nlmsg_type != SOCK_DIAG_BY_FAMILY || m->nlmsg_len < NLMSG_LENGTH(sizeof diag))
        return;
    memcpy(&diag, NLMSG_DATA(m), sizeof diag);
    info = netlink_attribute(m, sizeof diag, INET_DIAG_INFO);
    if (!info)
        return;
    final = final_of(RTA_DATA(info), RTA_PAYLOAD(info));
    take(user, (uint64_t)diag.id.idiag_cookie[1] << 32 | diag.id.idiag_cookie[0], &final);
}

unsigned closed_take(int fd, closed_fn *take, void *user)
{
    static _Alignas(struct nlmsghdr) char buf[MESSAGE_BYTES];
    unsigned count;

    for (count = 0; count < CLOSED_MOST; count++) {
        struct sockaddr_nl from = {0};
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(fd, buf, sizeof buf, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
        const struct nlmsghdr *m = (const struct nlmsghdr *)buf;
        size_t left = got > 0 ? (size_t)got : 0;

        if (got < 0 && (errno == ENOBUFS || errno == EINTR)) /* some were lost, and others are there */
            continue;
        if (got <= 0)
            break;
        for (; from.nl_pid == 0 && NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) /* only the kernel has this number */
            take_message(m, take, user);
    }
    return count;
}

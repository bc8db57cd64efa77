/* SPDX-License-Identifier: MIT */
#include "sweep.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include "../netlink.h"

#define ANSWER_BYTES 65536
#define PATIENCE_MS 1000
#define ESTABLISHED 1U /* enum in the kernel's net/tcp_states.h */
#define FIN_WAIT1 4U
#define FIN_WAIT2 5U
#define CLOSE_WAIT 8U
#define LAST_ACK 9U
#define LISTENS 10U
#define CLOSING 11U
#define HALF_CLOSED (1U << FIN_WAIT1 | 1U << FIN_WAIT2 | 1U << CLOSE_WAIT | 1U << LAST_ACK | 1U << CLOSING)
#define STATES (1U << ESTABLISHED | 1U << LISTENS | HALF_CLOSED)

int sweep_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);

    return fd < 0 ? -errno : fd;
}

/* 4 and 16 bytes of an address; what is mapped into IPv6 becomes IPv4 again. */
static struct endpoint endpoint_of(unsigned family, const void *address, uint16_t port)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool v4 = family == AF_INET, is_mapped = !v4 && memcmp(address, mapped, sizeof mapped) == 0;
    struct endpoint end = {.version = v4 || is_mapped ? 4 : 6, .port = ntohs(port)};

    memcpy(end.address, (const char *)address + (is_mapped ? sizeof mapped : 0), end.version == 4 ? 4 : 16);
    return end;
}

static void read_sizes(const struct nlmsghdr *m, struct seen *seen)
{
    const struct rtattr *a = netlink_attribute(m, sizeof(struct inet_diag_msg), INET_DIAG_SKMEMINFO);
    uint32_t memory[SK_MEMINFO_SNDBUF + 1];

    if (!a || RTA_PAYLOAD(a) < sizeof memory)
        return;
    memcpy(memory, RTA_DATA(a), sizeof memory);
    seen->snd_buf_bytes = memory[SK_MEMINFO_SNDBUF];
    seen->rcv_buf_bytes = memory[SK_MEMINFO_RCVBUF];
}

static void read_moved(const struct nlmsghdr *m, struct seen *seen)
{
    const struct rtattr *a = netlink_attribute(m, sizeof(struct inet_diag_msg), INET_DIAG_INFO);
    uint64_t moved[2]; /* acknowledged, received */

    if (!a || RTA_PAYLOAD(a) < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof moved)
        return;
    memcpy(moved, (const char *)RTA_DATA(a) + offsetof(struct tcp_info, tcpi_bytes_acked), sizeof moved);
    seen->moved_bytes = moved[0] + moved[1];
}

/* 0; 1: that was the last one; -errno. */
static int take_message(const struct nlmsghdr *m, sweep_fn *take, void *user)
{
    struct inet_diag_msg diag;
    struct seen seen = {0};
    int error;

    if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR) { /* either may say why there is no more */
        if (m->nlmsg_len < NLMSG_LENGTH(sizeof error))
            return m->nlmsg_type == NLMSG_DONE ? 1 : -EPROTO;
        memcpy(&error, NLMSG_DATA(m), sizeof error);
        return error < 0 ? (error == -ENOENT ? -EOPNOTSUPP : error) : 1;
    }
    if (m->nlmsg_type != SOCK_DIAG_BY_FAMILY || m->nlmsg_len < NLMSG_LENGTH(sizeof diag))
        return 0;
    memcpy(&diag, NLMSG_DATA(m), sizeof diag);
    seen.cookie = (uint64_t)diag.id.idiag_cookie[1] << 32 | diag.id.idiag_cookie[0];
    seen.inode = diag.idiag_inode;
    seen.user = diag.idiag_uid;
    seen.local = endpoint_of(diag.idiag_family, diag.id.idiag_src, diag.id.idiag_sport);
    if (diag.idiag_state != LISTENS)
        seen.remote = endpoint_of(diag.idiag_family, diag.id.idiag_dst, diag.id.idiag_dport);
    /* If only the peer has closed its side, the program may go on to send: as any other, as long as a program has it. */
    seen.half_closed = 1U << diag.idiag_state & HALF_CLOSED && !(diag.idiag_state == CLOSE_WAIT && seen.inode);
    read_sizes(m, &seen);
    read_moved(m, &seen);
    take(user, &seen);
    return 0;
}

static int ask(int fd, unsigned family)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct inet_diag_req_v2 *r;
    struct request request;

    r = netlink_begin(&request, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, sizeof *r);
    r->sdiag_family = (uint8_t)family;
    r->sdiag_protocol = IPPROTO_TCP;
    r->idiag_ext = 1U << (INET_DIAG_INFO - 1) | 1U << (INET_DIAG_SKMEMINFO - 1);
    r->idiag_states = STATES;
    if (sendto(fd, &request, request.header.nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
        return -errno;
    return 0;
}

/* One datagram of the answer. The kernel answers within the call that asks for more. */
static ssize_t next_part(int fd, void *buf, size_t bytes)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    struct sockaddr_nl from;
    ssize_t got;

    do {
        socklen_t len = sizeof from;

        got = recvfrom(fd, buf, bytes, 0, (struct sockaddr *)&from, &len);
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (got < 0 && errno == EAGAIN && poll(&ready, 1, PATIENCE_MS) == 0)
            return -ETIMEDOUT;
    } while (got < 0 || from.nl_pid != 0); /* only the kernel has this number */
    return got;
}

static int sweep_family(int fd, unsigned family, sweep_fn *take, void *user)
{
    static _Alignas(struct nlmsghdr) char buf[ANSWER_BYTES];
    int result = ask(fd, family);

    while (result == 0) {
        ssize_t got = next_part(fd, buf, sizeof buf);
        const struct nlmsghdr *m = (const struct nlmsghdr *)buf;
        size_t left = got > 0 ? (size_t)got : 0;

        if (got <= 0)
            return got < 0 ? (int)got : -EPROTO;
        for (; result == 0 && NLMSG_OK(m, left); m = NLMSG_NEXT(m, left))
            result = take_message(m, take, user);
    }
    return result < 0 ? result : 0;
}

int sweep(int fd, sweep_fn *take, void *user)
{
    int error = sweep_family(fd, AF_INET, take, user);

    return error < 0 ? error : sweep_family(fd, AF_INET6, take, user);
}

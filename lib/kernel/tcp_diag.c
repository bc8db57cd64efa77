/* SPDX-License-Identifier: MIT */
#include "tcp_diag.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/sock_diag.h>

#include "netlink.h"

#define ANSWERS_BYTES 32768U /* the kernel puts no more into one answer */
#define HEAD_BYTES ab_netlink_aligned(sizeof(struct inet_diag_msg))

int ab_tcp_diag_parse(const uint8_t *body, size_t len, struct ab_tcp_diag *parsed)
{
    uint32_t memory[SK_MEMINFO_SNDBUF + 1];
    const uint8_t *sizes;

    *parsed = (struct ab_tcp_diag){.cookie = 0};
    if (len < HEAD_BYTES)
        return -EPROTO;
    memcpy(&parsed->socket, body, sizeof parsed->socket);
    parsed->cookie = (uint64_t)parsed->socket.id.idiag_cookie[1] << 32 | parsed->socket.id.idiag_cookie[0];
    parsed->info = ab_netlink_attribute(body + HEAD_BYTES, len - HEAD_BYTES, INET_DIAG_INFO, 0, &parsed->info_bytes);
    sizes = ab_netlink_attribute(body + HEAD_BYTES, len - HEAD_BYTES, INET_DIAG_SKMEMINFO, sizeof memory, NULL);
    if (sizes) {
        memcpy(memory, sizes, sizeof memory);
        parsed->snd_buf_bytes = memory[SK_MEMINFO_SNDBUF];
        parsed->rcv_buf_bytes = memory[SK_MEMINFO_RCVBUF];
    }
    return 0;
}

struct listener {
    ab_tcp_diag_fn *each;
    void *user;
};

static void pass_socket(void *user, const uint8_t *body, size_t len)
{
    const struct listener *listener = user;
    struct ab_tcp_diag parsed;

    if (ab_tcp_diag_parse(body, len, &parsed) == 0)
        listener->each(listener->user, &parsed);
}

int ab_tcp_diag_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);

    return fd < 0 ? -errno : fd;
}

int ab_tcp_diag_list(int fd, uint32_t states, uint8_t extensions, unsigned max_reads, ab_tcp_diag_fn *each, void *user)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } ask = {.header = {.nlmsg_len = sizeof ask, .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
             .body = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_ext = extensions,
                      .idiag_states = states}};
    struct listener listener = {each, user};
    int result =
        ab_netlink_talk(fd, &ask, sizeof ask, ANSWERS_BYTES, max_reads, SOCK_DIAG_BY_FAMILY, pass_socket, &listener);

    if (result == -ENOENT)
        result = -EOPNOTSUPP;
    ask.body.sdiag_family = AF_INET6;
    if (result == 1)
        result = ab_netlink_talk(fd, &ask, sizeof ask, ANSWERS_BYTES, max_reads, SOCK_DIAG_BY_FAMILY, pass_socket,
                                 &listener);
    return result == 1 || result == -ENOENT ? 0 : result; /* -ENOENT: no IPv6 here */
}

int ab_tcp_diag_open_ended(void)
{
    struct sockaddr_nl group = {.nl_family = AF_NETLINK, /* the group is that of the socket, which may carry IPv4 */
                                .nl_groups = 1U << (SKNLGRP_INET_TCP_DESTROY - 1) |
                                              1U << (SKNLGRP_INET6_TCP_DESTROY - 1)};
    int fd = ab_tcp_diag_open(), error;

    if (fd < 0 || bind(fd, (struct sockaddr *)&group, sizeof group) == 0)
        return fd;
    error = -errno;
    close(fd);
    return error;
}

unsigned ab_tcp_diag_ended(int fd, unsigned most, ab_tcp_diag_fn *each, void *user)
{
    struct listener listener = {each, user};
    uint8_t *answers = calloc(1, ANSWERS_BYTES);
    unsigned count = 0;

    for (; answers && count < most; count++) {
        ssize_t got = ab_netlink_receive(fd, answers, ANSWERS_BYTES);

        if (got <= 0 && got != -ENOBUFS) /* overflow: others are left */
            break;
        if (got > 0)
            (void)ab_netlink_parse(answers, (size_t)got, SOCK_DIAG_BY_FAMILY, pass_socket, &listener);
    }
    free(answers);
    return count;
}

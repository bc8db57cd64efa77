/* SPDX-License-Identifier: MIT */
#include "netlink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define ANSWERS_BYTES 8192U /* as much as the kernel puts in one answer to a reader that asks for no more */

/* Netlink's own macros take pointers into the answer, which need not be aligned for them. */
/* A dump that fails ends, too, and says why. */
static int ended(const uint8_t *payload)
{
    int32_t error;

    memcpy(&error, payload, sizeof error);
    return error < 0 ? error : 1;
}

int ab_netlink_parse(const void *answers, size_t len, uint16_t type, ab_netlink_fn *each, void *user)
{
    const uint8_t *bytes = answers;
    size_t head = ab_netlink_aligned(sizeof(struct nlmsghdr));
    struct nlmsghdr h;
    int32_t error;

    for (size_t at = 0; at < len; at += ab_netlink_aligned(h.nlmsg_len)) {
        if (at + sizeof h > len)
            return -EPROTO;
        memcpy(&h, bytes + at, sizeof h);
        if (h.nlmsg_len < sizeof h || h.nlmsg_len > len - at || h.nlmsg_type == NLMSG_ERROR)
            return -EPROTO;
        if (h.nlmsg_type == NLMSG_DONE)
            return h.nlmsg_len >= head + sizeof error ? ended(bytes + at + head) : 1;
        if (h.nlmsg_type == type && h.nlmsg_len >= head)
            each(user, bytes + at + head, h.nlmsg_len - head);
    }
    return 0;
}

const uint8_t *ab_netlink_attribute(const uint8_t *attributes, size_t len, uint16_t type,
                                    size_t least_bytes)
{
    struct rtattr a;

    for (size_t at = 0; at + sizeof a <= len; at += ab_netlink_aligned(a.rta_len)) {
        memcpy(&a, attributes + at, sizeof a);
        if (a.rta_len < sizeof a || at + a.rta_len > len)
            return NULL;
        if (a.rta_type == type && a.rta_len >= sizeof a + least_bytes)
            return attributes + at + sizeof a;
    }
    return NULL;
}

int ab_netlink_ask(int protocol, const void *request, size_t len, unsigned most_reads, uint16_t type,
                   ab_netlink_fn *each, void *user)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, protocol), result;
    uint8_t *answers; /* too large for the stack of a thread or of a signal handler */

    if (fd < 0)
        return -errno;
    answers = calloc(1, ANSWERS_BYTES);
    result = !answers ? -ENOMEM : send(fd, request, len, MSG_DONTWAIT) < 0 ? -errno : 0;
    for (unsigned i = 0; result == 0 && i < most_reads; i++) { /* the kernel answers at once */
        ssize_t got = recv(fd, answers, ANSWERS_BYTES, MSG_DONTWAIT);

        result = got < 0 ? -errno : ab_netlink_parse(answers, (size_t)got, type, each, user);
    }
    free(answers);
    close(fd);
    return result == 0 ? -E2BIG : result;
}

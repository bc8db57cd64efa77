/* SPDX-License-Identifier: MIT */
#include "netlink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define ANSWERS_BYTES 8192U /* largest answer to such a read */

/* The error at the end of a dump. otherwise: without one. */
static int ended(const uint8_t *payload, size_t bytes, int otherwise)
{
    int32_t error = 0;

    if (bytes >= sizeof error)
        memcpy(&error, payload, sizeof error);
    return error < 0 ? error : otherwise;
}

/* Without Netlink's macros: pointers into the answer may be unaligned. */
int ab_netlink_parse(const void *answers, size_t len, uint16_t type, ab_netlink_fn *each, void *user)
{
    const uint8_t *bytes = answers;
    size_t head = ab_netlink_aligned(sizeof(struct nlmsghdr));
    struct nlmsghdr h;

    for (size_t at = 0; at < len; at += ab_netlink_aligned(h.nlmsg_len)) {
        if (at + sizeof h > len)
            return -EPROTO;
        memcpy(&h, bytes + at, sizeof h);
        if (h.nlmsg_len < sizeof h || h.nlmsg_len > len - at)
            return -EPROTO;
        if (h.nlmsg_type == NLMSG_ERROR || h.nlmsg_type == NLMSG_DONE)
            return ended(bytes + at + head, h.nlmsg_len - head, h.nlmsg_type == NLMSG_DONE ? 1 : -EPROTO);
        if (h.nlmsg_type == type && h.nlmsg_len >= head)
            each(user, bytes + at + head, h.nlmsg_len - head);
    }
    return 0;
}

const uint8_t *ab_netlink_attribute(const uint8_t *attributes, size_t len, uint16_t type, size_t min_bytes,
                                    size_t *bytes)
{
    struct rtattr a;

    for (size_t at = 0; at + sizeof a <= len; at += ab_netlink_aligned(a.rta_len)) {
        memcpy(&a, attributes + at, sizeof a);
        if (a.rta_len < sizeof a || at + a.rta_len > len)
            return NULL;
        if ((a.rta_type & NLA_TYPE_MASK) != type || a.rta_len < sizeof a + min_bytes)
            continue;
        if (bytes)
            *bytes = a.rta_len - sizeof a;
        return attributes + at + sizeof a;
    }
    return NULL;
}

void ab_netlink_number(const uint8_t *attributes, size_t len, uint16_t type, uint32_t *number)
{
    const uint8_t *found = ab_netlink_attribute(attributes, len, type, sizeof *number, NULL);

    if (found)
        memcpy(number, found, sizeof *number);
}

ssize_t ab_netlink_receive(int fd, void *answers, size_t room)
{
    struct sockaddr_nl from = {.nl_pid = 0};
    ssize_t got;

    do {
        socklen_t len = sizeof from;

        got = recvfrom(fd, answers, room, MSG_DONTWAIT, (struct sockaddr *)&from, &len);
    } while (got < 0 ? errno == EINTR : from.nl_pid != 0); /* only the kernel has this number */
    return got < 0 ? -errno : got;
}

int ab_netlink_talk(int fd, const void *request, size_t len, size_t room, unsigned max_reads, uint16_t type,
                    ab_netlink_fn *each, void *user)
{
    void *answers = calloc(1, room); /* too large for the stack of a thread or of a signal handler */
    int result = !answers ? -ENOMEM : send(fd, request, len, MSG_DONTWAIT) < 0 ? -errno : 0;

    for (unsigned i = 0; result == 0 && i < max_reads; i++) { /* the kernel answers at once */
        ssize_t got = ab_netlink_receive(fd, answers, room);

        result = got < 0 ? (int)got : ab_netlink_parse(answers, (size_t)got, type, each, user);
    }
    free(answers);
    return result == 0 ? -E2BIG : result;
}

int ab_netlink_ask(int protocol, const void *request, size_t len, unsigned max_reads, uint16_t type,
                   ab_netlink_fn *each, void *user)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, protocol), result;

    if (fd < 0)
        return -errno;
    result = ab_netlink_talk(fd, request, len, ANSWERS_BYTES, max_reads, type, each, user);
    close(fd);
    return result;
}

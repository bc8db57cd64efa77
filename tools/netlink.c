/* SPDX-License-Identifier: MIT */
#include "netlink.h"

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define MESSAGE_BYTES 32768
#define MESSAGES_MOST 64 /* reads of one answer: a host has no more queueing disciplines */

void *netlink_begin(struct request *r, uint16_t type, uint16_t flags, size_t bytes)
{
    memset(r, 0, sizeof *r);
    r->header.nlmsg_type = type;
    r->header.nlmsg_flags = NLM_F_REQUEST | flags;
    r->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(bytes);
    return NLMSG_DATA(&r->header);
}

void netlink_add(struct request *r, uint16_t type, const void *data, size_t bytes)
{
    struct rtattr *a = (struct rtattr *)((char *)r + NLMSG_ALIGN(r->header.nlmsg_len));

    a->rta_type = type;
    a->rta_len = (uint16_t)RTA_LENGTH(bytes);
    memcpy(RTA_DATA(a), data, bytes);
    r->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->header.nlmsg_len) + RTA_SPACE(bytes));
}

/* The attribute of a type among left bytes of attributes; NULL: none. */
static const struct rtattr *attribute_among(const void *attributes, size_t left, unsigned type)
{
    const char *at = attributes;

    while (left >= sizeof(struct rtattr)) {
        const struct rtattr *a = (const struct rtattr *)at;
        size_t bytes = RTA_ALIGN(a->rta_len);

        if (a->rta_len < sizeof *a || a->rta_len > left)
            break;
        if ((a->rta_type & NLA_TYPE_MASK) == type)
            return a;
        at += bytes;
        left -= bytes < left ? bytes : left;
    }
    return NULL;
}

const struct rtattr *netlink_attribute(const struct nlmsghdr *m, size_t skip, unsigned type)
{
    size_t begin = NLMSG_LENGTH(NLMSG_ALIGN(skip));

    return attribute_among((const char *)m + begin, m->nlmsg_len > begin ? m->nlmsg_len - begin : 0,
                           type);
}

const struct rtattr *netlink_nested(const struct rtattr *nest, unsigned type)
{
    return attribute_among(RTA_DATA(nest), RTA_PAYLOAD(nest), type);
}

void netlink_ask(int protocol, const struct request *r, netlink_take_fn *take, void *out)
{
    static _Alignas(struct nlmsghdr) char buf[MESSAGE_BYTES];
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct timeval patience = {1, 0};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    bool more = fd >= 0;

    if (more)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    more = more && sendto(fd, r, r->header.nlmsg_len, 0, (struct sockaddr *)&kernel,
                          sizeof kernel) >= 0;
    for (int i = 0; more && i < MESSAGES_MOST; i++) {
        ssize_t got = recv(fd, buf, sizeof buf, 0);
        const struct nlmsghdr *m = (const struct nlmsghdr *)buf;
        size_t left = got > 0 ? (size_t)got : 0;

        more = got > 0;
        for (; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
            if (m->nlmsg_type == NLMSG_ERROR || m->nlmsg_type == NLMSG_DONE)
                more = false;
            else
                take(m, out);
            more = more && m->nlmsg_flags & NLM_F_MULTI;
        }
    }
    if (fd >= 0)
        close(fd);
}

void netlink_number(const struct rtattr *a, int64_t *value)
{
    uint32_t number;

    if (!a || RTA_PAYLOAD(a) < sizeof number)
        return;
    memcpy(&number, RTA_DATA(a), sizeof number);
    *value = number;
}

/* SPDX-License-Identifier: MIT */
#include "qdisc.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define ANSWERS_BYTES 32768U
#define ANSWERS_MOST 64U /* reads */

/* Netlink's own macros take pointers into the answer, which need not be aligned for them. */
static size_t aligned4(size_t len)
{
    return (len + 3) & ~(size_t)3;
}

static bool names_fq(const uint8_t *attributes, size_t len)
{
    struct rtattr a;

    for (size_t at = 0; at + sizeof a <= len; at += aligned4(a.rta_len)) {
        memcpy(&a, attributes + at, sizeof a);
        if (a.rta_len < sizeof a || at + a.rta_len > len)
            return false;
        if (a.rta_type == TCA_KIND && a.rta_len >= sizeof a + sizeof "fq" &&
            memcmp(attributes + at + sizeof a, "fq", sizeof "fq") == 0)
            return true;
    }
    return false;
}

int ab_qdisc_parse(const void *answers, size_t len, bool *paces)
{
    const uint8_t *bytes = answers;
    size_t head = aligned4(sizeof(struct nlmsghdr)) + aligned4(sizeof(struct tcmsg));
    struct nlmsghdr h;

    for (size_t at = 0; at < len; at += aligned4(h.nlmsg_len)) {
        if (at + sizeof h > len)
            return -EPROTO;
        memcpy(&h, bytes + at, sizeof h);
        if (h.nlmsg_len < sizeof h || at + h.nlmsg_len > len || h.nlmsg_type == NLMSG_ERROR)
            return -EPROTO;
        if (h.nlmsg_type == NLMSG_DONE)
            return 1;
        if (h.nlmsg_type == RTM_NEWQDISC && h.nlmsg_len >= head)
            *paces |= names_fq(bytes + at + head, h.nlmsg_len - head);
    }
    return 0;
}

static int ask_for_qdiscs(int fd)
{
    struct {
        struct nlmsghdr header;
        struct tcmsg body;
    } ask = {.header = {.nlmsg_len = sizeof ask,
                        .nlmsg_type = RTM_GETQDISC,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
             .body = {.tcm_family = AF_UNSPEC}};

    return send(fd, &ask, sizeof ask, MSG_DONTWAIT) < 0 ? -errno : 0;
}

int ab_qdisc_paces(void)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE);
    uint8_t answers[ANSWERS_BYTES];
    bool paces = false;
    int result;

    if (fd < 0)
        return -errno;
    result = ask_for_qdiscs(fd);
    for (unsigned i = 0; result == 0 && i < ANSWERS_MOST; i++) { /* the kernel answers at once */
        ssize_t got = recv(fd, answers, sizeof answers, MSG_DONTWAIT);

        result = got < 0 ? -errno : ab_qdisc_parse(answers, (size_t)got, &paces);
    }
    close(fd);
    if (result == 0)
        return -EPROTO;
    return result < 0 ? result : paces;
}

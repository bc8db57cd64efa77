/* SPDX-License-Identifier: MIT */
#include "qdisc.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "netlink.h"

#define READS_MAX 256U

void ab_qdisc_note_fq(void *user, const uint8_t *body, size_t len)
{
    bool *paces = user;
    size_t head = ab_netlink_aligned(sizeof(struct tcmsg));
    const uint8_t *kind = len < head ? NULL
                                     : ab_netlink_attribute(body + head, len - head, TCA_KIND, sizeof "fq", NULL);

    *paces |= kind && memcmp(kind, "fq", sizeof "fq") == 0;
}

int ab_qdisc_has_fq(void)
{
    struct {
        struct nlmsghdr header;
        struct tcmsg body;
    } ask = {.header = {.nlmsg_len = sizeof ask,
                        .nlmsg_type = RTM_GETQDISC,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
             .body = {.tcm_family = AF_UNSPEC}};
    bool paces = false;
    int result = ab_netlink_ask(NETLINK_ROUTE, &ask, sizeof ask, READS_MAX, RTM_NEWQDISC, ab_qdisc_note_fq,
                                &paces);

    return result < 0 ? result : paces;
}

/* SPDX-License-Identifier: MIT */
#include "rtnetlink.h"

#include <errno.h>
#include <string.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "../base/address.h"
#include "netlink.h"

#define READS_MAX 256U

void ab_route_note(void *user, const uint8_t *body, size_t len)
{
    size_t head = ab_netlink_aligned(sizeof(struct rtmsg)), left, metrics_bytes, name_bytes;
    struct ab_route *route = user;
    const uint8_t *found, *metrics, *name;
    struct rtmsg message;

    if (len < head)
        return;
    memcpy(&message, body, sizeof message);
    if (message.rtm_family != AF_INET && message.rtm_family != AF_INET6)
        return;
    left = len - head;
    route->family = message.rtm_family;
    ab_netlink_number(body + head, left, RTA_OIF, &route->device);
    metrics = ab_netlink_attribute(body + head, left, RTA_METRICS, 0, &metrics_bytes);
    if (metrics) {
        ab_netlink_number(metrics, metrics_bytes, RTAX_WINDOW, &route->window_bytes);
        ab_netlink_number(metrics, metrics_bytes, RTAX_CWND, &route->cwnd_packets);
        name = ab_netlink_attribute(metrics, metrics_bytes, RTAX_CC_ALGO, 1, &name_bytes);
        if (name && name_bytes < sizeof route->congestion_control)
            memcpy(route->congestion_control, name, name_bytes);
    }
    route->source_bytes = route->family == AF_INET ? 4 : 16;
    found = ab_netlink_attribute(body + head, left, RTA_PREFSRC, route->source_bytes, NULL);
    if (found)
        memcpy(route->source, found, route->source_bytes);
    else
        route->source_bytes = 0;
}

struct question {
    struct nlmsghdr header;
    struct rtmsg body;
    uint8_t attributes[64]; /* for two addresses and an index */
};

static void add_attribute(struct question *ask, unsigned short type, const void *value, size_t bytes)
{
    struct rtattr head = {.rta_len = (unsigned short)(sizeof head + bytes), .rta_type = type};
    uint8_t *at = (uint8_t *)ask + ask->header.nlmsg_len;

    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, value, bytes);
    ask->header.nlmsg_len += (uint32_t)(sizeof head + bytes); /* addresses and indices are aligned by themselves */
}

/* Returns its length in bytes. */
static size_t add_address(struct question *ask, unsigned short type, const struct sockaddr_storage *address)
{
    size_t bytes;
    const void *value = ab_address_bytes(address, &bytes);

    add_attribute(ask, type, value, bytes);
    return bytes;
}

int ab_route_to(const struct sockaddr_storage *peer, const struct sockaddr_storage *source, uint32_t device,
                struct ab_route *route)
{
    struct question ask = {.header = {.nlmsg_len = offsetof(struct question, attributes), .nlmsg_type = RTM_GETROUTE,
                                      .nlmsg_flags = NLM_F_REQUEST},
                           .body = {.rtm_family = (unsigned char)peer->ss_family}};
    int result;

    *route = (struct ab_route){.family = AF_UNSPEC};
    ask.body.rtm_dst_len = (unsigned char)(8 * add_address(&ask, RTA_DST, peer));
    if (source && source->ss_family == peer->ss_family)
        ask.body.rtm_src_len = (unsigned char)(8 * add_address(&ask, RTA_SRC, source));
    if (device)
        add_attribute(&ask, RTA_OIF, &device, sizeof device);
    /* One answer, without NLMSG_DONE. */
    result = ab_netlink_ask(NETLINK_ROUTE, &ask, ask.header.nlmsg_len, 1, RTM_NEWROUTE, ab_route_note, route);
    if (route->family != AF_UNSPEC)
        return 0;
    return result < 0 && result != -E2BIG ? result : -ENETUNREACH;
}

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
    int result = ab_netlink_ask(NETLINK_ROUTE, &ask, sizeof ask, READS_MAX, RTM_NEWQDISC, ab_qdisc_note_fq, &paces);

    return result < 0 ? result : paces;
}

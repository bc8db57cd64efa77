/* SPDX-License-Identifier: MIT */
#include "route.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "netlink.h"

void ab_route_note(void *user, const uint8_t *body, size_t len)
{
    size_t head = ab_netlink_aligned(sizeof(struct rtmsg)), left, metrics_bytes;
    struct ab_route *route = user;
    const uint8_t *found, *metrics;
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
    }
    route->source_bytes = route->family == AF_INET ? 4 : 16;
    found = ab_netlink_attribute(body + head, left, RTA_PREFSRC, route->source_bytes, NULL);
    if (found)
        memcpy(route->source, found, route->source_bytes);
    else
        route->source_bytes = 0;
}

int ab_route_to(const struct sockaddr_storage *peer, uint32_t device, struct ab_route *route)
{
    struct {
        struct nlmsghdr header;
        struct rtmsg body;
        struct rtattr of_device;
        uint32_t device;
        struct rtattr of_address;
        uint8_t address[16];
    } ask = {.header = {.nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST},
             .body = {.rtm_family = (unsigned char)peer->ss_family},
             .of_device = {.rta_len = sizeof ask.of_device + sizeof ask.device, .rta_type = RTA_OIF},
             .device = device, /* 0 is as without it */
             .of_address = {.rta_type = RTA_DST}};
    size_t bytes = peer->ss_family == AF_INET ? 4 : 16;
    int result;

    *route = (struct ab_route){.family = AF_UNSPEC};
    if (peer->ss_family == AF_INET)
        memcpy(ask.address, &((const struct sockaddr_in *)peer)->sin_addr, bytes);
    else
        memcpy(ask.address, &((const struct sockaddr_in6 *)peer)->sin6_addr, bytes);
    ask.body.rtm_dst_len = (unsigned char)(8 * bytes);
    ask.of_address.rta_len = (unsigned short)(sizeof ask.of_address + bytes);
    ask.header.nlmsg_len = (uint32_t)(sizeof ask - sizeof ask.address + bytes);
    /* One answer, which no end of a list follows. */
    result = ab_netlink_ask(NETLINK_ROUTE, &ask, ask.header.nlmsg_len, 1, RTM_NEWROUTE, ab_route_note, route);
    if (route->family != AF_UNSPEC)
        return 0;
    return result < 0 && result != -E2BIG ? result : -ENETUNREACH;
}

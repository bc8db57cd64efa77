/* SPDX-License-Identifier: MIT */
/* The route of this host to a peer. */
#ifndef AB_ROUTE_H
#define AB_ROUTE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct ab_route {
    uint32_t family;
    uint8_t source[16];   /* network byte order; IPv4 in the first four */
    uint32_t source_bytes; /* 4 or 16; 0: unknown */
    uint32_t device;      /* index of the interface; 0: unknown */
    uint32_t window_bytes; /* "window" of ip-route(8); 0: not set */
    uint32_t cwnd_packets;
};

/* An ab_netlink_fn() for the answer to RTM_GETROUTE (rtnetlink(7)): fills the struct ab_route at user. */
void ab_route_note(void *user, const uint8_t *body, size_t len);

/*
 * Asks the kernel; sends nothing. source: the address that a socket is bound to, or NULL; device: the index of its
 * interface, 0: any. Returns 0; -ENETUNREACH: there is no route; or an error of ab_netlink_ask().
 */
int ab_route_to(const struct sockaddr_storage *peer, const struct sockaddr_storage *source, uint32_t device,
                struct ab_route *route);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * rtnetlink(7): the route of this host to a peer, and whether this host paces TCP. The queueing discipline fq does, at
 * the rate that each socket computes (sch_fq.c), and no socket option shows it.
 */
#ifndef AB_RTNETLINK_H
#define AB_RTNETLINK_H

#include <stdbool.h>
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
    char congestion_control[16]; /* "congctl"; "": not set */
};

/* An ab_netlink_fn() for the answer to RTM_GETROUTE: fills the struct ab_route at user. */
void ab_route_note(void *user, const uint8_t *body, size_t len);

/*
 * Asks the kernel; sends nothing. source: the address that a socket is bound to, or NULL; device: the index of its
 * interface, 0: any. Returns 0; -ENETUNREACH: there is no route; or an error of ab_netlink_ask().
 */
int ab_route_to(const struct sockaddr_storage *peer, const struct sockaddr_storage *source, uint32_t device,
                struct ab_route *route);

/* An ab_netlink_fn() for answers to RTM_GETQDISC: the bool at user becomes true if one names fq. */
void ab_qdisc_note_fq(void *user, const uint8_t *body, size_t len);

/* Returns 1: a device of this network namespace has fq; 0: none has; or an errno of socket(2), send(2) or recv(2). */
int ab_qdisc_has_fq(void);

#endif

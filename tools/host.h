/* SPDX-License-Identifier: MIT */
/* What may limit a transfer on this host, apart from its buffer limits. */
#ifndef HOST_H
#define HOST_H

#include <stdint.h>
#include <sys/socket.h>

#define UNKNOWN (-1)

struct host_facts {
    int64_t sack;                  /* net.ipv4.tcp_sack; UNKNOWN where it cannot be read */
    int64_t slow_start_after_idle; /* net.ipv4.tcp_slow_start_after_idle */
    int64_t tcp_used_bytes;        /* memory of all TCP sockets now */
    int64_t queue_packets;         /* txqueuelen of the device towards the peer */
    int64_t queue_drops;           /* packets that its qdisc has dropped since it was set up */
    int64_t ssthresh_packets;      /* remembered of earlier connections to the peer (tcp_metrics) */
    char device[16];               /* "": unknown, or no peer */
    char qdisc[16];
    char peer[64];                 /* numeric */
};

/*
 * Reads these facts and sends nothing. peer: an IPv4 or IPv6 address, or NULL. A fact that cannot be read stays
 * UNKNOWN or "".
 */
void host_read(const struct sockaddr *peer, socklen_t peer_len, struct host_facts *facts);

#endif

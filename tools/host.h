/* SPDX-License-Identifier: MIT */
/* What may limit a transfer on this host, apart from its buffer limits. */
#ifndef HOST_H
#define HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "resolve.h"

#define UNKNOWN (-1)

/* A file that sets a size that autotuning may reach. */
struct setting {
    char file[128];      /* "": none is known */
    int64_t third_bytes; /* the last of its three values */
};

struct host_facts {
    int64_t mtu_probing;           /* net.ipv4.tcp_mtu_probing; UNKNOWN, as all below, where it cannot be read */
    int64_t sack;                  /* net.ipv4.tcp_sack; UNKNOWN where it cannot be read */
    int64_t slow_start_after_idle; /* net.ipv4.tcp_slow_start_after_idle */
    int64_t tcp_used_bytes;        /* memory of all TCP sockets now */
    int64_t queue_packets;         /* txqueuelen of the device towards the peer */
    int64_t queue_drops;           /* packets that its qdisc has dropped since it was set up */
    int64_t ssthresh_packets;      /* remembered of earlier connections to the peer (tcp_metrics) */
    int64_t route_window_bytes;    /* of the route to the peer: what limits the window that is offered; UNKNOWN: none */
    int64_t route_cwnd_packets;    /* what limits the congestion window; UNKNOWN: none */
    int64_t segmentation_offload;  /* of the device: 0 if neither TSO nor GSO is on */
    int64_t receive_offload;       /* 0 if GRO is not on */
    int64_t memory_bytes;          /* of this host */
    int64_t tcp_mem_bytes;         /* net.ipv4.tcp_mem, second value; UNKNOWN also in a container */
    bool inner_namespace;          /* not the host's first network namespace: a container's */
    char kernel[48];               /* "6.18.44-amd64" */
    char congestion_control[16];   /* of the route to the peer, or else of the host; "": unknown */
    char device[16];               /* "": unknown, or no peer */
    char qdisc[16];
    char peer[64];                 /* numeric */
    struct setting tcp_wmem;       /* files of sysctl.d(5) that set what holds now */
    struct setting tcp_rmem;
};

/*
 * Reads these facts and sends nothing. peer: an IPv4 or IPv6 address, or NULL; its route is that of a socket which is
 * bound to source. A fact that cannot be read stays UNKNOWN or "".
 */
void host_read(const struct sockaddr *peer, socklen_t peer_len, const struct source *source, struct host_facts *facts);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/bwdelay.h>: the classic calls alone.
 *
 *     int64_t bytes = bwdelay("mirror.example.org");
 *     int fd = socket(AF_INET, SOCK_STREAM, 0);
 *     if (bytes > 0)
 *         bwdelay_apply(fd, bytes);
 *     connect(fd, ...);
 *
 * Never hand the number of bwdelay() to setsockopt() yourself: on today's kernels that switches
 * autotuning off and makes most transfers slower. bwdelay_apply() knows when setting helps.
 */
#ifndef AUTOBUF_BWDELAY_H
#define AUTOBUF_BWDELAY_H

#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Bandwidth-delay product of the path to host: how many bytes of TCP payload it holds, so how
 * large a window must be that keeps it busy. Sends a short train of ICMP echoes: at most 64 KB on
 * paths of 100 Mbit/s and below, at most 1 MB ever.
 *
 * host: a name or a numeric address. Only this call resolves names; the time that takes is the
 * resolver's own. The measurement takes a few round trips: at most 1 s plus two round trips, and at
 * most 2 s, whatever happens.
 *
 * Returns the product in bytes, above 0, or
 *   AUTOBUF_E_RESOLVE   the name has no address
 *   -EACCES             neither ping sockets (net.ipv4.ping_group_range) nor raw sockets
 *                       (CAP_NET_RAW: setcap cap_net_raw+ep PROGRAM) are permitted
 *   AUTOBUF_E_NOREPLY   nothing answered: the host is away, or ICMP is filtered
 *   AUTOBUF_E_FEW       too few answers for a rate
 *   AUTOBUF_E_OFF       AUTOBUF=off is in the environment
 *   another negative errno of socket(2), connect(2) or send(2), such as -ENETUNREACH
 * autobuf_strerror() tells each in words.
 *
 * Source: NLANR/DAST, "Automatic TCP Window Tuning and Applications" (Autobuf, 2001); how the rate
 * is found is described at autobuf_probe_open().
 */
AUTOBUF_API int64_t bwdelay(const char *host);

/* The same for an IPv4 or IPv6 address; the port is ignored. -EAFNOSUPPORT: another family. */
AUTOBUF_API int64_t bwdelay_addr(const struct sockaddr *addr, socklen_t addr_len);

/*
 * Decides what a TCP socket needs for a product of that many payload bytes on this host, sets it,
 * and leaves alone what the kernel does better. Best before connect() or listen(); afterwards the
 * receive side can be helped only as far as its window scale, fixed in the SYN, allows.
 *
 * Returns 0: left alone (autotuning reaches the product, or setting cannot give more);
 *         1: a buffer was set, or given back to autotuning;
 *         -EINVAL: bytes is not above 0; -EBADF, -ENOTSOCK, -EOPNOTSUPP: not a TCP socket;
 *         another negative errno of setsockopt(2). On failure the socket is as it was.
 */
AUTOBUF_API int bwdelay_apply(int fd, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif

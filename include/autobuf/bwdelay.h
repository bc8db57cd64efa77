/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/bwdelay.h>: the classic calls, without the rest of the library.
 *
 *     int64_t bytes = bwdelay("mirror.example.org");
 *     int fd = socket(AF_INET, SOCK_STREAM, 0);
 *     if (bytes > 0)
 *         bwdelay_apply(fd, bytes);
 *     connect(fd, ...);
 *
 * Do not hand the number of bwdelay() to setsockopt() yourself: that switches the kernel's autotuning off, and
 * makes most transfers slower. bwdelay_apply() sets a buffer only where that helps.
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
 * Measures the path to host and returns its bandwidth-delay product: how many bytes of TCP payload the path
 * holds, and so how large a window must be to keep it busy. It sends short trains of ICMP echoes: as a rule at most
 * 64 KB on a path of up to 100 or 200 Mbit/s, 450 KB if they disagree; never more than 1 MB, IP headers included.
 *
 * host: a name or a numeric address. This is the only call that resolves a name; the resolver's time comes on top.
 * The measurement takes at most 1 s plus two round trips, and never more than 2 s.
 *
 * Returns the product in bytes, above 0, or
 *   AUTOBUF_E_RESOLVE   the name has no address, or host is NULL
 *   -EACCES             neither ping sockets (net.ipv4.ping_group_range) nor raw sockets
 *                       (CAP_NET_RAW: setcap cap_net_raw+p PROGRAM) are permitted
 *   AUTOBUF_E_NOREPLY   nothing answered: the host is down, or ICMP is filtered
 *   AUTOBUF_E_FEW       too few replies came, or agree, to compute a rate: try again
 *   AUTOBUF_E_OFF       AUTOBUF=off is in the environment
 *   another negative errno of socket(2), connect(2) or send(2), such as -ENETUNREACH
 * autobuf_strerror() puts each in words.
 *
 * Source: NLANR/DAST, "Automatic TCP Window Tuning and Applications" (Autobuf, 2001). <autobuf/probe.h> says how
 * the rate is found.
 */
AUTOBUF_API int64_t bwdelay(const char *host);

/*
 * The same for an IPv4 or IPv6 address, whose port is ignored. -EAFNOSUPPORT: addr is of another family; -EINVAL:
 * addr is NULL, or addr_len is too small for the family.
 */
AUTOBUF_API int64_t bwdelay_addr(const struct sockaddr *addr, socklen_t addr_len);

/*
 * Decides what the TCP socket fd needs for a product of so many payload bytes, and sets it. It leaves a buffer
 * alone that the kernel tunes at least as well. Call it before connect() or listen(). On a connected socket the
 * receive window can grow only as far as the window scale allows, which was fixed in the SYN.
 *
 * Returns 1: it set a buffer, or gave one back to autotuning;
 *         0: it left both alone (autotuning reaches the product, or setting cannot give more);
 *         -EINVAL: bytes is not above 0; -EBADF, -ENOTSOCK, -EOPNOTSUPP: fd is not a TCP socket;
 *         another negative errno of setsockopt(2). On failure the socket is as it was.
 */
AUTOBUF_API int bwdelay_apply(int fd, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif

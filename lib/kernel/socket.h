/* SPDX-License-Identifier: MIT */
/* Reads a TCP socket's state and TCP_INFO. */
#ifndef AB_SOCKET_H
#define AB_SOCKET_H

#include "../base/base.h"
#include "tcpinfo.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

/* TCP_INFO of a TCP socket. Returns 0; -EOPNOTSUPP: it is none. */
int ab_socket_info(int fd, struct ab_tcpinfo *info);

/*
 * sk_sndbuf and sk_rcvbuf. Not by SO_SNDBUF and SO_RCVBUF where there is another way: autobufd may have the kernel
 * answer these by what the program has requested. Returns 0, or an errno of getsockopt(2).
 */
int ab_socket_sizes(int fd, uint64_t *snd_bytes, uint64_t *rcv_bytes);

/* As autobuf_socket_state(), and *info too. */
int ab_socket_read(int fd, struct autobuf_socket *state, struct ab_tcpinfo *info);

/*
 * The interface that it is bound to (SO_BINDTODEVICE), with a NUL; "": none. device has AUTOBUF_INTERFACE_BYTES.
 */
void ab_socket_device(int fd, char *device);

/* A TCP socket to try options on, of any family. Returns it, or a negative errno. */
int ab_socket_scratch(void);

/*
 * SO_COOKIE, which no other socket of this host has. Returns 0, -EBADF or -ENOTSOCK.
 */
int ab_socket_cookie(int fd, uint64_t *cookie);

/* Whether fd is still the socket with this cookie. Returns 0; -ESTALE: another one; -EBADF or -ENOTSOCK. */
int ab_socket_check(int fd, uint64_t cookie);

/*
 * Returns the kernel's receive stamp of a message, on the monotonic clock; the present time if there is no stamp,
 * or if the clock was set since. type: SCM_TIMESTAMPNS or SCM_TIMESTAMPING. *offset_ns is ab_clock_offset_ns();
 * the call renews it if it no longer holds.
 */
uint64_t ab_stamp_ns(struct msghdr *message, int type, uint64_t *offset_ns);

#endif

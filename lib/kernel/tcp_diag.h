/* SPDX-License-Identifier: MIT */
/* Lists the TCP sockets of this network namespace, and those that end: sock_diag(7). */
#ifndef AB_TCP_DIAG_H
#define AB_TCP_DIAG_H

#include <stddef.h>
#include <stdint.h>

#include <linux/inet_diag.h>

struct ab_tcp_diag {
    struct inet_diag_msg socket; /* its state, addresses, inode and user */
    uint64_t cookie;             /* SO_COOKIE */
    uint32_t snd_buf_bytes;      /* sk_sndbuf; 0: unknown */
    uint32_t rcv_buf_bytes;      /* sk_rcvbuf */
    const uint8_t *info;         /* TCP_INFO, for ab_tcpinfo_parse(), until the callback returns; NULL: none */
    size_t info_bytes;
};

typedef void ab_tcp_diag_fn(void *user, const struct ab_tcp_diag *parsed);

/* Parses one message without its header. -EPROTO: it is not of a socket. */
int ab_tcp_diag_parse(const uint8_t *body, size_t len, struct ab_tcp_diag *parsed);

/* A descriptor for ab_tcp_diag_list(). Errors of socket(2). */
int ab_tcp_diag_open(void);

/*
 * Calls each() for each socket in one of these states (1 << AB_TCP_*), IPv4 first. A socket may be listed twice, or not
 * at all, while others come and go. extensions: 1 << (INET_DIAG_* - 1). After a failure the descriptor can only be
 * closed. Takes about 2 microseconds for each socket. Returns 0; -EOPNOTSUPP: the kernel does not list them; -E2BIG:
 * there are more than max_reads reads of 32 KB in one family; errors of ab_netlink_talk().
 */
int ab_tcp_diag_list(int fd, uint32_t states, uint8_t extensions, unsigned max_reads, ab_tcp_diag_fn *each, void *user);

/* A descriptor for ab_tcp_diag_ended(). Errors of socket(2) and bind(2), which needs a privilege. */
int ab_tcp_diag_open_ended(void);

/*
 * Calls each() for the connections that ended since the last call, with their last TCP_INFO, at most so many. Never
 * waits. Connections beyond the receive buffer are lost. Returns how many messages were read.
 */
unsigned ab_tcp_diag_ended(int fd, unsigned most, ab_tcp_diag_fn *each, void *user);

#endif

/* SPDX-License-Identifier: MIT */
/* Asking the kernel for a list over netlink(7), and reading the answers. */
#ifndef AB_NETLINK_H
#define AB_NETLINK_H

#include <stddef.h>
#include <stdint.h>

/* One message of the type that was asked for: what follows its header. */
typedef void ab_netlink_fn(void *user, const uint8_t *body, size_t len);

/*
 * Reads len bytes of answers, and hands on each message of a type. Returns 1 at the end of the list, 0 if more
 * follow, -EPROTO if they cannot be understood. Pure.
 */
int ab_netlink_parse(const void *answers, size_t len, uint16_t type, ab_netlink_fn *each, void *user);

/* The value of an attribute with at least least_bytes of it; NULL: there is none such. Pure. */
const uint8_t *ab_netlink_attribute(const uint8_t *attributes, size_t len, uint16_t type,
                                    size_t least_bytes);

/*
 * Sends a request (its header included) to a protocol of netlink, and hands on each message of a type that
 * answers. 1: all of them; -E2BIG: there are more than most_reads of 32 KB; or an errno of socket(2), send(2),
 * recv(2), or -EPROTO.
 */
int ab_netlink_ask(int protocol, const void *request, size_t len, unsigned most_reads, uint16_t type,
                   ab_netlink_fn *each, void *user);

/* Where the next message or attribute begins, behind one of so many bytes. */
static inline size_t ab_netlink_aligned(size_t len)
{
    return (len + 3) & ~(size_t)3;
}

#endif

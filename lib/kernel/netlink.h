/* SPDX-License-Identifier: MIT */
/* Requests a dump over netlink(7), and parses the answers. */
#ifndef AB_NETLINK_H
#define AB_NETLINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Gets one message of the requested type without its header. */
typedef void ab_netlink_fn(void *user, const uint8_t *body, size_t len);

/*
 * Parses len bytes of answers, and calls the function for each message of a type. Returns 1 at the end of the list;
 * 0: more follow; the kernel's error; -EPROTO: the bytes are malformed.
 */
int ab_netlink_parse(const void *answers, size_t len, uint16_t type, ab_netlink_fn *each, void *user);

/*
 * The value of an attribute of at least min_bytes; NULL: there is none. *bytes, if not NULL: its length.
 */
const uint8_t *ab_netlink_attribute(const uint8_t *attributes, size_t len, uint16_t type, size_t min_bytes,
                                    size_t *bytes);

/* Reads an attribute that is a number of 32 bits. Leaves *number alone if there is none. */
void ab_netlink_number(const uint8_t *attributes, size_t len, uint16_t type, uint32_t *number);

/* Reads a datagram of the kernel, of nobody else, without waiting. Returns its bytes, or an errno of recvfrom(2). */
ssize_t ab_netlink_receive(int fd, void *answers, size_t room);

/*
 * Sends a request, header included, and calls the function for each message of a type in the answers, in reads of up to
 * room bytes. Returns 1: all were read; -E2BIG: there are more than max_reads reads; -EPROTO; -ENOMEM; the kernel's
 * error; or an errno of send(2) or recvfrom(2). After a failure the descriptor can only be closed.
 */
int ab_netlink_talk(int fd, const void *request, size_t len, size_t room, unsigned max_reads, uint16_t type,
                    ab_netlink_fn *each, void *user);

/* The same to a netlink protocol, in reads of 8 KB. Also an errno of socket(2). */
int ab_netlink_ask(int protocol, const void *request, size_t len, unsigned max_reads, uint16_t type,
                   ab_netlink_fn *each, void *user);

/* The offset of the next message or attribute, after one of so many bytes. */
static inline size_t ab_netlink_aligned(size_t len)
{
    return (len + 3) & ~(size_t)3;
}

#endif

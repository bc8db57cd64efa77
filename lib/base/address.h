/* SPDX-License-Identifier: MIT */
#ifndef AB_ADDRESS_H
#define AB_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * Copies an IPv4 or IPv6 address with its port set to 0; one of IPv4 in IPv6 dress
 * (::ffff:192.0.2.1, as dual-stack sockets show it) becomes what it is on the wire. Returns the
 * length in bytes; -EAFNOSUPPORT, or -EINVAL if addr_len does not fit the family.
 */
int ab_address_copy(const struct sockaddr *addr, socklen_t addr_len, struct sockaddr_storage *copy);

/* Whether both are the same host; the port is not compared. */
bool ab_address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Whether it is 0.0.0.0 or ::. */
bool ab_address_is_any(const struct sockaddr_storage *a);

#endif

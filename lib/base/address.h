/* SPDX-License-Identifier: MIT */
#ifndef AB_ADDRESS_H
#define AB_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * Copies an IPv4 or IPv6 address, with its port set to 0. An IPv4 address that is mapped into IPv6
 * (::ffff:192.0.2.1, as dual-stack sockets show it) is copied as IPv4. Returns the length in bytes; -EAFNOSUPPORT;
 * -EINVAL: addr_len does not fit the family.
 */
int ab_address_copy(const struct sockaddr *addr, socklen_t addr_len, struct sockaddr_storage *copy);

/* Makes the socket address of a host from its 4 or 16 bytes. Returns its length in bytes. */
int ab_address_make(const uint8_t *bytes, size_t count, struct sockaddr_storage *made);

/* The address alone, in network byte order: 4 or 16 bytes; 0: of another family. */
const void *ab_address_bytes(const struct sockaddr_storage *address, size_t *count);

/* Whether both are the same host, whatever the ports. */
bool ab_address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Whether it is 0.0.0.0 or ::. */
bool ab_address_is_any(const struct sockaddr_storage *a);

#endif

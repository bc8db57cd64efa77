/* SPDX-License-Identifier: MIT */
#ifndef AB_PREFIX_H
#define AB_PREFIX_H

#include <sys/socket.h>

#include <autobuf/paths.h>

/*
 * The prefix of a single address. An IPv4 address that is mapped into IPv6 becomes IPv4. Returns 0; the errors of
 * ab_address_copy().
 */
int ab_prefix_of(const struct sockaddr *addr, socklen_t addr_len, struct autobuf_prefix *prefix);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Send buffers that are larger than autotuning makes them and than anybody may set: forced ones
 * (SO_SNDBUFFORCE). What all of them may hold together is bounded, so they are counted: those of this
 * network namespace's connections, as the kernel tells over netlink (sock_diag(7)), and those of this
 * process's sockets that are not connected yet, which it does not list.
 */
#ifndef AB_FORCED_H
#define AB_FORCED_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reads len bytes of answers to SOCK_DIAG_BY_FAMILY with INET_DIAG_SKMEMINFO, and adds to *bytes each send buffer
 * (stored) above above_bytes. Returns 1 at the end of the answers, 0 if more follow, -EPROTO if they cannot
 * be understood. Pure.
 */
int ab_forced_parse(const void *answers, size_t len, uint64_t above_bytes, uint64_t *bytes);

/*
 * Stored bytes of all send buffers above above_bytes. UINT64_MAX: not known, also where there are too many
 * connections to look at. Takes about 2 microseconds a connection, and some milliseconds at most.
 */
uint64_t ab_forced_bytes(uint64_t above_bytes);

#endif

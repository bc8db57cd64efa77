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

/* Send buffers (stored) above above_bytes, together. */
struct ab_forced {
    uint64_t above_bytes;
    uint64_t bytes;
};

/* An ab_netlink_fn() for answers to SOCK_DIAG_BY_FAMILY with INET_DIAG_SKMEMINFO: adds to the struct at user. */
void ab_forced_add(void *user, const uint8_t *body, size_t len);

/*
 * Stored bytes of all send buffers above above_bytes. UINT64_MAX: not known, also where there are too many
 * connections to look at. Takes about 2 microseconds a connection, and some milliseconds at most.
 */
uint64_t ab_forced_bytes(uint64_t above_bytes);

#endif

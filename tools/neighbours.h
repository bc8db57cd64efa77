/* SPDX-License-Identifier: MIT */
/* Hosts of one network to which the path is the same: one entry for all addresses there. Pure. */
#ifndef NEIGHBOURS_H
#define NEIGHBOURS_H

#include <stdbool.h>
#include <stddef.h>

#include <autobuf/autobuf.h>

#define NEIGHBOURS_LEAST 4U   /* so many must agree: three may do so by chance */
#define NEIGHBOURS_MOST 4096U /* entries of one network that are looked at */

/* How long the prefix of a network of neighbours is: /24 of IPv4; /64 of IPv6, which is one link. */
#define NEIGHBOURS_BITS_V4 24U
#define NEIGHBOURS_BITS_V6 64U

/* Whether an entry of a store was made by neighbours_agree(). */
bool neighbours_made(const struct autobuf_paths_entry *entry);

/* The network that a prefix is in. Returns false: the prefix is shorter than a network. */
bool neighbours_network(const struct autobuf_prefix *prefix, struct autobuf_prefix *network);

/*
 * Whether hosts agree. entries: all of the hosts of one network, in the store's order, at most NEIGHBOURS_MOST, valid.
 * Entries agree if they are the only one of their host, for the same local side, of the same method and flags, and
 * their round-trip time and rates are within a fifth of the medians. What was set by hand was meant as it is, and
 * agrees with nothing; nor does what was learned when the clock was ahead of now_s, which no lookup takes. At least
 * NEIGHBOURS_LEAST must agree, and three quarters of all: then the next neighbour is likely to be like them, too.
 *
 * Returns true, the entry for the network in *network, which holds for as long as NEIGHBOURS_LEAST of those that agree
 * do, and in agrees[] which do.
 */
bool neighbours_agree(const struct autobuf_paths_entry *entries, size_t count, uint64_t now_s,
                      struct autobuf_paths_entry *network, bool *agrees);

#endif

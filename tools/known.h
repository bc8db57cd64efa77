/* SPDX-License-Identifier: MIT */
/* What is known of a path, and what is learned of it anew. Pure. */
#ifndef KNOWN_H
#define KNOWN_H

#include <stdbool.h>
#include <stddef.h>

#include <autobuf/autobuf.h>

/*
 * Whether an entry was learned when the clock was ahead: more than a day later than now. No lookup takes it, so it must
 * not stand in the way of one that is sound. What was set by hand then stays, for whoever has set it to set it again.
 */
bool known_is_ahead(const struct autobuf_paths_entry *entry, uint64_t now_s);

/*
 * Whether what is known says more than what comes by hand or from a file: what was not learned when the clock was ahead
 * goes before what was; what was set by hand before what this library has measured, that before what other programs'
 * connections have reached, and then the newer one.
 */
bool known_says_more(const struct autobuf_paths_entry *known, const struct autobuf_paths_entry *fresh, uint64_t now_s);

/* Whether what is known stays when a file says otherwise: unless it has expired, and whenever it was set by hand. */
bool known_stays(const struct autobuf_paths_entry *known, const struct autobuf_paths_entry *imported, uint64_t now_s);

/*
 * Merges what one connection or measurement says of a path (seen) with what is known of the same key, into *known, by
 * the rules below. What was learned more than a day later than what is seen was learned when the clock was wrong: it
 * goes, unless it was set by hand.
 *
 *   1 What was set by hand stays as it is: who has set it knows something that a connection does not. Also when it
 *     seems to have expired, for the clock may be ahead; it goes when the store is cleaned.
 *   2 What has expired by then counts no more: seen alone is left.
 *   3 The minimum RTT counts: all that disturbs a measurement makes it longer.
 *   4 A rate that was measured replaces an older one: paths change.
 *   5 A rate that is at least so much (AUTOBUF_PATH_*_AT_LEAST) does not replace one that was measured: a connection
 *     may be slow for many reasons. Of two such the higher one counts, for both were reached. An echo's
 *     (AUTOBUF_PATH_*_ECHOED) also replaces an older echo's, and what it is clearly faster than.
 *   6 Each part (RTT, tx, rx) that comes from before holds as long as before, or, if what was seen of it
 *     is within a fifth, for longer. The whole expires with the first of its parts. So a path that became slower or
 *     longer is believed again when the old figures expire, and one that is as it was stays known.
 */
void known_merge(struct autobuf_paths_entry *known, const struct autobuf_paths_entry *seen);

/* Neighbours are hosts of one network to which the path is the same: one entry says it for all addresses there. */

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

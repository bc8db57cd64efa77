/* SPDX-License-Identifier: MIT */
/* What hosts of a site tell each other of a path, and believe. Pure. */
#ifndef SITE_CHECK_H
#define SITE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#define SITE_HOLDS_S 604800U /* from when it was learned on: a week */
#define SITE_AHEAD_S 300U    /* that another host's clock may be ahead */
#define SITE_RATE_LEAST 10000U
#define SITE_RATE_MOST 1000000000000U  /* bit/s */
#define SITE_RTT_LEAST_NS 10000U
#define SITE_RTT_MOST_NS 10000000000U
#define SITE_BDP_MOST 1073741824U      /* bytes */

/*
 * Whether it is such a thing: of one host, from all of this host's addresses, measured or seen, and no setting of an
 * administrator's; with a round-trip time, rates and products that a path can have and that fit each other; not
 * expired. Its times are then no later than now, and its end at most SITE_HOLDS_S later than its beginning.
 */
bool site_check(struct autobuf_paths_entry *entry, uint64_t now_s);

#endif

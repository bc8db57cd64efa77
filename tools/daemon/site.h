/* SPDX-License-Identifier: MIT */
/*
 * What hosts of a site share: what one of them learns of a path, the others know too. A server of Redis or Valkey keeps
 * it for a while. It is not trusted: what comes from it is checked, bounded, and never replaces what this host has
 * learned later. No call waits for it, and while it is away nothing is missing but what other hosts learn.
 */
#ifndef SITE_H
#define SITE_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "keep.h"
#include "config.h"

#define SITE_WAITING 256U /* entries that wait to be sent; of more the oldest go */
#define SITE_ROUND_NS 5000000000ULL /* from one round to the next, less or more a half of it; and what one may take */
#define SITE_SOON_NS 1000000000ULL  /* the same if there is more to be sent or read */
#define SITE_BACKOFF_NS 300000000000ULL /* at most, while the server is away. It begins with SITE_SOON_NS */

struct site;

/*
 * Exchanges entries with the server of *config, from now on: what *keep learns goes there, what comes goes into *keep,
 * which must live as long. Nothing is connected yet. *site, which is NULL or open, becomes NULL if *config has no
 * server. If it is open for the same server, key and store, the password is read anew, what waits goes on waiting, and
 * what was read is not read again. 0; -EPERM: the password's file belongs to another user, or others may read it;
 * -EINVAL: it has no password; -ENOMEM; errors of open(2), read(2) and getrandom(2). After an error *site is NULL.
 */
int site_open(struct site **site, const struct config *config, struct keep *keep);

/*
 * Takes what this host has learned, to be sent later, if it is something to be shared. A keep_offer_fn; site may be
 * NULL.
 */
void site_offer(void *site, const struct autobuf_paths_entry *entry);

/* As status_poll(): at most one. NULL is allowed here and below. */
size_t site_poll(const struct site *site, struct pollfd *fds, uint64_t now_ns, uint64_t *until_ns);

/* Does what is due and what can be done at once. */
void site_step(struct site *site, uint64_t now_ns);

void site_close(struct site *site);

/* ---------------------------------------------------------- what hosts tell each other, and believe */

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

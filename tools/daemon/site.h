/* SPDX-License-Identifier: MIT */
/*
 * What hosts of a site share: what one of them learns of a path, the others know too. A server of Redis or Valkey keeps
 * it for a while. It is not trusted: what comes from it is checked, bounded, and never replaces what this host has
 * learned later. No call waits for it, and while it is away nothing is missing but what other hosts learn.
 */
#ifndef SITE_H
#define SITE_H

#include "keep.h"

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

/* --------------------------------------------------------------- what is said to a server: site_talk.c */

/*
 * What is said to a site's server, and what it answers, as bytes; the server's may be any. Its protocol is Redis's
 * RESP2. What it answers is parsed as it comes, in little memory.
 *
 * The server keeps a stream for each site, KEY:paths:1, of about the newest SITE_KEPT messages. Each is one entry
 * (field e: autobuf_paths_entry_encode()) and who says so (field h: a number that a daemon draws when it begins). A
 * host appends what it learned, and reads what has come since it last read. The server may lose the stream, or be
 * another one, whose ids begin anew: then all of it is read.
 */
#define SITE_KEPT "10000"
#define SITE_ROUND 32U            /* entries that one round sends, and reads */
#define SITE_REFUSAL_BYTES 100U
#define SITE_WHO_BYTES 17U
#define SITE_STREAM_BYTES 96U
#define SITE_ID_BYTES 42U     /* of two numbers of 64 bits, with its NUL */
#define SITE_VALUE_BYTES 1024U /* of one that is of use, with its head */

struct site_talk {
    const char *who;
    char stream[SITE_STREAM_BYTES];
    char read_to[SITE_ID_BYTES]; /* what was read last */
    bool was_whole;         /* that, and it was no longer than usual: it can be read once more */
    bool lookback;          /* this round reads it once more, and has not yet */
    bool replaced;          /* the stream is another one */
    bool is_entry, is_long; /* this message, as far as it has come */
    char refusal[SITE_REFUSAL_BYTES]; /* the server's words, of printable characters */
    size_t logins, adds;    /* commands of this round, before XREAD */
    size_t values;          /* of the answers so far, and from the first message on of this message */
    size_t left, taken;     /* messages that are still to come (UNKNOWN: how many, too), and new ones so far */
    size_t open;            /* values of this message that are still to come */
    size_t skip;            /* bytes of a string that is of no use */
    size_t bytes, parsed;   /* of: */
    char heard[SITE_VALUE_BYTES + 1];
};

/* What is said in one round. */
struct site_round {
    const char *password;  /* NULL: none. First in a connection: */
    const unsigned *database; /* NULL: not chosen now */
    const struct autobuf_paths_entry *entries;
    size_t count;          /* of them, at most SITE_ROUND */
    unsigned read;         /* how many to read, 1 to SITE_ROUND */
    bool lookback; /* and the one before them once more: if it is gone, the next round reads from the beginning */
};

/* Takes what another host says: any entry; NULL: something that is none. */
typedef void site_heard_fn(void *user, const struct autobuf_paths_entry *entry);

/* key: of the site. who: of this daemon, 16 hex digits, which must live as long. */
void site_talk_begin(struct site_talk *talk, const char *key, const char *who);

/* Makes what is to be sent, to be freed with free(). An unfinished round before is forgotten. 0; -ENOMEM. */
int site_talk_ask(struct site_talk *talk, const struct site_round *round, char **bytes, size_t *count);

/*
 * Takes in what the server has sent. Returns 1: the round is over, and brought *heard messages; 0: more is to come;
 * -EKEYREJECTED: it refuses; -EPROTO: no answer to what it was asked.
 * After an error the next round reads from the beginning. Of a longer message than an entry's the rest is passed over.
 */
int site_talk_hear(struct site_talk *talk, const char *bytes, size_t count, site_heard_fn *take, void *user,
                   size_t *heard);

/* The next round reads from the beginning. Not within a round. */
void site_talk_read_anew(struct site_talk *talk);

#endif

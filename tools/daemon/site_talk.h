/* SPDX-License-Identifier: MIT */
/*
 * What is said to a site's server, and what it answers, as bytes; the server's may be any. Its protocol is Redis's
 * RESP2. What it answers is parsed as it comes, in little memory.
 *
 * The server keeps a stream for each site, KEY:paths:1, of about the newest SITE_KEPT messages. Each is one entry
 * (field e: autobuf_paths_entry_encode()) and who says so (field h: a number that a daemon draws when it begins). A
 * host appends what it learned, and reads what has come since it last read. The server may lose the stream, or be
 * another one, whose ids begin anew: then all of it is read.
 */
#ifndef SITE_TALK_H
#define SITE_TALK_H

#include <stdbool.h>
#include <stddef.h>

#include <autobuf/autobuf.h>

#define SITE_KEPT "10000"
#define SITE_ROUND 32U            /* entries that one round sends, and reads */
#define SITE_REFUSAL_BYTES 100U
#define SITE_WHO_BYTES 17U

struct site_talk;

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

/* key: of the site. who: of this daemon, 16 hex digits. Both must live as long. 0; -ENOMEM. */
int site_talk_open(struct site_talk **talk, const char *key, const char *who);

/* Makes what is to be sent, to be freed with free(). An unfinished round before is forgotten. 0; -ENOMEM. */
int site_talk_ask(struct site_talk *talk, const struct site_round *round, char **bytes, size_t *count);

/*
 * Takes in what the server has sent. Returns 1: the round is over, and brought *heard messages; 0: more is to come;
 * -EKEYREJECTED: it refuses, see site_talk_refusal(); -EPROTO: no answer to what it was asked.
 * After an error the next round reads from the beginning. Of a longer message than an entry's the rest is passed over.
 */
int site_talk_hear(struct site_talk *talk, const char *bytes, size_t count, site_heard_fn *take, void *user,
                   size_t *heard);

/* The next round reads from the beginning. Not within a round. */
void site_talk_read_anew(struct site_talk *talk);

/* The server's words, of printable characters. */
const char *site_talk_refusal(const struct site_talk *talk);

/* NULL is allowed. */
void site_talk_close(struct site_talk *talk);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Builds and parses the lines of the in-band exchange, and its framing. Pure.
 *
 *     line    = prefix " " verb *(" " number) *(" " key "=" number) CRLF
 *     number  = 1*19 decimal digits
 *
 * An unknown key is ignored, so that later versions can say more. A line has at most AB_LINE_BYTES with its end,
 * which may be a bare LF. The text after the number of an ERROR is for people.
 */
#ifndef AB_LINE_H
#define AB_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AB_LINE_BYTES 500U
#define AB_PREFIX_BYTES 32U /* with its final zero */

enum ab_verb {
    AB_NO_VERB,
    AB_HELLO,  /* version; train, budget */
    AB_TRAIN,  /* bytes; pace. So much payload follows the reply */
    AB_SINK,   /* bytes; pace. So much payload follows. The reply is a reading */
    AB_RESULT, /* a reading of the other end's trains, rtt */
    AB_SET,    /* receive and send buffer */
    AB_ERROR,  /* a code */
    AB_GO,     /* bytes: send them now. FTP only */
    AB_MORE,   /* part of a longer answer */
    AB_VERBS
};

enum ab_key {
    AB_KEY_TRAIN,   /* largest train, in bytes, that may be sent to this end */
    AB_KEY_BUDGET,  /* most bytes of all trains, in each direction */
    AB_KEY_PACE,    /* pacing rate, bit/s of payload, that the sender may apply */
    AB_KEY_PACED,   /* 1: it certainly does */
    AB_KEY_BYTES,   /* a reading: payload of the newest train after its first arrival */
    AB_KEY_NSEC,    /* in which it arrived */
    AB_KEY_RATE,    /* bit/s, from all trains so far; 0: unknown */
    AB_KEY_LOW,
    AB_KEY_HIGH,
    AB_KEY_SURE,    /* 1: most readings agree */
    AB_KEY_ATLEAST, /* 1: the rate is a lower bound */
    AB_KEY_RTT,     /* ns */
    AB_KEY_MAXRCV,  /* largest buffers that the peer can set */
    AB_KEY_MAXSND,
    AB_KEY_RCV,     /* buffers that the peer requests */
    AB_KEY_SND,
    AB_KEY_UNSURE,  /* AUTOBUF_UNSURE_*: why the rate may be wrong */
    AB_KEYS
};

struct ab_text;

struct ab_line {
    enum ab_verb verb;
    unsigned count; /* of numbers; no line of this version has more than two */
    uint64_t numbers[2];
    uint64_t values[AB_KEYS]; /* 0 where the key is absent */
};

/*
 * Writes the line with its end. Leaves out values of 0, and replaces a number of more than 19 digits by the largest
 * of 19 digits. Returns the length, below cap and AB_LINE_BYTES; 0: it would be longer. text, if not NULL, follows
 * the numbers.
 */
size_t ab_line_build(const struct ab_line *line, const char *prefix, const char *text, char *buf,
                     size_t cap);

/* Whether len bytes, without the line's end, are such a line. An unknown verb gives AB_NO_VERB. */
bool ab_line_parse(const char *prefix, const char *text, size_t len, struct ab_line *line);

/* Adds each pair with a blank before it. all: a reading's bytes and time are written even if they are 0. */
void ab_line_add_pairs(const struct ab_line *line, bool all, struct ab_text *to);

/* Adds the line's end. Returns as ab_line_build(). */
size_t ab_line_end(struct ab_text *line);

/* The part after the verb: each number and each pair has a blank before it. */
bool ab_line_parse_words(const char *text, size_t len, struct ab_line *line);

/* A prefix has 1 to AB_PREFIX_BYTES - 1 printable ASCII characters; the first and the last are no blanks. */
bool ab_line_prefix_valid(const char *prefix);

/* As ab_line_build() and ab_line_parse(). */
struct ab_codec {
    size_t (*build)(const struct ab_line *line, const char *prefix, const char *text, char *buf, size_t cap);
    bool (*parse)(const char *prefix, const char *text, size_t len, struct ab_line *line);
};

/* Lines of its own, or commands of another protocol. */
struct ab_framing {
    const char *prefix; /* used if the options have none */
    struct ab_codec ask, answer; /* of an initiator, and of a responder */
    /*
     * NULL: lines of its own. The exchange ends with RESULT; until then it owns the connection. Otherwise the exchange
     * is part of another protocol, where each command has one reply, and this is the last line of a reply of several
     * lines. A train is such a reply. The initiator waits for the reply AB_GO before it sends payload. There is no
     * RESULT, and between two commands the application reads the connection.
     */
    const char *reply_end;
    const char *no_hello; /* error text for a line before HELLO */
    const char *unknown;  /* and for an unknown line */
};

/* Lines of its own, as above. */
extern const struct ab_framing ab_framing_text;

/*
 * FTP (RFC 959): "SITE AUTOBUF" and its answers.
 *
 *     SITE AUTOBUF             211 AUTOBUF 1 maxrcv=N maxsnd=N train=N budget=N
 *     SITE AUTOBUF TRAIN n     211-AUTOBUF TRAIN n, then n bytes of payload, which end with the line
 *                              211 AUTOBUF
 *     SITE AUTOBUF SINK n      350, then n bytes of payload from the client, then 211 bytes=N nsec=N ...
 *     SITE AUTOBUF SET rcv snd 200 AUTOBUF rcv=N snd=N
 *     to anything else         452, 500, 501, 503
 */
extern const struct ab_framing ab_framing_ftp;

#endif

/* SPDX-License-Identifier: MIT */
/* How the exchange in band is written: as lines of its own, or as commands of another protocol. Pure. */
#ifndef AB_DRESS_H
#define AB_DRESS_H

#include "line.h"

/* As ab_line_build() and ab_line_parse(). */
struct ab_wording {
    size_t (*build)(const struct ab_line *line, const char *prefix, const char *text, char *buf, size_t cap);
    bool (*parse)(const char *prefix, const char *text, size_t len, struct ab_line *line);
};

struct ab_dress {
    const char *prefix; /* used if the options have none */
    struct ab_wording ask, answer; /* what an initiator writes, and what a responder writes */
    /*
     * NULL: lines of its own. The exchange ends with RESULT, and the application may not use the connection before.
     * Otherwise the exchange is part of another protocol, where each command has one reply. A reply may have
     * several lines; this is the last one. A train is such a reply. Payload from the initiator is a write of its
     * own: it waits for the reply AB_GO. There is no RESULT, and between two commands the application reads the
     * connection.
     */
    const char *reply_end;
    const char *no_hello; /* what a responder says to a line that HELLO has to precede */
    const char *unknown;  /* and to one that it does not know */
};

/* Lines of its own: see line.h. */
const struct ab_dress *ab_dress_text(void);

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
const struct ab_dress *ab_dress_ftp(void);

#endif

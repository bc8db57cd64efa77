/* SPDX-License-Identifier: MIT */
/* The framing of the exchange in band: lines of its own, or commands of another protocol. Pure. */
#ifndef AB_FRAMING_H
#define AB_FRAMING_H

#include "line.h"

/* As ab_line_build() and ab_line_parse(). */
struct ab_codec {
    size_t (*build)(const struct ab_line *line, const char *prefix, const char *text, char *buf, size_t cap);
    bool (*parse)(const char *prefix, const char *text, size_t len, struct ab_line *line);
};

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

/* Lines of its own: see line.h. */
const struct ab_framing *ab_framing_text(void);

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
const struct ab_framing *ab_framing_ftp(void);

#endif

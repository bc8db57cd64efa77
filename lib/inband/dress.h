/* SPDX-License-Identifier: MIT */
/* How the exchange in band is said: as lines of its own, or in a protocol that has its own way. Pure. */
#ifndef AB_DRESS_H
#define AB_DRESS_H

#include "line.h"

/* As ab_line_build() and ab_line_parse(), of what an initiator asks or a responder answers. */
struct ab_dress {
    const char *prefix; /* where the options have none */
    size_t (*build_ask)(const struct ab_line *line, const char *prefix, const char *text, char *buf,
                        size_t cap);
    size_t (*build_answer)(const struct ab_line *line, const char *prefix, const char *text,
                           char *buf, size_t cap);
    bool (*parse_ask)(const char *prefix, const char *text, size_t len, struct ab_line *line);
    bool (*parse_answer)(const char *prefix, const char *text, size_t len, struct ab_line *line);
    const char *train_end; /* the last line of a train that is answered */
    bool sink_waits;       /* for the responder to say AB_GO, and payload is a write of its own */
    bool is_handed_lines;  /* a responder: between exchanges the application reads the connection */
    bool has_result;       /* an exchange ends with RESULT, which nothing may come between */
};

/* Lines of its own, as line.h has them. */
const struct ab_dress *ab_dress_text(void);

/*
 * FTP (RFC 959): "SITE AUTOBUF" and its answers.
 *
 *     SITE AUTOBUF             211 AUTOBUF 1 maxrcv=N maxsnd=N train=N budget=N
 *     SITE AUTOBUF TRAIN n     211-AUTOBUF TRAIN n, payload of n bytes, of which the last line is
 *                              211 AUTOBUF
 *     SITE AUTOBUF SINK n      350, then n bytes of payload from the client, then 211 bytes=N nsec=N ...
 *     SITE AUTOBUF SET rcv snd 200 AUTOBUF rcv=N snd=N
 *     to anything else         452, 500, 501, 503
 */
const struct ab_dress *ab_dress_ftp(void);

#endif

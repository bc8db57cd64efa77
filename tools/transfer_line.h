/* SPDX-License-Identifier: MIT */
/*
 * The lines of a transfer, in the grammar of autobuf-inband(7), so that a server that knows no transfers answers
 * with an error of its own. Pure.
 *
 *     AUTOBUF TRANSFER 1 SECONDS receive=1 tuned=1    the client asks; the server answers with the seconds it grants
 *     AUTOBUF REPORT 1 bytes=N nsec=N ...             what an end has seen
 *     AUTOBUF ERROR CODE TEXT                         an answer; the text is for people
 */
#ifndef TRANSFER_LINE_H
#define TRANSFER_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRANSFER_LINE_BYTES 256 /* most of a line, its end included */
#define TRANSFER_SECONDS_MOST 60

/* What a line that asks begins with; no line of a measurement does. */
#define TRANSFER_PREFIX "AUTOBUF TRANSFER "

enum transfer_verb { TRANSFER_ASK, TRANSFER_REPORT, TRANSFER_ERROR };

/* The number of a TRANSFER_ERROR. 500 and 503 are answers to somebody who knows no transfers. */
enum { TRANSFER_BUSY = 421, TRANSFER_UNKNOWN = 500, TRANSFER_WRONG = 501, TRANSFER_REFUSED = 550 };

enum transfer_key {
    TRANSFER_RECEIVE,   /* 1: the server sends; 0: the client does */
    TRANSFER_TUNED,     /* 1: both ends have a flow; 0: the sockets stay as the kernel made them */
    TRANSFER_BYTES,     /* payload, without its first arrival */
    TRANSFER_NSEC,      /* the time in which it came */
    TRANSFER_WINDOW,    /* most bytes in flight in a sample of the sender */
    TRANSFER_RTT_MIN,   /* ns */
    TRANSFER_RTT_MEAN,  /* ns, over the time of the samples */
    TRANSFER_RESENT,    /* packets */
    TRANSFER_BOTTLENECK, /* AUTOBUF_BOTTLENECK_*, of most of the time */
    TRANSFER_KEYS
};

struct transfer_line {
    enum transfer_verb verb;
    uint64_t number;                /* seconds of TRANSFER, the code of ERROR */
    uint64_t values[TRANSFER_KEYS]; /* 0: absent */
};

/* Writes the line with its end, leaving out values of 0. Larger numbers than a line can hold become the largest. */
size_t transfer_line_format(const struct transfer_line *line, char text[TRANSFER_LINE_BYTES]);

/*
 * Takes a line of len bytes with its end, CRLF or LF. False: it is none, or a number is out of its range. An unknown
 * key is ignored, so that later versions can say more; a key given twice is not allowed.
 */
bool transfer_line_parse(const char *text, size_t len, struct transfer_line *line);

#endif

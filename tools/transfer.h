/* SPDX-License-Identifier: MIT */
/*
 * One end of a transfer over a TCP connection of its own, or of stretches of paced data, one after another, as the
 * client asks for them (paced.h). A transfer: payload in one direction, for so many seconds after the
 * receiver has seen its first bytes. Then the receiver reports, and the sender stops; a server that was the sender
 * reports, too, behind its payload. Nothing here blocks, and a step moves a bounded number of bytes.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <autobuf/autobuf.h>

#include "paced.h"

/*
 * The lines of a transfer, in the grammar of autobuf-inband(7), so that a server that knows no transfers answers
 * with an error of its own.
 *
 *     AUTOBUF TRANSFER 1 SECONDS receive=1 tuned=1    the client asks; the server answers with the seconds it grants
 *     AUTOBUF TRANSFER 1 0 receive=1 pace=N low=N high=N bytes=N   for a stretch: its pace, the path's capacity as far
 *                                                     as it is known, and, of the sender, the bytes of a chunk
 *     AUTOBUF REPORT 1 bytes=N nsec=N ...             what an end has seen
 *     AUTOBUF ERROR CODE TEXT                         an answer; the text is for people
 */

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
    TRANSFER_PACE,      /* bit/s of IP: of a stretch */
    TRANSFER_LOW,       /* of the capacity; in a report, of what a stretch showed to be free. 0: unknown, as in high */
    TRANSFER_HIGH,
    TRANSFER_CAUSE,     /* AUTOBUF_CAUSE_*, of a bound of it that is unknown */
    TRANSFER_KEYS
};

struct transfer_line {
    enum transfer_verb verb;
    uint64_t number;                /* seconds of TRANSFER, 0: a stretch; the code of ERROR */
    uint64_t values[TRANSFER_KEYS]; /* 0: absent */
};

/* Writes the line with its end, leaving out values of 0. Larger numbers than a line can hold become the largest. */
size_t transfer_line_format(const struct transfer_line *line, char text[TRANSFER_LINE_BYTES]);

/*
 * Takes a line of len bytes with its end, CRLF or LF. False: it is none, or a number is out of its range. An unknown
 * key is ignored, so that later versions can say more; a key given twice is not allowed.
 */
bool transfer_line_parse(const char *text, size_t len, struct transfer_line *line);

#define TRANSFER_CHUNK_BYTES 131072U /* as iperf3 writes; what is written at once matters to the kernel */
#define TRANSFER_BOTTLENECKS (AUTOBUF_BOTTLENECK_STALLED + 1)

enum transfer_phase {
    TRANSFER_ASKS,  /* a client, until the server has answered */
    TRANSFER_MOVES, /* payload */
    TRANSFER_RESTS, /* measured; the connection comes to its end */
    TRANSFER_WAITS, /* a stretch is over: a client for the report, a server for the next line */
};

struct transfer {
    int fd; /* the caller's */
    bool serves, sends, tuned;
    enum transfer_phase phase;
    uint64_t seconds;
    struct autobuf_flow *flow; /* if the transfer is not tuned, it only samples */
    char out[TRANSFER_LINE_BYTES + 1];
    size_t out_begin, out_end;
    char in[TRANSFER_LINE_BYTES]; /* a line that has begun; of a stream of payload its newest bytes */
    size_t in_len;
    uint64_t begin_ns;
    uint64_t first_ns;    /* payload arrived first; AUTOBUF_NS_UNSET: none did */
    uint64_t progress_ns; /* when something moved */
    uint64_t moved_bytes; /* payload, in its direction */
    struct autobuf_live_state state; /* of the newest sample */
    uint64_t sampled_ns;
    uint64_t rtt_past_ns; /* the time of which rtt_mean_ns is the mean */
    double rtt_mean_ns;
    uint64_t limited_ns[TRANSFER_BOTTLENECKS];
    struct transfer_line own, peers; /* reports */
    uint64_t code; /* of the server's ERROR */
    struct paced *paced; /* NULL: no stretch, but a transfer */
    unsigned stretches;
    struct autobuf_available free; /* what the newest stretch of a client showed, as tx */
};

#define TRANSFER_NOT 2
/*
 * Reads a line up to its end and no further, and of one that does not begin with prefix no byte that differs from it.
 * line has TRANSFER_LINE_BYTES, *len of them are there so far. Returns 1: it is here, its end included; 0: more has to
 * come; TRANSFER_NOT: it begins otherwise, and *len bytes of it were read; -ENOTCONN: the peer closed; -EPROTO: the
 * line is too long; other errnos of recv(2).
 */
int transfer_hear(int fd, const char *prefix, char *line, size_t *len);

/*
 * Begins on a connected socket that does not block. ask: what the client asks, or the server has granted. flow: as the
 * caller has opened it, if the transfer is tuned; it is closed with the transfer. 0; errors of autobuf_flow_open(),
 * and paced_begin().
 */
int transfer_open(struct transfer *t, int fd, bool serves, const struct transfer_line *ask, struct autobuf_flow *flow,
                  uint64_t now_ns);

/* Begins another stretch, once transfer_step() has returned 1 for the one before. 0; errors of paced_begin(). */
int transfer_again(struct transfer *t, const struct transfer_line *ask, uint64_t now_ns);

/*
 * Whether there is payload to be written now, if the socket takes it; the events for poll(2), may_send: for payload,
 * too; and when to step even if nothing happens.
 */
bool transfer_has_more(const struct transfer *t, uint64_t now_ns);
int transfer_events(const struct transfer *t, bool may_send, uint64_t now_ns);
uint64_t transfer_deadline_ns(const struct transfer *t);

/*
 * Moves what can be moved; of payload it writes at most so much. Returns 0: it goes on; 1: it is over.
 * AUTOBUF_E_UNSUPPORTED: the server refused, and code says why; AUTOBUF_E_PROTOCOL: the peer talks nonsense, or reports
 * what cannot be; -ETIMEDOUT: nothing moved for 5 s, or it took 5 s more than it should; -ECONNRESET; other errnos of
 * send(2), recv(2).
 */
int transfer_step(struct transfer *t, uint64_t now_ns, size_t most_bytes);

/* Closes what it holds, not the connection. */
void transfer_close(struct transfer *t);

/* The payload rate that arrived, in bit/s; 0: none did. */
uint64_t transfer_rate(const struct transfer *t);

/* What the sender saw. */
const struct transfer_line *transfer_senders(const struct transfer *t);

#endif

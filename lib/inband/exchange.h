/* SPDX-License-Identifier: MIT */
/*
 * The exchange in band: what both ends share. Bytes and times in and out; socket.c runs it over a socket.
 *
 *   facts.c      segment size, RTT and pacing of the connection
 *   arrivals.c   the trains that arrive, and their rate
 *   exchange.c   what is sent, what is received, and when
 *   initiator.c  asks: decides which trains are sent, how long they are, and when to stop
 *   responder.c  answers, within its budgets
 *   handle.c     options, role and result
 */
#ifndef AB_EXCHANGE_H
#define AB_EXCHANGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "../base/base.h"
#include "../estimate/estimate.h"
#include "inband.h"
#include "line.h"

#define AB_INBAND_VERSION 1U
#define AB_INBAND_GRACE_NS (2 * AB_NS_PER_S)
/*
 * Of a train, at least: two gaps. Unit: test_small_peer of test_initiator.c,
 * test_train_fits_the_congestion_window of test_responder.c.
 */
#define AB_INBAND_TRAIN_SEGMENTS 3U
#define AB_INBAND_TIMEOUT_MAX_NS (30 * AB_NS_PER_S) /* for an exchange */

/* What the receiving end has measured of one direction. */
struct ab_reading {
    uint64_t bytes;   /* payload of the newest train after its first arrival, without stalls */
    uint64_t span_ns; /* in which it arrived */
    uint64_t rate_bit_per_s; /* from all trains, IP bytes; 0: unknown */
    uint64_t low_bit_per_s;
    uint64_t high_bit_per_s;
    bool sure;
    bool at_least;
    uint32_t unsure; /* AUTOBUF_UNSURE_* */
};

/* The trains that arrive here. */
struct ab_arrivals {
    struct ab_packet *packets; /* allocated with the first train */
    uint64_t *scratch;
    size_t count;
    size_t capacity;
    uint32_t trains;
    size_t train_begin;     /* first packet of the newest train */
    size_t unpaced_begin;      /* first packet of the trains without pacing */
    uint64_t train_bytes;   /* payload of the newest train */
    uint64_t pace_bit_per_s; /* the sender's pace, of payload; 0: none */
    bool paced;              /* the sender certainly paces */
    uint64_t offset_bytes;  /* of the train's next byte in the peer's write */
    uint64_t count_end;     /* offset of the last, shorter segment, which does not count */
    bool discards;          /* the payload is no train */
};

/* One direction. */
struct ab_direction {
    struct ab_reading reading; /* measured here, or reported by the peer */
    uint64_t train_bytes;      /* payload of the newest train, asked for or sent; 0: none yet */
    uint64_t spent_bytes;      /* payload of all trains */
    unsigned trains;
};

enum ab_inband_phase {
    AB_PHASE_HELLO,
    AB_PHASE_ROUND,
    AB_PHASE_RESULT,
    AB_PHASE_SET,
    AB_PHASE_OVER, /* a responder: between exchanges */
    AB_PHASE_BUSY, /* a responder: from HELLO to RESULT */
};

/* Each function of a role returns 0 or more, or an error that ends the handle. */
struct ab_role {
    int (*begin)(struct autobuf_inband *ib); /* NULL: waits for the other end */
    int (*line)(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes);
    int64_t (*part)(struct autobuf_inband *ib, const char *data, size_t len); /* bytes that belong to a train */
    int (*payload)(struct autobuf_inband *ib); /* the last byte of a train has arrived */
};

/* What ab_prepare() found. */
struct ab_prepared {
    uint64_t cookie;
    int options; /* for autobuf_inband_restore(); below 0: nothing was changed */
    int low_water;
};

/* The socket of the exchange. */
struct ab_inband_socket {
    int fd;           /* -1: a pure handle */
    struct ab_inband_io io;
    struct ab_prepared prepared;
    bool window_open; /* the receive window holds a train */
};

/* bytes[begin..end) are to be sent. */
struct ab_output {
    uint8_t *bytes;
    size_t begin;
    size_t end;
    size_t size;
    uint64_t random;  /* state of the payload's xorshift64 */
    uint64_t sent_ns; /* when the last byte was sent */
};

struct ab_input {
    char line[AB_LINE_BYTES];
    size_t line_bytes;
    uint64_t payload_left;
};

struct ab_initiator {
    bool hello_only; /* no train follows HELLO until ab_inband_begin() */
    bool awaits_go, awaits_sink, awaits_train; /* answers, in this order */
    bool tx_done, rx_done; /* no further train in this direction */
    uint64_t ask_bytes;         /* train to ask for after sending one; 0: none */
    uint64_t peer_max_bytes[2]; /* receive and send buffer that the peer can set; 0: unknown */
    uint64_t peer_train_bytes, peer_budget_bytes;
    uint64_t low_bytes, high_bytes; /* the range of BDPs that matter; 0: all */
    uint64_t round_begin_ns;
    uint64_t set_answer[2];
    bool has_set_answer;
    size_t reply_matched; /* characters of the last line's code that matched; more: another line */
    size_t drained_bytes; /* of a reply, beyond the announced length */
};

struct ab_responder {
    ab_inband_set_fn *set; /* NULL: SET changes nothing */
    void *set_user;
    uint64_t rcv_max_bytes, snd_max_bytes; /* largest buffers that SET can give; 0: unknown */
    unsigned errors;
    unsigned lines;
};

struct autobuf_inband {
    uint32_t role;
    const struct ab_role *acts;
    struct autobuf_inband_options options;
    const struct ab_framing *framing;
    const struct ab_codec *encoder, *decoder; /* of the framing, for this role */
    struct autobuf_inband_facts facts;
    struct ab_log log;
    pid_t owner;
    struct ab_inband_socket socket;
    struct ab_output out;
    struct ab_input in;

    int error;    /* below 0: the connection is lost, or not usable any more */
    int outcome;  /* 0, or why nothing was measured on a connection that works */
    enum ab_inband_phase phase;
    bool greeted; /* the peer has sent HELLO or its answer */
    uint64_t start_ns;
    uint64_t now_ns;   /* newest time that the caller passed */
    uint64_t limit_ns; /* when to give up, unless the exchange is over by then */
    uint64_t end_ns;   /* when the exchange was over; AUTOBUF_NS_UNSET: it is not */
    uint64_t exchange_ns; /* from HELLO to its answer, at the initiator; AUTOBUF_NS_UNSET */
    uint64_t shortest_ns; /* of that one and the other lines that are answered by a line; AUTOBUF_NS_UNSET */
    uint64_t cost_bytes;

    struct ab_direction tx, rx;
    struct ab_arrivals arrivals;
    uint32_t samples;

    struct ab_initiator initiator; /* only the one of the handle's role is used */
    struct ab_responder responder;
};

/* Queues a line. Returns 0 or -ENOMEM. */
int ab_inband_queue_line(struct autobuf_inband *ib, const struct ab_line *line, const char *text);

/*
 * Queues a line and its payload. The payload's length, which is the line's number, is such that the queue, together
 * with `behind` bytes that the caller adds next, is len bytes long: every segment is full. line NULL: payload alone.
 */
int ab_inband_queue_train(struct autobuf_inband *ib, struct ab_line *line, size_t len,
                          size_t behind);

/* BDP in IP bytes at this rate; 0: the RTT is unknown. */
uint64_t ab_inband_bdp(const struct autobuf_inband *ib, uint64_t rate_bit_per_s);

/*
 * Whether TCP's RTT is not that to the peer: a proxy acknowledges at once, and the peer behind it answers later. One
 * late answer may be a busy peer's, so the shortest counts.
 */
bool ab_inband_is_relayed(const struct autobuf_inband *ib);

/*
 * TCP's minimum RTT, or the time of HELLO and its answer if that is less; through a proxy the shortest time of a line
 * and its answer; AUTOBUF_NS_UNSET: unknown.
 */
uint64_t ab_inband_rtt_ns(const struct autobuf_inband *ib);

/* part() of a role whose trains have the announced length. */
int64_t ab_inband_plain_part(struct autobuf_inband *ib, const char *data, size_t len);

/* Notes that len bytes of a train arrived at stamp_ns. */
void ab_inband_arrived(struct autobuf_inband *ib, uint64_t stamp_ns, uint64_t len);

/* Expects the train that line announces. It begins offset bytes into the write of the line. */
int ab_inband_expect_train(struct autobuf_inband *ib, const struct ab_line *line, uint64_t offset);

/* Expects len bytes of payload, and drops them. */
void ab_inband_discard(struct autobuf_inband *ib, uint64_t len);

/* Adds to the line before a train how this end paces. */
void ab_inband_add_pace(const struct autobuf_inband *ib, struct ab_line *line);

/* Estimates rx.reading from all arrivals so far. */
void ab_inband_estimate(struct autobuf_inband *ib);

/* Ends the exchange, and frees the arrivals. */
void ab_inband_end(struct autobuf_inband *ib);

/* How much payload the options allow for the trains of each direction. */
uint64_t ab_inband_budget_bytes(const struct autobuf_inband *ib);

/* Writes a reading into a line for the peer; parses the peer's, and returns false if it is not plausible. */
void ab_reading_write(const struct ab_reading *reading, struct ab_line *line);
bool ab_reading_parse(const struct ab_line *line, struct ab_reading *reading);

/*
 * Whether a peer's reading of a train is possible: no more bytes than were sent, no longer than until its report came,
 * and no slower than that. 0 bytes: no train was sent. A rate that is too high cannot be detected here; this host's
 * limits bound what a plan makes of it.
 */
bool ab_reading_possible(const struct ab_reading *reading, uint64_t train_bytes, uint64_t elapsed_ns);

uint64_t ab_inband_wire_bytes(const struct autobuf_inband *ib, uint64_t payload_bytes);

/*
 * The two parts of autobuf_inband_prepare(); otherwise only lib/apply/ sets an option on a caller's socket.
 * ab_prepare() sets SO_TIMESTAMPING, TCP_NODELAY and a SO_RCVLOWAT of one byte. Returns 0, or -errno with the socket as
 * it was.
 */
int ab_prepare(int fd, struct ab_prepared *before);

/* Restores them, unless the descriptor is another socket now. */
void ab_restore_prepared(int fd, const struct ab_prepared *before);

/* Opens the receive window far enough for a train, unless AUTOBUF=off. */
void ab_open_window(int fd);

/* The two ends. */
extern const struct ab_role ab_role_initiator, ab_role_responder;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The exchange in band: what both ends share. Takes bytes and times, gives bytes and times; socket.c runs it over a
 * socket.
 *
 *   facts.c      what the connection below is like
 *   arrivals.c   the trains that arrive, and their rate
 *   exchange.c   what is sent, what is received, and when
 *   initiator.c  asks: decides which trains are sent, how long they are, and when it knows enough
 *   responder.c  answers, within its budgets
 *   handle.c     the handle: its options, its role, its result
 */
#ifndef AB_EXCHANGE_H
#define AB_EXCHANGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "../base/base.h"
#include "../estimate/estimate.h"
#include "dress.h"
#include "inband.h"
#include "prepare.h"

#define AB_INBAND_VERSION 1U
#define AB_INBAND_GRACE_NS (2 * AB_NS_PER_S)
#define AB_INBAND_TIMEOUT_MOST_NS (30 * AB_NS_PER_S) /* for an exchange, and so for a train */

/* What the receiving end has measured of one direction. */
struct ab_reading {
    uint64_t bytes;   /* payload of the newest train after its first arrival, without stalls */
    uint64_t span_ns; /* the time in which it came */
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
    size_t free_begin;      /* first packet of the trains that were not held back */
    uint64_t train_bytes;   /* payload of the newest train */
    uint64_t pace_bit_per_s; /* the sender's pace, of payload; 0: none */
    bool paced;              /* the sender certainly keeps that pace */
    uint64_t offset_bytes;  /* of the train's next byte, in the write that it is part of */
    uint64_t count_end;     /* offset from which on the bytes fill only part of a segment, and do not count */
    bool skips;             /* the payload is no train: it is read and forgotten */
};

/* One direction. */
struct ab_direction {
    struct ab_reading reading; /* measured here, or told by the peer */
    uint64_t train_bytes;      /* payload of the exchange's newest train, asked for or sent; 0: none yet */
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

/* How a role handles what arrives. Each function returns 0 or more, or an error that ends the handle. */
struct ab_role {
    int (*begin)(struct autobuf_inband *ib);
    int (*line)(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes);
    int64_t (*part)(struct autobuf_inband *ib, const char *data, size_t len); /* how much is a train's */
    int (*payload)(struct autobuf_inband *ib); /* the last byte of a train has arrived */
};

/* The socket of the exchange. */
struct ab_inband_socket {
    int fd;           /* -1: a pure handle */
    struct ab_prepared prepared;
    bool window_open; /* wide enough for a train */
};

/* What is to be sent: the bytes from begin to end. */
struct ab_output {
    uint8_t *bytes;
    size_t begin;
    size_t end;
    size_t size;
    uint64_t random;  /* state of the generator of the payload's letters */
    uint64_t sent_ns; /* when the last byte was sent */
};

/* What is being received: part of a line, or a train's payload. */
struct ab_input {
    char line[AB_LINE_BYTES];
    size_t line_bytes;
    uint64_t payload_left;
};

/* An initiator's own. */
struct ab_initiator {
    bool greets_only; /* no train follows HELLO until ab_inband_begin() */
    bool awaits_go, awaits_sink, awaits_train; /* answers that have to come, in this order */
    bool tx_done, rx_done; /* it knows enough of the direction, or may not ask for more */
    uint64_t ask_bytes;         /* length of the train to ask for after the one from here; 0: none */
    uint64_t peer_max_bytes[2]; /* receive and send buffer that the peer can set; 0: not told */
    uint64_t peer_train_bytes, peer_budget_bytes;
    uint64_t low_bytes, high_bytes; /* only products between these are of interest; 0: all are */
    uint64_t round_begin_ns;
    uint64_t took[2];
    bool took_known;
    size_t reply_matched; /* how many characters of the code of a last line have matched; more: another line */
    size_t drained_bytes; /* how many bytes of a reply came beyond the announced length */
};

/* A responder's own. */
struct ab_responder {
    ab_inband_set_fn *set; /* NULL: SET changes nothing */
    void *set_user;
    uint64_t rcv_most_bytes, snd_most_bytes; /* largest buffers that SET can give; 0: not told */
    unsigned complaints;
    unsigned lines;
};

struct autobuf_inband {
    uint32_t role;
    const struct ab_role *acts;
    struct autobuf_inband_options options;
    const struct ab_dress *dress;
    const struct ab_wording *speaks, *hears; /* the dress's wording for this role */
    struct autobuf_inband_facts facts;
    struct ab_log log;
    pid_t owner;
    struct ab_inband_socket socket;
    struct ab_output out;
    struct ab_input in;

    int error;    /* below 0: the connection is lost, or not usable any more */
    int outcome;  /* 0, or why nothing was measured although the connection is in order */
    enum ab_inband_phase phase;
    bool greeted; /* HELLO or its answer has come from the peer */
    uint64_t start_ns;
    uint64_t now_ns;   /* newest time that the caller passed */
    uint64_t limit_ns; /* when to give up, unless the exchange is over by then */
    uint64_t end_ns;   /* when the exchange was over; AUTOBUF_NS_UNSET: it is not */
    uint64_t exchange_ns; /* from HELLO to its answer, at the initiator; AUTOBUF_NS_UNSET */
    uint64_t cost_bytes;

    struct ab_direction tx, rx;
    struct ab_arrivals arrivals;
    uint32_t samples;

    struct ab_initiator initiator; /* only the one of the handle's role is used */
    struct ab_responder responder;
};

/* Appends a line to what is to be sent. Returns 0 or -ENOMEM. */
int ab_inband_say(struct autobuf_inband *ib, const struct ab_line *line, const char *text);

/*
 * Appends a line and its payload. Chooses the payload's length, which is the line's number, so that all that is to
 * be sent, together with `behind` bytes that the caller adds next, is len bytes long: then every segment is full.
 * line NULL: appends len bytes of payload alone.
 */
int ab_inband_say_train(struct autobuf_inband *ib, struct ab_line *line, size_t len,
                        size_t behind);

/* IP bytes that a path of this rate holds; 0: the round-trip time is unknown. */
uint64_t ab_inband_product(const struct autobuf_inband *ib, uint64_t rate_bit_per_s);

/* TCP's least round-trip time, or the time of HELLO and its answer if that is less; AUTOBUF_NS_UNSET: unknown. */
uint64_t ab_inband_rtt_ns(const struct autobuf_inband *ib);

/* The usual part() of a role: how many of these bytes belong to a train that ends where its line said. */
int64_t ab_inband_plain_part(struct autobuf_inband *ib, const char *data, size_t len);

/* Notes that len bytes of a train arrived at stamp_ns. */
void ab_inband_arrived(struct autobuf_inband *ib, uint64_t stamp_ns, uint64_t len);

/* Expects the train that line announces. It begins offset bytes into the write that the line was part of. */
int ab_inband_expect(struct autobuf_inband *ib, const struct ab_line *line, uint64_t offset);

/* Expects len bytes of payload, to read and forget them. */
void ab_inband_skip(struct autobuf_inband *ib, uint64_t len);

/* Says in the line before a train how this end paces what it sends. */
void ab_inband_tell_pace(const struct autobuf_inband *ib, struct ab_line *line);

/* Estimates the rate from all arrivals so far, and puts it into rx.reading. */
void ab_inband_read(struct autobuf_inband *ib);

/* Ends the exchange, and frees the arrivals. */
void ab_inband_over(struct autobuf_inband *ib);

/* How much payload the options allow for the trains of each direction. */
uint64_t ab_inband_budget_bytes(const struct autobuf_inband *ib);

/*
 * Writes a reading into a line for the peer; reads one from the peer's line, and returns false if it is not
 * plausible.
 */
void ab_reading_tell(const struct ab_reading *reading, struct ab_line *line);
bool ab_reading_hear(const struct ab_line *line, struct ab_reading *reading);

/*
 * Whether a peer's reading of a train that was sent is possible: no more bytes than were sent, no longer than it took until the
 * peer had told it, and not slower than the train must have been. 0 bytes: no train was sent. A rate that is too high cannot be
 * detected here; this host's limits bound what a plan makes of it.
 */
bool ab_reading_possible(const struct ab_reading *reading, uint64_t train_bytes, uint64_t elapsed_ns);

/* How many IP bytes so much payload takes. */
uint64_t ab_inband_wire_bytes(const struct autobuf_inband *ib, uint64_t payload_bytes);

#endif

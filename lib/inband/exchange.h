/* SPDX-License-Identifier: MIT */
/*
 * The exchange in band: what both ends share. Bytes and times in, bytes and times out; socket.c is for those who
 * have a socket below it.
 *
 *   facts.c      what the connection below is like
 *   arrivals.c   the trains that arrive, and their rate
 *   exchange.c   what is sent, what is received, and when
 *   initiator.c  asks: which trains, how long, when it is enough
 *   responder.c  answers, within its budgets
 *   handle.c     begins, with one of the two roles; the result
 */
#ifndef AB_EXCHANGE_H
#define AB_EXCHANGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "../base/base.h"
#include "../estimate/estimate.h"
#include "dress.h"
#include "inband.h"

#define AB_INBAND_VERSION 1U
#define AB_INBAND_GRACE_NS (2 * AB_NS_PER_S)
#define AB_INBAND_TIMEOUT_MOST_NS (30 * AB_NS_PER_S) /* for an exchange, and so for a train */

/* What the receiving end found out about one direction. */
struct ab_reading {
    uint64_t bytes;   /* payload of the newest train after its first arrival, without what stalled */
    uint64_t span_ns; /* in which it came */
    uint64_t rate_bit_per_s; /* of all trains, IP bytes; 0: unknown */
    uint64_t low_bit_per_s;
    uint64_t high_bit_per_s;
    bool sure;
    bool at_least;
};

/* The trains that arrive here. */
struct ab_arrivals {
    struct ab_packet *packets; /* allocated with the first of them */
    uint64_t *scratch;
    size_t count;
    size_t capacity;
    uint32_t trains;
    size_t train_begin;     /* first packet of the newest train */
    size_t free_begin;      /* and of those that were not held back */
    uint64_t train_bytes;   /* its payload */
    uint64_t pace_bit_per_s; /* of payload, 0: none */
    bool paced;              /* surely */
    uint64_t offset_bytes;  /* of its next byte, in the write that it came with */
    uint64_t count_end;     /* from here on it is a segment's rest, and does not count */
    bool skips;             /* what comes is no train, but to be forgotten */
};

/* One direction. */
struct ab_direction {
    struct ab_reading reading; /* of this end, or as the peer tells it */
    uint64_t train_bytes;      /* payload of the newest train, asked for or sent; 0: none yet */
    uint64_t spent_bytes;      /* payload of all */
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

/* What an end of the exchange does with what comes. Each returns 0 or more, or an error that ends the handle. */
struct ab_role {
    int (*begin)(struct autobuf_inband *ib);
    int (*line)(struct autobuf_inband *ib, const struct ab_line *line, size_t line_bytes);
    int64_t (*part)(struct autobuf_inband *ib, const char *data, size_t len); /* of a train: how much of it is */
    int (*payload)(struct autobuf_inband *ib); /* a train is here to its last byte */
};

/* The socket below it. */
struct ab_inband_socket {
    int fd;           /* -1: a pure handle */
    int prepared;     /* what puts its options back */
    bool window_open; /* for a train */
};

/* What is to be sent: begin to end. */
struct ab_output {
    uint8_t *bytes;
    size_t begin;
    size_t end;
    size_t size;
    uint64_t random;  /* of the payload's letters */
    uint64_t sent_ns; /* when the last of it went */
};

/* What is received: a line so far, or a train's payload. */
struct ab_input {
    char line[AB_LINE_BYTES];
    size_t line_bytes;
    uint64_t payload_left;
};

/* An initiator's own. */
struct ab_initiator {
    bool greets_only; /* no train follows HELLO by itself */
    bool awaits_go, awaits_sink, awaits_train; /* in this order */
    bool tx_done, rx_done; /* it knows enough of a direction, or may not ask for more */
    uint64_t ask_bytes;         /* train to ask for when the one from here is sent; 0: none */
    uint64_t peer_max_bytes[2]; /* receive and send buffer that the peer can set; 0: not told */
    uint64_t peer_train_bytes, peer_budget_bytes;
    uint64_t low_bytes, high_bytes; /* products below and above which nothing more is to be known; 0: none */
    uint64_t round_begin_ns;
    uint64_t took[2];
    bool took_known;
    size_t reply_matched; /* characters of a last line's beginning; more than those: another line */
    size_t drained_bytes; /* of a reply, beyond what was told */
};

/* A responder's own. */
struct ab_responder {
    ab_inband_set_fn *set; /* NULL: nobody does it */
    void *set_user;
    uint64_t rcv_most_bytes, snd_most_bytes; /* that SET can give; 0: not told */
    unsigned complaints;
    unsigned lines;
};

struct autobuf_inband {
    uint32_t role;
    const struct ab_role *acts;
    struct autobuf_inband_options options;
    const struct ab_dress *dress;
    const struct ab_wording *speaks, *hears; /* of the dress, as the role has it */
    struct autobuf_inband_facts facts;
    struct ab_log log;
    pid_t owner;
    struct ab_inband_socket socket;
    struct ab_output out;
    struct ab_input in;

    int error;    /* below 0: out of step, or gone */
    int outcome;  /* 0, or why nothing was measured though the connection is in order */
    enum ab_inband_phase phase;
    bool greeted; /* HELLO came from the peer, or its answer */
    uint64_t start_ns;
    uint64_t now_ns;   /* newest time that was told */
    uint64_t limit_ns; /* when to give up, unless it is over */
    uint64_t end_ns;   /* when it was over; AUTOBUF_NS_UNSET: it is not */
    uint64_t exchange_ns; /* from HELLO to its answer, at the initiator; AUTOBUF_NS_UNSET */
    uint64_t cost_bytes;

    struct ab_direction tx, rx;
    struct ab_arrivals arrivals;
    uint32_t samples;

    struct ab_initiator initiator; /* of these two only the role's own is used */
    struct ab_responder responder;
};

/* Puts a line behind what is to be sent. 0, -ENOMEM. */
int ab_inband_say(struct autobuf_inband *ib, const struct ab_line *line, const char *text);

/*
 * Puts a line behind it, and payload, of which the line's number tells the length: as much as makes all
 * that is to be sent, with behind bytes that follow, len bytes long, so that no segment is but partly
 * filled. line NULL: len bytes of payload alone.
 */
int ab_inband_say_train(struct autobuf_inband *ib, struct ab_line *line, uint64_t len,
                        size_t behind);

/* IP bytes that a path of this rate holds; 0: the round-trip time is unknown. */
uint64_t ab_inband_product(const struct autobuf_inband *ib, uint64_t rate_bit_per_s);

/* TCP's least round-trip time, or what HELLO and its answer took, if that is less; AUTOBUF_NS_UNSET. */
uint64_t ab_inband_rtt_ns(const struct autobuf_inband *ib);

/* So much of what arrived is a train's, if it ends where it was told to: what a role's part() does as a rule. */
int64_t ab_inband_plain_part(struct autobuf_inband *ib, const char *data, size_t len);

/* So many bytes of a train arrived at this time. */
void ab_inband_arrived(struct autobuf_inband *ib, uint64_t stamp_ns, uint64_t len);

/* A train of len bytes follows the line, offset bytes into the write that it came with. */
int ab_inband_expect(struct autobuf_inband *ib, const struct ab_line *line, uint64_t offset);

/* len bytes of payload follow that nobody wants. */
void ab_inband_skip(struct autobuf_inband *ib, uint64_t len);

/* How what is sent here is paced, for the line before a train. */
void ab_inband_tell_pace(const struct autobuf_inband *ib, struct ab_line *line);

/* What the arrivals say by now, into rx.reading. */
void ab_inband_read(struct autobuf_inband *ib);

/* The exchange is over: what it was kept in memory for is told. */
void ab_inband_over(struct autobuf_inband *ib);

/* Payload that trains may have in each direction, as the options say. */
uint64_t ab_inband_budget_bytes(const struct autobuf_inband *ib);

/* A reading as it is told to the peer, and one that the peer tells: false if it is not plausible. */
void ab_reading_tell(const struct ab_reading *reading, struct ab_line *line);
bool ab_reading_hear(const struct ab_line *line, struct ab_reading *reading);

/* IP bytes that so much payload takes. */
uint64_t ab_inband_wire_bytes(const struct autobuf_inband *ib, uint64_t payload_bytes);

#endif

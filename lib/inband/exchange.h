/* SPDX-License-Identifier: MIT */
/*
 * The exchange in band: what both ends share. Bytes and times in and out; socket.c runs it over a socket.
 *
 *   line.c         lines of its own
 *   framing_ftp.c  and those of FTP
 *   facts.c        segment size, RTT and pacing of the connection
 *   arrivals.c     the trains that arrive, and their rate
 *   exchange.c     what is sent, what is received, and when
 *   initiator.c    asks: decides which trains are sent, how long they are, and when to stop
 *   responder.c    answers, within its budgets
 *   handle.c       options, role and result
 */
#ifndef AB_EXCHANGE_H
#define AB_EXCHANGE_H

#include <sys/types.h>

#include "../estimate/estimate.h"

/*
 * Lines:
 *
 *     line    = prefix " " verb *(" " number) *(" " key "=" number) CRLF
 *     number  = 1*19 decimal digits
 *
 * An unknown key is ignored, so that later versions can say more. A line has at most AB_LINE_BYTES with its end,
 * which may be a bare LF. The text after the number of an ERROR is for people.
 */
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
size_t ab_line_build(const struct ab_line *line, const char *prefix, const char *text, char *buf, size_t cap);

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

/* ------------------------------------------------------------------- for other rooms: FTP */

/*
 * After initiator.hello_only, when the exchange is over: continues it, and measures in these directions (0: both).
 * May be repeated, within the budget. It stops once the BDP (IP bytes) is certainly not between low_bytes and
 * high_bytes; 0 and 0: every BDP matters. -EINVAL: not possible now; -ENOMEM.
 */
int ab_inband_begin(struct autobuf_inband *ib, uint64_t now_ns, uint32_t directions, uint64_t low_bytes,
                    uint64_t high_bytes);

/*
 * When the exchange is over: continues it with SET, which tells the peer which windows the path needs, in payload
 * bytes, for what the peer receives and sends (0: leave it alone). initiator.set_answer has the answer once it is over
 * again. -EINVAL: not possible now.
 */
int ab_inband_set(struct autobuf_inband *ib, uint64_t now_ns, uint64_t rcv_bytes, uint64_t snd_bytes);

/*
 * Handles SET. In: the windows that the peer asks for. Out: the buffer sizes to request for them, which the function
 * bounds; 0: the kernel chooses.
 */
typedef void ab_inband_set_fn(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes);

/*
 * The largest BDP (IP bytes) that a peer may claim after this exchange. tx false, the peer sends: twice what its trains
 * showed. tx true: that of AB_PLAUSIBLE_BIT_PER_S, if a train was sent. 0: no train went that way.
 */
uint64_t ab_inband_max_bdp(const struct autobuf_inband *ib, bool tx);

/*
 * How the bytes of a handle are moved if TLS wraps its connection: by autobuf_ftp_read_fn() and autobuf_ftp_write_fn(),
 * in records that take so many bytes of each segment. read NULL: over the socket.
 */
struct ab_inband_io {
    int64_t (*read)(void *user, void *buf, size_t len, uint64_t deadline_ns, uint64_t *stamp_ns);
    int64_t (*write)(void *user, const void *buf, size_t len, size_t segment_bytes, uint64_t deadline_ns);
    void *user;
    uint32_t record_bytes;
};

/* As autobuf_inband_open(). With read() and write() only ab_inband_run() runs the handle. */
int ab_inband_open_io(struct autobuf_inband **ib, uint32_t role, int fd, const struct autobuf_inband_options *options,
                      const struct ab_inband_io *io);

/*
 * Reads the facts of the handle's socket again. It lists the queueing disciplines of the host at most once, and only
 * after HELLO.
 */
int ab_inband_refresh(struct autobuf_inband *ib);

/* Steps a handle with a socket to its end. Returns 1, or an error of autobuf_inband_step() or ppoll(2). */
int ab_inband_run(struct autobuf_inband *ib);

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
    bool hello_only; /* set right after opening: no train follows HELLO until ab_inband_begin() */
    bool awaits_go, awaits_sink, awaits_train; /* answers, in this order */
    bool tx_done, rx_done; /* no further train in this direction */
    uint64_t ask_bytes;         /* train to ask for after sending one; 0: none */
    uint64_t peer_max_bytes[2]; /* receive and send buffer that the peer can set; 0: unknown */
    uint64_t peer_train_bytes, peer_budget_bytes;
    uint64_t low_bytes, high_bytes; /* the range of BDPs that matter; 0: all */
    uint64_t round_begin_ns;
    unsigned asked_again; /* for a packet, since all answers were late */
    uint64_t set_answer[2]; /* receive and send size that the peer requests after SET; 0: its kernel chooses */
    bool has_set_answer;    /* it gave one, and no error */
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
    uint64_t shortest_ns; /* of that one and all other answers; AUTOBUF_NS_UNSET */
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
int ab_inband_queue_train(struct autobuf_inband *ib, struct ab_line *line, size_t len, size_t behind);

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

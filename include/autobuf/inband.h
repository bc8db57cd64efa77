/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/inband.h>: measuring a path over a TCP connection.
 */
#ifndef AUTOBUF_INBAND_H
#define AUTOBUF_INBAND_H

#include <stddef.h>
#include <stdint.h>

#include <autobuf/path.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Measuring a path over a TCP connection that two programs share already: an FTP control connection, any
 * line or message protocol, also inside TLS. Each direction by itself, without privilege, where ICMP is
 * filtered, and through NAT. One end is the initiator, the other the responder.
 *
 * The initiator says HELLO, and only a peer that answers it is sent anything more. Then trains go both
 * ways, in each round one and, behind it, the other: as many bytes as the connection can send back to back, 10
 * segments at first, then twice as many in each round, until a train lasts about 2 ms or the budget is used.
 * The end that receives a train reads off its rate, as autobuf_probe_open() describes. A train that was held back, by
 * a paced congestion control (bbr) or otherwise, is not taken for the path's rate: "at least" then.
 * Up to 100 Mbit/s it costs 64 KB in each direction, and at most 480 KB; 4 to 7 round trips.
 *
 * What goes over the wire are lines of text; autobuf-inband(7) has them. A responder takes at most 512 lines in
 * its life; the next one is AUTOBUF_E_PROTOCOL. Nothing that the peer says is believed beyond what is plausible.
 *
 *   blocking  autobuf_inband(): one call, for the initiator.
 *   stepped   autobuf_inband_open(), then as autobuf_probe_open(): fd, events, deadline_ns, step.
 *   pure      autobuf_inband_open_pure(): the application carries the bytes. output() gives what to send,
 *             input() takes what was received with its time.
 *
 * In an application's own line protocol a responder is best a pure handle, which is handed the lines that
 * begin with the prefix. To a peer that may not know the exchange, an initiator's HELLO is one unknown
 * command: its answer has to be one line of at most 500 bytes, and nothing else may be on its way before it.
 * AUTOBUF=off does not keep anybody from measuring; prepare() leaves the window alone then.
 */
struct autobuf_inband;

#define AUTOBUF_INBAND_INITIATOR 1U
#define AUTOBUF_INBAND_RESPONDER 2U

/* IP bytes of all trains of a direction, at most: less than 1 MB for both. */
#define AUTOBUF_INBAND_BUDGET_BYTES 480000U

#define AUTOBUF_INBAND_TEXT 0U /* lines of its own */
#define AUTOBUF_INBAND_FTP 1U  /* SITE AUTOBUF, on an FTP control connection:

       SITE AUTOBUF               211 AUTOBUF 1 maxrcv=N maxsnd=N train=N budget=N
       SITE AUTOBUF TRAIN n       211-AUTOBUF TRAIN n, and the lines of a reply that ends with 211
       SITE AUTOBUF SINK n        350, then n bytes from the client, then 211 bytes=N nsec=N ...
       SITE AUTOBUF SET rcv snd   200 AUTOBUF rcv=N snd=N

   There is no RESULT; a responder is over after each of them. It is handed commands in this form. */

#define AUTOBUF_INBAND_TX 1U /* measure what is sent from here */
#define AUTOBUF_INBAND_RX 2U /* and what comes back */

struct autobuf_inband_options {
    uint32_t size;
    uint32_t budget_bytes;      /* IP bytes of trains in each direction, of all exchanges of a handle,
                                   6,000 to 480,000; 0: 480,000 */
    uint64_t timeout_ns;        /* initiator: no round begins later; both: give up 2 s after it. 0:
                                   5 s; above 30 s: 30 s */
    autobuf_log_fn *log;        /* NULL: none */
    void *log_user;
    char prefix[32];            /* what lines begin with instead of AUTOBUF; "": that */
    uint32_t dress;             /* AUTOBUF_INBAND_TEXT or AUTOBUF_INBAND_FTP */
    uint32_t flags;             /* an initiator's: AUTOBUF_INBAND_TX, _RX (neither: both) */
};

#define AUTOBUF_INBAND_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct autobuf_inband_options), 0, 0, NULL, NULL, "", 0, 0                          \
    }
/* As AUTOBUF_INBAND_OPTIONS_INIT; size: sizeof(struct autobuf_inband_options). */
AUTOBUF_API void autobuf_inband_options_init(struct autobuf_inband_options *options, uint32_t size);

#define AUTOBUF_INBAND_PACED 1U /* the pace is surely kept: by bbr, SO_MAX_PACING_RATE or the queueing
                                   discipline fq */
#define AUTOBUF_INBAND_HOST_PACES 2U /* autobuf_inband_facts() has asked this host for its queueing */
#define AUTOBUF_INBAND_HOST_FREE 4U  /* disciplines: one is fq; or none is. Both: there was no answer */

/*
 * What the socket below knows, and the exchange must be told: at the beginning, and before each
 * input(), which may decide on a train. 0: unknown, but for a time.
 */
struct autobuf_inband_facts {
    uint32_t size;
    uint32_t segment_bytes;   /* payload that travels as one packet: of a TCP segment, or of a TLS
                                 record that just fills one; 64 to 65,536, 0: 1448 */
    uint32_t packet_bytes;    /* IP bytes that it takes on the wire; 0: segment_bytes + 52 */
    uint32_t flags;           /* AUTOBUF_INBAND_PACED, _HOST_PACES, _HOST_FREE */
    uint64_t train_bytes;     /* that leave back to back now: congestion window, peer's window */
    uint64_t pace_bit_per_s;  /* of payload, at which the sender is, or may be, held back */
    uint64_t rtt_min_ns;      /* as TCP has seen it; AUTOBUF_NS_UNSET: unknown */
};

#define AUTOBUF_INBAND_FACTS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct autobuf_inband_facts), 0, 0, 0, 0, 0, AUTOBUF_NS_UNSET                       \
    }
/* As AUTOBUF_INBAND_FACTS_INIT; size: sizeof(struct autobuf_inband_facts). */
AUTOBUF_API void autobuf_inband_facts_init(struct autobuf_inband_facts *facts, uint32_t size);

/* Begins an exchange. options may be NULL. -EINVAL: role, an option, a size; -ENOMEM. */
AUTOBUF_API int autobuf_inband_open_pure(struct autobuf_inband **inband, uint32_t role,
                                         uint64_t now_ns,
                                         const struct autobuf_inband_options *options);

/* -EINVAL: a size, or a value is out of range. */
AUTOBUF_API int autobuf_inband_tell(struct autobuf_inband *inband,
                                    const struct autobuf_inband_facts *facts);

/*
 * What is to be sent at now_ns: returns its length, and *data is where it is, valid until the next
 * call. To be written at once, with one write, and inside TLS in records of segment_bytes; then
 * sent() tells how much of it went, and the time before that write. 0: nothing before deadline_ns().
 */
AUTOBUF_API size_t autobuf_inband_output(struct autobuf_inband *inband, uint64_t now_ns,
                                         const void **data);
AUTOBUF_API void autobuf_inband_sent(struct autobuf_inband *inband, uint64_t now_ns, size_t bytes);

/*
 * How many bytes the next read is to take at most, so that each has a time of its own; 0: read nothing
 * now. A line may be shorter than that; what follows the exchange's last line is the application's.
 */
AUTOBUF_API size_t autobuf_inband_wanted(const struct autobuf_inband *inband);

/*
 * len bytes that arrived by stamp_ns, of the same clock as now_ns, at best the kernel's receive stamp of
 * the last of them (autobuf_inband_receive()). len 0: the connection was closed. Returns how many were of
 * the exchange; fewer than len when it is over, or a responder has to send first.
 * AUTOBUF_E_PROTOCOL: the peer is out of step, -ECONNRESET: it is gone, in mid-exchange; close the
 * connection. AUTOBUF_E_FORKED.
 *
 * A responder in an application's own protocol is handed each line that begins with the prefix, and then
 * all that is received until it is finished; a line of another kind, at the beginning, is AUTOBUF_E_PROTOCOL,
 * and what was handed over is lost.
 */
AUTOBUF_API int64_t autobuf_inband_input(struct autobuf_inband *inband, uint64_t stamp_ns,
                                         const void *data, size_t len);

/* When to call output() even if nothing arrived; AUTOBUF_NS_UNSET: never. */
AUTOBUF_API uint64_t autobuf_inband_deadline_ns(const struct autobuf_inband *inband);

/*
 * 0: it goes on. 1: it is over, all is sent, and the connection is the application's again, also when
 * nothing could be measured (result() tells). Below 0: the connection is out of step, and has to be closed:
 * AUTOBUF_E_PROTOCOL, -ECONNRESET, -ETIMEDOUT, -ENOMEM; the same that input() said. A responder is over
 * between exchanges, and goes on with the next line.
 */
AUTOBUF_API int autobuf_inband_finished(const struct autobuf_inband *inband);

/* 1: HELLO came from an initiator, or its answer from a responder: the peer knows the exchange. 0: not yet. */
AUTOBUF_API int autobuf_inband_greeted(const struct autobuf_inband *inband);

/*
 * What is known by now, of both directions; path->size is set by the caller. 0; AUTOBUF_E_UNSUPPORTED: the
 * peer does not know the exchange; AUTOBUF_E_NOREPLY: nothing was measured; AUTOBUF_E_FEW: the round-trip
 * time, but neither direction's rate. Where but one is known, the other is 0. rtt_min_ns is TCP's own
 * (facts), unless the exchange took less; rtt_median_ns is what the HELLO and its answer took.
 * elapsed_ns, cost_bytes (headers included, acknowledgements not) and samples are of this end.
 */
AUTOBUF_API int autobuf_inband_result(const struct autobuf_inband *inband,
                                      struct autobuf_path *path);

/*
 * Closes the handle, not the connection, whose options become what they were: so before the connection is
 * closed. NULL is allowed.
 */
AUTOBUF_API void autobuf_inband_close(struct autobuf_inband *inband);

/*
 * For an application that carries the bytes, but over a TCP socket of its own: reads the facts.
 * facts->size is set by the caller. The kernel may have to list all queueing disciplines of this host for
 * it, which takes long where there are many: keep the struct for the next call, which does not ask again if
 * flags holds AUTOBUF_INBAND_HOST_PACES or _HOST_FREE. A responder best calls it once HELLO came, so that
 * no stranger has the host asked. -EOPNOTSUPP: not a TCP socket; -ENOTCONN; -EBADF, -ENOTSOCK, -EINVAL.
 */
AUTOBUF_API int autobuf_inband_facts(int fd, struct autobuf_inband_facts *facts);

/*
 * Makes a connection ready to be measured over: the kernel stamps what arrives (SO_TIMESTAMPING), short
 * lines are not held back (TCP_NODELAY), and the receive window opens as far as a train is long, which
 * locks nothing. Returns a value that restore() takes to put both options back. Before the exchange, and
 * best right after accept() or connect(). -EBADF, -ENOTSOCK, other errnos of setsockopt(2).
 */
AUTOBUF_API int autobuf_inband_prepare(int fd);
AUTOBUF_API void autobuf_inband_restore(int fd, int prepared);

/*
 * recv(2) without blocking, with the kernel's stamp of the last byte on the monotonic clock, or the
 * present where there is none. Returns the length, 0 at the end of the connection, or -errno.
 */
AUTOBUF_API int64_t autobuf_inband_receive(int fd, void *buf, size_t len, uint64_t *stamp_ns);

/*
 * The stepped form, on a connected TCP socket that stays the caller's, blocking or not. Of what arrives
 * only the exchange's own bytes are read. It does what prepare() does, but a responder opens the receive
 * window when HELLO came. The host is asked for its queueing disciplines at most once, and not before HELLO
 * came or was sent. Errors of open_pure(), prepare() and facts().
 */
AUTOBUF_API int autobuf_inband_open(struct autobuf_inband **inband, uint32_t role, int fd,
                                    const struct autobuf_inband_options *options);
AUTOBUF_API int autobuf_inband_fd(const struct autobuf_inband *inband);
AUTOBUF_API int autobuf_inband_events(const struct autobuf_inband *inband);

/*
 * Sends and receives what there is, without blocking. As finished(), and -ENOTCONN: the peer has closed the
 * connection, between exchanges; AUTOBUF_E_FORKED; -EBADF: a pure handle; other errnos of send(2) and
 * recvmsg(2): close the connection.
 */
AUTOBUF_API int autobuf_inband_step(struct autobuf_inband *inband, uint64_t now_ns);

/*
 * open, step until it is over, result, close, as the initiator. *usable, if not NULL, tells whether the
 * connection can still be used (1) or has to be closed (0), whatever the result.
 */
AUTOBUF_API int autobuf_inband(int fd, const struct autobuf_inband_options *options,
                               struct autobuf_path *path, int *usable);

#ifdef __cplusplus
}
#endif

#endif

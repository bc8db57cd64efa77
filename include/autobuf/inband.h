/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/inband.h>: measures a path over a TCP connection.
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
 * Measures a path over a TCP connection that two programs share: an FTP control connection, any line or message
 * protocol, also inside TLS. Each direction is measured by itself. It needs no privilege, and works where ICMP is
 * filtered and through NAT. One end is the initiator, the other the responder.
 *
 * The initiator says HELLO, and sends more only if the peer answers. Then each round sends one train each way, one
 * after the other: 10 segments in the first round, twice as many in the next, but no more than the connection can
 * send back to back, until a train lasts about 2 ms or the budget is used. The end that receives a train computes
 * the rate from the times of arrival, as <autobuf/probe.h> describes, and tells the other end. If a paced
 * congestion control (bbr) or something else held the train back, the rate is a lower bound. It takes 4 to 7 round
 * trips. As a rule it costs at most 64 KB, or 20 packets if these are larger, in each direction on a path of up to
 * 100 or 200 Mbit/s; never more than 480 KB.
 *
 * Lines of text go over the wire; autobuf-inband(7) describes them. A responder takes at most 512 lines in its
 * life; the next one is AUTOBUF_E_PROTOCOL. Neither end believes a number that is not plausible.
 *
 *   blocking  autobuf_inband(): one call, for the initiator.
 *   stepped   autobuf_inband_open(). Then, as with autobuf_probe_open(), the application's loop waits for the events of
 *             fd until deadline_ns, and calls step().
 *   pure      autobuf_inband_open_pure(): the application carries the bytes. output() says what to send; input() takes
 *             what was received, with its time.
 *
 * Inside an application's own line protocol use a pure handle as responder, and hand it the lines that begin with
 * the prefix. If the peer may not know the exchange, an initiator's HELLO is one unknown command to it: its answer
 * must be one line of at most 500 bytes, and no other answer may be outstanding. AUTOBUF=off does not prevent
 * measuring in band, but prepare() then leaves the receive window alone.
 */
struct autobuf_inband;

#define AUTOBUF_INBAND_INITIATOR 1U
#define AUTOBUF_INBAND_RESPONDER 2U

/* The most IP bytes that all trains of one direction take together. */
#define AUTOBUF_INBAND_BUDGET_BYTES 480000U

#define AUTOBUF_INBAND_TEXT 0U /* lines that begin with AUTOBUF */
#define AUTOBUF_INBAND_FTP 1U  /* SITE AUTOBUF, on an FTP control connection:

       SITE AUTOBUF               211 AUTOBUF 1 train=N budget=N maxrcv=N maxsnd=N
       SITE AUTOBUF TRAIN n       211-AUTOBUF TRAIN n, and the lines of a reply that ends with 211
       SITE AUTOBUF SINK n        350, then n bytes from the client, then 211 bytes=N nsec=N ...
       SITE AUTOBUF SET rcv snd   200 AUTOBUF rcv=N snd=N

   There is no RESULT. A responder is over after each command. It is handed commands in this form. */

#define AUTOBUF_INBAND_TX 1U /* measure what is sent from here */
#define AUTOBUF_INBAND_RX 2U /* measure what comes from the peer */

struct autobuf_inband_options {
    uint32_t size;
    uint32_t budget_bytes;      /* most IP bytes of trains in each direction, for all exchanges of the
                                   handle together, 6,000 to 480,000; 0: 480,000 */
    uint64_t timeout_ns;        /* an initiator begins no round later than this, nor one that could
                                   not end in time; either end gives up 2 s after it, as on a path of
                                   less than 60 kbit/s. At most 30 s; 0: 5 s */
    autobuf_log_fn *log;        /* is told how the exchange goes; NULL: none */
    void *log_user;
    char prefix[32];            /* what lines begin with, the same at both ends: 1 to 31 printable
                                   ASCII characters, no blank first or last; "": AUTOBUF */
    uint32_t dress;             /* AUTOBUF_INBAND_TEXT or AUTOBUF_INBAND_FTP */
    uint32_t flags;             /* of an initiator: AUTOBUF_INBAND_TX, _RX or both; 0: both */
};

#define AUTOBUF_INBAND_OPTIONS_INIT AUTOBUF_INIT(autobuf_inband_options)

#define AUTOBUF_INBAND_PACED 1U      /* the sender certainly keeps to the pace, because of bbr,
                                        SO_MAX_PACING_RATE or the queueing discipline fq */
#define AUTOBUF_INBAND_HOST_PACES 2U /* the kernel was asked: a queueing discipline of this host is fq */
#define AUTOBUF_INBAND_HOST_FREE 4U  /* the kernel was asked: none is. Both bits: it did not answer */

/*
 * What the socket below knows. Tell it to the exchange at the beginning, and before each input(), which may decide
 * on the next train. 0: unknown; for the time AUTOBUF_NS_UNSET.
 */
struct autobuf_inband_facts {
    uint32_t size;
    uint32_t segment_bytes;   /* payload of one packet: of a TCP segment, or of a TLS record that
                                 fills one; 64 to 65,536; 0: 1448 */
    uint32_t packet_bytes;    /* IP bytes of that packet; 0: segment_bytes + 52 */
    uint32_t flags;           /* AUTOBUF_INBAND_PACED, _HOST_PACES, _HOST_FREE */
    uint64_t train_bytes;     /* how many bytes can leave back to back now: the congestion window
                                 and the peer's window bound them */
    uint64_t pace_bit_per_s;  /* payload rate at which the sender is, or may be, held back */
    uint64_t rtt_min_ns;      /* the least that TCP has seen; AUTOBUF_NS_UNSET: unknown */
    uint64_t rtt_high_ns;     /* TCP's smoothed RTT and four mean deviations (RFC 6298); 0: unknown.
                                 Where the peer's answers take more than twice that and 10 ms,
                                 a proxy answers for TCP */
};

#define AUTOBUF_INBAND_FACTS_INIT AUTOBUF_INIT(autobuf_inband_facts)

/*
 * Opens a pure handle. role: AUTOBUF_INBAND_INITIATOR or _RESPONDER. options may be NULL. Returns 0; -EINVAL: the
 * role, an option, a struct size, or NULL; -ENOMEM.
 */
AUTOBUF_API int autobuf_inband_open_pure(struct autobuf_inband **inband, uint32_t role,
                                         uint64_t now_ns,
                                         const struct autobuf_inband_options *options);

/* Hands in the facts. Returns 0; -EINVAL: facts->size, a value out of range, or NULL. */
AUTOBUF_API int autobuf_inband_tell(struct autobuf_inband *inband, const struct autobuf_inband_facts *facts);

/*
 * Says what to send at now_ns: *data points to it until the next call, and its length is returned. 0: nothing is to
 * be sent before deadline_ns(). Write all of it at once, with one write, inside TLS in records of segment_bytes.
 * Then call sent() with the time before that write, and the number of bytes that were written.
 */
AUTOBUF_API size_t autobuf_inband_output(struct autobuf_inband *inband, uint64_t now_ns, const void **data);
AUTOBUF_API void autobuf_inband_sent(struct autobuf_inband *inband, uint64_t now_ns, size_t bytes);

/*
 * Returns how many bytes the next read may take at most, so that each packet has a time of its own; 0: read nothing
 * now. A line may be shorter than this. What follows the last line of the exchange is the application's.
 */
AUTOBUF_API size_t autobuf_inband_wanted(const struct autobuf_inband *inband);

/*
 * Takes len bytes that arrived by stamp_ns, on the clock of now_ns. The kernel's receive stamp of the last byte is
 * best; autobuf_inband_receive() gives it. len 0: the peer closed the connection.
 *
 * Returns how many bytes belong to the exchange. Fewer than len: the exchange is over and the rest is the
 * application's, or a responder has to send first and wants the rest again afterwards. AUTOBUF_E_PROTOCOL: the peer
 * broke the rules; -ECONNRESET: the peer closed the connection during the exchange. After both close the
 * connection. AUTOBUF_E_FORKED.
 *
 * Inside an application's own protocol hand a responder each line that begins with the prefix, and then all that is
 * received until it is finished. Another line, where one of the exchange should begin, is AUTOBUF_E_PROTOCOL, and
 * what was handed over is lost.
 */
AUTOBUF_API int64_t autobuf_inband_input(struct autobuf_inband *inband, uint64_t stamp_ns,
                                         const void *data, size_t len);

/* The time at which to call output() even if nothing arrived; AUTOBUF_NS_UNSET: none. */
AUTOBUF_API uint64_t autobuf_inband_deadline_ns(const struct autobuf_inband *inband);

/*
 * Returns 0: the exchange goes on; 1: it is over, all is sent, and the connection is the application's again, also
 * if nothing could be measured (result() says). Below 0: the connection cannot be used any more; close it:
 * AUTOBUF_E_PROTOCOL, -ECONNRESET, -ETIMEDOUT, -ENOMEM, as input() returned it. A responder returns 1 between
 * exchanges, also before the first, and goes on with the next line.
 */
AUTOBUF_API int autobuf_inband_finished(const struct autobuf_inband *inband);

/*
 * 1: HELLO came from the initiator, or its answer from the responder, so the peer knows the exchange; 0: not yet.
 */
AUTOBUF_API int autobuf_inband_greeted(const struct autobuf_inband *inband);

/*
 * Fills *path with what is known so far of both directions, at either end. The caller has set path->size. If only
 * one rate is known, the other is 0. rtt_min_ns is TCP's own (of the facts), unless the exchange saw a shorter one.
 * rtt_median_ns is the time from HELLO to its answer. elapsed_ns, samples and cost_bytes (headers included,
 * acknowledgements not) are those of this end.
 *
 * Returns 0; AUTOBUF_E_UNSUPPORTED: the peer does not know the exchange; AUTOBUF_E_NOREPLY: nothing was measured;
 * AUTOBUF_E_FEW: only the round-trip time is known; AUTOBUF_E_RELAYED: the same, and the connection ends at a proxy;
 * -EINVAL: path->size, or NULL.
 */
AUTOBUF_API int autobuf_inband_result(const struct autobuf_inband *inband, struct autobuf_path *path);

/*
 * Closes the handle, not the connection. A stepped handle puts the socket's options back, so close it before the
 * descriptor. NULL is allowed.
 */
AUTOBUF_API void autobuf_inband_close(struct autobuf_inband *inband);

/*
 * Fills *facts from the TCP socket fd, for an application that carries the bytes over a socket of its own. The
 * caller has set facts->size. The call may ask the kernel for all queueing disciplines of this host, which takes
 * long if there are many. Keep the struct for the next call: if flags holds AUTOBUF_INBAND_HOST_PACES or
 * _HOST_FREE, the call does not ask again. A responder should first call it after greeted() returns 1, so that a
 * stranger cannot make it ask. Returns 0; -EOPNOTSUPP: not a TCP socket; -ENOTCONN; -EBADF, -ENOTSOCK, -EINVAL.
 */
AUTOBUF_API int autobuf_inband_facts(int fd, struct autobuf_inband_facts *facts);

/*
 * Prepares a connection for an exchange. Call it right after accept() or connect(). The kernel then stamps what
 * arrives (SO_TIMESTAMPING) and sends short lines at once (TCP_NODELAY), and the receive window opens for one
 * train, which locks no buffer. Returns a value that restore() takes to put both options back; -EBADF, -ENOTSOCK,
 * other errnos of setsockopt(2).
 */
AUTOBUF_API int autobuf_inband_prepare(int fd);
AUTOBUF_API void autobuf_inband_restore(int fd, int prepared);

/*
 * Does what recv(2) does, without blocking, and stores the kernel's stamp of the last byte on the monotonic clock;
 * if there is no stamp, the present time. Returns the length, 0 at the end of the connection, or a negative errno
 * (-EAGAIN: there is nothing to read).
 */
AUTOBUF_API int64_t autobuf_inband_receive(int fd, void *buf, size_t len, uint64_t *stamp_ns);

/*
 * Opens a stepped handle on a connected TCP socket, blocking or not, which stays the caller's. It reads only the
 * bytes of the exchange. It does what prepare() does, but a responder opens the receive window only when HELLO has
 * come. It asks the kernel for the queueing disciplines at most once, and not before HELLO came or was sent.
 * Errors: those of open_pure(), prepare() and facts().
 */
AUTOBUF_API int autobuf_inband_open(struct autobuf_inband **inband, uint32_t role, int fd,
                                    const struct autobuf_inband_options *options);

/* The descriptor to poll, and the events (POLLIN, POLLOUT) to poll it for until the next step(). */
AUTOBUF_API int autobuf_inband_fd(const struct autobuf_inband *inband);
AUTOBUF_API int autobuf_inband_events(const struct autobuf_inband *inband);

/*
 * Receives what has arrived, and sends what is due at now_ns. It does not block. Returns what finished() returns,
 * or -ENOTCONN: the peer closed the connection between exchanges; AUTOBUF_E_FORKED; -EBADF: a pure handle; other
 * errnos of send(2) and recvmsg(2), after which the connection has to be closed.
 */
AUTOBUF_API int autobuf_inband_step(struct autobuf_inband *inband, uint64_t now_ns);

/*
 * Does open, step until the exchange is over, result and close in one call, as the initiator. If usable is not
 * NULL, *usable becomes 1 if the connection can still be used, and 0 if it has to be closed, whatever the result
 * is.
 */
AUTOBUF_API int autobuf_inband(int fd, const struct autobuf_inband_options *options,
                               struct autobuf_path *path, int *usable);

#ifdef __cplusplus
}
#endif

#endif

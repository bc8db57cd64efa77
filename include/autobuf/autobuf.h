/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/autobuf.h>: the whole public surface of libautobuf.
 *
 * Rules that hold for every call:
 *   - 0 or a positive value is success, a negative value is failure: a negative errno, or one of
 *     AUTOBUF_E_* (below -4095). autobuf_strerror() tells each in words.
 *   - Quantities carry their unit: _ns, _bytes, _bit_per_s. Times are CLOCK_MONOTONIC nanoseconds;
 *     AUTOBUF_NS_UNSET is "no time". A rate or size of 0 is "unknown".
 *   - Public structs begin with `size`: set them up with their _INIT macro. They grow at the end
 *     only; what an older program's struct has no room for is not written.
 *   - Handles are opaque, one thread at a time each, and dead in a forked child (AUTOBUF_E_FORKED).
 *   - The library never prints, exits, forks, starts a thread or touches a signal handler; only
 *     bwdelay(host) resolves names.
 *   - AUTOBUF=off in the environment (ignored in setuid programs) turns every act into "left
 *     alone": autobuf_tune() and autobuf_apply() change nothing and measure nothing.
 */
#ifndef AUTOBUF_AUTOBUF_H
#define AUTOBUF_AUTOBUF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/bwdelay.h>

#define AUTOBUF_VERSION_MAJOR 0
#define AUTOBUF_VERSION_MINOR 1
#define AUTOBUF_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------- errors */

/* AUTOBUF_E_* stand in <autobuf/bwdelay.h>. */

/* A static English text for any value that a call of this library returns; never NULL. */
AUTOBUF_API const char *autobuf_strerror(int error);

/* "0.1.0": the version of the library that is linked, to compare with AUTOBUF_VERSION_*. */
AUTOBUF_API const char *autobuf_version(void);

#define AUTOBUF_NS_UNSET UINT64_MAX

/* What a handle has to tell, one line at a time, without a line feed. user is the caller's own. */
typedef void autobuf_log_fn(void *user, const char *line);

/* --------------------------------------------------------------------------------------- path */

#define AUTOBUF_METHOD_NONE 0U
#define AUTOBUF_METHOD_ICMP 1U  /* trains of ICMP echoes */
#define AUTOBUF_METHOD_GIVEN 2U /* told by the caller, not measured */
#define AUTOBUF_METHOD_INBAND 3U /* trains over a TCP connection, each direction by itself */

#define AUTOBUF_PATH_TX_AT_LEAST 1U /* tx_rate is a lower bound: the trains could not be resolved */
#define AUTOBUF_PATH_RX_AT_LEAST 2U

/*
 * What is known of a path. tx is from here to the peer. Rates are capacity of the narrowest link,
 * not what cross traffic leaves of it, and count IP bytes, headers included. An echo sees only the
 * smaller of the two directions and reports that value for both.
 *
 * The product is rate x (round-trip time of one full-size segment and its acknowledgement), in IP
 * bytes as the rate: rate x rtt_min + one full packet - one small one.
 */
struct autobuf_path {
    uint32_t size;
    uint32_t method;                 /* AUTOBUF_METHOD_* */
    uint32_t flags;                  /* AUTOBUF_PATH_* */
    uint32_t samples;                /* replies that the result stands on */
    uint64_t rtt_min_ns;             /* of small packets; AUTOBUF_NS_UNSET: unknown */
    uint64_t rtt_median_ns;
    uint64_t tx_rate_bit_per_s;      /* 0: unknown */
    uint64_t tx_rate_low_bit_per_s;  /* where 80% of the trains' readings lie */
    uint64_t tx_rate_high_bit_per_s;
    uint64_t rx_rate_bit_per_s;
    uint64_t rx_rate_low_bit_per_s;
    uint64_t rx_rate_high_bit_per_s;
    uint64_t tx_bdp_bytes;           /* 0: unknown */
    uint64_t rx_bdp_bytes;
    uint64_t cost_bytes;             /* sent to find out, IP headers included */
    uint64_t elapsed_ns;             /* time it took */
    uint64_t measured_ns;            /* when; AUTOBUF_NS_UNSET: never */
    uint32_t packet_bytes;           /* full-size IP packet of this path; 0: unknown */
    uint32_t reserved;
};

#define AUTOBUF_PATH_INIT                                                                          \
    {                                                                                              \
        sizeof(struct autobuf_path), 0, 0, 0, AUTOBUF_NS_UNSET, AUTOBUF_NS_UNSET, 0, 0, 0, 0, 0,   \
            0, 0, 0, 0, 0, AUTOBUF_NS_UNSET, 0, 0                                                  \
    }

/*
 * A path of which the caller knows rate (bit/s, IP level, of the direction that is to be filled)
 * and round-trip time (ns, of a full-size segment): fills both directions and the products, which
 * are rate x time. -EINVAL: rate 0, or a time of 0 or above 1000 s.
 */
AUTOBUF_API int autobuf_path_given(struct autobuf_path *path, uint64_t rate_bit_per_s,
                                   uint64_t rtt_ns);

/*
 * TCP payload bytes of a product of IP bytes, for segments in packets of packet_bytes (0: 1500)
 * with the timestamp option (52 bytes of IPv4 and TCP header).
 */
AUTOBUF_API uint64_t autobuf_payload_bytes(uint64_t ip_bytes, uint32_t packet_bytes);

/* ---------------------------------------------------------------------------- probe: ICMP echo */

/*
 * Measuring a path with trains of ICMP echoes. Five small echoes find the round-trip time; a train
 * of 10 full-size ones, sent back to back, leaves the narrowest link spaced by its capacity; trains
 * grow (32 packets, then up to 256) until they last about 2 ms or the budget is used. On paths up to
 * about 200 Mbit/s that costs 64 KB. Three ways, on one core:
 *
 *   blocking  autobuf_probe(): one call.
 *   stepped   autobuf_probe_open(), then in the application's own loop: poll() fd for events until
 *             deadline_ns, then step(), until it answers 1.
 *   pure      autobuf_probe_open_pure(): no socket and no clock. next() gives the ICMP messages to
 *             send, reply() takes those received with their times.
 *
 * Capacity C = 8 k L / (t[i+k] - t[i]) for k adjacent replies of L IP bytes, t from the kernel's
 * receive time stamps; the estimate is the half-sample mode of those rates over windows of time; the
 * fastest cluster of single gaps, where cross traffic stretched the windows; or, where jitter or
 * batches tear the trains apart, a regression over the long ones. Sources:
 * Carter and Crovella 1996 (trains), Dovrolis, Ramanathan and Moore 2004 (modes; batches), Bickel
 * 2002 (half-sample mode). What an echo cannot see: the larger direction; available bandwidth; a
 * token bucket larger than the budget (it reads the peak rate).
 *
 * Each run carries a random token that replies, and requests that ICMP errors quote, must show, so an
 * off-path host cannot feed it numbers or stop it. If an error makes packets smaller in mid-run, the rates
 * are lower bounds. Foreign, duplicate, reordered, truncated and late replies are tolerated.
 */
struct autobuf_probe;

struct autobuf_probe_options {
    uint32_t size;
    uint32_t packet_bytes;         /* largest IP packet, 128 to 1500; 0: what the path takes */
    uint32_t budget_bytes;         /* IP bytes, 1,000 to 1,000,000; 0: 1,000,000 */
    uint32_t mark;                 /* SO_MARK for the probes (CAP_NET_ADMIN); 0: none */
    uint64_t timeout_ns;           /* 0, or above 2 s: 2 s. Ends 1 s + 2 RTT after the start at the
                                      latest, and 1 s after it if nothing at all answers */
    uint64_t bdp_low_bytes;        /* products of interest, IP bytes: more than the first, less than */
    uint64_t bdp_high_bytes;       /* the second. Ends as soon as the product is surely another one, or
                                      a first train gives a clear answer: after one round trip, as a
                                      rule. 0, 0: every product is, as precisely as may be */
    uint64_t silence_ns;           /* gives up if nothing at all answers for so long; 0, or above
                                      1 s: 1 s */
    const struct sockaddr *source; /* address to send from; NULL: the kernel's choice */
    autobuf_log_fn *log;           /* NULL: none */
    void *log_user;
    char device[16];               /* device to send from; "": the kernel's choice */
    uint32_t source_len;           /* bytes of *source */
    uint32_t reserved;
};

#define AUTOBUF_PROBE_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(struct autobuf_probe_options), 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, "", 0, 0      \
    }

/*
 * Opens a measurement of the path to peer (IPv4 or IPv6; the port is ignored). A ping socket is
 * tried first; where net.ipv4.ping_group_range forbids it, a raw socket, for which CAP_NET_RAW is
 * raised for that one call if it is permitted. All memory is allocated here. options may be NULL.
 * 0, and *probe is to be closed; -EACCES: neither is permitted; -EAFNOSUPPORT: another family;
 * -EINVAL: an option is out of range; -ENOMEM; -EADDRNOTAVAIL, -ENETUNREACH and other errnos of
 * socket(2), setsockopt(2), bind(2) and connect(2).
 */
AUTOBUF_API int autobuf_probe_open(struct autobuf_probe **probe, const struct sockaddr *peer,
                                   socklen_t peer_len, const struct autobuf_probe_options *options);

/* The descriptor to poll, the same for the handle's life; -1 for a pure handle. */
AUTOBUF_API int autobuf_probe_fd(const struct autobuf_probe *probe);

/* The events to poll it for (POLLIN, POLLOUT) until the next step. */
AUTOBUF_API int autobuf_probe_events(const struct autobuf_probe *probe);

/* When to call step() even if nothing happened. */
AUTOBUF_API uint64_t autobuf_probe_deadline_ns(const struct autobuf_probe *probe);

/*
 * Sends and receives what there is to send and receive at now_ns, without blocking.
 * 1: finished, see autobuf_probe_result(); 0: call again, at the deadline or when fd is ready;
 * -EHOSTUNREACH, -ENETUNREACH, -EHOSTDOWN, -ECONNREFUSED: said so by the network before anything
 * was answered; AUTOBUF_E_NOREPLY; AUTOBUF_E_FORKED; -EBADF: a pure handle; other errnos of sendmmsg(2) and recvmmsg(2).
 * After a failure the handle can only be closed.
 */
AUTOBUF_API int autobuf_probe_step(struct autobuf_probe *probe, uint64_t now_ns);

/*
 * What is known by now; after the last step, the result. path->size is set by the caller. 0;
 * AUTOBUF_E_NOREPLY: nothing; AUTOBUF_E_FEW: the round-trip time is known, but too few adjacent
 * replies came for a rate (those fields are 0).
 */
AUTOBUF_API int autobuf_probe_result(const struct autobuf_probe *probe, struct autobuf_path *path);

struct autobuf_probe_progress {
    uint32_t size;
    uint32_t trains;           /* begun, the small echoes not counted */
    uint32_t sent_packets;
    uint32_t received_packets;
    uint64_t cost_bytes;       /* sent so far, IP headers included */
    uint64_t elapsed_ns;       /* from opening to the newest reply, or to the end */
};

#define AUTOBUF_PROBE_PROGRESS_INIT { sizeof(struct autobuf_probe_progress), 0, 0, 0, 0, 0 }

/* How far it is. -EINVAL: progress->size is too small to hold anything. */
AUTOBUF_API int autobuf_probe_progress(const struct autobuf_probe *probe,
                                       struct autobuf_probe_progress *progress);

/*
 * The readings, in bit/s, out of which the rate was chosen, for a histogram: writes at most cap of
 * them to rates and returns how many there are; 0 where the rate is but a bound.
 */
AUTOBUF_API size_t autobuf_probe_rates(const struct autobuf_probe *probe, uint64_t *rates,
                                       size_t cap);

/* Closes the handle; NULL is allowed. */
AUTOBUF_API void autobuf_probe_close(struct autobuf_probe *probe);

/*
 * open, step until finished, result, close: blocks for 1 s plus two round trips at most, and for
 * 2 s at most. Errors of all four; with AUTOBUF_E_FEW the path holds the round-trip time.
 */
AUTOBUF_API int autobuf_probe(const struct sockaddr *peer, socklen_t peer_len,
                              const struct autobuf_probe_options *options,
                              struct autobuf_path *path);

/*
 * The pure form: no socket, no clock. family: AF_INET or AF_INET6; ident: the ICMP identifier;
 * token: 16 random bytes; now_ns: the start. deadline_ns(), result(), progress(), rates() and
 * close() serve this handle too. -EAFNOSUPPORT, -EINVAL, -ENOMEM.
 */
AUTOBUF_API int autobuf_probe_open_pure(struct autobuf_probe **probe, int family, uint16_t ident,
                                        const uint8_t token[16], uint64_t now_ns,
                                        const struct autobuf_probe_options *options);

/*
 * The next ICMP message to send at now_ns: writes it to buf and returns its length in bytes (at
 * most 1,480); 0: nothing before deadline_ns(); -ENOSPC: cap is too small; -ETIME: finished. Call
 * until it answers 0. The checksum is filled in for IPv4, zero for IPv6 (the kernel's task).
 */
AUTOBUF_API int autobuf_probe_next(struct autobuf_probe *probe, uint64_t now_ns, void *buf,
                                   size_t cap);

/*
 * An ICMP message of len bytes (without IP header) that was received at stamp_ns, of the same clock
 * as next()'s now_ns. 1: a reply of this run; 0: anything else, ignored.
 */
AUTOBUF_API int autobuf_probe_reply(struct autobuf_probe *probe, uint64_t stamp_ns, const void *buf,
                                    size_t len);

/* The path takes no IP packet larger than this: the following ones shrink. -EINVAL below 128. */
AUTOBUF_API int autobuf_probe_mtu(struct autobuf_probe *probe, uint32_t packet_bytes);

/* ------------------------------------------------------------------ in band: over a connection */

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
 * On the wire: lines of at most 500 bytes of ASCII, ended by CRLF, "AUTOBUF VERB ...":
 *
 *     AUTOBUF HELLO 1 train=N budget=N     and the same back: bytes of one train, and of all that are sent
 *                                          from there; without them there are none
 *     AUTOBUF TRAIN n                      back: the same with what n became, and n bytes of payload
 *     AUTOBUF SINK n, n bytes of payload   back: AUTOBUF SINK bytes=N nsec=N rate=N low=N high=N ...
 *     AUTOBUF RESULT rate=N ... rtt=N      and the same back, of the other direction: the end
 *     AUTOBUF SET rcv snd                  back: AUTOBUF SET rcv snd, as they took effect
 *     AUTOBUF ERROR code text              back, to anything else: 452 no budget is left, 500 unknown,
 *                                          501 a number is wrong, 503 out of turn
 *
 * A responder takes at most 512 lines in its life; the next one is AUTOBUF_E_PROTOCOL.
 *
 * A key that is not there is 0; TRAIN and SINK also tell how their sender is paced (pace=, paced=), a
 * reading whether it is sure and whether it is a bound (sure=1, atleast=1).
 *
 * Payload is lines as well: each begins with a blank, and holds letters, digits, + and /. Nothing that the peer
 * says is believed beyond what is plausible: sizes and counts are capped, no line holds an address, and
 * no second connection is ever made.
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

#define AUTOBUF_INBAND_TRAIN_MOST_BYTES 480000U /* no train is longer */

/*
 * A responder's peer asks for these buffer sizes, as setsockopt() takes them, on its behalf: 0 is the
 * kernel's choice. Change them to what took effect. They are the peer's wish: bound them.
 */
typedef void autobuf_inband_set_fn(void *user, uint64_t *rcv_bytes, uint64_t *snd_bytes);

#define AUTOBUF_INBAND_TEXT 0U /* lines of its own */
#define AUTOBUF_INBAND_FTP 1U  /* SITE AUTOBUF, on an FTP control connection:

       SITE AUTOBUF               211 AUTOBUF 1 maxrcv=N maxsnd=N train=N budget=N
       SITE AUTOBUF TRAIN n       211-AUTOBUF TRAIN n, and the lines of a reply that ends with 211
       SITE AUTOBUF SINK n        350, then n bytes from the client, then 211 bytes=N nsec=N ...
       SITE AUTOBUF SET rcv snd   200 AUTOBUF rcv=N snd=N

   There is no RESULT; a responder is over after each of them. It is handed commands in this form. */

#define AUTOBUF_INBAND_TX 1U    /* measure what is sent from here */
#define AUTOBUF_INBAND_RX 2U    /* and what comes back */
#define AUTOBUF_INBAND_GREET 4U /* say HELLO, and be over: begin() measures */

struct autobuf_inband_options {
    uint32_t size;
    uint32_t budget_bytes;      /* IP bytes of trains in each direction, of all exchanges of a handle,
                                   6,000 to 480,000; 0: 480,000 */
    uint64_t timeout_ns;        /* initiator: no round begins later; both: give up 2 s after it. 0:
                                   5 s; above 30 s: 30 s */
    autobuf_log_fn *log;        /* NULL: none */
    void *log_user;
    autobuf_inband_set_fn *set; /* NULL: 0 0 is the answer to any SET */
    void *set_user;
    char prefix[32];            /* what lines begin with instead of AUTOBUF; "": that */
    uint32_t dress;             /* AUTOBUF_INBAND_TEXT or AUTOBUF_INBAND_FTP */
    uint32_t flags;             /* an initiator's: AUTOBUF_INBAND_TX, _RX (neither: both), _GREET */
    uint64_t rcv_most_bytes;    /* a responder's: buffers that SET can give, to be told to the peer; 0: */
    uint64_t snd_most_bytes;    /* not told */
};

#define AUTOBUF_INBAND_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct autobuf_inband_options), 0, 0, NULL, NULL, NULL, NULL, "", 0, 0, 0, 0        \
    }

#define AUTOBUF_INBAND_PACED 1U /* the pace is surely kept: by bbr, SO_MAX_PACING_RATE or the queueing
                                   discipline fq */
#define AUTOBUF_INBAND_HOST_PACES 2U /* autobuf_inband_facts() has asked this host for its queueing */
#define AUTOBUF_INBAND_HOST_FREE 4U  /* disciplines: one is fq; or none is. Both: there was no answer */

/*
 * What the socket below knows, and the exchange must be told: at the beginning, and before each
 * input(), which may decide on a train. 0: unknown.
 */
struct autobuf_inband_facts {
    uint32_t size;
    uint32_t segment_bytes;   /* payload that travels as one packet: of a TCP segment, or of a TLS
                                 record that just fills one; 64 to 65,536, 0: 1448 */
    uint32_t packet_bytes;    /* IP bytes that it takes on the wire; 0: segment_bytes + 52 */
    uint32_t flags;           /* AUTOBUF_INBAND_PACED, _HOST_PACES, _HOST_FREE */
    uint64_t train_bytes;     /* that leave back to back now: congestion window, peer's window */
    uint64_t pace_bit_per_s;  /* of payload, at which the sender is, or may be, held back */
    uint64_t rtt_min_ns;      /* as TCP has seen it */
};

#define AUTOBUF_INBAND_FACTS_INIT { sizeof(struct autobuf_inband_facts), 0, 0, 0, 0, 0, 0 }

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
AUTOBUF_API int autobuf_inband_state(const struct autobuf_inband *inband);

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
 * After AUTOBUF_INBAND_GREET, when an initiator is over: measures in these directions (0: both), and it
 * goes on. May be repeated, within the budget. -EINVAL: not now; -ENOMEM.
 */
AUTOBUF_API int autobuf_inband_begin(struct autobuf_inband *inband, uint64_t now_ns,
                                     uint32_t directions);

/*
 * Buffer sizes that the peer says it can set; 0: it does not say, and an initiator never does. -ENODATA: no
 * HELLO came from it yet.
 */
AUTOBUF_API int autobuf_inband_peer(const struct autobuf_inband *inband, uint64_t *rcv_bytes,
                                    uint64_t *snd_bytes);

/*
 * When an initiator is over: asks the peer for buffer sizes, and it goes on. Once it is over again, took()
 * gives what took effect: 0 is the kernel's choice. -EINVAL: not now; took() -ENODATA: no answer, or an
 * error.
 */
AUTOBUF_API int autobuf_inband_set(struct autobuf_inband *inband, uint64_t now_ns,
                                   uint64_t rcv_bytes, uint64_t snd_bytes);
AUTOBUF_API int autobuf_inband_took(const struct autobuf_inband *inband, uint64_t *rcv_bytes,
                                    uint64_t *snd_bytes);

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
 * Sends and receives what there is, without blocking. As state(), and -ENOTCONN: the peer has closed the
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

/* ------------------------------------------------------------------- limits: host and socket */

#define AUTOBUF_LIMITS_RCV_AUTOTUNING 1U /* net.ipv4.tcp_moderate_rcvbuf */
#define AUTOBUF_LIMITS_WINDOW_SCALING 2U /* net.ipv4.tcp_window_scaling */
#define AUTOBUF_LIMITS_FORCE 4U          /* SO_SNDBUFFORCE and SO_RCVBUFFORCE are permitted */

/*
 * This host's limits, in the network namespace of the calling thread. "stored" is what the kernel
 * keeps for a buffer and what getsockopt() shows: twice what setsockopt() is handed.
 */
struct autobuf_limits {
    uint32_t size;
    uint32_t flags;                  /* AUTOBUF_LIMITS_* */
    uint64_t snd_settable_bytes;     /* largest n that SO_SNDBUF takes: net.core.wmem_max */
    uint64_t rcv_settable_bytes;     /* largest n that SO_RCVBUF takes: net.core.rmem_max */
    uint64_t tcp_wmem_min_bytes;     /* net.ipv4.tcp_wmem, stored */
    uint64_t tcp_wmem_default_bytes;
    uint64_t tcp_wmem_max_bytes;     /* autotuning's limit */
    uint64_t tcp_rmem_min_bytes;     /* net.ipv4.tcp_rmem, stored */
    uint64_t tcp_rmem_default_bytes;
    uint64_t tcp_rmem_max_bytes;
    uint64_t tcp_mem_bytes;          /* memory of all TCP sockets at which pressure begins
                                        (net.ipv4.tcp_mem); where that is not visible, outside the
                                        first network namespace, 1/16 of MemAvailable, as the
                                        kernel itself would choose; 0: unknown, nothing is forced */
    uint64_t page_bytes;             /* unit of net.ipv4.tcp_mem; 0: 4096 */
    uint64_t tcp_used_bytes;         /* memory of all TCP sockets of this host now */
    uint64_t forced_bytes;           /* stored, of all send buffers here that are larger than
                                        tcp_wmem_max_bytes and than anybody may set; UINT64_MAX:
                                        unknown. Both 0 where nothing may be forced */
    uint64_t request_most_bytes;     /* the caller's: nothing larger is requested, as setsockopt()
                                        takes it; 0: no such bound */
};

#define AUTOBUF_LIMITS_INIT                                                                        \
    {                                                                                              \
        sizeof(struct autobuf_limits), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                    \
    }

/*
 * Reads them from /proc and checks the settable ones on a scratch socket. Where /proc is not
 * there, the kernel's defaults stand in (and the scratch socket's values). Where sizes may be forced, this
 * takes some 2 microseconds more for each TCP connection of the host. 0, -EINVAL (size), or an errno of
 * socket(2).
 */
AUTOBUF_API int autobuf_limits_host(struct autobuf_limits *limits);

#define AUTOBUF_STAGE_NEW 0U       /* before connect() and listen() */
#define AUTOBUF_STAGE_LISTENING 1U
#define AUTOBUF_STAGE_CONNECTED 2U /* connected, accepted, or its SYN is out */

#define AUTOBUF_LOCK_SND 1U /* SO_SNDBUF was set: autotuning of that side is off */
#define AUTOBUF_LOCK_RCV 2U

/* The state of one TCP socket. */
struct autobuf_socket {
    uint32_t size;
    uint32_t stage;          /* AUTOBUF_STAGE_* */
    uint32_t locks;          /* AUTOBUF_LOCK_*; before Linux 5.15 unknown and 0 */
    uint32_t mss_bytes;      /* 0: not known yet */
    uint64_t snd_buf_bytes;  /* stored */
    uint64_t rcv_buf_bytes;  /* stored */
    uint64_t snd_window_max_bytes; /* the largest window that the connection's window scale, fixed in */
    uint64_t rcv_window_max_bytes; /* the SYN, can tell (RFC 7323); 0: not fixed yet, or unknown */
    uint64_t rtt_min_ns;     /* as TCP has seen it; 0: unknown */
};

#define AUTOBUF_SOCKET_INIT { sizeof(struct autobuf_socket), 0, 0, 0, 0, 0, 0, 0, 0 }

/* Reads it. -EBADF, -ENOTSOCK; -EOPNOTSUPP: not a TCP socket; -EINVAL (size). */
AUTOBUF_API int autobuf_limits_socket(int fd, struct autobuf_socket *socket);

/* --------------------------------------------------------------------------------------- plan */

#define AUTOBUF_INTENT_THROUGHPUT 0U
#define AUTOBUF_INTENT_LOW_DELAY 1U
/* May be added to either, where only one direction carries bulk data: the other side of the socket is
   then left alone, and nothing is measured for it. */
#define AUTOBUF_INTENT_SENDS 16U
#define AUTOBUF_INTENT_RECEIVES 32U

#define AUTOBUF_REASON_UNKNOWN 0U /* "unknown": too little is known of the path; left alone */
#define AUTOBUF_REASON_KERNEL 1U  /* "kernel": autotuning reaches it; left alone */
#define AUTOBUF_REASON_SET 2U     /* "set": a buffer is set, and reaches what the path needs; or, for
                                     low delay, a pacing rate is */
#define AUTOBUF_REASON_CAPPED 3U  /* "capped": a sysctl stands in the way; the request, if there is
                                     one, is the best that is allowed */
#define AUTOBUF_REASON_LARGER 4U  /* "larger": the buffer is larger already; left alone */
#define AUTOBUF_REASON_LATE 5U    /* "late": the window scale is fixed already; what is done, if
                                     anything, is the best that it allows */
#define AUTOBUF_REASON_OFF 6U     /* "off": AUTOBUF=off */

/*
 * The request is beyond net.core.wmem_max: SO_SNDBUFFORCE. One such buffer is at most 1/8 of tcp_mem_bytes,
 * all of them together with whatever else TCP holds at most 1/2, and no more than 32 MB are forced (stored)
 * before TCP itself has seen the path's round-trip time.
 */
#define AUTOBUF_PLAN_SND_FORCE 1U
#define AUTOBUF_PLAN_SND_UNLOCK 2U /* give the side back to autotuning (SO_BUF_LOCK) */
#define AUTOBUF_PLAN_RCV_UNLOCK 4U
#define AUTOBUF_PLAN_SND_AT_LEAST 8U /* what is wanted is but a lower bound */
#define AUTOBUF_PLAN_RCV_AT_LEAST 16U

/* Bits, for more than one may stand in the way. */
#define AUTOBUF_SYSCTL_NONE 0U
#define AUTOBUF_SYSCTL_WMEM_MAX 1U /* net.core.wmem_max */
#define AUTOBUF_SYSCTL_TCP_RMEM 2U /* net.ipv4.tcp_rmem, third value */
#define AUTOBUF_SYSCTL_WINDOW_SCALING 4U  /* net.ipv4.tcp_window_scaling */
#define AUTOBUF_SYSCTL_TCP_MEM 8U         /* net.ipv4.tcp_mem, of which one socket may pin 1/8 */
#define AUTOBUF_SYSCTL_MODERATE_RCVBUF 16U /* net.ipv4.tcp_moderate_rcvbuf */

/*
 * What to do for a socket and what it is expected to give. Windows are TCP payload bytes, requests
 * are what setsockopt() is to be handed.
 */
struct autobuf_plan {
    uint32_t size;
    uint32_t intent;                /* AUTOBUF_INTENT_* */
    uint32_t flags;                 /* AUTOBUF_PLAN_* */
    uint32_t snd_reason;            /* AUTOBUF_REASON_* */
    uint32_t rcv_reason;
    uint32_t snd_sysctl;            /* AUTOBUF_SYSCTL_* bits: what stands in the way */
    uint32_t rcv_sysctl;
    uint32_t reserved;
    uint64_t rtt_ns;                /* of the path that it was made for; AUTOBUF_NS_UNSET */
    uint64_t snd_wanted_bytes;      /* window that the path needs; 0: unknown */
    uint64_t snd_request_bytes;     /* 0: leave alone */
    uint64_t snd_window_bytes;      /* expected with the plan; 0: unknown */
    uint64_t snd_kernel_bytes;      /* expected without it */
    uint64_t snd_needed_bytes;      /* stored, for what is wanted; 0: unknown */
    uint64_t snd_pacing_bit_per_s;  /* payload rate for SO_MAX_PACING_RATE; 0: leave alone;
                                       UINT64_MAX: no limit */
    uint64_t rcv_wanted_bytes;
    uint64_t rcv_request_bytes;
    uint64_t rcv_window_bytes;
    uint64_t rcv_kernel_bytes;
    uint64_t rcv_needed_bytes;
    uint64_t rcv_clamp_bytes;       /* for TCP_WINDOW_CLAMP; 0: none */
};

#define AUTOBUF_PLAN_INIT                                                                          \
    {                                                                                              \
        sizeof(struct autobuf_plan), 0, 0, 0, 0, 0, 0, 0, AUTOBUF_NS_UNSET, 0, 0, 0, 0, 0, 0, 0,   \
            0, 0, 0, 0, 0                                                                          \
    }

/*
 * Pure: path, limits and the socket's state in, plan out. intent: AUTOBUF_INTENT_*; expected_bytes:
 * how much will be transferred, 0: unknown. A side is set only where autotuning cannot reach the
 * product and the settable maximum is more than autotuning's; a side that was set smaller than that is
 * given back to autotuning. The receive side is best helped before connect(), or on a listener for its
 * later connections: afterwards only as far as the window scale allows. For low delay the send side is
 * paced just below the path's rate, and both sides are held just above its product; the rate of an
 * echo being the smaller direction's, the larger one is then held to it too. -EINVAL: a size, or the
 * intent.
 */
AUTOBUF_API int autobuf_plan_make(const struct autobuf_path *path,
                                  const struct autobuf_limits *limits,
                                  const struct autobuf_socket *socket, uint32_t intent,
                                  uint64_t expected_bytes, struct autobuf_plan *plan);

/*
 * Whether measuring can pay for a transfer of expected_bytes (0: unknown) on this host: 1, or 0 if
 * no plausible result (up to 10 Gbit/s, at the socket's round-trip time if that is known) could change
 * the plan, or the transfer would end before a better window made up for the wait. A receive window that
 * autotuning takes to 16 MB is no reason to measure: few senders fill more. *bdp_low_bytes and
 * *bdp_high_bytes, if not NULL, become the products of interest, for struct autobuf_probe_options.
 * -EINVAL.
 */
AUTOBUF_API int autobuf_plan_worth(const struct autobuf_limits *limits,
                                   const struct autobuf_socket *socket, uint32_t intent,
                                   uint64_t expected_bytes, uint64_t *bdp_low_bytes,
                                   uint64_t *bdp_high_bytes);

/* "kernel", "set", ... for an AUTOBUF_REASON_*; "?" for any other value. */
AUTOBUF_API const char *autobuf_reason_name(uint32_t reason);

/*
 * Two plain English lines, one a side, each ending in a line feed, cut at cap bytes with the final
 * zero. Returns the length that all of it has, like snprintf(3); -EINVAL (size).
 */
AUTOBUF_API int autobuf_plan_explain(const struct autobuf_plan *plan, char *buf, size_t cap);

/*
 * The index-th line (0, 1, ...) that an administrator must change, as sysctl(8) takes it:
 * "net.core.wmem_max=16777216". limits supplies the parts of a triple that stay. Returns its
 * length, as snprintf(3); 0: there is no such line; -EINVAL (a size).
 */
AUTOBUF_API int autobuf_plan_sysctl(const struct autobuf_plan *plan,
                                    const struct autobuf_limits *limits, unsigned index, char *buf,
                                    size_t cap);

/* -------------------------------------------------------------------------------- apply, tune */

/*
 * Carries a plan out on a TCP socket, and reads back what the kernel made of it. Where it makes a send buffer
 * larger, TCP_NOTSENT_LOWAT becomes 512 KB, if it was more: the buffer is there for what is in flight. 1: something was set;
 * 0: the plan left everything alone, or AUTOBUF=off. On failure the socket is as it was: -EBADF,
 * -ENOTSOCK, -EOPNOTSUPP, -EINVAL (size; a receive buffer for a connection without a window clamp),
 * -EPERM (a forced size without CAP_NET_ADMIN), AUTOBUF_E_LIMITED (the kernel gave less than the plan
 * asked for: the limits are not those that it was made for), other errnos of setsockopt(2).
 */
AUTOBUF_API int autobuf_apply(int fd, const struct autobuf_plan *plan);

#define AUTOBUF_UNLOCK_LATE 4U

/*
 * Gives sides (AUTOBUF_LOCK_* bits) of a TCP socket, whose buffers were set, back to autotuning: best
 * before connect() or listen(), or on a listener for its later connections. The receive side of a
 * connection is reopened as far as its window scale allows.
 *
 * Returns the sides that were locked and no longer are, 0 if none was. AUTOBUF_UNLOCK_LATE in it: the
 * receive side is autotuned again, but the window scale, fixed in the SYN out of the small buffer,
 * keeps its window below what autotuning would reach. -EOPNOTSUPP: not a TCP socket; -ENOPROTOOPT:
 * before Linux 5.15; -EBADF, -ENOTSOCK, -EINVAL (sides). AUTOBUF=off: 0.
 */
AUTOBUF_API int autobuf_unlock(int fd, uint32_t sides);

struct autobuf_options {
    uint32_t size;
    uint32_t intent;         /* AUTOBUF_INTENT_*; default throughput */
    uint64_t expected_bytes; /* how much will be transferred; 0: unknown */
    uint64_t timeout_ns;     /* for measuring; 0: 2 s, which is also the most, and 0.3 s where nothing
                                at all answers */
    autobuf_log_fn *log;     /* told what was measured and decided; NULL: none */
    void *log_user;
    uint32_t budget_bytes;   /* for measuring; 0: 1,000,000, which is also the most */
    uint32_t mark;           /* the socket's own SO_MARK is used where this is 0 */
    uint32_t streams;        /* connections that share the transfer and the path, 1 to 65,535; 0: 1.
                                Each is then to hold its part of the product */
    uint32_t reserved;
};

#define AUTOBUF_OPTIONS_INIT { sizeof(struct autobuf_options), 0, 0, 0, NULL, NULL, 0, 0, 0, 0 }

/* What autobuf_tune() found and did. A NULL pointer: of no interest. */
struct autobuf_applied {
    uint32_t size;
    int32_t measured;              /* 1: measured; 0: measuring could not have paid; negative: it
                                      failed, with this error */
    struct autobuf_path *path;     /* each with its own size set */
    struct autobuf_limits *limits;
    struct autobuf_plan *plan;
};

#define AUTOBUF_APPLIED_INIT { sizeof(struct autobuf_applied), 0, NULL, NULL, NULL }

/*
 * The whole circle in one call: measure the path to peer if that can pay, plan, apply. Call it on a
 * TCP socket before connect(), or with peer NULL before listen() (nothing is measured then) or once
 * connected (the path to its peer is). The probes leave from the socket's own source address, device
 * and mark. options and applied may be NULL. A measurement takes one round trip as a rule; one that
 * fails is not a failure: the plan then says "unknown" and the socket is left alone. A transfer of up
 * to 1 MB is left alone at once, as long as applied->limits is NULL and no buffer of the socket was set.
 *
 * 1: something was set; 0: left alone; on failure the socket is as it was: errors of
 * autobuf_limits_socket() and autobuf_apply(), -EINVAL.
 */
AUTOBUF_API int autobuf_tune(int fd, const struct sockaddr *peer, socklen_t peer_len,
                             const struct autobuf_options *options,
                             struct autobuf_applied *applied);

/* ------------------------------------------------------------------------------------ live */

/*
 * The same circle for an open connection: look at it about once a round trip, find what limits it, and
 * if that is a buffer, enlarge that one: at most to twice of what it was, to twice the product that was
 * seen, and to what the limits allow. No more is set than autobuf_apply() would; a receive buffer is
 * never made smaller. With AUTOBUF_INTENT_LOW_DELAY the sender's pace is moderated too: below the
 * rate of delivery while a queue stands (the round-trip time is well above its least), up again when it
 * is gone, and never above a pacing rate that the socket had at open(). Sends nothing of its own.
 * Sources: Fisk and Feng 2001 (right-sizing), Ubik and Cimbal 2003 (moderation).
 *
 * Stepped: call step() when deadline_ns() has come, from whatever loop moves the data. fd stays the
 * caller's; it is remembered by its socket cookie, so a descriptor that was closed and reused is not
 * touched.
 */
struct autobuf_live;

#define AUTOBUF_LIMITED_UNKNOWN 0U    /* "unknown" */
#define AUTOBUF_LIMITED_IDLE 1U       /* "idle": nothing moves */
#define AUTOBUF_LIMITED_SENDER 2U     /* "sender": the program here has nothing more to send */
#define AUTOBUF_LIMITED_PATH 3U       /* "path": congestion control; nothing stands in its way */
#define AUTOBUF_LIMITED_SND_BUFFER 4U /* "send-buffer" */
#define AUTOBUF_LIMITED_PEER 5U       /* "peer": its window, or what it sends */
#define AUTOBUF_LIMITED_RCV_BUFFER 6U /* "receive-buffer" */

/* "path", "send-buffer", ... for an AUTOBUF_LIMITED_*; "?" for any other value. */
AUTOBUF_API const char *autobuf_limited_name(uint32_t limited);

#define AUTOBUF_LIVE_LOOK_ONLY 1U /* step() sets nothing */

struct autobuf_live_options {
    uint32_t size;
    uint32_t intent;       /* AUTOBUF_INTENT_* */
    autobuf_log_fn *log;   /* told each change: old, new, why; NULL: none */
    void *log_user;
    uint32_t flags;        /* AUTOBUF_LIVE_* */
    uint32_t reserved;
    uint64_t most_bytes;   /* no buffer is set larger, as setsockopt() takes it; 0: what the host
                              allows */
};

#define AUTOBUF_LIVE_OPTIONS_INIT { sizeof(struct autobuf_live_options), 0, NULL, NULL, 0, 0, 0 }

/*
 * Begins with an open TCP connection. options may be NULL. -EOPNOTSUPP: not a TCP socket; -ENOTCONN:
 * before connect(), or a listener; -EBADF, -ENOTSOCK, -EINVAL (size, intent, flags), -ENOMEM.
 */
AUTOBUF_API int autobuf_live_open(struct autobuf_live **live, int fd,
                                  const struct autobuf_live_options *options);

/*
 * The same connection is at another descriptor from now on. For who holds one but for the time of a
 * step: a duplicate of another process's (pidfd_getfd(2)) keeps the connection open for as long as it
 * is held. -ESTALE: it is another socket; -EBADF, -ENOTSOCK.
 */
AUTOBUF_API int autobuf_live_move(struct autobuf_live *live, int fd);

/* When to call step(). */
AUTOBUF_API uint64_t autobuf_live_deadline_ns(const struct autobuf_live *live);

/*
 * Looks and acts, if it is time. 1: something was changed; 0: nothing; -ENOTCONN: the connection is
 * over; -EBADF, -ENOTSOCK, -ESTALE: the descriptor was closed, or is another socket's by now;
 * AUTOBUF_E_FORKED; errors of autobuf_apply(). After -ENOTCONN, -EBADF, -ENOTSOCK and -ESTALE it can only be
 * closed.
 */
AUTOBUF_API int autobuf_live_step(struct autobuf_live *live, uint64_t now_ns);

/* What was seen at the newest look. Rates are of payload. */
struct autobuf_live_state {
    uint32_t size;
    uint32_t limited;            /* AUTOBUF_LIMITED_* */
    uint32_t changes;            /* made so far */
    uint32_t retransmits;        /* packets, since the connection began */
    uint64_t rtt_ns;
    uint64_t rtt_min_ns;
    uint64_t sent_bit_per_s;     /* acknowledged, over the last round trip or so */
    uint64_t received_bit_per_s;
    uint64_t snd_buf_bytes;      /* stored */
    uint64_t rcv_buf_bytes;
    uint64_t in_flight_bytes;
    uint64_t cwnd_bytes;
    uint64_t peer_window_bytes;
    uint64_t notsent_bytes;
    uint64_t pacing_bit_per_s;   /* as set by this handle; 0: none */
    uint64_t sent_bytes;         /* acknowledged, since the connection began */
    uint64_t received_bytes;
};

#define AUTOBUF_LIVE_STATE_INIT                                                                    \
    {                                                                                              \
        sizeof(struct autobuf_live_state), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0          \
    }

/* -EINVAL: a size. */
AUTOBUF_API int autobuf_live_state(const struct autobuf_live *live,
                                   struct autobuf_live_state *state);

/*
 * Closes the handle, not the connection: buffers stay as they are; a pace, which only helps as long as it
 * is moderated, is put back to what it was. NULL is allowed.
 */
AUTOBUF_API void autobuf_live_close(struct autobuf_live *live);

/* --------------------------------------------------- FTP: a control and its data connections */

/*
 * What FTP's clients and servers share: the path is measured over the control connection, or by ICMP, and
 * what was found is set on the data connections between the same two hosts: the receive side before listen()
 * or connect(), the send side once the peer is known. Each is then looked after as autobuf_live_step() does.
 * Any protocol with a connection for control and others for data can do the same.
 *
 * One handle a session. Opened before a program calls chroot(2) or gives privilege up, it knows this host's
 * limits for good. Nothing is ever sent but on the control connection, and to its peer.
 */
struct autobuf_ftp;

#define AUTOBUF_FTP_CLIENT 1U
#define AUTOBUF_FTP_SERVER 2U

/*
 * Where the control connection is more than its socket (TLS): both move up to len bytes before
 * deadline_ns, and return how many, 0 at the end of the connection, or -errno (-ETIMEDOUT). read() also tells when
 * the last of them arrived, of the monotonic clock; write() may put each segment_bytes into a record of its own.
 */
typedef int64_t autobuf_ftp_read_fn(void *user, void *buf, size_t len, uint64_t deadline_ns,
                                    uint64_t *stamp_ns);
typedef int64_t autobuf_ftp_write_fn(void *user, const void *buf, size_t len, size_t segment_bytes,
                                     uint64_t deadline_ns);

struct autobuf_ftp_options {
    uint32_t size;
    uint32_t record_bytes;      /* that a record of TLS takes besides its payload; 0: none */
    uint64_t most_bytes;        /* no buffer is set larger, as setsockopt() takes it; 0: what the host
                                   allows, and for a server, whose clients say what they want,
                                   16,000,000 */
    autobuf_log_fn *log;        /* told what was measured, decided and set; NULL: none */
    void *log_user;
    autobuf_ftp_read_fn *read;  /* both, or NULL: the socket is read and written */
    autobuf_ftp_write_fn *write;
    void *io_user;
};

#define AUTOBUF_FTP_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(struct autobuf_ftp_options), 0, 0, NULL, NULL, NULL, NULL, NULL                     \
    }

/*
 * Begins with a connected control connection. options may be NULL. -EINVAL: role, an option; -EOPNOTSUPP:
 * not a TCP socket; -ENOTCONN, -ENOMEM, -EBADF, -ENOTSOCK. AUTOBUF_E_OFF: AUTOBUF=off.
 */
AUTOBUF_API int autobuf_ftp_open(struct autobuf_ftp **ftp, uint32_t role, int control_fd,
                                 const struct autobuf_ftp_options *options);

/* Closes the handle, no connection. NULL is allowed. */
AUTOBUF_API void autobuf_ftp_close(struct autobuf_ftp *ftp);

#define AUTOBUF_FTP_BY_INBAND 1U /* the server says, in FEAT or HELP SITE, that it has SITE AUTOBUF */
#define AUTOBUF_FTP_BY_ICMP 2U
#define AUTOBUF_FTP_PEER_SETS 4U  /* the server has another command for its buffers, and will be told */

/*
 * A client, before PASV or PORT, with no reply outstanding: measures if that can pay for a transfer of
 * expected_bytes (0: unknown) in a direction, AUTOBUF_INTENT_SENDS or AUTOBUF_INTENT_RECEIVES, and was not done
 * yet, and tells a server with SITE AUTOBUF what to set. A server that does not answer as it should is
 * asked no more. Blocks, as a rule for 3 to 8 round trips in band, for one by ICMP.
 *
 * 1: measured; 0: not, and the log says why. -ECONNRESET, -ETIMEDOUT, AUTOBUF_E_PROTOCOL: the control connection
 * is gone or out of step: close it. -EINVAL: ways, direction, or a server's handle.
 */
AUTOBUF_API int autobuf_ftp_measure(struct autobuf_ftp *ftp, uint32_t ways, uint32_t direction,
                                    uint64_t expected_bytes);

/*
 * After measure() by ICMP: the buffer that a server with another command for it (SITE BUFSIZE, SBUF) is to
 * set, if it is a host like this one; 0: none, leave it to its kernel.
 */
AUTOBUF_API uint64_t autobuf_ftp_peer_bytes(const struct autobuf_ftp *ftp, uint32_t direction);

/*
 * A server, after login: answers a command, the line of len bytes without its CRLF, and all that belongs to it;
 * the reply is sent from here. 1: done; 0: it is not SITE AUTOBUF, nothing was sent. Below 0: the control
 * connection is out of step or gone: say 421 and close it.
 */
AUTOBUF_API int autobuf_ftp_answer(struct autobuf_ftp *ftp, const char *line, size_t len);

/*
 * A new data connection, before connect() to peer, or with peer NULL before listen(); at most one is looked
 * after at a time. 1: something was set; 0: left alone. What was measured counts for the control
 * connection's peer alone. Errors of autobuf_limits_socket() and autobuf_apply(): it is as it was.
 */
AUTOBUF_API int autobuf_ftp_data_begin(struct autobuf_ftp *ftp, int fd, const struct sockaddr *peer,
                                       socklen_t peer_len, uint32_t direction,
                                       uint64_t expected_bytes);

/* It is connected, or was accepted from a listener: once for each transfer. As data_begin(). */
AUTOBUF_API int autobuf_ftp_data_connected(struct autobuf_ftp *ftp, int fd, uint32_t direction,
                                           uint64_t expected_bytes);

/* To be called at every turn of the loop that moves the data: looks after it when it is time. 1: something
   was changed; 0. */
AUTOBUF_API int autobuf_ftp_data_step(struct autobuf_ftp *ftp);

/* When it is time; AUTOBUF_NS_UNSET: there is nothing to look after. */
AUTOBUF_API uint64_t autobuf_ftp_data_deadline_ns(const struct autobuf_ftp *ftp);

/* The data connection is about to be closed, or is closed. Also when there is none. */
AUTOBUF_API void autobuf_ftp_data_end(struct autobuf_ftp *ftp);

/* ------------------------------------------------------------------------------- rightsize */

/*
 * Dynamic Right-Sizing of any credit window: an SSH channel, an HTTP/2 or QUIC stream, a queue of
 * requests. Whoever grants the credit tells what it consumed, and when, and is told how large a window
 * to keep open. Pure: no socket, no clock; any monotonic clock in nanoseconds will do.
 *
 * A sender sends at most a window in a round trip, so what came in one is the least that its window must
 * have been; granting at least twice as much lets it grow as fast as slow start does, and keeps it
 * limited by the path, not by the credit. d bytes in a time t were n round trips, ceil(t / rtt) <= n <
 * floor(t / rtt) + 2, and the sender's window w was d / n_max <= w <= d / n_min. Source: Fisk and Feng,
 * "Dynamic Right-Sizing: TCP Flow-Control Adaptation", 2001, equations (1) to (3).
 *
 * The window is at most 4 x (best rate) x (least round-trip time), so that a queue of its own making
 * does not feed it, and what was added without raising the rate is taken back, down to twice that
 * product. A slow reader, idle times and gaps do not make it grow. It never falls below where it began.
 */
struct autobuf_rightsize;

struct autobuf_rightsize_options {
    uint32_t size;
    uint32_t reserved;
    uint64_t window_bytes; /* at the beginning, and at least; 0: 65,536, or the cap if that is less */
    uint64_t cap_bytes;    /* at most; 0: 67,108,864 */
    autobuf_log_fn *log;   /* told each change: old, new, why; NULL: none */
    void *log_user;
};

#define AUTOBUF_RIGHTSIZE_OPTIONS_INIT                                                             \
    {                                                                                              \
        sizeof(struct autobuf_rightsize_options), 0, 0, 0, NULL, NULL                              \
    }

/* -ENOMEM; -EINVAL: cap_bytes is below window_bytes, or a size. options may be NULL. */
AUTOBUF_API int autobuf_rightsize_open(struct autobuf_rightsize **rightsize,
                                       const struct autobuf_rightsize_options *options);

AUTOBUF_API void autobuf_rightsize_close(struct autobuf_rightsize *rightsize);

/*
 * The application consumed bytes more (0: only the time passes). Returns the window to keep open from
 * now on: credit to grant is that, less what is granted and not yet consumed. It may be less than that,
 * as credit cannot be recalled: then grant nothing.
 */
AUTOBUF_API uint64_t autobuf_rightsize_consumed(struct autobuf_rightsize *rightsize,
                                                uint64_t now_ns, uint64_t bytes);

/* The round-trip time as it is now (of the transport, or from request to reply); 0 is ignored. */
AUTOBUF_API void autobuf_rightsize_rtt(struct autobuf_rightsize *rightsize, uint64_t rtt_ns);

/*
 * Where no round-trip time can be told, it is estimated from these two: bytes of credit were granted,
 * bytes were received (not necessarily consumed yet). From the grant to the first byte that needed it is
 * a round trip, or more, if the sender had nothing to send; so the least of several counts.
 */
AUTOBUF_API void autobuf_rightsize_granted(struct autobuf_rightsize *rightsize, uint64_t now_ns,
                                           uint64_t bytes);
AUTOBUF_API void autobuf_rightsize_received(struct autobuf_rightsize *rightsize, uint64_t now_ns,
                                            uint64_t bytes);

/* What was under way is no measure: a rekey, a suspended process, a paused stream. */
AUTOBUF_API void autobuf_rightsize_gap(struct autobuf_rightsize *rightsize, uint64_t now_ns);

/* What is known, for a log or a display. */
struct autobuf_rightsize_state {
    uint32_t size;
    uint32_t measured;           /* round trips that were measured */
    uint64_t window_bytes;       /* to keep open */
    uint64_t rtt_ns;             /* now; 0: unknown */
    uint64_t rtt_min_ns;
    uint64_t rate_byte_per_s;    /* of the newest measurement; 0: none yet */
    uint64_t best_byte_per_s;
    uint64_t sender_low_bytes;   /* the sender's window, by (1), was between these */
    uint64_t sender_high_bytes;
};

#define AUTOBUF_RIGHTSIZE_STATE_INIT                                                               \
    {                                                                                              \
        sizeof(struct autobuf_rightsize_state), 0, 0, 0, 0, 0, 0, 0, 0                             \
    }

/* -EINVAL: a size. */
AUTOBUF_API int autobuf_rightsize_state(const struct autobuf_rightsize *rightsize,
                                        struct autobuf_rightsize_state *state);

#ifdef __cplusplus
}
#endif

#endif

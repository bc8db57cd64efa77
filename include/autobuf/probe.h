/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/probe.h>: measuring a path with trains of ICMP echoes.
 */
#ifndef AUTOBUF_PROBE_H
#define AUTOBUF_PROBE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <autobuf/path.h>

#ifdef __cplusplus
extern "C" {
#endif

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
/* As AUTOBUF_PROBE_OPTIONS_INIT; size: sizeof(struct autobuf_probe_options). */
AUTOBUF_API void autobuf_probe_options_init(struct autobuf_probe_options *options, uint32_t size);

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
/* As AUTOBUF_PROBE_PROGRESS_INIT; size: sizeof(struct autobuf_probe_progress). */
AUTOBUF_API void autobuf_probe_progress_init(struct autobuf_probe_progress *progress, uint32_t size);

/* How far it is. -EINVAL: progress->size is too small to hold anything. */
AUTOBUF_API int autobuf_probe_progress(const struct autobuf_probe *probe,
                                       struct autobuf_probe_progress *progress);

/*
 * The readings, in bit/s, out of which the rate was chosen, for a histogram: writes at most cap of
 * them to rates (NULL: none) and returns how many there are; 0 where the rate is but a bound.
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

#ifdef __cplusplus
}
#endif

#endif

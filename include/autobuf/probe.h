/* SPDX-License-Identifier: MIT */
/*
 * <autobuf/probe.h>: measures a path with trains of ICMP echoes.
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
 * Measures a path with trains of ICMP echoes.
 *
 * Five small echoes find the round-trip time; if they come back in a bunch, because address resolution or a radio
 * that had to wake up held them up, one more does. Then a train of 10 full-size echoes leaves back to back. The
 * narrowest link spaces its packets, and the spacing of the replies gives the link's capacity. Longer trains
 * follow (32 packets, then up to 256) until one lasts about 2 ms or the budget is used. As a rule that costs at most
 * 64 KB on a path of up to 100 or 200 Mbit/s. While trains disagree, up to six more of 42 packets follow; never
 * more than 1 MB in all. There are two forms of one core:
 *
 *   blocking  autobuf_probe(): one call.
 *   stepped   autobuf_probe_open(). The application's own loop waits with poll() for the events of fd until
 *             deadline_ns, then calls step(), until step() returns 1.
 *
 * For k adjacent replies of L IP bytes, received at the times t that the kernel stamped, the capacity is C = 8 k L
 * / (t[i+k] - t[i]). The result is the half-sample mode of these readings, taken over windows of time. Two cases
 * differ. Where cross traffic stretched the windows, the fastest cluster of single gaps counts. Where jitter or
 * batches tore the trains apart, a regression over the long trains counts. Sources: Carter and Crovella 1996
 * (trains); Dovrolis, Ramanathan and Moore 2004 (modes, batches); Bickel 2002 (half-sample mode).
 *
 * An echo cannot see the faster direction. Of a token bucket larger than the budget it sees the peak rate. What other
 * traffic leaves shows in up to four stretches of echoes at a pace, on paths from 2 Mbit/s to some 500: with
 * AUTOBUF_PROBE_AVAILABLE they follow, within the same budget, and take at most 2 s and 8 RTT more.
 *
 * Each run has a random token. Replies must carry it, and ICMP errors must quote it, so a host off the path can
 * neither feed the run numbers nor stop it. If an error makes packets smaller in mid-run, the rates are lower
 * bounds. The run ignores replies that are foreign, duplicate, truncated or late, and copes with reordered ones.
 */
struct autobuf_probe;
struct autobuf_available; /* <autobuf/available.h> */

/* Flags of struct autobuf_probe_options. */
#define AUTOBUF_PROBE_AVAILABLE 1U /* afterwards, try what is free, with what the budget has left */

struct autobuf_probe_options {
    uint32_t size;
    uint32_t packet_bytes;         /* largest IP packet to send, 128 to 1500; 0: what the path takes */
    uint32_t budget_bytes;         /* most IP bytes to send, 1,000 to 1,000,000; 0: 1,000,000 */
    uint32_t mark;                 /* SO_MARK of the echoes, needs CAP_NET_ADMIN; 0: none */
    uint64_t timeout_ns;           /* most time for the run, at most 2 s; 0: 2 s. A run ends at the
                                      latest 1 s + 2 RTT after its start, or 1 s if nothing answers */
    uint64_t bdp_low_bytes;        /* only a product above this and below bdp_high_bytes matters, in IP
                                      bytes. The run stops once the product is certainly outside this
                                      range, or once the first train gives a clear answer: usually
                                      after one round trip. Both 0: every product matters */
    uint64_t bdp_high_bytes;       /* see bdp_low_bytes */
    uint64_t silence_ns;           /* the run gives up if nothing answers for so long, at most 1 s;
                                      0: 1 s */
    const struct sockaddr *source; /* address to send from; NULL: the kernel chooses */
    autobuf_log_fn *log;           /* is told how the run goes; NULL: none */
    void *log_user;
    char device[16];               /* device to send from; "": the kernel chooses */
    uint32_t source_len;           /* length of *source in bytes */
    uint32_t flags;                /* AUTOBUF_PROBE_* */
};

#define AUTOBUF_PROBE_OPTIONS_INIT AUTOBUF_INIT(autobuf_probe_options)

/*
 * Opens a measurement of the path to peer, an IPv4 or IPv6 address whose port is ignored. options may be NULL. It
 * opens a ping socket; where net.ipv4.ping_group_range forbids that, a raw socket, and raises CAP_NET_RAW for this
 * one call if the process may. The handle allocates all its memory now.
 *
 * Returns 0; close *probe later. -EACCES: neither socket is permitted; -EAFNOSUPPORT: peer is of another family;
 * -EINVAL: an option is out of range, or a pointer is NULL; -ENOMEM; -EAGAIN: the kernel has no random numbers yet,
 * just after the host was started; -EADDRNOTAVAIL, -ENETUNREACH and other errnos of socket(2), setsockopt(2), bind(2)
 * and connect(2).
 */
AUTOBUF_API int autobuf_probe_open(struct autobuf_probe **probe, const struct sockaddr *peer,
                                   socklen_t peer_len, const struct autobuf_probe_options *options);

/* The descriptor to poll. It stays the same for the life of the handle. -EINVAL: NULL. */
AUTOBUF_API int autobuf_probe_fd(const struct autobuf_probe *probe);

/* The events (POLLIN, POLLOUT) to poll it for until the next step(). */
AUTOBUF_API int autobuf_probe_events(const struct autobuf_probe *probe);

/* The time at which to call step() even if no event came. */
AUTOBUF_API uint64_t autobuf_probe_deadline_ns(const struct autobuf_probe *probe);

/*
 * Receives what has arrived, and sends what is due at now_ns. It does not block.
 *
 * Returns 0: call again at the deadline, or when fd is ready; 1: the measurement is finished, call
 * autobuf_probe_result(). -EHOSTUNREACH, -ENETUNREACH, -EHOSTDOWN, -ECONNREFUSED: the network reported this before
 * any reply came; AUTOBUF_E_NOREPLY: nothing answered in time; AUTOBUF_E_FORKED; other
 * errnos of sendmmsg(2) and recvmmsg(2). After a failure the handle can only be closed.
 */
AUTOBUF_API int autobuf_probe_step(struct autobuf_probe *probe, uint64_t now_ns);

/*
 * Fills *path with what is known so far; after the last step that is the result. The caller has set path->size.
 * Returns 0; AUTOBUF_E_NOREPLY: nothing is known; AUTOBUF_E_FEW: the round-trip time is known, but too few adjacent
 * replies came to compute a rate, and the rates are 0.
 */
AUTOBUF_API int autobuf_probe_result(const struct autobuf_probe *probe, struct autobuf_path *path);

struct autobuf_probe_progress {
    uint32_t size;
    uint32_t trains;           /* trains begun, not counting the small echoes */
    uint32_t sent_packets;
    uint32_t received_packets; /* replies that belong to this run */
    uint64_t cost_bytes;       /* IP bytes sent so far */
    uint64_t elapsed_ns;       /* from the opening to the newest reply, or to the end */
};

#define AUTOBUF_PROBE_PROGRESS_INIT AUTOBUF_INIT(autobuf_probe_progress)

/*
 * Fills *progress: how far the measurement is. 0; -EINVAL: progress->size is too small to hold anything, or NULL.
 */
AUTOBUF_API int autobuf_probe_progress(const struct autobuf_probe *probe, struct autobuf_probe_progress *progress);

/*
 * Writes the readings from which the rate was chosen, in bit/s, to rates, at most cap of them. rates may be NULL.
 * Returns how many readings there are; 0 if the trains gave only a lower bound. A histogram can be drawn from them.
 */
AUTOBUF_API size_t autobuf_probe_rates(const struct autobuf_probe *probe, uint64_t *rates, size_t cap);

/*
 * Fills *available with what the stretches of AUTOBUF_PROBE_AVAILABLE have shown so far, the same values for both
 * directions (AUTOBUF_AVAILABLE_ECHOED). The caller has set available->size. Returns 0; -EINVAL: NULL, or a size.
 */
AUTOBUF_API int autobuf_probe_available(const struct autobuf_probe *probe, struct autobuf_available *available);

/* Closes the handle. NULL is allowed. */
AUTOBUF_API void autobuf_probe_close(struct autobuf_probe *probe);

/*
 * Does open, step until finished, result and close in one call. It blocks for at most 1 s plus two round trips, and
 * never for more than 2 s; with AUTOBUF_PROBE_AVAILABLE for 2 s and 8 RTT more. Errors: those of open(), step() and
 * result(). With AUTOBUF_E_FEW *path holds the round-trip time.
 */
AUTOBUF_API int autobuf_probe(const struct sockaddr *peer, socklen_t peer_len,
                              const struct autobuf_probe_options *options,
                              struct autobuf_path *path);

#ifdef __cplusplus
}
#endif

#endif

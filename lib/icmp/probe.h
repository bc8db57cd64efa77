/* SPDX-License-Identifier: MIT */
#ifndef AB_PROBE_H
#define AB_PROBE_H

#include "schedule.h"

/*
 * Opens a handle without a socket, of which the schedule tells what to send: for simulations. family: AF_INET or
 * AF_INET6; now_ns: on a clock of the caller's choice. deadline_ns(), result(), progress(), rates() and close() take
 * this handle, too. 0; -EINVAL: an option; -ENOMEM.
 */
int ab_probe_open_pure(struct autobuf_probe **probe, int family, uint16_t ident, const uint8_t token[16],
                       uint64_t now_ns, const struct autobuf_probe_options *options);
struct ab_schedule *ab_probe_schedule(struct autobuf_probe *probe);

/*
 * Does what autobuf_probe_open() does, from the socket's own source address and device, and with its mark unless
 * the options have one.
 */
int ab_probe_open_like(struct autobuf_probe **probe, int fd, const struct sockaddr *peer,
                       socklen_t peer_len, const struct autobuf_probe_options *options);

/*
 * Returns the result of a finished probe, and closes it. Unlike autobuf_probe_result() it takes AUTOBUF_E_FEW as
 * success: too few replies came to compute a rate, but the RTT is useful.
 */
int ab_probe_conclude(struct autobuf_probe *probe, struct autobuf_path *path);

/* autobuf_probe() with these two differences. Blocks. */
int ab_probe_like(int fd, const struct sockaddr *peer, socklen_t peer_len,
                  const struct autobuf_probe_options *options, struct autobuf_path *path);

/*
 * Opens a non-blocking, close-on-exec ICMP socket: a ping socket, or else a raw one (*raw). For a raw one it raises
 * CAP_NET_RAW for this one call, if it is permitted but not effective. No other place in the library uses a
 * capability. -EACCES: neither socket is permitted; other errnos of socket(2).
 */
int ab_privilege_icmp_socket(int family, bool *raw);

#endif

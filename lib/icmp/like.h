/* SPDX-License-Identifier: MIT */
#ifndef AB_LIKE_H
#define AB_LIKE_H

#include <sys/socket.h>

#include "../base/base.h"

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

#endif

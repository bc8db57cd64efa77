/* SPDX-License-Identifier: MIT */
#ifndef AB_LIKE_H
#define AB_LIKE_H

#include <sys/socket.h>

#include "../base/base.h"

/*
 * autobuf_probe_open() on the way that a socket's packets take: from its source address and device, with its
 * mark unless the options have one.
 */
int ab_probe_open_like(struct autobuf_probe **probe, int fd, const struct sockaddr *peer,
                       socklen_t peer_len, const struct autobuf_probe_options *options);

/*
 * The result of a probe that is finished, and closes it. As autobuf_probe_result(), but AUTOBUF_E_FEW is
 * success: too few answers came for a rate, on purpose or not, and the round-trip time still tells something.
 */
int ab_probe_conclude(struct autobuf_probe *probe, struct autobuf_path *path);

/* All of it, blocking: autobuf_probe() with these two differences. */
int ab_probe_like(int fd, const struct sockaddr *peer, socklen_t peer_len,
                  const struct autobuf_probe_options *options, struct autobuf_path *path);

#endif

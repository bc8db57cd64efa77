/* SPDX-License-Identifier: MIT */
#ifndef AB_LIKE_H
#define AB_LIKE_H

#include <sys/socket.h>

#include "../base/base.h"

/*
 * autobuf_probe() on the way that a socket's packets take: from its source address and device, with its
 * mark unless the options have one. As autobuf_probe(), but AUTOBUF_E_FEW is success: too few answers for
 * a rate, on purpose or not; the round-trip time still tells something.
 */
int ab_probe_like(int fd, const struct sockaddr *peer, socklen_t peer_len,
                  const struct autobuf_probe_options *options, struct autobuf_path *path);

#endif

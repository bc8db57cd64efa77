/* SPDX-License-Identifier: MIT */
/*
 * The two parts of autobuf_inband_prepare(), for the exchange on a socket. They are declared here, so that every
 * room may call them; otherwise only lib/apply/ sets an option on a caller's socket.
 */
#ifndef AB_PREPARE_H
#define AB_PREPARE_H

#include <stdint.h>

/* What a socket had before. */
struct ab_prepared {
    uint64_t cookie;
    int options; /* for autobuf_inband_restore(); below 0: nothing was changed */
    int low_water;
};

/*
 * Switches stamps on, the delay of short lines off, and has poll() say when a single byte is there. Returns 0, or -errno
 * with the socket as it was.
 */
int ab_prepare(int fd, struct ab_prepared *before);

/* Puts it back, unless the descriptor is another socket by now. */
void ab_restore_prepared(int fd, const struct ab_prepared *before);

/* Opens the receive window far enough for a train, unless AUTOBUF=off. */
void ab_open_window(int fd);

#endif

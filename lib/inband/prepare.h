/* SPDX-License-Identifier: MIT */
/*
 * The two parts of autobuf_inband_prepare(). Any room may call them; otherwise only lib/apply/ sets an option on a
 * caller's socket.
 */
#ifndef AB_PREPARE_H
#define AB_PREPARE_H

#include <stdint.h>

struct ab_prepared {
    uint64_t cookie;
    int options; /* for autobuf_inband_restore(); below 0: nothing was changed */
    int low_water;
};

/*
 * Sets SO_TIMESTAMPING, TCP_NODELAY and a SO_RCVLOWAT of one byte. Returns 0, or -errno with the socket as it was.
 */
int ab_prepare(int fd, struct ab_prepared *before);

/* Restores them, unless the descriptor is another socket now. */
void ab_restore_prepared(int fd, const struct ab_prepared *before);

/* Opens the receive window far enough for a train, unless AUTOBUF=off. */
void ab_open_window(int fd);

#endif

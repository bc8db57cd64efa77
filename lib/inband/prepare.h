/* SPDX-License-Identifier: MIT */
/*
 * autobuf_inband_prepare() in its two parts, for the exchange on a socket. Declared here, where every room may
 * see it; lib/apply/ alone sets an option on a caller's socket.
 */
#ifndef AB_PREPARE_H
#define AB_PREPARE_H

/* Stamps, and no delay of short lines: what autobuf_inband_restore() takes, or -errno. */
int ab_prepare(int fd);

/* The receive window opens as far as a train is long, unless AUTOBUF=off. */
void ab_open_window(int fd);

#endif

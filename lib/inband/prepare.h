/* SPDX-License-Identifier: MIT */
/*
 * The two parts of autobuf_inband_prepare(), for the exchange on a socket. They are declared here, so that every
 * room may call them; otherwise only lib/apply/ sets an option on a caller's socket.
 */
#ifndef AB_PREPARE_H
#define AB_PREPARE_H

/* Switches stamps on, and the delay of short lines off. Returns what autobuf_inband_restore() takes, or -errno. */
int ab_prepare(int fd);

/* Opens the receive window far enough for a train, unless AUTOBUF=off. */
void ab_open_window(int fd);

#endif

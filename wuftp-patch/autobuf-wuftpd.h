/* SPDX-License-Identifier: MIT */
/*
 * The functions that wu-ftpd calls. They do nothing without a session: before autobuf_wu_open(), if that failed,
 * and if ftpaccess sets tcpwindow, because the administrator decides.
 */
#ifndef AUTOBUF_WUFTPD_H
#define AUTOBUF_WUFTPD_H

#include <sys/types.h>

struct sockaddr_in;

/* Call it when a login has succeeded, before the chroot: limits are read from /proc. A second call does nothing. */
void autobuf_wu_open(void);

/*
 * Answers SITE AUTOBUF of a user who is logged in, to the end of the exchange, on descriptor 0. arg is what
 * followed the command, NULL for nothing. If the control connection cannot be used afterwards, the process ends.
 */
void autobuf_wu_site(const char *arg);

/* PASV: the data connection's listener, before listen(). */
void autobuf_wu_listen(int fd);

/* PORT: the data connection, before connect(). mode is wu-ftpd's: "w" sends to the client, "r" receives. */
void autobuf_wu_connect(int fd, const struct sockaddr_in *peer, const char *mode, off_t bytes);

/* The data connection is accepted or connected. bytes: of the file; -1: unknown. */
void autobuf_wu_connected(int fd, const char *mode, off_t bytes);

/* Call it in each turn of a loop that moves data. It blocks signals, so that no handler jumps out of it. */
void autobuf_wu_step(void);

/* The data connection is closed. */
void autobuf_wu_end(void);

#endif

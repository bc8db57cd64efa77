/* SPDX-License-Identifier: MIT */
/*
 * What wu-ftpd calls of libautobuf. All of it does nothing where there is no session with it: before
 * autobuf_wu_open(), where that failed, and where ftpaccess sets tcpwindow: the administrator wins.
 */
#ifndef AUTOBUF_WUFTPD_H
#define AUTOBUF_WUFTPD_H

#include <sys/types.h>

struct sockaddr_in;

/* A login succeeded: before the chroot, because limits are in /proc. A second call does nothing. */
void autobuf_wu_open(void);

/*
 * SITE AUTOBUF of a user who is logged in: the exchange is answered to its end on descriptor 0. arg is what stood
 * behind it, NULL for nothing. Where the control connection is out of step afterwards, this is the end of the process.
 */
void autobuf_wu_site(const char *arg);

/* PASV: the data connection's listener, before listen(). */
void autobuf_wu_listen(int fd);

/* PORT: the data connection, before connect(). mode is wu-ftpd's: "w" sends to the client, "r" receives. */
void autobuf_wu_connect(int fd, const struct sockaddr_in *peer, const char *mode, off_t bytes);

/* It is accepted, or connected. bytes: of the file; -1: unknown. */
void autobuf_wu_connected(int fd, const char *mode, off_t bytes);

/* At every turn of a loop that moves data. No signal's handler runs, or jumps out of it, meanwhile. */
void autobuf_wu_step(void);

/* The data connection is closed. */
void autobuf_wu_end(void);

#endif

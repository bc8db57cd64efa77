/* SPDX-License-Identifier: MIT */
/* What ssh, scp, sftp and sshd say of windows and buffers. */
#ifndef AUTOBUF_LOG_H
#define AUTOBUF_LOG_H

/*
 * Call it before any handle of libautobuf is opened. If AUTOBUF=log is in the environment, the lines of libautobuf go
 * to this program's log, and not to standard error past it.
 */
void autobuf_ssh_log_open(void);

/* Writes a line, with "autobuf: " before it: at LogLevel DEBUG, or at INFO if AUTOBUF=log is in the environment. */
void autobuf_ssh_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

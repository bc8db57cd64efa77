/* SPDX-License-Identifier: MIT */
/*
 * Writes to an SFTP file that do not wait for their answers, once a program has asked for it with
 * LIBSSH2_FLAG_SFTP_DELAYED_WRITES. It then has to heed what closing a file returns.
 */
#ifndef AUTOBUF_WRITE_H
#define AUTOBUF_WRITE_H

#include "libssh2_sftp.h"

/* Whether the next write to this file is of that kind. */
int autobuf_write_is_delayed(LIBSSH2_SFTP_HANDLE *handle);

/* As sftp_write(), but that it returns what was sent. An answer that is an error is told by the next call. */
ssize_t autobuf_write(LIBSSH2_SFTP_HANDLE *handle, const char *buffer, size_t count);

/* Waits for all answers. Returns 0, LIBSSH2_ERROR_EAGAIN, or an error of the connection. */
int autobuf_write_finish(LIBSSH2_SFTP_HANDLE *handle);

/* Returns rc, or if it is 0 the error of a write that nobody was told of yet. */
int autobuf_write_error(LIBSSH2_SFTP_HANDLE *handle, int rc);

void autobuf_write_free(LIBSSH2_SFTP_HANDLE *handle);

/* Of sftp.c: takes the answer to a request; and lets nobody wait for it any more. */
int autobuf_sftp_status(LIBSSH2_SFTP *sftp, uint32_t request_id, uint32_t *code);
void autobuf_sftp_forget(LIBSSH2_SFTP *sftp, uint32_t request_id);

#endif

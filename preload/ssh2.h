/* SPDX-License-Identifier: MIT */
/*
 * Programs that speak SFTP by libssh2, as curl does. It reads ahead in proportion to its caller's buffer. Here it reads
 * by a larger one.
 *
 * No byte is acknowledged that libssh2 has not acknowledged, and each error is returned by the call that libssh2 fails.
 */
#ifndef RUN_SSH2_H
#define RUN_SSH2_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SSH2_FUNCTIONS(X)                                                                                              \
    X(int, libssh2_session_handshake, (void *, int))                                                                   \
    X(int, libssh2_session_startup, (void *, int))                                                                     \
    X(int, libssh2_session_free, (void *))                                                                             \
    X(void *, libssh2_sftp_init, (void *))                                                                             \
    X(int, libssh2_sftp_shutdown, (void *))                                                                            \
    X(void *, libssh2_sftp_open_ex, (void *, const char *, unsigned, unsigned long, long, int))                        \
    X(void *, libssh2_sftp_open_ex_r, (void *, const char *, size_t, unsigned long, long, int, void *))                \
    X(int, libssh2_sftp_close_handle, (void *))                                                                        \
    X(ssize_t, libssh2_sftp_read, (void *, char *, size_t))                                                            \
    X(void, libssh2_sftp_seek, (void *, size_t))                                                                       \
    X(void, libssh2_sftp_seek64, (void *, uint64_t))                                                                   \
    X(size_t, libssh2_sftp_tell, (void *))                                                                             \
    X(uint64_t, libssh2_sftp_tell64, (void *))

#define SSH2_EXPORT(type, name, parameters) __attribute__((visibility("default"))) type name parameters;
SSH2_FUNCTIONS(SSH2_EXPORT)

/* In a forked child. */
void run_ssh2_forked(void);

#endif

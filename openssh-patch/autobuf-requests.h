/* SPDX-License-Identifier: MIT */
/*
 * The functions that scp and sftp call: how many SFTP requests to keep outstanding. They are apart from
 * autobuf-ssh.h, because those programs are not linked with the SSH protocol.
 */
#ifndef AUTOBUF_REQUESTS_H
#define AUTOBUF_REQUESTS_H

#include <sys/types.h>

#include <stddef.h>
#include <stdint.h>

#include <autobuf/error.h>

#include "autobuf-ahead.h"

/* An option for ssh, as -o takes it: with "AutoBuffer no" the requests stay as they are without us. */
void autobuf_requests_option(const char *text);

/* Says whether such an option was given, or AUTOBUF=off is in the environment. */
int autobuf_requests_off(void);

/* --------------------------------------------------------------- how many are outstanding */

struct autobuf_requests;

/*
 * For a connection that reads from descriptor fd: requests of bytes each are outstanding at first, never fewer, and
 * 2,048 at most: a server chooses how small a request is, and each is kept in a list. NULL: switched off, or no
 * memory. What is returned stays until another connection has the same descriptor.
 */
struct autobuf_requests *autobuf_requests_open(int fd, u_int requests, u_int bytes);

/*
 * Returns how many requests of request_bytes to begin a file with, if left_bytes (not 0) are known to come. This
 * includes the request for the end of the file.
 */
u_int autobuf_requests_first(const struct autobuf_requests *q, uint64_t left_bytes, u_int request_bytes);

/* Reports that a small request, sent at sent_ns, was answered. NULL is allowed. */
void autobuf_requests_rtt(struct autobuf_requests *q, uint64_t sent_ns);

/*
 * Reports that data of a request that was sent at *sent_ns has come, or was acknowledged; *sent_ns becomes the
 * present, for what is asked again. Returns how many requests of request_bytes may be outstanding from now on.
 */
u_int autobuf_requests_done(struct autobuf_requests *q, uint64_t *sent_ns, size_t bytes,
    u_int request_bytes);

#endif

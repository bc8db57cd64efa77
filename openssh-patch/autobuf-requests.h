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
 * Returns how many requests of request_bytes to begin a file with. If its size is known, and the first is at offset,
 * this includes the request for its end. Else 1, as with NULL.
 */
u_int autobuf_requests_first(const struct autobuf_requests *q, uint64_t offset, uint64_t size,
    u_int request_bytes);

/*
 * A request for so many bytes at an offset ends with the file, so that it can be answered in full. Returns the offset
 * of the next one.
 */
uint64_t autobuf_requests_end(const struct autobuf_requests *q, uint64_t offset, uint64_t size, size_t *bytes);

/*
 * A reply to a request for data has come; msg holds what is behind its type and number. The end of a file is asked for
 * early, and may come behind an error, which then counts: *status, the last one of this file that was no end.
 */
struct sshbuf;
void autobuf_requests_status(u_int *status, u_char type, struct sshbuf *msg);

/* Says whether the reply that was got last is one to a request that was sent early: its time tells nothing. */
void autobuf_requests_early(int is_early);

/* A small request is sent; it was answered. NULL is allowed, also below. */
void autobuf_requests_asked(struct autobuf_requests *q);
void autobuf_requests_answered(struct autobuf_requests *q);

/*
 * Reports that data of a request that was sent at *sent_ns has come, or was acknowledged; *sent_ns becomes the
 * present, for what is asked again. *requests is how many of request_bytes may be outstanding from now on.
 */
void autobuf_requests_done(struct autobuf_requests *q, uint64_t *sent_ns, size_t bytes, u_int request_bytes,
    u_int *requests);

#endif

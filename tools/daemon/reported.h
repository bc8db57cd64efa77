/* SPDX-License-Identifier: MIT */
/*
 * What programs that use the library have learned, and hand to the daemon: one datagram, one entry of the path store.
 * The kernel says who sent it.
 */
#ifndef REPORTED_H
#define REPORTED_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "keep.h"
#include "config.h"

#define REPORTED_MOST 64U    /* datagrams that one step reads */
#define REPORTED_PER_S 100U  /* entries of one user that are taken in a second */
#define REPORTED_HOLDS_S 86400U

struct reported;

/*
 * Takes what comes at a socket of this name, which is made, and gives it to *keep, which must live as long. Root and
 * this process's user are believed, and those of *believed, who get permission to write there. 0; 1: these get none,
 * for the file system knows no access control lists; -ENOMEM; errors of socket_file_open().
 */
int reported_open(struct reported **reported, const char *file, const struct believed *believed, struct keep *keep);

/*
 * Whether a program may say so; if it may, for at most a day from now on: of one host, measured or seen, and no setting
 * of an administrator's.
 */
bool reported_check(struct autobuf_paths_entry *entry, uint64_t now_s);

/* As status_poll(): at most one. NULL is allowed here and below. */
size_t reported_poll(const struct reported *reported, struct pollfd *fds, uint64_t now_ns, uint64_t *until_ns);

/* Takes what has come, within its part of the processor's time. */
void reported_step(struct reported *reported, uint64_t now_ns);

void reported_close(struct reported *reported);

#endif

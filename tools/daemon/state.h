/* SPDX-License-Identifier: MIT */
/*
 * What was set on other programs' sockets, and how these were before, in a file that outlives the daemon: for
 * autobufd --undo.
 */
#ifndef STATE_H
#define STATE_H

#include <autobuf/autobuf.h>

#include "broker.h"

/* A socket, as it was. */
struct noted {
    uint64_t cookie;
    struct autobuf_settings settings;
    char control[BROKER_CONTROL_BYTES]; /* its congestion control; "": that was not changed */
    /* its program's SO_MAX_PACING_RATE, which a daemon lowers, or did when it was killed; 0: none did */
    uint64_t own_byte_per_s;
};

struct state {
    char *file; /* NULL: nothing is kept */
    int fd;           /* locked as long as it is open */
    struct noted *noted; /* by cookie */
    struct raised raised[RAISE_SIDES];
    size_t count, room;
    size_t lines;      /* in the file */
    size_t lines_most; /* then those go that are of no more use */
};

/*
 * Opens the file, which is made if it is not there, and reads it. What another boot of this host has left is dropped,
 * and so is a line that was written in part. 0; -EWOULDBLOCK: an autobufd has it open; -EXDEV: it was written in
 * another network namespace; -EBADMSG: it is no such file, or of another version; -EPERM: it or its folder is another
 * user's (for root: neither root's nor the service's), or others may write to it; -ENOMEM; errors of open(2). After an
 * error nothing is kept, and state_keep() says 0.
 */
int state_open(struct state *state, const char *file);

/*
 * Keeps that a socket that is kept is paced from now on, and the rate that its program allows; 0: it is not paced any
 * more.
 */
void state_paced(struct state *state, uint64_t cookie, uint64_t own_byte_per_s);

/* Keeps that a limit of the namespace is raised from now on, or not any more. 0; errors of write(2), after which
 * nothing is kept. */
int state_raised(struct state *state, unsigned side, const struct raised *raised);

/* What the socket was before; NULL: it was not changed. */
const struct noted *state_find(const struct state *state, uint64_t cookie);

/*
 * Keeps how a socket was. What is kept of it already stays, unless anew is set; a congestion control is added to it. 0;
 * -ENOMEM; errors of write(2), after which nothing is kept.
 */
int state_keep(struct state *state, const struct noted *noted, bool anew);

/* Whether the file has grown so much that state_retain() is worth its time. */
bool state_is_long(const struct state *state);

/*
 * Keeps only those that want() wants, which is asked once for each, by cookie, and replaces the file. 0; errors of
 * open(2), write(2) and rename(2).
 */
int state_retain(struct state *state, bool (*want)(void *user, uint64_t cookie), void *user);

/* The file stays. */
void state_close(struct state *state);

#endif

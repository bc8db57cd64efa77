/* SPDX-License-Identifier: MIT */
/*
 * Sockets of the daemon's own in the file system, the one where others ask for its state, and what systemd is told. No
 * call waits, and no client costs more than its bounds.
 */
#ifndef STATUS_H
#define STATUS_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* A unix socket. */
struct socket_file {
    char name[sizeof((struct sockaddr_un *)NULL)->sun_path];
    dev_t device; /* to know it again */
    ino_t inode;
};

/*
 * Makes a socket of a type (SOCK_STREAM, which then listens, or SOCK_DGRAM), that those may use whom the mode allows
 * to. What another daemon has left there is replaced. A descriptor, which is not to block; -ENAMETOOLONG; -EEXIST: the
 * place holds something else; -EADDRINUSE: somebody listens there; errors of socket(2), bind(2) and rename(2).
 */
int socket_file_open(struct socket_file *file, const char *name, int type, mode_t mode);

/* Removes it, if it is still the one that was made. */
void socket_file_remove(const struct socket_file *file);

#define STATUS_CLIENTS 8U /* more wait until one has gone */
#define STATUS_FDS (STATUS_CLIENTS + 1)
#define STATUS_REQUEST_BYTES 1024U
#define STATUS_NS 2000000000ULL /* that a client may stay */

enum status_page { STATUS_METRICS, STATUS_FLOWS };

/* Prints a page. */
typedef void status_page_fn(void *user, enum status_page page, FILE *out);

struct status;

struct status_counts {
    uint64_t answered, dropped; /* clients */
    uint64_t cpu_ns;
};

/* A request as far as it has come. 0: it is not whole yet; 200, and *page; else the answer's number: 400, 404, 405. */
int status_parse(const char *text, size_t length, enum status_page *page);

/*
 * Listens on the file. One that another program has left is replaced in one step. 0; -EADDRINUSE: another program
 * answers there; -EEXIST: it is no socket; -ENAMETOOLONG; -ENOMEM; errors of bind(2), chmod(2) and rename(2).
 */
int status_open(struct status **status, const char *file, status_page_fn *print, void *user);

/*
 * What to wait for, and until when at the latest, if that is sooner. Returns how many, at most STATUS_FDS. status may
 * be NULL, here and below.
 */
size_t status_poll(const struct status *status, struct pollfd *fds, uint64_t now_ns, uint64_t *until_ns);

/* Takes clients in, reads, answers, drops those whose time is over. Call it when one of the descriptors is ready. */
void status_step(struct status *status, uint64_t now_ns);

struct status_counts status_counts(const struct status *status);

/* Removes the file if it is still this socket's. */
void status_close(struct status *status);

/*
 * Tells systemd lines such as "READY=1\nSTATUS=...", by the protocol of sd_notify(3), without its library. where: the
 * value of NOTIFY_SOCKET: a path, or @ and a name; NULL, or anything else: nobody asks. Never waits. 0, also if nobody
 * asks; errors of socket(2) and sendto(2).
 */
int notify_say(const char *where, const char *lines);

/* "RELOADING=1" with the time on the monotonic clock that systemd wants beside it. */
int notify_reloading(const char *where, uint64_t now_ns);

#endif
